//go:build race || weirdebug

package ringbuf

import "testing"

// raceOrDebug tells that steps can be perturbed, and that everything is slow.
const raceOrDebug = true

// perturbFor makes about every n-th step yield until the test ends.
func perturbFor(t *testing.T, n uint32) {
	perturbEvery.Store(n)
	t.Cleanup(func() { perturbEvery.Store(0) })
}
