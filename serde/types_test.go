package serde_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"math/big"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weirflow/weir/internal/javatext"
	"github.com/weirflow/weir/serde"
)

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	p, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// golden checks a value and its bytes both ways; size, if not 0, is what Len says.
func golden[T any, S serde.Serializer[T]](t *testing.T, s S, v T, text string) {
	t.Helper()
	want := unhex(t, text)
	if got := s.Append([]byte{7}, v); !bytes.Equal(got, append([]byte{7}, want...)) {
		t.Errorf("%T %v: got %x, want %x", s, v, got[1:], want)
	}
	got, n, err := s.Decode(append(bytes.Clone(want), 7))
	if err != nil || n != len(want) || fmt.Sprint(got) != fmt.Sprint(v) {
		t.Errorf("%T %x: got %v, %d bytes, %v; want %v", s, want, got, n, err, v)
	}
	if f, ok := any(s).(interface{ Len() int }); ok && f.Len() != len(want) {
		t.Errorf("%T: Len is %d, but %v took %d bytes", s, f.Len(), v, len(want))
	}
	for cut := range want {
		if v, n, err := s.Decode(want[:cut]); err == nil && n == len(want) {
			t.Errorf("%T: %d of %d bytes gave %v", s, cut, len(want), v)
		} else if err != nil && (!errors.Is(err, serde.ErrCorrupt) || n != 0) {
			t.Errorf("%T: %d of %d bytes: %d, %v", s, cut, len(want), n, err)
		}
	}
}

