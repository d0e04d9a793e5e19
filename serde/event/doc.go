// Package event holds every event of a Flink exchange: its meaning, its bytes, and the data type of the buffer that
// carries it.
//
// An event is what travels between the records of a channel: a checkpoint barrier, the end of the data, a watermark of
// the second kind. The one idea of the package is that one plain struct, Event, stands for all of them, so that decoding
// one into a struct that is used again allocates nothing for the kinds that come with every checkpoint.
//
// Whether a buffer holds an event is never seen from its bytes, only from its data type (segment.DataType). Inside, a
// 32-bit word selects the layout. Decode ignores what follows the event: a pipelined partition sends each event with the
// whole array it was serialized to, hence with zero bytes at the end. Append writes the exact content, AppendPadded
// writes what such a partition sends, byte for byte.
//
// The invariant: for every valid event e, Decode(Append(e)) and Decode(AppendPadded(e)) give e again, and Decode never
// yields an event that Validate refuses. (One exception: an event that goes by its class name has no length of its own,
// so its Payload comes back with the padding.)
//
// The package works alone: it needs a byte slice and returns one. Sources: Flink's EventSerializer, CheckpointBarrier,
// CheckpointOptions, Buffer.DataType#getDataType.
package event
