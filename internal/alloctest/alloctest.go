package alloctest

import (
	"runtime"
	"runtime/debug"
	"testing"
)

// attempts bounds how often a measurement is repeated. The runtime itself allocates now and then (a new thread, a timer
// bucket), and what allocates in every attempt is ours.
const attempts = 3

// Count runs f warm times unmeasured and then n times measured. It returns the objects and bytes that the whole process
// allocated during the measured runs. The collector is off meanwhile, so that it cannot empty a pool in between.
func Count(warm, n int, f func()) (objects, bytes uint64) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	for range warm {
		f()
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range n {
		f()
	}
	runtime.ReadMemStats(&after)
	return after.Mallocs - before.Mallocs, after.TotalAlloc - before.TotalAlloc
}

// Zero fails the test if f allocates anything: warm runs first, then n measured ones. A measurement that is not zero is
// repeated twice at most, and the test fails only if each of them saw an allocation.
func Zero(t testing.TB, warm, n int, f func()) {
	t.Helper()
	AtMost(t, warm, n, 0, 0, f)
}

// AtMost is Zero with a bound: it fails the test if the n measured runs allocate more than objects objects or more than
// bytes bytes together.
func AtMost(t testing.TB, warm, n int, objects, bytes uint64, f func()) {
	t.Helper()
	var o, b uint64
	for range attempts {
		if o, b = Count(warm, n, f); o <= objects && b <= bytes {
			return
		}
		warm = 0
	}
	t.Fatalf("%d runs allocated %d objects, %d bytes; at most %d objects, %d bytes are allowed", n, o, b, objects, bytes)
}