// TestGolden checks the examples observed in Flink.
func TestGolden(t *testing.T) {
	golden(t, serde.BooleanSerializer{}, true, "01")
	golden(t, serde.ByteSerializer{}, -2, "fe")
	golden(t, serde.ShortSerializer{}, -2, "fffe")
	golden(t, serde.CharSerializer{}, 0x4e2d, "4e2d")
	golden(t, serde.IntSerializer{}, 305419896, "12345678")
	golden(t, serde.LongSerializer{}, math.MinInt64, "8000000000000000")
	golden(t, serde.FloatSerializer{}, 1.5, "3fc00000")
	golden(t, serde.FloatSerializer{}, math.Float32frombits(0x7fc00001), "7fc00000")
	golden(t, serde.DoubleSerializer{}, 1.5, "3ff8000000000000")
	golden(t, serde.DoubleSerializer{}, math.Copysign(0, -1), "8000000000000000")
	golden(t, serde.DoubleSerializer{}, math.Float64frombits(0x7ff8000000000123), "7ff8000000000000")
	golden(t, serde.VoidSerializer{}, struct{}{}, "00")
	golden(t, serde.NullSerializer{}, struct{}{}, "")
	golden(t, serde.Tuple0Serializer{}, struct{}{}, "2a")
	golden(t, serde.EnumSerializer{N: 2}, 1, "00000001")

	golden(t, serde.BytesSerializer{}, []byte{1, 2, 3}, "00000003 010203")
	golden(t, serde.BitmapSerializer{}, []byte{1, 2, 3}, "00000003 010203")
	golden(t, serde.BooleanArraySerializer{}, []bool{true, false}, "00000002 01 00")
	golden(t, serde.ShortArraySerializer{}, []int16{1, -1}, "00000002 0001 ffff")
	golden(t, serde.CharArraySerializer{}, []uint16{'a', 0x4e2d}, "00000002 0061 4e2d")
	golden(t, serde.IntArraySerializer{}, []int32{1, -1}, "00000002 00000001 ffffffff")
	golden(t, serde.LongArraySerializer{}, []int64{-1}, "00000001 ffffffffffffffff")
	golden(t, serde.FloatArraySerializer{}, []float32{1.5}, "00000001 3fc00000")
	golden(t, serde.DoubleArraySerializer{}, []float64{1.5}, "00000001 3ff8000000000000")
	golden(t, serde.StringArraySerializer{}, []serde.Null[string]{serde.Some("a"), {}, serde.Some("")}, "00000003 0261 00 01")
	golden(t, serde.ArraySerializer[int32, serde.IntSerializer]{}, []serde.Null[int32]{serde.Some[int32](1), {}}, "00000002 01 00000001 00")
	golden(t, serde.ListSerializer[int32, serde.IntSerializer]{}, []int32{1, 2}, "00000002 00000001 00000002")
	golden(t, serde.ListSerializer[int32, serde.IntSerializer]{}, []int32{}, "00000000")
	golden(t, serde.ListSerializer[struct{}, serde.NullSerializer]{}, make([]struct{}, 3), "00000003")
	golden(t, serde.MapSerializer[string, int32, serde.StringSerializer, serde.IntSerializer]{},
		[]serde.Entry[string, int32]{{Key: "a", Value: serde.Some[int32](1)}, {Key: "b"}}, "00000002 0261 00 00000001 0262 01")
	golden(t, serde.SetSerializer[int32, serde.IntSerializer]{}, []serde.Null[int32]{serde.Some[int32](1), {}}, "00000002 00 00000001 01")
	golden(t, serde.NullableSerializer[int32, serde.IntSerializer]{}, serde.Null[int32]{}, "01")
	golden(t, serde.NullableSerializer[int32, serde.IntSerializer]{}, serde.Some[int32](5), "00 00000005")
	golden(t, serde.PaddedNullableSerializer[int32, serde.IntSerializer]{}, serde.Null[int32]{}, "01 00000000")
	golden(t, serde.PaddedNullableSerializer[int32, serde.IntSerializer]{}, serde.Some[int32](5), "00 00000005")
	type either = serde.EitherSerializer[int32, string, serde.IntSerializer, serde.StringSerializer]
	golden(t, either{}, serde.Either[int32, string]{IsLeft: true, Left: 1}, "01 00000001")
	golden(t, either{}, serde.Either[int32, string]{Right: "a"}, "00 0261")
	golden(t, serde.VariantSerializer{}, serde.Variant{Value: unhex(t, "1401000000"), Metadata: unhex(t, "010000")}, "00000005 00000003 1401000000 010000")

	golden(t, serde.Tuple1Serializer[int8, serde.ByteSerializer]{}, serde.Tuple1[int8]{F0: 1}, "01")
	golden(t, serde.Tuple2Serializer[serde.Null[string], int32, serde.NullableStringSerializer, serde.IntSerializer]{}, serde.Tuple2[serde.Null[string], int32]{F1: 1}, "00 00000001")
	type b = serde.ByteSerializer
	golden(t, serde.Tuple3Serializer[int8, int8, int8, b, b, b]{}, serde.Tuple3[int8, int8, int8]{F0: 1, F1: 2, F2: 3}, "010203")
	golden(t, serde.Tuple4Serializer[int8, int8, int8, int8, b, b, b, b]{}, serde.Tuple4[int8, int8, int8, int8]{F0: 1, F1: 2, F2: 3, F3: 4}, "01020304")
	golden(t, serde.Tuple5Serializer[int8, int8, int8, int8, int8, b, b, b, b, b]{}, serde.Tuple5[int8, int8, int8, int8, int8]{F0: 1, F1: 2, F2: 3, F3: 4, F4: 5}, "0102030405")
}

