package conform

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/weirflow/weir/align"
	"github.com/weirflow/weir/credit"
	"github.com/weirflow/weir/segment"
	"github.com/weirflow/weir/serde/event"
)

// alignRun is the surroundings of a handler in the align families: the senders, the clock, the timer and the task. The
// gate and its channels are those of package credit, the handler is that of package align.
type alignRun struct {
	out     *Out
	gate    *credit.Gate
	in      *align.CheckpointedInput
	now     align.Now
	senders []alignSender
	names   map[*byte]int // data buffers by the address of their bytes
	status  credit.EndOfDataStatus

	timerSet bool
	timerID  int64
	timerDue int64
}

// alignSender is one end of a channel: what waits to be sent, and whether it may be.
type alignSender struct {
	line    []segment.Buffer
	seq     int32
	blocked bool
}

// runAlign drives a handler that is as Flink's in all that a scenario can tell.
func runAlign(s *Scenario, out *Out) error { return runAlignWith(s, out, true) }

func runAlignWith(s *Scenario, out *Out, keepOlder bool) error {
	n := s.Int("channels")
	r := &alignRun{out: out, senders: make([]alignSender, n), names: map[*byte]int{}}
	r.gate = credit.NewGate(credit.GateConfig{Channels: n, Upstream: alignUpstream{r}, Sink: alignSink{r}, Guard: credit.GuardFail})
	gate := alignGate{r.gate, r}
	cfg := align.Config{
		StopAtFirstEnd: s.Config["finished"] == "false",
		KeepOlder:      keepOlder,
		Inputs:         []align.Input{gate},
		Counts:         []int{n},
		Task:           alignTask{r},
		Timers:         alignTimers{r},
	}
	if f := s.Config["finished"]; f != "true" && f != "false" {
		return fmt.Errorf("unknown finished %q", f)
	}
	switch s.Config["mode"] {
	case "exactly-once":
	case "at-least-once":
		cfg.Mode = align.AtLeastOnce
	case "unaligned":
		cfg.Unaligned = align.UnalignedAlways
	case "alternating":
		cfg.Unaligned = align.UnalignedOn
	default:
		return fmt.Errorf("unknown mode %q", s.Config["mode"])
	}
	handler, err := align.New(cfg)
	if err != nil {
		return err
	}
	r.in = align.NewCheckpointedInput(gate, handler, 0, func() align.Now { return r.now }, nil)
	for i := range s.Steps {
		out.Step(i)
		if err := r.step(&s.Steps[i]); err != nil {
			if unknown := (alignUnknown{}); err == unknown {
				return fmt.Errorf("line %d: unknown step %q", s.Steps[i].Line, &s.Steps[i])
			}
			out.Error("*")
			break
		}
	}
	return r.close()
}

type alignUnknown struct{}

func (alignUnknown) Error() string { return "unknown step" }

func (r *alignRun) step(st *Step) error {
	switch st.Op {
	case "buf":
		size := st.Int(2)
		p := make([]byte, size+1) // an empty one, too, is told from others by where it lies
		r.names[&p[0]] = st.Int(1)
		r.send(st.Int(0), segment.Wrap(p, segment.DataBuffer).Resized(size))
	case "barrier":
		o, err := alignOptions(st.Arg(2))
		if err != nil {
			return err
		}
		e := event.Event{Kind: event.CheckpointBarrier, Barrier: event.Barrier{ID: st.Int64(1), Timestamp: st.Int64(3), Options: o}}
		if o.IsUnaligned() {
			r.arrive(st.Int(0), alignBytes(&e, true))
		} else {
			r.send(st.Int(0), alignBytes(&e, false))
		}
	case "cancel":
		r.send(st.Int(0), alignBytes(&event.Event{Kind: event.CancelCheckpoint, CheckpointID: st.Int64(1)}, false))
	case "eod":
		e := event.Event{Kind: event.EndOfData, StopMode: event.Drain}
		switch st.Arg(1) {
		case "drain":
		case "nodrain":
			e.StopMode = event.NoDrain
		default:
			return alignUnknown{}
		}
		r.send(st.Int(0), alignBytes(&e, false))
	case "eop":
		r.send(st.Int(0), alignBytes(&event.Event{Kind: event.EndOfPartition}, false))
	case "poll":
		_, err := r.poll()
		if err != nil {
			return err
		}
	case "drain":
		for more := true; more; {
			var err error
			if more, err = r.poll(); err != nil {
				return err
			}
		}
	case "mail":
		if _, err := r.in.ProcessPriority(); err != nil {
			return err
		}
	case "clock":
		r.now.Millis += st.Int64(0)
		r.now.Nanos += st.Int64(0) * 1e6
		if r.timerSet && r.timerDue <= r.now.Millis {
			r.timerSet = false
			r.out.Line("timer")
			if err := r.in.Timeout(r.timerID); err != nil {
				return err
			}
		}
	default:
		return alignUnknown{}
	}
	r.deliver()
	return nil
}

