package conform

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/weirflow/weir/credit"
	"github.com/weirflow/weir/segment"
	"github.com/weirflow/weir/serde/event"
)

// errCheckpointAborted is the cause of a promise that an aborted checkpoint broke.
var errCheckpointAborted = errors.New("checkpoint aborted")

// senderRun drives one partition and the server's end of one connection on one thread: the writer half, the ring, the
// loop half, the decoder of the client's frames, the scheduler, and a recorder in place of the socket.
type senderRun struct {
	out      *Out
	credit   int32
	size     int
	pool     *segment.Pool
	local    *segment.LocalPool
	part     *credit.Partition
	writer   *credit.PartitionWriter
	registry *credit.Registry
	core     *credit.ServerCore
	decoder  credit.ServerDecoder
	open     []segment.Builder
	written  []byte // next byte of each subpartition's data
	read     []byte // the next one that must arrive
	state    []string

	task     []string // what the task's side saw in this step
	wire     []byte   // what was written to the connection in this step
	receiver *credit.ClientDecoder
	payload  []byte
	lines    []string
	ackedAll bool
	writable bool
	wanted   bool
}

// runCreditSender runs a scenario of credit-sender.
func runCreditSender(s *Scenario, out *Out) (err error) {
	n := s.Int("subpartitions")
	r := &senderRun{out: out, credit: int32(s.Int("exclusive")), size: s.Int("segment"), writable: true,
		open: make([]segment.Builder, n), written: make([]byte, n), read: make([]byte, n), state: make([]string, n),
		receiver: credit.NewClientDecoder(credit.DecoderConfig{MaxBuffer: s.Int("segment")})}
	const segments = 512
	if r.pool, err = segment.NewPool(segment.Config{SegmentSize: r.size, Segments: segments}); err != nil {
		return err
	}
	if r.local, err = r.pool.NewLocal(segment.LocalConfig{Name: "writer", Required: segments, Subpartitions: n}); err != nil {
		return err
	}
	var id credit.PartitionID
	id[0] = 1
	r.part, r.writer, err = credit.NewPartition(credit.PartitionConfig{ID: id, Subpartitions: n, Pool: r.local, Segments: segments,
		Exclusive: int(r.credit), Sink: r, KeepCancelled: true, SilentFailure: true, OnAllAcked: func() { r.ackedAll = true }})
	if err != nil {
		return err
	}
	r.registry = credit.NewRegistry(credit.RegistryConfig{})
	r.core = credit.NewServerCore(r.registry, r)
	if err := r.registry.Register(r.part); err != nil {
		return err
	}
	r.showState()
	for i := range s.Steps {
		out.Step(i)
		if err := r.step(&s.Steps[i]); err != nil {
			return err
		}
	}
	return r.end()
}

// step does one step, pumps everything, and shows what was seen.
func (r *senderRun) step(st *Step) error {
	r.task, r.lines, r.wire = r.task[:0], r.lines[:0], r.wire[:0]
	acked := r.ackedAll
	if err := r.do(st); err != nil {
		return err
	}
	for r.part.Poll() || r.wanted && r.writable {
		r.wanted = false
		if _, err := r.core.Run(); err != nil {
			r.core.Fail(err) // as any driver does: the client is told
		}
	}
	if err := r.receiver.Feed(r.wire, r); err != nil {
		return err
	}
	for _, line := range r.task {
		r.out.Line("%s", line)
	}
	for _, line := range r.lines {
		r.out.Line("%s", line)
	}
	if r.ackedAll && !acked {
		r.out.Line("acknowledged")
	}
	r.showState()
	return nil
}