// TestGoldenStrings checks the observed encodings of strings, and the shortest length prefixes at their limits.
func TestGoldenStrings(t *testing.T) {
	const lone = "\xed\xa0\xbd" // D83D
	for _, tc := range []struct{ text, hex string }{
		{"", "01"}, {"a", "02 61"}, {"hello", "06 68656c6c6f"}, {"\x00", "02 00"}, {"\x7f", "02 7f"}, {"\u0080", "02 8001"},
		{"é", "02 e901"}, {"\u3fff", "02 ff7f"}, {"\u4000", "02 808001"}, {"\u4e2d", "02 ad9c01"}, {"\uffff", "02 ffff03"},
		{"\U0001f600", "03 bdb003 80bc03"}, {lone, "02 bdb003"}, {"\ufffd", "02 fdff03"},
	} {
		golden(t, serde.StringSerializer{}, tc.text, tc.hex)
		golden(t, serde.TextSerializer{}, []byte(tc.text), tc.hex)
		golden(t, serde.NullableStringSerializer{}, serde.Some(tc.text), tc.hex)
		p := unhex(t, tc.hex)
		if got := serde.AppendStringUnits(nil, javatext.AppendUnits(nil, tc.text)); !bytes.Equal(got, p) {
			t.Errorf("%q by units: %x", tc.text, got)
		}
		text, n, err := serde.AppendDecodedString([]byte("x"), p)
		if string(text) != "x"+tc.text || n != len(p) || err != nil {
			t.Errorf("AppendDecodedString(%x): %q, %d, %v", p, text, n, err)
		}
	}
	golden(t, serde.NullableStringSerializer{}, serde.Null[string]{}, "00")
	golden(t, serde.StringValueSerializer{}, "hello", "05 68656c6c6f")
	golden(t, serde.StringValueSerializer{}, "", "00")
	for n, prefix := range map[int]string{126: "7f", 127: "8001", 128: "8101", 16382: "ff7f", 16383: "808001", 2097150: "ffff7f", 2097151: "80808001"} {
		want := unhex(t, prefix)
		p := serde.AppendString(nil, strings.Repeat("a", n))
		if !bytes.HasPrefix(p, want) || len(p) != n+len(want) {
			t.Errorf("%d units: %x, %d bytes, want prefix %x", n, p[:5], len(p), want)
		}
	}
	// Flink's decoder takes longer forms of the length and of units.
	for text, want := range map[string]string{"8100": "", "828000 61": "a", "02 8000": "\x00"} {
		if got, n, err := serde.DecodeString(unhex(t, text)); got != want || err != nil || n != len(unhex(t, text)) {
			t.Errorf("%s: %q, %d, %v", text, got, n, err)
		}
	}
	for _, text := range []string{"", "80", "8000", "ffffffff0f", "ffffffffff01", "ffffffff7f", "8080808080", "03 61", "02 80", "02 ffffffffff"} {
		for _, s := range []serde.Serializer[string]{serde.StringSerializer{}, serde.StringValueSerializer{}} {
			if text == "8000" && s == (serde.StringValueSerializer{}) {
				continue // a long form of 0 units
			}
			if v, _, err := s.Decode(unhex(t, text)); !errors.Is(err, serde.ErrCorrupt) {
				t.Errorf("%T %s: %q, %v", s, text, v, err)
			}
		}
		if _, _, ok := serde.StringView(unhex(t, text)); ok {
			t.Errorf("StringView of %s", text)
		}
		if _, _, err := serde.HashEncodedString(unhex(t, text)); !errors.Is(err, serde.ErrCorrupt) {
			t.Errorf("HashEncodedString of %s: %v", text, err)
		}
	}
	if v, _, err := (serde.NullableStringSerializer{}).Decode([]byte{0x80, 0}); !errors.Is(err, serde.ErrCorrupt) || v.Valid {
		t.Errorf("a long form of null: %v, %v", v, err)
	}
	if _, _, err := serde.DecodeString([]byte{0}); !errors.Is(err, serde.ErrNull) {
		t.Errorf("null: %v", err)
	}
	if _, _, err := serde.HashEncodedString([]byte{0}); !errors.Is(err, serde.ErrNull) {
		t.Errorf("hash of null: %v", err)
	}
	if got := serde.AppendString(nil, "a\xffb"); !bytes.Equal(got, serde.AppendString(nil, "a\ufffdb")) {
		t.Errorf("a byte that is not UTF-8: %x", got)
	}
}

