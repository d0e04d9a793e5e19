package ringbuf

import (
	"context"
	"runtime"
)

// Sleeper is what a waiting goroutine can sleep on: a *Notifier or a *Sleepers.
type Sleeper interface {
	Prepare()
	Cancel()
	Wait(ctx context.Context) error
}

// Waiting says how a goroutine waits for something that another one will do soon. It looks Spins times, with short pauses
// between that double; then Yields times with a call of the scheduler between, which lets other goroutines run; then it
// parks until woken, or, if it must not park, goes on yielding. The zero value parks at once.
type Waiting struct {
	Spins  int
	Yields int
	NoPark bool
}

// Spin waits without ever parking and reacts within a tenth of a microsecond. It is for goroutines that have a processor
// each: where the machine is short of them, it takes away the one that the other side needs.
func Spin() Waiting { return Waiting{Spins: 1000, NoPark: true} }

// Yield polls for some tens of microseconds, giving other goroutines a turn between its looks, and then parks: it reacts
// fast while data flows, and an idle end costs nothing.
func Yield() Waiting { return Waiting{Spins: 8, Yields: 200} }

// Park parks at once: the zero value by name. It costs the least, and moves the most where data flows in bursts, since the
// other side gets far ahead meanwhile. A sleeping end takes some microseconds to react.
func Park() Waiting { return Waiting{} }

// polls tells whether an end that finds nothing keeps on looking for a while.
func (w Waiting) polls() bool { return w.Spins > 0 || w.Yields > 0 || w.NoPark }

// Until waits until ready returns true, and returns nil, or until ctx is done, and returns its error. ready is called by
// the caller's goroutine and may do the awaited thing itself (pop, say). A nil ctx means no limit. If s is nil, Until never
// parks; else whoever makes ready true must call Wake on s after.
func (w Waiting) Until(ctx context.Context, s Sleeper, ready func() bool) error {
	if ready() {
		return nil
	}
	return w.until(ctx, s, ready)
}

// until is Until for a caller that has just looked in vain.
func (w Waiting) until(ctx context.Context, s Sleeper, ready func() bool) error {
	for {
		for i := range w.Spins {
			pause(i)
			if ready() {
				return nil
			}
		}
		for range w.Yields {
			runtime.Gosched()
			if ready() {
				return nil
			}
		}
		if w.NoPark || s == nil {
			if ctx != nil && ctx.Err() != nil {
				return ctx.Err()
			}
			runtime.Gosched()
			if ready() {
				return nil
			}
			continue
		}
		s.Prepare()
		if ready() {
			s.Cancel()
			return nil
		}
		if err := s.Wait(ctx); err != nil {
			return err
		}
		if ready() {
			return nil
		}
	}
}

// maxPause bounds the pause between two looks: 2⁸ rounds of an empty loop, about a tenth of a microsecond.
const maxPause = 8

// pause keeps the processor busy for a moment that doubles with each look, without touching memory: looking again at once
// would take the cache line away from the other side while it works.
func pause(look int) {
	for range 1 << min(look, maxPause) {
	}
}