func (r *senderRun) do(st *Step) error {
	sub := 0
	if len(st.Args) > 0 {
		if sub = st.Int(0); sub < 0 || sub >= len(r.open) {
			return fmt.Errorf("%s: no such subpartition", st)
		}
	}
	id := credit.ChannelID{15: byte(sub)}
	switch st.Op {
	case "request":
		return r.feed(credit.AppendPartitionRequest(nil, &credit.PartitionRequest{Partition: r.part.ID(), Range: credit.One(int32(sub)), Receiver: id, Credit: r.credit}))
	case "credit":
		return r.feed(credit.AppendAddCredit(nil, id, int32(st.Int(1))))
	case "resume":
		return r.feed(credit.AppendResumeConsumption(nil, id))
	case "ack":
		return r.feed(credit.AppendAckAllUserRecordsProcessed(nil, id))
	case "cancel":
		return r.feed(credit.AppendCancelPartitionRequest(nil, id))
	case "add", "start":
		return r.add(sub, st.Int(1), st.Op == "add")
	case "write":
		return r.write(sub, st.Int(1))
	case "close":
		r.open[sub].Finish()
		r.open[sub].Close()
	case "event":
		ev, err := parseSenderEvent(st.Arg(1))
		if err != nil {
			return err
		}
		t := event.DataTypeOf(ev, strings.HasPrefix(st.Arg(1), "unaligned:"))
		if !r.writer.AddEvent(sub, segment.Wrap(event.AppendPadded(nil, ev), t)) {
			r.task = append(r.task, "rejected")
		}
	case "finish":
		r.writer.Finish(sub)
	case "flush":
		r.writer.Flush(sub)
	case "timeout":
		r.part.Subpartition(sub).AlignedBarrierTimeout(st.Int64(1))
	case "abort":
		r.part.Subpartition(sub).AbortCheckpoint(st.Int64(1), errCheckpointAborted)
	case "fail":
		r.part.Fail(errors.New("producer failed"))
	case "notwritable":
		r.writable = false
	case "writable":
		r.writable, r.wanted = true, true
	default:
		return fmt.Errorf("unknown step %s", st)
	}
	return nil
}

func (r *senderRun) feed(frame []byte) error { return r.decoder.Feed(frame, r.core) }

// add hands over a buffer with size bytes, finished or not.
func (r *senderRun) add(sub, size int, finished bool) error {
	b, ok := r.writer.Take(sub)
	if !ok {
		return errors.New("the pool is empty")
	}
	w := segment.MakeBuilder(b)
	defer func() { r.open[sub] = w }()
	if err := r.fill(&w, sub, size); err != nil {
		return err
	}
	if finished {
		w.Finish()
	}
	_, ok = r.writer.Add(sub, w.NewReader(), 0)
	if finished {
		w.Close()
	}
	if !ok {
		r.task = append(r.task, "rejected")
	}
	return nil
}

func (r *senderRun) write(sub, size int) error { return r.fill(&r.open[sub], sub, size) }

func (r *senderRun) fill(w *segment.Builder, sub, size int) error {
	p := make([]byte, size)
	for i := range p {
		p[i] = r.written[sub]
		r.written[sub]++
	}
	if n := w.Append(p); n != size {
		return fmt.Errorf("%d of %d bytes fit", n, size)
	}
	w.Commit()
	return nil
}

// parseSenderEvent reads an EV word.
func parseSenderEvent(word string) (*event.Event, error) {
	kind, arg, _ := strings.Cut(word, ":")
	if kind == "eod" {
		mode := event.Drain
		if arg == "nodrain" {
			mode = event.NoDrain
		}
		return &event.Event{Kind: event.EndOfData, StopMode: mode}, nil
	}
	id, err := strconv.ParseInt(arg, 10, 64)
	if err != nil {
		return nil, fmt.Errorf("event %q: %w", word, err)
	}
	if kind == "cancel" {
		return &event.Event{Kind: event.CancelCheckpoint, CheckpointID: id}, nil
	}
	o := event.Options{Timeout: event.NoTimeout}
	switch kind {
	case "aligned":
		o.Alignment = event.Aligned
	case "forced":
		o.Alignment = event.ForcedAligned
	case "unaligned":
		o.Alignment = event.Unaligned
	case "timeout":
		o.Alignment, o.Timeout = event.Aligned, 1000
	default:
		return nil, fmt.Errorf("unknown event %q", word)
	}
	return &event.Event{Kind: event.CheckpointBarrier, Barrier: event.Barrier{ID: id, Options: o}}, nil
}

// showSenderEvent is the word for an event.
func showSenderEvent(p []byte) (string, error) {
	var ev event.Event
	if err := event.Decode(p, &ev); err != nil {
		return "", err
	}
	switch ev.Kind {
	case event.EndOfPartition:
		return "eop", nil
	case event.CancelCheckpoint:
		return fmt.Sprintf("cancel:%d", ev.CheckpointID), nil
	case event.EndOfData:
		if ev.StopMode == event.Drain {
			return "eod:drain", nil
		}
		return "eod:nodrain", nil
	case event.CheckpointBarrier:
		b := &ev.Barrier
		kind := map[event.Alignment]string{event.Aligned: "aligned", event.ForcedAligned: "forced", event.Unaligned: "unaligned"}[b.Options.Alignment]
		if b.Options.IsTimeoutable() {
			kind = "timeout"
		}
		return fmt.Sprintf("%s:%d", kind, b.ID), nil
	}
	return "", fmt.Errorf("unexpected event %v", &ev)
}

