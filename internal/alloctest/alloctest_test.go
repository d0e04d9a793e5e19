//go:build !race

package alloctest_test

import (
	"testing"

	"github.com/weirflow/weir/internal/alloctest"
)

var sink any

// recorder is a testing.TB that notes a failure instead of ending the test.
type recorder struct {
	testing.TB
	failed bool
}

func (r *recorder) Helper()               {}
func (r *recorder) Fatalf(string, ...any) { r.failed = true }

func TestZeroSeesOneAllocationInManyRuns(t *testing.T) {
	var r recorder
	i := 0
	alloctest.Zero(&r, 1, 1000, func() {
		if i++; i%1000 == 500 {
			sink = new([64]byte)
		}
	})
	if !r.failed {
		t.Fatal("one allocation in 1000 runs went unnoticed")
	}
}

func TestZeroPassesWhatAllocatesNothing(t *testing.T) {
	n := 0
	alloctest.Zero(t, 1, 1000, func() { n++ })
	if n < 1001 {
		t.Fatalf("f ran %d times, want at least 1001", n)
	}
}

func TestCountSeesOtherGoroutines(t *testing.T) {
	in, out := make(chan struct{}), make(chan struct{})
	go func() {
		for range in {
			sink = new([128]byte)
			out <- struct{}{}
		}
		close(out)
	}()
	objects, bytes := alloctest.Count(10, 100, func() { in <- struct{}{}; <-out })
	close(in)
	<-out
	if objects < 100 || bytes < 100*128 {
		t.Fatalf("counted %d objects, %d bytes; want at least 100 and 12800", objects, bytes)
	}
}
