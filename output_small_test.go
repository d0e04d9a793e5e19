package weir

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"
)

// TestSmallBuffers: buffers with few bytes come one by one, as they were committed, whether they shared messages or not; if they did,
// they cost fewer credits.
func TestSmallBuffers(t *testing.T) {
	const buffers = 20_000
	for name, cfg := range map[string]Config{
		"packed": {}, "one by one": {NoPacking: true}, "Flink 1.20": {Flink: Flink120},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := limited(t)
			read := cfg
			cfg.Listen = "127.0.0.1:0"
			a, b := open(t, cfg), open(t, read)
			out := newOutput(t, a, OutputConfig{Name: "small"})
			in := newInput(t, b, InputConfig{Sources: []Source{source(a, out)}})
			size := func(i uint64) int { // most are small, one in a hundred is up to a whole one
				r := rand.New(rand.NewPCG(i, 7))
				if i%100 == 99 {
					return 8 + r.IntN(32<<10-7)
				}
				return 8 + r.IntN(2000)
			}
			wait := inBackground(t, func() error {
				for i := range uint64(buffers) {
					p, err := out.ClaimBuffer(ctx, 0)
					if err != nil {
						return err
					}
					binary.BigEndian.PutUint64(p, i)
					if err := out.CommitBuffer(size(i)); err != nil {
						return err
					}
				}
				return out.Finish(ctx)
			})
			next := uint64(0)
			for {
				p, e, err := in.NextBuffer(ctx)
				if err == io.EOF {
					break
				}
				if err != nil {
					t.Fatal(err)
				}
				if e.Kind != Record {
					continue
				}
				if i := binary.BigEndian.Uint64(p); i != next || len(p) != size(i) {
					t.Fatalf("buffer %d of %d bytes, want number %d of %d", i, len(p), next, size(next))
				}
				next++
			}
			if err := wait(); err != nil || next != buffers {
				t.Errorf("%d buffers, %v", next, err)
			}
			credits := int(b.Stats().Credits)
			if packed := credits < buffers/2; packed != (name == "packed") || credits == 0 {
				t.Errorf("%d credits for %d buffers", credits, buffers)
			}
			if err := in.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestSmallBuffersInLittleMemory: an output that may hold what it is guaranteed, and no more, takes small buffers, full ones and records by
// turns, and waits for nothing that it keeps itself.
func TestSmallBuffersInLittleMemory(t *testing.T) {
	for _, quota := range []int{0, 1} {
		t.Run(fmt.Sprintf("quota %d", quota), func(t *testing.T) { littleMemory(t, quota) })
	}
}

func littleMemory(t *testing.T, quota int) {
	ctx := limited(t)
	a, b := server(t), open(t, Config{})
	out := newOutput(t, a, OutputConfig{Name: "little", Subpartitions: 2, Buffers: 3, BuffersPerSubpartition: quota})
	in := newInput(t, b, InputConfig{Sources: []Source{source(a, out)}})
	const rounds = 300
	wait := inBackground(t, func() error {
		for i := range rounds {
			for sub := range 2 {
				for _, n := range []int{10, 3000, 32 << 10, 1} {
					if _, err := out.ClaimBuffer(ctx, sub); err != nil {
						return err
					}
					if err := out.CommitBuffer(n); err != nil {
						return err
					}
				}
			}
			if i%7 == 0 { // a record, which nobody takes for one here
				if err := out.WriteTo(ctx, i%2, make([]byte, 40<<10)); err != nil {
					return err
				}
			}
		}
		return out.Finish(ctx)
	})
	got := 0
	for {
		_, e, err := in.NextBuffer(ctx)
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
	if err := wait(); err != nil || got < 8*rounds {
		t.Errorf("%d buffers, %v", got, err)
	}
	if err := in.Close(); err != nil {
		t.Error(err)
	}
}

// TestSmallBuffersHoldTheirBytes: an output holds as many bytes as ever, be they in few buffers or in many, and has room for a record then.
func TestSmallBuffersHoldTheirBytes(t *testing.T) {
	ctx := limited(t)
	n := server(t)
	out := newOutput(t, n, OutputConfig{Name: "held"})
	for range 500 { // nobody reads; 24 would fill its quota if each took a segment
		if _, err := out.ClaimBuffer(ctx, 0); err != nil {
			t.Fatal(err)
		}
		if err := out.CommitBuffer(1000); err != nil {
			t.Fatal(err)
		}
	}
	if u := out.pool.Stats(); u.Max != 32 || u.InUse > 20 {
		t.Errorf("%d segments in use, of %d at most, for half a megabyte", u.InUse, u.Max)
	}
	if err := out.WriteTo(ctx, 0, make([]byte, 100<<10)); err != nil {
		t.Errorf("a record: %v", err)
	}
	_ = out.Close() // nobody came to read it
}

// TestAvailableCountsWhatIsKept: what a writer keeps for small buffers does not make it wait, nor its task.
func TestAvailableCountsWhatIsKept(t *testing.T) {
	ctx := limited(t)
	a, b := server(t), open(t, Config{})
	out := newOutput(t, a, OutputConfig{Name: "kept", Buffers: 2, BuffersPerSubpartition: 2})
	in := newInput(t, b, InputConfig{Sources: []Source{source(a, out)}})
	if _, err := out.ClaimBuffer(ctx, 0); err != nil {
		t.Fatal(err)
	}
	if err := out.CommitBuffer(1); err != nil {
		t.Fatal(err)
	}
	if err := out.Flush(); err != nil {
		t.Fatal(err)
	}
	if p, _, err := in.NextBuffer(ctx); err != nil || len(p) != 1 {
		t.Fatalf("%d bytes, %v", len(p), err)
	}
	for !out.Available() { // both segments were kept: one is the user's, one is shared
		if err := ctx.Err(); err != nil {
			t.Fatal(err)
		}
		runtime.Gosched()
	}
	if ok, err := out.TryWrite(nil, []byte("record")); !ok || err != nil {
		t.Errorf("a record: %v, %v", ok, err)
	}
	wait := inBackground(t, func() error { return out.Finish(ctx) })
	readToEnd(ctx, t, in)
	if err := wait(); err != nil {
		t.Error(err)
	}
	if err := in.Close(); err != nil {
		t.Error(err)
	}
}

// TestBurstOfSmallBuffersArrives: what was flushed arrives although the writer does not come again, however many buffers it is in.
func TestBurstOfSmallBuffersArrives(t *testing.T) {
	const buffers = 6000
	for name, cfg := range map[string]Config{"as it comes": {}, "dedicated": {Dedicated: true}, "parked": {Poll: -1}} {
		t.Run(name, func(t *testing.T) {
			ctx := limited(t)
			read := cfg
			cfg.Listen = "127.0.0.1:0"
			a, b := open(t, cfg), open(t, read)
			out := newOutput(t, a, OutputConfig{Name: "burst"})
			in := newInput(t, b, InputConfig{Sources: []Source{source(a, out)}})
			for round := range 5 {
				wait := inBackground(t, func() error {
					for n := 0; n < buffers; n++ {
						p, _, err := in.NextBuffer(ctx)
						if err != nil || len(p) != 50 {
							return fmt.Errorf("buffer %d of round %d: %d bytes, %w", n, round, len(p), err)
						}
					}
					return nil
				})
				for range buffers {
					if _, err := out.ClaimBuffer(ctx, 0); err != nil {
						t.Fatal(err)
					}
					if err := out.CommitBuffer(50); err != nil {
						t.Fatal(err)
					}
				}
				if err := out.Flush(); err != nil {
					t.Fatal(err)
				}
				if err := wait(); err != nil { // the writer does nothing meanwhile
					t.Fatal(err)
				}
			}
			finishAndRead(ctx, t, out, in)
		})
	}
}

// finishAndRead ends an output, reads its input to the end and closes that.
func finishAndRead(ctx context.Context, t *testing.T, out *Output, in *Input) {
	t.Helper()
	wait := inBackground(t, func() error { return out.Finish(ctx) })
	readToEnd(ctx, t, in)
	if err := errors.Join(wait(), in.Close()); err != nil {
		t.Error(err)
	}
}

// readToEnd reads buffers until there are no more.
func readToEnd(ctx context.Context, t *testing.T, in *Input) {
	t.Helper()
	for {
		if _, _, err := in.NextBuffer(ctx); err == io.EOF {
			return
		} else if err != nil {
			t.Fatal(err)
		}
	}
}

// TestSmallBuffersWithoutExclusive: consumers that have no credit of their own hear of a buffer that was committed and not flushed by the buffer
// timeout at the latest, and a writer in little memory does not wait for it in vain.
func TestSmallBuffersWithoutExclusive(t *testing.T) {
	for _, quota := range []int{0, 1, 2} {
		for _, sizes := range [][]int{{10, 3000, 32 << 10, 1}, {20_000}, {10}} {
			t.Run(fmt.Sprint(quota, sizes), func(t *testing.T) {
				ctx := limited(t)
				a, b := server(t), open(t, Config{})
				out := newOutput(t, a, OutputConfig{
					Name: "zero", Subpartitions: 2, Buffers: 3, BuffersPerSubpartition: quota, ZeroExclusive: true, BufferTimeout: 5 * time.Millisecond,
				})
				in := newInput(t, b, InputConfig{Sources: []Source{source(a, out)}, Exclusive: -1, Floating: 1})
				const rounds = 20
				commit := func(sub, n int) error {
					if _, err := out.ClaimBuffer(ctx, sub); err != nil {
						return err
					}
					return out.CommitBuffer(n)
				}
				got, want := 0, 0
				read := func() {
					t.Helper()
					for got < want {
						_, e, err := in.NextBuffer(ctx)
						if err != nil {
							t.Fatalf("after %d of %d buffers: %v", got, want, err)
						}
						if e.Kind == Record {
							got++
						}
					}
				}
				if err := commit(0, 1); err != nil { // alone, and nothing comes behind it
					t.Fatal(err)
				}
				want++
				read()
				wait := inBackground(t, func() error {
					for range rounds {
						for _, n := range sizes {
							if err := errors.Join(commit(0, n), commit(1, n)); err != nil {
								return err
							}
						}
					}
					return nil
				})
				want += 2 * rounds * len(sizes)
				read()
				if err := wait(); err != nil {
					t.Error(err)
				}
				finishAndRead(ctx, t, out, in)
			})
		}
	}
}

// TestSmallBuffersLeaveRoom: Available is true again once what was committed has been read, although the writer had kept the rest of a segment.
func TestSmallBuffersLeaveRoom(t *testing.T) {
	ctx := limited(t)
	a, b := server(t), open(t, Config{})
	out := newOutput(t, a, OutputConfig{Name: "quota", BufferTimeout: -1, Buffers: 8, BuffersPerSubpartition: 2})
	in := newInput(t, b, InputConfig{Sources: []Source{source(a, out)}})
	claim := func() {
		t.Helper()
		if _, err := out.ClaimBuffer(ctx, 0); err != nil {
			t.Fatal(err)
		}
	}
	claim()
	if err := errors.Join(out.CommitBuffer(10), out.Flush()); err != nil {
		t.Fatal(err)
	}
	if _, _, err := in.NextBuffer(ctx); err != nil {
		t.Fatal(err)
	}
	claim()
	for !out.Available() {
		if ctx.Err() != nil {
			t.Fatal("it waits for what it keeps")
		}
		runtime.Gosched()
	}
	if err := out.CommitBuffer(10); err != nil {
		t.Error(err)
	}
	finishAndRead(ctx, t, out, in)
}
