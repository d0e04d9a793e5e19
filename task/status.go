package task

import (
	"strconv"

	"github.com/weirflow/weir/align"
	"github.com/weirflow/weir/serde/event"
)

// Status is what one call of Input.Next came to (Flink: DataInputStatus, with what the task is told of checkpoints).
type Status uint8

// The statuses.
const (
	// Nothing: nothing is here now, more may come.
	Nothing Status = iota
	// More: something was done that the operator does not see; go on at once. Processors say so, Next never does.
	More
	// Element: Input.Element is a record, or another stream element that concerns the operator.
	Element
	// WatermarkEvent: Input.Watermark is a generalized watermark, combined over all channels.
	WatermarkEvent
	// Checkpoint: the task takes Input.Notice's checkpoint now, before it calls Next again.
	Checkpoint
	// Completed: all in-flight data of an unaligned checkpoint is here; Input.Notice has the metrics.
	Completed
	// Aborted: the checkpoint of Input.Notice will not be taken, or not be completed.
	Aborted
	// EndOfRecovery: the senders of all channels have sent what they recovered.
	EndOfRecovery
	// EndOfData: all channels sent their end of data, and all drain. No record follows.
	EndOfData
	// Stopped: all channels sent their end of data, and some stop without draining. No record follows.
	Stopped
	// EndOfInput: every channel has ended. Further calls say so again.
	EndOfInput
)

var statusNames = [...]string{"NOTHING_AVAILABLE", "MORE_AVAILABLE", "ELEMENT", "WATERMARK_EVENT", "CHECKPOINT", "CHECKPOINT_COMPLETED",
	"CHECKPOINT_ABORTED", "END_OF_RECOVERY", "END_OF_DATA", "STOPPED", "END_OF_INPUT"}

// String is Flink's name where there is one.
func (s Status) String() string {
	if int(s) < len(statusNames) {
		return statusNames[s]
	}
	return "Status(" + strconv.Itoa(int(s)) + ")"
}

// Notice is what the task is told of a checkpoint.
type Notice struct {
	// Barrier is the checkpoint with the options that it has here; with Aborted, only its ID. Its Location belongs to the notice.
	Barrier event.Barrier
	// Metrics are the alignment's. Those of an unaligned checkpoint may not be Known at Checkpoint yet; they are at Completed.
	Metrics align.Metrics
	// Cause is why it was aborted.
	Cause *align.CheckpointError
	// Status is Checkpoint, Completed or Aborted.
	Status Status
}
