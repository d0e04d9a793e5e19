package javatext_test

import (
	"bytes"
	"errors"
	"slices"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/weirflow/weir/internal/javatext"
)

// TestModifiedUTF8 checks Flink's example: a, U+0000, U+00E9, U+4E2D, U+1F600.
func TestModifiedUTF8(t *testing.T) {
	const text = "a\x00é\u4e2d\U0001f600"
	want := []byte{0x61, 0xc0, 0x80, 0xc3, 0xa9, 0xe4, 0xb8, 0xad, 0xed, 0xa0, 0xbd, 0xed, 0xb8, 0x80}
	if got := javatext.Append(nil, text); !bytes.Equal(got, want) || javatext.Len(text) != len(want) {
		t.Errorf("got %x, %d bytes, want %x", got, javatext.Len(text), want)
	}
	if got, err := javatext.Decode(want); got != text || err != nil {
		t.Errorf("decoded %q, %v", got, err)
	}
	if n := javatext.Units(text); n != 6 {
		t.Errorf("%d units, want 6", n)
	}
}

// TestDecodeErrors checks what Java's readUTF refuses, and what it takes although no encoder writes it.
func TestDecodeErrors(t *testing.T) {
	for _, p := range [][]byte{{0x80}, {0xbf}, {0xf0, 0x9f, 0x98, 0x80}, {0xff}, {0xc3}, {0xe4, 0xb8}, {0xc3, 0x41}, {0xe4, 0x41, 0xad}, {0xe4, 0xb8, 0x41}} {
		got, err := javatext.AppendDecoded([]byte("x"), p)
		if !errors.Is(err, javatext.ErrMalformed) || string(got) != "x" {
			t.Errorf("%x: %q, %v", p, got, err)
		}
	}
	for _, tc := range []struct{ in, want string }{{"\xc0\x80", "\x00"}, {"\xe0\x80\x80", "\x00"}, {"\x00", "\x00"}, {"\xc1\x81", "A"}, {"\xed\xa0\xbd", "\xed\xa0\xbd"}} {
		if got, err := javatext.Decode([]byte(tc.in)); got != tc.want || err != nil {
			t.Errorf("%x: %q, %v", tc.in, got, err)
		}
	}
}

// TestAllUnits checks that every sequence of code units has one text, which gives it back, by units and by modified UTF-8.
func TestAllUnits(t *testing.T) {
	lone := 0
	rapid.Check(t, func(t *rapid.T) {
		units := rapid.SliceOf(rapid.OneOf(rapid.Uint16Range(0, 0x82), rapid.Uint16Range(0xd7fe, 0xe001), rapid.Uint16Range(0xdc00, 0xdfff), rapid.Uint16())).Draw(t, "units")
		text := javatext.FromUnits(units)
		if got := javatext.AppendUnits(nil, text); !slices.Equal(got, units) || javatext.Units(text) != len(units) {
			t.Fatalf("%04x: %04x, %d units", units, got, javatext.Units(text))
		}
		if !utf8.ValidString(text) {
			lone++
		}
		p := javatext.Append(nil, text)
		if got, err := javatext.Decode(p); got != text || err != nil || len(p) != javatext.Len(text) {
			t.Fatalf("%04x: %x, %q, %v", units, p, got, err)
		}
		if javatext.ASCII(p) != (len(p) == len(units) && !slices.Contains(units, 0)) {
			t.Fatalf("%04x: ASCII says %t", units, javatext.ASCII(p))
		}
	})
	if lone == 0 {
		t.Error("no unpaired surrogate was tried")
	}
}

// TestInvalid checks that bytes that are no text become U+FFFD, one each.
func TestInvalid(t *testing.T) {
	for _, s := range []string{"\xff", "a\x80b", "\xed\xa0", "\xed\xa0a", "\xf0\x9f\x98"} {
		want := javatext.Append(nil, string([]rune(s)))
		if got := javatext.Append(nil, s); !bytes.Equal(got, want) || javatext.Len(s) != len(want) {
			t.Errorf("%x: %x, %d bytes, want %x", s, got, javatext.Len(s), want)
		}
	}
	if r, size := javatext.DecodeRune(""); r != utf8.RuneError || size != 0 {
		t.Errorf("empty: %x, %d", r, size)
	}
}
