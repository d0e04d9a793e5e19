package serde

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// Kind is the kind of a stream element.
type Kind uint8

// The kinds of stream elements, which are what the records of a streaming edge contain (StreamElementSerializer).
const (
	Record            Kind = iota + 1 // Value; HasTimestamp, Timestamp
	Watermark                         // Timestamp: no record with a lower or equal one follows
	InternalWatermark                 // Subpartition, Timestamp: a watermark of a subpartition that the receiver can't tell
	LatencyMarker                     // Timestamp (when it was made), OperatorID, Subtask
	WatermarkStatus                   // Idle
	RecordAttributes                  // Backlog
)

var kindNames = [...]string{"Kind(0)", "StreamRecord", "Watermark", "InternalWatermark", "LatencyMarker", "WatermarkStatus", "RecordAttributes"}

// String returns the name of Flink's class.
func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return fmt.Sprintf("Kind(%d)", uint8(k))
}

// The tags that elements begin with; those of records stand with their writer.
const (
	tagWatermark         = 2
	tagLatencyMarker     = 3
	tagWatermarkStatus   = 4
	tagRecordAttributes  = 5
	tagInternalWatermark = 6
)

// The least and the greatest time of a watermark. After MaxWatermark no record follows; MinWatermark says nothing.
const (
	MinWatermark int64 = math.MinInt64
	MaxWatermark int64 = math.MaxInt64
)

// ErrElement is wrapped by every error about bytes that are no stream element. It is an ErrCorrupt.
var ErrElement = fmt.Errorf("%w: not a stream element", ErrCorrupt)

var (
	errEmptyElement  = fmt.Errorf("%w: no bytes", ErrElement)
	errElementLength = errors.New("wrong length")
)

// Element is a stream element, as a value. Which fields count depends on Kind; DecodeElement clears the others.
type Element struct {
	Kind         Kind
	HasTimestamp bool
	Idle         bool     // WatermarkStatus: idle, not active
	Backlog      bool     // RecordAttributes: the records are ones that have piled up
	Subpartition int32    // InternalWatermark
	Subtask      int32    // LatencyMarker
	Timestamp    int64    // milliseconds
	Value        []byte   // Record: the bytes of the edge's type serializer; a view
	OperatorID   [16]byte // LatencyMarker: where it was made
}

// AppendElement appends an element, without the length that each record has in front of it. An element of an unknown Kind
// appends nothing.
func AppendElement(dst []byte, e *Element) []byte {
	be := binary.BigEndian
	switch e.Kind {
	case Record:
		dst = AppendElementHead(dst, e.Timestamp, e.HasTimestamp)
		return append(dst, e.Value...)
	case Watermark:
		return AppendWatermark(dst, e.Timestamp)
	case InternalWatermark:
		dst = append(dst, tagInternalWatermark)
		dst = be.AppendUint32(dst, uint32(e.Subpartition))
		return be.AppendUint64(dst, uint64(e.Timestamp))
	case LatencyMarker:
		dst = append(dst, tagLatencyMarker)
		dst = be.AppendUint64(dst, uint64(e.Timestamp))
		dst = append(dst, e.OperatorID[:]...)
		return be.AppendUint32(dst, uint32(e.Subtask))
	case WatermarkStatus:
		return AppendWatermarkStatus(dst, e.Idle)
	case RecordAttributes:
		return appendFlag(append(dst, tagRecordAttributes), e.Backlog)
	}
	return dst
}

// AppendElementHead appends what stands in front of a record's value: its tag, and its timestamp if it has one.
func AppendElementHead(dst []byte, timestamp int64, hasTimestamp bool) []byte {
	if !hasTimestamp {
		return append(dst, tagRecord)
	}
	return binary.BigEndian.AppendUint64(append(dst, tagRecordWithTimestamp), uint64(timestamp))
}

// AppendWatermark appends a watermark.
func AppendWatermark(dst []byte, timestamp int64) []byte {
	return binary.BigEndian.AppendUint64(append(dst, tagWatermark), uint64(timestamp))
}

// AppendWatermarkStatus appends a watermark status.
func AppendWatermarkStatus(dst []byte, idle bool) []byte {
	var status uint32 // 0: active, -1: idle
	if idle {
		status--
	}
	return binary.BigEndian.AppendUint32(append(dst, tagWatermarkStatus), status)
}

