package weir

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weirflow/weir/internal/alloctest"
	"github.com/weirflow/weir/internal/buildtag"
	"github.com/weirflow/weir/internal/modelrun"
	"github.com/weirflow/weir/serde"
)

// batchRecord is record i of a subpartition.
func batchRecord(rng *rand.Rand, sub, i, n int) []byte {
	p := fmt.Appendf(make([]byte, 0, n+16), "%d-%d-", sub, i)
	v := rng.Uint64()
	for len(p) < n {
		p = append(p, byte(v>>(8*(len(p)%8))))
	}
	return p
}

// batchWriter writes random batches and keeps a copy of what it wrote.
type batchWriter struct {
	out  *Output
	rng  *rand.Rand
	want [][][]byte // by subpartition
	size func(rng *rand.Rand) int
	seen modelrun.Exposure
}

// write writes a batch of n records, and scribbles on it afterwards.
func (w *batchWriter) write(ctx context.Context, sub, n int) error {
	values := make([][]byte, n)
	for i := range values {
		values[i] = batchRecord(w.rng, sub, len(w.want[sub])+i, w.size(w.rng))
		if len(values[i]) > 32<<10 {
			w.seen["larger than a buffer"]++
		}
	}
	copies := make([][]byte, n)
	for i, v := range values {
		copies[i] = bytes.Clone(v)
	}
	got, err := w.out.WriteBatch(ctx, sub, values)
	if got > n || got < n && err == nil || got == n && err != nil {
		return fmt.Errorf("%d written of %d: %w", got, n, err)
	}
	w.want[sub] = append(w.want[sub], copies[:got]...)
	for _, v := range values {
		for i := range v {
			v[i] = 0xEE
		}
	}
	switch n {
	case 0:
		w.seen["empty"]++
	case 1:
		w.seen["one"]++
	default:
		w.seen["several"]++
	}
	return err
}

// readBatches reads to the end and compares; each record that comes is reported to slow, if there is one.
func readBatches(ctx context.Context, t testing.TB, in *Input, want func() [][][]byte, slow func(records int)) {
	t.Helper()
	var got [][][]byte
	records := 0
	read(ctx, t, in, func(e *Element) {
		if e.Kind != Record {
			return
		}
		for len(got) <= e.Channel {
			got = append(got, nil)
		}
		got[e.Channel] = append(got[e.Channel], bytes.Clone(e.Value))
		if records++; slow != nil {
			slow(records)
		}
	})
	for sub, records := range want() {
		if len(records) == 0 && len(got) <= sub {
			continue
		}
		if len(got) <= sub || len(got[sub]) != len(records) {
			t.Fatalf("subpartition %d: %d records were written, and others came: %d channels", sub, len(records), len(got))
		}
		for i := range records {
			if !bytes.Equal(got[sub][i], records[i]) {
				t.Fatalf("subpartition %d: record %d of %d bytes is %.30q with %d", sub, i, len(records[i]), got[sub][i], len(got[sub][i]))
			}
		}
	}
}

