package credit

import "errors"

// Sentinels for errors.Is: what a gate and its channels report to the task.
var (
	// ErrGateClosed: the gate was closed; a poll ends with it (CancelTaskException).
	ErrGateClosed = errors.New("gate closed")
	// ErrSubsumed: the channel has seen a newer checkpoint than the one that starts (CheckpointFailureReason.CHECKPOINT_SUBSUMED).
	ErrSubsumed = errors.New("checkpoint subsumed by a newer one")
	// ErrBlocked: the sender sent past its barrier. Ends the channel, if the gate's guard is GuardFail.
	ErrBlocked = errors.New("message on a blocked channel")
	// ErrBlockingBacklog: a blocking event with a backlog, which must be 0. Ends the channel.
	ErrBlockingBacklog = errors.New("blocking event with a backlog")
	// ErrTooManyEvents: more events wait for the task than the gate allows. Ends the channel.
	ErrTooManyEvents = errors.New("too many events in the queue")
	// ErrBadEvent: an event that cannot be decoded, or not where it may be. Ends the channel.
	ErrBadEvent = errors.New("unexpected event")
	// ErrNoDecompressor: a compressed buffer came and the gate cannot decompress.
	ErrNoDecompressor = errors.New("compressed buffer, but no decompressor")
	// ErrNotQueued: the event to be prioritized is not in the channel's queue, or is no barrier that may be.
	ErrNotQueued = errors.New("no such barrier in the queue")
	// ErrNewerBarrier: the barrier to be prioritized is not the channel's last one. With an ErrNotQueued.
	ErrNewerBarrier = errors.New("a newer barrier has come since")
)