// TestGoldenBig checks the observed encodings of big numbers.
func TestGoldenBig(t *testing.T) {
	num := func(s string) *big.Int {
		v, ok := new(big.Int).SetString(s, 0)
		if !ok {
			t.Fatal(s)
		}
		return v
	}
	for _, tc := range []struct{ n, hex string }{
		{"0", "00000001"}, {"1", "00000002"}, {"10", "00000003"}, {"2", "00000005 02"}, {"-1", "00000005 ff"}, {"128", "00000006 0080"},
		{"-128", "00000005 80"}, {"-129", "00000006 ff7f"}, {"0x10000000000000000", "0000000d 010000000000000000"}, {"-0x8000", "00000006 8000"},
	} {
		golden(t, serde.BigIntSerializer{}, num(tc.n), tc.hex)
	}
	golden(t, serde.BigIntSerializer{}, nil, "00000000")
	golden(t, serde.BigDecSerializer{}, serde.Decimal{}, "00000000")
	for _, tc := range []struct {
		n     string
		scale int32
		hex   string
	}{
		{"12345", 2, "00000006 3039 00000002"}, {"10", 1, "00000003 00000001"}, {"0", 2, "00000001 00000002"}, {"-1", -3, "00000005 ff fffffffd"},
		{"123456789012345678901", 0, "0000000d 06b14e9f812f366c35 00000000"},
	} {
		golden(t, serde.BigDecSerializer{}, serde.Decimal{Unscaled: num(tc.n), Scale: tc.scale}, tc.hex)
	}
	for text, want := range map[string]string{"00000005 00": "0", "00000005 01": "1", "00000005 0a": "10"} {
		if got, n, err := (serde.BigIntSerializer{}).Decode(unhex(t, text)); err != nil || got.String() != want || n != 5 {
			t.Errorf("long form %s: %v, %d, %v", text, got, n, err)
		}
	}
	for _, text := range []string{"00000004", "ffffffff", "80000000", "7fffffff", "00000006 00"} {
		if v, _, err := (serde.BigIntSerializer{}).Decode(unhex(t, text)); !errors.Is(err, serde.ErrCorrupt) {
			t.Errorf("%s: %v, %v", text, v, err)
		}
	}
}

// TestGoldenTimes checks the observed encodings of dates and times, and what Java refuses.
func TestGoldenTimes(t *testing.T) {
	golden(t, serde.DateSerializer{}, 1000, "00000000000003e8")
	golden(t, serde.DateSerializer{}, serde.NullDate, "8000000000000000")
	golden(t, serde.TimestampSerializer{}, serde.Timestamp{Millis: 1123, Nanos: 123456789}, "0000000000000463 075bcd15")
	golden(t, serde.TimestampSerializer{}, serde.Timestamp{Millis: -1, Nanos: 999000000}, "ffffffffffffffff 3b8b87c0")
	golden(t, serde.TimestampSerializer{}, serde.NullTimestamp, "8000000000000000 00000000")
	golden(t, serde.InstantSerializer{}, serde.Instant{Seconds: 1, Nanos: 5}, "0000000000000001 00000005")
	golden(t, serde.InstantSerializer{}, serde.Instant{Seconds: -1, Nanos: 999000000}, "ffffffffffffffff 3b8b87c0")
	golden(t, serde.InstantSerializer{}, serde.NullInstant, "8000000000000000 80000000")
	golden(t, serde.LocalDateSerializer{}, serde.LocalDate{Year: 2024, Month: 2, Day: 29}, "000007e8 02 1d")
	golden(t, serde.LocalDateSerializer{}, serde.NullLocalDate, "80000000 8000")
	golden(t, serde.LocalTimeSerializer{}, serde.LocalTime{Hour: 12, Minute: 34, Second: 56, Nano: 500000000}, "0c 22 38 1dcd6500")
	golden(t, serde.LocalTimeSerializer{}, serde.NullLocalTime, "80 8000 80000000")
	golden(t, serde.LocalDateTimeSerializer{}, serde.NullLocalDateTime, "80000000 8000 80 8000 80000000")
	golden(t, serde.LocalDateTimeSerializer{}, serde.LocalDateTime{Date: serde.LocalDate{Year: -1, Month: 12, Day: 31}, Time: serde.LocalTime{Hour: 23}}, "ffffffff 0c 1f 17 00 00 00000000")

	bad := func(name string, err error) {
		t.Helper()
		if !errors.Is(err, serde.ErrCorrupt) {
			t.Errorf("%s: error %v", name, err)
		}
	}
	for _, text := range []string{"000007e7021d", "0000076c021d", "000007e70d01", "000007e70001", "000007e70100", "000007e70120", "000007e7041f", "3b9aca000101"} {
		_, _, err := serde.LocalDateSerializer{}.Decode(unhex(t, text))
		bad(text, err)
	}
	for _, text := range []string{"18000000000000", "003c0000000000", "00003c00000000", "0000003b9aca00", "000000ffffffff"} {
		_, _, err := serde.LocalTimeSerializer{}.Decode(unhex(t, text))
		bad(text, err)
	}
	for _, text := range []string{"800000008000" + "00000000000000", "000000000101" + "80800080000000"} {
		_, _, err := serde.LocalDateTimeSerializer{}.Decode(unhex(t, text))
		bad(text, err)
	}
	for _, text := range []string{"0000000000000000ffffffff", "00000000000000003b9aca00"} {
		_, _, err := serde.TimestampSerializer{}.Decode(unhex(t, text))
		bad(text, err)
	}
	for _, text := range []string{"800000000000000000000000", "7fffffffffffffff00000000"} {
		_, _, err := serde.InstantSerializer{}.Decode(unhex(t, text))
		bad(text, err)
	}
	if v, _, err := (serde.InstantSerializer{}).Decode(unhex(t, "0000000000000005ffffffff")); err != nil || v != (serde.Instant{Seconds: 4, Nanos: 999999999}) {
		t.Errorf("an instant with -1 ns: %v, %v", v, err)
	}
	if v, _, err := (serde.LocalDateSerializer{}).Decode(unhex(t, "000007d0021d")); err != nil {
		t.Errorf("29 February 2000: %v, %v", v, err)
	}
	now := time.Unix(-5, 123456789).UTC()
	if got := serde.InstantOf(now).Time(); !got.Equal(now) {
		t.Errorf("instant of %v: %v", now, got)
	}
	if got := serde.TimestampOf(now).Time(); !got.Equal(now) {
		t.Errorf("timestamp of %v: %v", now, got)
	}
}

