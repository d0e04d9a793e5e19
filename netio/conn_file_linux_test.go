//go:build linux && !weirportable

package netio

import (
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirflow/weir/segment"
	"golang.org/x/sys/unix"
)

// patternFile is a file of n bytes of the pattern.
func patternFile(t testing.TB, n int) (*segment.File, *os.File) {
	t.Helper()
	p := make([]byte, n)
	pattern(p, 0)
	path := filepath.Join(t.TempDir(), "parts")
	if err := os.WriteFile(path, p, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	file := segment.NewFile(f)
	t.Cleanup(func() {
		if n := file.Regions(); n != 0 {
			t.Errorf("%d parts of the file are still held", n)
		}
		if err := file.Close(); err != nil {
			t.Error(err)
		}
	})
	return file, f
}

// fileSender sends the pattern: by turns staged, from the file, from the file again, and by reference.
type fileSender struct {
	funcs
	file        *segment.File
	at, size, n int
}

func (s *fileSender) OnFlush(c *Conn) {
	for ; s.at < s.size && !c.Full(); s.n++ {
		k := min([]int{47, 32 << 10, 100, 20_000}[s.n%4], s.size-s.at)
		switch s.n % 4 {
		case 0:
			pattern(c.Stage(k), s.at)
		case 1, 2:
			c.AppendBuffer(s.file.Wrap(int64(s.at), k, segment.DataBuffer))
		default:
			p := make([]byte, k)
			pattern(p, s.at)
			c.AppendBuffer(segment.Wrap(p, segment.DataBuffer))
		}
		s.at += k
	}
	if s.at == s.size {
		c.CloseWrite()
	}
}

// What is sent from a file arrives like anything else, and in its place, however little the socket takes at a time.
func TestSendFromFile(t *testing.T) {
	const size = 5 << 20
	for name, send := range map[string]func(c *Conn, p filePart) (int, unix.Errno){
		"kernel": nil,
		"pieces": func() func(c *Conn, p filePart) (int, unix.Errno) {
			calls := 0
			return func(c *Conn, p filePart) (int, unix.Errno) {
				if calls++; calls%5 == 0 {
					return 0, unix.EINTR
				}
				at := p.at
				n, err := unix.Sendfile(c.sys.fd, int(p.f.Fd()), &at, min(p.n, 1+calls*37%9000))
				if err != nil {
					errno, _ := err.(unix.Errno)
					return 0, errno
				}
				return n, 0
			}
		}(),
		"another file system": func(*Conn, filePart) (int, unix.Errno) { return 0, unix.EINVAL }, // that cannot do it: it is read
	} {
		t.Run(name, func(t *testing.T) {
			file, _ := patternFile(t, size)
			l := newLoop(t, LoopConfig{})
			if send != nil {
				l.hooks = &hooks{send: send}
			}
			closed := newOnce()
			addr := listen(t, l, func(c *Conn) Handler {
				if !c.SendsFiles() {
					t.Error("a plain connection does not send from files")
				}
				s := &fileSender{file: file, size: size}
				s.close = func(*Conn, error) { closed.done() }
				return s
			})
			nc := dialNet(t, addr)
			readAll(t, nc, size)
			_ = nc.Close()
			wait(t, closed.c, "the end of the connection")
			inTurn(t, l, func() {
				switch n := l.stats.FileBytes; {
				case name == "another file system" && n != 0, name != "another file system" && n < size/2, n > size:
					t.Errorf("%d of %d bytes were sent from the file", n, size)
				}
			})
		})
	}
}

// A file that loses bytes which are promised already costs its connection, and no other.
func TestFileTruncatedWhileSent(t *testing.T) {
	const size = 4 << 20
	file, f := patternFile(t, size)
	l := newLoop(t, LoopConfig{Socket: SocketOptions{SendBuffer: 64 << 10}}) // the kernel holds little of it
	ends := make(chan error, 1)
	addr := listen(t, l, func(c *Conn) Handler {
		s := &fileSender{file: file, size: size}
		s.close = func(_ *Conn, err error) { ends <- err }
		return s
	})
	other := dialNet(t, listen(t, l, echo))
	nc := dialNet(t, addr)
	if err := nc.(*net.TCPConn).SetReadBuffer(64 << 10); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(nc, make([]byte, 100_000)); err != nil {
		t.Fatal(err)
	}
	if err := f.Truncate(200_000); err != nil {
		t.Fatal(err)
	}
	n, err := io.Copy(io.Discard, nc)
	if n > size-200_000 || err == nil && n == size-100_000 {
		t.Errorf("%d bytes came of a file without them, %v", n, err)
	}
	var pe *fs.PathError
	if err := <-ends; !errors.As(err, &pe) || !strings.Contains(err.Error(), f.Name()) || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("the connection ended with %v", err)
	}
	if _, err := other.Write([]byte("still here")); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 10)
	if _, err := io.ReadFull(other, got); err != nil || string(got) != "still here" {
		t.Errorf("another connection brought %q, %v", got, err)
	}
}

// A peer that goes in the middle: all parts are given back.
func TestPeerGoesWhileFileIsSent(t *testing.T) {
	const size = 8 << 20
	file, _ := patternFile(t, size)
	l := newLoop(t, LoopConfig{})
	ends := make(chan struct{}, 8)
	addr := listen(t, l, func(c *Conn) Handler {
		s := &fileSender{file: file, size: size}
		s.close = func(*Conn, error) { ends <- struct{}{} }
		return s
	})
	for range 8 {
		nc := dialNet(t, addr)
		if _, err := io.ReadFull(nc, make([]byte, 50_000)); err != nil {
			t.Fatal(err)
		}
		_ = nc.Close() // unread input: a reset
	}
	for range 8 {
		wait(t, ends, "the end of a connection")
	}
}

// On a connection that ended, and on one that goes through another driver, a part of a file goes home.
func TestFilePartIsNotSent(t *testing.T) {
	file, _ := patternFile(t, 1000)
	l := newLoop(t, LoopConfig{})
	opened, ends := make(chan *Conn, 1), make(chan error, 1)
	addr := listen(t, l, func(c *Conn) Handler {
		return &funcs{open: func(c *Conn) { opened <- c }, close: func(_ *Conn, err error) { ends <- err }}
	})
	dialNet(t, addr)
	c := <-opened // a dial ends before the other side accepts
	inTurn(t, l, func() {
		c.p = new(pconn) // as if it were portable
		if c.SendsFiles() {
			t.Error("a connection of the portable driver sends from files")
		}
		c.p = nil
		c.Close(nil)
		c.AppendBuffer(file.Wrap(0, 100, segment.DataBuffer))
		if n := file.Regions(); n != 0 {
			t.Errorf("%d parts are held by a closed connection", n)
		}
	})
	<-ends
}
