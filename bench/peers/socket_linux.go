package main

import (
	"errors"
	"fmt"
	"io"
	"net"

	"golang.org/x/sys/unix"
)

// Sockets by system calls alone, beside Go's poller.

func listenRaw() (fd int, addr string, err error) {
	fd, err = unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err == nil {
		err = unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}})
	}
	if err == nil {
		err = unix.Listen(fd, 8)
	}
	if err != nil {
		return 0, "", err
	}
	sa, err := unix.Getsockname(fd)
	if err != nil {
		return 0, "", err
	}
	return fd, fmt.Sprintf("127.0.0.1:%d", sa.(*unix.SockaddrInet4).Port), nil
}

func acceptRaw(r *role) (int, error) {
	l, addr, err := listenRaw()
	if err != nil {
		return 0, err
	}
	r.listening(addr)
	return acceptOne(l)
}

func acceptOne(l int) (int, error) {
	for {
		fd, _, err := unix.Accept4(l, unix.SOCK_CLOEXEC)
		if err == nil {
			err = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)
		}
		if !errors.Is(err, unix.EINTR) {
			return fd, err
		}
	}
}

func dialRaw(addr string) (int, error) {
	a, err := net.ResolveTCPAddr("tcp4", addr)
	if err != nil {
		return 0, err
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	if err := unix.Connect(fd, &unix.SockaddrInet4{Port: a.Port, Addr: [4]byte(a.IP.To4())}); err != nil {
		return 0, err
	}
	return fd, unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)
}

var errEnd = fmt.Errorf("the other side: %w", io.EOF)
