package alloctest

import (
	"runtime"
	"runtime/debug"
	"sync"
	"testing"
)

// attempts bounds how often a measurement is repeated. The runtime itself allocates now and then (a new thread, a timer
// bucket), on a busy machine more often, and what allocates in every attempt is ours.
const attempts = 8

// Count runs f warm times unmeasured and then n times measured. It returns the objects and bytes that the whole process
// allocated during the measured runs. The collector is off meanwhile, so that it cannot empty a pool in between.
func Count(warm, n int, f func()) (objects, bytes uint64) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	for range warm {
		f()
	}
	stock()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range n {
		f()
	}
	runtime.ReadMemStats(&after)
	return after.Mallocs - before.Mallocs, after.TotalAlloc - before.TotalAlloc
}

// Zero fails the test if f allocates anything: warm runs first, then n measured ones. A measurement that is not zero is
// repeated a few times, and the test fails only if each of them saw an allocation.
func Zero(t testing.TB, warm, n int, f func()) {
	t.Helper()
	AtMost(t, warm, n, 0, 0, f)
}

// AtMost is Zero with a bound: it fails the test if the n measured runs allocate more than objects objects or more than
// bytes bytes together.
func AtMost(t testing.TB, warm, n int, objects, bytes uint64, f func()) {
	t.Helper()
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // nor between the attempts, of which only the first is warmed
	var o, b uint64
	for range attempts {
		if o, b = Count(warm, n, f); o <= objects && b <= bytes {
			return
		}
		warm = 0
	}
	t.Fatalf("%d runs allocated %d objects, %d bytes; at most %d objects, %d bytes are allowed", n, o, b, objects, bytes)
}

// stock has the runtime make what it makes on demand and keeps for later: threads, and what represents goroutines and their waits.
// Each P has its own store of those, and a goroutine that blocks on one P and goes on on another moves them; how far the stores drift
// apart, so that one runs dry and allocates, is the scheduler's choice.
func stock() {
	const goroutines, threads = 128, 8
	var up, down sync.WaitGroup
	stop := make(chan struct{})
	up.Add(goroutines)
	for i := range goroutines {
		down.Go(func() {
			if i < threads {
				runtime.LockOSThread()
				defer runtime.UnlockOSThread()
			}
			up.Done()
			select { // one for each case
			case <-stop:
			case <-stop:
			case <-stop:
			case <-stop:
			case <-stop:
			case <-stop:
			case <-stop:
			case <-stop:
			}
		})
	}
	up.Wait()
	runtime.Gosched()
	close(stop)
	down.Wait()
}
