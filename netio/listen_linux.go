//go:build linux && !weirportable

package netio

import (
	"errors"
	"net"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Accepting pauses at the limit of descriptors, and is reported at intervals.
const (
	acceptPause  = 100 * time.Millisecond
	acceptReport = time.Second
)

type sysListener struct {
	fd      int
	slot    int32
	mask    uint32
	reserve int    // a descriptor to close when one is needed to find out how many are open
	path    string // of a Unix socket, removed with the listener
	network string
	pause   *Timer
	report  time.Duration // loop clock from which the next error may be reported
}

func (a *listener) sysInit(nl net.Listener) error {
	sc, ok := nl.(syscall.Conn)
	if !ok {
		return errors.ErrUnsupported
	}
	fd, err := dupFD(sc)
	if err != nil {
		return os.NewSyscallError("dup", err)
	}
	a.sys.fd, a.sys.reserve, a.sys.network = fd, openReserve(), a.addr.Network()
	if u, ok := nl.(*net.UnixListener); ok {
		u.SetUnlinkOnClose(false)
		if name := a.addr.String(); name != "" && name[0] != '@' {
			a.sys.path = name
		}
	}
	a.sys.pause = a.l.NewTimer(a.resume)
	return nl.Close() // the socket stays open: we have a descriptor of it
}

func openReserve() int {
	fd, err := unix.Open("/dev/null", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1
	}
	return fd
}

func (a *listener) sysAttach() error {
	a.sys.slot = a.l.sys.takeSlot(a)
	return a.want(unix.EPOLLIN)
}

func (a *listener) want(mask uint32) error {
	if err := a.l.setMask(a.sys.fd, a.sys.slot, a.sys.mask, mask); err != nil {
		return os.NewSyscallError("epoll_ctl", err)
	}
	a.sys.mask = mask
	return nil
}

func (a *listener) sysAttend() {}

func (a *listener) sysClose() {
	if a.sys.slot > 0 {
		a.sys.pause.Stop()
		_ = a.want(0)
		a.l.sys.dropSlot(a.sys.slot)
		a.sys.slot = 0
	}
	for _, fd := range []*int{&a.sys.fd, &a.sys.reserve} {
		if *fd >= 0 {
			_ = unix.Close(*fd)
		}
		*fd = -1
	}
	if a.sys.path != "" {
		_ = unix.Unlink(a.sys.path)
	}
}

// event accepts what waits, a bounded number.
func (a *listener) event(uint32) {
	for range acceptsPerTurn {
		fd, sa, err := a.acceptFD()
		switch err {
		case nil:
			a.serve(fd, sa)
			if !a.open {
				return
			}
		case unix.EAGAIN:
			return
		case unix.EINTR, unix.ECONNABORTED, unix.EPROTO, unix.ENETDOWN, unix.ENOPROTOOPT, unix.EHOSTDOWN, unix.ENONET,
			unix.EHOSTUNREACH, unix.EOPNOTSUPP, unix.ENETUNREACH:
			// That one connection failed (accept(2)); the next one may not.
		default:
			a.exhausted(err)
			return
		}
	}
}

func (a *listener) acceptFD() (int, unix.Sockaddr, error) {
	if h := a.l.hooks; h != nil && h.accept != nil {
		if err := h.accept(); err != nil {
			return -1, nil, err
		}
	}
	return unix.Accept4(a.sys.fd, unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
}

// exhausted pauses: the event is level-triggered, and the loop would turn round on it.
func (a *listener) exhausted(cause error) {
	if err := a.want(0); err != nil {
		a.l.report(&AcceptError{Addr: a.addr.String(), Err: err})
		a.close()
		return
	}
	a.sys.pause.Reset(acceptPause)
	if now := a.l.clock(); now >= a.sys.report {
		a.sys.report = now + acceptReport
		e := &AcceptError{Addr: a.addr.String(), Err: os.NewSyscallError("accept4", cause)}
		if cause == unix.EMFILE {
			e.Limit, e.Open = a.countDescriptors()
		}
		a.l.report(e)
	}
}

// countDescriptors gives the reserve up for a moment, as counting needs a descriptor.
func (a *listener) countDescriptors() (limit, open int) {
	var r unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &r) == nil {
		limit = int(min(r.Cur, 1<<30))
	}
	if a.sys.reserve >= 0 {
		_ = unix.Close(a.sys.reserve)
	}
	if names, err := os.ReadDir("/proc/self/fd"); err == nil {
		open = len(names) // the directory's own stands for the reserve
	}
	a.sys.reserve = openReserve()
	return limit, open
}

func (a *listener) resume() {
	if a.sys.reserve < 0 {
		a.sys.reserve = openReserve()
	}
	if err := a.want(unix.EPOLLIN); err != nil {
		a.l.report(&AcceptError{Addr: a.addr.String(), Err: err})
		a.sys.pause.Reset(acceptPause)
	}
}

// serve registers an accepted connection and asks for its handler.
func (a *listener) serve(fd int, sa unix.Sockaddr) {
	l := a.l
	local := a.addr
	if lsa, err := unix.Getsockname(fd); err == nil && a.sys.network == "tcp" {
		local = tcpAddr(lsa, local)
	}
	remote := net.Addr(&net.UnixAddr{Net: "unix"})
	if a.sys.network == "tcp" {
		remote = tcpAddr(sa, nil)
	}
	c := l.newConn(a.sys.network, local, remote, nil)
	c.sys.fd = fd
	c.enlist()
	if err := c.sysAttach(); err != nil {
		c.Close(err) // has no handler yet, so somebody else must be told
		l.report(err)
		return
	}
	a.accepted(c)
}

// tcpAddr is the address in the form of package net.
func tcpAddr(sa unix.Sockaddr, otherwise net.Addr) net.Addr {
	switch sa := sa.(type) {
	case *unix.SockaddrInet4:
		return &net.TCPAddr{IP: sa.Addr[:], Port: sa.Port}
	case *unix.SockaddrInet6:
		a := &net.TCPAddr{IP: sa.Addr[:], Port: sa.Port}
		if sa.ZoneId != 0 {
			if i, err := net.InterfaceByIndex(int(sa.ZoneId)); err == nil {
				a.Zone = i.Name
			}
		}
		return a
	}
	return otherwise
}
