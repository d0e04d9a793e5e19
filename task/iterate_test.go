package task_test

import (
	"context"
	"errors"
	"testing"

	"github.com/weirflow/weir/align"
	"github.com/weirflow/weir/serde/event"
	"github.com/weirflow/weir/task"
)

// feeder is a Waiter that, instead of sleeping, lets the next step happen; without one it is the end of the test's patience.
type feeder struct {
	t     testing.TB
	steps []func()
	waits int
}

func (f *feeder) wait(ctx context.Context, ready func() bool) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	f.waits++
	if len(f.steps) == 0 {
		return errStuck
	}
	f.steps[0]()
	f.steps = f.steps[1:]
	if !ready() {
		f.t.Error("a step brought nothing")
	}
	return nil
}

// sayEvent says what an iterator over one input came to.
func (r *rig) sayEvent(in *task.Input, st task.Status) {
	switch st {
	case task.Element:
		r.sayElement(in.Element())
	case task.Checkpoint, task.Completed, task.Aborted:
		r.sayNotice(in.Notice())
	default:
		r.say("%v", st)
	}
}

// An input is an iterator: records, notices and the end of the data come as turns, and it waits between them.
func TestInputAll(t *testing.T) {
	r := newRig(t, task.InputConfig{}, 2)
	f := &feeder{t: t}
	f.steps = []func(){
		func() { r.data(0, 0, records(1, 2)) },
		func() {
			r.barrier(0, 0, 1, alignedOptions)
			r.data(0, 1, records(3))
			r.barrier(0, 1, 1, alignedOptions)
		},
		func() {
			for ch := range 2 {
				r.event(0, ch, event.Event{Kind: event.EndOfData})
				r.event(0, ch, event.Event{Kind: event.EndOfPartition})
			}
		},
	}
	in := r.inputs[0]
	for st, err := range in.All(t.Context(), f.wait) {
		must(t, err)
		r.sayEvent(in, st)
	}
	r.is("rec(1)", "rec(2)", "rec(3)", "RESUME(c0)", "RESUME(c1)", "TRIGGER(1,ALIGNED)", "ACKALL(c0)", "ACKALL(c1)", "END_OF_DATA")
	if f.waits != 3 {
		t.Errorf("%d waits, want 3", f.waits)
	}
	for st, err := range in.All(t.Context(), f.wait) {
		t.Errorf("after the end: %v, %v", st, err)
	}
}

