package task

import (
	"bytes"
	"fmt"
	"strconv"

	"github.com/weirflow/weir/align"
	"github.com/weirflow/weir/credit"
	"github.com/weirflow/weir/segment"
	"github.com/weirflow/weir/serde"
	"github.com/weirflow/weir/serde/event"
)

// Status is what one call of Input.Next came to (Flink: DataInputStatus, with what the task is told of checkpoints).
type Status uint8

// The statuses.
const (
	// Nothing: nothing is here now, more may come.
	Nothing Status = iota
	// Element: Input.Element is a record, or another stream element that concerns the operator.
	Element
	// Checkpoint: the task takes Input.Notice's checkpoint now, before it calls Next again.
	Checkpoint
	// Aborted: the checkpoint of Input.Notice will not be taken, or not be completed.
	Aborted
	// EndOfRecovery: the senders of all channels have sent what they recovered.
	EndOfRecovery
	// EndOfData: all channels sent their end of data, and all drain. No record follows.
	EndOfData
	// Stopped: all channels sent their end of data, and some stop without draining. No record follows.
	Stopped
	// EndOfInput: every channel has ended. Further calls say so again.
	EndOfInput
	// Completed: all barriers of the checkpoint that Checkpoint told of are here, so what was in flight on its channels is with
	// the sink. Only with unaligned checkpoints on.
	Completed
)

var statusNames = [...]string{"NOTHING_AVAILABLE", "MORE_AVAILABLE", "CHECKPOINT", "CHECKPOINT_ABORTED", "END_OF_RECOVERY",
	"END_OF_DATA", "STOPPED", "END_OF_INPUT", "CHECKPOINT_COMPLETED"}

// String is Flink's name where there is one.
func (s Status) String() string {
	if int(s) < len(statusNames) {
		return statusNames[s]
	}
	return "Status(" + strconv.Itoa(int(s)) + ")"
}

// Notice is what the task is told of a checkpoint.
type Notice struct {
	// Barrier is the checkpoint with the options that it has here. Its Location belongs to the notice.
	Barrier event.Barrier
	// Metrics are the alignment's; an unaligned checkpoint's are not Known yet.
	Metrics align.Metrics
	// Cause is why it was aborted.
	Cause *align.CheckpointError

	status Status
}

// InputConfig configures an Input.
type InputConfig struct {
	// Gate is what is read. The input does not close it.
	Gate *credit.Gate
	// Mode and Unaligned say how checkpoints are aligned. See align.Config.
	Mode      align.Mode
	Unaligned align.Unaligned
	// Timers is needed with align.UnalignedOn; Timeout is called when one is due.
	Timers align.Timers
	// Sink takes the part of a record that a channel's deserializer holds when an unaligned checkpoint starts, under sequence
	// number -1 (Flink: SEQUENCE_NUMBER_UNKNOWN), ahead of what the gate's Sink gets for the channel, in one or several
	// buffers. It is the gate's Sink, usually. Nil: nobody does.
	Sink credit.InputSink
	// Clock is read for events, never for records.
	Clock func() align.Now
	// Deserializer is the configuration of the channels' deserializers; Channel is filled in.
	Deserializer serde.DeserializerConfig
	// Raw hands out buffers as they are: NextBuffer takes the place of Next.
	Raw bool
	// Releaser takes buffers back, if the goroutine has one of the receive pool; nil: Buffer.Release.
	Releaser *segment.Releaser
}

// Input reads a gate (Flink: StreamTaskNetworkInput over a CheckpointedInputGate): it turns its buffers into stream elements,
// hands barriers to the aligner, watermarks to the valve, and tells the end of the data. It belongs to the task's goroutine
// and never waits. Handing out a record allocates nothing.
//
// Invariant: a buffer is read to its end before the next one is polled, so that records of one channel keep their order, and
// no record behind a barrier is handed out before the checkpoint's notice.
type Input struct {
	cur     *serde.Deserializer // has a buffer that is not used up
	last    *serde.Deserializer // its last record, handed out, lies in its buffer
	pending []byte              // a record that WholeRecord left
	channel int                 // of cur, and of element
	element serde.Element
	records uint64

	gate       *credit.Gate
	in         *align.CheckpointedInput
	channels   []*serde.Deserializer
	valve      *Valve
	out        valveOutput
	attributes *AttributesCombiner
	notices    []Notice
	notice     Notice
	told       bool // the end of the data was reported
	cfg        InputConfig
	raw        segment.Buffer
	held       segment.Buffer // NextBuffer's last
}

// NewInput makes the input of a gate. Errors wrap align.ErrConfig.
func NewInput(cfg InputConfig) (*Input, error) {
	in := &Input{gate: cfg.Gate, cfg: cfg}
	n := cfg.Gate.Channels()
	handler, err := align.New(align.Config{
		Mode: cfg.Mode, Unaligned: cfg.Unaligned, Timers: cfg.Timers,
		Inputs: []align.Input{cfg.Gate}, Counts: []int{n}, Task: (*checkpoints)(in),
	})
	if err != nil {
		return nil, err
	}
	recovery := align.NewRecoveryTracker(cfg.Gate, n)
	in.in = align.NewCheckpointedInput(cfg.Gate, handler, 0, cfg.Clock, recovery)
	in.channels = make([]*serde.Deserializer, n)
	for ch := range in.channels {
		d := cfg.Deserializer
		d.Channel = strconv.Itoa(ch)
		in.channels[ch] = serde.NewDeserializer(d)
	}
	in.valve = NewValve(n)
	in.attributes = NewAttributesCombiner(n)
	return in, nil
}

