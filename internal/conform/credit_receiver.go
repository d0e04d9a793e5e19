package conform

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/weirflow/weir/credit"
	"github.com/weirflow/weir/segment"
	"github.com/weirflow/weir/serde/event"
)

// receiverRun is the surroundings of a gate in the credit-receiver family: one connection to a sender that the runner
// plays, and the task. Frames are really encoded and decoded in both directions.
type receiverRun struct {
	out      *Out
	gate     *credit.Gate
	pool     *segment.Pool
	recv     *credit.ReceivePool
	port     *credit.GatePort
	core     *credit.ClientCore
	wire     recorder
	channels []*credit.RemoteChannel
	failed   []bool
	last     []string // st line of each channel
	lastPool int
	held     []segment.Buffer
}

// recorder is what the receiver writes to.
type recorder struct {
	buf  []byte
	full bool
}

func (r *recorder) Stage(n int) []byte {
	at := len(r.buf)
	r.buf = append(r.buf, make([]byte, n)...)
	return r.buf[at : at+n : at+n]
}
func (r *recorder) Full() bool { return r.full }
func (r *recorder) WantFlush() {}

func receiverID(ch int) (id credit.ChannelID) {
	binary.BigEndian.PutUint32(id[12:], uint32(ch)+1)
	return id
}

func runCreditReceiver(s *Scenario, out *Out) (err error) {
	n, exclusive, floating := s.Int("channels"), s.Int("exclusive"), s.Int("floating")
	r := &receiverRun{out: out, lastPool: -1, failed: make([]bool, n), last: make([]string, n)}
	total := n*exclusive + floating
	if r.pool, err = segment.NewPool(segment.Config{SegmentSize: s.Int("segment"), Segments: total}); err != nil {
		return err
	}
	if r.recv, err = credit.NewReceivePool(r.pool, credit.ReceivePoolConfig{Name: s.Name, Segments: total}); err != nil {
		return err
	}
	r.gate = credit.NewGate(credit.GateConfig{Channels: n, Guard: credit.GuardOff})
	link := r.gate.NewLink(total, nil)
	if r.port, err = credit.NewGatePort(credit.GatePortConfig{Link: link, Pool: r.recv, Floating: floating}); err != nil {
		return err
	}
	r.core = credit.NewClientCore(credit.ClientConfig{Peer: "sender", Out: &r.wire, Pool: r.recv, Reuse: true,
		Decoder: credit.DecoderConfig{MaxBuffer: s.Int("segment")}})
	for i := range n {
		ch, err := r.port.NewChannel(credit.RemoteConfig{Index: i, ID: receiverID(i), Exclusive: exclusive})
		if err != nil {
			return err
		}
		r.gate.SetUpstream(i, link)
		r.channels = append(r.channels, ch)
		if err := r.core.Request(ch); err != nil {
			return err
		}
	}
	if err := r.pump(); err != nil {
		return err
	}
	for i := range s.Steps {
		out.Step(i)
		st := &s.Steps[i]
		err := r.step(st)
		if errors.Is(err, errUnknownStep) {
			return fmt.Errorf("line %d: unknown step %q", st.Line, st)
		}
		if err == nil {
			err = r.pump()
		}
		if err != nil {
			out.Error(receiverError(err))
			break
		}
	}
	return r.close()
}

// withoutFailed is the scenario without the states of channels that have failed in an earlier step: nobody has to count on
// then.
func withoutFailed(s *Scenario) *Scenario {
	c := *s
	c.Steps = slices.Clone(s.Steps)
	var failed []string
	for i := range c.Steps {
		var now []string
		c.Steps[i].Outs = slices.DeleteFunc(slices.Clone(c.Steps[i].Outs), func(line string) bool {
			w := strings.SplitN(line, " ", 3)
			if w[0] == "failed" {
				now = append(now, w[1])
			}
			return w[0] == "st" && slices.Contains(failed, w[1])
		})
		failed = append(failed, now...)
	}
	return &c
}

var errUnknownStep = errors.New("unknown step")

