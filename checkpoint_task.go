package weir

import (
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"

	"github.com/weirflow/weir/align"
	"github.com/weirflow/weir/task"
)

// TaskConfig configures a Task. Its functions run on the task's goroutine, within Next, Write, Flush, Finish or Poll, unless they say
// otherwise.
type TaskConfig struct {
	// Name names the task in reports, errors and snapshots. A snapshot of a task with another name is refused.
	Name string
	// Attempt is the attempt number of its outputs' partitions, and of those that its input asks for, where they come from a
	// name. A restarted job has a greater one, so that nobody of an attempt before it is taken for one of its own.
	Attempt int
	// Restore makes the task go on from a snapshot; nil: it begins anew. What was in flight comes first: the input hands it out
	// before it asks the senders for anything, the outputs send it before anything new. All tasks of a job restore the same
	// checkpoint, or none does: an output that was restored tells its consumers when all it recovered was sent, and waits until
	// all senders of a consumer have said so.
	Restore *Snapshot
	// OnCheckpoint is called when the task takes a checkpoint. It must come to Ack or Decline, at once or later, on any
	// goroutine. The state is what it is at this call: the barrier is in the outputs already, and the record that a Write is
	// about is behind it. Nil: an input hands out Checkpoint elements instead, and a task without an input has no state.
	OnCheckpoint func(cp *CheckpointInfo)
	// BeforeBarrier writes to the outputs what the task holds back and must not be behind the barrier. Nil: nothing. An error
	// declines the checkpoint, whose consumers get a marker instead of the barrier, and comes back from the method that it is
	// within. (prepareSnapshotPreBarrier)
	BeforeBarrier func(b Barrier) error
	// Report gets what came of each checkpoint that the task took or had to give up. Any goroutine; it must not wait. Nil: nobody
	// is told.
	Report func(TaskReport)
	// OnCompleted and OnAborted pass on what the coordinator said by Completed and Aborted. A sink commits in OnCompleted.
	OnCompleted func(checkpoint int64)
	OnAborted   func(checkpoint int64, cause error)
	// LastCheckpoint makes the end wait until a checkpoint was completed that began after the end of the data, since what the task did
	// last is in no earlier one. Flink: execution.checkpointing.checkpoints-after-tasks-finish.
	LastCheckpoint bool
	// MaxInFlight bounds what one checkpoint may hold of data in flight, in bytes: 0 means 256 MiB. A checkpoint that would need more is
	// declined. It does not count with a Store.
	MaxInFlight int64
	// Store keeps the data in flight, and a snapshot then only says where it is, and needs the store to be restored. Nil: it is in
	// the snapshot.
	Store align.StateStore
}

const defaultMaxInFlight = 256 << 20

// Task is what a checkpoint is taken of: an input or none, any number of outputs, and the user's state, all of one goroutine. It sends
// the barriers on, gathers what is in flight, and reports to a coordinator, which triggers checkpoints and says what becomes of them.
// An input and outputs join it by their configurations, the outputs in the same order in each attempt. (Flink: StreamTask with its
// SubtaskCheckpointCoordinatorImpl)
//
// Between an input and outputs of one task, barriers pass by themselves: Next has sent the barrier on when it hands out the
// Checkpoint element. Next hands out no record while one of the outputs has no room, so that an unaligned barrier need not wait for
// room either.
//
// Trigger, Completed, Aborted, Posted, Restored, Stats and Close are for any goroutine, the other methods for the task's.
type Task struct {
	node *Node
	cfg  TaskConfig

	input   *Input    // both change under mu, and only while the task is set up
	outputs []*Output //
	ended   bool      // the end of the data was told to the outputs
	inTurn  bool      // within serve

	injected Barrier // triggered last, for when the input has ended; no ID if none was
	final    []byte  // the user's state at the newest checkpoint that was acknowledged; guarded by mu
	finalID  int64   // and which one that was

	guard  *align.CheckpointGuard
	ending *task.Ending
	begun  bool // a checkpoint was begun at state
	exec   *align.StateExecutor
	state  *align.StateWriter
	run    sync.Once
	ran    chan struct{} // closed when the executor has ended; nil until it runs
	reader align.StateStore

	sleeper   atomic.Pointer[Input] // input, once it can be woken
	attention atomic.Bool           // something was posted
	posted    chan struct{}
	busy      occupancy   // its own, its input's and its outputs'
	closed    atomic.Bool // who waits goes
	closing   closeOnce
	waits     sync.WaitGroup // for channel state

	reporting sync.Mutex // held while a checkpoint is reported, so that the last report is the end's; taken before mu

	mu       sync.Mutex
	queue    []mail
	pending  map[int64]*CheckpointInfo // taken, and not reported
	finished bool                      // takes no checkpoint any more
	stats    TaskStats
}

