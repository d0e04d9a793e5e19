package weir

import (
	"errors"
	"time"

	"github.com/weirflow/weir/align"
)

// CheckpointInfo is a checkpoint as an input or a task sees it. It may be kept. Ack and Decline are for any goroutine; the first of
// them counts.
type CheckpointInfo struct {
	Barrier Barrier
	// Metrics are those of the alignment.
	Metrics align.Metrics
	// Cause is why it was aborted.
	Cause error

	in   *Input // nil: its task has none
	task *Task  // nil: its input has none

	// Guarded by the task's mu.
	state     []byte
	acked     bool
	inFlight  bool // data in flight belongs to it, and is not all here
	handles   [2][]align.StateHandle
	persisted int64
}

// TaskReport is what a task tells the coordinator of a checkpoint.
type TaskReport struct {
	Task       string
	Attempt    int
	Checkpoint int64
	// Snapshot is what the task's part is restored from; nil: the task declined, and Err says why.
	Snapshot *Snapshot
	Err      error
	Metrics  CheckpointMetrics
	// Finished: the task has come to its end, has reported all checkpoints that it took, and takes no more. Snapshot is what it is to
	// be restored from in all that follow, and in one that is under way and that it has not reported: the state of its last one, and nothing in flight, since its consumers
	// have processed everything. It is nil without LastCheckpoint: then there is none that holds.
	Finished bool
}

// CheckpointMetrics are the numbers of a checkpoint at one task.
type CheckpointMetrics struct {
	// Unaligned: it was so here, whether from the start or because its time was up.
	Unaligned bool
	// Alignment is the time from the first channel's barrier to the last one's, StartDelay that from the checkpoint's beginning to
	// the first.
	Alignment, StartDelay time.Duration
	// BytesDuringAlignment were handed out in that time; BytesPersisted were in flight, at both ends.
	BytesDuringAlignment, BytesPersisted int64
}

// ErrFinished is in the error of a Trigger for a task that has come to its end.
var ErrFinished = errors.New("the task has come to its end")

// ErrDeclined is the cause of a Decline that names none.
var ErrDeclined = errors.New("declined")

// Ack says that the snapshot was taken: state is the user's, several parts are joined. It is the task's from now on; without a task
// nobody gets it.
func (c *CheckpointInfo) Ack(state ...[]byte) {
	if c.in != nil {
		c.in.acked.Add(1)
	}
	t := c.task
	if t == nil {
		return
	}
	t.mu.Lock()
	mine := t.pending[c.Barrier.ID] == c && !c.acked
	if mine {
		c.acked = true
		if len(state) == 1 {
			c.state = state[0]
		} else {
			for _, p := range state {
				c.state = append(c.state, p...)
			}
		}
	}
	t.mu.Unlock()
	if mine {
		t.settle(c)
	}
}

// Decline says that the snapshot cannot be taken, and why. The coordinator is told; data goes on flowing.
func (c *CheckpointInfo) Decline(err error) {
	if err == nil {
		err = ErrDeclined
	}
	if t := c.task; t != nil && t.forget(c.Barrier.ID) {
		t.report(TaskReport{Checkpoint: c.Barrier.ID, Err: err})
	}
}

// await waits in the background until the data in flight is all written.
func (t *Task) await(c *CheckpointInfo, result *align.StateResult) {
	t.waits.Go(func() {
		in, out, err := result.Get()
		if err == nil {
			err = t.state.Err()
		}
		if err != nil {
			if t.forget(c.Barrier.ID) {
				t.report(TaskReport{Checkpoint: c.Barrier.ID, Err: err})
			}
			return
		}
		t.mu.Lock()
		c.inFlight = false
		c.handles = [2][]align.StateHandle{in, out}
		c.persisted = result.Bytes()
		t.mu.Unlock()
		t.settle(c)
	})
}

// measured: all barriers of an unaligned checkpoint are here.
func (t *Task) measured(id int64) {
	if t.input == nil {
		return
	}
	n := t.input.task.Running()
	t.mu.Lock()
	defer t.mu.Unlock()
	if c := t.pending[id]; c != nil && n.Barrier.ID == id {
		c.Metrics = n.Metrics
	}
}

// settle reports a checkpoint once nothing is missing.
func (t *Task) settle(c *CheckpointInfo) {
	t.reporting.Lock()
	defer t.reporting.Unlock()
	t.mu.Lock()
	id := c.Barrier.ID
	if t.pending[id] != c || !c.acked || c.inFlight {
		t.mu.Unlock()
		return
	}
	delete(t.pending, id)
	t.stats.Acknowledged++
	t.stats.Persisted += c.persisted
	if id >= t.finalID {
		t.final, t.finalID = c.state, id
	}
	s := t.snapshot(id, c.state)
	s.In, s.Out = c.handles[0], c.handles[1]
	m := CheckpointMetrics{
		Unaligned: c.Barrier.Options.IsUnaligned(), Alignment: time.Duration(c.Metrics.AlignmentNanos),
		StartDelay: time.Duration(c.Metrics.StartDelayNanos), BytesDuringAlignment: c.Metrics.AlignmentBytes, BytesPersisted: c.persisted,
	}
	t.mu.Unlock()
	t.report(TaskReport{Checkpoint: id, Snapshot: s, Metrics: m})
}

// snapshot is one with nothing in flight.
func (t *Task) snapshot(id int64, state []byte) *Snapshot {
	s := &Snapshot{Task: t.cfg.Name, Checkpoint: id, State: state}
	if t.input != nil {
		s.Inputs = []int32{int32(t.input.Channels())}
	}
	for _, o := range t.outputs {
		s.Outputs = append(s.Outputs, int32(o.cfg.Subpartitions))
	}
	return s
}

// forget drops a checkpoint that was not reported, and reports whether there was one.
func (t *Task) forget(id int64) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, was := t.pending[id]
	delete(t.pending, id)
	return was
}

// subsume drops what is older than a completed checkpoint: nobody wants it any more.
func (t *Task) subsume(id int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for old := range t.pending {
		if old < id {
			delete(t.pending, old)
		}
	}
}

func (t *Task) report(r TaskReport) {
	if t.closed.Load() {
		return
	}
	r.Task, r.Attempt = t.cfg.Name, t.cfg.Attempt
	if r.Snapshot == nil && !r.Finished {
		t.mu.Lock()
		t.stats.Declined++
		t.mu.Unlock()
	}
	if f := t.cfg.Report; f != nil {
		f(r)
	}
}
