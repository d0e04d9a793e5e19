package task

import (
	"errors"
	"fmt"

	"github.com/weirflow/weir/align"
)

// ErrSavepointAborted says that the savepoint which a task was to stop with will not be.
var ErrSavepointAborted = errors.New("task: stop with savepoint failed")

// Ending decides when a task may end for good (Flink: StreamTask#afterInvoke). It may once its readers have processed everything
// and a last checkpoint was completed, since what its operators did at the end of the data is in no earlier one. Meanwhile its
// loop goes on to run mails, and so takes that checkpoint.
//
// It is a plain state machine and belongs to the task's goroutine. Numbers of checkpoints may come late, twice, or out of order.
//
// Done is for after the input has ended: a task that got no end of data before that, because it was cancelled, waits for nothing.
type Ending struct {
	waiting   []bool // partitions whose readers have not processed everything
	left      int
	enabled   bool
	endOfData bool
	final     int64 // the first checkpoint that began after the end of the data, none if there is none yet
	savepoint int64 // what the task is to stop with, none if with nothing
	completed bool
}

// none is no checkpoint; real ones have positive numbers.
const none = 0

// NewEnding makes the ending of a task with a number of partitions. lastCheckpoint false: the task waits for nothing when its data
// ends (execution.checkpointing.checkpoints-after-tasks-finish).
func NewEnding(partitions int, lastCheckpoint bool) *Ending {
	e := &Ending{waiting: make([]bool, partitions), left: partitions, enabled: lastCheckpoint}
	for i := range e.waiting {
		e.waiting[i] = true
	}
	return e
}

// EndOfData: the operators are finished.
func (e *Ending) EndOfData() { e.endOfData = true }

// Processed: all readers of a partition have processed everything. The error wraps align.ErrConfig: there is no such partition.
func (e *Ending) Processed(partition int) error {
	if uint(partition) >= uint(len(e.waiting)) {
		return fmt.Errorf("%w: partition %d of %d", align.ErrConfig, partition, len(e.waiting))
	}
	if e.waiting[partition] {
		e.waiting[partition] = false
		e.left--
	}
	return nil
}

// StopWith makes the task end with this savepoint. A second one is an error that wraps align.ErrState.
func (e *Ending) StopWith(savepoint int64) error {
	if e.savepoint != none && e.savepoint != savepoint {
		return fmt.Errorf("%w: savepoint %d while the task stops with %d", align.ErrState, savepoint, e.savepoint)
	}
	e.savepoint = savepoint
	return nil
}

// Started: the task takes this checkpoint.
func (e *Ending) Started(id int64) {
	if e.endOfData && e.final == none {
		e.final = id
	}
}

// Completed: all tasks have taken this checkpoint, and it is safe.
func (e *Ending) Completed(id int64) {
	if e.savepoint != none {
		e.completed = e.completed || id == e.savepoint
		return
	}
	e.completed = e.completed || e.final != none && id >= e.final
}

// Aborted: this checkpoint will not be. The error is ErrSavepointAborted if the task was to stop with it.
func (e *Ending) Aborted(id int64) error {
	if e.savepoint != none && id == e.savepoint && !e.completed {
		return fmt.Errorf("%w: savepoint %d", ErrSavepointAborted, id)
	}
	return nil
}

// Done reports whether the task, whose input has ended, has nothing left to wait for.
func (e *Ending) Done() bool {
	if e.savepoint != none && !e.completed {
		return false
	}
	return !e.endOfData || !e.enabled || e.left == 0 && e.completed
}
