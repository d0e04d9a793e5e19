//go:build !weirdebug && !race

package ringbuf

import (
	"runtime"
	"sync"
	"testing"
	"time"
)

// TestRNG05TwoOwnersStayInBounds: two producers on an SPSC ring may lose or repeat items, but every item that comes out was
// pushed (or is zero), and nothing panics. This races on purpose.
func TestRNG05TwoOwnersStayInBounds(t *testing.T) {
	const each = 10_000
	for _, batch := range []int{1, 7} {
		q := NewSPSC[int](16)
		var push sync.WaitGroup
		for g := range 2 {
			push.Go(func() {
				src := make([]int, batch)
				for i := range each {
					for k := range src {
						src[k] = 1 + g*each + i
					}
					for tries := 0; q.PushBatch(src) == 0 && tries < 100; tries++ {
						runtime.Gosched()
					}
					q.Push(1 + g*each + i)
				}
			})
		}
		done := make(chan struct{})
		go func() { push.Wait(); close(done) }()
		dst := make([]int, 9)
		got, limit := 0, time.Now().Add(hang)
		for over := false; !over; {
			select {
			case <-done:
				over = true
			default:
			}
			for _, v := range dst[:q.PopBatch(dst)] {
				if v < 0 || v > 2*each {
					t.Fatalf("%d came out and was never pushed", v)
				}
				got++
			}
			if v, ok := q.Pop(); ok && (v < 0 || v > 2*each) {
				t.Fatalf("%d came out and was never pushed", v)
			}
			a, b := q.View()
			if len(a)+len(b) > q.Cap() || q.Len() > q.Cap() {
				t.Fatalf("the view has %d items, capacity %d", len(a)+len(b), q.Cap())
			}
			if time.Now().After(limit) {
				t.Fatal("hangs")
			}
			runtime.Gosched()
		}
		if got == 0 {
			t.Fatal("nothing came out")
		}
	}
}
