//go:build !race

package serde_test

import (
	"testing"

	"github.com/weirflow/weir/internal/alloctest"
	"github.com/weirflow/weir/serde"
)

// TestElementAllocations checks that elements cost no memory, either way.
func TestElementAllocations(t *testing.T) {
	for _, tc := range elements {
		p := serde.AppendElement(nil, &tc.e)
		buf := make([]byte, 0, 64)
		var e serde.Element
		alloctest.Zero(t, 10, 1000, func() {
			if serde.DecodeElement(p, &e) != nil {
				t.Fatal("not decoded")
			}
			buf = serde.AppendElement(buf[:0], &e)
		})
	}
}

// roundTrip returns a function that encodes and decodes v. The serializer is a type parameter there.
func roundTrip[T any, S serde.Serializer[T]](t *testing.T, s S, v T) func() {
	buf := make([]byte, 0, 256)
	return func() {
		buf = s.Append(buf[:0], v)
		if _, n, err := s.Decode(buf); n != len(buf) || err != nil {
			t.Fatal(n, err)
		}
	}
}

// TestTypeAllocations checks that values without memory of their own cost none, also where a serializer is a type
// parameter, and inside of tuples, Nullable and Either.
func TestTypeAllocations(t *testing.T) {
	type tuple = serde.Tuple2Serializer[[]byte, int64, serde.TextSerializer, serde.LongSerializer]
	for name, f := range map[string]func(){
		"long":      roundTrip(t, serde.LongSerializer{}, 5),
		"double":    roundTrip(t, serde.DoubleSerializer{}, 5.5),
		"bytes":     roundTrip(t, serde.BytesSerializer{}, []byte("payload")),
		"text":      roundTrip(t, serde.TextSerializer{}, []byte("some ASCII text")),
		"instant":   roundTrip(t, serde.InstantSerializer{}, serde.Instant{Seconds: 5}),
		"date":      roundTrip(t, serde.LocalDateTimeSerializer{}, serde.NullLocalDateTime),
		"variant":   roundTrip(t, serde.VariantSerializer{}, serde.Variant{Value: []byte{0}}),
		"tuple":     roundTrip(t, tuple{}, serde.Tuple2[[]byte, int64]{F0: []byte("key"), F1: 5}),
		"nullable":  roundTrip(t, serde.NullableSerializer[int64, serde.LongSerializer]{}, serde.Some[int64](5)),
		"padded":    roundTrip(t, serde.PaddedNullableSerializer[int64, serde.LongSerializer]{}, serde.Null[int64]{}),
		"either":    roundTrip(t, serde.EitherSerializer[int64, []byte, serde.LongSerializer, serde.TextSerializer]{}, serde.Either[int64, []byte]{Right: []byte("x")}),
		"value":     func() { mustValue(t) },
		"partition": func() { partition(t) },
	} {
		t.Run(name, func(t *testing.T) { alloctest.Zero(t, 10, 1000, f) })
	}
	// Encoding a string costs nothing either; decoding one costs the string.
	buf := make([]byte, 0, 64)
	text := make([]byte, 0, 64)
	alloctest.Zero(t, 10, 1000, func() {
		buf = serde.AppendString(buf[:0], "Grüße, \U0001f600")
		var err error
		if text, _, err = serde.AppendDecodedString(text[:0], buf); err != nil {
			t.Fatal(err)
		}
	})
}

var valueBytes = serde.LongSerializer{}.Append(nil, 77)

func mustValue(t *testing.T) {
	if v, err := serde.DecodeValue(serde.LongSerializer{}, valueBytes); v != 77 || err != nil {
		t.Fatal(v, err)
	}
}

var keyBytes = serde.AppendString(nil, "user-Ж-4711")

// partition is what a partitioner does with a record whose key is a string and a long.
func partition(t *testing.T) {
	h, _, err := serde.HashEncodedString(keyBytes)
	if err != nil {
		t.Fatal(err)
	}
	if ch := serde.ChannelOf(serde.HashTuple(h, serde.HashLong(5)), 128, 4); ch < 0 || ch > 3 {
		t.Fatal(ch)
	}
}
