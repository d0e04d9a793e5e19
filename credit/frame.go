package credit

import (
	"encoding/binary"
	"fmt"

	"github.com/weirflow/weir/segment"
)

// Profile is the release line of the peer. Only the header of a BufferResponse differs, and nothing on the wire
// tells which form is in use: the profile is configuration, and both ends must agree.
type Profile uint8

// The two release lines.
const (
	// Flink23 is Flink 2.3: BufferResponse has partial buffers, data types go up to 13. The default.
	Flink23 Profile = iota
	// Flink120 is Flink 1.20: no partial buffers, data types go up to 11.
	Flink120
)

// String returns "flink-2.3" or "flink-1.20".
func (p Profile) String() string {
	if p == Flink120 {
		return "flink-1.20"
	}
	return "flink-2.3"
}

// headerLen is the size of the message header of a BufferResponse, without the frame header.
func (p Profile) headerLen() int {
	if p == Flink120 {
		return 34
	}
	return 38
}

// maxDataType is the largest data type of the release.
func (p Profile) maxDataType() segment.DataType {
	if p == Flink120 {
		return segment.RecoveryMetadata
	}
	return segment.UnalignedWatermark
}

// MessageID is the byte that tells what a frame is (NettyMessage.ID).
type MessageID uint8

// The messages. 0, 1 and 9 go from the server to the client, all others from the client to the server.
const (
	MsgBufferResponse             MessageID = 0
	MsgErrorResponse              MessageID = 1
	MsgPartitionRequest           MessageID = 2
	MsgTaskEventRequest           MessageID = 3
	MsgCancelPartitionRequest     MessageID = 4
	MsgCloseRequest               MessageID = 5
	MsgAddCredit                  MessageID = 6
	MsgResumeConsumption          MessageID = 7
	MsgAckAllUserRecordsProcessed MessageID = 8
	MsgBacklogAnnouncement        MessageID = 9
	MsgNewBufferSize              MessageID = 10
	MsgSegmentID                  MessageID = 11
)

var messageNames = [...]string{"BufferResponse", "ErrorResponse", "PartitionRequest", "TaskEventRequest",
	"CancelPartitionRequest", "CloseRequest", "AddCredit", "ResumeConsumption", "AckAllUserRecordsProcessed",
	"BacklogAnnouncement", "NewBufferSize", "SegmentId"}

// String returns Flink's name of the message.
func (m MessageID) String() string {
	if int(m) < len(messageNames) {
		return messageNames[m]
	}
	return fmt.Sprintf("message %d", uint8(m))
}

// ToClient reports whether the message goes from the server to the client.
func (m MessageID) ToClient() bool {
	return m == MsgBufferResponse || m == MsgErrorResponse || m == MsgBacklogAnnouncement
}

// Sizes and constants of the framing.
const (
	// FrameHeaderLen is the size of the header that every frame begins with: length (i32, of the whole frame), magic, id.
	FrameHeaderLen = 9
	// Magic is the second word of every frame.
	Magic uint32 = 0xBADC0FFE
)

// BufferHeaderLen is how many bytes AppendBufferHeader writes for a buffer without partial sizes.
func BufferHeaderLen(p Profile) int { return FrameHeaderLen + p.headerLen() }

// bodyLen is the exact body length of the messages that have only one.
func (m MessageID) bodyLen() (n int, fixed bool) {
	switch m {
	case MsgPartitionRequest:
		return 88, true
	case MsgCloseRequest:
		return 0, true
	case MsgCancelPartitionRequest, MsgResumeConsumption, MsgAckAllUserRecordsProcessed:
		return 16, true
	case MsgAddCredit, MsgBacklogAnnouncement, MsgNewBufferSize:
		return 20, true
	case MsgSegmentID:
		return 24, true
	}
	return 0, false
}

// BufferHeader is what precedes the payload of a BufferResponse.
type BufferHeader struct {
	// Receiver is the channel that the buffer is for.
	Receiver ChannelID
	// Subpartition the payload belongs to; -1 when the sender does not know (views of several subpartitions).
	Subpartition int32
	// Partial is the number of buffers that the payload is made of, one after the other; 0: it is a single one.
	// Always 0 with Flink120.
	Partial int32
	// Seq is the sequence number; with partial buffers that of the first. It wraps at 2^31-1.
	Seq int32
	// Backlog is the number of data buffers that wait at the sender behind this one.
	Backlog int32
	// Type says whether the payload is data (takes one credit) or an event (takes none), and which.
	Type segment.DataType
	// Compressed tells that each buffer of the payload is a compressed block.
	Compressed bool
	// Size is the number of payload bytes, over all partial buffers.
	Size int32
	// PartialSizes holds Partial sizes that sum up to Size; nil when Partial is 0. A decoder lends it until OnBufferDone
	// has returned.
	PartialSizes []int32
}

// Numbers is how many sequence numbers the message uses up: 1, or one for each partial buffer.
func (h *BufferHeader) Numbers() int32 { return max(h.Partial, 1) }

// PartitionRequest opens a channel.
type PartitionRequest struct {
	Partition PartitionID
	Range     SubpartitionRange
	Receiver  ChannelID
	// Credit is the initial credit: exclusive buffers of the channel. Negative ones reach the handler, which must refuse
	// them without closing the connection.
	Credit int32
}

// appendFrame appends a frame header for a body of n bytes.
func appendFrame(dst []byte, id MessageID, n int) []byte {
	dst = binary.BigEndian.AppendUint32(dst, uint32(FrameHeaderLen+n))
	dst = binary.BigEndian.AppendUint32(dst, Magic)
	return append(dst, byte(id))
}

func appendI32(dst []byte, v int32) []byte { return binary.BigEndian.AppendUint32(dst, uint32(v)) }

func getI32(p []byte) int32 { return int32(binary.BigEndian.Uint32(p)) }
