package task

import (
	"bytes"
	"errors"

	"github.com/weirflow/weir/align"
	"github.com/weirflow/weir/credit"
	"github.com/weirflow/weir/serde"
	"github.com/weirflow/weir/serde/event"
)

// StateWriter hears when an unaligned checkpoint begins and ends to gather what is in flight in a task's inputs.
// *align.StateWriter is one; its GateSinks get the data.
type StateWriter interface {
	// Start begins a checkpoint, before anything of it is handed over.
	Start(id int64, o event.Options) error
	// FinishInput says that all input data of the checkpoint was handed over.
	FinishInput(id int64) error
	// Abort gives the checkpoint up.
	Abort(id int64, cause error, forget bool) error
}

var (
	_ StateWriter = (*align.StateWriter)(nil)
	_ align.Task  = (*checkpoints)(nil)
)

// promoter is a gate as the aligner sees it. A barrier that is to overtake when a newer one has come behind it gives its checkpoint
// up: Flink, which takes one unaligned checkpoint at a time, fails the task.
type promoter struct{ align.Gate }

// Prioritize is part of align.Input.
func (p promoter) Prioritize(ch int, seq int32) error {
	err := p.Gate.Prioritize(ch, seq)
	if errors.Is(err, credit.ErrNewerBarrier) {
		return &align.CheckpointError{Reason: align.ReasonNewerSeen, Err: err}
	}
	return err
}

// checkpoints is a task as its aligner sees it: it turns what the aligner says into notices, which the inputs hand out
// before anything that came later. All inputs of a task share one.
type checkpoints struct {
	inputs  []*Input
	handler align.Handler
	state   StateWriter
	notices []Notice
	notice  Notice
	guard   *align.CheckpointGuard
	open    Notice // the checkpoint, triggered, some of whose barriers are missing; its ID is -1 if there is none

	unaligned align.Unaligned
}

func newCheckpoints(state StateWriter, unaligned align.Unaligned) *checkpoints {
	c := &checkpoints{state: state, unaligned: unaligned, guard: align.NewCheckpointGuard()}
	c.close()
	return c
}

func (c *checkpoints) close() { c.open = Notice{Barrier: event.Barrier{ID: -1}} }

// tell adds a notice. No input may take its short path past it.
func (c *checkpoints) tell(n Notice) {
	c.notices = append(c.notices, n)
	for _, in := range c.inputs {
		in.fast = nil
	}
}

func (c *checkpoints) take() Status {
	c.notice = c.notices[0]
	n := copy(c.notices, c.notices[1:])
	c.notices[n] = Notice{}
	c.notices = c.notices[:n]
	return c.notice.Status
}

// processPriority handles the priority events of all inputs.
func (c *checkpoints) processPriority() error {
	for _, in := range c.inputs {
		if err := in.ProcessPriority(); err != nil {
			return err
		}
	}
	return nil
}

// Init is part of align.Task. It hands over what the deserializers hold; what waits in the gates' queues, the gates do.
func (c *checkpoints) Init(b *event.Barrier) error {
	if !b.Options.NeedsChannelState() {
		return nil
	}
	for _, in := range c.inputs {
		if in.rescaling != nil {
			return &align.CheckpointError{Reason: align.ReasonNotReady}
		}
	}
	err := c.start(b)
	switch {
	case err != nil:
	case b.Options.IsUnaligned():
		for _, in := range c.inputs {
			if err = in.storeUnconsumed(b.ID); err != nil {
				break
			}
		}
	case c.state != nil: // aligned within its time after all: nothing is in flight here
		err = c.state.FinishInput(b.ID)
	}
	if err != nil {
		return &align.CheckpointError{Reason: align.ReasonIO, Err: err}
	}
	return nil
}

func (c *checkpoints) start(b *event.Barrier) error {
	if c.state == nil {
		return nil
	}
	return c.state.Start(b.ID, b.Options)
}

// unknownSeq is the sequence number of data that came in several buffers (ChannelStateWriter#SEQUENCE_NUMBER_UNKNOWN).
const unknownSeq = -1

