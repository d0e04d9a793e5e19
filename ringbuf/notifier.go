package ringbuf

import (
	"context"
	"sync/atomic"
	"time"
)

// Memory order of Notifier.
//
// The sleeper stores state = asleep and then looks once more whether there is work; the waker makes work visible and then
// loads state. Go's atomics are sequentially consistent, so at least one of the two sees the other: either the sleeper
// finds the work and cancels, or the waker finds it asleep and wakes it. A plain or merely acquire/release pair would allow
// both to miss.
//
// Whoever moves state from asleep back to awake, by compare-and-swap, decides: a waker that wins sends exactly one token,
// and the sleeper, on losing, takes exactly one. So no token is left over, and the channel of capacity 1 never blocks.

const (
	awake  = 0
	asleep = 1
)

// Notifier lets one goroutine sleep until any of many others has work for it. Wake costs one atomic load while nobody
// sleeps. The zero value is ready to use; a Notifier must not be copied once used.
//
// The sleeper (one goroutine at a time) runs this loop, and whoever provides work makes it visible first and wakes after:
//
//	for !ready() {
//		n.Prepare()
//		if ready() {       // without this second look a wake-up could be lost
//			n.Cancel()
//			break
//		}
//		if err := n.Wait(ctx); err != nil {
//			return err
//		}
//	}
//
// A return from Wait means that somebody called Wake since Prepare, not that there is work: look again.
type Notifier struct {
	_     [line]byte
	state atomic.Uint32
	_     [line]byte

	// The sleeper's; token is also read by a waker that has seen state asleep, hence after Prepare made it.
	token chan struct{}
	timer *time.Timer
	hook  atomic.Pointer[func()] // what ends a sleep elsewhere (PrepareHook)
	_     [line]byte
}

// NewNotifier returns a notifier that will not allocate later, except once for the timer of WaitTimeout.
func NewNotifier() *Notifier { return &Notifier{token: make(chan struct{}, 1)} }

// Prepare announces that the caller is about to sleep. It is followed by Cancel, Wait or WaitTimeout.
func (n *Notifier) Prepare() {
	if n.token == nil {
		n.token = make(chan struct{}, 1)
	}
	n.state.Store(asleep)
}

// Cancel takes Prepare back: there is work after all.
func (n *Notifier) Cancel() {
	if !n.state.CompareAndSwap(asleep, awake) {
		<-n.token // a waker was faster: its token is there or a few instructions away
	}
}

// Wait sleeps until Wake is called or ctx is done, and then returns nil or the context's error. A nil ctx means no limit.
// Prepare must precede it.
func (n *Notifier) Wait(ctx context.Context) error {
	var done <-chan struct{}
	if ctx != nil {
		done = ctx.Done()
	}
	if done == nil {
		<-n.token
		return nil
	}
	select {
	case <-n.token:
		return nil
	case <-done:
		n.Cancel()
		return ctx.Err()
	}
}

// WaitTimeout sleeps until Wake is called (true) or d has passed (false). Prepare must precede it.
func (n *Notifier) WaitTimeout(d time.Duration) bool {
	if n.timer == nil {
		n.timer = time.NewTimer(d)
	} else {
		n.timer.Reset(d)
	}
	select {
	case <-n.token:
		n.timer.Stop() // since Go 1.23 nothing stale remains in its channel
		return true
	case <-n.timer.C:
		if n.state.CompareAndSwap(asleep, awake) {
			return false
		}
		<-n.token
		return true
	}
}

// Wake ends the sleep of the sleeper if there is one. Any goroutine may call it, after it made its work visible. Calls
// while nobody sleeps cost one atomic load and are not remembered.
func (n *Notifier) Wake() {
	if n.state.Load() != awake {
		n.wake() // apart, so that the load is inlined
	}
}

//go:noinline
func (n *Notifier) wake() {
	if n.state.CompareAndSwap(asleep, awake) {
		n.token <- struct{}{}
		return
	}
	n.wakeHooked()
}

// Sleeping tells whether a sleeper has announced itself: a snapshot.
func (n *Notifier) Sleeping() bool { return n.state.Load() != awake }