// receiverError is Flink's name of an error.
func receiverError(err error) string {
	switch {
	case errors.Is(err, credit.ErrReordered):
		return "BufferReorderingException"
	case errors.Is(err, credit.ErrNoBuffer):
		return "IllegalStateException"
	case errors.Is(err, credit.ErrBlockingBacklog), errors.Is(err, credit.ErrBadValue):
		return "IllegalArgumentException"
	}
	return "*"
}

func (r *receiverRun) step(st *Step) error {
	switch st.Op {
	case "backlog":
		return r.feed(credit.AppendBacklogAnnouncement(nil, receiverID(st.Int(0)), int32(st.Int(1))))
	case "data":
		h := credit.BufferHeader{Receiver: receiverID(st.Int(0)), Seq: int32(st.Int(1)), Backlog: int32(st.Int(2)),
			Type: segment.DataBuffer, Size: int32(st.Int(3))}
		return r.feed(credit.AppendBufferResponse(nil, credit.Flink23, &h, make([]byte, h.Size)))
	case "event":
		p, t, err := receiverEvent(st.Arg(3))
		if err != nil {
			return err
		}
		h := credit.BufferHeader{Receiver: receiverID(st.Int(0)), Seq: int32(st.Int(1)), Backlog: int32(st.Int(2)),
			Type: t, Size: int32(len(p))}
		return r.feed(credit.AppendBufferResponse(nil, credit.Flink23, &h, p))
	case "poll":
		return r.poll()
	case "recycle":
		k := st.Int(0)
		if k >= len(r.held) {
			return errUnknownStep
		}
		r.held[k].Release()
		r.held = append(r.held[:k], r.held[k+1:]...)
	case "resume":
		return r.gate.Resume(st.Int(0))
	case "release":
		r.gate.Release(st.Int(0))
	case "notwritable":
		r.wire.full = true
	case "writable":
		r.wire.full = false
	default:
		return errUnknownStep
	}
	return nil
}

// feed lets bytes of the sender arrive in small pieces.
func (r *receiverRun) feed(p []byte) error {
	for len(p) > 0 {
		n := min(len(p), 7)
		if err := r.core.Feed(p[:n]); err != nil {
			return err
		}
		p = p[n:]
	}
	return nil
}

func receiverEvent(text string) ([]byte, segment.DataType, error) {
	word, arg, _ := strings.Cut(text, ":")
	var e event.Event
	switch word {
	case "aligned", "unaligned":
		id, err := strconv.ParseInt(arg, 10, 64)
		if err != nil {
			return nil, 0, errUnknownStep
		}
		e = event.Event{Kind: event.CheckpointBarrier, Barrier: event.Barrier{ID: id,
			Options: event.Options{Alignment: event.Aligned, Timeout: event.NoTimeout}}}
		if word == "unaligned" {
			e.Barrier.Options.Alignment = event.Unaligned
		}
	case "cancel":
		id, err := strconv.ParseInt(arg, 10, 64)
		if err != nil {
			return nil, 0, errUnknownStep
		}
		e = event.Event{Kind: event.CancelCheckpoint, CheckpointID: id}
	case "eod":
		e = event.Event{Kind: event.EndOfData, StopMode: event.Drain}
		if arg == "nodrain" {
			e.StopMode = event.NoDrain
		}
	case "eop":
		e = event.Event{Kind: event.EndOfPartition}
	default:
		return nil, 0, errUnknownStep
	}
	return event.AppendPadded(nil, &e), event.DataTypeOf(&e, word == "unaligned"), nil
}

func (r *receiverRun) poll() error {
	it, st, err := r.gate.Poll()
	switch {
	case err != nil:
		return err
	case st == credit.None:
		r.out.Line("none")
	case st == credit.End:
		r.out.Line("end")
	case it.Event == nil:
		r.out.Line("data %d %d", it.Channel, it.Buf.Len())
		r.held = append(r.held, it.Buf)
	default:
		switch e := it.Event; e.Kind {
		case event.CheckpointBarrier:
			kind := "aligned"
			if e.Barrier.Options.IsUnaligned() {
				kind = "unaligned"
			}
			r.out.Line("barrier %d %d %s", it.Channel, e.Barrier.ID, kind)
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
		default:
			r.out.Line("unexpected %v", e)
		}
	}
	return nil
}

