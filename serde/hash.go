package serde

import (
	"fmt"
	"math/big"

	"github.com/weirflow/weir/internal/javatext"
)

// Java's hash codes, of which key groups are made. Types whose hash code differs between processes (enums, arrays) must not
// be keys and have no function here. None of these functions allocates, unless it says so.

// HashBoolean is Boolean.hashCode.
func HashBoolean(v bool) int32 {
	if v {
		return 1231
	}
	return 1237
}

// HashInt is Integer.hashCode, and that of Byte, Short, Character and the Value types of all four.
func HashInt(v int32) int32 { return v }

// HashLong is Long.hashCode; also of a Date, in milliseconds.
func HashLong(v int64) int32 { return int32(v ^ int64(uint64(v)>>32)) }

// HashFloat is Float.hashCode, and that of FloatValue.
func HashFloat(v float32) int32 { return int32(floatBits(v)) }

// HashDouble is Double.hashCode.
func HashDouble(v float64) int32 { return HashLong(int64(doubleBits(v))) }

// HashBooleanValue is BooleanValue.hashCode.
func HashBooleanValue(v bool) int32 {
	if v {
		return 1
	}
	return 0
}

// HashLongValue is LongValue.hashCode.
func HashLongValue(v int64) int32 { return 43 + HashLong(v) }

// HashDoubleValue is DoubleValue.hashCode.
func HashDoubleValue(v float64) int32 { return 31 + HashDouble(v) }

// HashNullValue is NullValue.hashCode.
func HashNullValue() int32 { return 53 }

// HashString is String.hashCode, and that of StringValue, over the UTF-16 code units of the text.
func HashString(s string) int32 {
	var h int32
	for i := 0; i < len(s); {
		if c := s[i]; c < 0x80 {
			h = 31*h + int32(c)
			i++
			continue
		}
		r, size := javatext.DecodeRune(s[i:])
		i += size
		if r > 0xffff {
			hi, lo := javatext.Split(r)
			h = 31*h + int32(hi)
			r = rune(lo)
		}
		h = 31*h + r
	}
	return h
}

// HashUnits is String.hashCode over UTF-16 code units.
func HashUnits(units []uint16) int32 {
	var h int32
	for _, u := range units {
		h = 31*h + int32(u)
	}
	return h
}

// HashEncodedString is String.hashCode of the encoded string at the start of p, without decoding it; n is the number of
// bytes that the string takes. A null string has no hash code: ErrNull.
func HashEncodedString(p []byte) (hash int32, n int, err error) {
	units, at, err := stringLen(p)
	if err != nil {
		return 0, 0, err
	}
	if units < 0 {
		return 0, 0, ErrNull
	}
	for range units {
		if at < len(p) && p[at] < 0x80 {
			hash = 31*hash + int32(p[at])
			at++
			continue
		}
		v, size := varint(p[at:])
		if size == 0 {
			return 0, 0, ErrTruncated
		}
		at += size
		hash = 31*hash + int32(uint16(v))
	}
	return hash, at, nil
}

// HashTuple is the hash code of Tuple1 to Tuple25 whose fields have the given hash codes, 0 for a null one. That of Tuple0
// is 0.
func HashTuple(fields ...int32) int32 {
	if len(fields) == 0 {
		return 0
	}
	h := fields[0]
	for _, f := range fields[1:] {
		h = 31*h + f
	}
	return h
}

// HashList is the hash code of a List whose elements have the given hash codes, 0 for a null one.
func HashList(elements ...int32) int32 {
	h := int32(1)
	for _, e := range elements {
		h = 31*h + e
	}
	return h
}

// HashRow is the hash code of a row by position, whose fields have the given parts (RowUtils#deepHashCodeRow): 0 for null,
// HashList for a List of parts, HashRowField for every other value. The kind takes part, so a key must always have the same.
func HashRow(kind RowKind, parts ...int32) int32 { return 31*int32(kind) + HashList(parts...) }

// HashRowField is the part of a row's hash that a value with the given hash code has.
func HashRowField(hash int32) int32 { return 31 + hash }

