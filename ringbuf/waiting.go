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

// Waiting says how a goroutine waits for something that another one will do soon. It looks Spins times in a row, which
// costs a processor and reacts within nanoseconds; then Yields times with a call of the scheduler between, which lets
// other goroutines run; then it parks until woken, or, if it must not park, goes on yielding. The zero value parks at once.
type Waiting struct {
	Spins  int
	Yields int
	NoPark bool
}

// Spin waits without ever parking, and yields only every thousand looks: for goroutines that have a processor each.
func Spin() Waiting { return Waiting{Spins: 1000, NoPark: true} }

// Yield waits without ever parking, and lets others run between its looks. A hand-over takes well under a microsecond; the
// price is a busy processor.
func Yield() Waiting { return Waiting{Spins: 100, NoPark: true} }

// Park spins for about a microsecond, yields a few times, and then parks: idle costs nothing, and while data flows there is
// seldom a wake-up to pay.
func Park() Waiting { return Waiting{Spins: 200, Yields: 4} }

// Until waits until ready returns true, and returns nil, or until ctx is done, and returns its error. ready is called by
// the caller's goroutine and may do the awaited thing itself (pop, say). A nil ctx means no limit. If s is nil, Until never
// parks; else whoever makes ready true must call Wake on s after.
func (w Waiting) Until(ctx context.Context, s Sleeper, ready func() bool) error {
	for {
		for range w.Spins + 1 {
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
	}
}