// TaskStats is what a task did so far.
type TaskStats struct {
	// Taken checkpoints, those that were reported as such, and those that were declined or aborted.
	Taken, Acknowledged, Declined int64
	// Persisted is the size in bytes of all that was in flight at the acknowledged ones.
	Persisted int64
	// Pending checkpoints were taken and wait for the user's state or the data in flight.
	Pending int
}

// NewTask makes a task on the node. Close it after its input and outputs; the node's Close does so, too.
func (n *Node) NewTask(cfg TaskConfig) (*Task, error) {
	t := &Task{node: n, cfg: cfg, guard: align.NewCheckpointGuard(), ending: task.NewEnding(0, cfg.LastCheckpoint),
		posted: make(chan struct{}, 1), pending: map[int64]*CheckpointInfo{}}
	if cfg.Attempt < 0 || cfg.Attempt > math.MaxInt32 {
		return nil, t.error(fmt.Errorf("attempt %d", cfg.Attempt))
	}
	if s := cfg.Restore; s != nil && s.Task != cfg.Name {
		return nil, t.error(fmt.Errorf("%w: it is one of task %q", ErrSnapshot, s.Task))
	}
	store := cfg.Store
	if store == nil {
		limit := cfg.MaxInFlight
		if limit == 0 {
			limit = defaultMaxInFlight
		}
		store = &memoryState{DirStore: align.DirStore{MemoryThreshold: math.MaxInt}, limit: limit}
	}
	t.reader = store
	t.exec = align.NewStateExecutor(align.StateExecutorConfig{Store: store, Subtasks: 1})
	var err error
	if t.state, err = t.exec.Writer(0); err != nil {
		return nil, t.error(err)
	}
	if err := n.add(t); err != nil {
		return nil, t.error(err)
	}
	return t, nil
}

// Name is the task's name.
func (t *Task) Name() string { return t.cfg.Name }

// Restored is the snapshot that the task goes on from; nil if it began anew.
func (t *Task) Restored() *Snapshot { return t.cfg.Restore }

func (t *Task) error(err error) error { return fmt.Errorf("weir: task %q: %w", t.cfg.Name, err) }

// Stats returns what the task did so far.
func (t *Task) Stats() TaskStats {
	t.mu.Lock()
	defer t.mu.Unlock()
	st := t.stats
	st.Pending = len(t.pending)
	return st
}

// joinInput makes in the task's input.
func (t *Task) joinInput(in *Input) error {
	switch {
	case in.node != t.node:
		return t.error(errors.New("its input is of another node"))
	case t.input != nil:
		return t.error(errors.New("it has an input already; one input may have sources of several outputs"))
	case in.cfg.State != nil:
		return t.error(errors.New("InputConfig.State is the task's affair"))
	}
	if t.cfg.Attempt != 0 {
		in.cfg.Attempt = t.cfg.Attempt
	}
	in.cfg.State = t.state.GateSink(0)
	in.gated = len(t.outputs) > 0
	t.mu.Lock()
	t.input = in
	t.mu.Unlock()
	return nil
}

// leaveInput takes back joinInput: the input could not be opened.
func (t *Task) leaveInput() {
	t.mu.Lock()
	t.input = nil
	t.mu.Unlock()
	t.sleeper.Store(nil)
}

// parts are the input and the outputs, for any goroutine.
func (t *Task) parts() (*Input, []*Output) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.input, t.outputs
}

// joinOutput adds an output.
func (t *Task) joinOutput(o *Output) error {
	switch {
	case o.node != t.node:
		return t.error(errors.New("its output is of another node"))
	case o.cfg.State != nil:
		return t.error(errors.New("OutputConfig.State is the task's affair"))
	}
	t.mu.Lock()
	t.outputs = append(t.outputs, o)
	t.mu.Unlock()
	if t.input != nil {
		t.input.gated = true
	}
	return nil
}

// leaveOutput takes back the last joinOutput: the output could not be opened.
func (t *Task) leaveOutput() {
	t.mu.Lock()
	t.outputs = t.outputs[:len(t.outputs)-1]
	t.mu.Unlock()
}

// wake wakes the task where it waits for room. Any goroutine.
func (t *Task) wake() {
	if t == nil {
		return
	}
	if in := t.sleeper.Load(); in != nil {
		in.gate.Notifier().Wake()
	}
}

// Close ends the task: checkpoints that it has not reported will not be. Any goroutine, once
// its own one is not at work in it; it ends a Finish that waits.
func (t *Task) Close() error { return t.closing.do(t.close) }

func (t *Task) close() error {
	t.end()
	if err := t.busy.vacate(); err != nil {
		return t.error(err)
	}
	defer t.node.remove(t) // not before: who closes the node waits for this
	t.state.Close()
	t.run.Do(func() {})
	if t.ran != nil {
		<-t.ran
	}
	t.waits.Wait()
	return nil
}

// end is part of closer. Finish looks each millisecond.
func (t *Task) end() { t.closed.Store(true) }