// TestGoldenRows checks the observed encodings of rows and their masks.
func TestGoldenRows(t *testing.T) {
	s := serde.RowSerializer{Fields: []serde.FieldSerializer{serde.Field[int32](serde.IntSerializer{}), serde.Field[string](serde.StringSerializer{}), serde.Field[int64](serde.LongSerializer{})}}
	golden(t, s, serde.Row{Fields: []any{int32(1), nil, int64(2)}}, "10 00000001 0000000000000002")
	for kind, head := range map[serde.RowKind]string{serde.Insert: "08", serde.UpdateBefore: "88", serde.UpdateAfter: "48", serde.Delete: "c8"} {
		golden(t, s, serde.Row{Kind: kind, Fields: []any{int32(1), "x", nil}}, head+" 00000001 0278")
	}
	legacy := s
	legacy.Legacy = true
	golden(t, legacy, serde.Row{Fields: []any{int32(1), nil, int64(2)}}, "40 00000001 0000000000000002")
	golden(t, serde.RowSerializer{}, serde.Row{Fields: []any{}}, "00")
	golden(t, serde.RowSerializer{Legacy: true}, serde.Row{Fields: []any{}}, "")
	f := serde.Field[int8](serde.ByteSerializer{})
	seven := serde.RowSerializer{Fields: []serde.FieldSerializer{f, f, f, f, f, f, f}}
	golden(t, seven, serde.Row{Kind: serde.UpdateBefore, Fields: []any{int8(0), nil, int8(2), nil, int8(4), nil, int8(6)}}, "9500 00 02 04 06")

	for _, r := range []serde.Row{
		{Fields: []any{int32(1)}},
		{Fields: []any{int32(1), "x", "y"}},
		{Kind: 4, Fields: []any{int32(1), "x", nil}},
	} {
		if err := s.Check(r); !errors.Is(err, serde.ErrInvalid) {
			t.Errorf("%v: Check says %v", r, err)
		}
		if p := s.Append(nil, r); len(p) != 0 {
			t.Errorf("%v: encoded as %x", r, p)
		}
	}
	if got := serde.RowKind(9).String() + serde.Delete.String(); got != "RowKind(9)-D" {
		t.Errorf("names: %s", got)
	}
}

