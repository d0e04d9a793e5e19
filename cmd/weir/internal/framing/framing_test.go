package framing

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

func records(t *testing.T, s *Scanner) (recs []string) {
	t.Helper()
	for {
		rec, err := s.Next()
		if err == io.EOF {
			return recs
		}
		if err != nil {
			t.Fatal(err)
		}
		recs = append(recs, string(rec))
	}
}

func TestRecordsAreTheInput(t *testing.T) {
	long := strings.Repeat("x", 3<<20)
	inputs := map[string]string{
		"empty": "", "no final newline": "a\nb", "empty lines": "\n\na\n\n", "crlf": "a\r\nb\r\n",
		"nul and invalid utf-8": "\x00\xff\xfe\n\x80", "long": long + "\n" + long, "quotes": "a,\"b\nc\"\n\"", "blocks": long,
	}
	for name, in := range inputs {
		for _, k := range []Kind{Lines, NDJSON, CSV, Raw} {
			for _, r := range []io.Reader{strings.NewReader(in), iotest.HalfReader(strings.NewReader(in))} {
				got := records(t, NewScanner(r, k, 8<<20))
				if strings.Join(got, "") != in {
					t.Errorf("%s as %s: the records are not the input", name, k)
				}
				for _, rec := range got {
					if rec == "" {
						t.Errorf("%s as %s: an empty record", name, k)
					}
				}
			}
		}
	}
}

func TestCuts(t *testing.T) {
	for _, c := range []struct {
		kind Kind
		in   string
		want []string
	}{
		{Lines, "a b\n\nc", []string{"a b\n", "\n", "c"}},
		{CSV, "a,\"b\nc\"\nd\n", []string{"a,\"b\nc\"\n", "d\n"}},
		{Length, "\x00\x00\x00\x00\x00\x00\x00\x02hi", []string{"\x00\x00\x00\x00", "\x00\x00\x00\x02hi"}},
	} {
		if got := records(t, NewScanner(iotest.OneByteReader(strings.NewReader(c.in)), c.kind, 100)); strings.Join(got, "|") != strings.Join(c.want, "|") {
			t.Errorf("%s: %q, want %q", c.kind, got, c.want)
		}
	}
}

func TestBadInput(t *testing.T) {
	for _, c := range []struct {
		kind Kind
		in   string
		want error
	}{
		{Length, "\xff\xff\xff\xff", ErrTooLarge},
		{Length, "\x00\x00\x00\x05abc", io.ErrUnexpectedEOF},
		{Length, "\x00\x00", io.ErrUnexpectedEOF},
		{Lines, strings.Repeat("x", 101), ErrTooLarge},
		{Lines, strings.Repeat("x", 100) + "\n", ErrTooLarge},
	} {
		if _, err := NewScanner(strings.NewReader(c.in), c.kind, 100).Next(); !errors.Is(err, c.want) {
			t.Errorf("%s %q: %v, want %v", c.kind, c.in[:min(8, len(c.in))], err, c.want)
		}
	}
}

func TestKeys(t *testing.T) {
	for _, c := range []struct {
		kind             Kind
		field, rec, want string
	}{
		{Lines, "", "a b\r\n", "a b"},
		{Lines, "1", "  a b\n", "a"},
		{Lines, "2", "a\tb\n", "b"},
		{Lines, "3", "a b\n", ""},
		{NDJSON, "k", `{"j":1,"k":"v"}`, `"v"`},
		{NDJSON, "k", "\n", ""},
		{CSV, "2", "a,\"b,c\"\n", "b,c"},
		{CSV, "9", "a\n", ""},
		{Length, "0:2", "\x00\x00\x00\x03abc", "ab"},
		{Raw, "1:100", "abc", "bc"},
	} {
		k, err := ParseKey(c.kind, c.field)
		if err != nil {
			t.Fatal(err)
		}
		got, err := k.Of([]byte(c.rec))
		if err != nil || !bytes.Equal(got, []byte(c.want)) {
			t.Errorf("%s key %q of %q: %q, %v; want %q", c.kind, c.field, c.rec, got, err, c.want)
		}
	}
	for _, c := range []struct {
		kind  Kind
		field string
	}{{Lines, "0"}, {CSV, "x"}, {Raw, "1"}, {Length, "5:2"}} {
		if _, err := ParseKey(c.kind, c.field); err == nil {
			t.Errorf("%s key %q was taken", c.kind, c.field)
		}
	}
	k, _ := ParseKey(NDJSON, "k")
	if _, err := k.Of([]byte("[1]\n")); err == nil {
		t.Error("an array has no members")
	}
}
