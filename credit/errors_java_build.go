package credit

import (
	"encoding/binary"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/weirflow/weir/internal/javatext"
)

// throwable builds the exception of an object and its causes from what the parser kept.
func (p *javaParser) throwable(root int32) *Throwable {
	// Kept fields were added in the order of the stream, an object's after those nested in it: sort them once.
	slices.SortStableFunc(p.props, func(a, b jprop) int { return int(a.obj) - int(b.obj) })
	var first, last *Throwable
	seen := map[int32]bool{}
	for obj := root; obj != noRef && !seen[obj] && len(seen) < maxCauses && p.handles[obj].kind == tcObject; {
		seen[obj] = true
		t := &Throwable{}
		cause := noRef
		class := p.handles[obj].class
		t.Class = p.classes[class].name
		for c := p.classes[class].super; c != noRef; c = p.classes[c].super {
			t.Supers = append(t.Supers, p.classes[c].name)
		}
		for _, f := range p.propsOf(obj) {
			switch f.key {
			case keyMessage:
				t.Message, t.HasMessage = p.text(f.val, maxJavaMessage)
			case keyCause:
				cause = f.val
			case keyStack:
				if t.Stack == "" {
					t.Stack = p.stack(f.val)
				}
			case keyFullStack:
				if s, ok := p.text(f.val, maxJavaStack); ok {
					t.Stack = s
				}
			}
		}
		if first == nil {
			first = t
		} else {
			last.Cause = t
		}
		last, obj = t, cause
	}
	return first
}

// propsOf returns the kept fields of an object; props must be sorted.
func (p *javaParser) propsOf(obj int32) []jprop {
	lo, _ := slices.BinarySearchFunc(p.props, obj, func(f jprop, o int32) int { return int(f.obj) - int(o) })
	hi := lo
	for hi < len(p.props) && p.props[hi].obj == obj {
		hi++
	}
	return p.props[lo:hi]
}

// text returns a string, cut at limit bytes; ok is false if h is none.
func (p *javaParser) text(h int32, limit int) (s string, ok bool) {
	if e := p.handles[h]; e.kind == tcString {
		return decodeUTF(p.b[e.off:e.off+e.len], limit), true
	}
	return "", false
}

// stack writes an array of StackTraceElement as text, in the form of Java's printStackTrace.
func (p *javaParser) stack(arr int32) string {
	var b strings.Builder
	elements := p.propsOf(arr)
	for _, el := range elements {
		if b.Len() > maxJavaStack {
			b.WriteString("...\n")
			break
		}
		var class, method, file string
		line := int32(-1)
		for _, f := range p.propsOf(el.val) {
			switch f.key {
			case keyDeclaringClass:
				class, _ = p.text(f.val, 1024)
			case keyMethodName:
				method, _ = p.text(f.val, 1024)
			case keyFileName:
				file, _ = p.text(f.val, 1024)
			case keyLine:
				line = f.val
			}
		}
		switch {
		case class == "" && method == "" && line == math.MinInt32 && len(elements) == 1:
			return "" // stands for no stack trace at all (Throwable.SentinelHolder)
		case line == -2:
			file = "Native Method"
		case file == "":
			file = "Unknown Source"
		case line >= 0:
			file += ":" + strconv.Itoa(int(line))
		}
		b.WriteString("at " + class + "." + method + "(" + file + ")\n")
	}
	return b.String()
}

// decodeUTF decodes at most limit bytes of Java's modified UTF-8. What has no form in Go becomes U+FFFD: it is text for
// people.
func decodeUTF(b []byte, limit int) string {
	cut := len(b) > limit
	if cut {
		for limit > 0 && b[limit]&0xC0 == 0x80 {
			limit--
		}
		b = b[:limit]
	}
	s, err := javatext.Decode(b)
	if err != nil {
		s = string(b)
	}
	s = strings.ToValidUTF8(s, "\uFFFD")
	if cut {
		s += "..."
	}
	return s
}

// appendUTF appends a string in modified UTF-8 behind its length; it must fit in 65535 bytes.
func appendUTF(dst []byte, s string) []byte {
	dst = binary.BigEndian.AppendUint16(dst, uint16(javatext.Len(s)))
	return javatext.Append(dst, s)
}

func appendU64(dst []byte, v uint64) []byte { return binary.BigEndian.AppendUint64(dst, v) }

// cutMessage limits a message that we send: modified UTF-8 takes at most three times as many bytes as
// a Go string (an invalid byte becomes U+FFFD), so it fits in a two-byte length.
func cutMessage(s string) string {
	if len(s) <= maxErrorMessage {
		return s
	}
	cut := maxErrorMessage
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + "..."
}
