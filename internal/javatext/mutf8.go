package javatext

import "fmt"

// Len returns the number of bytes of s in modified UTF-8.
func Len(s string) int {
	n := 0
	for i := 0; i < len(s); {
		if c := s[i]; c < 0x80 {
			i++
			n++
			if c == 0 {
				n++
			}
			continue
		}
		r, size := DecodeRune(s[i:])
		i += size
		switch {
		case r < 0x800:
			n += 2
		case r <= 0xffff:
			n += 3
		default:
			n += 6
		}
	}
	return n
}

// Append appends s in modified UTF-8, without a length (the body of DataOutput.writeUTF). A byte of s that is not
// WTF-8 becomes U+FFFD.
func Append(dst []byte, s string) []byte {
	for i := 0; i < len(s); {
		if c := s[i]; c < 0x80 {
			i++
			if c == 0 {
				dst = append(dst, 0xc0, 0x80)
			} else {
				dst = append(dst, c)
			}
			continue
		}
		r, size := DecodeRune(s[i:])
		i += size
		if r > 0xffff {
			hi, lo := Split(r)
			dst = append3(dst, hi)
			dst = append3(dst, lo)
			continue
		}
		if r < 0x800 {
			dst = append(dst, 0xc0|byte(r>>6), 0x80|byte(r&0x3f))
			continue
		}
		dst = append3(dst, uint16(r))
	}
	return dst
}

func append3(dst []byte, u uint16) []byte {
	return append(dst, 0xe0|byte(u>>12), 0x80|byte(u>>6&0x3f), 0x80|byte(u&0x3f))
}

// ASCII tells whether modified UTF-8, UTF-8 and ASCII agree on p: all bytes are 01 to 7f.
func ASCII[T string | []byte](p T) bool {
	for i := 0; i < len(p); i++ {
		if p[i]-1 >= 0x7f {
			return false
		}
	}
	return true
}

// AppendDecoded decodes p, all of it, from modified UTF-8 and appends the text in WTF-8 to dst. It accepts what
// DataInputDeserializer.readUTF accepts: over-long forms, a raw zero byte and unpaired surrogates, but no four-byte
// form. An error wraps ErrMalformed; dst is then returned as it was.
func AppendDecoded(dst, p []byte) ([]byte, error) {
	start := len(dst)
	for i := 0; i < len(p); {
		c := p[i]
		switch c >> 4 {
		case 0, 1, 2, 3, 4, 5, 6, 7:
			dst = append(dst, c)
			i++
		case 12, 13:
			if i+2 > len(p) {
				return dst[:start], fmt.Errorf("%w: partial character at end", ErrMalformed)
			}
			if p[i+1]&0xc0 != 0x80 {
				return dst[:start], fmt.Errorf("%w: around byte %d", ErrMalformed, i+2)
			}
			dst = AppendUnit(dst, start, uint16(c&0x1f)<<6|uint16(p[i+1]&0x3f))
			i += 2
		case 14:
			if i+3 > len(p) {
				return dst[:start], fmt.Errorf("%w: partial character at end", ErrMalformed)
			}
			if p[i+1]&0xc0 != 0x80 || p[i+2]&0xc0 != 0x80 {
				return dst[:start], fmt.Errorf("%w: around byte %d", ErrMalformed, i+2)
			}
			dst = AppendUnit(dst, start, uint16(c&0x0f)<<12|uint16(p[i+1]&0x3f)<<6|uint16(p[i+2]&0x3f))
			i += 3
		default:
			return dst[:start], fmt.Errorf("%w: around byte %d", ErrMalformed, i)
		}
	}
	return dst, nil
}

// Decode is AppendDecoded into a new string.
func Decode(p []byte) (string, error) {
	if ASCII(p) {
		return string(p), nil
	}
	b, err := AppendDecoded(make([]byte, 0, len(p)), p)
	return string(b), err
}
