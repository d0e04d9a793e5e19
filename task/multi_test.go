package task_test

import (
	"errors"
	"testing"

	"pgregory.net/rapid"

	"github.com/weirflow/weir/align"
	"github.com/weirflow/weir/serde"
	"github.com/weirflow/weir/serde/event"
	"github.com/weirflow/weir/task"
)

func newMulti(r *rig, cfg task.SelectorConfig) *task.MultiInput {
	m, err := task.NewMultiInput(rigOperator{r}, cfg, r.inputs...)
	must(r.t, err)
	return m
}

// all processes until there is nothing more, and returns the last status.
func all(t testing.TB, m *task.MultiInput) task.Status {
	for {
		st, err := m.Process()
		must(t, err)
		if st == task.Nothing || st == task.EndOfInput {
			return st
		}
		if st != task.More {
			t.Fatal(st)
		}
	}
}

func TestMultiInputTakesTurns(t *testing.T) {
	r := newRig(t, task.InputConfig{}, 1, 1, 1)
	m := newMulti(r, task.SelectorConfig{})
	for g := range 3 {
		r.data(g, 0, records(uint64(10*g), uint64(10*g+1), uint64(10*g+2)))
	}
	all(t, m)
	// Flink begins behind input 1.
	r.is("rec(20)", "rec(0)", "rec(10)", "rec(21)", "rec(1)", "rec(11)", "rec(22)", "rec(2)", "rec(12)")
	if m.Available() {
		t.Error("available")
	}
}

// An input that had nothing gets its turn soon after something came, although the others have more.
func TestMultiInputStarvesNobody(t *testing.T) {
	r := newRig(t, task.InputConfig{}, 1, 1)
	m := newMulti(r, task.SelectorConfig{})
	all(t, m)
	r.data(0, 0, records(1, 2, 3, 4, 5, 6))
	for range 2 {
		if _, err := m.Process(); err != nil {
			t.Fatal(err)
		}
	}
	r.data(1, 0, records(100))
	for range 3 {
		if _, err := m.Process(); err != nil {
			t.Fatal(err)
		}
	}
	got := r.take()
	if want := "rec(1); rec(2); rec(3); rec(100); rec(4)"; got != want && got != "rec(1); rec(2); rec(100); rec(3); rec(4)" {
		t.Errorf("got %s", got)
	}
}

// An input that is not selected is not read, before the end of its data; its priority events are handled all the same.
func TestMultiInputSelection(t *testing.T) {
	r := newRig(t, task.InputConfig{Unaligned: align.UnalignedOn}, 1, 1)
	want := task.Selection(0b10)
	m := newMulti(r, task.SelectorConfig{Next: func() task.Selection { return want }})
	r.data(0, 0, records(1))
	r.data(1, 0, records(2))
	if st := all(t, m); st != task.Nothing {
		t.Fatal(st)
	}
	r.is("rec(2)")
	if m.Available() {
		t.Error("available by an input that is not selected")
	}
	r.barrier(0, 0, 1, unalignedOptions)
	if !m.Available() {
		t.Error("a priority event waits")
	}
	all(t, m)
	r.is("persist(1,c0,0,13)", "TRIGGER(1,UNALIGNED)")
	want = 0b01
	r.data(1, 0, records(3))
	m.Selector().Next()
	all(t, m)
	r.is("persist(1,c0,1,13)", "rec(1)") // what arrives before the channel's barrier belongs to the checkpoint, read or not
}

