package align

import (
	"fmt"

	"github.com/weirflow/weir/serde/event"
)

// Now is a reading of the two clocks that a handler needs; it never reads a clock itself.
type Now struct {
	// Millis is wall-clock time in ms since 1970. It may jump; it is compared with a barrier's timestamp.
	Millis int64
	// Nanos is monotonic time in ns from any origin. It measures alignments.
	Nanos int64
}

// Input is one gate (or one chained source) as its handler sees it. Channels are numbered within the gate. All calls
// come from the task's goroutine, during a call of a handler's method, and are not to call the handler back.
// *credit.Gate is an Input.
type Input interface {
	// Block marks the channel: nothing behind the barrier just taken from it may be handed out before Resume. The
	// sender has blocked itself; this guards against one that has not.
	Block(channel int) error
	// Resume lets the channel, and its sender, go on. It is called once for each blocking barrier taken, and not for a
	// channel that has ended.
	Resume(channel int) error
	// Prioritize makes the queued barrier with this sequence number a priority event, which overtakes the data before it.
	Prioritize(channel int, seq int32) error
	// CheckpointStarted makes the channel hand over to the channel state what it holds, and what arrives up to the
	// checkpoint's barrier. A *CheckpointError gives the checkpoint up; any other error fails the task. The barrier is
	// valid during the call.
	CheckpointStarted(channel int, b *event.Barrier) error
	// CheckpointStopped ends that.
	CheckpointStopped(channel int, id int64) error
}

// Task takes checkpoints. All calls come from the task's goroutine, during a call of a handler's method. A barrier is
// valid during the call only. An error fails the handler's call, and with it the task.
type Task interface {
	// Init gets ready for a checkpoint that may have channel state; not called in aligned and at-least-once mode. With
	// unaligned options the task starts its StateWriter and hands over, before the channels do, the part of a record that
	// each channel's deserializer holds; Complete is then the time for FinishInput. With a timeout it starts the writer
	// and finishes the input at once; else there is nothing to do. Flink: initInputsCheckpoint.
	Init(b *event.Barrier) error
	// Trigger takes the checkpoint now, with the options that the barrier has here (unaligned when it turned so). A task must
	// ignore an id that is not newer than all it had: in at-least-once mode the last open channel may repeat one.
	// Flink: triggerCheckpointOnBarrier.
	Trigger(b *event.Barrier, m Metrics) error
	// Abort says that the checkpoint will not be taken, or not be completed when it was triggered. What channels handed over
	// for it, or still will, is to be dropped (StateWriter.Abort does both). Flink: abortCheckpointOnBarrier.
	Abort(id int64, cause *CheckpointError) error
	// Measured brings the numbers of a trigger whose Metrics were not Known.
	Measured(id int64, m Metrics)
	// Complete: all barriers of a triggered checkpoint are here, so its channel state is complete.
	// Flink: getAllBarriersReceivedFuture completes.
	Complete(id int64)
	// Incomplete: the triggered checkpoint was given up before that.
	Incomplete(id int64, cause *CheckpointError)
}

// Timers is the one timer that a handler needs: at most one is set. When it is due, the driver calls Handler.Timeout with
// the same id, on the task's goroutine and between two items, never from within a call of the handler.
type Timers interface {
	// Set starts the timer for a checkpoint; delay in ms, at least 0.
	Set(id int64, delay int64)
	// Cancel takes it back. A timer that fires all the same does nothing.
	Cancel(id int64)
}

// Handler sees the barriers and their kin of all channels of a task, in the order in which they are taken from the
// gates, and decides when the task takes a checkpoint and which channels may go on. Channels are flat numbers (see
// Channels). It belongs to the task's goroutine. An error that is returned fails the task; the handler stays as it was
// when the error came. Flink: CheckpointBarrierHandler.
type Handler interface {
	// Barrier: b was taken from the channel. With injected it did not come through the channel: the coordinator gave it to
	// the task, for a channel that has not ended; such a channel counts, but is not blocked.
	Barrier(channel int, b *event.Barrier, injected bool, now Now) error
	// Announcement: a barrier that may become unaligned waits in the channel's queue, under this sequence number.
	Announcement(channel int, b *event.Barrier, seq int32, now Now) error
	// Cancel: upstream gave the checkpoint up.
	Cancel(channel int, id int64, now Now) error
	// EndOfPartition: nothing follows on the channel.
	EndOfPartition(channel int, now Now) error
	// Timeout: the timer of checkpoint id is due.
	Timeout(id int64, now Now) error
	// AddBytes counts the bytes of a data buffer that was handed out.
	AddBytes(n int)
	// Latest is the id of the newest checkpoint that began, or -1.
	Latest() int64
	// Pending reports whether a checkpoint waits for barriers.
	Pending() bool
	// AllReceived says how far checkpoint id is. ErrNotStarted when it has not begun.
	AllReceived(id int64) (Progress, error)
	// AlignmentNanos is the age of the running alignment, or the length of the last one, in ns.
	AlignmentNanos(now Now) int64
	// StartDelayNanos is the time from the last checkpoint's beginning to its first barrier here, in ns.
	StartDelayNanos() int64
	// Close takes the timer back and gives up what is pending, without telling the task.
	Close()
}

