package task_test

import (
	"encoding/binary"
	"errors"
	"testing"

	"github.com/weirflow/weir/align"
	"github.com/weirflow/weir/credit"
	"github.com/weirflow/weir/segment"
	"github.com/weirflow/weir/serde"
	"github.com/weirflow/weir/serde/event"
	"github.com/weirflow/weir/task"
)

func origin(in, out int32) event.Event {
	return event.Event{Kind: event.SubtaskConnection, InputSubtask: in, OutputSubtask: out}
}

// twoOrigins is a channel that brings data of two subtasks of before, of which the second one's even records belong to another
// task now, and a channel that brings none.
func twoOrigins() [][]task.VirtualChannel {
	odd := func(e *serde.Element) (bool, error) { return binary.BigEndian.Uint64(e.Value)%2 == 1, nil }
	return [][]task.VirtualChannel{{{InputSubtask: 0, OutputSubtask: 0}, {InputSubtask: 1, OutputSubtask: 0, Keep: odd}}, {}}
}

// Buffers of two origins in turn, with records cut in two: each origin's records continue its own. Watermarks are the least of both,
// the channel is idle when both are, what is none of these is dropped. Then recovery ends, and the channel is like any other.
func TestRescaling(t *testing.T) {
	r := newRescalingRig(t, twoOrigins())
	in := r.inputs[0]
	first, second := records(1, 2, 4), records(5, 6, 7)
	idle := serde.Element{Kind: serde.WatermarkStatus, Idle: true}
	active := serde.Element{Kind: serde.WatermarkStatus}
	for _, step := range []struct {
		sub int32
		p   []byte
	}{
		{0, first[:20]}, {1, second[:9]}, {1, second[9:15]}, {0, first[20:]}, {1, second[15:]},
		{0, framed(watermark(10), serde.Element{Kind: serde.LatencyMarker}, serde.Element{Kind: serde.RecordAttributes, Backlog: true})},
		{1, framed(watermark(4), idle)}, {0, framed(watermark(12))}, {1, framed(active, watermark(11))},
	} {
		r.event(0, 0, origin(step.sub, 0))
		r.data(0, 0, step.p)
	}
	r.event(0, 1, event.Event{Kind: event.EndOfOutputChannelState})
	r.data(0, 1, framed(watermark(100))) // held back until the other channel is there, too
	must(t, r.next(in))
	r.is("rec(1)", "rec(5)", "rec(2)", "rec(4)", "rec(7)", "NOTHING_AVAILABLE")
	r.event(0, 0, event.Event{Kind: event.EndOfOutputChannelState})
	r.data(0, 0, records(8, 9))
	must(t, r.next(in))
	r.is("RESUME(c0)", "RESUME(c1)", "END_OF_RECOVERY", "rec(8)", "rec(9)", "WM(11)", "NOTHING_AVAILABLE")
}

func newRescalingRig(t *testing.T, origins [][]task.VirtualChannel) *rig {
	return newRigWith(t, task.InputConfig{Unaligned: align.UnalignedOn}, func(gi *task.GateInput) { gi.Rescaling = origins }, len(origins))
}

func TestRescalingErrors(t *testing.T) {
	for name, c := range map[string]struct {
		want error
		do   func(r *rig)
	}{
		"unknown origin": {task.ErrUnmapped, func(r *rig) { r.event(0, 0, origin(7, 0)) }},
		"no descriptor":  {align.ErrState, func(r *rig) { r.data(0, 0, records(1)) }},
		"left over": {align.ErrState, func(r *rig) {
			r.event(0, 0, origin(0, 0))
			r.data(0, 0, records(1)[:5])
			r.event(0, 1, event.Event{Kind: event.EndOfOutputChannelState})
			r.event(0, 0, event.Event{Kind: event.EndOfOutputChannelState})
		}},
	} {
		r := newRescalingRig(t, twoOrigins())
		c.do(r)
		err := r.next(r.inputs[0])
		var ce *credit.ChannelError
		if !errors.As(err, &ce) || ce.Index != 0 || !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	cfg := task.InputConfig{Gate: credit.NewGate(credit.GateConfig{Channels: 1}), Clock: func() align.Now { return align.Now{} }, Rescaling: twoOrigins()}
	if _, err := task.NewInput(cfg); !errors.Is(err, align.ErrConfig) {
		t.Error(err)
	}
	// A record that the filter cannot judge.
	broken := errors.New("no such key")
	r := newRescalingRig(t, [][]task.VirtualChannel{{{Keep: func(*serde.Element) (bool, error) { return false, broken }}}})
	r.event(0, 0, origin(0, 0))
	r.data(0, 0, records(1))
	if err := r.next(r.inputs[0]); !errors.Is(err, broken) {
		t.Error(err)
	}
	// A channel that ends during recovery gives back what it holds; see newRig.
	r = newRescalingRig(t, twoOrigins())
	r.event(0, 0, origin(0, 0))
	r.data(0, 0, records(1)[:5])
	r.event(0, 0, event.Event{Kind: event.EndOfPartition})
	must(t, r.next(r.inputs[0]))
}

// No checkpoint with channel state while recovered data is taken apart.
func TestRescalingDeclinesCheckpoints(t *testing.T) {
	r := newRescalingRig(t, twoOrigins())
	must(t, r.inputs[0].Inject(&event.Barrier{ID: 1, Options: unalignedOptions}))
	must(t, r.next(r.inputs[0]))
	r.is("ABORT(1,CHECKPOINT_DECLINED_TASK_NOT_READY)", "NOTHING_AVAILABLE")
}

// What was in flight comes first, and only then what is new.
func TestInputRecovers(t *testing.T) {
	var rec *align.Recovering
	consumed := 0
	r := newRigWith(t, task.InputConfig{Unaligned: align.UnalignedOn}, func(gi *task.GateInput) {
		var err error
		rec, err = align.NewRecovering(align.RecoveringConfig{
			Gate: gi.Gate, Deliver: gi.Gate.Deliver, Segments: 8, OnConsumed: func() { consumed++ },
		})
		must(t, err)
		gi.Recovering = rec
	}, 2)
	defer rec.Close()
	in := r.inputs[0]
	if in.Available() {
		t.Error("available before anything was read")
	}
	// A read of the state, as ReadChannelState does it: a descriptor goes before each buffer.
	for _, p := range [][]byte{records(1)[:6], records(1)[6:]} {
		e := origin(0, 0)
		must(t, rec.Recovered(1, segment.Wrap(event.Append(nil, &e), event.DataTypeOf(&e, false))))
		must(t, rec.Recovered(1, r.buffer(p)))
	}
	if !in.Available() {
		t.Error("not available, although state was read")
	}
	must(t, r.next(in))
	r.is("rec(1)", "NOTHING_AVAILABLE")
	must(t, in.Inject(&event.Barrier{ID: 1, Options: unalignedOptions}))
	must(t, r.next(in))
	r.is("ABORT(1,CHECKPOINT_DECLINED_TASK_NOT_READY)", "NOTHING_AVAILABLE")
	must(t, rec.Finish())
	must(t, r.next(in))
	r.is("NOTHING_AVAILABLE")
	if consumed != 1 {
		t.Fatalf("consumed %d times", consumed)
	}
	// The senders may come now.
	r.data(0, 0, records(2))
	r.barrier(0, 0, 2, unalignedOptions)
	r.barrier(0, 1, 2, unalignedOptions)
	must(t, r.next(in))
	r.is("persist(2,c0,0,13)", "TRIGGER(2,UNALIGNED)", "COMPLETE(2)", "rec(2)", "NOTHING_AVAILABLE")
}
