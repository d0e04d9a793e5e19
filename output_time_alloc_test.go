//go:build !race && !weirportable && !nounsafe && !weirdebug

package weir

import (
	"context"
	"testing"

	"github.com/weirflow/weir/internal/alloctest"
)

// The whole path of records with timestamps allocates nothing in steady state, as that of those without.
func TestTimestampsAllocateNothing(t *testing.T) {
	ctx, cancel := context.WithCancel(limited(t))
	a, b := server(t), open(t, Config{})
	out := newOutput(t, a, OutputConfig{Name: "x"})
	in := newInput(t, b, InputConfig{Sources: []Source{source(a, out)}})
	wait := inBackground(t, func() error {
		record := make([]byte, 100)
		for i := int64(0); ctx.Err() == nil; i++ {
			if err := out.WriteToAt(ctx, 0, i, record); err != nil {
				return err
			}
		}
		return nil
	})
	at := int64(0)
	next := func() {
		e, err := in.Next(ctx)
		if err != nil || e.Kind != Record || !e.HasTimestamp || e.Timestamp != at {
			t.Fatal(err, e)
		}
		at++
	}
	alloctest.AtMost(t, 50_000, 200_000, 50, 64<<10, next)
	cancel()
	_ = wait() // the context's error
}
