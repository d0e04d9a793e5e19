package align

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/weirflow/weir/credit"
	"github.com/weirflow/weir/segment"
	"github.com/weirflow/weir/serde/event"
)

// ALN-11: what was in flight comes before what is new, whole, also with a single segment for more buffers than that; and
// a checkpoint is declined meanwhile (FLINK-16536).
func TestALN11RecoveredBeforeNew(t *testing.T) {
	pool, err := segment.NewPool(segment.Config{SegmentSize: 64, Segments: 1})
	check(t, err)
	local, err := pool.NewLocal(segment.LocalConfig{Name: "recovery", Required: 1, Max: 1})
	check(t, err)

	// State: two chunks of channel 1, the second one longer than a segment; it ends in the middle of a record.
	store := &DirStore{MemoryThreshold: 1 << 20}
	e, end := runExecutor(t, StateExecutorConfig{Store: store})
	w := mustWriter(t, e, 0)
	first, second := bytes.Repeat([]byte{1}, 10), bytes.Repeat([]byte{2}, 150)
	check(t, w.Start(1, unalignedOptions), w.AddInput(1, StateChannel{0, 1}, dataBuf(first...)),
		w.AddInput(1, StateChannel{0, 1}, dataBuf(second...)), w.FinishInput(1), w.FinishOutput(1))
	res, err := w.Result(1)
	check(t, err)
	handles, _, err := res.Get()
	check(t, err)
	w.Close()
	check(t, end())

	h := newHarness(t, Config{Unaligned: UnalignedOn}, 2, credit.GuardFail)
	requested := false
	rec, err := NewRecovering(RecoveringConfig{Gate: h.gate, Deliver: h.gate.Deliver, Segments: 1,
		Wake: h.gate.Notifier().Wake, OnConsumed: func() { requested = true }})
	check(t, err)
	handler, err := New(Config{Unaligned: UnalignedOn, Inputs: []Input{rec}, Counts: []int{2}, Task: harnessTask{h}, Timers: h.timers})
	check(t, err)
	in := NewCheckpointedInput(rec, handler, 0, func() Now { return h.now }, nil)

	done := make(chan error, 1)
	go func() {
		err := ReadChannelState(store, handles, &ChannelRecovery{
			Take:    func(StateChannel) (segment.Buffer, error) { return local.TakeWait(context.Background(), -1) },
			Deliver: func(ch StateChannel, b segment.Buffer) error { return rec.Recovered(int(ch.Index), b) },
		})
		done <- errorsJoin(err, rec.Finish())
	}()

	if err := Inject(&event.Barrier{ID: 7, Options: kind("un")}, harnessTask{h}, in); err != nil {
		t.Fatal(err)
	}
	if got := only(h.out, "ABORT", "TRIGGER"); got != "ABORT(7)" || !strings.Contains(strings.Join(h.out, ""), "CHECKPOINT_DECLINED_TASK_NOT_READY") {
		t.Errorf("got %v", h.out)
	}
	check(t, rec.CheckpointStopped(1, 7))
	if err := errorsJoin(nil, rec.Resume(1)); !errors.Is(err, ErrState) {
		t.Errorf("resumed while recovering: %v", err)
	}
	if err := rec.AckAll(0); !errors.Is(err, ErrState) {
		t.Errorf("acknowledged while recovering: %v", err)
	}

	var got []byte
	descriptors := 0
	for !requested {
		it, st, err := in.Poll()
		check(t, err)
		switch {
		case st == credit.None:
			h.gate.Notifier().Prepare()
			it, st, err = in.Poll()
			if check(t, err); st == credit.None && !requested {
				check(t, h.gate.Notifier().Wait(t.Context()))
				continue
			}
			h.gate.Notifier().Cancel()
			if st == credit.None {
				continue
			}
		}
		if it.Event != nil {
			if it.Event.Kind != event.SubtaskConnection || it.Channel != 1 {
				t.Errorf("got %v on channel %d", it.Event, it.Channel)
			}
			descriptors++
			continue
		}
		got = append(got, it.Buf.Bytes()...)
		it.Buf.Release()
	}
	check(t, <-done)
	if !bytes.Equal(got, append(first, second...)) || descriptors != (160+pool.SegmentSize()-1)/pool.SegmentSize() { // in memory, a channel's chunks are one
		t.Errorf("%d bytes, %d descriptors", len(got), descriptors)
	}
	if !rec.Consumed() {
		t.Error("not consumed")
	}
	// New data, and a barrier that arrives late for the checkpoint that was stopped meanwhile: nothing is stored for it.
	check(t, rec.CheckpointStarted(1, &event.Barrier{ID: 7}))
	h.data(1, "new", 1)
	h.gate.Deliver(credit.Arrival{Channel: 1, Seq: 1, Buf: serialized(barrierItem(1, 7, kind("un")).Event)})
	h.gate.Deliver(credit.Arrival{Channel: 1, Seq: 2, Buf: dataBuf(5)})
	if _, err := in.ProcessPriority(); err != nil {
		t.Fatal(err)
	}
	it, st, err := in.Poll()
	if check(t, err); st != credit.Ready || h.names[&it.Buf.Bytes()[0]] != "new" {
		t.Errorf("%v, %v", st, it.Type)
	}
	if len(h.stored) != 0 {
		t.Errorf("stored %v", h.stored)
	}
	rec.Close()
	local.Close()
	check(t, pool.Close())
}

