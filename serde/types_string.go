package serde

import (
	"fmt"
	"math"

	"github.com/weirflow/weir/internal/javatext"
)

// Strings (StringValue.writeString): a var-int of the number of UTF-16 code units plus one, 0 for null; then each unit as
// a var-int. Var-ints have seven bits a byte, the lowest first.
//
// Go strings are UTF-8. An unpaired surrogate, which Java's strings may hold, is kept as the three bytes that its number
// would have in UTF-8 (WTF-8), so that every string comes back as it was. Any other byte that is not UTF-8 is written as
// U+FFFD.

// AppendString appends s. Text of ASCII characters costs one byte each.
func AppendString(dst []byte, s string) []byte {
	i := asciiPrefix(s, len(s))
	if i == len(s) {
		return append(appendVarint(dst, uint32(i)+1), s...) // each unit is its own byte
	}
	dst = appendVarint(dst, uint32(i+javatext.Units(s[i:]))+1)
	dst = append(dst, s[:i]...)
	return appendUnitsOf(dst, s[i:])
}

// AppendNullString appends the null string.
func AppendNullString(dst []byte) []byte { return append(dst, 0) }

// AppendStringUnits appends a string given as UTF-16 code units.
func AppendStringUnits(dst []byte, units []uint16) []byte {
	dst = appendVarint(dst, uint32(len(units))+1)
	for _, u := range units {
		dst = appendVarint(dst, uint32(u))
	}
	return dst
}

func appendUnitsOf(dst []byte, s string) []byte {
	for i := 0; i < len(s); {
		if c := s[i]; c < 0x80 {
			dst = append(dst, c)
			i++
			continue
		}
		r, size := javatext.DecodeRune(s[i:])
		i += size
		if r > 0xffff {
			hi, lo := javatext.Split(r)
			dst = appendVarint(dst, uint32(hi))
			dst = appendVarint(dst, uint32(lo))
			continue
		}
		dst = appendVarint(dst, uint32(r))
	}
	return dst
}

func appendVarint(dst []byte, v uint32) []byte {
	for v >= 0x80 {
		dst = append(dst, byte(v)|0x80)
		v >>= 7
	}
	return append(dst, byte(v))
}

// varint reads a var-int of at most five bytes; n is 0 if there is none.
func varint(p []byte) (v uint32, n int) {
	for n < len(p) && n < 5 {
		c := p[n]
		v |= uint32(c&0x7f) << (7 * n)
		n++
		if c < 0x80 {
			return v, n
		}
	}
	return 0, 0
}

// stringLen reads the length of a string: its units, or -1 for null.
func stringLen(p []byte) (units, n int, err error) {
	v, n := varint(p)
	switch {
	case n == 0 && len(p) < 5:
		return 0, 0, ErrTruncated
	case n == 0 || v > math.MaxInt32 || v == 0 && n > 1:
		return 0, 0, fmt.Errorf("%w: string length % x", ErrCorrupt, p[:min(5, len(p))])
	case int(v)-1 > len(p)-n:
		return 0, 0, fmt.Errorf("%w: string of %d units in %d bytes", ErrTruncated, v-1, len(p)-n)
	}
	return int(v) - 1, n, nil
}

// asciiPrefix returns how many of the first n bytes of p are ASCII, stopping at the first that isn't.
func asciiPrefix[T string | []byte](p T, n int) int {
	i := 0
	for ; i+8 <= n; i += 8 { // the compiler makes one load of the eight
		w := p[i:]
		_ = w[7]
		x := uint64(w[0]) | uint64(w[1])<<8 | uint64(w[2])<<16 | uint64(w[3])<<24 |
			uint64(w[4])<<32 | uint64(w[5])<<40 | uint64(w[6])<<48 | uint64(w[7])<<56
		if x&0x8080808080808080 != 0 {
			break
		}
	}
	for ; i < n && p[i] < 0x80; i++ {
	}
	return i
}

// decodeUnits appends units code units, encoded at the start of p, to dst as WTF-8, and returns the bytes read.
func decodeUnits(dst, p []byte, units int) ([]byte, int, error) {
	start, at := len(dst), asciiPrefix(p, min(units, len(p)))
	dst = append(dst, p[:at]...)
	for range units - at {
		if at < len(p) && p[at] < 0x80 {
			dst = append(dst, p[at])
			at++
			continue
		}
		v, n := varint(p[at:])
		if n == 0 {
			return dst[:start], 0, ErrTruncated
		}
		at += n
		dst = javatext.AppendUnit(dst, start, uint16(v)) // Java truncates to 16 bits, too
	}
	return dst, at, nil
}