// Progress says how far the barriers of a checkpoint are.
type Progress uint8

// The three kinds of progress.
const (
	// Waiting: barriers are missing.
	Waiting Progress = iota
	// Done: they are all here, or nothing is left that could bring one.
	Done
	// GivenUp: the checkpoint was aborted, or the handler closed.
	GivenUp
)

// String is the constant's name in lower case.
func (p Progress) String() string {
	switch p {
	case Waiting:
		return "waiting"
	case Done:
		return "done"
	case GivenUp:
		return "given up"
	}
	return fmt.Sprintf("Progress(%d)", uint8(p))
}

// Mode is the guarantee that a handler gives.
type Mode uint8

// The two modes of Flink's CheckpointingMode.
const (
	// ExactlyOnce: no record behind barrier n is processed before snapshot n, or it belongs to the snapshot.
	ExactlyOnce Mode = iota
	// AtLeastOnce: barriers are counted, nothing waits.
	AtLeastOnce
)

// String is Flink's name.
func (m Mode) String() string {
	switch m {
	case ExactlyOnce:
		return "EXACTLY_ONCE"
	case AtLeastOnce:
		return "AT_LEAST_ONCE"
	}
	return fmt.Sprintf("Mode(%d)", uint8(m))
}

// Unaligned says whether checkpoints may be unaligned.
type Unaligned uint8

// The ways to handle unaligned checkpoints.
const (
	// UnalignedOff: every barrier is aligned; an unaligned one is an error.
	UnalignedOff Unaligned = iota
	// UnalignedOn: unaligned barriers are taken as such, and aligned ones turn unaligned after their timeout. This is
	// Flink's alternating handler, which it uses whenever unaligned checkpoints are on.
	UnalignedOn
	// UnalignedAlways: every barrier is taken as unaligned. Flink has this handler and does not use it.
	UnalignedAlways
)

// Config is what New needs.
type Config struct {
	Mode      Mode
	Unaligned Unaligned
	// StopAtFirstEnd: when a channel ends, what is pending is aborted, and a channel that has ended is not waited for.
	// False is Flink's default (execution.checkpointing.checkpoints-after-tasks-finish = true): a channel that ends counts
	// as one whose barrier came.
	StopAtFirstEnd bool
	// StrictCancel: a cancel marker of the pending checkpoint aborts it even when only announcements of it have been seen.
	// Flink loses such a marker, and the checkpoint stays pending until a newer one begins; that is the default here, too.
	StrictCancel bool
	// KeepOlder: in at-least-once mode, checkpoints that the last open channel skips stay pending, as Flink leaves them. One
	// may then be taken after a newer one, and the channel's end may fail the task. It is there for comparisons with Flink;
	// the default is to drop them.
	KeepOlder bool
	// Inputs are the gates, in the order of their index; Counts their numbers of channels.
	Inputs []Input
	Counts []int
	Task   Task
	// Timers is needed with UnalignedOn only.
	Timers Timers
}

// New makes the handler that the configuration asks for (Flink: InputProcessorUtil.createCheckpointBarrierHandler).
// Errors wrap ErrConfig: an unknown mode, unaligned checkpoints with AtLeastOnce, a part that is missing.
func New(cfg Config) (Handler, error) {
	if len(cfg.Inputs) != len(cfg.Counts) {
		return nil, fmt.Errorf("%w: %d inputs, %d numbers of channels", ErrConfig, len(cfg.Inputs), len(cfg.Counts))
	}
	channels, err := NewChannels(cfg.Counts...)
	if err != nil {
		return nil, err
	}
	if cfg.Task == nil {
		return nil, fmt.Errorf("%w: no task", ErrConfig)
	}
	for g, in := range cfg.Inputs {
		if in == nil {
			return nil, fmt.Errorf("%w: input %d is nil", ErrConfig, g)
		}
	}
	if cfg.Unaligned > UnalignedAlways {
		return nil, fmt.Errorf("%w: unknown way to handle unaligned checkpoints: %d", ErrConfig, cfg.Unaligned)
	}
	switch cfg.Mode {
	case ExactlyOnce:
		if cfg.Unaligned == UnalignedOn && cfg.Timers == nil {
			return nil, fmt.Errorf("%w: aligned checkpoints that turn unaligned need a timer", ErrConfig)
		}
		return newAligner(cfg, channels), nil
	case AtLeastOnce:
		if cfg.Unaligned != UnalignedOff {
			return nil, fmt.Errorf("%w: cannot use unaligned checkpoints with AT_LEAST_ONCE checkpointing mode", ErrConfig)
		}
		return newTracker(cfg, channels), nil
	}
	return nil, fmt.Errorf("%w: unrecognized checkpointing mode: %v", ErrConfig, cfg.Mode)
}