// TestRecoveringMisuse: more than was configured, unknown channels, and a configuration without a gate.
func TestRecoveringMisuse(t *testing.T) {
	if _, err := NewRecovering(RecoveringConfig{}); !errors.Is(err, ErrConfig) {
		t.Errorf("no gate: %v", err)
	}
	gate := credit.NewGate(credit.GateConfig{Channels: 1, Upstream: harnessUpstream{&harness{}}})
	rec, err := NewRecovering(RecoveringConfig{Gate: gate, Deliver: gate.Deliver, Segments: 1})
	check(t, err)
	for _, ch := range []int{-1, 1} {
		if err := rec.Recovered(ch, dataBuf(1)); !errors.Is(err, ErrUnknownChannel) {
			t.Errorf("channel %d: %v", ch, err)
		}
	}
	for err == nil {
		err = rec.Recovered(0, dataBuf(1))
	}
	if !errors.Is(err, ErrState) {
		t.Errorf("too many: %v", err)
	}
	rec.Close()
	check(t, rec.Finish())
	for range 2 {
		if st, err := rec.PollInto(new(credit.Item)); st != credit.None || err != nil {
			t.Fatalf("%v, %v", st, err)
		}
	}
}

// TestUnalignedSurvivesAFailure: the records that are processed up to the trigger, what was stored, and what comes behind
// the barriers are together the records that were sent, in order, whatever the moment of the checkpoint (I11, I12). State
// goes through a real writer and reader.
func TestUnalignedSurvivesAFailure(t *testing.T) {
	stored := 0
	for moment := range 12 {
		store := &DirStore{Dir: t.TempDir(), MemoryThreshold: (moment % 2) << 20}
		e, end := runExecutor(t, StateExecutorConfig{Store: store})
		w := mustWriter(t, e, 0)
		task := &stateTask{w: w}
		gate := credit.NewGate(credit.GateConfig{Channels: 2, Upstream: harnessUpstream{&harness{}}, Sink: w.GateSink(0)})
		handler, err := New(Config{Unaligned: UnalignedOn, Inputs: []Input{gate}, Counts: []int{2}, Task: task, Timers: still2Timers{}})
		check(t, err)
		in := NewCheckpointedInput(gate, handler, 0, func() Now { return Now{} }, nil)
		var sent, before, after [2][]byte
		poll := func() {
			it, st, err := in.Poll()
			if check(t, err); st == credit.Ready && it.Event == nil {
				into := &after
				if !task.triggered {
					into = &before
				}
				into[it.Channel] = append(into[it.Channel], it.Buf.Bytes()...)
				it.Buf.Release()
			}
		}
		var seq [2]int32
		arrive := func(ch int, b segment.Buffer) {
			gate.Deliver(credit.Arrival{Channel: int32(ch), Seq: seq[ch], Buf: b})
			seq[ch]++
			_, err := in.ProcessPriority()
			check(t, err)
		}
		barrier := barrierItem(0, 1, kind("un")).Event
		for i := range 12 {
			ch := i & 1
			sent[ch] = append(sent[ch], byte(i))
			arrive(ch, dataBuf(byte(i)))
			if i == moment {
				arrive(0, serialized(barrier))
			}
			if i == min(moment+4, 11) {
				arrive(1, serialized(barrier))
			}
			if i%3 != 0 {
				poll()
			}
		}
		check(t, w.Err(), w.FinishOutput(1))
		r, err := w.Result(1)
		check(t, err)
		handles, _, err := r.Get()
		check(t, err)
		c := &collect{size: 64, got: map[string][]byte{}}
		check(t, ReadChannelState(store, handles, c))
		// Behind the barrier is what was sent after it.
		ends := [2]int{moment/2 + 1, (min(moment+4, 11) + 1) / 2}
		for ch := range 2 {
			state := c.got[fmt.Sprintf("0/0.%d", ch)]
			stored += len(state)
			if got := slices.Concat(before[ch], state, sent[ch][ends[ch]:]); !bytes.Equal(got, sent[ch]) {
				t.Errorf("moment %d, channel %d: processed %v, stored %v, behind the barrier %v; sent %v", moment, ch, before[ch], state,
					sent[ch][ends[ch]:], sent[ch])
			}
		}
		gate.Close()
		w.Close()
		check(t, end())
	}
	if stored == 0 {
		t.Error("nothing was ever in flight")
	}
}

// stateTask writes channel state.
type stateTask struct {
	noTask
	w         *StateWriter
	triggered bool
}

func (s *stateTask) Init(b *event.Barrier) error               { return s.w.Start(b.ID, b.Options) }
func (s *stateTask) Trigger(b *event.Barrier, _ Metrics) error { s.triggered = true; return nil }
func (s *stateTask) Complete(id int64)                         { _ = s.w.FinishInput(id) }

type still2Timers struct{}

func (still2Timers) Set(int64, int64) {}
func (still2Timers) Cancel(int64)     {}
