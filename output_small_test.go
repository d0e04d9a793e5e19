package weir

import (
	"encoding/binary"
	"io"
	"math/rand/v2"
	"testing"
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

// TestOutputOfSmallBuffersGrows: an output may hold as many bytes, be they in few buffers or in many; not if the user said how many.
func TestOutputOfSmallBuffersGrows(t *testing.T) {
	ctx := limited(t)
	n := server(t)
	commit := func(out *Output, bytes, times int) {
		t.Helper()
		for range times {
			if _, err := out.ClaimBuffer(ctx, 0); err != nil {
				t.Fatal(err)
			}
			if err := out.CommitBuffer(bytes); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, tc := range map[string]struct {
		cfg  OutputConfig
		want int // segments at most after small buffers
	}{
		"as it comes":       {OutputConfig{}, mostSmall},
		"of a size":         {OutputConfig{Buffers: 32}, 32},
		"of many consumers": {OutputConfig{Subpartitions: fewChannels + 1}, 32},
		"of two consumers":  {OutputConfig{Subpartitions: 2}, mostSmall},
	} {
		t.Run(name, func(t *testing.T) {
			tc.cfg.Name = name
			out := newOutput(t, n, tc.cfg)
			before := out.pool.Stats().Max
			commit(out, 100, 9) // nobody reads: of more than the quota, which is 10 at least, a writer would wait
			switch got := out.pool.Stats().Max; {
			case tc.want == before && got != before, tc.want > before && got <= before, got > tc.want:
				t.Fatalf("%d segments at most, before it were %d, want up to %d", got, before, tc.want) // or it would wait for ever
			}
			if tc.want > before {
				commit(out, 100, 200) // more than fitted before
				if got := out.pool.Stats().Max; got < tc.want/2 {
					t.Errorf("%d segments at most for buffers of 100 bytes", got)
				}
				in := newInput(t, open(t, Config{}), InputConfig{Sources: []Source{source(n, out)}})
				wait := inBackground(t, func() error {
					for {
						if _, _, err := in.NextBuffer(ctx); err != nil {
							return err
						}
					}
				})
				commit(out, 32<<10, 100)
				if err := out.Finish(ctx); err != nil {
					t.Error(err)
				}
				if err := wait(); err != io.EOF {
					t.Error(err)
				}
				if err := in.Close(); err != nil {
					t.Error(err)
				}
				if got := out.pool.Stats().Max; got != before {
					t.Errorf("%d segments at most for full buffers, before it were %d", got, before)
				}
			}
			_ = out.Close() // nobody came to read it
		})
	}
}
