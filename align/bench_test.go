package align

import (
	"fmt"
	"testing"

	"github.com/weirflow/weir/credit"
	"github.com/weirflow/weir/segment"
	"github.com/weirflow/weir/serde/event"
)

// benchModes are the ways to take a checkpoint.
var benchModes = []struct {
	name string
	cfg  Config
	kind string
}{
	{"aligned", Config{}, "al"}, {"at-least-once", Config{Mode: AtLeastOnce}, "alo"},
	{"unaligned", Config{Unaligned: UnalignedOn}, "un"}, {"timed-in-time", Config{Unaligned: UnalignedOn}, "to1000"},
	{"timed-late", Config{Unaligned: UnalignedOn}, "to1"},
}

// benchChannels are how many channels bring each barrier.
var benchChannels = []int{10, 100, 1000, 10000}

// perBarrier reports the time that one barrier of one channel takes.
func perBarrier(b *testing.B, channels int) {
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(channels), "ns/barrier")
}

// BenchmarkCheckpoint is one whole checkpoint as the handler sees it: a barrier on each channel, announced before where it
// may turn unaligned; timed-late turns so halfway.
func BenchmarkCheckpoint(b *testing.B) {
	for _, mode := range benchModes {
		for _, channels := range benchChannels {
			b.Run(fmt.Sprintf("mode=%s/channels=%d", mode.name, channels), func(b *testing.B) {
				cfg := mode.cfg
				cfg.Inputs, cfg.Counts = []Input{still2{}}, []int{channels}
				cfg.Task, cfg.Timers = noTask{}, still2Timers{}
				h, err := New(cfg)
				if err != nil {
					b.Fatal(err)
				}
				barrier := event.Barrier{Options: kind(mode.kind)}
				b.ReportAllocs()
				for b.Loop() {
					barrier.ID++
					for ch := range channels {
						if err := h.Barrier(ch, &barrier, false, Now{}); err != nil {
							b.Fatal(err)
						}
						if mode.name == "timed-late" && ch == channels/2 {
							if err := h.Timeout(barrier.ID, Now{}); err != nil {
								b.Fatal(err)
							}
						}
					}
				}
				perBarrier(b, channels)
			})
		}
	}
}

// BenchmarkBarriers is the same with all that is around it in a task: the barriers arrive at a gate, are decoded, handed out
// and aligned on, and the senders resumed.
func BenchmarkBarriers(b *testing.B) {
	for _, mode := range benchModes[:4] {
		for _, channels := range benchChannels {
			b.Run(fmt.Sprintf("mode=%s/channels=%d", mode.name, channels), func(b *testing.B) {
				p := newBarrierPath(b, mode.cfg, mode.kind, channels)
				for range 2 { // queues grow to what they need
					p.checkpoint(b)
				}
				b.ReportAllocs()
				for b.Loop() {
					p.checkpoint(b)
				}
				if p.taken == 0 || p.taken != p.id {
					b.Fatalf("%d checkpoints of %d were taken", p.taken, p.id)
				}
				perBarrier(b, channels)
			})
		}
	}
}

// BenchmarkPoll is one buffer through gate and input.
func BenchmarkPoll(b *testing.B) {
	gate := credit.NewGate(credit.GateConfig{Channels: 1, Upstream: harnessUpstream{&harness{}}})
	h, err := New(Config{Inputs: []Input{gate}, Counts: []int{1}, Task: noTask{}})
	if err != nil {
		b.Fatal(err)
	}
	in := NewCheckpointedInput(gate, h, 0, func() Now { return Now{} }, nil)
	data := segment.Wrap(make([]byte, 100), segment.DataBuffer)
	seq := int32(0)
	b.ReportAllocs()
	for b.Loop() {
		gate.Deliver(credit.Arrival{Seq: seq, Buf: data})
		seq++
		if _, st, err := in.Poll(); st != credit.Ready || err != nil {
			b.Fatal(st, err)
		}
	}
}