// HashBigInt is BigInteger.hashCode. v must not be nil.
func HashBigInt(v *big.Int) int32 {
	var h int32
	words := v.Bits()
	seen := false
	word := func(w uint32) {
		if seen = seen || w != 0; seen {
			h = 31*h + int32(w)
		}
	}
	for i := len(words) - 1; i >= 0; i-- {
		if w := uint64(words[i]); ^big.Word(0)>>32 != 0 {
			word(uint32(w >> 32))
			word(uint32(w))
		} else {
			word(uint32(w))
		}
	}
	return h * int32(v.Sign())
}

// HashDecimal is BigDecimal.hashCode. Its Unscaled must not be nil.
func HashDecimal(v Decimal) int32 {
	if !v.Unscaled.IsInt64() {
		return 31*HashBigInt(v.Unscaled) + v.Scale
	}
	u := v.Unscaled.Int64()
	a := uint64(u)
	if u < 0 {
		a = -a
	}
	t := int32(uint32(a>>32)*31 + uint32(a))
	if u < 0 {
		t = -t
	}
	return 31*t + v.Scale
}

// HashInstant is Instant.hashCode.
func HashInstant(v Instant) int32 { return HashLong(v.Seconds) + 51*v.Nanos }

// HashLocalDate is LocalDate.hashCode.
func HashLocalDate(v LocalDate) int32 {
	return int32(uint32(v.Year)&0xfffff800) ^ (v.Year<<11 + int32(v.Month)<<6 + int32(v.Day))
}

// HashLocalTime is LocalTime.hashCode.
func HashLocalTime(v LocalTime) int32 {
	s := int64(v.Hour)*3600 + int64(v.Minute)*60 + int64(v.Second)
	return HashLong(s*1e9 + int64(v.Nano))
}

// HashLocalDateTime is LocalDateTime.hashCode.
func HashLocalDateTime(v LocalDateTime) int32 { return HashLocalDate(v.Date) ^ HashLocalTime(v.Time) }

// HashUUID is UUID.hashCode of the 16 bytes.
func HashUUID(id [16]byte) int32 {
	var h int32
	for i := 0; i < 16; i += 4 {
		h ^= int32(id[i])<<24 | int32(id[i+1])<<16 | int32(id[i+2])<<8 | int32(id[i+3])
	}
	return h
}

// ErrUnstableKey is wrapped by HashAny for a value whose hash code in Java isn't the same in every process, or not known.
var ErrUnstableKey = fmt.Errorf("%w: no stable hash code", ErrInvalid)

// HashAny is the hash code of a boxed value, for keys whose type is known only at run time. Go's types stand for those
// which their serializers encode: int32 for Integer, uint16 for Character, string for String and so on. Errors: ErrNull for nil, ErrUnstableKey for other types.
func HashAny(v any) (int32, error) {
	switch v := v.(type) {
	case nil:
		return 0, fmt.Errorf("%w: Assigned key must not be null!", ErrNull) //nolint:staticcheck // Flink's words
	case bool:
		return HashBoolean(v), nil
	case int8:
		return int32(v), nil
	case int16:
		return int32(v), nil
	case uint16:
		return int32(v), nil
	case int32:
		return v, nil
	case int64:
		return HashLong(v), nil
	case float32:
		return HashFloat(v), nil
	case float64:
		return HashDouble(v), nil
	case string:
		return HashString(v), nil
	case *big.Int:
		if v == nil {
			return HashAny(nil)
		}
		return HashBigInt(v), nil
	case Decimal:
		if v.Unscaled == nil {
			return HashAny(nil)
		}
		return HashDecimal(v), nil
	case Instant:
		return HashInstant(v), nil
	case Timestamp:
		return HashLong(v.Millis), nil
	case LocalDate:
		return HashLocalDate(v), nil
	case LocalTime:
		return HashLocalTime(v), nil
	case LocalDateTime:
		return HashLocalDateTime(v), nil
	}
	return 0, fmt.Errorf("%w: %T", ErrUnstableKey, v)
}