// A range that is left goes on with the next one; errors, of the input and of waiting, are the last turn.
func TestInputAllLeftAndFailing(t *testing.T) {
	r := newRig(t, task.InputConfig{}, 1)
	in := r.inputs[0]
	f := &feeder{t: t}
	r.data(0, 0, records(1, 2, 3))
	for range 2 {
		for st := range in.All(t.Context(), f.wait) {
			r.sayEvent(in, st)
			break
		}
	}
	turns := 0
	for st, err := range in.All(t.Context(), f.wait) {
		turns++
		if turns == 2 && (!errors.Is(err, errStuck) || st != task.Nothing) {
			t.Errorf("%v, %v", st, err)
		} else if turns == 1 {
			r.sayEvent(in, st)
		}
	}
	r.is("rec(1)", "rec(2)", "rec(3)")
	if turns != 2 {
		t.Errorf("%d turns, want 2", turns)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, err := range in.All(ctx, f.wait) {
		if !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}
	in.Close()
	for _, err := range in.All(t.Context(), f.wait) {
		if !errors.Is(err, task.ErrInputClosed) {
			t.Error(err)
		}
	}
}

// Several inputs are one iterator, in turns, with what concerns them all.
func TestAllOf(t *testing.T) {
	r := newRig(t, task.InputConfig{}, 1, 1)
	f := &feeder{t: t}
	f.steps = []func(){
		func() { r.data(0, 0, records(1, 2)); r.data(1, 0, records(10, 11)) },
		func() { r.barrier(0, 0, 1, alignedOptions); r.barrier(1, 0, 1, alignedOptions) },
		func() { r.event(1, 0, event.Event{Kind: event.EndOfData}); r.data(0, 0, records(3)) },
		func() {
			r.event(0, 0, event.Event{Kind: event.EndOfData, StopMode: event.NoDrain})
			r.event(0, 0, event.Event{Kind: event.EndOfPartition})
			r.event(1, 0, event.Event{Kind: event.EndOfPartition})
		},
	}
	for e, err := range task.AllOf(t.Context(), f.wait, task.SelectorConfig{}, r.inputs...) {
		must(t, err)
		switch e.Status {
		case task.Element:
			r.sayElement(e.Element)
		case task.Checkpoint:
			r.sayNotice(e.Notice)
		default:
			r.say("%v %d", e.Status, e.Input)
		}
	}
	got := r.take()
	want := "rec(1); rec(10); rec(2); rec(11); RESUME(g0c0); RESUME(g1c0); TRIGGER(1,ALIGNED); ACKALL(g1c0); END_OF_DATA 1; rec(3); ACKALL(g0c0); STOPPED -1"
	if alt := "rec(1); rec(10); rec(2); rec(11); RESUME(g0c0); RESUME(g1c0); TRIGGER(1,ALIGNED); rec(3); ACKALL(g1c0); END_OF_DATA 1; ACKALL(g0c0); STOPPED -1"; got != want && got != alt {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	for e, err := range task.AllOf(t.Context(), f.wait, task.SelectorConfig{}) {
		if e != nil || !errors.Is(err, task.ErrInputs) {
			t.Errorf("no inputs: %v, %v", e, err)
		}
	}
}

// Left early, and with errors of waiting, the iterator over several inputs ends, too.
func TestAllOfLeftAndFailing(t *testing.T) {
	r := newRig(t, task.InputConfig{}, 1, 1)
	f := &feeder{t: t}
	r.data(0, 0, records(1))
	r.data(1, 0, records(2))
	for range task.AllOf(t.Context(), f.wait, task.SelectorConfig{}, r.inputs...) {
		break
	}
	var last error
	turns := 0
	for _, err := range task.AllOf(t.Context(), f.wait, task.SelectorConfig{}, r.inputs...) {
		turns++
		last = err
	}
	if turns != 2 || !errors.Is(last, errStuck) {
		t.Errorf("%d turns, %v", turns, last)
	}
	r.event(0, 0, event.Event{Kind: event.EndOfData})
	r.event(1, 0, event.Event{Kind: event.EndOfData})
	for e := range task.AllOf(t.Context(), f.wait, task.SelectorConfig{}, r.inputs...) {
		if e.Input < 0 { // left at the end of all data
			break
		}
	}
	r.take()
}

// TestLoopTurn drives a loop inline: nothing in it sleeps, and mails go before the action.
func TestLoopTurn(t *testing.T) {
	r := newLoopRig(t)
	turn := func(want task.Status) {
		t.Helper()
		if st, err := r.loop.Turn(); st != want || err != nil {
			t.Fatalf("%v, %v, want %v", st, err, want)
		}
	}
	if r.loop.Ready() {
		t.Error("ready for nothing")
	}
	turn(task.Nothing)
	r.input = []task.Status{task.More}
	r.mail("a")
	if !r.loop.Ready() {
		t.Error("not ready for a mail")
	}
	turn(task.More)
	r.is("nothing a more_available")
	r.blocked = true
	r.input = []task.Status{task.EndOfData, task.EndOfInput}
	if r.loop.Ready() {
		t.Error("ready without room in the outputs")
	}
	turn(task.Nothing)
	r.blocked = false
	if !r.loop.Ready() {
		t.Error("not ready")
	}
	must(t, r.loop.Suspend())
	turn(task.Nothing)
	turn(task.More)
	turn(task.EndOfInput)
	r.is("end_of_data drained end_of_input")
	r.mail("late")
	turn(task.EndOfInput)
	r.is("late")
	if !r.loop.Ended() || r.loop.Ready() {
		t.Errorf("ended %t, ready %t", r.loop.Ended(), r.loop.Ready())
	}
	must(t, r.loop.Finish())
	if _, err := r.loop.Turn(); !errors.Is(err, task.ErrLoopFinished) {
		t.Error(err)
	}
}

// TestLoopTurnErrors: errors of mails, of the action and of the end of the data come out of a turn, and so does what no action
// may come to.
func TestLoopTurnErrors(t *testing.T) {
	boom := errors.New("boom")
	r := newLoopRig(t)
	must(t, r.box.Post(task.Mail{Name: "bad", Do: func() error { return boom }}))
	if _, err := r.loop.Turn(); !errors.Is(err, boom) {
		t.Errorf("mail: %v", err)
	}
	r.input = []task.Status{task.Element}
	if _, err := r.loop.Turn(); !errors.Is(err, align.ErrState) {
		t.Errorf("status: %v", err)
	}
	for _, st := range []task.Status{task.More, task.EndOfData} {
		l, err := task.NewLoop(task.LoopConfig{Mailbox: task.NewMailbox(1, nil), Available: func() bool { return true },
			Process: func() (task.Status, error) {
				if st == task.More {
					return st, boom
				}
				return st, nil
			}, EndOfData: func(bool) error { return boom }})
		must(t, err)
		if _, err := l.Turn(); !errors.Is(err, boom) {
			t.Errorf("%v: %v", st, err)
		}
	}
}
