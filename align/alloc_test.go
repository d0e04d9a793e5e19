//go:build !race

package align

import (
	"fmt"
	"testing"

	"github.com/weirflow/weir/credit"
	"github.com/weirflow/weir/internal/alloctest"
	"github.com/weirflow/weir/internal/buildtag"
	"github.com/weirflow/weir/segment"
	"github.com/weirflow/weir/serde/event"
)

// still is an input, a task and a timer that do nothing, without allocating.
type still struct{ noTask }

func (still) Block(int) error                             { return nil }
func (still) Resume(int) error                            { return nil }
func (still) Prioritize(int, int32) error                 { return nil }
func (still) CheckpointStarted(int, *event.Barrier) error { return nil }
func (still) CheckpointStopped(int, int64) error          { return nil }
func (still) Set(int64, int64)                            {}
func (still) Cancel(int64)                                {}

// TestHandlersDoNotAllocate: neither a buffer nor a whole checkpoint allocates, in any mode. (An abort does: its cause.)
func TestHandlersDoNotAllocate(t *testing.T) {
	location := []byte("file:///checkpoints/1")
	for name, tc := range map[string]struct {
		cfg  Config
		kind string
	}{
		"aligned":       {Config{}, "al"},
		"unaligned":     {Config{Unaligned: UnalignedAlways}, "un"},
		"alternating":   {Config{Unaligned: UnalignedOn}, "to100"},
		"at least once": {Config{Mode: AtLeastOnce}, "alo"},
	} {
		t.Run(name, func(t *testing.T) {
			const channels = 130
			cfg := tc.cfg
			cfg.Inputs, cfg.Counts, cfg.Task, cfg.Timers = []Input{still{}, still{}}, []int{100, 30}, still{}, still{}
			h, err := New(cfg)
			if err != nil {
				t.Fatal(err)
			}
			b := event.Barrier{Options: kind(tc.kind)}
			b.Options.Location = location
			alloctest.Zero(t, 3, 50, func() {
				b.ID++
				for ch := range channels {
					h.AddBytes(100)
					if tc.kind == "to100" {
						if err := h.Announcement(ch, &b, 3, Now{}); err != nil {
							t.Fatal(err)
						}
					}
					if err := h.Barrier(ch, &b, false, Now{}); err != nil {
						t.Fatal(err)
					}
					if tc.kind == "to100" && ch == channels/2 && b.ID%2 == 0 {
						if err := h.Timeout(b.ID, Now{}); err != nil {
							t.Fatal(err)
						}
					}
				}
			})
		})
	}
}

// TestBarriersDoNotAllocate: a barrier's whole way, from its arrival at the gate over decoding, blocking and the trigger to the
// senders' release, costs no memory when aligned and at least once, whatever the number of channels. (Unaligned, nothing but
// what the sink does.)
func TestBarriersDoNotAllocate(t *testing.T) {
	if buildtag.Debug {
		t.Skip("a debug build keeps the stacks of each buffer's life")
	}
	for _, mode := range benchModes[:4] {
		for _, channels := range []int{1, 10, 300} {
			t.Run(fmt.Sprintf("%s/%d", mode.name, channels), func(t *testing.T) {
				p := newBarrierPath(t, mode.cfg, mode.kind, channels)
				alloctest.Zero(t, 20, 50, func() { p.checkpoint(t) })
				if p.taken != p.id {
					t.Errorf("%d checkpoints of %d were taken", p.taken, p.id)
				}
			})
		}
	}
}

// TestPollDoesNotAllocate: a buffer on its way through gate and input costs nothing.
func TestPollDoesNotAllocate(t *testing.T) {
	gate := credit.NewGate(credit.GateConfig{Channels: 2, Upstream: harnessUpstream{&harness{}}})
	h, err := New(Config{Inputs: []Input{gate}, Counts: []int{2}, Task: still{}})
	if err != nil {
		t.Fatal(err)
	}
	in := NewCheckpointedInput(gate, h, 0, func() Now { return Now{} }, nil)
	data := segment.Wrap(make([]byte, 100), segment.DataBuffer)
	seq := int32(0)
	alloctest.Zero(t, 100, 10000, func() {
		gate.Deliver(credit.Arrival{Channel: seq & 1, Seq: seq >> 1, Buf: data})
		seq++
		if in.HasPriority() {
			t.Fatal("priority")
		}
		it, st, err := in.Poll()
		if st != credit.Ready || err != nil || it.Buf.Len() != 100 {
			t.Fatal(st, err)
		}
	})
}

// TestStoringDoesNotAllocate: what is not stored passes an input that blocks by storing at no cost.
func TestStoringDoesNotAllocate(t *testing.T) {
	gate := &listGate{channels: 2}
	in, err := NewStoring(StoringConfig{Limit: -1, PageSize: 100, Bounded: true, Gate: gate, Clock: func() Now { return Now{} }})
	if err != nil {
		t.Fatal(err)
	}
	items := []credit.Item{dataItem(0, 1, 10), dataItem(1, 2, 10)}
	alloctest.Zero(t, 10, 1000, func() {
		gate.items = items
		for range items {
			if _, st, err := in.Poll(); st != credit.Ready || err != nil {
				t.Fatal(st, err)
			}
		}
	})
}
