package segment

import "strconv"

// DataType says what the bytes of a buffer are. Its value is the byte that a buffer's frame carries on the wire, so the
// order is frozen (Flink: Buffer.DataType, by ordinal).
type DataType uint8

// The data types, named after Flink's constants; String returns those.
const (
	None                      DataType = iota // no buffer
	DataBuffer                                // records, the last of which may go on in the next buffer
	EventBuffer                               // an event without special treatment
	PrioritizedEvent                          // an event that overtakes buffers
	AlignedBarrier                            // a barrier that blocks its channel
	TimeoutableAlignedBarrier                 // the same, announced ahead, since it may become unaligned
	RecoveryCompletion                        // the end of recovered channel state
	EndOfSegment                              // the end of a tier's segment
	DataBufferWithClearEnd                    // records, the last of which ends with the buffer
	EndOfData                                 // no more records
	EndOfPartition                            // nothing more at all
	RecoveryMetadata                          // how recovered state was spread
	AlignedWatermark                          // a generalized watermark that blocks its channel (since Flink 2)
	UnalignedWatermark                        // one that does not (since Flink 2)

	numDataTypes
)

// The properties of a data type, as bits.
const (
	isBuffer = 1 << iota
	isEvent
	blocksUpstream
	hasPriority
	requiresAnnouncement
	partialRecord
)

var dataTypes = [numDataTypes]struct {
	name string
	bits uint8
}{
	None:                      {"NONE", 0},
	DataBuffer:                {"DATA_BUFFER", isBuffer | partialRecord},
	EventBuffer:               {"EVENT_BUFFER", isEvent},
	PrioritizedEvent:          {"PRIORITIZED_EVENT_BUFFER", isEvent | hasPriority},
	AlignedBarrier:            {"ALIGNED_CHECKPOINT_BARRIER", isEvent | blocksUpstream},
	TimeoutableAlignedBarrier: {"TIMEOUTABLE_ALIGNED_CHECKPOINT_BARRIER", isEvent | blocksUpstream | requiresAnnouncement},
	RecoveryCompletion:        {"RECOVERY_COMPLETION", isEvent | blocksUpstream},
	EndOfSegment:              {"END_OF_SEGMENT", isEvent},
	DataBufferWithClearEnd:    {"DATA_BUFFER_WITH_CLEAR_END", isBuffer},
	EndOfData:                 {"END_OF_DATA", isEvent},
	EndOfPartition:            {"END_OF_PARTITION", isEvent},
	RecoveryMetadata:          {"RECOVERY_METADATA", isEvent},
	AlignedWatermark:          {"ALIGNED_WATERMARK_EVENT", isEvent | blocksUpstream},
	UnalignedWatermark:        {"UNALIGNED_WATERMARK_EVENT", isEvent},
}

func (t DataType) has(bit uint8) bool { return t < numDataTypes && dataTypes[t].bits&bit != 0 }

// Valid tells whether t is one of the constants, None included.
func (t DataType) Valid() bool { return t < numDataTypes }

// IsBuffer tells whether the bytes are records.
func (t DataType) IsBuffer() bool { return t.has(isBuffer) }

// IsEvent tells whether the bytes are an event.
func (t DataType) IsEvent() bool { return t.has(isEvent) }

// BlocksUpstream tells whether the sender stops the channel behind this buffer until the receiver resumes it.
func (t DataType) BlocksUpstream() bool { return t.has(blocksUpstream) }

// HasPriority tells whether the buffer overtakes those queued before it.
func (t DataType) HasPriority() bool { return t.has(hasPriority) }

// RequiresAnnouncement tells whether a priority event announces the buffer ahead. It excludes HasPriority.
func (t DataType) RequiresAnnouncement() bool { return t.has(requiresAnnouncement) }

// PartialRecord tells whether the last record may go on in the next buffer.
func (t DataType) PartialRecord() bool { return t.has(partialRecord) }

// String returns Flink's name of the constant, such as "ALIGNED_CHECKPOINT_BARRIER".
func (t DataType) String() string {
	if t < numDataTypes {
		return dataTypes[t].name
	}
	return "DataType(" + strconv.Itoa(int(t)) + ")"
}
