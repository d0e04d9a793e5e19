//go:build !nounsafe

package segment

import "unsafe"

// address returns where mem starts, 0 if it is empty. It is for reports only: nothing is ever read through it.
func address(mem []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(mem))) }
