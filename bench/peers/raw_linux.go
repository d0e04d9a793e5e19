package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"runtime"

	"golang.org/x/sys/unix"
)

// The raw row: what one would write by hand with system calls alone. Blocking sockets, 16 framed buffers a call.

const (
	bufferSize = 32 << 10
	headerSize = 8 // length, channel: two little-endian uint32
	frameSize  = headerSize + bufferSize
	perCall    = 16
	wantSum    = 0x0123456789abcdef // of each payload's 64-bit words
)

// payload returns bytes whose words add up to wantSum.
func payload(r *rand.Rand) []byte {
	p := make([]byte, bufferSize)
	var sum uint64
	for i := 0; i < bufferSize-8; i += 8 {
		v := r.Uint64()
		sum += v
		binary.LittleEndian.PutUint64(p[i:], v)
	}
	binary.LittleEndian.PutUint64(p[bufferSize-8:], wantSum-sum)
	return p
}

func sendBulk(r *role) error {
	runtime.LockOSThread()
	fd, err := dialRaw(r.addr)
	if err != nil {
		return err
	}
	random := rand.New(rand.NewPCG(3, 4))
	header := make([]byte, headerSize)
	binary.LittleEndian.PutUint32(header, bufferSize)
	var parts [][]byte
	for range perCall {
		parts = append(parts, header, payload(random))
	}
	v := newVector(len(parts))
	for {
		if err := v.writeAll(fd, parts); err != nil {
			return err
		}
		r.meter.Add(perCall*bufferSize, perCall)
	}
}

func receiveBulk(r *role) error {
	runtime.LockOSThread()
	fd, err := acceptRaw(r)
	if err != nil {
		return err
	}
	var parts [][]byte
	for range perCall {
		parts = append(parts, make([]byte, headerSize), make([]byte, bufferSize))
	}
	v := newVector(len(parts))
	for {
		got, checked := 0, 0
		for got < perCall*frameSize {
			n, err := v.read(fd, parts, got)
			if err != nil {
				return err
			}
			got += n
			whole := got/frameSize - checked
			for range whole {
				if err := checkFrame(parts[2*checked], parts[2*checked+1]); err != nil {
					return err
				}
				checked++
			}
			r.meter.Add(int64(whole)*bufferSize, int64(whole))
		}
	}
}

func checkFrame(header, payload []byte) error {
	if n := binary.LittleEndian.Uint32(header); n != bufferSize {
		return fmt.Errorf("a frame of %d bytes", n)
	}
	if s := sumWords(payload); s != wantSum {
		return fmt.Errorf("a payload with the sum %x", s)
	}
	return nil
}

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
	for {
		fd, _, err := unix.Accept4(l, unix.SOCK_CLOEXEC)
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
