package pipeline

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"sync"
	"sync/atomic"

	"github.com/weirflow/weir"
	"github.com/weirflow/weir/checkpoint"
)

// The parts of a member's snapshot.
const (
	taskPart = "task"
	sinkPart = "sink"
)

// Attempt is one attempt of the pipeline at this process. Its methods belong to the function's goroutine, which is also the task's.
type Attempt struct {
	cfg    *Config
	epoch  *checkpoint.Epoch
	sink   *checkpoint.Transactions // nil: none
	ctx    context.Context          // ends with the attempt
	cancel context.CancelCauseFunc

	snapshot *weir.Snapshot // restored; nil: none
	task     *weir.Task
	state    func() ([]byte, error)
	finished bool // Finish was successful

	completed atomic.Int64  // checkpoints
	last      chan struct{} // closed when the last one is committed
	work      sync.WaitGroup

	mu       sync.Mutex
	begun    map[int64]*begun // taken, and not reported; guarded by mu, like all below
	answered map[int64]bool   // checkpoints that are being answered, or were
	newest   *weir.Snapshot   // that the task reported last
}

// begun is a checkpoint that the task has taken and not reported.
type begun struct {
	snapshot *checkpoint.Snapshot
	sink     []byte
}

func newAttempt(cfg *Config, e *checkpoint.Epoch) *Attempt {
	a := &Attempt{cfg: cfg, epoch: e, last: make(chan struct{}), begun: map[int64]*begun{}, answered: map[int64]bool{}}
	if cfg.Sink != nil {
		a.sink = checkpoint.NewTransactions(cfg.Sink)
	}
	return a
}

// Number is the attempt's number, from 1.
func (a *Attempt) Number() int { return int(a.epoch.Number()) }

// Restored is the id of the checkpoint that the attempt goes on from; 0: from the beginning.
func (a *Attempt) Restored() int64 { return a.epoch.Restored().ID() }

// State is what the function of NewTask returned at the restored checkpoint; nil if the attempt begins from the beginning.
func (a *Attempt) State() []byte {
	if a.snapshot == nil {
		return nil
	}
	return a.snapshot.State
}

// run is the attempt, from its beginning to its end.
func (a *Attempt) run(ctx context.Context, f func(context.Context, *Attempt) error) (err error) {
	a.ctx, a.cancel = context.WithCancelCause(ctx)
	stop := context.AfterFunc(a.epoch.Context(), func() { a.cancel(context.Cause(a.epoch.Context())) })
	defer func() {
		stop()
		a.cancel(context.Canceled)
		a.work.Wait()
	}()
	if err := a.restore(); err != nil {
		a.epoch.Fail(err)
		return err
	}
	if a.epoch.Finished() {
		return a.epoch.Finish(a.ctx)
	}
	err = f(a.ctx, a)
	if err == nil && !a.finished {
		err = Permanent(fmt.Errorf("pipeline: member %s: %w", a.cfg.Member.Name, ErrEarly))
	}
	if err == nil {
		err = a.epoch.Finish(a.ctx)
	}
	if err != nil {
		a.epoch.Fail(err)
		if cause := context.Cause(a.ctx); cause != nil && ctx.Err() == nil {
			err = cause // what the function saw is what came of it
		}
	}
	return err
}

// restore reads back what the checkpoint has of this member, and commits what it says is to be committed.
func (a *Attempt) restore() error {
	r := a.epoch.Restored()
	var sink []byte
	if r != nil {
		p, err := r.Get(a.ctx, taskPart, a.cfg.MaxSnapshot)
		if err != nil {
			return err
		}
		if a.snapshot, err = weir.ReadSnapshot(p); err != nil {
			return err
		}
		if sink, err = r.Get(a.ctx, sinkPart, a.cfg.MaxSnapshot); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if a.sink == nil {
		return nil
	}
	return a.sink.Restore(a.ctx, a.epoch.Number(), r.ID(), sink)
}

// NewTask makes the task of this process on a node. state returns the user's state whenever a checkpoint is taken, on the task's
// goroutine; what it returns is the task's from then on; nil: there is none. Name, Attempt, Restore, OnCheckpoint, Report, OnCompleted
// and LastCheckpoint of cfg are set here.
func (a *Attempt) NewTask(node *weir.Node, cfg weir.TaskConfig, state func() ([]byte, error)) (*weir.Task, error) {
	if a.task != nil {
		return nil, fmt.Errorf("pipeline: member %s has its task already", a.cfg.Member.Name)
	}
	cfg.Name, cfg.Attempt, cfg.Restore, cfg.LastCheckpoint = a.cfg.Member.Name, a.Number(), a.snapshot, true
	cfg.OnCheckpoint, cfg.Report = a.take, a.report
	t, err := node.NewTask(cfg)
	if err != nil {
		return nil, err
	}
	a.task, a.state = t, state
	return t, nil
}

// Serve lets the coordinator's triggers through to the task: call it when the task's input and outputs are there.
func (a *Attempt) Serve() {
	a.work.Go(func() {
		for {
			ev, err := a.epoch.Next(a.ctx)
			if err == nil {
				err = a.event(&ev)
			}
			if err != nil {
				a.fail(err)
				return
			}
		}
	})
}

// All is Input.All for the input of the attempt's task; the end of its data is told to the coordinator.
func (a *Attempt) All(ctx context.Context, in *weir.Input) iter.Seq2[*weir.Element, error] {
	return func(yield func(*weir.Element, error) bool) {
		for e, err := range in.All(ctx) {
			if err == nil && e.Kind == weir.EndOfData {
				a.epoch.EndOfData()
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

// Finish ends the task: of a source when it has written all, of the others when All has come to its end. It returns when the last
// checkpoint is completed and committed.
func (a *Attempt) Finish(ctx context.Context) error {
	if err := a.task.EndOfData(); err != nil {
		return err
	}
	a.epoch.EndOfData()
	if err := a.task.Finish(ctx); err != nil {
		return err
	}
	select {
	case <-a.last:
		a.finished = true
		return nil
	case <-a.ctx.Done():
		return context.Cause(a.ctx)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// stops is the error that ends Run after an attempt that ended with err; nil: there is another attempt.
func (a *Attempt) stops(ctx context.Context, err error) error {
	var p permanent
	switch {
	case errors.As(err, &p):
		return p.error
	case ctx.Err() != nil, errors.Is(err, checkpoint.ErrCommittedBeyond): // no attempt takes back what was committed
		return err
	}
	return nil // what is final for the member, the next Join says
}

// progress tells whether a checkpoint was completed.
func (a *Attempt) progress() bool { return a.completed.Load() > 0 }
