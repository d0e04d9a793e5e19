package weir

import (
	"context"
	"io"

	"github.com/weirflow/weir/task"
)

// turn does what comes before the next element: a timer that is due, what was posted to the input's task, and the wait for room in
// the task's outputs.
func (in *Input) turn(ctx context.Context) error {
	err := in.timer.serve()
	t := in.cfg.Task
	if t == nil || err != nil {
		return err
	}
	if in.dataEnded && !t.ended {
		if err := t.endOfData(in.drained); err != nil {
			return err
		}
	}
	if err := t.serve(); err != nil {
		return err
	}
	if in.gated && !in.room() {
		if err := in.awaitRoom(ctx); err != nil {
			return err
		}
		if in.closed.Load() {
			return ErrClosed
		}
	}
	return nil
}

// room reports whether each of the task's outputs has room for a record, or nobody who reads it.
func (in *Input) room() bool {
	for _, o := range in.cfg.Task.outputs {
		if !o.closed.Load() && !o.pool.Available() && !o.gone() {
			return false
		}
	}
	return true
}

// awaitRoom waits until the task's outputs have room, or there is something to tell of a checkpoint, which needs none: a barrier that
// overtakes records here overtakes those in the outputs, too. (StreamTask#processInput, whose mailbox runs while the outputs are full)
func (in *Input) awaitRoom(ctx context.Context) error {
	t := in.cfg.Task
	for !in.room() && !in.closed.Load() {
		if err := in.task.ProcessPriority(); err != nil {
			return err
		}
		if in.task.Noticed() {
			return nil
		}
		for _, o := range t.outputs {
			if o.closed.Load() {
				continue
			}
			o.out.Publish()
			if !o.pool.Available() {
				o.w.Reclaim()
				o.out.Reclaim()
				o.waits.begin(o.fullest())
			}
		}
		err := in.await(ctx, in.unstuck)
		for _, o := range t.outputs {
			o.waits.end()
		}
		if err == nil && !in.closed.Load() {
			err = in.timer.serve()
		}
		if err == nil && !in.closed.Load() {
			err = t.serve()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// isUnstuck tells whether awaitRoom has something to do.
func (in *Input) isUnstuck() bool {
	if in.closed.Load() {
		return true
	}
	for _, o := range in.cfg.Task.outputs {
		if !o.closed.Load() {
			o.out.Publish()
		}
	}
	return in.room() || in.gate.HasPriority() || in.timer.isDue() || in.cfg.Task.wants()
}

// control turns what concerns the task rather than its data into elements. Nil: nothing to tell.
func (in *Input) control(ctx context.Context, st task.Status) (*Element, error) {
	e, t := &in.el, in.cfg.Task
	*e = Element{}
	n := in.task.Notice()
	switch st {
	case task.Checkpoint:
		in.aligned.Add(1)
		e.Kind = Checkpoint
		if t != nil {
			return in.taken(n)
		}
		e.Checkpoint = &CheckpointInfo{Barrier: n.Barrier, Metrics: n.Metrics, in: in}
	case task.Completed:
		if t != nil {
			return nil, nil // it reports by itself
		}
		e.Kind, e.Checkpoint = CheckpointComplete, &CheckpointInfo{Barrier: n.Barrier, Metrics: n.Metrics, in: in}
	case task.Aborted:
		in.aborted.Add(1)
		e.Kind, e.Checkpoint = CheckpointAborted, &CheckpointInfo{Barrier: n.Barrier, in: in}
		if n.Cause != nil {
			e.Checkpoint.Cause = n.Cause
		}
		if t != nil {
			return e, t.inputAborted(n.Barrier.ID, e.Checkpoint.Cause)
		}
	case task.EndOfRecovery:
		e.Kind = EndOfRecovery
	case task.EndOfData, task.Stopped:
		e.Kind, e.Drain = EndOfData, st == task.EndOfData
		in.dataEnded, in.drained = true, e.Drain
	case task.EndOfInput:
		if t != nil && t.injected.ID > t.guard.Last() { // nobody else brings its barrier
			return nil, in.task.Inject(&t.injected)
		}
		if t != nil && !t.ending.Done() { // the last checkpoint is not completed
			return nil, in.await(ctx, in.busy.looks(func() bool { return in.closed.Load() || t.wants() }))
		}
		return nil, io.EOF
	default:
		return nil, nil
	}
	return e, nil
}

// taken has the task take a checkpoint, and the user its snapshot: by the callback, or by the element.
func (in *Input) taken(n *task.Notice) (*Element, error) {
	t := in.cfg.Task
	info, err := t.take(n.Barrier, n.Metrics)
	switch {
	case info == nil || err != nil:
		return nil, err
	case t.cfg.OnCheckpoint != nil:
		t.busy.call(func() { t.cfg.OnCheckpoint(info) })
		return nil, nil
	}
	in.el.Checkpoint = info
	return &in.el, nil
}
