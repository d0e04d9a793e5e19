package weir

import (
	"context"
	"io"
	"runtime"
	"testing"
)

func (w *waitStats) count() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.n
}

// The buffer that a writer waits for can be one that it has finished itself, and that only the next buffer would move. Without
// a flush timer nothing else does.
func TestWaitingWriterGetsItsOwnBuffersMoved(t *testing.T) {
	a, b := server(t), open(t, Config{})
	o := newOutput(t, a, OutputConfig{Name: "narrow", Subpartitions: 2, Buffers: 4, BuffersPerSubpartition: 2, BufferTimeout: -1})
	in := newInput(t, b, InputConfig{Sources: []Source{source(a, o)}})
	if err := o.AwaitConsumers(limited(t)); err != nil {
		t.Fatal(err)
	}
	const rounds = 5
	written := make(chan error, 1)
	go func() {
		for range rounds {
			// The shared buffer and the one that is open count for subpartition 0, whose quota is two.
			for _, write := range []func(context.Context, []byte) error{
				o.Broadcast,
				func(ctx context.Context, v []byte) error { return o.WriteTo(ctx, 0, v) },
				func(ctx context.Context, v []byte) error { return o.WriteTo(ctx, 1, v) },
			} {
				if err := write(limited(t), []byte("x")); err != nil {
					written <- err
					return
				}
			}
		}
		written <- o.Finish(limited(t))
	}()
	got := 0
	for {
		e, err := in.Next(limited(t))
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if e.Kind == Record {
			got++
		}
	}
	if err := <-written; err != nil {
		t.Fatal(err)
	}
	if got != 4*rounds {
		t.Errorf("%d records, want %d", got, 4*rounds)
	}
	if err := in.Close(); err != nil {
		t.Error(err)
	}
	if err := o.Close(); err != nil {
		t.Error(err)
	}
}

// An output that is closed in the middle gives back what had found no room in the ring, too.
func TestCloseGivesBackWhatFoundNoRoom(t *testing.T) {
	n := server(t)
	o := newOutput(t, n, OutputConfig{Name: "wide", Subpartitions: 64, Buffers: 100, BuffersPerSubpartition: 100})
	for !n.loop.TryAcquire() {
		runtime.Gosched()
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		for {
			if err := o.Broadcast(ctx, make([]byte, 16<<10)); err != nil {
				done <- err
				return
			}
		}
	}()
	for o.waits.count() == 0 {
		runtime.Gosched()
	}
	cancel()
	n.loop.Release()
	<-done
	if err := o.Close(); err != nil {
		t.Error(err)
	}
	// The node's Close finds the buffers that are missing.
}