// Element is the element that the last Next handed out, valid until the following call. A record's Value is a view.
func (in *Input) Element() *serde.Element { return &in.element }

// Channel is the channel that the last element came through.
func (in *Input) Channel() int { return in.channel }

// Notice is what the last Next said about a checkpoint, valid until the following call.
func (in *Input) Notice() *Notice { return &in.notice }

// Records is the number of records handed out.
func (in *Input) Records() uint64 { return in.records }

// Handler is the aligner, for its figures.
func (in *Input) Handler() align.Handler { return in.in.Handler() }

// WholeRecord is Next for the commonest case, small enough to be inlined: a record without timestamp that lies inside the
// current buffer, and no priority event waits. It returns the bytes of the record's value. Else it returns false and does
// nothing.
func (in *Input) WholeRecord() (value []byte, ok bool) {
	if in.cur == nil || in.gate.HasPriority() {
		return nil, false
	}
	rec, ok := in.cur.Whole()
	if !ok {
		return nil, false
	}
	if len(rec) == 0 || rec[0] != tagRecord {
		in.pending = rec // Next decodes it
		return nil, false
	}
	in.records++
	return rec[1:], true
}

const tagRecord = 1

// Next hands out the next thing that concerns the operator, without waiting. An error ends the task: a channel's
// (*credit.ChannelError), a corrupt record (*serde.RecordError), a broken protocol (align).
func (in *Input) Next() (Status, error) {
	if in.last != nil {
		in.last.Done() // the sender's next credit
		in.last = nil
	}
	for {
		if len(in.notices) > 0 {
			return in.takeNotice(), nil
		}
		if st, ok := in.out.take(&in.element); ok {
			return st, nil
		}
		// A record that WholeRecord left is out of the deserializer already: it comes before the checkpoint.
		if in.pending == nil && in.gate.HasPriority() {
			if _, err := in.in.ProcessPriority(); err != nil {
				return Nothing, err
			}
			if len(in.notices) > 0 {
				continue
			}
		}
		if in.cur != nil {
			st, err := in.nextElement()
			if st != Nothing || err != nil {
				return st, err
			}
			continue
		}
		it, st, err := in.in.Poll()
		switch {
		case err != nil:
			return Nothing, err
		case st == credit.End:
			return EndOfInput, nil
		case st == credit.None:
			return Nothing, nil
		}
		if it.Event == nil {
			if err := in.begin(it.Channel, it.Buf); err != nil {
				return Nothing, err
			}
			continue
		}
		if st := in.event(&it); st != Nothing {
			return st, nil
		}
	}
}

// NextBuffer is Next for a gate whose senders frame their bytes themselves: it hands out whole buffers as they came. The
// buffer is the input's, and valid until the following call. Watermarks are the senders' affair, too.
func (in *Input) NextBuffer() (segment.Buffer, Status, error) {
	if !in.held.IsZero() {
		in.release(in.held)
		in.held = segment.Buffer{}
	}
	for {
		if len(in.notices) > 0 {
			return segment.Buffer{}, in.takeNotice(), nil
		}
		if in.gate.HasPriority() {
			if _, err := in.in.ProcessPriority(); err != nil {
				return segment.Buffer{}, Nothing, err
			}
			if len(in.notices) > 0 {
				continue
			}
		}
		it, st, err := in.in.Poll()
		switch {
		case err != nil:
			return segment.Buffer{}, Nothing, err
		case st == credit.End:
			return segment.Buffer{}, EndOfInput, nil
		case st == credit.None:
			return segment.Buffer{}, Nothing, nil
		}
		if it.Event == nil {
			in.held, in.channel = it.Buf, it.Channel
			return it.Buf, Element, nil
		}
		if st := in.event(&it); st != Nothing {
			return segment.Buffer{}, st, nil
		}
	}
}

func (in *Input) release(b segment.Buffer) {
	if r := in.cfg.Releaser; r != nil {
		r.Release(b)
		return
	}
	b.Release()
}

// begin gives a channel's deserializer its next buffer.
func (in *Input) begin(ch int, b segment.Buffer) error {
	d := in.channels[ch]
	if d == nil {
		b.Release()
		return fmt.Errorf("%w: data on channel %d after its end", align.ErrState, ch)
	}
	if err := d.SetBuffer(b); err != nil {
		return err
	}
	in.cur, in.channel = d, ch
	return nil
}

