//go:build nounsafe

package measure

import "encoding/binary"

// SumWords adds the 64-bit words of p, in the machine's byte order. What is left behind the last group of 64 bytes is not
// counted.
func SumWords(p []byte) (sum uint64) {
	for len(p) >= 64 {
		for i := 0; i < 64; i += 8 {
			sum += binary.NativeEndian.Uint64(p[i:])
		}
		p = p[64:]
	}
	return sum
}
