package align

import (
	"errors"
	"fmt"

	"github.com/weirflow/weir/credit"
	"github.com/weirflow/weir/serde/event"
)

// Counting is the at-least-once counterpart of a Storing (Flink 1.5 to 1.8: BarrierTracker): nothing is blocked or
// stored, barriers and cancel markers go to a Tracker and are not handed out. Unlike Flink's it counts a channel once,
// however often it repeats a barrier, and a channel that ends counts.
type Counting struct {
	gate    StoredGate
	clock   func() Now
	task    relay
	tracker *Tracker
}

func newCounting(cfg StoringConfig) *Counting {
	c := &Counting{gate: cfg.Gate, clock: cfg.Clock, task: relay{noTask{}}}
	channels, _ := NewChannels(cfg.Gate.Channels())
	c.tracker = newTracker(Config{Mode: AtLeastOnce, Task: &c.task}, channels)
	return c
}

// Register sets the task.
func (c *Counting) Register(task Task) error {
	if c.task.Task != (noTask{}) {
		return fmt.Errorf("%w: a task is registered already", ErrState)
	}
	c.task.Task = task
	return nil
}

// Poll hands out the next buffer or event that is neither barrier nor marker.
func (c *Counting) Poll() (credit.Item, credit.Status, error) {
	for {
		it, st, err := c.gate.Poll()
		if st != credit.Ready || err != nil {
			return it, st, err
		}
		if it.Event == nil {
			c.tracker.AddBytes(it.Buf.Len())
			return it, st, nil
		}
		handOut := false
		if it.Type.BlocksUpstream() {
			err = c.gate.Resume(it.Channel)
		}
		if err == nil {
			switch e := it.Event; e.Kind {
			case event.CheckpointBarrier:
				err = c.tracker.Barrier(it.Channel, &e.Barrier, false, c.clock())
			case event.CancelCheckpoint:
				err = c.tracker.Cancel(it.Channel, e.CheckpointID, c.clock())
			case event.EndOfData:
				handOut, err = true, c.gate.AckAll(it.Channel)
			case event.EndOfPartition:
				handOut, err = true, c.tracker.EndOfPartition(it.Channel, c.clock())
			default:
				handOut = true
			}
		}
		if err != nil {
			return credit.Item{}, credit.None, err
		}
		if handOut {
			return it, st, nil
		}
	}
}

// Close does nothing: nothing is stored.
func (c *Counting) Close() error { return nil }

// relay is a task that can be set later.
type relay struct{ Task }

// noTask is nobody: what it is told is dropped.
type noTask struct{}

func (noTask) Init(*event.Barrier) error             { return nil }
func (noTask) Trigger(*event.Barrier, Metrics) error { return nil }
func (noTask) Abort(int64, *CheckpointError) error   { return nil }
func (noTask) Measured(int64, Metrics)               {}
func (noTask) Complete(int64)                        {}
func (noTask) Incomplete(int64, *CheckpointError)    {}

// errorsJoin keeps a single error as it is.
func errorsJoin(a, b error) error {
	if a == nil {
		return b
	}
	if b == nil {
		return a
	}
	return errors.Join(a, b)
}
