//go:build weirdebug

package segment

import "sync/atomic"

// guard finds two goroutines inside a local pool. It looks for overlap, not for identity: an owner may be another goroutine
// each time.
type guard struct{ inside atomic.Bool }

func (g *guard) enter() {
	if !g.inside.CompareAndSwap(false, true) {
		panic("segment: two goroutines at once in a LocalPool, which belongs to one")
	}
}

func (g *guard) leave() { g.inside.Store(false) }
