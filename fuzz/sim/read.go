package sim

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/weirflow/weir/align"
	"github.com/weirflow/weir/credit"
	"github.com/weirflow/weir/serde"
	"github.com/weirflow/weir/serde/event"
	weirtask "github.com/weirflow/weir/task"
)

// task is the reading half of a task above the gate: task.Input with its timer, as in weir's own glue.
type task struct {
	v      *vertex
	in     *weirtask.Input
	guard  *align.CheckpointGuard
	due    int64 // checkpoint whose time is up, -1: none
	set    int64 // checkpoint that the timer runs for, -1: none
	closed bool
}

func newTask(v *vertex) *task {
	t := &task{v: v, guard: align.NewCheckpointGuard(), due: -1, set: -1}
	mode, unaligned := v.w.plan.mode.alignment()
	var err error
	t.in, err = weirtask.NewInput(weirtask.InputConfig{Gate: v.in.gate, Mode: mode, Unaligned: unaligned, Timers: t, Sink: (*sink)(v),
		Clock: v.w.clockNow, Deserializer: serde.DeserializerConfig{NoSpill: true, Releaser: v.in.releaser}})
	v.node.must(err)
	return t
}

// Set is part of align.Timers.
func (t *task) Set(id, delay int64) {
	t.set = id
	t.v.w.after(max(delay, 0)*1000+1, func() {
		t.v.node.post(func() {
			if t.set == id && !t.closed {
				t.due = id
				t.v.in.gate.Alert()
			}
		})
	})
}

// Cancel is part of align.Timers.
func (t *task) Cancel(id int64) {
	if t.set == id {
		t.set = -1
	}
	if t.due == id {
		t.due = -1
	}
}

func (t *task) close() { t.closed = true }

// runInput takes what is here, up to a batch. It reports whether there may be more.
func (v *vertex) runInput() bool {
	if v.inputEnded {
		return false
	}
	for range v.w.plan.batch {
		if v.closed {
			return false
		}
		if !v.next() {
			return false
		}
		if v.out != nil && (v.out.rw.Pending() || v.out.full || v.backlog > 0) {
			return true
		}
	}
	if v.w.plan.resize && chance(v.w.rng, 10) {
		v.in.gate.AnnounceBufferSize(int32(1 + v.w.rng.IntN(v.w.plan.segment)))
	}
	return true
}

// readPriority takes priority events although the output is full.
func (v *vertex) readPriority() bool {
	if v.in == nil || v.inputEnded || v.out.rw.Pending() || v.in.task.due < 0 && !v.in.gate.HasPriority() {
		return false
	}
	v.w.exp.PriorityWhileFull++
	v.next()
	return true
}

// next takes one thing. It returns false if nothing is here.
func (v *vertex) next() bool {
	t := v.in.task
	if t.due >= 0 {
		id := t.due
		t.due = -1
		v.w.exp.Timeouts++
		v.w.note(v.name, "alignment timeout", int(id))
		if err := t.in.Timeout(id); err != nil {
			v.readFailed(err)
			return false
		}
	}
	st, err := t.in.Next()
	if err != nil {
		v.readFailed(err)
		return false
	}
	switch st {
	case weirtask.Nothing:
		v.waits = "input"
		return false
	case weirtask.Element:
		if v.in.gate.HasPriority() {
			v.w.violate("%s: a record is handed out although a priority event waits", v.name)
		}
		v.take(t.in.Channel(), t.in.Element())
	case weirtask.Checkpoint:
		v.checkpoint(t)
	case weirtask.Completed:
		v.w.note(v.name, "completed", int(t.in.Notice().Barrier.ID))
		v.flight(t.in.Notice().Barrier.ID).received = true
		v.job.coord.look()
	case weirtask.Aborted:
		id := t.in.Notice().Barrier.ID
		v.w.note(v.name, "aborted", int(id))
		v.w.exp.Aborted++
		t.guard.Abort(id)
		v.job.coord.abort(id, "aborted at "+v.name)
		if v.out != nil && v.out.phase < finished {
			v.emit(&event.Event{Kind: event.CancelCheckpoint, CheckpointID: id})
		}
	case weirtask.EndOfData:
		v.w.note(v.name, "end of data")
		v.dataEnds = true
	case weirtask.EndOfInput:
		v.w.note(v.name, "end of input")
		v.w.progress()
		v.inputEnded = true
		return false
	default:
		v.w.violate("%s: unexpected %v", v.name, st)
	}
	return true
}

// readFailed ends the job, if the network is to blame.
func (v *vertex) readFailed(err error) {
	var lost *credit.ConnError
	var ended *credit.ChannelError
	switch {
	case errors.As(err, &lost) && v.w.exp.Resets > 0:
		if lost.Peer == "" {
			v.w.violate("%s: an error that names no peer: %v", v.name, err)
		}
	case errors.As(err, &ended) && v.job.killed:
		v.checkNames(ended)
	default:
		v.w.violate("%s: %v", v.name, err)
	}
	v.closed = true
	v.closeInput()
	v.job.fail(v, err)
}

// checkNames checks that a channel's error names what it is about.
func (v *vertex) checkNames(err *credit.ChannelError) {
	if err.Index < 0 || err.Index >= len(v.in.edges) {
		v.w.violate("%s: an error of channel %d: %v", v.name, err.Index, err)
	}
	e := v.in.edges[err.Index]
	want := partitionID(v.job.attempt, e.from.stage, e.from.index)
	if err.Partition != want || e.local == nil && (err.Peer != e.from.node.name || err.Channel != e.id) {
		v.w.violate("%s: an error of %s that names another one: %v", v.name, e.name, err)
	}
}

// take checks that a record is the one that comes next on its channel, byte for byte.
func (v *vertex) take(ch int, el *serde.Element) {
	e := v.in.edges[ch]
	if el.Kind != serde.Record || el.HasTimestamp {
		v.w.violate("%s: a %v instead of a record", e.name, el.Kind)
	}
	n := v.consumed[ch]
	if sent := e.from.logs[e.sub]; n >= len(sent) {
		v.w.violate("%s: record %d arrives, %d were sent: % x", e.name, n, len(sent), el.Value)
	}
	r := e.from.logs[e.sub][n]
	v.scratch = e.from.appendValue(v.scratch[:0], r)
	if !bytes.Equal(v.scratch, el.Value) {
		v.w.violate("%s: record %d is % x, want % x (lost, doubled, out of order or damaged)", e.name, n, el.Value, v.scratch)
	}
	if len(v.scratch)+5 > v.w.plan.segment {
		v.w.exp.Spanning++
	}
	v.consumed[ch]++
	v.w.note(v.name, "takes record", ch, n)
	if v.out != nil {
		v.backlog++
		if v.dataEnds {
			v.w.violate("%s: a record after the end of the data", v.name)
		}
		if !v.out.full && v.write() {
			v.backlog--
		}
	}
	v.job.consumedOne()
}

// checkpoint is told by the aligner to take one.
func (v *vertex) checkpoint(t *task) {
	n := t.in.Notice()
	b, verdict := t.guard.Trigger(n.Barrier)
	v.w.note(v.name, fmt.Sprintf("checkpoint %v: %v", b.Options.Alignment, verdict), int(b.ID))
	if verdict == align.AlreadyAborted {
		v.w.exp.AbortedAhead++
		if v.out != nil && v.out.phase < finished {
			v.emit(&event.Event{Kind: event.CancelCheckpoint, CheckpointID: b.ID})
		}
	}
	if verdict != align.Take {
		return
	}
	if !b.Options.IsUnaligned() {
		v.flight(b.ID).received = true
	}
	v.snapshot(&b)
}