// awaitWriter returns when the writer waits for memory, or has ended.
func awaitWriter(ctx context.Context, out *Output, ended <-chan struct{}) {
	tick := time.NewTicker(100 * time.Microsecond)
	defer tick.Stop()
	for out.Stats(OutputStats{}).WaitingFor < 0 {
		select {
		case <-ended:
			return
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// TestWriteBatch: what is written in batches comes whole and in order, whatever the sizes, with waits and without, each record flushed
// or not, through a blocking output and a pipelined one.
func TestWriteBatch(t *testing.T) {
	small := func(rng *rand.Rand) int { return rng.IntN(200) }
	mixed := func(rng *rand.Rand) int {
		switch rng.IntN(30) {
		case 0:
			return 33_000 + rng.IntN(100_000)
		case 1:
			return 32<<10 - 9 - rng.IntN(3) // to the end of a buffer
		case 2:
			return 0
		}
		return rng.IntN(3000)
	}
	few := OutputConfig{Name: "x", Subpartitions: 2, Buffers: 4, BuffersPerSubpartition: 2}
	for name, tc := range map[string]struct {
		cfg     OutputConfig
		size    func(*rand.Rand) int
		batches int
		slow    bool
	}{
		"small":      {OutputConfig{Name: "x", Subpartitions: 3}, small, 2000, false},
		"mixed":      {OutputConfig{Name: "x", Subpartitions: 3}, mixed, 500, false},
		"flush each": {OutputConfig{Name: "x", Subpartitions: 2, FlushEach: true}, mixed, 100, false},
		"slow":       {few, mixed, 300, true},
		"blocking":   {OutputConfig{Name: "x", Subpartitions: 2, Blocking: &Blocking{}}, mixed, 500, false},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := limited(t)
			a, b := server(t), open(t, Config{})
			var out *Output
			if tc.cfg.Blocking != nil {
				out = blockingOutput(t, a, tc.cfg.Subpartitions, *tc.cfg.Blocking)
			} else {
				out = newOutput(t, a, tc.cfg)
			}
			w := &batchWriter{out: out, rng: rand.New(rand.NewPCG(modelrun.Seed(t), 1)), want: make([][][]byte, tc.cfg.Subpartitions),
				size: tc.size, seen: modelrun.Exposure{}}
			ended := make(chan struct{})
			write := func() error {
				var err error
				for i := 0; i < tc.batches && err == nil; i++ {
					err = w.write(ctx, w.rng.IntN(tc.cfg.Subpartitions), w.rng.IntN([]int{2, 10, 40}[w.rng.IntN(3)]))
				}
				close(ended)
				if err != nil {
					return err
				}
				return out.Finish(ctx)
			}
			done := write
			if tc.cfg.Blocking == nil { // else it is served once it is finished
				done = inBackground(t, write)
			} else if err := write(); err != nil {
				t.Fatal(err)
			} else {
				done = func() error { return nil }
			}
			in := newInput(t, b, InputConfig{Sources: []Source{source(a, out)}})
			var slow func(int)
			if tc.slow {
				slow = func(records int) {
					if records%200 == 1 {
						awaitWriter(ctx, out, ended)
					}
				}
			}
			readBatches(ctx, t, in, func() [][][]byte {
				if err := done(); err != nil {
					t.Fatal(err)
				}
				return w.want
			}, slow)
			needed := []string{"empty", "one", "several"}
			if name != "small" {
				needed = append(needed, "larger than a buffer")
			}
			if w.seen["waits"] = int(out.Stats(OutputStats{}).Waits); tc.slow {
				needed = append(needed, "waits")
			}
			w.seen.Report(t, name, tc.batches, needed...)
		})
	}
}

// TestWriteBatchFlushesEach: with FlushEach, and no other flush, a batch is there when it is written.
func TestWriteBatchFlushesEach(t *testing.T) {
	ctx := limited(t)
	a, b := server(t), open(t, Config{})
	out := newOutput(t, a, OutputConfig{Name: "x", FlushEach: true, BufferTimeout: -1})
	in := newInput(t, b, InputConfig{Sources: []Source{source(a, out)}})
	values := [][]byte{[]byte("a"), []byte("b"), []byte("c")}
	for range 3 {
		if n, err := out.WriteBatch(ctx, 0, values); n != 3 || err != nil {
			t.Fatal(n, err)
		}
		for _, v := range values {
			if e, err := in.Next(ctx); err != nil || e.Kind != Record || !bytes.Equal(e.Value, v) {
				t.Fatalf("%+v, %v", e, err)
			}
		}
	}
}

// TestWriteBatchBehindBarrier: a barrier that was posted goes out before the batch.
func TestWriteBatchBehindBarrier(t *testing.T) {
	ctx := limited(t)
	a, b := server(t), open(t, Config{})
	out := newOutput(t, a, OutputConfig{Name: "x"})
	in := newInput(t, b, InputConfig{Sources: []Source{source(a, out)}})
	values := [][]byte{[]byte("a"), []byte("b")}
	wait := inBackground(t, func() error {
		if n, err := out.WriteBatch(ctx, 0, values); n != 2 || err != nil {
			return fmt.Errorf("%d written: %w", n, err)
		}
		if err := out.Barrier(AlignedBarrier(7, time.Now())); err != nil {
			return err
		}
		if n, err := out.WriteBatch(ctx, 0, values); n != 2 || err != nil {
			return fmt.Errorf("%d written: %w", n, err)
		}
		return out.Finish(ctx)
	})
	var got []string
	read(ctx, t, in, func(e *Element) {
		switch e.Kind {
		case Record:
			got = append(got, string(e.Value))
		case Checkpoint:
			got = append(got, fmt.Sprint(e.Checkpoint.Barrier.ID))
		}
	})
	if err := wait(); err != nil || fmt.Sprint(got) != "[a b 7 a b]" {
		t.Fatal(got, err)
	}
}

// TestWriteBatchCancelled: a context's error in the middle of a batch comes with the number of records that were written; the output goes
// on behind them, unless a record is half written.
func TestWriteBatchCancelled(t *testing.T) {
	for name, tc := range map[string]struct {
		size, records int
		half          bool
	}{"small": {100, 10_000, false}, "in the middle of a record": {2_000_000, 2, true}} {
		t.Run(name, func(t *testing.T) {
			ctx := limited(t)
			a, b := server(t), open(t, Config{})
			out := newOutput(t, a, OutputConfig{Name: "x", Buffers: 4, BuffersPerSubpartition: 3})
			values := make([][]byte, tc.records)
			rng := rand.New(rand.NewPCG(1, 1))
			for i := range values {
				values[i] = batchRecord(rng, 0, i, tc.size)
			}
			// Nobody reads, so that the writer comes to wait, and then its context ends.
			short, cancel := context.WithCancel(ctx)
			stop := make(chan struct{})
			go func() {
				defer close(stop)
				awaitWriter(ctx, out, nil)
				cancel()
			}()
			n, err := out.WriteBatch(short, 0, values)
			<-stop
			if !errors.Is(err, context.Canceled) || errors.Is(err, ErrHalfWritten) != tc.half || n >= len(values) || n > 0 == tc.half {
				t.Fatalf("%d written: %v", n, err)
			}
			if tc.half { // it can only be closed: nothing else waits, or takes the other record's end for its own
				_, batch := out.WriteBatch(ctx, 0, values[:1])
				_, try := out.TryWrite(nil, values[0])
				_, claim := out.ClaimBuffer(ctx, 0)
				for what, err := range map[string]error{"Write": out.Write(ctx, nil, values[0]), "WriteTo": out.WriteTo(ctx, 0, values[0]),
					"WriteBatch": batch, "TryWrite": try, "Broadcast": out.Broadcast(ctx, values[0]), "Watermark": out.Watermark(ctx, 1),
					"ClaimBuffer": claim, "Flush": out.Flush()} {
					if !errors.Is(err, ErrHalfWritten) {
						t.Errorf("%s after it: %v", what, err)
					}
				}
				if err := out.Close(); err != nil {
					t.Fatal(err)
				}
				return
			}
			in := newInput(t, b, InputConfig{Sources: []Source{source(a, out)}})
			wait := inBackground(t, func() error {
				k, err := out.WriteBatch(ctx, 0, values[n:])
				if k != len(values)-n || err != nil {
					return fmt.Errorf("%d written of %d: %w", k, len(values)-n, err)
				}
				return out.Finish(ctx)
			})
			readBatches(ctx, t, in, func() [][][]byte {
				if err := wait(); err != nil {
					t.Fatal(err)
				}
				return [][][]byte{values}
			}, nil)
		})
	}
}

// TestWriteBatchToAll: as with WriteTo, serde.AllSubpartitions are all of them.
func TestWriteBatchToAll(t *testing.T) {
	ctx := limited(t)
	a, b := server(t), open(t, Config{})
	out := newOutput(t, a, OutputConfig{Name: "x", Subpartitions: 2})
	in := newInput(t, b, InputConfig{Sources: []Source{source(a, out)}})
	values := [][]byte{[]byte("a"), []byte("b")}
	wait := inBackground(t, func() error {
		for _, sub := range []int{0, serde.AllSubpartitions, 1, serde.AllSubpartitions} {
			if n, err := out.WriteBatch(ctx, sub, values); n != 2 || err != nil {
				return fmt.Errorf("%d written: %w", n, err)
			}
		}
		return out.Finish(ctx)
	})
	var got [2]string
	read(ctx, t, in, func(e *Element) {
		if e.Kind == Record {
			got[e.Channel] += string(e.Value)
		}
	})
	if err := wait(); err != nil || got != [2]string{"ababab", "ababab"} {
		t.Fatal(got, err)
	}
}

// TestWriteBatchRefuses: what cannot be written at all.
func TestWriteBatchRefuses(t *testing.T) {
	ctx := limited(t)
	a := server(t)
	out := newOutput(t, a, OutputConfig{Name: "x", Subpartitions: 2})
	values := [][]byte{{1}, {2}}
	for _, sub := range []int{-2, 2} {
		if n, err := out.WriteBatch(ctx, sub, values); n != 0 || !errors.Is(err, serde.ErrSubpartition) {
			t.Errorf("subpartition %d: %d written, %v", sub, n, err)
		}
	}
	if n, err := out.WriteBatch(ctx, 0, nil); n != 0 || err != nil {
		t.Errorf("%d written, %v", n, err)
	}
	if n, err := out.WriteBatch(ctx, 1, values); n != 2 || err != nil {
		t.Errorf("%d written, %v", n, err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestWriteBatchAllocatesNothing: the whole path in steady state, both ends in this process.
func TestWriteBatchAllocatesNothing(t *testing.T) {
	if buildtag.Race || buildtag.Debug || buildtag.Portable || buildtag.NoUnsafe {
		t.Skip("these builds allocate by themselves")
	}
	ctx, cancel := context.WithCancel(limited(t))
	a, b := server(t), open(t, Config{})
	out := newOutput(t, a, OutputConfig{Name: "x", Subpartitions: 2})
	in := newInput(t, b, InputConfig{Sources: []Source{source(a, out)}})
	wait := inBackground(t, func() error {
		values := make([][]byte, 64)
		for i := range values {
			values[i] = make([]byte, 100)
		}
		for i := 0; ; i++ {
			if n, err := out.WriteBatch(ctx, i%2, values); err != nil {
				return err
			} else if n != len(values) {
				return io.ErrShortWrite
			}
		}
	})
	// What is allowed is what the runtime does by itself in so long a time.
	alloctest.AtMost(t, 100_000, 500_000, 50, 64<<10, func() {
		e, err := in.Next(ctx)
		if err != nil || e.Kind != Record || len(e.Value) != 100 {
			t.Fatal(err, e)
		}
	})
	cancel()
	if err := wait(); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
}
