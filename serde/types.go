package serde

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Errors of the type encodings and of stream elements, for errors.Is.
var (
	// ErrCorrupt is wrapped by every error about bytes that no serializer writes.
	ErrCorrupt = errors.New("corrupt data")
	// ErrTruncated says that a value goes on behind the end of the bytes. It is an ErrCorrupt.
	ErrTruncated = fmt.Errorf("%w: value is truncated", ErrCorrupt)
	// ErrNull says that a null was found where the Go type has none; wrap the serializer in NullableString, say.
	ErrNull = fmt.Errorf("%w: value is null", ErrCorrupt)
	// ErrInvalid is wrapped by errors about values that cannot be encoded.
	ErrInvalid = errors.New("invalid value")
)

// Serializer turns values of a type into Flink's bytes and back. Implementations are small value types, meant to be used
// as type parameters, so that neither values nor serializers are boxed. They hold no state that a call changes: one may
// be used by any number of goroutines at once.
//
// Append appends the encoding of v to dst.
//
// Decode decodes the value at the start of p and returns the number of bytes that it took. Slices in the value may be
// views of p (each serializer says so); they are valid as long as p is. On error the number is 0, and the error wraps
// ErrCorrupt. Decode believes no length before there are as many bytes, so hostile input costs no more memory than a
// small multiple of its own size.
type Serializer[T any] interface {
	Append(dst []byte, v T) []byte
	Decode(p []byte) (v T, n int, err error)
}

// FixedSerializer is a Serializer all of whose encodings are equally long.
type FixedSerializer[T any] interface {
	Serializer[T]
	Len() int // bytes of each encoding (TypeSerializer#getLength)
}

// Null is a value that may be null. The zero value is null.
type Null[T any] struct {
	V     T
	Valid bool // V counts
}

// Some returns a value that is not null.
func Some[T any](v T) Null[T] { return Null[T]{v, true} }

// maxEmpty bounds how many elements that take no bytes (NullValue) are accepted in one collection.
const maxEmpty = 1 << 16

// maxPrealloc bounds the room that is made for elements before they have been seen.
const maxPrealloc = 1 << 10

// count reads the i32 count of a collection whose elements take at least size bytes, 0 or more each.
func count(p []byte, size int) (int, error) {
	if len(p) < 4 {
		return 0, ErrTruncated
	}
	n := int(int32(binary.BigEndian.Uint32(p)))
	if n < 0 {
		return 0, fmt.Errorf("%w: negative count %d", ErrCorrupt, n)
	}
	rest := len(p) - 4
	if size > 0 && n > rest/size {
		return 0, fmt.Errorf("%w: %d elements in %d bytes", ErrTruncated, n, rest)
	}
	if size == 0 && n > rest && n > maxEmpty {
		return 0, fmt.Errorf("%w: %d elements in %d bytes", ErrCorrupt, n, rest)
	}
	return n, nil
}

// appendCount appends the i32 count of a collection.
func appendCount(dst []byte, n int) []byte {
	return binary.BigEndian.AppendUint32(dst, uint32(n))
}

// flag reads a presence byte. Like Flink's stream-backed reader it takes any byte but 0 for true.
func flag(p []byte) (bool, error) {
	if len(p) == 0 {
		return false, ErrTruncated
	}
	return p[0] != 0, nil
}

func appendFlag(dst []byte, v bool) []byte {
	if v {
		return append(dst, 1)
	}
	return append(dst, 0)
}