// DecodeString decodes the string at the start of p. A null string is ErrNull.
func DecodeString(p []byte) (s string, n int, err error) {
	units, n, err := stringLen(p)
	if err != nil {
		return "", 0, err
	}
	if units < 0 {
		return "", 0, ErrNull
	}
	return decodeBody(p, n, units)
}

// decodeBody decodes the units that begin at p[n:] into a string of its own.
func decodeBody(p []byte, n, units int) (string, int, error) {
	if asciiPrefix(p[n:], units) == units {
		return string(p[n : n+units]), n + units, nil
	}
	var small [128]byte // short texts cost one allocation, that of the string
	b, size, err := decodeUnits(small[:0], p[n:], units)
	if err != nil {
		return "", 0, err
	}
	return string(b), n + size, nil
}

// AppendDecodedString decodes the string at the start of p and appends its text to dst. It allocates only when dst has no
// room. A null string is ErrNull. On error dst is returned as it was.
func AppendDecodedString(dst, p []byte) (text []byte, n int, err error) {
	units, n, err := stringLen(p)
	if err != nil {
		return dst, 0, err
	}
	if units < 0 {
		return dst, 0, ErrNull
	}
	dst, size, err := decodeUnits(dst, p[n:], units)
	if err != nil {
		return dst, 0, err
	}
	return dst, n + size, nil
}

// StringView returns the text of the string at the start of p without copying it: a view of p. ok tells that this can be
// done, that is that the string is not null and all its characters are ASCII; otherwise use DecodeString.
func StringView(p []byte) (text []byte, n int, ok bool) {
	units, n, err := stringLen(p)
	if err != nil || units < 0 || asciiPrefix(p[n:], units) < units {
		return nil, 0, false
	}
	return p[n : n+units : n+units], n + units, true
}

// StringSerializer encodes strings that are not null. Reading null is ErrNull. Decode allocates the string.
type StringSerializer struct{}

// Append appends a string.
func (StringSerializer) Append(dst []byte, v string) []byte { return AppendString(dst, v) }

// Decode reads a string.
func (StringSerializer) Decode(p []byte) (string, int, error) { return DecodeString(p) }

// NullableStringSerializer encodes strings that may be null: the same bytes as StringSerializer, with null.
type NullableStringSerializer struct{}

// Append appends a string or null.
func (NullableStringSerializer) Append(dst []byte, v Null[string]) []byte {
	if !v.Valid {
		return AppendNullString(dst)
	}
	return AppendString(dst, v.V)
}

// Decode reads a string or null.
func (NullableStringSerializer) Decode(p []byte) (v Null[string], n int, err error) {
	units, n, err := stringLen(p)
	if err != nil || units < 0 {
		return v, n, err
	}
	v.V, n, err = decodeBody(p, n, units)
	v.Valid = err == nil
	return v, n, err
}

// TextSerializer encodes strings, given as text in a byte slice, that are not null: the same bytes as StringSerializer.
// Decode returns a view of p if the text is ASCII, and allocates otherwise.
type TextSerializer struct{}

// Append appends a string.
func (TextSerializer) Append(dst, v []byte) []byte {
	if i := asciiPrefix(v, len(v)); i == len(v) {
		return append(appendVarint(dst, uint32(len(v))+1), v...)
	}
	return AppendString(dst, string(v))
}

// Decode reads a string.
func (TextSerializer) Decode(p []byte) ([]byte, int, error) {
	if text, n, ok := StringView(p); ok {
		return text, n, nil
	}
	return AppendDecodedString(nil, p)
}

// StringValueSerializer encodes Flink's StringValue: a var-int of the number of code units, without the one added, and
// no null.
type StringValueSerializer struct{}

// Append appends a StringValue.
func (StringValueSerializer) Append(dst []byte, v string) []byte {
	return appendUnitsOf(appendVarint(dst, uint32(javatext.Units(v))), v)
}

// Decode reads a StringValue.
func (StringValueSerializer) Decode(p []byte) (string, int, error) {
	v, n := varint(p)
	switch {
	case n == 0 && len(p) < 5:
		return "", 0, ErrTruncated
	case n == 0 || v > math.MaxInt32:
		return "", 0, fmt.Errorf("%w: string length % x", ErrCorrupt, p[:min(5, len(p))])
	case int(v) > len(p)-n:
		return "", 0, ErrTruncated
	}
	return decodeBody(p, n, int(v))
}
