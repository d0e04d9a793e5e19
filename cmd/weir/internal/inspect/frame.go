package inspect

import (
	"time"

	"github.com/weirflow/weir/credit"
	"github.com/weirflow/weir/segment"
	"github.com/weirflow/weir/serde"
	"github.com/weirflow/weir/serde/event"
)

// Dir is a direction of a connection.
type Dir uint8

// The directions. The client is who reads data and grants credit.
const (
	ToServer Dir = iota
	ToClient
)

// String returns "c2s" or "s2c".
func (d Dir) String() string {
	if d == ToClient {
		return "s2c"
	}
	return "c2s"
}

// Frame is one frame, and what is known of its channel right after it. It is lent to a sink for the call.
type Frame struct {
	// Conn numbers the connections of an input, from 1.
	Conn int
	Dir  Dir
	// Time is when the frame was complete; zero: the input has no times.
	Time time.Time
	// Offset is where the frame begins in the stream of its direction, Length its bytes with the frame header.
	Offset, Length int64
	Message        credit.MessageID
	// Channel is zero for a CloseRequest and for a fatal ErrorResponse.
	Channel credit.ChannelID
	// Request is set for a PartitionRequest, Partition for a TaskEventRequest, too.
	Request   *credit.PartitionRequest
	Partition *credit.PartitionID
	// Buffer is set for a BufferResponse.
	Buffer *credit.BufferHeader
	// Event is the decoded event of a buffer or TaskEventRequest, EventErr why it could not be decoded.
	Event    *event.Event
	EventErr error
	// Value is the credit of an AddCredit, the backlog of a BacklogAnnouncement, the size of a NewBufferSize, the id of a
	// SegmentId; Subpartition the SegmentId's.
	Value, Subpartition int32
	// Error is set for an ErrorResponse.
	Error *credit.ErrorResponse

	// State is the channel's, after the frame; Odd what the protocol does not allow here.
	State State
	Odd   []string
}

// IsData reports whether the frame carries records.
func (f *Frame) IsData() bool { return f.Buffer != nil && f.Buffer.Type.IsBuffer() }

// State is what both ends of a channel know by now, as far as it was on the wire.
type State struct {
	// Credit is how many data messages the sender may send; valid if CreditKnown: the channel's request was seen.
	Credit      int64
	CreditKnown bool
	// Backlog is the number of data buffers that wait at the sender, as it said last.
	Backlog      int32
	BacklogKnown bool
	// Blocked: the sender waits behind a buffer of type BlockedBy until it is resumed.
	Blocked   bool
	BlockedBy segment.DataType
	// Closed: nothing more is to come.
	Closed bool
}

// Element is a record that was completed by a data buffer: a stream element, or bytes that are none.
type Element struct {
	Conn    int
	Channel credit.ChannelID
	// Frame is the offset of the frame that brought the record's last byte.
	Frame int64
	// Length is the record's length in bytes.
	Length int
	// Element is what it is, if Err is nil. Its value is a view.
	Element serde.Element
	Err     error
}

// Sink is told what a session sees, in order. An error of it ends the reading and is returned as it is.
type Sink interface {
	Frame(f *Frame) error
	Element(e *Element) error
	// Note tells what is no frame: beginning and end of a connection, bytes that are missing, errors of one direction.
	Note(n *Note) error
	// Summary comes once a connection, at its end.
	Summary(s *Summary) error
}

// Note is a remark about a connection.
type Note struct {
	// Conn is 0 if it concerns the input as a whole.
	Conn int
	Time time.Time
	Text string
}
