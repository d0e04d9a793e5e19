package main

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// vector does gathered writes and scattered reads with an array of its own, so that nothing is allocated a call.
type vector struct{ iov []unix.Iovec }

func newVector(n int) *vector { return &vector{iov: make([]unix.Iovec, n)} }

// from describes parts without their first skip bytes.
func (v *vector) from(parts [][]byte, skip int) []unix.Iovec {
	n := 0
	for _, p := range parts {
		if skip >= len(p) {
			skip -= len(p)
			continue
		}
		v.iov[n].Base = &p[skip]
		v.iov[n].SetLen(len(p) - skip)
		skip = 0
		n++
	}
	return v.iov[:n]
}

func (v *vector) writeAll(fd int, parts [][]byte) error {
	total := 0
	for _, p := range parts {
		total += len(p)
	}
	for done := 0; done < total; {
		n, errno := call(unix.SYS_WRITEV, fd, v.from(parts, done))
		if errno != 0 && errno != unix.EINTR {
			return errno
		}
		done += n
	}
	return nil
}

// read fills parts behind their first skip bytes with what one call brings.
func (v *vector) read(fd int, parts [][]byte, skip int) (int, error) {
	for {
		n, errno := call(unix.SYS_READV, fd, v.from(parts, skip))
		switch {
		case errno == unix.EINTR:
		case errno != 0:
			return 0, errno
		case n == 0:
			return 0, errEnd
		default:
			return n, nil
		}
	}
}

func call(trap uintptr, fd int, iov []unix.Iovec) (int, unix.Errno) {
	n, _, errno := unix.Syscall(trap, uintptr(fd), uintptr(unsafe.Pointer(&iov[0])), uintptr(len(iov)))
	if errno != 0 {
		return 0, errno
	}
	return int(n), 0
}

func recv(fd int, b []byte, flags int) (int, unix.Errno) {
	n, _, errno := unix.Syscall6(unix.SYS_RECVFROM, uintptr(fd), uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)), uintptr(flags), 0, 0)
	if errno != 0 {
		return 0, errno
	}
	return int(n), 0
}

// rawRead is a read that does not enter the scheduler, for sockets that do not block.
func rawRead(fd int, b []byte) (int, unix.Errno) {
	n, _, errno := unix.RawSyscall(unix.SYS_READ, uintptr(fd), uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)))
	if errno != 0 {
		return 0, errno
	}
	return int(n), 0
}

// yield lets another thread of this CPU run.
func yield() { _, _, _ = unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0) }