// DecodeElement decodes the element that p consists of into e. The value of a record is the rest of p, a view that is valid
// as long as p is; any other element must end where p does. An error wraps ErrElement; e is then the zero Element.
func DecodeElement(p []byte, e *Element) error {
	if len(p) == 0 {
		*e = Element{}
		return errEmptyElement
	}
	switch p[0] {
	case tagRecord:
		*e = Element{Kind: Record, Value: p[1:]}
		return nil
	case tagRecordWithTimestamp:
		if len(p) < 9 {
			return badLength(p, e, 9)
		}
		*e = Element{Kind: Record, HasTimestamp: true, Timestamp: int64(binary.BigEndian.Uint64(p[1:])), Value: p[9:]}
		return nil
	}
	return decodeOther(p, e)
}

func decodeOther(p []byte, e *Element) error {
	*e = Element{}
	be := binary.BigEndian
	switch p[0] {
	case tagWatermark:
		if len(p) != 9 {
			return badLength(p, e, 9)
		}
		e.Kind, e.Timestamp = Watermark, int64(be.Uint64(p[1:]))
	case tagInternalWatermark:
		if len(p) != 13 {
			return badLength(p, e, 13)
		}
		e.Kind, e.Subpartition, e.Timestamp = InternalWatermark, int32(be.Uint32(p[1:])), int64(be.Uint64(p[5:]))
	case tagLatencyMarker:
		if len(p) != 29 {
			return badLength(p, e, 29)
		}
		e.Kind, e.Timestamp, e.Subtask = LatencyMarker, int64(be.Uint64(p[1:])), int32(be.Uint32(p[25:]))
		copy(e.OperatorID[:], p[9:])
	case tagWatermarkStatus:
		if len(p) != 5 {
			return badLength(p, e, 5)
		}
		status := int32(be.Uint32(p[1:]))
		if status != 0 && status != -1 {
			return fmt.Errorf("%w: Invalid status value for WatermarkStatus; allowed values are 0 (for ACTIVE) and -1 (for IDLE), not %d", ErrElement, status)
		}
		e.Kind, e.Idle = WatermarkStatus, status == -1
	case tagRecordAttributes:
		if len(p) != 2 {
			return badLength(p, e, 2)
		}
		e.Kind, e.Backlog = RecordAttributes, p[1] != 0
	default:
		return fmt.Errorf("%w: Corrupt stream, found tag: %d", ErrElement, int8(p[0]))
	}
	return nil
}

// badLength is the error for an element with tag p[0] that isn't want bytes long.
func badLength(p []byte, e *Element, want int) error {
	*e = Element{}
	return fmt.Errorf("%w: %w: %d bytes with tag %d, not %d", ErrElement, errElementLength, len(p), p[0], want)
}

// String describes the element for logs and errors.
func (e *Element) String() string {
	switch e.Kind {
	case Record:
		if e.HasTimestamp {
			return fmt.Sprintf("Record(%d bytes @ %d)", len(e.Value), e.Timestamp)
		}
		return fmt.Sprintf("Record(%d bytes)", len(e.Value))
	case Watermark:
		return fmt.Sprintf("Watermark @ %d", e.Timestamp)
	case InternalWatermark:
		return fmt.Sprintf("InternalWatermark(%d) @ %d", e.Subpartition, e.Timestamp)
	case LatencyMarker:
		return fmt.Sprintf("LatencyMarker(%x, %d) @ %d", e.OperatorID, e.Subtask, e.Timestamp)
	case WatermarkStatus:
		if e.Idle {
			return "WatermarkStatus(IDLE)"
		}
		return "WatermarkStatus(ACTIVE)"
	case RecordAttributes:
		return fmt.Sprintf("RecordAttributes(backlog=%t)", e.Backlog)
	}
	return e.Kind.String()
}

// DecodeValue decodes a record's value, all of it, with s. Bytes that s leaves are ErrUnderread: a serializer that reads
// too little is as wrong as one that reads too much, and shows at the first record.
func DecodeValue[T any, S Serializer[T]](s S, value []byte) (T, error) {
	v, n, err := s.Decode(value)
	if err == nil && n != len(value) {
		var zero T
		return zero, fmt.Errorf("%w: length %d, consumed %d", ErrUnderread, len(value), n)
	}
	return v, err
}
