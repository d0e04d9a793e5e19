package ringbuf

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"
)

func TestPipeEndsInOrder(t *testing.T) {
	ctx := withHangLimit(t)
	p := NewPipe[int](8, Park())
	if n, err := p.SendBatch(ctx, []int{1, 2, 3}); n != 3 || err != nil {
		t.Fatal(n, err)
	}
	if !p.Stage(4) || p.Len() != 3 || p.Cap() != 8 {
		t.Fatalf("length %d of %d", p.Len(), p.Cap())
	}
	if err := p.Flush(); err != nil {
		t.Fatal(err)
	}
	p.Stage(5)
	p.Close()
	p.Close()
	if err := p.Flush(); !errors.Is(err, ErrClosed) {
		t.Fatalf("Flush after Close: %v", err)
	}
	if n := p.Unstage(nil); n != 1 {
		t.Fatalf("took back %d staged items, want 1", n)
	}
	if err := p.Send(ctx, 9); !errors.Is(err, ErrClosed) {
		t.Fatalf("Send after Close: %v", err)
	}
	if n, err := p.SendBatch(ctx, []int{9}); n != 0 || !errors.Is(err, ErrClosed) {
		t.Fatalf("SendBatch after Close: %d, %v", n, err)
	}
	if v, ok := p.TryRecv(); !ok || v != 1 {
		t.Fatalf("got %d, %t", v, ok)
	}
	lent, err := p.RecvInPlace(ctx, 2)
	if err != nil || !slices.Equal(lent, []int{2, 3}) {
		t.Fatalf("got %v, %v", lent, err)
	}
	dst := make([]int, 4)
	if n, err := p.RecvBatch(ctx, dst); err != nil || !slices.Equal(dst[:n], []int{4}) {
		t.Fatalf("got %v, %v", dst[:n], err)
	}
	if _, err := p.Recv(ctx); !errors.Is(err, ErrClosed) {
		t.Fatalf("Recv at the end: %v", err)
	}
	if _, err := p.RecvBatch(ctx, dst); !errors.Is(err, ErrClosed) {
		t.Fatalf("RecvBatch at the end: %v", err)
	}
	if _, err := p.RecvInPlace(ctx, 1); !errors.Is(err, ErrClosed) {
		t.Fatalf("RecvInPlace at the end: %v", err)
	}
	if _, ok := p.TryRecv(); ok {
		t.Fatal("something came after the end")
	}
}

// TestRecvInPlaceKeepsTheSlots: the sender doesn't overwrite what the receiver still looks at.
func TestRecvInPlaceKeepsTheSlots(t *testing.T) {
	ctx := withHangLimit(t)
	p := NewPipe[int](4, Park())
	if _, err := p.SendBatch(ctx, []int{1, 2, 3, 4}); err != nil {
		t.Fatal(err)
	}
	lent, err := p.RecvInPlace(ctx, 4)
	if err != nil {
		t.Fatal(err)
	}
	soon, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
	defer cancel()
	if err := p.Send(soon, 5); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("the sender found room in lent slots: %v", err)
	}
	if !slices.Equal(lent, []int{1, 2, 3, 4}) {
		t.Fatalf("lent items became %v", lent)
	}
	if _, ok := p.TryRecv(); ok {
		t.Fatal("a lent item came again")
	}
	if err := p.Send(ctx, 5); err != nil {
		t.Fatal(err)
	}
	if v, err := p.Recv(ctx); err != nil || v != 5 {
		t.Fatalf("got %d, %v", v, err)
	}
}

// TestWaitingEndsWake: each end that waits hears of Close and of its context.
func TestWaitingEndsWake(t *testing.T) {
	type ends struct {
		recv, send func(context.Context) error
		close      func()
	}
	for name, fresh := range map[string]func() ends{
		"Pipe": func() ends {
			empty, full := NewPipe[int](1, Waiting{}), NewPipe[int](1, Waiting{})
			full.ring.Push(1)
			return ends{
				func(ctx context.Context) error { _, err := empty.Recv(ctx); return err },
				func(ctx context.Context) error { return full.Send(ctx, 2) },
				func() { empty.Close(); full.Close() },
			}
		},
		"Pipe batches": func() ends {
			empty, full := NewPipe[int](1, Waiting{}), NewPipe[int](1, Waiting{})
			full.ring.Push(1)
			return ends{
				func(ctx context.Context) error { _, err := empty.RecvBatch(ctx, make([]int, 2)); return err },
				func(ctx context.Context) error { _, err := full.SendBatch(ctx, []int{2, 3}); return err },
				func() { empty.Close(); full.Close() },
			}
		},
		"Queue": func() ends {
			empty, full := NewQueue[int](2, Waiting{}), NewQueue[int](2, Waiting{})
			full.ring.PushBatch([]int{1, 1})
			return ends{
				func(ctx context.Context) error { _, err := empty.Recv(ctx); return err },
				func(ctx context.Context) error { return full.Send(ctx, 2) },
				func() { empty.Close(); full.Close() },
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			for _, c := range []struct {
				what string
				end  func(e ends, cancel func())
				want error
			}{
				{"close", func(e ends, _ func()) { e.close() }, ErrClosed},
				{"cancel", func(_ ends, cancel func()) { cancel() }, context.Canceled},
			} {
				e := fresh()
				ctx, cancel := context.WithCancel(withHangLimit(t))
				var all sync.WaitGroup
				for _, wait := range []func(context.Context) error{e.recv, e.send} {
					all.Go(func() {
						if err := wait(ctx); !errors.Is(err, c.want) {
							t.Errorf("%s: got %v, want %v", c.what, err, c.want)
						}
					})
				}
				time.AfterFunc(2*time.Millisecond, func() { c.end(e, cancel) }) // most likely both sleep by then; if not, all the same
				all.Wait()
				cancel()
			}
		})
	}
}
