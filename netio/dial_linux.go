//go:build linux && !weirportable

package netio

import (
	"crypto/tls"
	"fmt"
	"net"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// sysAdopt makes nc's socket the connection's own, if it is a plain one.
func (c *Conn) sysAdopt(nc net.Conn) (native bool, err error) {
	var sc syscall.Conn
	switch nc := nc.(type) { // the very types: something that wraps one may hold data back
	case *net.TCPConn:
		sc = nc
	case *net.UnixConn:
		if nc.LocalAddr().Network() != "unix" {
			return false, nil // datagrams and packets
		}
		sc = nc
	case *tls.Conn: // made by DialTLS or ListenTLS, if it is on a link
		return c.tlsTake(nc), nil
	default:
		return false, nil
	}
	setOptions(nc, c.l.cfg.Socket)
	fd, err := dupFD(sc)
	if err != nil {
		return false, c.opError("dup", err)
	}
	_ = nc.Close()
	c.sys.fd = fd
	return true, nil
}

// dupFD duplicates the descriptor of a connection or listener, which stays non-blocking.
func dupFD(sc syscall.Conn) (fd int, err error) {
	rc, err := sc.SyscallConn()
	if err != nil {
		return -1, err
	}
	if cerr := rc.Control(func(orig uintptr) { fd, err = unix.FcntlInt(orig, unix.F_DUPFD_CLOEXEC, 0) }); cerr != nil {
		return -1, cerr
	}
	return fd, err
}

// control sets what has to be set before a socket is connected or listens.
func (l *Loop) control(network, address string, rc syscall.RawConn) (err error) {
	if cerr := rc.Control(func(fd uintptr) { err = socketOptions(int(fd), network, l.cfg.Socket) }); cerr != nil {
		return cerr
	}
	return err
}

// socketOptions applies the options to a descriptor; accepted connections inherit them from their listener.
func socketOptions(fd int, network string, o SocketOptions) error {
	var first error
	set := func(name string, level, opt, v int) {
		if err := unix.SetsockoptInt(fd, level, opt, v); err != nil && first == nil {
			first = fmt.Errorf("netio: %s %d: %w", name, v, err)
		}
	}
	if o.SendBuffer > 0 {
		set("SO_SNDBUF", unix.SOL_SOCKET, unix.SO_SNDBUF, o.SendBuffer)
	}
	if o.RecvBuffer > 0 {
		set("SO_RCVBUF", unix.SOL_SOCKET, unix.SO_RCVBUF, o.RecvBuffer)
	}
	if !strings.HasPrefix(network, "tcp") {
		return first
	}
	set("TCP_NODELAY", unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)
	if o.KeepAlive >= 0 {
		s := max(1, int((o.KeepAlive+time.Second-1)/time.Second))
		if o.KeepAlive == 0 {
			s = 15
		}
		set("SO_KEEPALIVE", unix.SOL_SOCKET, unix.SO_KEEPALIVE, 1)
		set("TCP_KEEPIDLE", unix.IPPROTO_TCP, unix.TCP_KEEPIDLE, s)
		set("TCP_KEEPINTVL", unix.IPPROTO_TCP, unix.TCP_KEEPINTVL, s)
	}
	if o.UserTimeout > 0 {
		set("TCP_USER_TIMEOUT", unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(o.UserTimeout.Milliseconds()))
	}
	if o.Congestion != "" {
		if err := unix.SetsockoptString(fd, unix.IPPROTO_TCP, unix.TCP_CONGESTION, o.Congestion); err != nil && first == nil {
			first = fmt.Errorf("netio: congestion control %q: %w", o.Congestion, err)
		}
	}
	return first
}
