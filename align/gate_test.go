package align

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/weirflow/weir/credit"
	"github.com/weirflow/weir/segment"
	"github.com/weirflow/weir/serde/event"
)

// harness joins a handler to a real gate, as a task would: it is the senders' end of the gate, the task, and the channel
// state. What happens is written down in out. Priority events are handled as soon as they arrive.
type harness struct {
	t       testing.TB
	out     []string
	gate    *credit.Gate
	in      *CheckpointedInput
	handler Handler
	now     Now
	seqs    []int32
	names   map[*byte]string
	busy    map[int64]bool // checkpoints whose input state is being written
	stored  map[string][]string
	timers  *recorder
}

// newHarness makes one for a gate with n channels.
func newHarness(t testing.TB, cfg Config, n int, guard credit.Guard) *harness {
	h := &harness{t: t, seqs: make([]int32, n), names: map[*byte]string{}, busy: map[int64]bool{}, stored: map[string][]string{},
		timers: &recorder{}}
	h.gate = credit.NewGate(credit.GateConfig{Channels: n, Upstream: harnessUpstream{h}, Sink: harnessSink{h}, Guard: guard})
	cfg.Inputs, cfg.Counts, cfg.Task, cfg.Timers = []Input{h.gate}, []int{n}, harnessTask{h}, h.timers
	var err error
	if h.handler, err = New(cfg); err != nil {
		t.Fatal(err)
	}
	h.in = NewCheckpointedInput(h.gate, h.handler, 0, func() Now { return h.now }, nil)
	return h
}

func (h *harness) say(format string, args ...any) {
	h.out = append(h.out, fmt.Sprintf(format, args...))
}

func (h *harness) take() string {
	out := h.out
	h.out = nil
	if len(out) == 0 {
		return "-"
	}
	return strings.Join(out, "; ")
}

type harnessUpstream struct{ h *harness }

func (u harnessUpstream) Resume(ch int) error           { u.h.say("RESUME(c%d)", ch); return nil }
func (u harnessUpstream) AckAll(ch int)                 { u.h.say("ACKALL(c%d)", ch) }
func (u harnessUpstream) ReleaseChannel(int)            {}
func (u harnessUpstream) AnnounceBufferSize(int, int32) {}

type harnessSink struct{ h *harness }

func (s harnessSink) InputData(id int64, ch int, _ int32, b segment.Buffer) {
	h := s.h
	name := h.names[&b.Bytes()[0]]
	h.stored[fmt.Sprintf("%d/%d", id, ch)] = append(h.stored[fmt.Sprintf("%d/%d", id, ch)], name)
	prefix := fmt.Sprintf("csw.addInput(%d,c%d,[", id, ch)
	if n := len(h.out); n > 0 && strings.HasPrefix(h.out[n-1], prefix) { // one call in Flink
		h.out[n-1] = strings.TrimSuffix(h.out[n-1], "])") + "," + name + "])"
		return
	}
	h.say("%s%s])", prefix, name)
}

type harnessTask struct{ h *harness }

func (t harnessTask) Init(b *event.Barrier) error {
	o := b.Options
	if o.NeedsChannelState() {
		t.h.say("csw.start(%d,%v)", b.ID, o.Alignment)
		t.h.busy[b.ID] = true
	}
	if o.IsTimeoutable() {
		t.h.say("csw.finishInput(%d)", b.ID)
		delete(t.h.busy, b.ID)
	}
	return nil
}

func (t harnessTask) Trigger(b *event.Barrier, m Metrics) error {
	nums := fmt.Sprintf("align=%dms,bytes=%d", m.AlignmentNanos/1e6, m.AlignmentBytes)
	if !m.Known {
		nums = "align=open,bytes=open"
	}
	t.h.say("TRIGGER(%d,%v)[%s,delay=%dms]", b.ID, b.Options.Alignment, nums, m.StartDelayNanos/1e6)
	return nil
}

func (t harnessTask) Abort(id int64, cause *CheckpointError) error {
	t.h.say("ABORT(%d,%v)", id, cause.Reason)
	if t.h.busy[id] {
		t.h.say("csw.abort(%d)", id)
		delete(t.h.busy, id)
	}
	return nil
}

func (t harnessTask) Measured(int64, Metrics) {}

func (t harnessTask) Complete(id int64) {
	if t.h.busy[id] {
		t.h.say("csw.finishInput(%d)", id)
		delete(t.h.busy, id)
	}
}

func (t harnessTask) Incomplete(int64, *CheckpointError) {}

// data lets a buffer of data arrive.
func (h *harness) data(ch int, name string, size int) {
	p := make([]byte, size)
	h.names[&p[0]] = name
	h.arrive(ch, segment.Wrap(p, segment.DataBuffer))
}

