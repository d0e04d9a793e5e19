package align

import (
	"fmt"
	"testing"

	"github.com/weirflow/weir/credit"
	"github.com/weirflow/weir/segment"
	"github.com/weirflow/weir/serde/event"
)

// BenchmarkCheckpoint is one whole checkpoint: a barrier on each channel.
func BenchmarkCheckpoint(b *testing.B) {
	for _, mode := range []struct {
		name string
		cfg  Config
		kind string
	}{{"aligned", Config{}, "al"}, {"unaligned", Config{Unaligned: UnalignedOn}, "un"}, {"at-least-once", Config{Mode: AtLeastOnce}, "alo"}} {
		for _, channels := range []int{10, 10000} {
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
					}
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(channels), "ns/barrier")
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
