//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package serde

import (
	"os"

	"golang.org/x/sys/unix"
)

// unlinkOpenFiles: a name may be removed while the file is open.
const unlinkOpenFiles = true

// mapFile maps the first n bytes of f for reading, or returns nil when that
// cannot be done; the file is then read. Nobody else has the file's name, so
// it cannot be cut short under the mapping. A disk that fails to give back what
// it took is a fault there, as in any mapped file.
func mapFile(f *os.File, n int) []byte {
	m, err := unix.Mmap(int(f.Fd()), 0, n, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil
	}
	return m
}

func unmapFile(m []byte) { _ = unix.Munmap(m) }
