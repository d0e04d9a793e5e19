package align

import (
	"fmt"

	"github.com/weirflow/weir/credit"
	"github.com/weirflow/weir/serde/event"
)

// Gate is what a CheckpointedInput polls. *credit.Gate is one.
type Gate interface {
	Input
	// Channels is the number of channels.
	Channels() int
	// PollInto hands out the next item, PollPriority the next one if it is a priority event.
	PollInto(it *credit.Item) (credit.Status, error)
	PollPriority() (credit.Item, credit.Status, error)
	// HasPriority reports whether a priority event waits; it is cheap.
	HasPriority() bool
	// AckAll tells the sender of a channel that all its records were processed.
	AckAll(channel int) error
	// Ended reports whether a channel delivered its end of partition; Finished, whether all did.
	Ended(channel int) bool
	Finished() bool
	// EndOfData tells whether all channels delivered their end of data, and how.
	EndOfData() credit.EndOfDataStatus
}

// maxPriorityRound bounds the priority events of one ProcessPriority, so that a peer cannot keep a task from its records.
// What is left waits for the next call, and still goes before all data.
const maxPriorityRound = 1024

// CheckpointedInput joins one gate to the handler of its task: it polls the gate and shows the handler what passes
// (Flink: CheckpointedInputGate). A task with several inputs has one of them for each, all with the same handler. It
// belongs to the task's goroutine. Polling allocates nothing.
type CheckpointedInput struct {
	gate     Gate
	handler  Handler
	first    int // flat number of the gate's channel 0
	clock    func() Now
	recovery *RecoveryTracker
	finished bool
	item     credit.Item // Poll's
}

// NewCheckpointedInput makes the input for a gate whose channel 0 has the flat number first in the handler (see
// Channels.Flat). clock is read for events only. recovery is nil for a job whose graph has loops: it never waits for
// senders that recover.
func NewCheckpointedInput(gate Gate, handler Handler, first int, clock func() Now, recovery *RecoveryTracker) *CheckpointedInput {
	return &CheckpointedInput{gate: gate, handler: handler, first: first, clock: clock, recovery: recovery}
}

// Poll is PollInto for a caller that does not count copies of an item. The item is zero unless it is Ready.
func (in *CheckpointedInput) Poll() (credit.Item, credit.Status, error) {
	st, err := in.PollInto(&in.item)
	if st != credit.Ready {
		return credit.Item{}, st, err
	}
	return in.item, st, err
}

// PollInto hands out the gate's next item, after the handler has seen it. Events are handed out, too, barriers and
// announcements among them; the caller ignores those that mean nothing to it. The caller owns the buffer of a data item.
// An error ends the task.
func (in *CheckpointedInput) PollInto(it *credit.Item) (credit.Status, error) {
	st, err := in.gate.PollInto(it)
	if st != credit.Ready || err != nil {
		in.finished = in.finished || st == credit.End
		return st, err
	}
	if it.Event == nil {
		in.handler.AddBytes(it.Buf.Len())
		return credit.Ready, nil
	}
	if err := in.handle(it); err != nil {
		return credit.None, err
	}
	return credit.Ready, nil
}

// HasPriority reports whether ProcessPriority has something to do: one atomic load, to be asked before each record. A
// batch of records ends when it is true, so an unaligned barrier waits for one record at most.
func (in *CheckpointedInput) HasPriority() bool { return in.gate.HasPriority() }

// ProcessPriority handles the priority events that wait, before any data, and returns how many there were. The task
// calls it between two records and before each poll. (Flink: processPriorityEvents, run by an urgent mail)
func (in *CheckpointedInput) ProcessPriority() (int, error) {
	for n := range maxPriorityRound {
		it, st, err := in.gate.PollPriority()
		if st != credit.Ready || err != nil {
			return n, err
		}
		if !it.Type.HasPriority() || it.Event == nil {
			if it.Event == nil {
				it.Buf.Release()
			}
			return n, fmt.Errorf("%w: polled %v instead of a priority event", ErrState, it.Type)
		}
		if err := in.handle(&it); err != nil {
			return n, err
		}
	}
	return maxPriorityRound, nil
}

// handle shows an event to whom it concerns (handleEvent).
func (in *CheckpointedInput) handle(it *credit.Item) error {
	ch := in.first + it.Channel
	switch e := it.Event; e.Kind {
	case event.CheckpointBarrier:
		return in.handler.Barrier(ch, &e.Barrier, false, in.clock())
	case event.CancelCheckpoint:
		return in.handler.Cancel(ch, e.CheckpointID, in.clock())
	case event.EndOfData:
		return in.gate.AckAll(it.Channel)
	case event.EndOfPartition:
		return in.handler.EndOfPartition(ch, in.clock())
	case event.Announcement:
		if e.Announced == nil || e.Announced.Kind != event.CheckpointBarrier {
			return fmt.Errorf("%w: announcement of something else than a barrier on channel %d", ErrState, ch)
		}
		return in.handler.Announcement(ch, &e.Announced.Barrier, e.Seq, in.clock())
	case event.EndOfOutputChannelState:
		if in.recovery != nil {
			return in.recovery.EndOfRecovery(it.Channel)
		}
	}
	return nil
}

// Timeout hands the handler the timer of checkpoint id.
func (in *CheckpointedInput) Timeout(id int64) error { return in.handler.Timeout(id, in.clock()) }

// Handler is the handler of the task.
func (in *CheckpointedInput) Handler() Handler { return in.handler }

// Finished reports whether a poll has found that every channel delivered its end of partition.
func (in *CheckpointedInput) Finished() bool { return in.finished }

// EndOfData tells whether all channels delivered their end of data, and how.
func (in *CheckpointedInput) EndOfData() credit.EndOfDataStatus { return in.gate.EndOfData() }

// Recovered reports whether the senders of all channels have recovered; always true without a RecoveryTracker.
func (in *CheckpointedInput) Recovered() bool { return in.recovery == nil || in.recovery.Recovered() }

// Close closes the handler, which all inputs of a task share; the gate is its owner's to close.
func (in *CheckpointedInput) Close() { in.handler.Close() }

// Inject gives the coordinator's barrier to a task whose inputs get none, because all that is upstream of them has
// ended or will: every channel that has not ended counts as if the barrier had come through it, and none is blocked.
// When all have ended there is nothing to align, and the task is told to trigger at once. inputs are all inputs of the
// task. (Flink: StreamTask.triggerCheckpointAsync, triggerUnfinishedChannelsCheckpoint)
func Inject(b *event.Barrier, task Task, inputs ...*CheckpointedInput) error {
	finished := true
	for _, in := range inputs {
		finished = finished && in.gate.Finished()
	}
	if finished {
		if err := task.Init(b); err != nil {
			return err
		}
		if err := task.Trigger(b, Metrics{Known: true}); err != nil {
			return err
		}
		task.Complete(b.ID)
		return nil
	}
	for _, in := range inputs {
		for c := range in.gate.Channels() {
			if in.gate.Ended(c) {
				continue
			}
			if err := in.handler.Barrier(in.first+c, b, true, in.clock()); err != nil {
				return err
			}
		}
	}
	return nil
}
