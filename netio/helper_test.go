package netio

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/weirflow/weir/internal/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// hang is how long a test waits for something that has to happen.
const hang = time.Minute

// funcs is a Handler made of functions; nil ones do nothing.
type funcs struct {
	open  func(*Conn)
	read  func(*Conn, []byte) error
	flush func(*Conn)
	close func(*Conn, error)
}

func (f *funcs) OnOpen(c *Conn) {
	if f.open != nil {
		f.open(c)
	}
}

func (f *funcs) OnRead(c *Conn, p []byte) error {
	if f.read != nil {
		return f.read(c, p)
	}
	return nil
}

func (f *funcs) OnFlush(c *Conn) {
	if f.flush != nil {
		f.flush(c)
	}
}

func (f *funcs) OnClose(c *Conn, err error) {
	if f.close != nil {
		f.close(c, err)
	}
}

// ending is funcs with OnEnd.
type ending struct {
	funcs
	end func(*Conn)
}

func (e *ending) OnEnd(c *Conn) { e.end(c) }

// newLoop makes a loop that is closed at the end of the test. Its callers drive it as if it had a connection; see rest_test.go for one without.
func newLoop(t testing.TB, cfg LoopConfig) *Loop {
	t.Helper()
	if cfg.Grace == 0 {
		cfg.Grace = 500 * time.Millisecond
	}
	if cfg.OnError == nil {
		cfg.OnError = func(err error) { t.Errorf("loop: %v", err) }
	}
	l, err := NewLoop(cfg)
	if err != nil {
		t.Fatal(err)
	}
	l.open.Store(1)
	t.Cleanup(func() { _ = l.Close(context.Background()) })
	return l
}

// listen opens a listener on a port of the loopback.
func listen(t testing.TB, l *Loop, accept func(*Conn) Handler) net.Addr {
	t.Helper()
	addr, err := l.Listen("tcp", "127.0.0.1:0", accept)
	if err != nil {
		t.Fatal(err)
	}
	return addr
}

// dialNet makes an ordinary connection to addr.
func dialNet(t testing.TB, addr net.Addr) net.Conn {
	t.Helper()
	nc, err := net.DialTimeout(addr.Network(), addr.String(), hang)
	for errors.Is(err, syscall.EAGAIN) { // a Unix socket's queue is full
		time.Sleep(time.Millisecond)
		nc, err = net.DialTimeout(addr.Network(), addr.String(), hang)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = nc.Close() })
	_ = nc.SetDeadline(time.Now().Add(hang))
	return nc
}

// quiet waits until the loop rests: a loop that turns round on something never does. What is still on its way takes turns of its own.
func quiet(t testing.TB, l *Loop, what string) {
	t.Helper()
	const most, calm = 20, 3 // turns in a while; a loop that turns round makes ten thousand
	times := 0
	until(t, "the loop rests "+what, func() bool {
		before := l.turns.Load()
		time.Sleep(30 * time.Millisecond)
		if times++; l.turns.Load()-before > most {
			times = 0
		}
		return times == calm
	})
}

// inTurn runs f in a turn of the loop and waits for it.
func inTurn(t testing.TB, l *Loop, f func()) {
	t.Helper()
	done := make(chan struct{})
	if !l.Post(func() { f(); close(done) }) {
		t.Fatal("post refused")
	}
	wait(t, done, "posted function")
}

// until waits for something that only polling can find out.
func until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(hang); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: does not happen", what)
		}
	}
}

func wait(t testing.TB, c <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(hang):
		t.Fatalf("%s: did not happen", what)
	}
}

// echo sends back what it gets, and closes after the peer's end of stream.
func echo(*Conn) Handler {
	return &funcs{read: func(c *Conn, p []byte) error {
		_, err := c.Write(p)
		return err
	}}
}

// once is closed by the first call of its done.
type once struct {
	sync.Once
	c chan struct{}
}

func newOnce() *once  { return &once{c: make(chan struct{})} }
func (o *once) done() { o.Do(func() { close(o.c) }) }

// pattern fills p with the bytes of a stream at offset off, so that any byte tells where it belongs.
func pattern(p []byte, off int) {
	for i := range p {
		p[i] = patternAt(off + i)
	}
}

func patternAt(i int) byte { return byte(i*7) ^ byte(i>>8) ^ byte(i>>16) }

// checkPattern finds the first byte that does not belong there, -1 if none.
func checkPattern(p []byte, off int) int {
	for i := range p {
		if p[i] != patternAt(off+i) {
			return off + i
		}
	}
	return -1
}

// readAll reads to the end of stream and checks the pattern.
func readAll(t testing.TB, r io.Reader, want int) {
	t.Helper()
	buf, got := make([]byte, 64<<10), 0
	for {
		n, err := r.Read(buf)
		if at := checkPattern(buf[:n], got); at >= 0 {
			t.Fatalf("byte %d is wrong", at)
		}
		got += n
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatalf("after %d bytes: %v", got, err)
		}
	}
	if got != want {
		t.Fatalf("got %d bytes to the end of stream, want %d", got, want)
	}
}
