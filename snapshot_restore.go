package weir

import (
	"fmt"

	"github.com/weirflow/weir/align"
	"github.com/weirflow/weir/segment"
	"github.com/weirflow/weir/serde/event"
)

// ErrRescaled is in the error of a restore whose input or output has another number of channels than the snapshot, in which data was
// in flight: weir does not share such data out anew. A snapshot of an aligned checkpoint has none.
var ErrRescaled = fmt.Errorf("%w: another number of channels, and data was in flight", ErrSnapshot)

// fits checks that what was in flight has a place. owner is the number of the input or output.
func fits(what string, owner int, handles []align.StateHandle, were []int32, now int) error {
	any := false
	for i := range handles {
		h := &handles[i]
		if int(h.Channel.Owner) >= len(were) || h.Channel.Owner < 0 || h.Channel.Index < 0 || h.Channel.Index >= were[h.Channel.Owner] {
			return fmt.Errorf("%w: data in flight of channel %d of %s %d, which is none of it", ErrSnapshot, h.Channel.Index, what, h.Channel.Owner)
		}
		any = any || int(h.Channel.Owner) == owner
	}
	switch {
	case !any:
		return nil
	case int(were[owner]) != now:
		return fmt.Errorf("%w: %s %d had %d, and has %d", ErrRescaled, what, owner, were[owner], now)
	}
	return nil
}

// of are the handles of one input or output.
func of(owner int, handles []align.StateHandle) (mine []align.StateHandle) {
	for i := range handles {
		if int(handles[i].Channel.Owner) == owner {
			mine = append(mine, handles[i])
		}
	}
	return mine
}

// buffers is at most how many buffers of a size the data of handles takes.
func buffers(handles []align.StateHandle, size int) (n int) {
	for i := range handles {
		n += int(handles[i].Size)/size + len(handles[i].Offsets)
	}
	return n
}

// readInFlight reads the data in flight of handles, in order, into buffers of the Go heap.
func (t *Task) readInFlight(handles []align.StateHandle, output bool, deliver func(ch align.StateChannel, b segment.Buffer) error) error {
	size := t.node.cfg.SegmentSize
	return align.ReadChannelState(t.reader, handles, &align.ChannelRecovery{
		Output: output,
		Take: func(align.StateChannel) (segment.Buffer, error) {
			return segment.Wrap(make([]byte, size), segment.DataBuffer), nil
		},
		Deliver: deliver,
	})
}

// restore puts what the task's snapshot has for the input in front of its gate. Nil: nothing was in flight.
func (in *Input) restore() (*align.Recovering, error) {
	t := in.cfg.Task
	if t == nil || t.cfg.Restore == nil {
		return nil, nil
	}
	s := t.cfg.Restore
	if err := fits("input", 0, s.In, s.Inputs, in.gate.Channels()); err != nil {
		return nil, err
	}
	handles := of(0, s.In)
	if len(handles) == 0 {
		return nil, nil
	}
	r, err := align.NewRecovering(align.RecoveringConfig{
		Gate: in.gate, Deliver: in.gate.Deliver, OnConsumed: in.request, Segments: buffers(handles, in.node.cfg.SegmentSize),
	})
	if err != nil {
		return nil, err
	}
	err = t.readInFlight(handles, false, func(ch align.StateChannel, b segment.Buffer) error { return r.Recovered(int(ch.Index), b) })
	if err == nil {
		err = r.Finish()
	}
	if err != nil {
		r.Close()
		return nil, err
	}
	return r, nil
}

// recovered is at most how many buffers and events the task's snapshot has for output number index.
func (t *Task) recovered(index int) int {
	if t == nil || t.cfg.Restore == nil {
		return 0
	}
	return 2*buffers(of(index, t.cfg.Restore.Out), t.node.cfg.SegmentSize) + 1
}

// restore hands over what the task's snapshot has for the output, and says behind it that this was all.
func (o *Output) restore(index int) error {
	t := o.cfg.Task
	if t == nil || t.cfg.Restore == nil {
		return nil
	}
	s := t.cfg.Restore
	if err := fits("output", index, s.Out, s.Outputs, o.cfg.Subpartitions); err != nil {
		return err
	}
	err := t.readInFlight(of(index, s.Out), true, func(ch align.StateChannel, b segment.Buffer) error {
		if b.Type().IsBuffer() {
			o.out.Add(int(ch.Index), segment.ReadAll(b), -1)
		} else {
			o.out.AddEvent(int(ch.Index), b)
		}
		return nil
	})
	if err != nil {
		return err
	}
	e := event.Event{Kind: event.EndOfOutputChannelState}
	for sub := range o.cfg.Subpartitions {
		o.out.AddEvent(sub, segment.Wrap(event.AppendPadded(nil, &e), event.DataTypeOf(&e, false)))
	}
	return nil
}
