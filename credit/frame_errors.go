package credit

import (
	"errors"
	"fmt"
)

// Sentinels for errors.Is: the wire. All of these end the connection (they come wrapped in a *FrameError).
var (
	// ErrBadMagic: a frame does not begin with the magic number; the peer speaks something else, or the stream lost its framing.
	ErrBadMagic = errors.New("bad magic number")
	// ErrFrameLength: the length of a frame does not fit its message.
	ErrFrameLength = errors.New("wrong frame length")
	// ErrUnknownMessage: no such message, or not in this direction.
	ErrUnknownMessage = errors.New("unknown message")
	// ErrDataType: a buffer with an undefined data type (or one that the peer's release does not have).
	ErrDataType = errors.New("undefined data type")
	// ErrPayloadSize: a payload that is larger than a buffer, an event without bytes, or a negative size.
	ErrPayloadSize = errors.New("payload size out of range")
	// ErrPartialSizes: the sizes of partial buffers are too many, negative, or do not sum up to the payload's.
	ErrPartialSizes = errors.New("wrong partial buffer sizes")
	// ErrTooLarge: a frame is larger than the limit for its kind.
	ErrTooLarge = errors.New("frame exceeds limit")
	// ErrBadValue: a field has a value that the protocol forbids (credit or backlog <= 0, an empty range, ...).
	ErrBadValue = errors.New("forbidden value")
	// ErrUnreadableError: the peer reported an error that cannot be parsed.
	ErrUnreadableError = errors.New("unreadable error from peer")
	// ErrHandlerMemory: the handler gave less memory than the payload needs: a bug of the handler, not of the peer.
	ErrHandlerMemory = errors.New("destination smaller than payload")
)

// FrameError tells which frame a decoder gave up at. The decoder stays failed: the stream has lost its framing.
type FrameError struct {
	// Offset is the position of the frame's first byte in the stream.
	Offset int64
	// Message is the frame's id, valid if HasMessage.
	Message    MessageID
	HasMessage bool
	// Detail says what was found.
	Detail string
	// Err is one of the sentinels above.
	Err error
}

// Error returns the offset, the message, the sentinel's text and the detail.
func (e *FrameError) Error() string {
	what := "frame"
	if e.HasMessage {
		what = e.Message.String()
	}
	if e.Detail == "" {
		return fmt.Sprintf("credit: %s at byte %d: %v", what, e.Offset, e.Err)
	}
	return fmt.Sprintf("credit: %s at byte %d: %v: %s", what, e.Offset, e.Err, e.Detail)
}

// Unwrap returns the sentinel.
func (e *FrameError) Unwrap() error { return e.Err }
