package align

import (
	"encoding/binary"
	"testing"

	"github.com/weirflow/weir/credit"
	"github.com/weirflow/weir/segment"
	"github.com/weirflow/weir/serde/event"
)

// barrierPath is what a barrier passes in a task: a gate, its input and the handler, with a task and senders that do nothing
// and allocate nothing.
type barrierPath struct {
	noTask
	gate  *credit.Gate
	in    *CheckpointedInput
	bytes []byte // of the barrier; all channels send the same
	typ   segment.DataType
	data  segment.Buffer
	seqs  []int32
	id    int64
	taken int64
}

func (p *barrierPath) Trigger(*event.Barrier, Metrics) error { p.taken++; return nil }
func (*barrierPath) Resume(int) error                        { return nil }
func (*barrierPath) AckAll(int)                              {}
func (*barrierPath) ReleaseChannel(int)                      {}
func (*barrierPath) AnnounceBufferSize(int, int32)           {}

func newBarrierPath(t testing.TB, cfg Config, kindOf string, channels int) *barrierPath {
	t.Helper()
	p := &barrierPath{seqs: make([]int32, channels)}
	e := event.Event{Kind: event.CheckpointBarrier, Barrier: event.Barrier{Options: kind(kindOf)}}
	p.bytes, p.typ = event.Append(nil, &e), event.DataTypeOf(&e, e.Barrier.Options.IsUnaligned())
	p.data = segment.Wrap(make([]byte, 100), segment.DataBuffer)
	p.gate = credit.NewGate(credit.GateConfig{Channels: channels, Upstream: p, Sink: stillSink{}})
	cfg.Inputs, cfg.Counts, cfg.Task, cfg.Timers = []Input{p.gate}, []int{channels}, p, still2Timers{}
	h, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	p.in = NewCheckpointedInput(p.gate, h, 0, func() Now { return Now{} }, nil)
	return p
}

type stillSink struct{}

func (stillSink) InputData(int64, int, int32, segment.Buffer) {}

// checkpoint sends the next barrier through all channels, each behind a buffer of data, and takes all of it.
func (p *barrierPath) checkpoint(t testing.TB) {
	p.id++
	binary.BigEndian.PutUint64(p.bytes[4:], uint64(p.id))
	for ch := range p.seqs {
		p.gate.Deliver(credit.Arrival{Channel: int32(ch), Seq: p.seqs[ch], Buf: p.data})
		p.gate.Deliver(credit.Arrival{Channel: int32(ch), Seq: p.seqs[ch] + 1, Buf: segment.Wrap(p.bytes, p.typ)})
		p.seqs[ch] += 2
	}
	for {
		if p.in.HasPriority() {
			if _, err := p.in.ProcessPriority(); err != nil {
				t.Fatal(err)
			}
		}
		_, st, err := p.in.Poll()
		if err != nil {
			t.Fatal(err)
		}
		if st == credit.None {
			return
		}
	}
}
