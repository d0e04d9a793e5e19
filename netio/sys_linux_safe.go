//go:build linux && !weirportable && nounsafe

package netio

import (
	"errors"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// The safe twin of sys_linux_unsafe.go: the same calls through the scheduler's entry, some with allocations.

func errnoOf(n int, err error) (int, unix.Errno) {
	if err == nil {
		return n, 0
	}
	errno := unix.EIO
	errors.As(err, &errno)
	return -1, errno
}

func sysRead(fd int, p []byte) (int, unix.Errno)    { return errnoOf(unix.Read(fd, p)) }
func sysWriteFD(fd int, p []byte) (int, unix.Errno) { return errnoOf(unix.Write(fd, p)) }

// sysRecv is recv of n bytes; with MSG_TRUNC they go nowhere and p may be nil.
func sysRecv(fd int, p []byte, n, flags int) (int, unix.Errno) {
	if p == nil {
		p = make([]byte, n)
	}
	got, _, _, _, err := unix.RecvmsgBuffers(fd, [][]byte{p[:n]}, nil, flags|unix.MSG_DONTWAIT)
	return errnoOf(got, err)
}

// sysEpollPoll is epoll_wait without waiting.
func sysEpollPoll(epfd int, events []unix.EpollEvent) (int, unix.Errno) {
	return errnoOf(unix.EpollWait(epfd, events, 0))
}

// sysEpollNap: package unix has none, so that loops poll.
func sysEpollNap(int, []unix.EpollEvent, time.Duration) (int, unix.Errno) { return -1, unix.ENOSYS }

func sysYield() { runtime.Gosched() }

// vectors is the argument of one gathered write or scattered read.
type vectors struct{ iov [][]byte }

func (v *vectors) reset() { v.iov = v.iov[:0] }

// add appends p, which is not empty.
func (v *vectors) add(p []byte) { v.iov = append(v.iov, p) }

// release forgets the pieces.
func (v *vectors) release() { clear(v.iov) }

func (v *vectors) len() int { return len(v.iov) }

// writeMore is write when more follows at once: the kernel waits for that.
func (v *vectors) writeMore(fd int) (int, unix.Errno) {
	return errnoOf(unix.SendmsgBuffers(fd, v.iov, nil, nil, unix.MSG_MORE|unix.MSG_NOSIGNAL))
}

// read fills the pieces in order.
func (v *vectors) read(fd int) (int, unix.Errno) { return errnoOf(unix.Readv(fd, v.iov)) }

func (v *vectors) write(fd int) (int, unix.Errno) { return errnoOf(unix.Writev(fd, v.iov)) }
