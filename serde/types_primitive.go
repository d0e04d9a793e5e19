package serde

import (
	"encoding/binary"
	"math"
)

// The serializers of Java's primitives, big-endian. Their encodings are also those of BooleanValue, ByteValue, ShortValue,
// IntValue, LongValue, FloatValue, DoubleValue and CharValue. None of them takes null.
type (
	BooleanSerializer struct{} // u8: 1 or 0; any byte but 0 is read as true
	ByteSerializer    struct{} // i8
	ShortSerializer   struct{} // i16
	CharSerializer    struct{} // u16, one UTF-16 code unit
	IntSerializer     struct{} // i32
	LongSerializer    struct{} // i64
	FloatSerializer   struct{} // IEEE bits; every NaN is written as 7fc00000, and read as it comes
	DoubleSerializer  struct{} // IEEE bits; every NaN is written as 7ff8000000000000, and read as it comes
	VoidSerializer    struct{} // one byte 0, whose value is ignored
	NullSerializer    struct{} // NullValue: no bytes at all
)

// Append appends 1 or 0.
func (BooleanSerializer) Append(dst []byte, v bool) []byte { return appendFlag(dst, v) }

// Decode reads one byte.
func (BooleanSerializer) Decode(p []byte) (bool, int, error) {
	if len(p) < 1 {
		return false, 0, ErrTruncated
	}
	return p[0] != 0, 1, nil
}

// Len returns 1.
func (BooleanSerializer) Len() int { return 1 }

// Append appends one byte.
func (ByteSerializer) Append(dst []byte, v int8) []byte { return append(dst, byte(v)) }

// Decode reads one byte.
func (ByteSerializer) Decode(p []byte) (int8, int, error) {
	if len(p) < 1 {
		return 0, 0, ErrTruncated
	}
	return int8(p[0]), 1, nil
}

// Len returns 1.
func (ByteSerializer) Len() int { return 1 }

// Append appends two bytes.
func (ShortSerializer) Append(dst []byte, v int16) []byte {
	return binary.BigEndian.AppendUint16(dst, uint16(v))
}

// Decode reads two bytes.
func (ShortSerializer) Decode(p []byte) (int16, int, error) {
	if len(p) < 2 {
		return 0, 0, ErrTruncated
	}
	return int16(binary.BigEndian.Uint16(p)), 2, nil
}

// Len returns 2.
func (ShortSerializer) Len() int { return 2 }

// Append appends two bytes.
func (CharSerializer) Append(dst []byte, v uint16) []byte {
	return binary.BigEndian.AppendUint16(dst, v)
}

// Decode reads two bytes.
func (CharSerializer) Decode(p []byte) (uint16, int, error) {
	if len(p) < 2 {
		return 0, 0, ErrTruncated
	}
	return binary.BigEndian.Uint16(p), 2, nil
}

// Len returns 2.
func (CharSerializer) Len() int { return 2 }

// Append appends four bytes.
func (IntSerializer) Append(dst []byte, v int32) []byte {
	return binary.BigEndian.AppendUint32(dst, uint32(v))
}

// Decode reads four bytes.
func (IntSerializer) Decode(p []byte) (int32, int, error) {
	if len(p) < 4 {
		return 0, 0, ErrTruncated
	}
	return int32(binary.BigEndian.Uint32(p)), 4, nil
}

// Len returns 4.
func (IntSerializer) Len() int { return 4 }

// Append appends eight bytes.
func (LongSerializer) Append(dst []byte, v int64) []byte {
	return binary.BigEndian.AppendUint64(dst, uint64(v))
}

// Decode reads eight bytes.
func (LongSerializer) Decode(p []byte) (int64, int, error) {
	if len(p) < 8 {
		return 0, 0, ErrTruncated
	}
	return int64(binary.BigEndian.Uint64(p)), 8, nil
}

// Len returns 8.
func (LongSerializer) Len() int { return 8 }

// Append appends four bytes.
func (FloatSerializer) Append(dst []byte, v float32) []byte {
	return binary.BigEndian.AppendUint32(dst, floatBits(v))
}

// Decode reads four bytes.
func (FloatSerializer) Decode(p []byte) (float32, int, error) {
	if len(p) < 4 {
		return 0, 0, ErrTruncated
	}
	return math.Float32frombits(binary.BigEndian.Uint32(p)), 4, nil
}

// Len returns 4.
func (FloatSerializer) Len() int { return 4 }

// Append appends eight bytes.
func (DoubleSerializer) Append(dst []byte, v float64) []byte {
	return binary.BigEndian.AppendUint64(dst, doubleBits(v))
}

// Decode reads eight bytes.
func (DoubleSerializer) Decode(p []byte) (float64, int, error) {
	if len(p) < 8 {
		return 0, 0, ErrTruncated
	}
	return math.Float64frombits(binary.BigEndian.Uint64(p)), 8, nil
}

// Len returns 8.
func (DoubleSerializer) Len() int { return 8 }

// floatBits is Java's Float.floatToIntBits.
func floatBits(v float32) uint32 {
	if v != v {
		return 0x7fc00000
	}
	return math.Float32bits(v)
}

// doubleBits is Java's Double.doubleToLongBits.
func doubleBits(v float64) uint64 {
	if v != v {
		return 0x7ff8000000000000
	}
	return math.Float64bits(v)
}

// Append appends one zero byte.
func (VoidSerializer) Append(dst []byte, _ struct{}) []byte { return append(dst, 0) }

// Decode skips one byte.
func (VoidSerializer) Decode(p []byte) (struct{}, int, error) {
	if len(p) < 1 {
		return struct{}{}, 0, ErrTruncated
	}
	return struct{}{}, 1, nil
}

// Len returns 1.
func (VoidSerializer) Len() int { return 1 }

// Append appends nothing.
func (NullSerializer) Append(dst []byte, _ struct{}) []byte { return dst }

// Decode reads nothing.
func (NullSerializer) Decode([]byte) (struct{}, int, error) { return struct{}{}, 0, nil }

// Len returns 0.
func (NullSerializer) Len() int { return 0 }

// EnumSerializer encodes the ordinal of a Java enum with N constants as an i32 (EnumSerializer with the constants in
// the order of their declaration). Decode refuses other ordinals; Append writes what it is given.
type EnumSerializer struct {
	N int32
}

// Append appends four bytes.
func (EnumSerializer) Append(dst []byte, ordinal int32) []byte {
	return binary.BigEndian.AppendUint32(dst, uint32(ordinal))
}

// Decode reads four bytes.
func (s EnumSerializer) Decode(p []byte) (int32, int, error) {
	v, n, err := IntSerializer{}.Decode(p)
	if err == nil && (v < 0 || v >= s.N) {
		return 0, 0, corruptOrdinal(v, s.N)
	}
	return v, n, err
}

// Len returns 4.
func (EnumSerializer) Len() int { return 4 }
