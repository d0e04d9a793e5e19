package event

import "fmt"

// Kind is the word that an event begins with (EventSerializer).
type Kind uint8

// The kinds of events. Watermark and EndOfInputChannelState don't exist in Flink 1.20 (see Release).
const (
	EndOfPartition          Kind = 0 // nothing follows on this channel
	CheckpointBarrier       Kind = 1 // Barrier
	EndOfSuperstep          Kind = 2
	Generic                 Kind = 3  // any other class: Class, Payload
	CancelCheckpoint        Kind = 4  // CheckpointID
	EndOfOutputChannelState Kind = 5  // the sender has restored its channel state (1.20: EndOfChannelState)
	Announcement            Kind = 6  // a barrier waits behind data: Seq, Announced. Local to a receiver
	SubtaskConnection       Kind = 7  // selects a virtual channel while state is restored: InputSubtask, OutputSubtask
	EndOfData               Kind = 8  // no more records: StopMode
	EndOfSegment            Kind = 9  // tiered storage
	RecoveryMetadata        Kind = 10 // Subpartition. Local to a receiver
	Watermark               Kind = 11 // generalized watermark: Watermark
	EndOfInputChannelState  Kind = 12 // local to a receiver
)

// kindNames are the names of Flink's classes.
var kindNames = [...]string{
	EndOfPartition:          "EndOfPartitionEvent",
	CheckpointBarrier:       "CheckpointBarrier",
	EndOfSuperstep:          "EndOfSuperstepEvent",
	Generic:                 "AbstractEvent",
	CancelCheckpoint:        "CancelCheckpointMarker",
	EndOfOutputChannelState: "EndOfOutputChannelStateEvent",
	Announcement:            "EventAnnouncement",
	SubtaskConnection:       "SubtaskConnectionDescriptor",
	EndOfData:               "EndOfData",
	EndOfSegment:            "EndOfSegmentEvent",
	RecoveryMetadata:        "RecoveryMetadata",
	Watermark:               "WatermarkEvent",
	EndOfInputChannelState:  "EndOfInputChannelStateEvent",
}

// String returns the name of Flink's class.
func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return fmt.Sprintf("Kind(%d)", uint8(k))
}

// StopMode says how a job ends (StopMode).
type StopMode uint8

// Drain ends a job for good, so that operators emit what they hold; NoDrain stops it to go on later.
const (
	Drain   StopMode = 0
	NoDrain StopMode = 1
)

// String returns DRAIN or NO_DRAIN.
func (m StopMode) String() string {
	switch m {
	case Drain:
		return "DRAIN"
	case NoDrain:
		return "NO_DRAIN"
	}
	return fmt.Sprintf("StopMode(%d)", uint8(m))
}

// WatermarkType is the type of a generalized watermark's value.
type WatermarkType uint8

// The types of values, numbered as on the wire.
const (
	LongWatermark WatermarkType = 0
	BoolWatermark WatermarkType = 1
)

// WatermarkEvent is the content of a generalized watermark (WatermarkEvent, LongWatermark, BoolWatermark). It has
// nothing to do with the watermarks of event time, which are stream elements.
type WatermarkEvent struct {
	Identifier string // which watermark it is, at most 65535 bytes of modified UTF-8
	Aligned    bool   // the receiver waits for it on all channels; the sender stops after it
	Type       WatermarkType
	Value      int64 // BoolWatermark: 0 or 1
}

// Event is one event of any kind. Which fields count depends on Kind; Decode clears the others.
//
// Byte slices in a decoded event are views of the decoded bytes. Clone makes an event that lives on its own.
type Event struct {
	Kind          Kind
	Barrier       Barrier        // CheckpointBarrier
	CheckpointID  int64          // CancelCheckpoint
	Seq           int32          // Announcement: sequence number of the announced buffer
	Announced     *Event         // Announcement: never itself an announcement
	StopMode      StopMode       // EndOfData
	InputSubtask  int32          // SubtaskConnection
	OutputSubtask int32          // SubtaskConnection
	Subpartition  int32          // RecoveryMetadata: the subpartition of the final buffer
	Watermark     WatermarkEvent // Watermark
	Class         string         // Generic: Java's binary name of the class
	Payload       []byte         // Generic: what the class wrote, and the padding, if any
}

// Clone returns a copy of e that shares no memory with it.
func (e *Event) Clone() *Event {
	c := *e
	c.Barrier.Options.Location = cloneBytes(e.Barrier.Options.Location)
	c.Payload = cloneBytes(e.Payload)
	if e.Announced != nil {
		c.Announced = e.Announced.Clone()
	}
	return &c
}

// cloneBytes copies p and keeps nil and empty apart, since a nil location is the default one.
func cloneBytes(p []byte) []byte {
	if p == nil {
		return nil
	}
	return append([]byte{}, p...)
}

// String describes the event for logs and errors.
func (e *Event) String() string {
	switch e.Kind {
	case CheckpointBarrier:
		b := &e.Barrier
		return fmt.Sprintf("%v(%d @ %d, %v %v)", e.Kind, b.ID, b.Timestamp, b.Options.Snapshot, b.Options.Alignment)
	case CancelCheckpoint:
		return fmt.Sprintf("%v(%d)", e.Kind, e.CheckpointID)
	case Announcement:
		if e.Announced == nil {
			return fmt.Sprintf("%v(%d)", e.Kind, e.Seq)
		}
		return fmt.Sprintf("%v(%d, %v)", e.Kind, e.Seq, e.Announced)
	case EndOfData:
		return fmt.Sprintf("%v(%v)", e.Kind, e.StopMode)
	case SubtaskConnection:
		return fmt.Sprintf("%v(%d, %d)", e.Kind, e.InputSubtask, e.OutputSubtask)
	case RecoveryMetadata:
		return fmt.Sprintf("%v(%d)", e.Kind, e.Subpartition)
	case Watermark:
		return fmt.Sprintf("%v(%q, %d)", e.Kind, e.Watermark.Identifier, e.Watermark.Value)
	case Generic:
		return fmt.Sprintf("%v(%s)", e.Kind, e.Class)
	}
	return e.Kind.String()
}
