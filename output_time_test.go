package weir

import (
	"bytes"
	"math"
	"testing"
)

// Records with and without a timestamp, of all sizes, keep both, and their order.
func TestTimestampsArrive(t *testing.T) {
	for name, each := range map[string]bool{"batched": false, "each flushed": true} {
		t.Run(name, func(t *testing.T) {
			ctx := limited(t)
			a, b := server(t), open(t, Config{})
			out := newOutput(t, a, OutputConfig{Name: "x", Subpartitions: 2, FlushEach: each, Buffers: 32})
			in := newInput(t, b, InputConfig{Sources: []Source{source(a, out)}})
			sizes := []int{0, 1, 100, 32<<10 - 17, 32<<10 - 16, 32 << 10, 1 << 20}
			times := []int64{0, 1, -1, math.MinInt64, math.MaxInt64}
			const records = 700
			wait := inBackground(t, func() error {
				for i := range records {
					value := bytes.Repeat([]byte{byte(i)}, sizes[i%len(sizes)])
					var err error
					if i%3 == 0 {
						err = out.WriteTo(ctx, 1, value)
					} else {
						err = out.WriteToAt(ctx, 1, times[i%len(times)], value)
					}
					if err != nil {
						return err
					}
				}
				return out.Finish(ctx)
			})
			i := 0
			read(ctx, t, in, func(e *Element) {
				if e.Kind != Record {
					return
				}
				want := times[i%len(times)]
				if i%3 == 0 {
					want = 0
				}
				if e.Channel != 1 || e.HasTimestamp != (i%3 != 0) || e.HasTimestamp && e.Timestamp != want {
					t.Fatalf("record %d: channel %d, timestamp %d (%v), want %d", i, e.Channel, e.Timestamp, e.HasTimestamp, want)
				}
				if !bytes.Equal(e.Value, bytes.Repeat([]byte{byte(i)}, sizes[i%len(sizes)])) {
					t.Fatalf("record %d has %d bytes, or others", i, len(e.Value))
				}
				i++
			})
			if err := in.Close(); err != nil {
				t.Error(err)
			}
			if err := wait(); err != nil {
				t.Error(err)
			}
			if i != records {
				t.Errorf("%d records of %d", i, records)
			}
		})
	}
}