// nextElement reads on in the current buffer. Nothing means that the caller goes on: the buffer is used up, or what was read
// does not concern the operator.
func (in *Input) nextElement() (Status, error) {
	rec, res := in.pending, serde.Intermediate
	if rec == nil {
		var err error
		if rec, res, err = in.cur.Next(); err != nil {
			return Nothing, err
		}
	}
	in.pending = nil
	if res.Consumed() {
		if res == serde.Last {
			in.last = in.cur
		}
		in.cur = nil
	}
	if !res.Record() {
		return Nothing, nil
	}
	e := &in.element
	err := serde.DecodeElement(rec, e)
	if err != nil {
		return Nothing, &serde.RecordError{Channel: strconv.Itoa(in.channel), Record: in.channels[in.channel].Count() - 1, Err: err}
	}
	switch e.Kind {
	case serde.Record:
		in.records++
		return Element, nil
	case serde.Watermark:
		in.out.ValveOutput, err = in.valve.InputWatermark(in.channel, e.Timestamp)
	case serde.InternalWatermark:
		in.out.ValveOutput, err = in.valve.InputInternalWatermark(in.channel, e.Subpartition, e.Timestamp)
	case serde.WatermarkStatus:
		in.out.ValveOutput, err = in.valve.InputStatus(in.channel, e.Idle)
	case serde.RecordAttributes:
		var changed bool
		if e.Backlog, changed, err = in.attributes.Input(in.channel, e.Backlog); changed {
			return Element, nil
		}
	default:
		return Element, nil
	}
	return Nothing, err
}

// event reacts to what the gate handed out and the aligner has seen. Nothing means that the operator is not concerned.
func (in *Input) event(it *credit.Item) Status {
	switch it.Event.Kind {
	case event.EndOfData:
		if in.told {
			return Nothing
		}
		switch in.in.EndOfData() {
		case credit.Drained:
			in.told = true
			return EndOfData
		case credit.Stopped:
			in.told = true
			return Stopped
		}
	case event.EndOfPartition:
		if d := in.channels[it.Channel]; d != nil {
			d.Close()
			in.channels[it.Channel] = nil
		}
	case event.EndOfOutputChannelState:
		if in.in.Recovered() {
			return EndOfRecovery
		}
	}
	return Nothing
}

// Timeout hands the aligner the timer of checkpoint id, which is due.
func (in *Input) Timeout(id int64) error { return in.in.Timeout(id) }

// Inject gives the input a barrier that the coordinator sends to it directly. See align.Inject.
func (in *Input) Inject(b *event.Barrier) error { return align.Inject(b, (*checkpoints)(in), in.in) }

// Close gives back all buffers that the input holds. The gate is not closed.
func (in *Input) Close() {
	in.in.Close()
	if !in.held.IsZero() {
		in.release(in.held)
		in.held = segment.Buffer{}
	}
	in.cur, in.last, in.pending = nil, nil, nil
	for ch, d := range in.channels {
		if d != nil {
			d.Close()
			in.channels[ch] = nil
		}
	}
}

func (in *Input) takeNotice() Status {
	in.notice = in.notices[0]
	n := copy(in.notices, in.notices[1:])
	in.notices[n] = Notice{}
	in.notices = in.notices[:n]
	return in.notice.status
}

// checkpoints is the Input as the aligner sees its task.
type checkpoints Input

// Init is part of align.Task: it hands over what the deserializers hold. (StreamTaskNetworkInput#prepareSnapshot)
func (c *checkpoints) Init(b *event.Barrier) error {
	if c.cfg.Sink == nil || !b.Options.IsUnaligned() {
		return nil
	}
	for ch, d := range c.channels {
		if d == nil {
			continue
		}
		if err := c.handOver(b.ID, ch, d); err != nil {
			return err
		}
	}
	return nil
}

func (c *checkpoints) handOver(id int64, ch int, d *serde.Deserializer) error {
	rest, err := d.Unconsumed()
	if err != nil {
		return err
	}
	defer rest.Close()
	for {
		b, ok, err := rest.Next()
		if !ok || err != nil {
			return err
		}
		if b.Len() > 0 {
			c.cfg.Sink.InputData(id, ch, unknownSeq, b)
		}
		b.Release()
	}
}

const unknownSeq = -1

// Trigger is part of align.Task.
func (c *checkpoints) Trigger(b *event.Barrier, m align.Metrics) error {
	n := Notice{Barrier: *b, Metrics: m, status: Checkpoint}
	n.Barrier.Options.Location = bytes.Clone(b.Options.Location)
	c.notices = append(c.notices, n)
	return nil
}

// Abort is part of align.Task.
func (c *checkpoints) Abort(id int64, cause *align.CheckpointError) error {
	c.notices = append(c.notices, Notice{Barrier: event.Barrier{ID: id}, Cause: cause, status: Aborted})
	return nil
}

// Measured is part of align.Task.
func (c *checkpoints) Measured(int64, align.Metrics) {}

// Complete is part of align.Task.
func (c *checkpoints) Complete(id int64) {
	if c.cfg.Unaligned != align.UnalignedOff {
		c.notices = append(c.notices, Notice{Barrier: event.Barrier{ID: id}, status: Completed})
	}
}

// Incomplete is part of align.Task.
func (c *checkpoints) Incomplete(int64, *align.CheckpointError) {}
