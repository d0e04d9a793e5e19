package segment

import (
	"reflect"
	"testing"
)

// TestRNG06HeaderWordIsAligned: the word is used with 64-bit atomics although it has no atomic type, so it must be
// aligned to 8 bytes in every header of a slice, on 32-bit platforms too.
func TestRNG06HeaderWordIsAligned(t *testing.T) {
	h := reflect.TypeFor[header]()
	word, ok := h.FieldByName("word")
	if !ok {
		t.Fatal("header has no word")
	}
	if h.Align() != 8 || h.Size()%8 != 0 || word.Offset%8 != 0 {
		t.Fatalf("header: alignment %d, size %d, word at %d; want multiples of 8", h.Align(), h.Size(), word.Offset)
	}
}
