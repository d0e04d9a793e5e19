package netio

import (
	"runtime"
	"time"
)

// The standby takes the turns over when nobody has run one for LoopConfig.Standby, because the wire must not block while a
// consumer is busy. It is in one of three states:
//
//	rest    others run turns, or did so lately. It looks at the count of turns once per interval.
//	parked  a consumer holds the token or sleeps as the loop's driver, so it is responsible. Woken when that one leaves.
//	serve   it runs turns and sleeps in the kernel, as a consumer would, but without calling itself the driver.
//
// In serve it holds the token only while there is something to do. A consumer that comes back finds the token free, and the
// standby goes to rest at the next event, by which it learns of that.
func (l *Loop) standby() {
	defer l.own.Done()
	timer := time.NewTimer(l.cfg.Standby)
	defer timer.Stop()
	for {
		seen, drives := l.turns.Load(), l.drives.Load()
		poked := false
		// Where consumers wait for a driver that left with something to do, they wait for a look of ours at most.
		if timer.Reset(l.cfg.Standby); l.followers.n.Load() != 0 {
			timer.Reset(min(l.cfg.Standby, followStep))
		}
		select {
		case <-timer.C:
		case <-l.poke:
			poked = true
		case <-l.quit:
			return
		}
		if poked {
			l.serve()
			continue
		}
		switch l.duty(seen, drives) {
		case toPark:
			if !l.park() {
				return
			}
		case toRouse:
			l.followers.wake() // one that followed drives now
		case toServe:
			l.serve()
		}
	}
}

// What the standby has to do after an interval.
const (
	toRest = iota
	toPark
	toRouse
	toServe
)

// duty says what the standby has to do, by how many turns and drives there were an interval ago.
func (l *Loop) duty(turns, drives uint64) int {
	waiting, here := l.followers.n.Load() != 0, l.state.Load()&(held|asleep) != 0
	if l.turns.Load() != turns && (!waiting || here || l.drives.Load() != drives) {
		return toRest // somebody runs turns; those of Kick, without a driver, help who follows now and then only
	}
	switch {
	case here:
		return toPark
	case waiting:
		return toRouse
	}
	return toServe
}

// park sleeps until who drives the loop leaves; false means that the loop is closed.
func (l *Loop) park() bool {
	l.parked.Store(1)
	defer l.parked.Store(0)
	if l.state.Load()&(held|asleep) == 0 {
		return true
	}
	select {
	case <-l.poke:
		return true
	case <-l.quit:
		return false
	}
}

// drivenFor is how long a standby that serves takes a consumer for one that will come back.
const drivenFor = time.Second

// serve runs turns until somebody else does.
func (l *Loop) serve() {
	since, drives := time.Duration(-1), uint64(0)
	for {
		if l.closing.Load() || l.state.Load()&asleep != 0 {
			return
		}
		if !l.acquireOrAsk() { // we may have been woken for something that the turn which runs has passed
			return
		}
		l.nowOK = false
		if since < 0 {
			since, drives = l.clock(), l.drives.Load()
		}
		if l.drives.Load() != drives {
			l.Release() // a consumer came back, and is only away for the moment
			return
		}
		// The consumer is busy: polling would take its CPU. If there is none, the handlers do the work, and polling pays.
		poll := l.pollFor()
		if l.resters.n.Load() != 0 || l.drives.Load() > 0 && l.clock()-since < drivenFor {
			poll = 0 // nor does it pay beside those that rest: who publishes something runs a turn
		}
		for l.work() || l.spin(poll, l.contendedFn) {
			if l.oneP {
				runtime.Gosched() // those that got something run before the next turn
			}
			if l.closing.Load() || l.followers.n.Load() != 0 {
				l.Release()
				return
			}
		}
		if l.state.Load()&asleep != 0 || l.followers.n.Load() != 0 {
			l.Release()
			return
		}
		l.sysTakePeeks()
		l.state.Or(watch)
		if !l.round(noKernel) { // the last look, see sleep
			l.watchUntil = l.due()
			d := l.sleepTime(l.watchUntil)
			l.stats.Sleeps++
			l.yieldToken()
			if l.kicked.Load() == 0 && !l.closing.Load() {
				l.sysWatch(d)
			}
			l.state.And(^uint32(watch))
			continue
		}
		l.state.And(^uint32(watch))
		l.Release()
	}
}

// contended tells whether a consumer waits for the turns.
func (l *Loop) contended() bool { return l.followers.n.Load() != 0 }

// yieldToken gives the token up before a sleep of the standby.
func (l *Loop) yieldToken() {
	l.check.released()
	l.state.And(^uint32(held))
	l.followers.wake()
}

// dedicated is the goroutine of a loop with LoopConfig.Dedicated. It holds the token from the loop's birth to its end.
func (l *Loop) dedicated() {
	defer l.own.Done()
	l.check.acquired()
	for !l.closing.Load() {
		l.Turn(Forever)
		if l.oneP {
			runtime.Gosched() // those that got something run before the next turn
			continue
		}
		l.giveWay() // on a thread of its own it would leave all that it wakes to others: half of the rate, and four times the latency
	}
	l.passOn(false, 0)
}
