package event

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/weirflow/weir/internal/javatext"
)

// Errors of this package, for errors.Is.
var (
	ErrIncomplete = errors.New("incomplete event")              // fewer than the four bytes of the word
	ErrCorrupt    = errors.New("corrupt byte stream for event") // unknown word, truncated or impossible content
	ErrInvalid    = errors.New("invalid event")                 // refused by Validate
)

// Release is a release of Flink whose events are spoken.
type Release uint8

// The releases.
const (
	Flink23  Release = iota // 2.3
	Flink120                // 1.20: knows neither Watermark nor EndOfInputChannelState
)

// Supports tells whether the release knows the kind. A sender must not send others to it.
func (r Release) Supports(k Kind) bool {
	if r == Flink120 {
		return k <= RecoveryMetadata
	}
	return k <= EndOfInputChannelState
}

// Validate tells whether e can be encoded, and would be accepted by Decode. An error wraps ErrInvalid.
func (e *Event) Validate() error {
	switch e.Kind {
	case CheckpointBarrier:
		return e.Barrier.Options.Validate()
	case Announcement:
		if e.Announced == nil {
			return fmt.Errorf("%w: announcement of nothing", ErrInvalid)
		}
		if e.Announced.Kind == Announcement {
			return fmt.Errorf("%w: announcement of an announcement", ErrInvalid)
		}
		return e.Announced.Validate()
	case EndOfData:
		if e.StopMode > NoDrain {
			return fmt.Errorf("%w: unknown stop mode: %d", ErrInvalid, e.StopMode)
		}
	case Watermark:
		w := &e.Watermark
		if w.Type > BoolWatermark {
			return fmt.Errorf("%w: unknown watermark type: %d", ErrInvalid, w.Type)
		}
		if w.Type == BoolWatermark && w.Value != 0 && w.Value != 1 {
			return fmt.Errorf("%w: boolean watermark with value %d", ErrInvalid, w.Value)
		}
		return validUTF("identifier", w.Identifier)
	case Generic:
		return validUTF("class name", e.Class)
	default:
		if e.Kind > EndOfInputChannelState {
			return fmt.Errorf("%w: unknown kind: %d", ErrInvalid, e.Kind)
		}
	}
	return nil
}

func validUTF(what, s string) error {
	// No text grows by more than half again; only long ones need counting.
	if len(s) > javatext.MaxUTF/2 {
		if n := javatext.Len(s); n > javatext.MaxUTF {
			return fmt.Errorf("%w: %s is too long: %d bytes", ErrInvalid, what, n)
		}
	}
	return nil
}

// Append appends the exact content of e (EventSerializer#toSerializedEvent). An event that Validate refuses appends
// nothing; the caller validates what comes from outside.
func Append(dst []byte, e *Event) []byte {
	if e.Validate() != nil {
		return dst
	}
	return appendEvent(dst, e)
}

func appendEvent(dst []byte, e *Event) []byte {
	be := binary.BigEndian
	dst = be.AppendUint32(dst, uint32(e.Kind))
	switch e.Kind {
	case CheckpointBarrier:
		dst = appendBarrier(dst, &e.Barrier)
	case Generic:
		dst = appendUTF(dst, e.Class)
		dst = append(dst, e.Payload...)
	case CancelCheckpoint:
		dst = be.AppendUint64(dst, uint64(e.CheckpointID))
	case Announcement:
		dst = be.AppendUint32(dst, uint32(e.Seq))
		dst = appendEvent(dst, e.Announced)
	case SubtaskConnection:
		dst = be.AppendUint32(dst, uint32(e.InputSubtask))
		dst = be.AppendUint32(dst, uint32(e.OutputSubtask))
	case EndOfData:
		dst = append(dst, byte(e.StopMode))
	case RecoveryMetadata:
		dst = be.AppendUint32(dst, uint32(e.Subpartition))
	case Watermark:
		w := &e.Watermark
		dst = appendUTF(dst, w.Identifier)
		dst = appendBool(dst, w.Aligned)
		dst = be.AppendUint32(dst, uint32(w.Type))
		if w.Type == BoolWatermark {
			dst = append(dst, byte(w.Value))
		} else {
			dst = be.AppendUint64(dst, uint64(w.Value))
		}
	}
	return dst
}

func appendBarrier(dst []byte, b *Barrier) []byte {
	be := binary.BigEndian
	o := &b.Options
	dst = be.AppendUint64(dst, uint64(b.ID))
	dst = be.AppendUint64(dst, uint64(b.Timestamp))
	dst = append(dst, byte(o.Snapshot))
	if o.Snapshot.IsSavepoint() {
		dst = append(dst, byte(o.Format))
	}
	if o.Location == nil {
		dst = be.AppendUint32(dst, 0xffffffff)
	} else {
		dst = be.AppendUint32(dst, uint32(len(o.Location)))
		dst = append(dst, o.Location...)
	}
	dst = append(dst, byte(o.Alignment))
	return be.AppendUint64(dst, uint64(o.Timeout))
}

func appendUTF(dst []byte, s string) []byte {
	at := len(dst)
	dst = javatext.Append(append(dst, 0, 0), s)
	binary.BigEndian.PutUint16(dst[at:], uint16(len(dst)-at-2))
	return dst
}

func appendBool(dst []byte, v bool) []byte {
	if v {
		return append(dst, 1)
	}
	return append(dst, 0)
}

// AppendPadded appends e as a pipelined partition broadcasts it: the whole array that Flink serializes it to, whose
// end is zero bytes (BufferWritingResultPartition#broadcastEvent, EventSerializer#toBufferConsumer). An event that
// Validate refuses appends nothing. For a Generic event the padding is that of a class which writes its payload in
// one piece.
func AppendPadded(dst []byte, e *Event) []byte {
	if e.Validate() != nil {
		return dst
	}
	at := len(dst)
	dst = appendEvent(dst, e)
	for n := arraySize(e, len(dst)-at) - (len(dst) - at); n > 0; n-- {
		dst = append(dst, 0)
	}
	return dst
}

// arraySize returns the size of the array that Flink serializes e to; n is the size of its content.
func arraySize(e *Event, n int) int {
	switch e.Kind {
	case CheckpointBarrier:
		return 38 + len(e.Barrier.Options.Location)
	case Announcement:
		return 8 + arraySize(e.Announced, n-8)
	case Watermark:
		a := array{capacity: 128}
		a.write(4)
		a.write(2 + javatext.Len(e.Watermark.Identifier))
		a.write(1)
		a.write(4)
		if e.Watermark.Type == BoolWatermark {
			a.write(1)
		} else {
			a.write(8)
		}
		return a.capacity
	case Generic:
		a := array{capacity: 128}
		a.write(4)
		a.write(2 + javatext.Len(e.Class))
		a.write(len(e.Payload))
		return a.capacity
	}
	return n
}

// array is the backing array of a DataOutputSerializer: it doubles, or grows by what is needed if that is more.
type array struct{ capacity, position int }

func (a *array) write(k int) {
	if a.capacity-a.position < k {
		a.capacity = max(2*a.capacity, a.capacity+k)
	}
	a.position += k
}
