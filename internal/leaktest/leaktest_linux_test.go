package leaktest

import (
	"strings"
	"syscall"
	"testing"
)

func TestSharedMappingLeft(t *testing.T) {
	var p []byte
	left := leftAfter(func() {
		var err error
		p, err = syscall.Mmap(-1, 0, 1<<16, syscall.PROT_READ, syscall.MAP_SHARED|syscall.MAP_ANON)
		if err != nil {
			t.Fatal(err)
		}
	})
	if err := syscall.Munmap(p); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(left, "mapping ") {
		t.Fatalf("the mapping was not found: %q", left)
	}
}
