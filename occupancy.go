package weir

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirflow/weir/ringbuf"
)

// occupancy tells Close whether the user's goroutine looks at what is being closed: an output's or an input's, or a task's, which is that of all
// its outputs and its input. It does so in a call that waits, from when what it waits for is there until that call returns, and in each look before.
// While it sleeps it does not, and when it is woken it looks first at what is closed, and touches that no more.
//
// Calls that do not wait are the user's to keep apart from Close: to tell would cost each of them a fence.
type occupancy struct {
	calls int           // calls within calls; the user's
	state atomic.Uint32 // the user is
}

// What state says. Here is set before the user looks whether what it uses is closed.
const (
	away    = iota
	waiting // between two looks
	here
)

// begin and end enclose a call that may wait.
func (c *occupancy) begin() { c.calls++ }

func (c *occupancy) end() {
	if c.calls--; c.calls == 0 && c.state.Load() != away {
		c.state.Store(away)
	}
}

// enter says that the user is there. It then looks whether what it uses is closed: who closes says so first, and looks for the user after.
func (c *occupancy) enter() { c.state.Store(here) }

// looks makes of ready one that is there only while it looks, and stays when it is ready.
func (c *occupancy) looks(ready func() bool) func() bool {
	return func() bool {
		c.state.Store(here)
		if ready() {
			return true
		}
		c.state.Store(waiting)
		return false
	}
}

// wait waits until ready, which looks made, and is there afterwards. The caller then sees what is closed by now.
func (c *occupancy) wait(ctx context.Context, n *Node, ready func() bool, notifier *ringbuf.Notifier) error {
	err := n.loop.RunUntil(ctx, ready, notifier)
	c.state.Store(here)
	return err
}

// call calls the user's own function, which may close anything: also after it has waited in a call of its own.
func (c *occupancy) call(f func()) {
	calls, state := c.calls, c.state.Load()
	c.calls = 0
	c.state.Store(away)
	f()
	c.calls = calls
	c.state.Store(state)
}

// errOccupied is what a Close gets that cannot go on. It may be tried again.
var errOccupied = errors.New("it is still in use: a call that waited does not return")

// vacate waits until the user is not there. The caller has marked what is to be closed, and woken who waits in it.
func (c *occupancy) vacate() error {
	for began, pause := time.Now(), 10*time.Microsecond; c.state.Load() == here; pause = min(2*pause, time.Millisecond) {
		if time.Since(began) > openLimit {
			return errOccupied
		}
		time.Sleep(pause)
	}
	return nil
}

// closeOnce is the Close of something: the first one does it, and others wait for that.
type closeOnce struct {
	mu   sync.Mutex
	done bool
}

func (c *closeOnce) do(f func() error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.done {
		return nil
	}
	err := f()
	c.done = !errors.Is(err, errOccupied)
	return err
}
