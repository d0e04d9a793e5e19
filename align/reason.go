package align

import (
	"errors"
	"fmt"

	"github.com/weirflow/weir/credit"
)

// Reason says why a checkpoint will not be taken. The names are those of Flink's CheckpointFailureReason.
type Reason uint8

// The reasons that this package reports itself, or passes on from the channels.
const (
	// ReasonSubsumed: a newer barrier or announcement came while the checkpoint was pending.
	ReasonSubsumed Reason = iota + 1
	// ReasonCancelled: upstream gave the checkpoint up and sent a cancel marker.
	ReasonCancelled
	// ReasonEndOfStream: a channel ended while the checkpoint was pending, and checkpoints end with the first input.
	ReasonEndOfStream
	// ReasonNewerSeen: a channel that should start the checkpoint has seen the barrier of a newer one already.
	ReasonNewerSeen
	// ReasonNotReady: the task is still recovering.
	ReasonNotReady
	// ReasonIO: reading or writing channel state failed.
	ReasonIO
	// ReasonSharedStream: another subtask that writes to the same channel-state file failed.
	ReasonSharedStream
	// ReasonAlignmentLimit: the blocked channels sent more than the limit allows to be stored (blocking by storing only).
	ReasonAlignmentLimit
)

var reasonNames = [...]string{
	ReasonSubsumed:       "CHECKPOINT_DECLINED_SUBSUMED",
	ReasonCancelled:      "CHECKPOINT_DECLINED_ON_CANCELLATION_BARRIER",
	ReasonEndOfStream:    "CHECKPOINT_DECLINED_INPUT_END_OF_STREAM",
	ReasonNewerSeen:      "CHECKPOINT_SUBSUMED",
	ReasonNotReady:       "CHECKPOINT_DECLINED_TASK_NOT_READY",
	ReasonIO:             "IO_EXCEPTION",
	ReasonSharedStream:   "CHANNEL_STATE_SHARED_STREAM_EXCEPTION",
	ReasonAlignmentLimit: "CHECKPOINT_DECLINED_ALIGNMENT_LIMIT_EXCEEDED",
}

// String is the name of Flink's constant, or Reason(n) for a value that is none.
func (r Reason) String() string {
	if r > 0 && int(r) < len(reasonNames) {
		return reasonNames[r]
	}
	return fmt.Sprintf("Reason(%d)", uint8(r))
}

// CheckpointError says that one checkpoint will not be taken, and why. It concerns the checkpoint only: data goes on
// flowing. An Input that refuses a checkpoint returns one (also wrapped) from CheckpointStarted; any other error of an
// Input fails the task. It stands for Flink's CheckpointException.
type CheckpointError struct {
	Reason Reason
	// Newer is the checkpoint that subsumed this one; 0 when the reason is another.
	Newer int64
	// Limit is the limit in bytes that was exceeded; 0 when the reason is another.
	Limit int64
	// Err is the cause beneath, or nil.
	Err error
}

// Error names the reason, what belongs to it, and the cause.
func (e *CheckpointError) Error() string {
	s := "align: " + e.Reason.String()
	if e.Newer != 0 {
		s += fmt.Sprintf(" by checkpoint %d", e.Newer)
	}
	if e.Limit != 0 {
		s += fmt.Sprintf(": more than %d bytes would have to be stored", e.Limit)
	}
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Unwrap gives the cause, for errors.Is and errors.As.
func (e *CheckpointError) Unwrap() error { return e.Err }

// Is reports whether target is a *CheckpointError with the same reason and, where target names them, the same numbers.
func (e *CheckpointError) Is(target error) bool {
	t, ok := target.(*CheckpointError)
	return ok && t.Reason == e.Reason && (t.Newer == 0 || t.Newer == e.Newer) && (t.Limit == 0 || t.Limit == e.Limit)
}

// refusal is the cause for which a checkpoint is given up although the data flows on, or nil if err is something else.
// A channel that knows a newer checkpoint says so with credit.ErrSubsumed.
func refusal(err error) *CheckpointError {
	if err == nil {
		return nil
	}
	if e := (*CheckpointError)(nil); errors.As(err, &e) {
		return e
	}
	if errors.Is(err, credit.ErrSubsumed) {
		return &CheckpointError{Reason: ReasonNewerSeen, Err: err}
	}
	return nil
}

// Errors of this package, for errors.Is. They fail the task that the handler belongs to.
var (
	// ErrState: something came that cannot come in this state, such as an unaligned barrier in aligned mode.
	ErrState = errors.New("align: illegal state")
	// ErrNotStarted: the checkpoint asked for has not begun.
	ErrNotStarted = errors.New("align: checkpoint has not been started at all")
	// ErrConfig: the configuration contradicts itself.
	ErrConfig = errors.New("align: illegal configuration")
	// ErrUnknownChannel: a channel number, or a pair of gate and channel, that the layout does not have.
	ErrUnknownChannel = errors.New("align: unknown channel")
	// ErrCannotUnalign: the barrier's options do not allow it to become unaligned.
	ErrCannotUnalign = errors.New("align: barrier cannot become unaligned")
)
