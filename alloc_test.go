//go:build !race && !weirportable && !nounsafe && !weirdebug

package weir

import (
	"context"
	"testing"

	"github.com/weirflow/weir/internal/alloctest"
)

// What the portable driver, builds without unsafe and debug builds allocate is their affair.

// The whole path in steady state, both ends in this process: write, send, receive, read, give credit back. Neither a record nor
// a buffer costs an allocation. What is allowed is what the runtime does by itself in so long a time.
func TestWholePathAllocatesNothing(t *testing.T) {
	for name, set := range map[string]struct {
		out OutputConfig
		at  place
	}{
		"one channel":    {OutputConfig{Name: "x"}, apart},
		"eight channels": {OutputConfig{Name: "x", Subpartitions: 8, Partition: RoundRobin}, apart},
		"by key":         {OutputConfig{Name: "x", Subpartitions: 3}, apart},
		"local":          {OutputConfig{Name: "x", Subpartitions: 3}, together},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(limited(t))
			a, b := set.at.nodes(t)
			out := newOutput(t, a, set.out)
			in := newInput(t, b, InputConfig{Sources: []Source{set.at.source(a, out)}})
			wait := inBackground(t, func() error {
				record := make([]byte, 100)
				for i := 0; ctx.Err() == nil; i++ {
					record[0] = byte(i)
					if err := out.Write(ctx, record[:1], record); err != nil {
						return err
					}
				}
				return nil
			})
			next := func() {
				e, err := in.Next(ctx)
				if err != nil || e.Kind != Record || len(e.Value) != 100 {
					t.Fatal(err, e)
				}
			}
			const records = 500_000
			frames := b.Stats().Frames
			alloctest.AtMost(t, 100_000, records, 50, 64<<10, next)
			if got := b.Stats(); set.at == apart && (got.Frames == frames || got.Credits == 0) || set.at == together && got.Loop.Conns+int(got.Frames) != 0 {
				t.Errorf("nothing moved, or in another way: %+v", got)
			}
			cancel()
			_ = wait() // the context's error
		})
	}
}

// The same for whole buffers.
func TestBuffersAllocateNothing(t *testing.T) { places(t, buffersAllocateNothing) }

func buffersAllocateNothing(t *testing.T, p place) {
	ctx, cancel := context.WithCancel(limited(t))
	a, b := p.nodes(t)
	out := newOutput(t, a, OutputConfig{Name: "x"})
	in := newInput(t, b, InputConfig{Sources: []Source{p.source(a, out)}})
	wait := inBackground(t, func() error {
		for {
			b, err := out.ClaimBuffer(ctx, 0)
			if err != nil {
				return err
			}
			if err := out.CommitBuffer(len(b)); err != nil {
				return err
			}
		}
	})
	alloctest.AtMost(t, 2000, 20_000, 20, 32<<10, func() {
		if _, _, err := in.NextBuffer(ctx); err != nil {
			t.Fatal(err)
		}
	})
	cancel()
	_ = wait() // the context's error
}