// event lets an event arrive, as a priority event if it is an unaligned barrier.
func (h *harness) event(ch int, e event.Event) {
	h.arrive(ch, segment.Wrap(event.Append(nil, &e), event.DataTypeOf(&e, e.Barrier.Options.IsUnaligned())))
}

func (h *harness) barrier(ch int, id int64, k string, ts int64) {
	h.event(ch, event.Event{Kind: event.CheckpointBarrier, Barrier: event.Barrier{ID: id, Timestamp: ts, Options: kind(k)}})
}

func (h *harness) arrive(ch int, b segment.Buffer) {
	h.gate.Deliver(credit.Arrival{Channel: int32(ch), Seq: h.seqs[ch], Buf: b})
	h.seqs[ch]++
	h.mail()
}

// mail handles the priority events that wait.
func (h *harness) mail() {
	h.t.Helper()
	if h.in.HasPriority() {
		h.say("<mail>")
		if _, err := h.in.ProcessPriority(); err != nil {
			h.t.Fatal(err)
		}
	}
}

// poll takes one item and reports whether there was one.
func (h *harness) poll() bool {
	h.t.Helper()
	it, st, err := h.in.Poll()
	switch {
	case err != nil:
		h.t.Fatal(err)
	case st == credit.None:
		h.say("poll:none")
	case st == credit.End:
		h.say("poll:none(finished)")
	case it.Event != nil:
		h.say("poll:c%d:%v", it.Channel, it.Event.Kind)
	default:
		h.say("poll:c%d:%s", it.Channel, h.names[&it.Buf.Bytes()[0]])
		it.Buf.Release()
	}
	return st == credit.Ready
}

// clock moves the clock and lets the timer fire.
func (h *harness) clock(ms int64) {
	h.t.Helper()
	h.timers.now.Millis += ms
	h.now.Millis += ms
	h.now.Nanos += ms * 1e6
	if h.timers.set && h.timers.due <= h.now.Millis {
		h.timers.set = false
		h.say("timer-fire")
		if err := h.in.Timeout(h.timers.timer); err != nil {
			h.t.Fatal(err)
		}
		h.mail()
	}
}

// TestRecordedGate compares handler, gate and channels together with Flink's.
func TestRecordedGate(t *testing.T) {
	for _, s := range readRecorded(t, "gate.txt") {
		t.Run(strings.ReplaceAll(s.name, " ", "_"), func(t *testing.T) {
			n, _ := strconv.Atoi(s.cfg["channels"])
			cfg := Config{}
			switch s.cfg["mode"] {
			case "tracker":
				cfg.Mode = AtLeastOnce
			case "unaligned":
				cfg.Unaligned = UnalignedAlways
			case "alternating":
				cfg.Unaligned = UnalignedOn
			}
			// Flink does not hold back what a sender sends past its barrier (G13); weir does unless it is told not to.
			h := newHarness(t, cfg, n, credit.GuardOff)
			for _, step := range s.steps {
				w := strings.Fields(step.op)
				num := func(i int) int {
					n, err := strconv.Atoi(w[i])
					if err != nil {
						t.Fatal(step.op)
					}
					return n
				}
				switch w[0] {
				case "data":
					h.data(num(1), "b"+w[2], 16)
				case "ev":
					switch w[2] {
					case "B":
						h.barrier(num(1), int64(num(3)), w[4], 0)
					case "C":
						h.event(num(1), event.Event{Kind: event.CancelCheckpoint, CheckpointID: int64(num(3))})
					case "EOD":
						h.event(num(1), event.Event{Kind: event.EndOfData, StopMode: map[string]event.StopMode{"d": event.Drain,
							"n": event.NoDrain}[w[3]]})
					case "EOP":
						h.event(num(1), event.Event{Kind: event.EndOfPartition})
					default:
						t.Fatal(step.op)
					}
				case "poll":
					for range num(1) {
						h.poll()
					}
				case "T":
					h.clock(int64(num(1)))
				case "eod":
					h.say("%v", h.in.EndOfData())
				default:
					t.Fatal(step.op)
				}
				// How many mails it takes to handle what waits is no matter.
				got := strings.ReplaceAll(h.take()+"; ", "<mail>; ", "")
				want := step.out + "; "
				for _, mail := range []string{"<mail>; ", "<mail> "} {
					want = strings.ReplaceAll(want, mail, "")
				}
				if got == "" {
					got = "-; "
				}
				if want == "" {
					want = "-; "
				}
				if got != want {
					t.Errorf("line %d: %s\nwant %s\ngot  %s", step.line, step.op, want, got)
				}
			}
		})
	}
}

// serialized is an event as it arrives from a sender.
func serialized(e *event.Event) segment.Buffer {
	return segment.Wrap(event.Append(nil, e), event.DataTypeOf(e, e.Barrier.Options.IsUnaligned()))
}
