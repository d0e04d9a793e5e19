package task_test

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/weirflow/weir/align"
	"github.com/weirflow/weir/credit"
	"github.com/weirflow/weir/segment"
	"github.com/weirflow/weir/serde"
	"github.com/weirflow/weir/serde/event"
	"github.com/weirflow/weir/task"
)

// rig is a task with inputs over real gates, to which items are delivered by hand, in segments of a real pool. At the end of
// the test every segment must be home.
type rig struct {
	t      testing.TB
	pool   *segment.Pool
	local  *segment.LocalPool
	gates  []*credit.Gate
	inputs []*task.Input
	seq    [][]int32
	said   []string
	millis int64
	timer  map[int64]int64
	fail   error // what the operator returns
	parts  [][]byte
}

func newRig(t testing.TB, cfg task.InputConfig, channels ...int) *rig {
	return newRigWith(t, cfg, func(*task.GateInput) {}, channels...)
}

func newRigWith(t testing.TB, cfg task.InputConfig, change func(*task.GateInput), channels ...int) *rig {
	r := &rig{t: t, timer: map[int64]int64{}}
	var err error
	r.pool, err = segment.NewPool(segment.Config{Segments: 64, SegmentSize: 1024})
	must(t, err)
	r.local, err = r.pool.NewLocal(segment.LocalConfig{Name: "rig", Required: 64, Max: 64})
	must(t, err)
	cfg.Clock = func() align.Now { return align.Now{Millis: r.millis, Nanos: r.millis * 1e6} }
	cfg.Timers = (*rigTimers)(r)
	var gis []task.GateInput
	for g, n := range channels {
		up := rigUpstream{r, g, len(channels) > 1}
		var sink credit.InputSink = rigSink{r, g}
		gate := credit.NewGate(credit.GateConfig{Channels: n, Upstream: up, Sink: sink})
		r.gates = append(r.gates, gate)
		r.seq = append(r.seq, make([]int32, n))
		gi := task.GateInput{Gate: gate, Sink: sink}
		change(&gi)
		gis = append(gis, gi)
	}
	r.inputs, err = task.NewInputs(cfg, gis...)
	must(t, err)
	t.Cleanup(func() {
		for i, in := range r.inputs {
			in.Close()
			in.Close()
			r.gates[i].Close()
		}
		r.local.Drain()
		if n := r.local.Stats().InUse; n != 0 {
			t.Errorf("%d segments are not home", n)
		}
		r.local.Close()
		if err := r.pool.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

func (r *rig) say(format string, args ...any) { r.said = append(r.said, fmt.Sprintf(format, args...)) }

// take returns what was said since the last call.
func (r *rig) take() string {
	s := strings.Join(r.said, "; ")
	r.said = nil
	return s
}

func (r *rig) is(want ...string) {
	r.t.Helper()
	if !slices.Equal(r.said, want) {
		r.t.Fatalf("got %q, want %q", r.said, want)
	}
	r.said = nil
}

type rigUpstream struct {
	r     *rig
	gate  int
	gates bool
}

func (u rigUpstream) name(ch int) string {
	if u.gates {
		return fmt.Sprintf("g%dc%d", u.gate, ch)
	}
	return fmt.Sprintf("c%d", ch)
}
func (u rigUpstream) Resume(ch int) error           { u.r.say("RESUME(%s)", u.name(ch)); return nil }
func (u rigUpstream) AckAll(ch int)                 { u.r.say("ACKALL(%s)", u.name(ch)) }
func (u rigUpstream) ReleaseChannel(int)            {}
func (u rigUpstream) AnnounceBufferSize(int, int32) {}

// rigSink takes down what is in flight: the sequence number, -1 for what a deserializer held, and the number of bytes.
type rigSink struct {
	r    *rig
	gate int
}

func (s rigSink) InputData(id int64, ch int, seq int32, b segment.Buffer) {
	s.r.say("persist(%d,c%d,%d,%d)", id, ch, seq, b.Len())
	s.r.parts = append(s.r.parts, slices.Clone(b.Bytes()))
}

type rigTimers rig

func (r *rigTimers) Set(id, delay int64) { r.timer[id] = r.millis + delay }
func (r *rigTimers) Cancel(id int64)     { delete(r.timer, id) }

// rigOperator says what comes.
type rigOperator struct{ r *rig }

func (o rigOperator) Element(input, ch int, e *serde.Element) error {
	o.r.sayElement(e)
	return o.r.fail
}

func (r *rig) sayElement(e *serde.Element) {
	switch e.Kind {
	case serde.Record:
		r.say("rec(%d)", binary.BigEndian.Uint64(e.Value))
	case serde.Watermark:
		r.say("WM(%d)", e.Timestamp)
	case serde.WatermarkStatus:
		r.say("%s", map[bool]string{true: "IDLE", false: "ACTIVE"}[e.Idle])
	case serde.LatencyMarker:
		r.say("latency")
	case serde.RecordAttributes:
		r.say("backlog=%t", e.Backlog)
	default:
		r.say("%v", e.Kind)
	}
}

func (o rigOperator) WatermarkEvent(_ int, w *event.WatermarkEvent) error {
	o.r.say("mark(%s,%d)", w.Identifier, w.Value)
	return nil
}

func (o rigOperator) Notice(n *task.Notice) error { o.r.sayNotice(n); return nil }

func (r *rig) sayNotice(n *task.Notice) {
	switch n.Status {
	case task.Checkpoint:
		r.say("TRIGGER(%d,%v)", n.Barrier.ID, n.Barrier.Options.Alignment)
	case task.Completed:
		r.say("COMPLETE(%d)", n.Barrier.ID)
	case task.Aborted:
		r.say("ABORT(%d,%v)", n.Barrier.ID, n.Cause.Reason)
	}
}

func (o rigOperator) EndInput(input int) error { o.r.say("endInput(%d)", input+1); return nil }

// buffer fills a segment with p.
func (r *rig) buffer(p []byte) segment.Buffer {
	b, ok := r.local.Take()
	if !ok {
		r.local.Drain()
		if b, ok = r.local.Take(); !ok {
			r.t.Fatal("no segment left")
		}
	}
	return b.Resized(copy(b.Memory(), p)).WithType(segment.DataBuffer)
}

func (r *rig) deliver(gate, ch int, b segment.Buffer) {
	r.gates[gate].Deliver(credit.Arrival{Channel: int32(ch), Seq: r.seq[gate][ch], Buf: b})
	r.seq[gate][ch]++
}

func (r *rig) data(gate, ch int, p []byte) { r.deliver(gate, ch, r.buffer(p)) }

func (r *rig) event(gate, ch int, e event.Event) {
	priority := e.Kind == event.CheckpointBarrier && e.Barrier.Options.IsUnaligned()
	r.deliver(gate, ch, segment.Wrap(event.Append(nil, &e), event.DataTypeOf(&e, priority)))
}

func (r *rig) barrier(gate, ch int, id int64, o event.Options) {
	r.event(gate, ch, event.Event{Kind: event.CheckpointBarrier, Barrier: event.Barrier{ID: id, Timestamp: r.millis, Options: o}})
}

var (
	alignedOptions   = event.Options{Alignment: event.Aligned, Timeout: event.NoTimeout}
	unalignedOptions = event.Options{Alignment: event.Unaligned, Timeout: event.NoTimeout}
	countedOptions   = event.Options{Alignment: event.AtLeastOnce, Timeout: event.NoTimeout}
)

func timedOptions(ms int64) event.Options {
	return event.Options{Alignment: event.Aligned, Timeout: ms}
}

// framed is elements as records of a stream.
func framed(es ...serde.Element) (p []byte) {
	for i := range es {
		e := serde.AppendElement(nil, &es[i])
		p = append(binary.BigEndian.AppendUint32(p, uint32(len(e))), e...)
	}
	return p
}

func rec(n uint64) serde.Element {
	return serde.Element{Kind: serde.Record, Value: binary.BigEndian.AppendUint64(nil, n)}
}

func records(ns ...uint64) []byte {
	var es []serde.Element
	for _, n := range ns {
		es = append(es, rec(n))
	}
	return framed(es...)
}

// next calls Next until it says Nothing or EndOfInput, and says everything.
func (r *rig) next(in *task.Input) error {
	for {
		st, err := in.Next()
		if err != nil {
			return err
		}
		switch st {
		case task.Element:
			r.sayElement(in.Element())
		case task.WatermarkEvent:
			r.say("mark(%s,%d)", in.Watermark().Identifier, in.Watermark().Value)
		case task.Checkpoint, task.Completed, task.Aborted:
			r.sayNotice(in.Notice())
		default:
			r.say("%v", st)
		}
		if st == task.Nothing || st == task.EndOfInput {
			return nil
		}
	}
}
