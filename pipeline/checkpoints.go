package pipeline

import (
	"errors"

	"github.com/weirflow/weir"
	"github.com/weirflow/weir/checkpoint"
)

// event does what the coordinator says.
func (a *Attempt) event(ev *checkpoint.Event) error {
	switch ev.Kind {
	case checkpoint.TriggerEvent:
		return a.trigger(&ev.Trigger)
	case checkpoint.CompletedEvent:
		if a.sink != nil {
			if err := a.sink.Completed(a.ctx, ev.ID); err != nil {
				return err
			}
		}
		a.completed.Add(1)
		a.settled(ev.ID)
		if f := a.cfg.Completed; f != nil {
			f(a.Number(), ev.ID)
		}
		if ev.Last {
			close(a.last)
		}
		a.task.Completed(ev.ID)
	case checkpoint.AbortedEvent:
		a.forget(ev.ID)
		a.settled(ev.ID)
		a.task.Aborted(ev.ID, errors.New(ev.Cause))
	}
	return nil
}

// trigger passes on a trigger to the task, which knows whether it is for it, or its senders bring the barrier.
func (a *Attempt) trigger(t *checkpoint.Trigger) error {
	err := a.task.Trigger(barrier(t))
	switch {
	case errors.Is(err, weir.ErrFinished):
		a.repeat(t.ID)
		return nil
	case errors.Is(err, weir.ErrClosed):
		return nil // the function is about to return, and says why
	}
	return err
}

// repeat answers a checkpoint for a task that has finished, others having more to do: its last snapshot holds for all that follow, without
// what was in flight then, which has long been read.
func (a *Attempt) repeat(id int64) {
	if !a.first(id) {
		return
	}
	b := &begun{snapshot: a.epoch.Snapshot(id)}
	a.mu.Lock()
	newest := a.newest
	a.mu.Unlock()
	if newest == nil { // the coordinator has completed a checkpoint without this member
		b.snapshot.Decline(errNoSnapshot)
		return
	}
	last := *newest
	last.Checkpoint, last.In, last.Out = id, nil, nil
	if a.sink != nil {
		var err error
		if b.sink, err = a.sink.Snapshot(a.ctx, id); err != nil {
			b.snapshot.Decline(err)
			return
		}
	}
	a.save(b, &last)
}

var errNoSnapshot = errors.New("the task has finished, and has reported no snapshot")

// first tells whether nobody has begun to answer a checkpoint, and notes that somebody does now.
func (a *Attempt) first(id int64) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.answered[id] {
		return false
	}
	a.answered[id] = true
	return true
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
	a.begun[cp.Barrier.ID], a.answered[cp.Barrier.ID] = b, true
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

// settled forgets who answered a checkpoint and those before it: nobody asks for them any more.
func (a *Attempt) settled(id int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for old := range a.answered {
		if old <= id {
			delete(a.answered, old)
		}
	}
}

// report gets what the task has of a checkpoint, on any goroutine, and lets another one write it.
func (a *Attempt) report(r weir.TaskReport) {
	if r.Finished {
		for _, t := range a.epoch.Outstanding() {
			a.repeat(t.ID) // it came too late for the task to take it
		}
		return
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
	a.mu.Lock()
	a.newest = r.Snapshot
	a.mu.Unlock()
	a.save(b, r.Snapshot)
}

// save writes this member's part of a checkpoint in the background, and answers it.
func (a *Attempt) save(b *begun, s *weir.Snapshot) {
	a.work.Go(func() {
		if err := a.write(b, s); err != nil && !errors.Is(err, checkpoint.ErrSettled) {
			a.cfg.log("a snapshot could not be written", "checkpoint", s.Checkpoint, "error", err)
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
