package netio

import (
	"runtime"
	"time"
)

// Wait is how long a turn may wait for something to do.
type Wait time.Duration

const (
	// NoWait: do what there is and return.
	NoWait Wait = 0
	// Forever: wait until there is something to do.
	Forever Wait = -1
)

const never = time.Duration(1<<63 - 1)

// Turn does what there is to do, once round: posted functions, timers, sources, sockets that can be read, then flushes. If
// there was nothing it waits for at most w, first polling and then in the kernel, and does what came. It reports whether
// there was anything. While it sleeps others may take the token and run turns; it holds it again when it returns.
// Holder of the token.
func (l *Loop) Turn(w Wait) (worked bool) {
	if l.work() {
		return true
	}
	if w == NoWait {
		return false
	}
	if l.spin(l.pollFor(), nil) {
		return true
	}
	limit := never
	if w > 0 {
		limit = time.Duration(w)
	}
	return l.sleep(nil, nil, nil, limit, false)
}

// work is one round without waiting.
func (l *Loop) work() (worked bool) { return l.round(pollKernel) }

// What a round asks the kernel for.
const (
	pollLast   = -2 // nothing: the socket that brought data last is read from, without asking whether it has something
	noKernel   = -1 // nothing: the caller is about to sleep in it
	pollKernel = 0  // what is ready; a positive number is that of the events that a sleep has brought
)

// nowAndThen is what to ask the kernel for in a turn that need not: each kernelEvery such turns ask it.
func (l *Loop) nowAndThen() int {
	if l.unasked < kernelEvery-1 {
		return noKernel
	}
	return pollKernel
}

func (l *Loop) round(events int) (worked bool) {
	l.check.assertHeld()
	l.turns.Store(l.turns.Load() + 1)
	l.nowOK = false
	if l.kicked.Load() != 0 {
		l.kicked.Store(0) // before the sources are polled: who raised it has published
	}
	l.sysTakeWakeup()
	if l.runPosts() {
		worked = true
	}
	if l.inbox.count.Load() != 0 {
		l.attend()
		worked = true
	}
	if len(l.timers) > 0 && l.runTimers() {
		worked = true
	}
	for _, s := range *l.sources.Load() {
		if s.Poll() {
			worked = true
		}
	}
	switch {
	case events >= pollKernel:
		l.unasked = 0
	case events == noKernel:
		l.unasked++
	}
	switch {
	case events > 0:
		l.sysHandle(events)
		worked = true
	case events == pollKernel && l.sysPoll():
		worked = true
	case events == pollLast && l.sysReadLast():
		worked = true
	}
	if l.settle() {
		worked = true
	}
	if worked {
		l.sysBusy()
	}
	if len(l.raised) > 0 {
		l.lowatIdle(worked)
	}
	return worked
}

// settle ends a round: flushes, and OnClose of what was closed.
func (l *Loop) settle() (worked bool) {
	if len(l.dirty) > 0 {
		l.flushDirty()
		worked = true
	}
	for len(l.gone) > 0 {
		l.gone, l.reporting = l.reporting[:0], l.gone
		for i, c := range l.reporting {
			l.reporting[i] = nil
			c.reportClosed()
		}
		worked = true
	}
	return worked
}

// runPosts runs posted functions, a bounded number.
func (l *Loop) runPosts() (worked bool) {
	for range postsPerTurn {
		f, ok := l.posts.Pop()
		if !ok {
			break
		}
		f()
		worked = true
	}
	return worked
}

// pollFor returns how long an idle loop polls.
func (l *Loop) pollFor() time.Duration {
	if l.oneP {
		return 0
	}
	if l.cfg.Dedicated {
		return 4 * l.cfg.Poll // it polls rather than sleeps while data flows
	}
	return l.cfg.Poll
}

// peekIdle is how long polling goes on in vain before what was seen in sockets is taken out of them; see conn_peek_linux.go.
const peekIdle = 15 * time.Microsecond

// lastTurns is in how many turns of polling the kernel is asked once, and not only the socket that brought data last.
const lastTurns = 4

// spin polls until there was something to do, ready is true or d has passed. Nil ready: never.
func (l *Loop) spin(d time.Duration, ready func() bool) (worked bool) {
	if d <= 0 {
		return false
	}
	start, idle := time.Since(l.base), time.Duration(0)
	for i := 1; ; i++ {
		sysYield() // lets a peer on the same CPU run
		ask := pollKernel
		if i%lastTurns != 0 && l.sysFew() {
			ask = pollLast
		} else {
			l.sysSettlePeeks(true)
		}
		if idle >= peekIdle {
			l.sysTakePeeks()
		}
		if l.round(ask) {
			return true
		}
		if ready != nil && ready() || l.closing.Load() {
			return true
		}
		if idle = time.Since(l.base) - start; idle >= d { // each time: where the CPU is not ours alone, one yield may take milliseconds
			l.lowerAll()
			return false
		}
		if i&63 == 0 {
			runtime.Gosched() // and a goroutine on the same P
		}
	}
}

// due returns when the loop has to run a turn although nothing arrives, as loop clock.
func (l *Loop) due() time.Duration {
	t := never
	if len(l.timers) > 0 {
		t = l.timers[0].at
	}
	if len(l.raised) > 0 {
		since := l.raisedIdle
		if since == 0 {
			since = l.clock()
		}
		t = min(t, since+lowatWait)
	}
	return t
}

// sleepTime turns a point of the loop's clock into a duration for a system call; negative means no limit.
func (l *Loop) sleepTime(until time.Duration) time.Duration {
	if until == never {
		return -1
	}
	return max(0, until-l.clock())
}