// poll asks the gate once and reports whether it had something.
func (r *alignRun) poll() (bool, error) {
	if _, err := r.in.ProcessPriority(); err != nil {
		return false, err
	}
	r.deliver()
	it, st, err := r.in.Poll()
	if err != nil {
		return false, err
	}
	switch st {
	case credit.None:
		r.out.Line("none")
	case credit.End:
		r.out.Line("end")
	default:
		r.item(&it)
	}
	if now := r.gate.EndOfData(); now != r.status {
		r.status = now
		r.out.Line("status %v", now)
	}
	r.deliver()
	return st == credit.Ready, nil
}

func (r *alignRun) item(it *credit.Item) {
	if it.Event == nil {
		r.out.Line("buf %d %d", it.Channel, r.name(it.Buf))
		it.Buf.Release()
		return
	}
	switch e := it.Event; e.Kind {
	case event.CheckpointBarrier:
		r.out.Line("barrier %d %d %s", it.Channel, e.Barrier.ID, alignKind(e.Barrier.Options))
	case event.CancelCheckpoint:
		r.out.Line("cancel %d %d", it.Channel, e.CheckpointID)
	case event.EndOfData:
		mode := "drain"
		if e.StopMode == event.NoDrain {
			mode = "nodrain"
		}
		r.out.Line("eod %d %s", it.Channel, mode)
	case event.EndOfPartition:
		r.out.Line("eop %d", it.Channel)
	case event.Announcement:
		b := &e.Announced.Barrier
		r.out.Line("announce %d %d %s %d", it.Channel, b.ID, alignKind(b.Options), e.Seq)
	default:
		r.out.Line("unexpected %v", e)
	}
}

// send puts an item at the end of the channel's waiting line.
func (r *alignRun) send(ch int, b segment.Buffer) {
	s := &r.senders[ch]
	s.line = append(s.line, b)
}

// deliver lets arrive what the senders may send.
func (r *alignRun) deliver() {
	for ch := range r.senders {
		for s := &r.senders[ch]; !s.blocked && len(s.line) > 0; {
			b := s.line[0]
			s.line = s.line[1:]
			s.blocked = b.Type().BlocksUpstream()
			r.arrive(ch, b)
		}
	}
}

func (r *alignRun) arrive(ch int, b segment.Buffer) {
	s := &r.senders[ch]
	r.gate.Deliver(credit.Arrival{Channel: int32(ch), Seq: s.seq, Buf: b})
	s.seq++
}

func (r *alignRun) name(b segment.Buffer) int {
	if p := b.Resized(1).Bytes(); len(p) > 0 {
		if n, ok := r.names[&p[0]]; ok {
			return n
		}
	}
	return -1
}

// close gives back what is still queued.
func (r *alignRun) close() error {
	r.in.Close()
	r.out = new(Out) // the releases that follow belong to no step
	r.gate.Close()
	for i := range r.senders {
		for _, b := range r.senders[i].line {
			b.Release()
		}
	}
	return nil
}

func alignBytes(e *event.Event, priority bool) segment.Buffer {
	return segment.Wrap(event.Append(nil, e), event.DataTypeOf(e, priority))
}