// storeUnconsumed hands over the bytes that each channel's deserializer took in and did not hand out.
// (StreamTaskNetworkInput#prepareSnapshot)
func (in *Input) storeUnconsumed(id int64) error {
	if in.sink == nil {
		return nil
	}
	for ch, d := range in.channels {
		if d == nil {
			continue
		}
		rest, err := d.Unconsumed()
		if err != nil {
			return err
		}
		if err := handOver(in.sink, id, ch, &rest); err != nil {
			return err
		}
	}
	return nil
}

func handOver(sink credit.InputSink, id int64, ch int, rest *serde.Unconsumed) error {
	defer rest.Close()
	for {
		b, ok, err := rest.Next()
		if !ok || err != nil {
			return err
		}
		if b.Len() > 0 {
			sink.InputData(id, ch, unknownSeq, b)
		}
		b.Release()
	}
}

// Trigger is part of align.Task. In at-least-once mode the last open channel may repeat a checkpoint: the guard against it is
// here. What was forced to align on the edge it came by is free again to overtake on the edges behind, and so may have channel
// state after all. (SubtaskCheckpointCoordinatorImpl#checkpointState)
func (c *checkpoints) Trigger(b *event.Barrier, m align.Metrics) error {
	free, verdict := c.guard.Trigger(*b)
	switch verdict {
	case align.OutOfOrder:
		return nil
	case align.AlreadyAborted:
		return c.giveUp(b.ID, &align.CheckpointError{Reason: align.ReasonCancelled, Err: errAbortedAhead})
	}
	if c.unaligned == align.UnalignedOff {
		free = *b
	} else if free.Options.NeedsChannelState() && !b.Options.NeedsChannelState() {
		if err := c.Init(&free); err != nil {
			return err
		}
	}
	n := Notice{Barrier: free, Metrics: m, Status: Checkpoint}
	n.Barrier.Options.Location = bytes.Clone(b.Options.Location)
	c.tell(n)
	if c.unaligned != align.UnalignedOff {
		n.Status = Completed
		c.open = n
	}
	return nil
}

// errAbortedAhead is why a checkpoint is not taken that the coordinator gave up before its barriers came.
var errAbortedAhead = errors.New("task: the coordinator gave the checkpoint up before its barriers came")

// CheckpointAborted tells the task's inputs that the coordinator gave a checkpoint up, which is not the end of any other. If its
// barriers are still to come, they make an Aborted instead of a Checkpoint then, for the outputs to be told; what was handed
// over for one that is on its way is the user's to drop. It reports whether they are still to come.
// (SubtaskCheckpointCoordinatorImpl#notifyCheckpointAborted)
func (in *Input) CheckpointAborted(id int64) (ahead bool) { return in.cp.guard.Aborted(id) }

// Abort is part of align.Task.
func (c *checkpoints) Abort(id int64, cause *align.CheckpointError) error {
	c.guard.Abort(id)
	return c.giveUp(id, cause)
}

func (c *checkpoints) giveUp(id int64, cause *align.CheckpointError) error {
	c.tell(Notice{Barrier: event.Barrier{ID: id}, Cause: cause, Status: Aborted})
	if c.open.Barrier.ID == id {
		c.close()
	}
	if c.state == nil {
		return nil
	}
	return c.state.Abort(id, cause, true)
}

// Measured is part of align.Task.
func (c *checkpoints) Measured(id int64, m align.Metrics) {
	if c.open.Barrier.ID == id {
		c.open.Metrics = m
	}
}

// Complete is part of align.Task. That the writer has stopped, its result tells.
func (c *checkpoints) Complete(id int64) {
	if c.open.Barrier.ID != id {
		return
	}
	if c.state != nil && c.open.Barrier.Options.IsUnaligned() {
		_ = c.state.FinishInput(id)
	}
	c.tell(c.open)
	c.close()
}

// Incomplete is part of align.Task.
func (c *checkpoints) Incomplete(id int64, cause *align.CheckpointError) {
	if c.open.Barrier.ID != id {
		return
	}
	c.close()
	if c.state != nil {
		_ = c.state.Abort(id, cause, true)
	}
}
