package serde

import (
	"encoding/binary"
	"fmt"
	"math"
)

// corruptOrdinal is the error for an enum's ordinal that doesn't exist.
func corruptOrdinal(v, n int32) error {
	return fmt.Errorf("%w: ordinal %d of an enum with %d constants", ErrCorrupt, v, n)
}

// BytesSerializer encodes byte[]: i32 length, bytes (BytePrimitiveArraySerializer). A nil slice is written as an empty
// array. Decode returns a view of p.
type BytesSerializer struct{}

// Append appends a byte[].
func (BytesSerializer) Append(dst, v []byte) []byte { return append(appendCount(dst, len(v)), v...) }

// Decode reads a byte[].
func (BytesSerializer) Decode(p []byte) ([]byte, int, error) {
	n, err := count(p, 1)
	if err != nil {
		return nil, 0, err
	}
	return p[4 : 4+n : 4+n], 4 + n, nil
}

// BitmapSerializer encodes the bytes of a Bitmap, since Flink 2: i32 length, then the portable 32-bit Roaring format, which
// is not looked into. Decode returns a view of p.
type BitmapSerializer struct{ BytesSerializer }

// The serializers of arrays of primitives: i32 count, then the elements. A nil slice is written as an empty array. Decode
// allocates the slice.
type (
	BooleanArraySerializer struct{}
	ShortArraySerializer   struct{}
	CharArraySerializer    struct{}
	IntArraySerializer     struct{}
	LongArraySerializer    struct{}
	FloatArraySerializer   struct{}
	DoubleArraySerializer  struct{}
)

// Append appends a boolean[].
func (BooleanArraySerializer) Append(dst []byte, v []bool) []byte {
	dst = appendCount(dst, len(v))
	for _, e := range v {
		dst = appendFlag(dst, e)
	}
	return dst
}

// Decode reads a boolean[].
func (BooleanArraySerializer) Decode(p []byte) ([]bool, int, error) {
	n, err := count(p, 1)
	if err != nil {
		return nil, 0, err
	}
	v := make([]bool, n)
	for i := range v {
		v[i] = p[4+i] != 0
	}
	return v, 4 + n, nil
}

// Append appends a short[].
func (ShortArraySerializer) Append(dst []byte, v []int16) []byte {
	dst = appendCount(dst, len(v))
	for _, e := range v {
		dst = binary.BigEndian.AppendUint16(dst, uint16(e))
	}
	return dst
}

// Decode reads a short[].
func (ShortArraySerializer) Decode(p []byte) ([]int16, int, error) {
	n, err := count(p, 2)
	if err != nil {
		return nil, 0, err
	}
	v := make([]int16, n)
	for i := range v {
		v[i] = int16(binary.BigEndian.Uint16(p[4+2*i:]))
	}
	return v, 4 + 2*n, nil
}

// Append appends a char[], given as UTF-16 code units.
func (CharArraySerializer) Append(dst []byte, v []uint16) []byte {
	dst = appendCount(dst, len(v))
	for _, e := range v {
		dst = binary.BigEndian.AppendUint16(dst, e)
	}
	return dst
}

// Decode reads a char[].
func (CharArraySerializer) Decode(p []byte) ([]uint16, int, error) {
	n, err := count(p, 2)
	if err != nil {
		return nil, 0, err
	}
	v := make([]uint16, n)
	for i := range v {
		v[i] = binary.BigEndian.Uint16(p[4+2*i:])
	}
	return v, 4 + 2*n, nil
}

// Append appends an int[].
func (IntArraySerializer) Append(dst []byte, v []int32) []byte {
	dst = appendCount(dst, len(v))
	for _, e := range v {
		dst = binary.BigEndian.AppendUint32(dst, uint32(e))
	}
	return dst
}

// Decode reads an int[].
func (IntArraySerializer) Decode(p []byte) ([]int32, int, error) {
	n, err := count(p, 4)
	if err != nil {
		return nil, 0, err
	}
	v := make([]int32, n)
	for i := range v {
		v[i] = int32(binary.BigEndian.Uint32(p[4+4*i:]))
	}
	return v, 4 + 4*n, nil
}

// Append appends a long[].
func (LongArraySerializer) Append(dst []byte, v []int64) []byte {
	dst = appendCount(dst, len(v))
	for _, e := range v {
		dst = binary.BigEndian.AppendUint64(dst, uint64(e))
	}
	return dst
}

