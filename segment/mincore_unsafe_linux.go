//go:build !nounsafe

package segment

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// mincore fills vec with a byte for each page of mem, whose lowest bit says that the page is in memory.
func mincore(mem, vec []byte) error {
	_, _, e := unix.Syscall(unix.SYS_MINCORE, uintptr(unsafe.Pointer(unsafe.SliceData(mem))), uintptr(len(mem)),
		uintptr(unsafe.Pointer(unsafe.SliceData(vec))))
	if e != 0 {
		return e
	}
	return nil
}
