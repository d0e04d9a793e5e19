//go:build !race && !weirdebug

package task_test

import (
	"testing"

	"github.com/weirflow/weir/internal/alloctest"
	"github.com/weirflow/weir/serde"
	"github.com/weirflow/weir/serde/event"
	"github.com/weirflow/weir/task"
)

// TestAllocations checks that watermarks, statuses, attributes and mails cost no memory.
func TestAllocations(t *testing.T) {
	v := task.NewValve(8)
	ts := int64(0)
	a := task.NewAttributesCombiner(8)
	c := task.NewWatermarkCombiners(8)
	must(t, c.Declare(task.WatermarkDeclaration{Identifier: "w"}))
	m := task.NewMailbox(8, nil)
	ran := 0
	mail := task.Mail{Name: "mail", Do: func() error { ran++; return nil }}
	alloctest.Zero(t, 10, 1000, func() {
		ts++
		for ch := range 8 {
			if _, err := v.InputWatermark(ch, ts); err != nil {
				t.Fatal(err)
			}
			if _, err := v.InputStatus(ch, ts%3 == 0); err != nil {
				t.Fatal(err)
			}
			if _, _, err := a.Input(ch, ts%2 == 0); err != nil {
				t.Fatal(err)
			}
			if _, err := c.Combine(ch, &event.WatermarkEvent{Identifier: "w", Value: ts}); err != nil {
				t.Fatal(err)
			}
		}
		must(t, m.Post(mail))
		must(t, m.PostUrgent(mail))
		if n, err := m.Process(); n != 2 || err != nil || m.HasMail() {
			t.Fatal(n, err)
		}
	})
	if ran == 0 || v.LastWatermark() == 0 {
		t.Fatal("nothing happened")
	}
}

// TestInputAllocations checks that an element costs no memory, whichever way it takes: whole or in pieces, with and without
// timestamp, by Next, by a processor or by one of several, barriers included.
func TestInputAllocations(t *testing.T) {
	stamped := rec(3)
	stamped.HasTimestamp = true
	long := rec(4)
	long.Value = make([]byte, 1500) // spans buffers
	stream := framed(rec(1), rec(2), stamped, long, rec(5))
	feed := func(r *rig, g int) {
		for ch := range 2 {
			for p := stream; len(p) > 0; {
				n := min(len(p), 1000)
				r.data(g, ch, p[:n])
				p = p[n:]
			}
		}
	}
	t.Run("next", func(t *testing.T) {
		r := newRig(t, task.InputConfig{}, 2)
		in := r.inputs[0]
		whole := 0
		alloctest.Zero(t, 10, 500, func() {
			feed(r, 0)
			for n := 0; n < 10; n++ {
				if _, ok := in.WholeRecord(); ok {
					whole++
					continue
				}
				if st, err := in.Next(); st != task.Element || err != nil {
					t.Fatal(st, err)
				}
			}
			if st, err := in.Next(); st != task.Nothing || err != nil {
				t.Fatal(st, err)
			}
			r.local.Drain()
		})
		if whole == 0 || in.Records() < 5000 {
			t.Errorf("%d records, %d whole", in.Records(), whole)
		}
	})
	t.Run("multi", func(t *testing.T) {
		r := newRig(t, task.InputConfig{}, 2, 2)
		got := 0
		m, err := task.NewMultiInput(collector{add: func(int, *serde.Element) { got++ }}, task.SelectorConfig{}, r.inputs...)
		must(t, err)
		alloctest.Zero(t, 10, 500, func() {
			feed(r, 0)
			feed(r, 1)
			for st := task.More; st != task.Nothing; {
				if st, err = m.Process(); err != nil {
					t.Fatal(err)
				}
			}
			r.local.Drain()
		})
		if got < 10000 {
			t.Errorf("%d elements", got)
		}
	})
	t.Run("buffers", func(t *testing.T) {
		r := newRig(t, task.InputConfig{}, 2)
		alloctest.Zero(t, 10, 500, func() {
			feed(r, 0)
			for st := task.Element; st != task.Nothing; {
				var err error
				if _, st, err = r.inputs[0].NextBuffer(); err != nil {
					t.Fatal(err)
				}
			}
			r.local.Drain()
		})
	})
}

// TestLoopAllocations checks that a turn of the loop costs no memory, with a mail in it.
func TestLoopAllocations(t *testing.T) {
	box := task.NewMailbox(8, nil)
	turns := 0
	var loop *task.Loop
	suspend := task.Mail{Name: "suspend", Do: func() error { return loop.Suspend() }}
	loop, err := task.NewLoop(task.LoopConfig{
		Mailbox:   box,
		Process:   func() (task.Status, error) { turns++; return task.More, box.Post(suspend) },
		Available: func() bool { return true },
	})
	must(t, err)
	ctx := t.Context()
	alloctest.Zero(t, 10, 1000, func() { must(t, loop.Run(ctx)) })
	if turns < 1000 {
		t.Errorf("%d turns", turns)
	}
}
