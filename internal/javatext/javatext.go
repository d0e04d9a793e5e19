package javatext

import (
	"errors"
	"unicode/utf8"
)

// ErrMalformed is wrapped by every error about bytes that are not modified UTF-8 (java.io.UTFDataFormatException).
var ErrMalformed = errors.New("malformed modified UTF-8")

// MaxUTF is the greatest number of bytes that a string with a two-byte length can have.
const MaxUTF = 65535

// DecodeRune returns the code point at the start of s and the number of bytes it takes. An unpaired surrogate in its
// three-byte form is returned as it is; any other invalid byte is (utf8.RuneError, 1), as in package utf8. For an empty
// string the size is 0.
func DecodeRune(s string) (r rune, size int) {
	r, size = utf8.DecodeRuneInString(s)
	if r == utf8.RuneError && size == 1 && isSurrogate3(s) {
		return 0xD000 | rune(s[1]&0x3f)<<6 | rune(s[2]&0x3f), 3
	}
	return r, size
}

// isSurrogate3 tells whether s begins with a surrogate in three bytes (ed a0..bf 80..bf).
func isSurrogate3[T string | []byte](s T) bool {
	return len(s) >= 3 && s[0] == 0xed && s[1]&0xe0 == 0xa0 && s[2]&0xc0 == 0x80
}

// Units returns the number of UTF-16 code units of s (Java's length()).
func Units(s string) int {
	n := 0
	for i := 0; i < len(s); {
		if s[i] < utf8.RuneSelf {
			i++
			n++
			continue
		}
		r, size := DecodeRune(s[i:])
		i += size
		n++
		if r > 0xffff {
			n++
		}
	}
	return n
}

// Split returns the surrogate pair of a code point above U+FFFF.
func Split(r rune) (hi, lo uint16) {
	r -= 0x10000
	return 0xD800 | uint16(r>>10), 0xDC00 | uint16(r&0x3ff)
}

// AppendUnit appends one UTF-16 code unit to the WTF-8 text that begins at dst[start:]. A low surrogate that follows a
// high one becomes one code point of four bytes with it.
func AppendUnit(dst []byte, start int, u uint16) []byte {
	switch {
	case u < 0x80:
		return append(dst, byte(u))
	case u < 0x800:
		return append(dst, 0xc0|byte(u>>6), 0x80|byte(u&0x3f))
	}
	if n := len(dst); u&0xfc00 == 0xdc00 && n-start >= 3 && dst[n-3] == 0xed && dst[n-2]&0xf0 == 0xa0 {
		hi := rune(dst[n-2]&0x0f)<<6 | rune(dst[n-1]&0x3f)
		return utf8.AppendRune(dst[:n-3], 0x10000+(hi<<10|rune(u&0x3ff)))
	}
	return append(dst, 0xe0|byte(u>>12), 0x80|byte(u>>6&0x3f), 0x80|byte(u&0x3f))
}

// FromUnits returns the WTF-8 form of UTF-16 code units.
func FromUnits(units []uint16) string {
	b := make([]byte, 0, len(units))
	for _, u := range units {
		b = AppendUnit(b, 0, u)
	}
	return string(b)
}

// AppendUnits appends the UTF-16 code units of s to dst.
func AppendUnits(dst []uint16, s string) []uint16 {
	for i := 0; i < len(s); {
		r, size := DecodeRune(s[i:])
		i += size
		if r > 0xffff {
			hi, lo := Split(r)
			dst = append(dst, hi, lo)
			continue
		}
		dst = append(dst, uint16(r))
	}
	return dst
}
