package ringbuf

import (
	"sync/atomic"
	"testing"
)

func TestNotifierHook(t *testing.T) {
	n := NewNotifier()
	var calls atomic.Int32
	wake := func() { calls.Add(1) }
	n.Wake()
	n.PrepareHook(&wake)
	if !n.Sleeping() {
		t.Fatal("announced, but not sleeping")
	}
	n.Wake()
	n.Wake()
	if got := calls.Load(); got != 1 {
		t.Fatalf("hook called %d times for one announcement", got)
	}
	n.CancelHook()
	n.PrepareHook(&wake)
	n.CancelHook()
	n.Wake()
	if got := calls.Load(); got != 1 || n.Sleeping() {
		t.Fatalf("after cancelling: %d calls, sleeping %v", got, n.Sleeping())
	}
	n.Prepare() // the ordinary sleep still works afterwards
	n.Wake()
	if err := n.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
}
