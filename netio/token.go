package netio

import (
	"runtime"
	"time"
)

// The token, and who sleeps.
//
// One word says:
//
//	held     somebody runs a turn; the loop's state is theirs
//	watch    the standby waits in the kernel
//	asleep   how many callers of RunUntil or Turn wait in the kernel; they drive the loop
//
// Sleepers do not hold the token, so that a writer can run a turn (Kick) without waking anybody. A sleeper enters itself while
// it holds the token, looks at everything once more, gives up the token and only then sleeps. Who makes work visible and
// then loads the word (Wake) therefore either sees it, and wakes the sleeper, or the work was seen by that last look:
// all of these are sequentially consistent. A wake-up is remembered by the loop's descriptor until a turn takes it.
//
// Work that becomes visible while the token is held by somebody about to leave may wait for the next turn. Kick does not
// leave it at that: it raises `kicked`, and who gives up the token looks at it after. Nor do Post and attention of a connection.
// Wake does: the item is seen in the next turn, and the standby runs one if nobody else does within LoopConfig.Standby.
const (
	held     = 1 << 0
	watch    = 1 << 1
	oneSleep = 1 << 8
	asleep   = ^uint32(oneSleep - 1)
)

// TryAcquire takes the token if it is free. It costs one compare-and-swap. The new holder sees everything that earlier holders
// did. Any goroutine that does not hold it.
func (l *Loop) TryAcquire() bool {
	for {
		s := l.state.Load()
		if s&held != 0 {
			return false
		}
		if l.state.CompareAndSwap(s, s|held) {
			l.check.acquired()
			return true
		}
	}
}

// Release gives up the token. If others wait to run turns, or a turn was asked for meanwhile, it sees to that.
func (l *Loop) Release() { l.release(false, 0) }

// release is Release; back means that the holder is a consumer that is likely to come back soon. Then those that follow it go on following, as
// a hand-over costs more than a short wait; the standby wakes them if it does not come. follows is a count of Loop.follows: if somebody came to
// follow since it was taken, all are woken all the same.
func (l *Loop) release(back bool, follows uint64) {
	for {
		l.passOn(back && l.cfg.Standby > 0, follows)
		// A Kick that found the token held relies on us.
		if l.kicked.Load() == 0 || !l.TryAcquire() {
			return
		}
		l.Turn(NoWait)
	}
}

// passOn gives up the token and tells whoever has to know.
func (l *Loop) passOn(back bool, follows uint64) {
	late := l.sleepersLate()
	l.check.released()
	s := l.state.And(^uint32(held)) &^ held
	if s&(asleep|watch) != 0 {
		if late || l.unseen() {
			l.sysInterrupt()
		}
		if s&asleep != 0 {
			return // a driver is there, asleep
		}
	} else if l.unseen() || l.resters.n.Load() != 0 {
		l.pokeStandby()
	}
	if !back || l.follows.Load() != follows { // who came since has seen us, or sees now that nobody is here
		l.followers.wake()
	}
	if l.parked.Load() != 0 {
		l.pokeStandby()
	}
}

// unseen tells whether something arrived that a turn has to handle and nobody was woken for.
func (l *Loop) unseen() bool { return l.inbox.count.Load() != 0 || !l.posts.Empty() }

// sleepersLate tells whether those that sleep in the kernel would sleep past the next thing that is due: the holder armed an
// earlier timer, raised SO_RCVLOWAT or leaves a connection that has more to write.
func (l *Loop) sleepersLate() bool {
	s := l.state.Load()
	if s&(asleep|watch) == 0 {
		return false
	}
	if len(l.dirty) > 0 || len(l.gone) > 0 {
		return true
	}
	until := l.watchUntil
	if s&asleep != 0 {
		until = l.sleepUntil
	}
	return l.due() < until
}

// acquire takes the token, waiting as long as others run turns. For those that must not go on without it; it has no limit, as
// turns are short, and is not for use by a handler.
func (l *Loop) acquire() {
	for i := 0; !l.TryAcquire(); i++ {
		switch {
		case i < 64:
			runtime.Gosched()
		default:
			time.Sleep(min(time.Duration(i-63)*20*time.Microsecond, time.Millisecond))
		}
	}
}

// acquireOrAsk takes the token if it is free, or else asks for another turn, which the holder runs before it gives up the token (release).
func (l *Loop) acquireOrAsk() bool {
	if l.TryAcquire() {
		return true
	}
	l.kicked.Store(1)
	return l.TryAcquire()
}

// acquireSpin is a short attempt at acquire. Where others follow, there is a driver that stays.
func (l *Loop) acquireSpin() bool {
	for i := 0; ; i++ {
		if l.TryAcquire() {
			return true
		}
		if i == 8 || l.followers.n.Load() != 0 {
			return false
		}
		runtime.Gosched()
	}
}

// Wake sees to it that something that was just made visible (an item in a source's ring) is found although the loop may be
// asleep. It costs two atomic loads while nobody sleeps. If nobody runs turns, the standby does so within
// LoopConfig.Standby, or at once for those that rest (rest.go); callers that cannot wait call Kick. It does nothing after Close. Any goroutine.
func (l *Loop) Wake() {
	switch {
	case l.state.Load()&(asleep|watch) != 0:
		l.sysInterrupt()
	case l.resters.n.Load() != 0:
		l.pokeStandby()
	}
}

// nudge is Wake for rare things that should not wait for the next turn: if nobody runs one, the standby does, at once.
func (l *Loop) nudge() {
	switch s := l.state.Load(); {
	case s&(asleep|watch) != 0:
		l.sysInterrupt()
	case s&held == 0:
		l.pokeStandby()
	}
}

func (l *Loop) pokeStandby() {
	select {
	case l.poke <- struct{}{}:
	default:
	}
}

// kernelEvery is for how many turns of those that need not ask the kernel it is asked once: those of Kick, and of who will ask by sleeping.
const kernelEvery = 4

// Kick runs a turn that does not block, so that what a writer just published goes out. If another goroutine runs turns, that
// one does it. Any goroutine; within a turn it does nothing but ask for another one.
func (l *Loop) Kick() {
	if l.cfg.Dedicated {
		l.Wake()
		return
	}
	follows := l.follows.Load()
	if !l.acquireOrAsk() {
		return
	}
	// Each turn writes about BatchBytes a connection; what is left after some goes to others. What arrives is for those that wait: a writer looks
	// at it now and then only, so that one that never waits gets its credit.
	for range 8 {
		if l.round(l.nowAndThen()); len(l.dirty) == 0 {
			break
		}
	}
	if len(l.dirty) > 0 && l.state.Load()&(asleep|watch) == 0 {
		l.pokeStandby()
	}
	// Who followed before goes on following the driver that is away for the moment; who came during these turns took us for one. Of one
	// that came at the moment when they began nobody knows which, and it may wait for the standby's next look, which is within followStep.
	l.release(true, follows)
}