// showState shows each subpartition whose state has changed.
func (r *senderRun) showState() {
	flag := map[bool]int{true: 1}
	for i := range r.state {
		s := r.part.Subpartition(i)
		c, queued := int32(-1), false
		if reader := r.core.Reader(credit.ChannelID{15: byte(i)}); reader != nil {
			c, queued = reader.Credit(), reader.Queued()
		}
		line := fmt.Sprintf("st %d c=%d a=%d q=%d b=%d x=%d", i, c, flag[queued], s.Queued(), s.Backlog(), flag[s.Blocked()])
		if s.Released() {
			line += " gone"
		}
		if line != r.state[i] {
			r.state[i] = line
			r.out.Line("%s", line)
		}
	}
}

// end closes everything; whatever memory does not come home is an error.
func (r *senderRun) end() error {
	for i := range r.open {
		r.open[i].Close()
	}
	r.core.Disconnected()
	r.registry.Close()
	r.writer.Close()
	r.part.Poll()
	r.local.Close()
	return r.pool.Close()
}

// The connection.

func (r *senderRun) Writable() bool { return r.writable }

func (r *senderRun) WantFlush() { r.wanted = true }

func (r *senderRun) WriteFrame(frame []byte) { r.wire = append(r.wire, frame...) }

func (r *senderRun) WriteBuffer(h *credit.BufferHeader, b segment.Buffer) {
	r.wire = credit.AppendBufferResponse(r.wire, credit.Flink23, h, b.Bytes())
	b.Release()
}

// The receiver.

func (r *senderRun) OnBufferHeader(h *credit.BufferHeader) ([]byte, bool) {
	r.payload = make([]byte, h.Size)
	return r.payload, true
}

func (r *senderRun) OnBufferDone(h *credit.BufferHeader) error {
	sub := int(h.Receiver[15])
	if int(h.Subpartition) != sub {
		return fmt.Errorf("subpartition %d on the channel of %d", h.Subpartition, sub)
	}
	if h.Type.IsBuffer() {
		for _, b := range r.payload {
			if b != r.read[sub] {
				return fmt.Errorf("subpartition %d: byte %02x where %02x follows", sub, b, r.read[sub])
			}
			r.read[sub]++
		}
		r.lines = append(r.lines, fmt.Sprintf("data %d %d %d %d", sub, h.Seq, h.Backlog, h.Size))
		return nil
	}
	word, err := showSenderEvent(r.payload)
	if err != nil {
		return err
	}
	r.lines = append(r.lines, fmt.Sprintf("event %d %d %d %s %s", sub, h.Seq, h.Backlog, h.Type, word))
	return nil
}

func (r *senderRun) OnBacklogAnnouncement(id credit.ChannelID, n int32) error {
	r.lines = append(r.lines, fmt.Sprintf("backlog %d %d", id[15], n))
	return nil
}

func (r *senderRun) OnErrorResponse(e *credit.ErrorResponse) error {
	who := "-"
	if !e.Fatal {
		who = strconv.Itoa(int(e.Receiver[15]))
	}
	name := e.Cause.Class[strings.LastIndexByte(e.Cause.Class, '.')+1:]
	if e.Cause.Class != credit.ClassIllegalState {
		name = "*" // Flink's is that of the innermost cause, which did not come over the wire
	}
	r.lines = append(r.lines, fmt.Sprintf("failed %s %s", who, name))
	return nil
}

// The sink of in-flight data.

func (r *senderRun) see(word string, id int64, sub int, bufs []segment.Buffer) {
	line := fmt.Sprintf("%s %d %d", word, sub, id)
	for _, b := range bufs {
		line += fmt.Sprintf(" %d", b.Len())
	}
	r.task = append(r.task, line)
}

func (r *senderRun) OutputData(id int64, sub int, bufs []segment.Buffer) {
	r.see("persist", id, sub, bufs)
}

func (r *senderRun) OutputPromise(id int64, sub int) { r.see("promise", id, sub, nil) }

func (r *senderRun) OutputKept(id int64, sub int, bufs []segment.Buffer) {
	r.see("kept", id, sub, bufs)
}

func (r *senderRun) OutputBroken(id int64, sub int, cause error) {
	name := "*"
	switch {
	case errors.Is(cause, errCheckpointAborted):
		name = "CheckpointException"
	case errors.Is(cause, credit.ErrPromiseReplaced):
		name = "IllegalStateException"
	}
	r.task = append(r.task, fmt.Sprintf("broken %d %d %s", sub, id, name))
}
