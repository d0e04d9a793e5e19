package leaktest

import (
	"os"
	"runtime"
	"strings"
	"testing"
	"time"
)

func TestMain(m *testing.M) { Main(m) }

// leftAfter returns what is still there shortly after f.
func leftAfter(f func(), gauges ...Gauge) string {
	before := take(gauges)
	f()
	return strings.Join(before.wait(20*time.Millisecond), "\n")
}

func TestNothingLeft(t *testing.T) {
	if left := leftAfter(func() {}); left != "" {
		t.Fatalf("nothing was left, but found:\n%s", left)
	}
}

func TestGoroutineLeft(t *testing.T) {
	stop, done := make(chan struct{}), make(chan struct{})
	left := leftAfter(func() { go func() { <-stop; close(done) }() })
	close(stop)
	<-done
	if !strings.Contains(left, "TestGoroutineLeft") {
		t.Fatalf("the goroutine was not found: %q", left)
	}
}

func TestGoroutineThatEndsSoonIsNoLeak(t *testing.T) {
	before := take(nil)
	go func() { time.Sleep(10 * time.Millisecond) }()
	if left := before.wait(patience); len(left) > 0 {
		t.Fatalf("waited in vain: %v", left)
	}
}

func TestFileLeft(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("descriptors are read from /proc")
	}
	var f *os.File
	left := leftAfter(func() {
		var err error
		if f, err = os.Open(os.DevNull); err != nil {
			t.Fatal(err)
		}
	})
	_ = f.Close()
	if !strings.Contains(left, os.DevNull) {
		t.Fatalf("the open file was not found: %q", left)
	}
}

func TestGaugeMoved(t *testing.T) {
	n := int64(3)
	left := leftAfter(func() { n = 5 }, Gauge{"segments out", func() int64 { return n }})
	if left != "segments out: 5, was 3" {
		t.Fatalf("got %q", left)
	}
}
