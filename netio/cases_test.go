package netio

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// Scenarios from public bug reports of other network libraries, by their number in our list. Those that need the kernel to be
// stood in for are in cases_linux_test.go.

// rounds is n, less in short mode, under the race detector and on the portable driver, whose connections cost more.
func rounds(n int) int {
	if testing.Short() || raceOrPortable {
		return max(20, n/20)
	}
	return n
}

// NET-03: the last bytes before the peer's close are lost.
func TestNET03DataBeforeClose(t *testing.T) {
	const total = 100_000
	l := newLoop(t, LoopConfig{ReadSize: 4096})
	type result struct {
		bytes, wrong int
		err          error
	}
	results := make(chan result, 1)
	closes := 0
	addr := listen(t, l, func(*Conn) Handler {
		r := result{wrong: -1}
		return &funcs{
			read: func(_ *Conn, p []byte) error {
				if at := checkPattern(p, r.bytes); at >= 0 && r.wrong < 0 {
					r.wrong = at
				}
				r.bytes += len(p)
				return nil
			},
			close: func(_ *Conn, err error) { closes++; r.err = err; results <- r },
		}
	})
	p := make([]byte, total)
	pattern(p, 0)
	n := rounds(1000)
	for range n {
		nc := dialNet(t, addr)
		if _, err := nc.Write(p); err != nil {
			t.Fatal(err)
		}
		_ = nc.Close()
		select {
		case r := <-results:
			if r.bytes != total || r.wrong >= 0 || r.err != nil {
				t.Fatalf("%d bytes, wrong at %d, closed with %v", r.bytes, r.wrong, r.err)
			}
		case <-time.After(hang):
			t.Fatal("not closed")
		}
	}
	inTurn(t, l, func() {
		if closes != n {
			t.Errorf("%d close callbacks for %d connections", closes, n)
		}
	})
}

// Data before a reset: everything that came is passed on, then the error.
func TestDataBeforeReset(t *testing.T) {
	const total = 50_000 // less than a first window: what the sender's kernel still holds is lost by its reset
	l := newLoop(t, LoopConfig{ReadSize: 4096})
	got := make(chan error, 1)
	read := new(int)
	addr := listen(t, l, func(c *Conn) Handler {
		*read = 0
		c.PauseRead() // until the reset is there too
		return &funcs{
			read:  func(_ *Conn, p []byte) error { *read += len(p); return nil },
			close: func(_ *Conn, err error) { got <- err },
		}
	})
	for range rounds(40) {
		nc := dialNet(t, addr)
		if _, err := nc.Write(make([]byte, total)); err != nil {
			t.Fatal(err)
		}
		_ = nc.(*net.TCPConn).SetLinger(0)
		_ = nc.Close()
		time.Sleep(time.Millisecond)
		for open := false; !open; { // it may not be accepted yet
			inTurn(t, l, func() {
				for _, c := range l.conns {
					open = true
					c.ResumeRead()
				}
			})
		}
		select {
		case err := <-got:
			inTurn(t, l, func() {
				if !errors.Is(err, syscall.ECONNRESET) || *read != total {
					t.Errorf("closed with %v after %d of %d bytes", err, *read, total)
				}
			})
		case <-time.After(hang):
			t.Fatal("not closed")
		}
	}
}

// NET-05: a large write made in the "opened" callback is never completed.
func TestNET05WriteOnOpen(t *testing.T) {
	const total = 6 << 20
	l := newLoop(t, LoopConfig{})
	addr := listen(t, l, func(c *Conn) Handler {
		for off := 0; off < total; off += 10240 {
			pattern(c.Stage(min(10240, total-off)), off)
		}
		c.CloseWrite()
		return &funcs{close: func(_ *Conn, err error) {
			if err != nil {
				t.Errorf("closed with %v", err)
			}
		}}
	})
	nc := dialNet(t, addr)
	if err := nc.(*net.TCPConn).SetReadBuffer(64 << 10); err != nil {
		t.Fatal(err)
	}
	time.Sleep(200 * time.Millisecond) // part of the case: the writer has come to a stop
	readAll(t, nc, total)
}

// NET-10 and NET-22: a failed connect must fail, in time, with the address and the cause.
func TestNET10NET22DialFails(t *testing.T) {
	l := newLoop(t, LoopConfig{})
	taken, _ := netPair(t)
	addr := taken.LocalAddr().String() // nobody listens there, nor can anybody begin to meanwhile
	called := func(string) *funcs {
		return &funcs{
			open:  func(*Conn) { t.Error("opened") },
			close: func(*Conn, error) { t.Error("closed") },
		}
	}
	c, err := l.Dial(context.Background(), "tcp", addr, called(""))
	if c != nil || !errors.Is(err, syscall.ECONNREFUSED) || !strings.Contains(err.Error(), addr) {
		t.Fatalf("got %v, %v", c, err)
	}
	done := make(chan error, 1)
	if !l.DialFunc(context.Background(), "tcp", addr, called(""), func(c *Conn, err error) {
		if c != nil {
			err = errors.New("a connection was handed out")
		}
		done <- err
	}) {
		t.Fatal("refused")
	}
	if err := <-done; !errors.Is(err, syscall.ECONNREFUSED) {
		t.Fatal(err)
	}
}

