package main

import (
	"errors"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// The raw rows of scenario latency. How they wait:
//
//	block       read
//	spin        read without blocking, in a loop
//	epoll       epoll_wait, then read
//	epollyield  read without blocking, with sched_yield in between, for 50 us; then epoll_wait
//
// With twoWay behind it a mode has a connection for each way, as Flink's protocol has: then no answer carries the acknowledgement of
// what it answers, and the kernel sends one more.
type waiter struct {
	fd, ep int
	mode   string
	events [4]unix.EpollEvent
}

const twoWay = "-2"

// pollTime is how long epollyield polls.
const pollTime = 50 * time.Microsecond

func newWaiter(fd int, mode string) (*waiter, error) {
	w := &waiter{fd: fd, mode: mode}
	if mode == "block" {
		return w, nil
	}
	err := unix.SetNonblock(fd, true)
	if err == nil {
		w.ep, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	}
	if err == nil {
		err = unix.EpollCtl(w.ep, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)})
	}
	return w, err
}

// sleep waits for the socket in the kernel.
func (w *waiter) sleep() error {
	for {
		if _, err := unix.EpollWait(w.ep, w.events[:], -1); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// fill reads as much as b holds.
func (w *waiter) fill(b []byte) error {
	for len(b) > 0 {
		n, err := w.read(b)
		if err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}

func (w *waiter) read(b []byte) (int, error) {
	switch w.mode {
	case "block":
		for {
			n, err := unix.Read(w.fd, b)
			if n == 0 && err == nil {
				return 0, errEnd
			}
			if !errors.Is(err, unix.EINTR) {
				return n, err
			}
		}
	case "epoll":
		if err := w.sleep(); err != nil {
			return 0, err
		}
	}
	began := time.Time{}
	for i := 1; ; i++ {
		n, errno := rawRead(w.fd, b)
		switch {
		case errno == 0 && n > 0:
			return n, nil
		case errno == 0:
			return 0, errEnd
		case errno != unix.EAGAIN && errno != unix.EINTR:
			return 0, errno
		case w.mode == "epoll":
			if err := w.sleep(); err != nil {
				return 0, err
			}
		case w.mode == "epollyield":
			yield()
			if i == 1 {
				began = time.Now()
			} else if i%16 == 0 && time.Since(began) > pollTime {
				if err := w.sleep(); err != nil {
					return 0, err
				}
				i = 0
			}
		}
	}
}

// receivePing sends back what it gets.
func receivePing(r *role, mode string) error {
	runtime.LockOSThread()
	l, addr, err := listenRaw()
	if err != nil {
		return err
	}
	r.listening(addr)
	in, err := acceptOne(l)
	if err != nil {
		return err
	}
	fd := in
	mode, two := strings.CutSuffix(mode, twoWay)
	if two {
		if fd, err = acceptOne(l); err != nil {
			return err
		}
	}
	w, err := newWaiter(in, mode)
	if err != nil {
		return err
	}
	b := make([]byte, pingSize)
	for {
		if err := w.fill(b); err != nil {
			return err
		}
		if _, err := unix.Write(fd, b); err != nil {
			return err
		}
		r.meter.Add(pingSize, 1)
	}
}

func sendPing(r *role, mode string) error {
	runtime.LockOSThread()
	fd, err := dialRaw(r.addr)
	if err != nil {
		return err
	}
	in := fd
	mode, two := strings.CutSuffix(mode, twoWay)
	if two {
		if in, err = dialRaw(r.addr); err != nil {
			return err
		}
	}
	w, err := newWaiter(in, mode)
	if err != nil {
		return err
	}
	b := make([]byte, pingSize)
	return r.pingLoop(func() error {
		if _, err := unix.Write(fd, b); err != nil {
			return err
		}
		return w.fill(b)
	})
}
