//go:build weirdebug

package ringbuf

import (
	"runtime"
	"sync/atomic"
)

// guard finds two goroutines inside a side of a ring that belongs to one. It looks for overlap, not for identity: handing
// a side from one goroutine to another, with a happens-before edge in between, is allowed.
type guard struct {
	inside atomic.Uint32
	calls  uint32
}

// enter panics if another goroutine is inside. rule names the ring and what it demands. Every 16th call yields while
// inside, so that misuse is found soon on any number of processors.
func (g *guard) enter(rule string) {
	if !g.inside.CompareAndSwap(0, 1) {
		panic("ringbuf: two goroutines at once: " + rule)
	}
	if g.calls++; g.calls%16 == 0 {
		runtime.Gosched()
	}
}

func (g *guard) leave() { g.inside.Store(0) }
