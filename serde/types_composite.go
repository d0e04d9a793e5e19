package serde

import "fmt"

// ListSerializer encodes a List: i32 count, then the elements. An element may be null only if its own serializer takes
// null. A nil slice is written as an empty list.
type ListSerializer[T any, S Serializer[T]] struct {
	Element S
}

// Append appends a list.
func (s ListSerializer[T, S]) Append(dst []byte, v []T) []byte {
	dst = appendCount(dst, len(v))
	for _, e := range v {
		dst = s.Element.Append(dst, e)
	}
	return dst
}

// Decode reads a list.
func (s ListSerializer[T, S]) Decode(p []byte) ([]T, int, error) {
	n, err := count(p, 0)
	if err != nil {
		return nil, 0, err
	}
	v, at := make([]T, 0, min(n, maxPrealloc)), 4
	for range n {
		e, size, err := s.Element.Decode(p[at:])
		if err != nil {
			return nil, 0, err
		}
		at += size
		v = append(v, e)
	}
	return v, at, nil
}

// Entry is one entry of a map.
type Entry[K, V any] struct {
	Key   K
	Value Null[V]
}

// MapSerializer encodes a Map as its entries in the order of iteration: i32 count, then for each entry the key, a byte, 1
// if the value is null and 0 if it is there, and the value if it is there. Keys may be null only if their own serializer
// takes null. Decode keeps entries with equal keys; in Java the last of them counts.
type MapSerializer[K, V any, KS Serializer[K], VS Serializer[V]] struct {
	Key   KS
	Value VS
}

// Append appends a map.
func (s MapSerializer[K, V, KS, VS]) Append(dst []byte, v []Entry[K, V]) []byte {
	dst = appendCount(dst, len(v))
	for i := range v {
		dst = s.Key.Append(dst, v[i].Key)
		dst = appendFlag(dst, !v[i].Value.Valid)
		if v[i].Value.Valid {
			dst = s.Value.Append(dst, v[i].Value.V)
		}
	}
	return dst
}

// Decode reads a map.
func (s MapSerializer[K, V, KS, VS]) Decode(p []byte) ([]Entry[K, V], int, error) {
	n, err := count(p, 1)
	if err != nil {
		return nil, 0, err
	}
	v, at := make([]Entry[K, V], 0, min(n, maxPrealloc)), 4
	for range n {
		var e Entry[K, V]
		var size int
		if e.Key, size, err = s.Key.Decode(p[at:]); err != nil {
			return nil, 0, err
		}
		at += size
		null, err := flag(p[at:])
		if err != nil {
			return nil, 0, err
		}
		at++
		if !null {
			if e.Value.V, size, err = s.Value.Decode(p[at:]); err != nil {
				return nil, 0, err
			}
			e.Value.Valid = true
			at += size
		}
		v = append(v, e)
	}
	return v, at, nil
}

// NullableSerializer encodes a value that may be null: a byte, 1 if it is null and 0 if not, and the value if it is not
// (NullableSerializer without padding).
type NullableSerializer[T any, S Serializer[T]] struct {
	Value S
}

// Append appends a value or null.
func (s NullableSerializer[T, S]) Append(dst []byte, v Null[T]) []byte {
	dst = appendFlag(dst, !v.Valid)
	if v.Valid {
		dst = s.Value.Append(dst, v.V)
	}
	return dst
}

// Decode reads a value or null.
func (s NullableSerializer[T, S]) Decode(p []byte) (v Null[T], n int, err error) {
	null, err := flag(p)
	if err != nil {
		return v, 0, err
	}
	if null {
		return v, 1, nil
	}
	if v.V, n, err = s.Value.Decode(p[1:]); err != nil {
		return Null[T]{}, 0, err
	}
	v.Valid = true
	return v, 1 + n, nil
}

// PaddedNullableSerializer is NullableSerializer for values of fixed length; null is followed by as many zero bytes, so
// that all encodings are equally long (NullableSerializer with padding).
type PaddedNullableSerializer[T any, S FixedSerializer[T]] struct {
	Value S
}

// Append appends a value or null.
func (s PaddedNullableSerializer[T, S]) Append(dst []byte, v Null[T]) []byte {
	dst = appendFlag(dst, !v.Valid)
	if v.Valid {
		return s.Value.Append(dst, v.V)
	}
	for range s.Value.Len() {
		dst = append(dst, 0)
	}
	return dst
}

// Decode reads a value or null.
func (s PaddedNullableSerializer[T, S]) Decode(p []byte) (v Null[T], n int, err error) {
	v, n, err = NullableSerializer[T, S]{s.Value}.Decode(p)
	if err == nil && !v.Valid {
		if n = s.Len(); n > len(p) {
			return v, 0, ErrTruncated
		}
	}
	return v, n, err
}

// Len returns the length of a value and one.
func (s PaddedNullableSerializer[T, S]) Len() int { return 1 + s.Value.Len() }

// Either is a value of one of two types.
type Either[L, R any] struct {
	IsLeft bool
	Left   L // counts if IsLeft
	Right  R // counts if not
}

// EitherSerializer encodes an Either: a byte, 1 for left and 0 for right, and the value.
type EitherSerializer[L, R any, LS Serializer[L], RS Serializer[R]] struct {
	Left  LS
	Right RS
}

// Append appends an Either.
func (s EitherSerializer[L, R, LS, RS]) Append(dst []byte, v Either[L, R]) []byte {
	dst = appendFlag(dst, v.IsLeft)
	if v.IsLeft {
		return s.Left.Append(dst, v.Left)
	}
	return s.Right.Append(dst, v.Right)
}

// Decode reads an Either.
func (s EitherSerializer[L, R, LS, RS]) Decode(p []byte) (v Either[L, R], n int, err error) {
	if v.IsLeft, err = flag(p); err != nil {
		return v, 0, err
	}
	if v.IsLeft {
		v.Left, n, err = s.Left.Decode(p[1:])
	} else {
		v.Right, n, err = s.Right.Decode(p[1:])
	}
	if err != nil {
		return Either[L, R]{}, 0, err
	}
	return v, 1 + n, nil
}

// Variant is a semi-structured value in its encoded form, since Flink 2. The bytes are not looked into.
type Variant struct {
	Value    []byte
	Metadata []byte
}

// VariantSerializer encodes a Variant: i32 length of the value, i32 length of the metadata, value, metadata. The slices
// that Decode returns are views of p.
type VariantSerializer struct{}

// Append appends a variant.
func (VariantSerializer) Append(dst []byte, v Variant) []byte {
	dst = appendCount(dst, len(v.Value))
	dst = appendCount(dst, len(v.Metadata))
	dst = append(dst, v.Value...)
	return append(dst, v.Metadata...)
}

// Decode reads a variant.
func (VariantSerializer) Decode(p []byte) (Variant, int, error) {
	if len(p) < 8 {
		return Variant{}, 0, ErrTruncated
	}
	nv, _, _ := IntSerializer{}.Decode(p)
	nm, _, _ := IntSerializer{}.Decode(p[4:])
	if nv < 0 || nm < 0 {
		return Variant{}, 0, fmt.Errorf("%w: variant of %d and %d bytes", ErrCorrupt, nv, nm)
	}
	p = p[8:]
	if int(nv) > len(p) || int(nm) > len(p)-int(nv) {
		return Variant{}, 0, fmt.Errorf("%w: variant of %d and %d bytes in %d", ErrTruncated, nv, nm, len(p))
	}
	end := int(nv) + int(nm)
	return Variant{Value: p[:nv:nv], Metadata: p[nv:end:end]}, 8 + end, nil
}
