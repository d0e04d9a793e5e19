package serde

import (
	"testing"

	"pgregory.net/rapid"
)

func TestHashUTF8IsJavasStringHash(t *testing.T) {
	for _, s := range []string{"", "a", "héllo", "日本語", "😀 emoji 𝄞", "\x00", "mixed ä😀z"} {
		if got, want := HashUTF8([]byte(s)), HashString(s); got != want {
			t.Errorf("%q: %d, want %d", s, got, want)
		}
	}
	// A value that Java prints for "hello".hashCode().
	if got := HashUTF8([]byte("hello")); got != 99162322 {
		t.Errorf("hello: %d", got)
	}
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.String().Draw(t, "s")
		if got, want := HashUTF8([]byte(s)), HashString(s); got != want {
			t.Fatalf("%q: %d, want %d", s, got, want)
		}
	})
}
