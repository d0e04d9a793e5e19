//go:build weirdebug

package ringbuf

import (
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
)

// twoAtOnce runs f in two goroutines, 10 000 times each, and returns what the first panic said.
func twoAtOnce(f func()) string {
	var said [2]string
	var all sync.WaitGroup
	for g := range said {
		all.Go(func() {
			defer func() {
				if p := recover(); p != nil {
					said[g] = fmt.Sprint(p)
				}
			}()
			for range 10_000 {
				f()
			}
		})
	}
	all.Wait()
	return said[0] + said[1]
}

// TestRNG05TwoOwnersPanicInDebugBuilds: the panic names the ring and the rule.
func TestRNG05TwoOwnersPanicInDebugBuilds(t *testing.T) {
	spsc := NewSPSC[int](16)
	mpsc := NewMPSC[int](16)
	for _, c := range []struct {
		what string
		f    func()
		want string
	}{
		{"SPSC.Push", func() { spsc.Push(1) }, "SPSC: only one goroutine may push"},
		{"SPSC.Pop", func() { spsc.Pop() }, "SPSC: only one goroutine may pop"},
		{"MPSC.Pop", func() { mpsc.Pop() }, "MPSC: only one goroutine may pop"},
	} {
		got := ""
		for try := 0; got == "" && try < 200; try++ { // where other processes take the processors, two rarely run at once
			got = twoAtOnce(c.f)
		}
		if !strings.Contains(got, c.want) {
			t.Errorf("%s by two goroutines at once: panic %q, want %q in it", c.what, got, c.want)
		}
	}
}

// TestGuardAllowsHandingOver: a side may pass to another goroutine.
func TestGuardAllowsHandingOver(t *testing.T) {
	q := NewSPSC[int](16)
	for range 100 {
		var g sync.WaitGroup
		g.Go(func() {
			for range 10 {
				q.Push(1)
				q.Pop()
				runtime.Gosched()
			}
		})
		g.Wait()
	}
}