// pump runs the loop until nothing moves, and takes down what changed.
func (r *receiverRun) pump() error {
	for r.port.Poll() {
	}
	r.core.WriteIntents()
	r.gate.Fill()
	var d credit.ServerDecoder
	written := r.wire.buf
	r.wire.buf = nil
	if err := d.Feed(written, receiverWritten{r.out}); err != nil {
		return fmt.Errorf("unreadable: %w", err)
	}
	silent := slices.Clone(r.failed)
	for i, ch := range r.channels {
		if err := ch.Err(); err != nil && !r.failed[i] {
			r.failed[i] = true
			r.out.Line("failed %d %s", i, receiverError(err))
		}
	}
	for i, ch := range r.channels {
		if silent[i] {
			continue
		}
		l := ch.Ledger()
		waits := 0
		if l.Waiting() {
			waits = 1
		}
		st := fmt.Sprintf("st %d x=%d f=%d r=%d u=%d w=%d q=%d", i, l.FreeExclusive(), l.FreeFloating(), l.Required(),
			l.Unannounced(), waits, r.gate.Queued(i))
		if st != r.last[i] {
			r.last[i] = st
			r.out.Line("%s", st)
		}
	}
	if n := int(r.port.Budget().Out()); n != r.lastPool {
		r.lastPool = n
		r.out.Line("pool %d", n)
	}
	return nil
}

// close checks that every segment comes home.
func (r *receiverRun) close() error {
	for _, b := range r.held {
		b.Release()
	}
	r.gate.Close()
	r.core.Fail(errors.New("end of the scenario"))
	r.port.Close()
	for r.port.Poll() {
	}
	r.gate.Fill()
	for r.port.Poll() {
	}
	if n := r.port.Budget().Out(); n != 0 {
		return fmt.Errorf("%d floating buffers did not come back", n)
	}
	if n := r.recv.Reserved(); n != 0 {
		return fmt.Errorf("%d segments are still reserved", n)
	}
	r.recv.Close()
	return r.pool.Close()
}

// receiverWritten prints what the receiver wrote.
type receiverWritten struct{ out *Out }

func (w receiverWritten) line(what string, id credit.ChannelID) error {
	w.out.Line("%s %d", what, int(binary.BigEndian.Uint32(id[12:]))-1)
	return nil
}

func (w receiverWritten) number(what string, id credit.ChannelID, n int32) error {
	w.out.Line("%s %d %d", what, int(binary.BigEndian.Uint32(id[12:]))-1, n)
	return nil
}

func (w receiverWritten) OnPartitionRequest(q *credit.PartitionRequest) error {
	return w.number("request", q.Receiver, q.Credit)
}

func (w receiverWritten) OnTaskEvent(*event.Event, *credit.PartitionID, credit.ChannelID) error {
	w.out.Line("task event")
	return nil
}

func (w receiverWritten) OnCancelPartitionRequest(id credit.ChannelID) error {
	return w.line("cancel", id)
}

func (w receiverWritten) OnCloseRequest() error {
	w.out.Line("close")
	return nil
}

func (w receiverWritten) OnAddCredit(id credit.ChannelID, n int32) error {
	return w.number("credit", id, n)
}

func (w receiverWritten) OnResumeConsumption(id credit.ChannelID) error { return w.line("resume", id) }

func (w receiverWritten) OnAckAllUserRecordsProcessed(id credit.ChannelID) error {
	return w.line("ack", id)
}

func (w receiverWritten) OnNewBufferSize(id credit.ChannelID, n int32) error {
	return w.number("size", id, n)
}

func (w receiverWritten) OnSegmentID(id credit.ChannelID, _, n int32) error {
	return w.number("segment", id, n)
}
