package task

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/weirflow/weir/align"
	"github.com/weirflow/weir/credit"
	"github.com/weirflow/weir/segment"
	"github.com/weirflow/weir/serde"
	"github.com/weirflow/weir/serde/event"
)

// ErrInputClosed is what an input says after Close.
var ErrInputClosed = errors.New("task: input is closed")

// Input reads a gate, or a Source in the task itself (Flink: StreamTaskNetworkInput over a CheckpointedInputGate): it turns its buffers into stream elements,
// hands barriers to the aligner, watermarks to the valve, and tells the end of the data. It belongs to the task's goroutine
// and never waits. Handing out a record allocates nothing.
//
// Invariant: a buffer is read to its end before the next one is polled, so that records of one channel keep their order, and
// no record behind a barrier is handed out before the checkpoint's notice.
type Input struct {
	fast    *serde.Deserializer // cur, unless something else comes before its next record
	cur     *serde.Deserializer // has a buffer that is not used up
	last    *serde.Deserializer // its last record, handed out, lies in its buffer
	channel int                 // of cur, and of element
	element serde.Element
	records uint64

	rescaling  []*demultiplexer // nil: no channel brings recovered data of another parallelism, or not any more
	recovering *align.Recovering
	source     *sourceGate // nil: the input reads gate
	first      int         // flat number of the first channel
	clock      func() align.Now
	gate       *credit.Gate
	sink       credit.InputSink
	in         *align.CheckpointedInput
	cp         *checkpoints
	channels   []*serde.Deserializer
	valve      *Valve
	out        valveOutput
	attributes *AttributesCombiner
	combiners  *WatermarkCombiners
	marks      CombinerOutput // the first mark of them were handed out
	mark       int
	told       bool // the end of the data was reported
	recovered  bool // the end of recovery was
	err        error
	held       segment.Buffer // NextBuffer's last
	item       credit.Item    // the gate's last
	releaser   *segment.Releaser

	deserializers serde.DeserializerConfig
}

// Element is the element that the last Next handed out, valid until the following call. A record's Value is a view.
func (in *Input) Element() *serde.Element { return &in.element }

// Watermark is the generalized watermark that the last Next handed out, valid until the following call.
func (in *Input) Watermark() *event.WatermarkEvent { return &in.marks.Events[max(0, in.mark-1)] }

// Channel is the channel that the last element came through.
func (in *Input) Channel() int { return in.channel }

// Notice is what the last Next said about a checkpoint, valid until the following call.
func (in *Input) Notice() *Notice { return &in.cp.notice }

// Running is the checkpoint that was triggered and some of whose barriers are missing, with its metrics as far as they are known; its
// ID is -1 if there is none. Only with unaligned checkpoints.
func (in *Input) Running() *Notice { return &in.cp.open }

// Noticed reports whether something is to be told that needs no item of the gate: the next Next hands it out, and reads no record.
func (in *Input) Noticed() bool { return in.waits() }

// Records is the number of records handed out.
func (in *Input) Records() uint64 { return in.records }

// Handler is the aligner, for its figures.
func (in *Input) Handler() align.Handler { return in.cp.handler }

// Available reports whether Next has something to do. It takes over what arrived.
func (in *Input) Available() bool {
	if g := in.source; g != nil {
		return in.waits() || in.err != nil || g.ended || !g.blocked && g.src.Available()
	}
	return in.cur != nil || in.waits() || in.err != nil || in.gate.HasPriority() || in.gate.Available() ||
		in.gate.Fill() > 0 && in.gate.Available() || in.recovering != nil && in.recovering.Arrived()
}

// waits reports whether something comes before the next record of the current buffer.
func (in *Input) waits() bool {
	return len(in.cp.notices) > 0 || in.out.HasWatermark || in.out.StatusChanged || in.mark < in.marks.N
}

// WholeRecord is Next for the commonest case, and short: a record without timestamp that lies inside the
// current buffer, and nothing else comes before it. It returns the bytes of the record's value. Else it returns false and
// does nothing.
func (in *Input) WholeRecord() (value []byte, ok bool) {
	if in.fast == nil || in.gate.HasPriority() {
		return nil, false
	}
	if value, ok = in.fast.WholeElement(); ok {
		in.records++
	}
	return value, ok
}

// Fast is the deserializer that has the next record, unless a priority event waits at the gate; nil: only Next can tell. It is for
// a caller that decodes records itself, by the rules of serde.Deserializer.Ahead and WholeRecord, and tells by Took.
func (in *Input) Fast() *serde.Deserializer { return in.fast }

