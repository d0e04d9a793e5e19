package task_test

import (
	"errors"
	"testing"

	"github.com/weirflow/weir/align"
	"github.com/weirflow/weir/serde"
	"github.com/weirflow/weir/serde/event"
	"github.com/weirflow/weir/task"
)

// counter is a source that makes the numbers from first to last, and then ends, when it is let.
type counter struct {
	next, last uint64
	drained    bool
	fail       error
}

func (c *counter) Available() bool { return true }

func (c *counter) Next(e *serde.Element) (task.Status, error) {
	switch {
	case c.fail != nil:
		return task.Nothing, c.fail
	case c.next <= c.last:
		*e = rec(c.next)
		c.next++
		return task.Element, nil
	case !c.drained:
		c.drained = true
		return task.EndOfData, nil
	}
	return task.EndOfInput, nil
}

// withSource is a task with a gate of one channel and a source.
func withSource(t *testing.T, src task.Source, u align.Unaligned) *rig {
	i := 0
	return newRigWith(t, task.InputConfig{Unaligned: u}, func(gi *task.GateInput) {
		if i++; i == 2 {
			gi.Source = src
		}
	}, 1, 1)
}

// A source waits behind its barrier for those of the gates, and they for it.
func TestSourceIsAligned(t *testing.T) {
	src := &counter{next: 1, last: 3}
	r := withSource(t, src, align.UnalignedOff)
	m := newMulti(r, task.SelectorConfig{})
	for range 2 { // the gate has nothing
		if _, err := m.Process(); err != nil {
			t.Fatal(err)
		}
	}
	b := &event.Barrier{ID: 1, Options: alignedOptions}
	must(t, r.inputs[1].TriggerSource(b))
	r.data(0, 0, records(100))
	all(t, m)
	r.is("rec(1)", "rec(100)")
	if m.Available() {
		t.Fatal("the source does not wait")
	}
	r.barrier(0, 0, 1, alignedOptions)
	r.event(0, 0, event.Event{Kind: event.EndOfData})
	st := task.More
	for st == task.More {
		var err error
		st, err = m.Process()
		must(t, err)
	}
	if st != task.EndOfData {
		t.Errorf("ends with %v", st)
	}
	r.is("RESUME(g0c0)", "TRIGGER(1,ALIGNED)", "ACKALL(g0c0)", "endInput(1)", "rec(2)", "rec(3)", "endInput(2)")
	if r.inputs[1].Records() != 3 {
		t.Errorf("the source made %d records", r.inputs[1].Records())
	}
}

// While an unaligned checkpoint waits for barriers, the source makes nothing: it could not be stored.
func TestSourceStopsDuringUnalignedCheckpoint(t *testing.T) {
	src := &counter{next: 1, last: 3}
	r := withSource(t, src, align.UnalignedOn)
	in := r.inputs[1]
	r.barrier(0, 0, 1, unalignedOptions)
	must(t, r.next(r.inputs[0]))
	r.is("TRIGGER(1,UNALIGNED)", "NOTHING_AVAILABLE")
	if in.Available() {
		t.Error("available")
	}
	must(t, r.next(in))
	r.is("NOTHING_AVAILABLE")
	must(t, in.TriggerSource(&event.Barrier{ID: 1, Options: unalignedOptions}))
	must(t, r.next(in))
	r.is("COMPLETE(1)", "rec(1)", "rec(2)", "rec(3)", "END_OF_DATA", "END_OF_INPUT")
	if err := in.TriggerSource(&event.Barrier{ID: 2, Options: unalignedOptions}); !errors.Is(err, align.ErrState) {
		t.Error(err)
	}
	if err := r.inputs[0].TriggerSource(&event.Barrier{ID: 2, Options: unalignedOptions}); !errors.Is(err, align.ErrState) {
		t.Error(err)
	}
	// It has ended: a checkpoint does not wait for it any more.
	r.barrier(0, 0, 2, unalignedOptions)
	must(t, r.next(r.inputs[0]))
	r.is("TRIGGER(2,UNALIGNED)", "COMPLETE(2)", "NOTHING_AVAILABLE")
}

func TestSourceError(t *testing.T) {
	broken := errors.New("broken")
	r := withSource(t, &counter{fail: broken}, align.UnalignedOff)
	for range 2 {
		if _, err := r.inputs[1].Next(); !errors.Is(err, broken) {
			t.Fatal(err)
		}
	}
}
