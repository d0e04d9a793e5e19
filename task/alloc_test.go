//go:build !race && !weirdebug

package task_test

import (
	"context"
	"encoding/binary"
	"iter"
	"testing"

	"github.com/weirflow/weir/align"
	"github.com/weirflow/weir/credit"
	"github.com/weirflow/weir/internal/alloctest"
	"github.com/weirflow/weir/segment"
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
// timestamp, by Next, by a processor or by one of several.
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

// quiet is the senders' side of gates that are fed by hand; it says nothing.
type quiet struct{}

func (quiet) Resume(int) error              { return nil }
func (quiet) AckAll(int)                    {}
func (quiet) ReleaseChannel(int)            {}
func (quiet) AnnounceBufferSize(int, int32) {}

// quietTask is a task over such gates, to which records and barriers come without a cost of their own.
type quietTask struct {
	gates  []*credit.Gate
	inputs []*task.Input
	seq    int32
	id     int64
	data   segment.Buffer
	bytes  []byte
	typ    segment.DataType
}

func newQuietTask(t *testing.T, mode align.Mode, o event.Options, gates int) *quietTask {
	q := &quietTask{data: segment.Wrap(records(1), segment.DataBuffer)}
	e := event.Event{Kind: event.CheckpointBarrier, Barrier: event.Barrier{Options: o}}
	q.bytes, q.typ = event.Append(nil, &e), event.DataTypeOf(&e, false)
	var gis []task.GateInput
	for range gates {
		g := credit.NewGate(credit.GateConfig{Channels: 2, Upstream: quiet{}})
		q.gates, gis = append(q.gates, g), append(gis, task.GateInput{Gate: g})
	}
	var err error
	q.inputs, err = task.NewInputs(task.InputConfig{Mode: mode, Clock: func() align.Now { return align.Now{} }}, gis...)
	must(t, err)
	return q
}

// feed lets a record and a barrier arrive on each channel.
func (q *quietTask) feed() {
	q.id++
	binary.BigEndian.PutUint64(q.bytes[4:], uint64(q.id))
	for _, g := range q.gates {
		for ch := range int32(2) {
			g.Deliver(credit.Arrival{Channel: ch, Seq: q.seq, Buf: q.data.Retain()})
			g.Deliver(credit.Arrival{Channel: ch, Seq: q.seq + 1, Buf: segment.Wrap(q.bytes, q.typ)})
		}
	}
	q.seq += 2
}

// TestBarrierAllocations checks that a checkpoint costs no memory from the arrival of its barriers to its notice, aligned and at
// least once, read by Next and by the iterators.
func TestBarrierAllocations(t *testing.T) {
	for name, mode := range map[string]align.Mode{"aligned": align.ExactlyOnce, "at least once": align.AtLeastOnce} {
		o := alignedOptions
		if mode == align.AtLeastOnce {
			o = countedOptions
		}
		t.Run(name+"/next", func(t *testing.T) {
			q := newQuietTask(t, mode, o, 1)
			taken := int64(0)
			alloctest.Zero(t, 20, 200, func() {
				q.feed()
				for st := task.More; st != task.Nothing; {
					var err error
					if st, err = q.inputs[0].Next(); err != nil {
						t.Fatal(err)
					}
					if st == task.Checkpoint {
						taken++
					}
				}
			})
			if taken != q.id {
				t.Errorf("%d checkpoints of %d", taken, q.id)
			}
		})
		t.Run(name+"/all", func(t *testing.T) {
			q := newQuietTask(t, mode, o, 1)
			next, stop := iter.Pull2(q.inputs[0].All(t.Context(), func(context.Context, func() bool) error { q.feed(); return nil }))
			defer stop()
			alloctest.Zero(t, 100, 1000, func() {
				if _, err, ok := next(); err != nil || !ok {
					t.Fatal(err, ok)
				}
			})
			if q.id < 200 {
				t.Errorf("%d checkpoints", q.id)
			}
		})
		t.Run(name+"/all of two", func(t *testing.T) {
			q := newQuietTask(t, mode, o, 2)
			next, stop := iter.Pull2(task.AllOf(t.Context(), func(context.Context, func() bool) error { q.feed(); return nil },
				task.SelectorConfig{}, q.inputs...))
			defer stop()
			alloctest.Zero(t, 100, 1000, func() {
				if _, err, ok := next(); err != nil || !ok {
					t.Fatal(err, ok)
				}
			})
			if q.id < 200 {
				t.Errorf("%d checkpoints", q.id)
			}
		})
	}
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
