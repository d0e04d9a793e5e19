package weir

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"testing"
)

// TestTryWriteHandsOver: a writer that never waits has what it wrote sent all the same, while the one who drives the loop sleeps and
// no timer wakes it: neither TryWrite nor Available leaves buffers with the writer when it says no.
func TestTryWriteHandsOver(t *testing.T) {
	for name, asks := range map[string]bool{"TryWrite": false, "Available": true} {
		t.Run(name, func(t *testing.T) {
			ctx := limited(t)
			a, b := open(t, Config{Listen: "127.0.0.1:0", Poll: -1}), server(t)
			out := newOutput(t, a, OutputConfig{Name: "x", Subpartitions: 2, Partition: Global, BufferTimeout: -1})
			idle := newOutput(t, b, OutputConfig{Name: "idle"})
			driver := newInput(t, a, InputConfig{Sources: []Source{source(b, idle)}})
			in := newInput(t, b, InputConfig{Sources: []Source{source(a, out)}})
			for _, o := range []*Output{out, idle} {
				if err := o.AwaitConsumers(ctx); err != nil {
					t.Fatal(err)
				}
			}
			asleep, cancel := context.WithCancel(ctx)
			drives := inBackground(t, func() error {
				if _, err := driver.Next(asleep); !errors.Is(err, context.Canceled) {
					return fmt.Errorf("the driver: %w", err)
				}
				return nil
			})
			defer cancel()
			for before := a.Stats().Loop.Sleeps; a.Stats().Loop.Sleeps < before+2; { // each look wakes it, and it sleeps again
				runtime.Gosched()
			}

			const records = 200
			full := make(chan struct{}) // from then on somebody reads: until then there is sure to be too little room
			read := inBackground(t, func() error {
				select {
				case <-full:
				case <-ctx.Done():
					return ctx.Err()
				}
				for n := 0; n < records; n++ {
					e, err := in.Next(ctx)
					if err != nil || e.Kind != Record {
						return fmt.Errorf("%d records read: %w", n, err)
					}
				}
				return nil
			})
			refused := 0
			for n := 0; n < records; {
				if asks && !out.Available() {
					if refused++; refused == 1 {
						close(full)
					}
				} else if ok, err := out.TryWrite(nil, make([]byte, 30_000)); err != nil {
					t.Fatal(err)
				} else if ok {
					n++
					continue
				} else if asks {
					t.Fatal("refused, and available")
				} else if refused++; refused == 1 {
					close(full)
				}
				if err := ctx.Err(); err != nil {
					t.Fatalf("%d of %d written: %v", n, records, err)
				}
				runtime.Gosched()
			}
			if refused == 0 {
				t.Fatal("there was always room: the case does not happen")
			}
			if err := out.Flush(); err != nil {
				t.Fatal(err)
			}
			if err := read(); err != nil {
				t.Fatal(err)
			}
			cancel()
			if err := drives(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// TestHalfWrittenForTask: what a task wants of an output with a half-written record, and a buffer that was claimed before, come to the same error.
func TestHalfWrittenForTask(t *testing.T) {
	ctx := limited(t)
	a := server(t)
	task, err := a.NewTask(TaskConfig{Name: "t"})
	if err != nil {
		t.Fatal(err)
	}
	out := newOutput(t, a, OutputConfig{Name: "x", Buffers: 4, BuffersPerSubpartition: 3, Task: task})
	if _, err := out.ClaimBuffer(ctx, 0); err != nil {
		t.Fatal(err)
	}
	short, cancel := context.WithCancel(ctx) // nobody reads, so that the writer comes to wait
	stop := make(chan struct{})
	go func() {
		defer close(stop)
		awaitWriter(ctx, out, nil)
		cancel()
	}()
	err = out.Write(short, nil, make([]byte, 2_000_000))
	<-stop
	if !errors.Is(err, ErrHalfWritten) || !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	for what, err := range map[string]error{"CommitBuffer": out.CommitBuffer(1), "EndOfData": task.EndOfData()} {
		if !errors.Is(err, ErrHalfWritten) {
			t.Errorf("%s after it: %v", what, err)
		}
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestTryWriteOfALongRecord: one that takes more memory than there is at once has begun, is waited for, and was written then.
func TestTryWriteOfALongRecord(t *testing.T) {
	ctx := limited(t)
	a, b := server(t), open(t, Config{})
	out := newOutput(t, a, OutputConfig{Name: "long"})
	in := newInput(t, b, InputConfig{Sources: []Source{source(a, out)}})
	const records, size = 5, 4 << 20
	value := make([]byte, size)
	wait := inBackground(t, func() error {
		for i := 0; i < records; {
			value[0] = byte(i)
			switch ok, err := out.TryWrite(nil, value); {
			case err != nil:
				return err
			case ok:
				i++
			}
		}
		return out.Finish(ctx)
	})
	got := 0
	for {
		e, err := in.Next(ctx)
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if e.Kind == Record {
			if len(e.Value) != size || e.Value[0] != byte(got) {
				t.Fatalf("record %d of %d bytes, want number %d", e.Value[0], len(e.Value), got)
			}
			got++
		}
	}
	if err := wait(); err != nil || got != records {
		t.Errorf("%d records, %v", got, err)
	}
	if err := in.Close(); err != nil {
		t.Error(err)
	}
}