// codec hides the type of a serializer. decode decodes p; again also encodes the value.
type codec struct {
	name   string
	again  func(p []byte) (value string, encoded []byte, n int, err error)
	decode func(p []byte) (n int, err error)
}

func codecOf[T any, S serde.Serializer[T]](s S) codec {
	decode := func(p []byte) (int, error) {
		_, n, err := s.Decode(p)
		return n, err
	}
	again := func(p []byte) (string, []byte, int, error) {
		v, n, err := s.Decode(p)
		if err != nil {
			return "", nil, n, err
		}
		return fmt.Sprint(v), s.Append(nil, v), n, nil
	}
	return codec{fmt.Sprintf("%T", s), again, decode}
}

// codecs has every serializer of the package at least once.
var codecs = []codec{
	codecOf(serde.BooleanSerializer{}), codecOf(serde.ByteSerializer{}), codecOf(serde.ShortSerializer{}), codecOf(serde.CharSerializer{}),
	codecOf(serde.IntSerializer{}), codecOf(serde.LongSerializer{}), codecOf(serde.FloatSerializer{}), codecOf(serde.DoubleSerializer{}),
	codecOf(serde.VoidSerializer{}), codecOf(serde.NullSerializer{}), codecOf(serde.Tuple0Serializer{}), codecOf(serde.EnumSerializer{N: 3}),
	codecOf(serde.StringSerializer{}), codecOf(serde.NullableStringSerializer{}), codecOf(serde.TextSerializer{}), codecOf(serde.StringValueSerializer{}),
	codecOf(serde.BytesSerializer{}), codecOf(serde.BitmapSerializer{}), codecOf(serde.BooleanArraySerializer{}), codecOf(serde.ShortArraySerializer{}),
	codecOf(serde.CharArraySerializer{}), codecOf(serde.IntArraySerializer{}), codecOf(serde.LongArraySerializer{}), codecOf(serde.FloatArraySerializer{}),
	codecOf(serde.DoubleArraySerializer{}), codecOf(serde.StringArraySerializer{}), codecOf(serde.VariantSerializer{}),
	codecOf(serde.BigIntSerializer{}), codecOf(serde.BigDecSerializer{}),
	codecOf(serde.DateSerializer{}), codecOf(serde.TimestampSerializer{}), codecOf(serde.InstantSerializer{}),
	codecOf(serde.LocalDateSerializer{}), codecOf(serde.LocalTimeSerializer{}), codecOf(serde.LocalDateTimeSerializer{}),
	codecOf(serde.ArraySerializer[int64, serde.LongSerializer]{}), codecOf(serde.SetSerializer[string, serde.StringSerializer]{}),
	codecOf(serde.ListSerializer[string, serde.StringSerializer]{}), codecOf(serde.ListSerializer[struct{}, serde.NullSerializer]{}),
	codecOf(serde.ListSerializer[[]int64, serde.LongArraySerializer]{}),
	codecOf(serde.MapSerializer[string, int32, serde.StringSerializer, serde.IntSerializer]{}),
	codecOf(serde.NullableSerializer[int64, serde.LongSerializer]{}), codecOf(serde.PaddedNullableSerializer[int64, serde.LongSerializer]{}),
	codecOf(serde.EitherSerializer[string, int64, serde.StringSerializer, serde.LongSerializer]{}),
	codecOf(serde.Tuple1Serializer[string, serde.StringSerializer]{}),
	codecOf(serde.Tuple2Serializer[string, int64, serde.StringSerializer, serde.LongSerializer]{}),
	codecOf(serde.Tuple3Serializer[int32, string, float64, serde.IntSerializer, serde.StringSerializer, serde.DoubleSerializer]{}),
	codecOf(serde.Tuple4Serializer[int8, int8, int8, string, serde.ByteSerializer, serde.ByteSerializer, serde.ByteSerializer, serde.StringSerializer]{}),
	codecOf(serde.Tuple5Serializer[int8, int8, int8, int8, string, serde.ByteSerializer, serde.ByteSerializer, serde.ByteSerializer, serde.ByteSerializer, serde.StringSerializer]{}),
	codecOf(serde.RowSerializer{Fields: []serde.FieldSerializer{serde.Field[string](serde.StringSerializer{}), serde.Field[int32](serde.IntSerializer{}), serde.Field[*big.Int](serde.BigIntSerializer{})}}),
	codecOf(serde.RowSerializer{Legacy: true, Fields: []serde.FieldSerializer{serde.Field[string](serde.StringSerializer{})}}),
}