// Took tells that a record of n bytes, its length included, was taken off Fast.
func (in *Input) Took(n int) {
	in.fast.Took(n)
	in.records++
}

// Next hands out the next thing that concerns the operator, without waiting. An error ends the task, and comes again:
// a channel's (*credit.ChannelError, which names it; that of a corrupt record wraps a *serde.RecordError), or one of the
// protocol between all channels (align).
func (in *Input) Next() (Status, error) {
	for {
		if st, err := in.step(); st != More || err != nil {
			return st, err
		}
	}
}

// step is Next, except that it returns More after each element or event which does not concern the operator.
func (in *Input) step() (Status, error) {
	if in.last != nil {
		in.last.Done() // the sender's next credit
		in.last = nil
	}
	st, err := Nothing, in.err
	if err == nil {
		st, err = in.pull(false)
	}
	if err != nil {
		return in.fail(err)
	}
	in.fast = in.cur
	if in.waits() || in.rescaling != nil {
		in.fast = nil
	}
	return st, nil
}

// fail makes err final.
func (in *Input) fail(err error) (Status, error) {
	in.err, in.fast = err, nil
	return Nothing, err
}

// pull does one thing, in the order in which things came: what the valve let out, notices, priority events, the current
// buffer, the next item of the gate.
func (in *Input) pull(raw bool) (Status, error) {
	for {
		if st, ok := in.out.take(&in.element); ok {
			return st, nil
		}
		if in.mark < in.marks.N {
			in.mark++
			return WatermarkEvent, nil
		}
		if len(in.cp.notices) > 0 {
			return in.cp.take(), nil
		}
		if in.gate.HasPriority() {
			if _, err := in.in.ProcessPriority(); err != nil {
				return Nothing, err
			}
			if len(in.cp.notices) > 0 {
				continue
			}
		}
		if in.cur != nil {
			st, err := in.nextElement()
			if st == Nothing && err == nil || st == More && in.waits() {
				continue
			}
			return st, err
		}
		if in.source != nil {
			return in.next()
		}
		it := &in.item
		st, err := in.in.PollInto(it)
		switch {
		case err != nil:
			return Nothing, err
		case st == credit.End:
			return EndOfInput, nil
		case st == credit.None:
			return Nothing, nil
		case it.Event != nil:
			if st, err := in.event(it); st != More || err != nil || !in.waits() {
				return st, err
			}
		case raw:
			in.held, in.channel = it.Buf, it.Channel
			return Element, nil
		default:
			if err := in.begin(it.Channel, it.Buf); err != nil {
				return Nothing, err
			}
		}
	}
}

// NextBuffer is Next for a gate whose senders frame their bytes themselves: it hands out whole buffers as they came. The
// buffer is the input's, and valid until the following call. Watermarks are the senders' affair, too.
func (in *Input) NextBuffer() (segment.Buffer, Status, error) {
	in.releaseHeld()
	if in.err != nil {
		return segment.Buffer{}, Nothing, in.err
	}
	for {
		st, err := in.pull(true)
		if err != nil {
			st, err = in.fail(err)
		} else if st == More {
			continue
		}
		return in.held, st, err
	}
}

func (in *Input) releaseHeld() {
	b := in.held
	in.held = segment.Buffer{}
	switch {
	case b.IsZero():
	case in.releaser != nil:
		in.releaser.Release(b)
	default:
		b.Release()
	}
}

// begin gives a channel's deserializer its next buffer.
func (in *Input) begin(ch int, b segment.Buffer) error {
	in.channel = ch
	d := in.channels[ch]
	if d == nil {
		b.Release()
		return in.gate.ChannelError(ch, fmt.Errorf("%w: data after the channel's end, or of no known origin", align.ErrState))
	}
	if err := d.SetBuffer(b); err != nil {
		return in.gate.ChannelError(ch, err)
	}
	in.cur = d
	return nil
}