// The end of the data is reported once all inputs are there, as stopped if one of them was stopped, whichever is last.
func TestMultiInputEnd(t *testing.T) {
	for _, c := range []struct {
		modes   [2]event.StopMode
		asFlink bool
		want    task.Status
	}{
		{[2]event.StopMode{event.Drain, event.Drain}, false, task.EndOfData},
		{[2]event.StopMode{event.NoDrain, event.Drain}, false, task.Stopped},
		{[2]event.StopMode{event.Drain, event.NoDrain}, false, task.Stopped},
		{[2]event.StopMode{event.NoDrain, event.NoDrain}, false, task.Stopped},
		{[2]event.StopMode{event.NoDrain, event.Drain}, true, task.Stopped},
		{[2]event.StopMode{event.Drain, event.NoDrain}, true, task.Nothing}, // quirk P1
	} {
		r := newRig(t, task.InputConfig{}, 1, 1)
		m := newMulti(r, task.SelectorConfig{StoppedAsFlink: c.asFlink})
		reported := task.Nothing
		run := func() task.Status {
			for {
				st, err := m.Process()
				must(t, err)
				switch st {
				case task.Nothing, task.EndOfInput:
					return st
				case task.EndOfData, task.Stopped:
					if reported != task.Nothing {
						t.Fatal("reported twice")
					}
					reported = st
				}
			}
		}
		for g, mode := range c.modes {
			r.event(g, 0, event.Event{Kind: event.EndOfData, StopMode: mode})
			if st := run(); st != task.Nothing {
				t.Fatal(st)
			}
		}
		if reported != c.want {
			t.Errorf("%v: reported %v, want %v", c, reported, c.want)
		}
		for g := range c.modes {
			r.event(g, 0, event.Event{Kind: event.EndOfPartition})
		}
		if st := run(); st != task.EndOfInput || !m.Available() {
			t.Errorf("%v: ends with %v", c, st)
		}
		m.Close()
	}
}

func TestMultiInputErrors(t *testing.T) {
	for _, n := range []int{0, 64} {
		if _, err := task.NewSelector(task.SelectorConfig{Inputs: n}); !errors.Is(err, task.ErrInputs) {
			t.Errorf("%d inputs: %v", n, err)
		}
	}
	r := newRig(t, task.InputConfig{}, 1, 1)
	if _, err := task.NewMultiInput(rigOperator{r}, task.SelectorConfig{}); !errors.Is(err, task.ErrInputs) {
		t.Error(err)
	}
	m := newMulti(r, task.SelectorConfig{Next: func() task.Selection { return 1 }})
	r.event(0, 0, event.Event{Kind: event.EndOfPartition})
	var err error
	for st := task.More; st == task.More && err == nil; {
		st, err = m.Process()
	}
	if !errors.Is(err, task.ErrNoProgress) {
		t.Error(err)
	}
	// The first failing input's error comes through.
	r = newRig(t, task.InputConfig{}, 1, 1)
	m = newMulti(r, task.SelectorConfig{})
	r.data(1, 0, []byte{0xff, 0, 0, 0})
	for err = nil; err == nil; {
		_, err = m.Process()
	}
	if !errors.Is(err, serde.ErrNegativeLength) {
		t.Error(err)
	}
}

// An operator that selects only what has ended waits for nothing: it is told, also when it does so after an element.
func TestMultiInputStuckSelection(t *testing.T) {
	r := newRig(t, task.InputConfig{}, 1, 1)
	elements := 0
	m := newMulti(r, task.SelectorConfig{Next: func() task.Selection {
		if elements++; elements > 3 {
			return 1 // input 0, which has ended
		}
		return task.AllInputs
	}})
	r.event(0, 0, event.Event{Kind: event.EndOfPartition})
	r.data(1, 0, records(1))
	var err error
	for range 10 {
		if _, err = m.Process(); err != nil {
			break
		}
	}
	if !errors.Is(err, task.ErrNoProgress) {
		t.Errorf("got %v, said %s", err, r.take())
	}
	r.take()
}

// The selector is fair: an input that is selected and has something is read within as many turns as there are inputs, one that is
// not selected never is.
func TestSelectorIsFair(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, task.MaxSelectable).Draw(t, "inputs")
		selection := task.Selection(rapid.Uint64().Draw(t, "selection")) | 1
		s, err := task.NewSelector(task.SelectorConfig{Inputs: n, Next: func() task.Selection { return selection }})
		if err != nil {
			t.Fatal(err)
		}
		s.Next()
		waited := make([]int, n)
		last := 1
		for range 3 * n {
			i := s.Select(last)
			if i < 0 || i >= n || selection&(1<<i) == 0 {
				t.Fatalf("input %d of %d, selected are %b", i, n, selection)
			}
			for j := range waited {
				waited[j]++
				if selection&(1<<j) != 0 && waited[j] > n {
					t.Fatalf("input %d waited %d turns", j, waited[j])
				}
			}
			waited[i] = 0
			last = i
			if st, err := s.Update(task.More, i); st != task.More || err != nil {
				t.Fatal(st, err)
			}
		}
	})
}
