//go:build linux && !weirportable && !nounsafe

package netio

import (
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// System calls that cannot block skip the scheduler's entry and exit. The collector waits for them, so they are bounded to about
// half a megabyte. The safe twin is sys_linux_safe.go.

func sysRead(fd int, p []byte) (int, unix.Errno) {
	r, _, errno := unix.RawSyscall(unix.SYS_READ, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)))
	return int(r), errno
}

// sysRecv is recv of n bytes; with MSG_TRUNC they go nowhere and p may be nil.
func sysRecv(fd int, p []byte, n, flags int) (int, unix.Errno) {
	r, _, errno := unix.RawSyscall6(unix.SYS_RECVFROM, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(n),
		uintptr(flags|unix.MSG_DONTWAIT), 0, 0)
	return int(r), errno
}

func sysWriteFD(fd int, p []byte) (int, unix.Errno) {
	r, _, errno := unix.RawSyscall(unix.SYS_WRITE, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)))
	return int(r), errno
}

// sysEpollPoll is epoll_wait without waiting.
func sysEpollPoll(epfd int, events []unix.EpollEvent) (int, unix.Errno) {
	r, _, errno := unix.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(epfd), uintptr(unsafe.Pointer(unsafe.SliceData(events))), uintptr(len(events)), 0, 0, 0)
	return int(r), errno
}

// sysEpollNap is epoll_wait for a time far below a second. The thread keeps its P meanwhile: giving it away and getting one back costs as
// much as a wake-up.
func sysEpollNap(epfd int, events []unix.EpollEvent, d time.Duration) (int, unix.Errno) {
	limit := struct{ sec, nsec int64 }{nsec: int64(d)} // 64 bits also where unix.Timespec has 32
	r, _, errno := unix.RawSyscall6(unix.SYS_EPOLL_PWAIT2, uintptr(epfd), uintptr(unsafe.Pointer(unsafe.SliceData(events))), uintptr(len(events)),
		uintptr(unsafe.Pointer(&limit)), 0, 0)
	return int(r), errno
}

func sysYield() { _, _, _ = unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0) }

// vectors is the argument of one gathered write or scattered read. unix.Writev would allocate it above 8 pieces.
type vectors struct {
	n   int
	iov [MaxVectors]unix.Iovec
	msg unix.Msghdr
}

func (v *vectors) reset() { v.n = 0 }

// add appends p, which is not empty.
func (v *vectors) add(p []byte) {
	v.iov[v.n].Base = unsafe.SliceData(p)
	v.iov[v.n].SetLen(len(p))
	v.n++
}

// release forgets the pieces, so that the collector does not keep what was written.
func (v *vectors) release() { clear(v.iov[:v.n]) }

func (v *vectors) len() int { return v.n }

// writeMore is write when more follows at once: the kernel waits for that.
func (v *vectors) writeMore(fd int) (int, unix.Errno) {
	v.msg.Iov = &v.iov[0]
	v.msg.SetIovlen(v.n)
	r, _, errno := unix.RawSyscall(unix.SYS_SENDMSG, uintptr(fd), uintptr(unsafe.Pointer(&v.msg)), unix.MSG_MORE|unix.MSG_NOSIGNAL)
	return int(r), errno
}

// read fills the pieces in order.
func (v *vectors) read(fd int) (int, unix.Errno) {
	r, _, errno := unix.RawSyscall(unix.SYS_READV, uintptr(fd), uintptr(unsafe.Pointer(&v.iov)), uintptr(v.n))
	return int(r), errno
}

func (v *vectors) write(fd int) (int, unix.Errno) {
	if v.n == 1 { // without the file system's way to the socket
		r, _, errno := unix.RawSyscall6(unix.SYS_SENDTO, uintptr(fd), uintptr(unsafe.Pointer(v.iov[0].Base)), uintptr(v.iov[0].Len),
			unix.MSG_NOSIGNAL|unix.MSG_DONTWAIT, 0, 0)
		return int(r), errno
	}
	r, _, errno := unix.RawSyscall(unix.SYS_WRITEV, uintptr(fd), uintptr(unsafe.Pointer(&v.iov)), uintptr(v.n))
	return int(r), errno
}
