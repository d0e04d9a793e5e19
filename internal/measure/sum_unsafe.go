//go:build !nounsafe

package measure

import "unsafe"

// SumWords adds the 64-bit words of p, in the machine's byte order and in four lanes, so that memory is the limit. What is left behind the last group of
// 64 bytes is not counted.
func SumWords(p []byte) uint64 {
	w := unsafe.Slice((*uint64)(unsafe.Pointer(unsafe.SliceData(p))), len(p)/8)
	var a, b, c, d uint64
	for len(w) >= 8 {
		a += w[0] + w[4]
		b += w[1] + w[5]
		c += w[2] + w[6]
		d += w[3] + w[7]
		w = w[8:]
	}
	return a + b + c + d
}
