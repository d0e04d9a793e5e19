package sim

import (
	"errors"

	"github.com/weirflow/weir/align"
	"github.com/weirflow/weir/segment"
	"github.com/weirflow/weir/serde"
	"github.com/weirflow/weir/serde/event"
)

// runOutput finishes a record that is half written, and sends an operator's backlog. It reports whether a record may begin.
func (v *vertex) runOutput() bool {
	o := v.out
	if o.rw.Pending() {
		if err := o.resume(); err != nil {
			v.waits = "memory for the rest of a record"
			v.written(err)
			return false
		}
		v.afterWrite()
	}
	v.settled()
	if v.in == nil {
		return true
	}
	for v.backlog > 0 {
		if !v.write() {
			return false
		}
		v.backlog--
		if o.rw.Pending() {
			return false
		}
	}
	if v.dataEnds && o.phase == writing {
		v.endData()
	}
	if o.phase == writing && !o.pool.Available() {
		o.full = true
		v.waits = "memory"
		return o.writer.Deserted()
	}
	o.full = false
	return true
}

// runSource writes records until it has to wait, or it was enough for now.
func (v *vertex) runSource() bool {
	o := v.out
	v.serve()
	for n := 0; o.phase == writing; n++ {
		if int(v.serial) >= v.w.plan.records {
			v.endData()
			break
		}
		if n >= v.w.plan.batch {
			return true
		}
		if !v.write() || o.rw.Pending() {
			v.waits = "memory"
			return len(v.posted) > 0 && !o.rw.Pending()
		}
	}
	return v.endOutput()
}

// write makes one record and writes it. It returns false if nothing was written.
func (v *vertex) write() bool {
	w, o := v.w, v.out
	r := record{serial: v.serial, n: w.rng.IntN(w.plan.maxRecord + 1)}
	all := chance(w.rng, w.plan.broadcast)
	sub := w.rng.IntN(len(v.logs))
	v.value = v.appendValue(v.value[:0], r)
	var err error
	if all {
		err = o.rw.BroadcastElement(v.value)
	} else {
		err = o.rw.WriteElement(sub, v.value)
	}
	if errors.Is(err, serde.ErrFull) {
		o.full = true
		w.exp.Full++
		return false
	}
	o.full, o.asked = false, false
	v.written(err)
	v.serial++
	if all {
		w.exp.Broadcasts++
		for s := range v.logs {
			v.logs[s] = append(v.logs[s], r)
		}
	} else {
		v.logs[sub] = append(v.logs[sub], r)
	}
	w.note(v.name, "writes record", int(r.serial), sub, r.n)
	w.exp.Written++
	if err == nil {
		v.afterWrite()
	}
	return true
}

// written looks at what a write or Continue came to.
func (v *vertex) written(err error) {
	switch {
	case err == nil:
	case errors.Is(err, serde.ErrUnfinished):
		v.w.exp.Unfinished++
	default:
		v.w.violate("%s: write: %v", v.name, err)
	}
}

func (v *vertex) afterWrite() {
	if v.w.plan.flushEach {
		v.out.rw.FlushAll()
	} else if chance(v.w.rng, 20) {
		v.out.writer.Publish()
	}
}

// serve sends the barriers that the coordinator posted.
func (v *vertex) serve() {
	if v.out.phase < finished {
		v.serveDeclined()
	}
	for len(v.posted) > 0 && v.out.phase < finished {
		b := v.posted[0]
		v.posted = v.posted[1:]
		if chance(v.w.rng, v.w.plan.declines) {
			v.emit(&event.Event{Kind: event.CancelCheckpoint, CheckpointID: b.ID})
			v.job.coord.abort(b.ID, "declined by "+v.name)
			continue
		}
		v.snapshot(&b)
	}
}

// emit broadcasts an event behind everything that was written, or before it.
func (v *vertex) emit(e *event.Event) {
	priority := e.Kind == event.CheckpointBarrier && e.Barrier.Options.IsUnaligned()
	b := segment.Wrap(event.AppendPadded(nil, e), event.DataTypeOf(e, priority))
	if err := v.out.rw.BroadcastEvent(b); err != nil {
		v.w.violate("%s: %v: %v", v.name, e.Kind, err)
	}
	v.w.note(v.name, "emits "+e.Kind.String(), int(e.Barrier.ID), int(e.CheckpointID))
}

// emitBarrier sends a checkpoint on, and lets a timer run for it if it may wait for some time only.
func (v *vertex) emitBarrier(b event.Barrier) {
	out, _ := align.Outgoing(b, false)
	v.emit(&event.Event{Kind: event.CheckpointBarrier, Barrier: out})
	v.out.settle = append(v.out.settle, b.ID)
	if delay, ok := align.OutputTimeout(&out, v.w.clockNow()); ok {
		v.w.after(delay*1000, func() {
			v.node.post(func() {
				if !v.job.closed {
					v.w.note(v.name, "barrier timeout", int(out.ID))
					v.out.part.AlignedBarrierTimeout(out.ID)
				}
			})
		})
	}
	v.settled()
}

// settled lets the loop say when it has taken the barriers that were sent: what they overtook was handed over then.
func (v *vertex) settled() {
	o := v.out
	if len(o.settle) == 0 || !o.writer.Publish() {
		return
	}
	ids := o.settle
	o.settle = nil
	v.node.post(func() {
		o.part.Poll()
		for _, id := range ids {
			v.flight(id).sent = true
		}
		v.job.coord.look()
	})
}

// endData sends the end of the data.
func (v *vertex) endData() {
	v.emit(&event.Event{Kind: event.EndOfData, StopMode: event.Drain})
	v.out.phase = dataEnded
	v.w.progress()
}

// endOutput takes the output through its last phases. It reports whether there is more to do at once.
func (v *vertex) endOutput() bool {
	o := v.out
	switch o.phase {
	case dataEnded:
		v.waits = "acknowledgements"
		if !o.writer.Settled() || v.in != nil && !v.inputEnded || len(v.posted) > 0 {
			return len(v.posted) > 0
		}
		if err := o.rw.FinishBuffers(); err != nil {
			v.w.violate("%s: %v", v.name, err)
		}
		o.writer.FinishAll()
		o.writer.Close()
		o.phase = finished
		v.w.note(v.name, "finished")
		v.w.progress()
		v.job.coord.look()
		return true
	case finished:
		v.waits = "consumers to go"
		if !o.writer.Deserted() {
			return false
		}
		o.phase = deserted
		v.done = true
		v.closeInput()
		v.w.note(v.name, "done")
		v.w.progress()
		v.job.coord.look()
	}
	return false
}

// resume goes on with a record that is half written. What it finished meanwhile is to be moved, too.
func (o *output) resume() error {
	before := o.rw.Stats().Buffers
	err := o.rw.Continue()
	if err != nil && o.rw.Stats().Buffers != before {
		o.writer.Reclaim()
	}
	return err
}
