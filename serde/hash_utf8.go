package serde

import "unicode/utf8"

// HashUTF8 is Java's hash code of the string whose UTF-8 form is p: HashString(string(p)) without making the string. A byte that
// is not UTF-8 counts as U+FFFD, as it would when Java decodes it.
func HashUTF8(p []byte) int32 {
	var h int32
	for i := 0; i < len(p); {
		c := p[i]
		if c < utf8.RuneSelf {
			h = 31*h + int32(c)
			i++
			continue
		}
		r, n := utf8.DecodeRune(p[i:])
		i += n
		if r >= 0x10000 { // two UTF-16 units
			r -= 0x10000
			h = 31*h + 0xd800 + r>>10
			r = 0xdc00 + r&0x3ff
		}
		h = 31*h + r
	}
	return h
}
