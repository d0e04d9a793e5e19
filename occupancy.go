package weir

import (
	"errors"
	"sync/atomic"
	"time"
)

// occupancy tells whether the user's goroutine is in a call in which it waits, or has waited: what it looks at there must not be closed under
// it. So Close, which ends the wait, goes on when that call has returned. Calls that do not wait are the user's to keep apart from
// Close: to tell would cost each of them a fence.
type occupancy struct {
	calls int         // calls within calls; the user's
	here  atomic.Bool // from the first wait on, until the outermost call returns
}

// begin and end enclose a call that may wait.
func (c *occupancy) begin() { c.calls++ }

func (c *occupancy) end() {
	if c.calls--; c.calls == 0 && c.here.Load() {
		c.here.Store(false)
	}
}

// wait comes before a wait. The caller then looks whether it is closed: who closes says so first, and then looks here.
func (c *occupancy) wait() { c.here.Store(true) }

// errOccupied is what a Close gets that cannot go on.
var errOccupied = errors.New("it is still in use: a call that waited does not return")

// vacate waits until the user is out. The caller has marked what is to be closed, and woken who waits in it.
func (c *occupancy) vacate() error {
	for began, pause := time.Now(), 10*time.Microsecond; c.here.Load(); pause = min(2*pause, time.Millisecond) {
		if time.Since(began) > openLimit {
			return errOccupied
		}
		time.Sleep(pause)
	}
	return nil
}