// checkCodec decodes p and checks that an error is a corrupt one, and that a value survives its own encoding.
func checkCodec(c codec, p []byte) error {
	v, q, n, err := c.again(p)
	if err != nil {
		if !errors.Is(err, serde.ErrCorrupt) || n != 0 {
			return fmt.Errorf("%s %x: %d bytes, error %w", c.name, p, n, err)
		}
		return nil
	}
	if n < 0 || n > len(p) {
		return fmt.Errorf("%s %x: took %d bytes", c.name, p, n)
	}
	w, r, m, err := c.again(q)
	if err != nil || v != w || !bytes.Equal(q, r) || m != len(q) {
		return fmt.Errorf("%s %x: %s encoded as %x; that: %s, %x, %d bytes, %w", c.name, p, v, q, w, r, m, err)
	}
	return nil
}

// TestRandomBytes feeds random bytes, most of them small, to every serializer.
func TestRandomBytes(t *testing.T) {
	decoded := map[string]int{}
	piece := rapid.OneOf(
		rapid.SliceOfN(rapid.Byte(), 1, 8),
		rapid.SliceOfN(rapid.ByteRange(0, 2), 1, 8),
		rapid.SampledFrom([][]byte{{0, 0, 0, 0}, {0, 0, 0, 1}, {0, 0, 0, 2}, {0, 0, 0, 6}, {2, 'a'}, {0x7f}, {0x80}, {0xff}, {0, 0, 7, 0xe8, 2, 0x1d}, make([]byte, 8)}),
	)
	rapid.Check(t, func(t *rapid.T) {
		for range 20 {
			p := bytes.Join(rapid.SliceOfN(piece, 0, 12).Draw(t, "pieces"), nil)
			for _, c := range codecs {
				if err := checkCodec(c, p); err != nil {
					t.Fatal(err)
				}
				if _, err := c.decode(p); err == nil {
					decoded[c.name]++
				}
			}
		}
	})
	for _, c := range codecs {
		if decoded[c.name] == 0 {
			t.Errorf("%s decoded nothing", c.name)
		}
	}
}

// TestHostileLengths checks that no length is believed: the greatest ones, in few bytes, cost next to no memory.
func TestHostileLengths(t *testing.T) {
	for _, text := range []string{"7fffffff", "7fffffff 00000000", "7ffffffb 00", "ffffffff07 61", "feffffff07 61", "00010001", "0000ffff 00", "80000000", "7fffffff 7fffffff 00"} {
		p := unhex(t, text)
		for _, c := range codecs {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			n, err := c.decode(p)
			runtime.ReadMemStats(&after)
			if m := after.TotalAlloc - before.TotalAlloc; m > 256<<10 {
				t.Errorf("%s %x: allocated %d bytes for %d bytes, %v", c.name, p, m, n, err)
			}
			if err := checkCodec(c, p); err != nil {
				t.Error(err)
			}
		}
	}
}

