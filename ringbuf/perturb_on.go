//go:build race || weirdebug

package ringbuf

import (
	"runtime"
	"sync/atomic"
)

// perturbEvery is set by stress tests: about every so many-th call of perturb yields; 0 means never.
var perturbEvery, perturbCalls atomic.Uint32

// perturb stands between the steps of an operation that other goroutines may see half done, and yields there when a
// stress test asks for it. The order of yields is scrambled so that it doesn't fall in step with a loop.
func perturb() {
	n := perturbEvery.Load()
	if n == 0 {
		return
	}
	x := perturbCalls.Add(1) * 2654435761
	if (x>>16)%n == 0 {
		runtime.Gosched()
	}
}
