package serde_test

import (
	"fmt"
	"testing"

	"github.com/weirflow/weir/serde"
)

var (
	benchValues = func() []int64 {
		v := make([]int64, 1024)
		for i := range v {
			v[i] = int64(i) * 7919
		}
		return v
	}()
	benchText = "The quick brown fox jumps over the lazy dog"
)

// appendAll encodes values with a serializer that is a type parameter.
func appendAll[T any, S serde.Serializer[T]](s S, dst []byte, values []T) []byte {
	for _, v := range values {
		dst = s.Append(dst, v)
	}
	return dst
}

// appendBoxed encodes values with a serializer that is an interface, and boxed values, as a codec without generics does.
func appendBoxed(s serde.FieldSerializer, dst []byte, values []any) []byte {
	for _, v := range values {
		dst, _ = s.AppendAny(dst, v)
	}
	return dst
}

// BenchmarkSerializerCalls compares the ways to call a serializer, for 1024 longs: by its name (inlined), as a type
// parameter (through the dictionary of the instance), as an interface of the same form, and boxed. With Go 1.26 only the
// first is a direct call.
func BenchmarkSerializerCalls(b *testing.B) {
	buf := make([]byte, 0, 8*len(benchValues))
	boxed := make([]any, len(benchValues))
	for i, v := range benchValues {
		boxed[i] = v
	}
	field := serde.Field[int64](serde.LongSerializer{})
	var iface serde.Serializer[int64] = serde.LongSerializer{}
	for _, c := range []struct {
		call string
		f    func() []byte
	}{
		{"name", func() []byte {
			dst := buf
			for _, v := range benchValues {
				dst = serde.LongSerializer{}.Append(dst, v)
			}
			return dst
		}},
		{"parameter", func() []byte { return appendAll(serde.LongSerializer{}, buf, benchValues) }},
		{"interface", func() []byte { return appendAll(iface, buf, benchValues) }},
		{"boxed", func() []byte { return appendBoxed(field, buf, boxed) }},
	} {
		b.Run("call="+c.call, func(b *testing.B) {
			b.SetBytes(int64(8 * len(benchValues)))
			b.ReportAllocs()
			for b.Loop() {
				if len(c.f()) != 8*len(benchValues) {
					b.Fatal("wrong length")
				}
			}
		})
	}
}

// BenchmarkElement decodes and encodes a record with a timestamp.
func BenchmarkElement(b *testing.B) {
	for _, size := range []int{16, 1024} {
		e := serde.Element{Kind: serde.Record, HasTimestamp: true, Timestamp: 5, Value: make([]byte, size)}
		p := serde.AppendElement(nil, &e)
		b.Run(fmt.Sprintf("op=decode/size=%d", size), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := serde.DecodeElement(p, &e); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(fmt.Sprintf("op=append/size=%d", size), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				p = serde.AppendElement(p[:0], &e)
			}
		})
	}
}

// BenchmarkString compares the ways to read a string of 43 ASCII characters, and its hash code without reading it.
func BenchmarkString(b *testing.B) {
	p := serde.AppendString(nil, benchText)
	buf := make([]byte, 0, 64)
	for _, c := range []struct {
		op string
		f  func() bool
	}{
		{"append", func() bool { buf = serde.AppendString(buf[:0], benchText); return len(buf) == len(p) }},
		{"decode", func() bool { s, _, _ := serde.DecodeString(p); return len(s) == len(benchText) }},
		{"view", func() bool { _, _, ok := serde.StringView(p); return ok }},
		{"reuse", func() bool { t, _, _ := serde.AppendDecodedString(buf[:0], p); return len(t) == len(benchText) }},
		{"hash", func() bool { _, n, _ := serde.HashEncodedString(p); return n == len(p) }},
	} {
		b.Run("op="+c.op, func(b *testing.B) {
			b.SetBytes(int64(len(p)))
			b.ReportAllocs()
			for b.Loop() {
				if !c.f() {
					b.Fatal("wrong result")
				}
			}
		})
	}
}

// BenchmarkChannelOf picks the channel of an integer key.
func BenchmarkChannelOf(b *testing.B) {
	i := int32(0)
	for b.Loop() {
		if serde.ChannelOf(serde.HashInt(i), 128, 4) > 3 {
			b.Fatal("no such channel")
		}
		i++
	}
}