// TestStringsOfAllUnits checks that every sequence of UTF-16 code units comes back, as do its hash code and its view.
func TestStringsOfAllUnits(t *testing.T) {
	pairs, lone := 0, 0
	unit := rapid.OneOf(rapid.Uint16Range(0, 0x7f), rapid.Uint16Range(0xd800, 0xdbff), rapid.Uint16Range(0xdc00, 0xdfff), rapid.Uint16())
	lengths := rapid.OneOf(rapid.IntRange(0, 20), rapid.SampledFrom([]int{125, 126, 127, 16381, 16382, 16383}))
	rapid.Check(t, func(t *rapid.T) {
		some := rapid.SliceOfN(unit, 1, 20).Draw(t, "units")
		n := lengths.Draw(t, "length")
		units := make([]uint16, n)
		for i := range units {
			units[i] = some[i%len(some)]
		}
		text := javatext.FromUnits(units)
		p := serde.AppendStringUnits(nil, units)
		if q := serde.AppendString(nil, text); !bytes.Equal(p, q) {
			t.Fatalf("%04x: %x by units, %x by text", units, p, q)
		}
		got, size, err := serde.DecodeString(append(p, 1))
		if err != nil || got != text || size != len(p) {
			t.Fatalf("%04x: decoded %q, %d, %v", units, got, size, err)
		}
		if back := javatext.AppendUnits(nil, got); !slices.Equal(back, units) {
			t.Fatalf("%04x came back as %04x", units, back)
		}
		h, size, err := serde.HashEncodedString(p)
		if err != nil || h != serde.HashUnits(units) || h != serde.HashString(text) || size != len(p) {
			t.Fatalf("%04x: hash code %d, of units %d, of text %d, %v", units, h, serde.HashUnits(units), serde.HashString(text), err)
		}
		if v, _, ok := serde.StringView(p); ok && string(v) != text || ok != javaASCII(units) {
			t.Fatalf("%04x: view %q, %t", units, v, ok)
		}
		for i := 0; i < len(units); i++ {
			switch u := units[i]; {
			case u&0xfc00 == 0xd800 && i+1 < len(units) && units[i+1]&0xfc00 == 0xdc00:
				pairs++
				i++
			case u&0xf800 == 0xd800:
				lone++
			}
		}
	})
	if pairs == 0 || lone == 0 {
		t.Errorf("%d pairs and %d lone surrogates were tried", pairs, lone)
	}
}

func javaASCII(units []uint16) bool {
	for _, u := range units {
		if u >= 0x80 {
			return false
		}
	}
	return true
}

// TestBigIntModel compares with the definition: minimal two's complement.
func TestBigIntModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := rapid.SliceOfN(rapid.OneOf(rapid.Byte(), rapid.SampledFrom([]byte{0, 0x7f, 0x80, 0xff})), 1, 20).Draw(t, "bytes")
		v := new(big.Int).SetBytes(b)
		if b[0] >= 0x80 {
			v.Sub(v, new(big.Int).Lsh(big.NewInt(1), uint(8*len(b))))
		}
		for len(b) > 1 && (b[0] == 0 && b[1] < 0x80 || b[0] == 0xff && b[1] >= 0x80) {
			b = b[1:]
		}
		p := serde.BigIntSerializer{}.Append(nil, v)
		if len(p) > 4 && !bytes.Equal(p[4:], b) {
			t.Fatalf("%v: %x, want %x", v, p, b)
		}
		if got, n, err := (serde.BigIntSerializer{}).Decode(p); err != nil || got.Cmp(v) != 0 || n != len(p) {
			t.Fatalf("%v: %x decoded as %v, %d, %v", v, p, got, n, err)
		}
	})
}

// TestDecodeValueSER01 is SER-01 for typed values: a serializer that reads 9 or 11 bytes of a record of 10 is reported at
// this record, with both numbers, and the next record is read as if nothing had happened.
func TestDecodeValueSER01(t *testing.T) {
	rec := serde.BytesSerializer{}.Append(nil, []byte("123456"))
	if v, err := serde.DecodeValue(serde.BytesSerializer{}, rec); err != nil || string(v) != "123456" {
		t.Fatalf("a record of 10 bytes: %q, %v", v, err)
	}
	short := append([]byte{0, 0, 0, 5}, rec[4:]...)
	if _, err := serde.DecodeValue(serde.BytesSerializer{}, short); !errors.Is(err, serde.ErrUnderread) || !strings.Contains(err.Error(), "length 10, consumed 9") {
		t.Errorf("a reader of 9 bytes: %v", err)
	}
	long := append([]byte{0, 0, 0, 7}, rec[4:]...)
	if _, err := serde.DecodeValue(serde.BytesSerializer{}, long); !errors.Is(err, serde.ErrTruncated) {
		t.Errorf("a reader of 11 bytes: %v", err)
	}
	if v, err := serde.DecodeValue(serde.BytesSerializer{}, rec); err != nil || string(v) != "123456" {
		t.Errorf("the record after them: %q, %v", v, err)
	}
}
