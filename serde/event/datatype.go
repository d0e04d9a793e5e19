package event

import "github.com/weirflow/weir/segment"

// DataTypeOf returns the data type of the buffer that carries e (Buffer.DataType#getDataType). With priority it is
// always segment.PrioritizedEvent.
//
// EndOfSegment and RecoveryMetadata are plain events by this rule; the tiered store and a recovering channel tag them
// otherwise themselves.
func DataTypeOf(e *Event, priority bool) segment.DataType {
	if priority {
		return segment.PrioritizedEvent
	}
	switch e.Kind {
	case EndOfOutputChannelState:
		return segment.RecoveryCompletion
	case EndOfData:
		return segment.EndOfData
	case EndOfPartition:
		return segment.EndOfPartition
	case Watermark:
		if e.Watermark.Aligned {
			return segment.AlignedWatermark
		}
		return segment.UnalignedWatermark
	case CheckpointBarrier:
		switch o := e.Barrier.Options; {
		case !o.NeedsAlignment():
			return segment.EventBuffer
		case o.IsTimeoutable():
			return segment.TimeoutableAlignedBarrier
		}
		return segment.AlignedBarrier
	}
	return segment.EventBuffer
}
