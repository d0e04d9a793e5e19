package stress

import (
	"encoding/binary"
	"fmt"
)

// recordSize is mostly small, and sometimes several buffers.
func recordSize(n uint64) int {
	h := n * 0x9e3779b97f4a7c15
	if n%61 == 7 {
		return 8 + int(h>>40)%100_000
	}
	return 8 + int(h>>40)%2000
}

// appendRecord appends record number n, whose every byte follows from n.
func appendRecord(b []byte, n uint64) []byte {
	b = binary.BigEndian.AppendUint64(b, n)
	for i := 8; i < recordSize(n); i++ {
		b = append(b, byte(n)+byte(i))
	}
	return b
}

// checkRecord fails if p is not record number n.
func checkRecord(p []byte, n uint64) error {
	if len(p) < 8 || binary.BigEndian.Uint64(p) != n {
		return fmt.Errorf("record %d is something else: %x", n, p[:min(8, len(p))])
	}
	if len(p) != recordSize(n) {
		return fmt.Errorf("record %d has %d bytes, want %d", n, len(p), recordSize(n))
	}
	for i := 8; i < len(p); i++ {
		if p[i] != byte(n)+byte(i) {
			return fmt.Errorf("record %d differs at byte %d", n, i)
		}
	}
	return nil
}