// nextElement reads on in the current buffer. Nothing: no element was complete. More: one was, and it does not concern the
// operator, or what the valve made of it waits.
func (in *Input) nextElement() (Status, error) {
	d := in.cur
	rec, res, err := d.Next()
	if err != nil {
		return Nothing, in.gate.ChannelError(in.channel, err)
	}
	if res.Consumed() {
		if res == serde.Last {
			in.last = d
		}
		in.cur = nil
	}
	if !res.Record() {
		return Nothing, nil
	}
	e := &in.element
	if err = serde.DecodeElement(rec, e); err == nil && in.rescaling != nil {
		var mine bool
		if mine, err = in.rescaling[in.channel].admit(e); !mine && err == nil {
			return More, nil
		}
	}
	if err == nil {
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
	}
	if err != nil {
		err = &serde.RecordError{Channel: strconv.Itoa(in.channel), Record: d.Count() - 1, Err: err}
		return Nothing, in.gate.ChannelError(in.channel, err)
	}
	return More, nil
}

// event reacts to what the gate handed out and the aligner has seen. More means that the operator is not concerned.
func (in *Input) event(it *credit.Item) (Status, error) {
	switch it.Event.Kind {
	case event.EndOfData:
		if in.told {
			break
		}
		switch in.in.EndOfData() {
		case credit.Drained:
			in.told = true
			return EndOfData, nil
		case credit.Stopped:
			in.told = true
			return Stopped, nil
		}
	case event.EndOfPartition:
		in.closeChannel(it.Channel)
	case event.EndOfOutputChannelState:
		if !in.recovered && in.in.Recovered() {
			in.recovered = true
			if err := in.finishRescaling(); err != nil {
				return Nothing, err
			}
			return EndOfRecovery, nil
		}
	case event.SubtaskConnection:
		if in.rescaling == nil {
			break // whose state it is makes no difference
		}
		if err := in.choose(it.Channel, it.Event); err != nil {
			return Nothing, in.gate.ChannelError(it.Channel, err)
		}
	case event.Watermark:
		if err := in.watermarkEvent(it); err != nil {
			return Nothing, in.gate.ChannelError(it.Channel, err)
		}
	}
	return More, nil
}

// watermarkEvent combines a generalized watermark. The sender of an aligned one has blocked itself behind it.
func (in *Input) watermarkEvent(it *credit.Item) error {
	w := &it.Event.Watermark
	out, err := in.combiners.Combine(it.Channel, w)
	if err != nil {
		return err
	}
	if w.Aligned != in.combiners.Aligned(w.Identifier) {
		return fmt.Errorf("%w: watermark %q is aligned: %t, other than declared", ErrValve, w.Identifier, w.Aligned)
	}
	if w.Aligned {
		if err := in.gate.Block(it.Channel); err != nil {
			return err
		}
	}
	if out.Resume {
		if err := in.gate.ResumeAll(); err != nil {
			return err
		}
	}
	in.channel = it.Channel
	in.marks, in.mark = out, 0
	return nil
}

// ProcessPriority handles the priority events that wait, before any data. Next does it, too; this is for an input that is not
// to be read at the moment.
func (in *Input) ProcessPriority() error {
	if in.err != nil || !in.gate.HasPriority() {
		return in.err
	}
	if _, err := in.in.ProcessPriority(); err != nil {
		_, err = in.fail(err)
		return err
	}
	return nil
}

// Timeout hands the aligner the timer of checkpoint id, which is due. Not within a call of Next. Priority events that wait come
// first, as Flink's urgent mails do: a newer barrier among them has taken the place of the one that the timer is for.
func (in *Input) Timeout(id int64) error {
	if err := in.cp.processPriority(); err != nil {
		return err
	}
	return in.in.Timeout(id)
}

// Inject gives the task's inputs a barrier that the coordinator sends to it directly, behind priority events that wait. See
// align.Inject.
func (in *Input) Inject(b *event.Barrier) error {
	if err := in.cp.processPriority(); err != nil {
		return err
	}
	ins := make([]*align.CheckpointedInput, len(in.cp.inputs))
	for i, other := range in.cp.inputs {
		ins[i] = other.in
	}
	return align.Inject(b, in.cp, ins...)
}

// Close gives back all buffers that the input holds, in the middle of a record, too, and ends the checkpoints of the task's
// other inputs. The gate is not closed. It may be called twice.
func (in *Input) Close() {
	if in.err != ErrInputClosed {
		in.in.Close()
	}
	in.err = ErrInputClosed
	in.releaseHeld()
	in.fast, in.cur, in.last = nil, nil, nil
	for ch := range in.channels {
		in.closeChannel(ch)
	}
}

// closeChannel drops what a channel has of a record.
func (in *Input) closeChannel(ch int) {
	if in.rescaling != nil {
		in.rescaling[ch].close()
	}
	if d := in.channels[ch]; d != nil {
		d.Close()
		in.channels[ch] = nil
	}
}
