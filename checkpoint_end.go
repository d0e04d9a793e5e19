package weir

import (
	"context"

	"github.com/weirflow/weir/serde/event"
)

// EndOfData tells the consumers of the outputs that no record follows. Barriers still may. Finish says so, too, and for a task with
// an input the Next that follows its EndOfData element. The task's goroutine.
func (t *Task) EndOfData() error { return t.endOfData(true) }

func (t *Task) endOfData(drain bool) error {
	if t.ended {
		return nil
	}
	t.ended = true
	for _, o := range t.outputs {
		if err := o.endOfData(drain); err != nil {
			return err
		}
	}
	t.ending.EndOfData()
	return nil
}

// Finish ends the task's outputs: it sends the end of the data, waits until every consumer has processed all of it and, with
// LastCheckpoint, until a checkpoint that began since was completed; then it ends all subpartitions and waits until the
// consumers have let go of them. Meanwhile it takes the checkpoints that are triggered. Of a task with an input it is to be called after
// io.EOF, which comes when the last checkpoint was completed; of one without outputs, too. The error says who is missing when ctx ends.
func (t *Task) Finish(ctx context.Context) error {
	t.busy.begin()
	defer t.busy.end()
	if err := t.serve(); err != nil {
		return err
	}
	if err := t.EndOfData(); err != nil {
		return err
	}
	err := t.waitServing(ctx, func() bool {
		for _, o := range t.outputs {
			if !o.gone() && !o.out.Settled() {
				return false
			}
		}
		return t.ending.Done() && t.Stats().Pending == 0
	})
	if err != nil {
		return t.finishError(err)
	}
	for _, o := range t.outputs {
		if o.closed.Load() { // not all of it was processed
			return o.goneErr()
		}
	}
	t.reportFinished()
	for _, o := range t.outputs {
		if err := o.endPartition(); err != nil {
			return err
		}
	}
	for _, o := range t.outputs {
		if err := o.awaitGone(ctx); err != nil {
			return err
		}
	}
	return nil
}

// reportFinished tells, once, that there will be no more checkpoints. All that began were reported: what was in flight then is in no
// other snapshot. What was triggered and did not begin it answers, too: nothing is in flight any more.
func (t *Task) reportFinished() {
	t.reporting.Lock()
	defer t.reporting.Unlock()
	t.mu.Lock()
	was := t.finished
	t.finished = true
	var last *Snapshot
	if t.cfg.LastCheckpoint {
		last = t.snapshot(t.finalID, t.final)
	}
	t.mu.Unlock()
	if !was {
		t.report(TaskReport{Finished: true, Snapshot: last})
	}
}

// waitServing waits until done, and does what is posted meanwhile.
func (t *Task) waitServing(ctx context.Context, done func() bool) error {
	ready := t.busy.looks(func() bool { return t.closed.Load() || t.attention.Load() || done() })
	for {
		if err := t.busy.wait(ctx, t.node, ready, nil); err != nil {
			return err
		}
		if t.closed.Load() {
			return ErrClosed
		}
		if err := t.serve(); err != nil {
			return err
		}
		if done() {
			return nil
		}
	}
}

// finishError adds to err which consumers are missing.
func (t *Task) finishError(err error) error {
	for _, o := range t.outputs {
		if !o.gone() && !o.out.Settled() {
			return o.missing(err)
		}
	}
	return t.error(err)
}

// endOfData sends the end of the data.
func (o *Output) endOfData(drain bool) error {
	mode := event.NoDrain
	if drain {
		mode = event.Drain
	}
	return o.emit(&event.Event{Kind: event.EndOfData, StopMode: mode})
}