// NET-21: memory grows without bound while the other side is slow.
func TestNET21ProxyBackpressure(t *testing.T) {
	const (
		limit   = 1 << 20
		segment = 32 << 10
		total   = 32 << 20
	)
	l := newLoop(t, LoopConfig{ReadSize: segment})
	slowL, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer slowL.Close()

	peak, paused := 0, atomic.Bool{}
	addr := listen(t, l, func(in *Conn) Handler {
		var out *Conn
		in.PauseRead()
		l.DialFunc(t.Context(), "tcp", slowL.Addr().String(), &funcs{
			open: func(c *Conn) { out = c; in.ResumeRead() },
			flush: func(c *Conn) {
				if c.Pending() < limit/2 && paused.Load() {
					paused.Store(false)
					in.ResumeRead()
				}
			},
		}, func(_ *Conn, err error) {
			if err != nil {
				t.Errorf("dial: %v", err)
			}
		})
		h := &ending{end: func(*Conn) { out.CloseWrite() }}
		h.read = func(c *Conn, p []byte) error {
			_, _ = out.Write(p)
			peak = max(peak, out.Pending())
			if out.Pending() >= limit {
				paused.Store(true)
				c.PauseRead()
			}
			return nil
		}
		return h
	})
	fast := dialNet(t, addr)
	go func() {
		buf := make([]byte, 64<<10)
		for off := 0; off < total; off += len(buf) {
			pattern(buf, off)
			if _, err := fast.Write(buf); err != nil {
				return
			}
		}
		_ = fast.(*net.TCPConn).CloseWrite()
	}()
	slow, err := slowL.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer slow.Close()
	_ = slow.(*net.TCPConn).SetReadBuffer(64 << 10)
	_ = slow.SetDeadline(time.Now().Add(hang))
	until(t, "reading is paused", paused.Load)
	quiet(t, l, "while everything is paused") // once every buffer on the way is full
	if !paused.Load() {
		t.Fatal("the case did not happen: nothing is paused")
	}
	readAll(t, slow, total)
	inTurn(t, l, func() {
		if peak > limit+2*segment {
			t.Errorf("proxy held %d bytes, limit %d", peak, limit)
		}
	})
}

// NET-24: an idle connection that the server has closed is handed out again.
func TestNET24IdleConnectionClosed(t *testing.T) {
	l := newLoop(t, LoopConfig{})
	server := newLoop(t, LoopConfig{})
	addr := listen(t, server, echo)
	cache := make(chan *Conn, 1)
	gone := make(chan *Conn, 1)
	c, err := l.Dial(t.Context(), "tcp", addr.String(), &funcs{close: func(c *Conn, err error) {
		if err != nil {
			t.Errorf("closed with %v", err)
		}
		<-cache
		gone <- c
	}})
	if err != nil {
		t.Fatal(err)
	}
	cache <- c
	for n := 0; n == 0; {
		inTurn(t, server, func() {
			for _, c := range server.conns {
				n++
				c.Close(nil)
			}
		})
	}
	select {
	case g := <-gone:
		if g != c || len(cache) != 0 {
			t.Fatal("another connection was removed")
		}
	case <-time.After(hang):
		t.Fatal("the closed connection stays in the cache")
	}
	got := make(chan byte, 1)
	if _, err := l.Dial(t.Context(), "tcp", addr.String(), &funcs{
		open: func(c *Conn) { c.Stage(1)[0] = 42 },
		read: func(_ *Conn, p []byte) error { got <- p[0]; return nil },
	}); err != nil {
		t.Fatal(err)
	}
	select {
	case b := <-got:
		if b != 42 {
			t.Fatal("wrong byte")
		}
	case <-time.After(hang):
		t.Fatal("the new connection does not work")
	}
}

// NET-29: stopping what did not start, or twice, or with odd contexts.
func TestNET29Close(t *testing.T) {
	before := runtime.NumGoroutine()
	expired, cancel := context.WithCancel(context.Background())
	cancel()
	for name, ctx := range map[string]context.Context{"nil": nil, "background": context.Background(), "expired": expired} {
		t.Run(name, func(t *testing.T) {
			quick := func(want error, l *Loop) {
				t.Helper()
				start := time.Now()
				if err := l.Close(ctx); !errors.Is(err, want) {
					t.Errorf("got %v, want %v", err, want)
				}
				if d := time.Since(start); d > hang/2 {
					t.Errorf("took %v", d)
				}
			}
			quick(ErrClosed, new(Loop))
			quick(ErrClosed, nil)

			l, err := NewLoop(LoopConfig{})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := l.Listen("tcp", "256.0.0.1:1", echo); err == nil {
				t.Fatal("bound to nonsense")
			}
			quick(nil, l)
			quick(ErrClosed, l)

			l, err = NewLoop(LoopConfig{Grace: 100 * time.Millisecond})
			if err != nil {
				t.Fatal(err)
			}
			addr := listen(t, l, echo)
			nc := dialNet(t, addr)
			if _, err := fmt.Fprint(nc, "x"); err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadFull(nc, make([]byte, 1)); err != nil {
				t.Fatal(err)
			}
			quick(nil, l)
			quick(ErrClosed, l)
			if _, err := nc.Read(make([]byte, 1)); err == nil {
				t.Error("the connection is still open")
			}
			_ = nc.Close()
			// Everything says no afterwards, and nothing panics.
			l.Wake()
			l.Kick()
			if l.Post(func() {}) || l.TryAcquire() {
				t.Error("a closed loop takes work")
			}
			if _, err := l.Listen("tcp", "127.0.0.1:0", echo); !errors.Is(err, ErrClosed) {
				t.Error(err)
			}
			if _, err := l.Dial(context.Background(), "tcp", addr.String(), &funcs{}); !errors.Is(err, ErrClosed) {
				t.Error(err)
			}
			if err := l.RunUntil(context.Background(), func() bool { return false }, nil); !errors.Is(err, ErrClosed) {
				t.Error(err)
			}
			zero := new(Loop)
			if zero.Post(func() {}) || !zero.Closed() {
				t.Error("a zero loop takes work")
			}
		})
	}
	for end := time.Now().Add(hang); runtime.NumGoroutine() > before; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d goroutines, %d at the start", runtime.NumGoroutine(), before)
		}
	}
}