// Decode reads a long[].
func (LongArraySerializer) Decode(p []byte) ([]int64, int, error) {
	n, err := count(p, 8)
	if err != nil {
		return nil, 0, err
	}
	v := make([]int64, n)
	for i := range v {
		v[i] = int64(binary.BigEndian.Uint64(p[4+8*i:]))
	}
	return v, 4 + 8*n, nil
}

// Append appends a float[].
func (FloatArraySerializer) Append(dst []byte, v []float32) []byte {
	dst = appendCount(dst, len(v))
	for _, e := range v {
		dst = binary.BigEndian.AppendUint32(dst, floatBits(e))
	}
	return dst
}

// Decode reads a float[].
func (FloatArraySerializer) Decode(p []byte) ([]float32, int, error) {
	n, err := count(p, 4)
	if err != nil {
		return nil, 0, err
	}
	v := make([]float32, n)
	for i := range v {
		v[i] = math.Float32frombits(binary.BigEndian.Uint32(p[4+4*i:]))
	}
	return v, 4 + 4*n, nil
}

// Append appends a double[].
func (DoubleArraySerializer) Append(dst []byte, v []float64) []byte {
	dst = appendCount(dst, len(v))
	for _, e := range v {
		dst = binary.BigEndian.AppendUint64(dst, doubleBits(e))
	}
	return dst
}

// Decode reads a double[].
func (DoubleArraySerializer) Decode(p []byte) ([]float64, int, error) {
	n, err := count(p, 8)
	if err != nil {
		return nil, 0, err
	}
	v := make([]float64, n)
	for i := range v {
		v[i] = math.Float64frombits(binary.BigEndian.Uint64(p[4+8*i:]))
	}
	return v, 4 + 8*n, nil
}

// StringArraySerializer encodes String[]: i32 count, then the strings, any of which may be null.
type StringArraySerializer struct{}

// Append appends a String[].
func (StringArraySerializer) Append(dst []byte, v []Null[string]) []byte {
	return ListSerializer[Null[string], NullableStringSerializer]{}.Append(dst, v)
}

// Decode reads a String[].
func (StringArraySerializer) Decode(p []byte) ([]Null[string], int, error) {
	return ListSerializer[Null[string], NullableStringSerializer]{}.Decode(p)
}

// ArraySerializer encodes an array of objects: i32 count, then for each element a byte, 1 if it is there and 0 if it is
// null, and the element if it is there (GenericArraySerializer).
type ArraySerializer[T any, S Serializer[T]] struct {
	Element S
}

// Append appends an array.
func (s ArraySerializer[T, S]) Append(dst []byte, v []Null[T]) []byte {
	dst = appendCount(dst, len(v))
	for _, e := range v {
		dst = appendFlag(dst, e.Valid)
		if e.Valid {
			dst = s.Element.Append(dst, e.V)
		}
	}
	return dst
}

// Decode reads an array.
func (s ArraySerializer[T, S]) Decode(p []byte) ([]Null[T], int, error) {
	return decodeNulls[T](s.Element, p, true)
}

// SetSerializer encodes a set as a slice in the order of iteration, since Flink 2: i32 count, then for each element a
// byte, 1 if it is null and 0 if it is there, and the element if it is there.
type SetSerializer[T any, S Serializer[T]] struct {
	Element S
}

// Append appends a set.
func (s SetSerializer[T, S]) Append(dst []byte, v []Null[T]) []byte {
	dst = appendCount(dst, len(v))
	for _, e := range v {
		dst = appendFlag(dst, !e.Valid)
		if e.Valid {
			dst = s.Element.Append(dst, e.V)
		}
	}
	return dst
}

// Decode reads a set.
func (s SetSerializer[T, S]) Decode(p []byte) ([]Null[T], int, error) {
	return decodeNulls[T](s.Element, p, false)
}

// decodeNulls reads i32 count, then elements with a flag in front that has the value valid if an element follows.
func decodeNulls[T any, S Serializer[T]](s S, p []byte, valid bool) ([]Null[T], int, error) {
	n, err := count(p, 1)
	if err != nil {
		return nil, 0, err
	}
	v, at := make([]Null[T], 0, min(n, maxPrealloc)), 4
	for range n {
		f, err := flag(p[at:])
		if err != nil {
			return nil, 0, err
		}
		at++
		var e Null[T]
		if f == valid {
			var size int
			if e.V, size, err = s.Decode(p[at:]); err != nil {
				return nil, 0, err
			}
			e.Valid = true
			at += size
		}
		v = append(v, e)
	}
	return v, at, nil
}