func alignOptions(kind string) (event.Options, error) {
	o := event.Options{Alignment: event.Aligned, Timeout: event.NoTimeout}
	switch kind {
	case "atleastonce":
		o.Alignment = event.AtLeastOnce
	case "aligned":
	case "forced":
		o.Alignment = event.ForcedAligned
	case "unaligned":
		o.Alignment = event.Unaligned
	default:
		ms, ok := strings.CutPrefix(kind, "timeout:")
		n, err := strconv.ParseInt(ms, 10, 64)
		if !ok || err != nil || n <= 0 || n == math.MaxInt64 {
			return o, alignUnknown{}
		}
		o.Timeout = n
	}
	return o, nil
}

func alignKind(o event.Options) string {
	switch {
	case o.IsTimeoutable():
		return fmt.Sprintf("timeout:%d", o.Timeout)
	case o.Alignment == event.AtLeastOnce:
		return "atleastonce"
	case o.Alignment == event.ForcedAligned:
		return "forced"
	case o.IsUnaligned():
		return "unaligned"
	}
	return "aligned"
}

// alignGate takes down what the handler tells the channels.
type alignGate struct {
	*credit.Gate
	r *alignRun
}

func (g alignGate) Block(ch int) error {
	g.r.out.Line("block %d", ch)
	return g.Gate.Block(ch)
}

func (g alignGate) Prioritize(ch int, seq int32) error {
	g.r.out.Line("prioritize %d %d", ch, seq)
	return g.Gate.Prioritize(ch, seq)
}

func (g alignGate) CheckpointStarted(ch int, b *event.Barrier) error {
	if ch == 0 {
		g.r.out.Line("started %d", b.ID)
	}
	return g.Gate.CheckpointStarted(ch, b)
}

func (g alignGate) CheckpointStopped(ch int, id int64) error {
	if ch == 0 {
		g.r.out.Line("stopped %d", id)
	}
	return g.Gate.CheckpointStopped(ch, id)
}

// alignUpstream takes down what the gate tells the senders.
type alignUpstream struct{ r *alignRun }

func (u alignUpstream) Resume(ch int) error {
	s := &u.r.senders[ch]
	if !s.blocked {
		return fmt.Errorf("sender %d is resumed and was not blocked", ch)
	}
	s.blocked = false
	u.r.out.Line("resume %d", ch)
	return nil
}

func (u alignUpstream) AckAll(ch int) { u.r.out.Line("ack %d", ch) }

func (u alignUpstream) ReleaseChannel(ch int) { u.r.out.Line("release %d", ch) }

func (u alignUpstream) AnnounceBufferSize(int, int32) {}

// alignSink takes down what the channels hand over to be stored.
type alignSink struct{ r *alignRun }

func (s alignSink) InputData(checkpoint int64, ch int, _ int32, b segment.Buffer) {
	s.r.out.Line("persist %d %d %d", checkpoint, ch, s.r.name(b))
}

// alignTask takes down what the task is told.
type alignTask struct{ r *alignRun }

func (t alignTask) Init(b *event.Barrier) error {
	t.r.out.Line("init %d %s", b.ID, alignKind(b.Options))
	return nil
}

func (t alignTask) Trigger(b *event.Barrier, m align.Metrics) error {
	bytes, nanos := "?", "?"
	if m.Known {
		bytes, nanos = strconv.FormatInt(m.AlignmentBytes, 10), strconv.FormatInt(m.AlignmentNanos, 10)
	}
	t.r.out.Line("trigger %d %s bytes=%s align=%s delay=%d", b.ID, alignKind(b.Options), bytes, nanos, m.StartDelayNanos)
	return nil
}

func (t alignTask) Abort(id int64, cause *align.CheckpointError) error {
	t.r.out.Line("abort %d %v", id, cause.Reason)
	return nil
}

func (t alignTask) Measured(id int64, m align.Metrics) {
	t.r.out.Line("measured %d bytes=%d align=%d", id, m.AlignmentBytes, m.AlignmentNanos)
}

func (t alignTask) Complete(id int64) { t.r.out.Line("complete %d", id) }

func (t alignTask) Incomplete(id int64, _ *align.CheckpointError) { t.r.out.Line("incomplete %d", id) }

// alignTimers is the one timer of the handler.
type alignTimers struct{ r *alignRun }

func (t alignTimers) Set(id, delay int64) {
	t.r.timerSet, t.r.timerID, t.r.timerDue = true, id, t.r.now.Millis+delay
}

func (t alignTimers) Cancel(int64) { t.r.timerSet = false }
