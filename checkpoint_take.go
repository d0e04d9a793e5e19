package weir

import (
	"errors"
	"sync/atomic"

	"github.com/weirflow/weir/align"
	"github.com/weirflow/weir/serde/event"
)

// stateOf is where the input's aligner says when data in flight begins to be gathered, and when it is all there. (task.StateWriter)
type stateOf struct{ t *Task }

// Start is part of task.StateWriter.
func (s stateOf) Start(id int64, o event.Options) error {
	t := s.t
	t.begun = true
	t.run.Do(func() {
		t.ran = make(chan struct{})
		go func() {
			defer close(t.ran)
			_ = t.exec.Run() // its error is in what it failed to write
		}()
	})
	return t.state.Start(id, o)
}

// FinishInput is part of task.StateWriter.
func (s stateOf) FinishInput(id int64) error {
	s.t.measured(id)
	return s.t.state.FinishInput(id)
}

// Abort is part of task.StateWriter.
func (s stateOf) Abort(id int64, cause error, forget bool) error {
	if !s.t.begun {
		return nil // nothing was ever gathered
	}
	return s.t.state.Abort(id, cause, forget)
}

// take begins a checkpoint and sends its barrier on. No info: there is nothing to take. (checkpointState)
func (t *Task) take(b Barrier, m align.Metrics) (*CheckpointInfo, error) {
	b, verdict := t.guard.Trigger(b)
	switch verdict {
	case align.OutOfOrder: // it was triggered twice, or late
		return nil, nil
	case align.AlreadyAborted:
		if b.Options.NeedsChannelState() {
			_ = stateOf{t}.Abort(b.ID, errTaskAborted, true)
		}
		return nil, t.cancel(b.ID)
	}
	t.ending.Started(b.ID)
	info := &CheckpointInfo{Barrier: b, Metrics: m, in: t.input, task: t}
	if f := t.cfg.BeforeBarrier; f != nil {
		var err error
		if t.busy.call(func() { err = f(b) }); err == nil && t.closed.Load() {
			return nil, t.error(ErrClosed)
		}
		if err != nil {
			return nil, t.failed(b.ID, err)
		}
	}
	finished := func() {}
	if b.Options.NeedsChannelState() {
		result, err := t.gather(&b)
		if err != nil {
			return nil, t.failed(b.ID, err)
		}
		info.inFlight = true
		defer t.await(info, result) // when it is pending
		var left atomic.Int64
		left.Store(int64(len(t.outputs)))
		finished = func() { // on the loop, by the last output whose subpartitions have the barrier
			if left.Add(-1) == 0 {
				t.note(t.state.FinishOutput(b.ID))
			}
		}
		if len(t.outputs) == 0 {
			t.note(t.state.FinishOutput(b.ID))
		}
	}
	t.mu.Lock()
	t.stats.Taken++
	t.pending[b.ID] = info
	t.mu.Unlock()
	for _, o := range t.outputs {
		if err := o.emitBarrier(b, finished); err != nil {
			return nil, err
		}
	}
	return info, nil
}

// gather begins to gather what is in flight, if the input has not begun yet, and returns where that will be.
func (t *Task) gather(b *Barrier) (*align.StateResult, error) {
	if r, err := t.state.Result(b.ID); err == nil {
		return r, nil // the input has begun it, and perhaps the next one since
	}
	// There is no input, or it had to align.
	if err := (stateOf{t}).Start(b.ID, b.Options); err != nil {
		return nil, err
	}
	if err := t.state.FinishInput(b.ID); err != nil {
		return nil, err
	}
	return t.state.Result(b.ID)
}

// note keeps an error of the channel state's writer, which fails the checkpoint by itself, too.
func (t *Task) note(err error) {
	if err != nil && !errors.Is(err, align.ErrNotRunning) {
		t.node.warn("channel state", t.error(err))
	}
}

// inputAborted passes on that the input gave a checkpoint up. (abortCheckpointOnBarrier)
func (t *Task) inputAborted(id int64, cause error) error {
	t.guard.Abort(id)
	return t.giveUp(id, cause)
}

// failed gives up a checkpoint that failed before its barrier was sent, and returns the task's error. The markers leave at once, since
// a task with an error may do nothing more, and those behind it hold back what follows the barriers of its siblings.
func (t *Task) failed(id int64, err error) error {
	err = errors.Join(t.error(err), t.giveUp(id, err))
	for _, o := range t.outputs {
		o.flushNow()
	}
	return err
}

// giveUp declines a checkpoint whose barrier was not sent, and tells those behind the outputs.
func (t *Task) giveUp(id int64, cause error) error {
	t.drop(id, cause)
	t.report(TaskReport{Checkpoint: id, Err: cause})
	return t.cancel(id)
}

// drop forgets what the task holds for a checkpoint.
func (t *Task) drop(id int64, cause error) {
	t.forget(id)
	_ = stateOf{t}.Abort(id, cause, true) // a writer that has stopped holds nothing
	for _, o := range t.outputs {
		o.AbortCheckpoint(id, cause)
	}
}

// cancel tells the tasks behind the outputs that there will be no barrier of the checkpoint.
func (t *Task) cancel(id int64) error {
	for _, o := range t.outputs {
		if o.closed.Load() {
			continue
		}
		if err := o.emit(&event.Event{Kind: event.CancelCheckpoint, CheckpointID: id}); err != nil {
			return err
		}
	}
	return nil
}

// emitBarrier sends a barrier behind all that was written, or past it. taken is called on the loop, once the barrier is in the
// subpartitions' queues and what it overtook was handed over.
func (o *Output) emitBarrier(b Barrier, taken func()) error {
	if o.closed.Load() { // nobody reads it, and nothing of it is in flight
		if taken != nil {
			taken()
		}
		return nil
	}
	if err := o.emit(&event.Event{Kind: event.CheckpointBarrier, Barrier: b}); err != nil {
		return err
	}
	o.limitAlignment(&b)
	if taken != nil && !o.out.Then(taken) {
		taken() // nobody reads any more, and nothing is in flight
	}
	return nil
}

// AbortCheckpoint says that a checkpoint was given up: what OutputConfig.State was promised for it does not come. Its barriers stay
// where they are. Any goroutine.
func (o *Output) AbortCheckpoint(id int64, cause error) {
	o.node.loop.Post(func() {
		if !o.closed.Load() {
			o.part.AbortCheckpoint(id, cause)
		}
	})
}
