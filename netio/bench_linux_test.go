//go:build linux && !weirportable

package netio

import (
	"runtime"
	"syscall"
	"testing"

	"github.com/weirflow/weir/internal/measure"
	"golang.org/x/sys/unix"
)

// BenchmarkPingRaw is BenchmarkPing with bare system calls on locked threads: the least that sleeping in epoll_wait costs.
func BenchmarkPingRaw(b *testing.B) {
	const size = 64
	x, y := netPair(b)
	var eps, fds [2]int
	for i, nc := range []any{x, y} {
		fd, err := dupFD(nc.(syscall.Conn))
		if err != nil {
			b.Fatal(err)
		}
		ep, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
		if err != nil {
			b.Fatal(err)
		}
		defer unix.Close(fd)
		defer unix.Close(ep)
		if err := unix.EpollCtl(ep, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN}); err != nil {
			b.Fatal(err)
		}
		eps[i], fds[i] = ep, fd
	}
	read := func(i int, p []byte) int {
		var ev [1]unix.EpollEvent
		for {
			_, _ = unix.EpollWait(eps[i], ev[:], -1)
			if n, errno := sysRead(fds[i], p); errno != unix.EAGAIN {
				return n
			}
		}
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		p := make([]byte, size)
		for read(1, p) > 0 {
			_, _ = sysWriteFD(fds[1], p)
		}
	}()
	runtime.LockOSThread()
	p := make([]byte, size)
	cpu := measure.CPUSeconds()
	for b.Loop() {
		_, _ = sysWriteFD(fds[0], p)
		read(0, p)
	}
	b.ReportMetric((measure.CPUSeconds()-cpu)*1e9/float64(b.N), "cpu-ns/op")
	_ = unix.Shutdown(fds[0], unix.SHUT_WR)
	<-done
}
