package pipeline

import (
	"errors"

	"github.com/weirflow/weir"
	"github.com/weirflow/weir/checkpoint"
)

// event does what the coordinator says.
func (a *Attempt) event(ev *checkpoint.Event, source bool) error {
	switch ev.Kind {
	case checkpoint.TriggerEvent:
		if !source {
			return nil // the barriers will come
		}
		err := a.task.Trigger(barrier(&ev.Trigger))
		if errors.Is(err, weir.ErrClosed) || errors.Is(err, weir.ErrFinished) {
			return nil // the function is about to return, and says why
		}
		return err
	case checkpoint.CompletedEvent:
		if a.sink != nil {
			if err := a.sink.Completed(a.ctx, ev.ID); err != nil {
				return err
			}
		}
		a.completed.Add(1)
		if f := a.cfg.Completed; f != nil {
			f(a.Number(), ev.ID)
		}
		if ev.Last {
			close(a.last)
		}
		a.task.Completed(ev.ID)
	case checkpoint.AbortedEvent:
		a.forget(ev.ID)
		a.task.Aborted(ev.ID, errors.New(ev.Cause))
	}
	return nil
}

// barrier is the barrier that a trigger asks for.
func barrier(t *checkpoint.Trigger) weir.Barrier {
	switch t.Alignment {
	case checkpoint.Unaligned:
		return weir.UnalignedBarrier(t.ID, t.Time)
	case checkpoint.Timed:
		return weir.TimedBarrier(t.ID, t.Time, t.AlignmentTimeout)
	default:
		return weir.AlignedBarrier(t.ID, t.Time)
	}
}

// take takes the snapshot: on the task's goroutine, since neither the state nor the sink may move on meanwhile.
func (a *Attempt) take(cp *weir.CheckpointInfo) {
	b := &begun{snapshot: a.epoch.Snapshot(cp.Barrier.ID)}
	state, err := []byte(nil), error(nil)
	if a.sink != nil {
		b.sink, err = a.sink.Snapshot(a.ctx, cp.Barrier.ID)
	}
	if err == nil && a.state != nil {
		state, err = a.state()
	}
	a.mu.Lock()
	a.begun[cp.Barrier.ID] = b
	a.mu.Unlock()
	if err != nil {
		cp.Decline(err)
		return
	}
	cp.Ack(state)
}

// forget drops a checkpoint, and returns what was begun of it; nil: nothing.
func (a *Attempt) forget(id int64) *begun {
	a.mu.Lock()
	defer a.mu.Unlock()
	b := a.begun[id]
	delete(a.begun, id)
	return b
}

// report gets what the task has of a checkpoint, on any goroutine, and lets another one write it.
func (a *Attempt) report(r weir.TaskReport) {
	if r.Finished {
		return // after the last checkpoint, which the coordinator knows about
	}
	b := a.forget(r.Checkpoint)
	if r.Snapshot == nil {
		if b == nil {
			b = &begun{snapshot: a.epoch.Snapshot(r.Checkpoint)}
		}
		b.snapshot.Decline(r.Err)
		return
	}
	if b == nil {
		return // aborted meanwhile
	}
	a.work.Go(func() {
		if err := a.write(b, r.Snapshot); err != nil && !errors.Is(err, checkpoint.ErrSettled) {
			a.cfg.log("a snapshot could not be written", "checkpoint", r.Checkpoint, "error", err)
			b.snapshot.Decline(err)
		}
	})
}

// write writes this member's part of a checkpoint.
func (a *Attempt) write(b *begun, s *weir.Snapshot) error {
	w, err := b.snapshot.Create(a.ctx, taskPart)
	if err != nil {
		return err
	}
	if _, err := s.WriteTo(w); err != nil {
		w.Abort()
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	if b.sink != nil {
		if err := b.snapshot.Put(a.ctx, sinkPart, b.sink); err != nil {
			return err
		}
	}
	return b.snapshot.Ack()
}

// fail ends the attempt here; the coordinator ends it for the others.
func (a *Attempt) fail(err error) {
	if a.ctx.Err() != nil {
		return
	}
	a.epoch.Fail(err)
	a.cancel(err)
}
