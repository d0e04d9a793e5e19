//go:build linux && !weirportable

package netio

import (
	"io"
	"net"
	"testing"
	"time"

	"github.com/weirflow/weir/internal/testcert"
	"github.com/weirflow/weir/segment"
	"golang.org/x/sys/unix"
)

// polling is manual with polling.
func polling(t testing.TB) *Loop {
	t.Helper()
	l := newLoop(t, LoopConfig{Standby: -1})
	if l.oneP {
		t.Skip("with one P there is no polling")
	}
	l.acquire()
	t.Cleanup(l.Release)
	return l
}

// TestPeekNever: where the kernel cannot, where tests stand in for it, and with TLS, small messages are read as ever.
func TestPeekNever(t *testing.T) {
	canPeek(t)
	const messages, size = 100, 20
	// check sends messages one at a time, and looks at what the loop did.
	check := func(t *testing.T, l *Loop, want bool, send func(), all func(n int) bool) {
		t.Helper()
		n := 0
		for range messages {
			send()
			n += size
			for end := time.Now().Add(prompt); !all(n); {
				if l.Turn(Wait(time.Second)); time.Now().After(end) {
					t.Fatalf("message of bytes to %d: does not come", n)
				}
			}
		}
		if l.stats.Reads < messages || (l.stats.Peeks > 0) != want {
			t.Errorf("%d reads, %d of them peeks", l.stats.Reads, l.stats.Peeks)
		}
	}
	for name, h := range map[string]*hooks{
		"plain": nil,
		"write": {write: func(c *Conn, v *vectors) (int, unix.Errno) { return v.write(c.sys.fd) }},
		"read":  {read: func(c *Conn, p []byte) (int, unix.Errno) { return sysRead(c.sys.fd, p) }},
		"readv": {readv: func(c *Conn, v *vectors) (int, unix.Errno) { return v.read(c.sys.fd) }},
	} {
		t.Run("hooks "+name, func(t *testing.T) {
			p := newPeeked(t, LoopConfig{}, nil)
			p.l.hooks = h
			p.hold(func() {
				want := h == nil || h.read == nil && h.readv == nil
				check(t, p.l, want, func() { p.write(size) }, func(n int) bool { return p.got == n })
			})
		})
	}
	t.Run("many connections", func(t *testing.T) { // the loop goes over those that peek
		p := newPeeked(t, LoopConfig{}, nil)
		for range peekConns {
			_, b := netPair(t)
			if _, err := p.l.Adopt(b, &funcs{}); err != nil {
				t.Fatal(err)
			}
		}
		p.hold(func() { check(t, p.l, false, func() { p.write(size) }, func(n int) bool { return p.got == n }) })
	})
	t.Run("unix", func(t *testing.T) {
		l := polling(t)
		got := 0
		_, peer := pair(t, l, &funcs{read: func(_ *Conn, p []byte) error { got += len(p); return nil }})
		defer unix.Close(peer)
		check(t, l, false, func() { send(t, peer, make([]byte, size)) }, func(n int) bool { return got == n })
	})
	t.Run("multipath", func(t *testing.T) { // MPTCP has no SO_PEEK_OFF
		l := polling(t)
		var lc net.ListenConfig
		lc.SetMultipathTCP(true)
		nl, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer nl.Close()
		var d net.Dialer
		d.SetMultipathTCP(true)
		peer, err := d.DialContext(t.Context(), "tcp", nl.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer peer.Close()
		nc, err := nl.Accept()
		if err != nil {
			t.Fatal(err)
		}
		if ok, _ := nc.(*net.TCPConn).MultipathTCP(); !ok {
			_ = nc.Close()
			t.Skip("this kernel has no MPTCP")
		}
		got := 0
		c, err := l.Adopt(nc, &funcs{read: func(_ *Conn, p []byte) error { got += len(p); return nil }})
		if err != nil {
			t.Fatal(err)
		}
		check(t, l, unix.SetsockoptInt(c.sys.fd, unix.SOL_SOCKET, unix.SO_PEEK_OFF, 0) == nil, func() {
			if _, err := peer.Write(make([]byte, size)); err != nil {
				t.Fatal(err)
			}
		}, func(n int) bool { return got == n })
		if l.stats.Peeks == 0 && !c.sys.peek.never {
			t.Error("it asks again and again")
		}
	})
	t.Run("tls", func(t *testing.T) {
		a, b := newLoop(t, LoopConfig{}), newLoop(t, LoopConfig{})
		got := make(chan int, messages)
		o := TLS{Config: testcert.New(t, "authority").TLS(t, "node")}
		addr := listenTLS(t, b, o, func(*Conn) Handler {
			return &funcs{read: func(_ *Conn, p []byte) error { got <- len(p); return nil }}
		})
		c, err := a.DialTLS(t.Context(), "tcp", addr.String(), o, &funcs{})
		if err != nil {
			t.Fatal(err)
		}
		for range messages {
			inTurn(t, a, func() { _, _ = c.Write(make([]byte, size)) })
			select {
			case n := <-got:
				if n != size {
					t.Fatalf("%d bytes at once", n)
				}
			case <-time.After(hang):
				t.Fatal("a message does not come")
			}
		}
		if s := stats(t, b); s.Reads < messages/2 || s.Peeks != 0 {
			t.Errorf("%d reads, %d of them peeks", s.Reads, s.Peeks)
		}
	})
}

// TestPeekNotWithAnswers: where each message is answered on its connection nobody peeks, as the answers carry the acknowledgements; and who
// peeks stops when answers begin.
func TestPeekNotWithAnswers(t *testing.T) {
	const rounds = 200
	t.Run("who answers", func(t *testing.T) {
		answer := true
		p := newPeeked(t, LoopConfig{}, func(p *peeked) Handler {
			check := p.check
			p.read = func(c *Conn, b []byte) error {
				if check(b); answer {
					_, _ = c.Write([]byte("y"))
				}
				return nil
			}
			return &p.funcs
		})
		answered := func(n int) {
			for range n {
				p.small(1, 20)
				if _, err := io.ReadFull(p.peer, make([]byte, 1)); err != nil {
					t.Fatal(err)
				}
			}
		}
		answered(rounds)
		if p.l.stats.Reads < rounds || p.l.stats.Peeks != 0 {
			t.Errorf("%d reads, %d of them peeks", p.l.stats.Reads, p.l.stats.Peeks)
		}
		answer = false
		p.look(20)
		answer = true
		answered(2 * peekTurn)
		before := p.l.stats.Peeks
		answered(rounds)
		if n := p.l.stats.Peeks - before; n != 0 || p.c.sys.peek.on {
			t.Errorf("%d peeks in %d reads that are answered; %+v", n, rounds, p.c.sys.peek)
		}
	})
	t.Run("who asks", func(t *testing.T) {
		p := newPingPong(t, LoopConfig{})
		for range rounds {
			p.round(t.Context(), t, 64)
		}
		if p.l.stats.Reads < rounds || p.l.stats.Peeks != 0 {
			t.Errorf("%d reads, %d of them peeks", p.l.stats.Reads, p.l.stats.Peeks)
		}
	})
}

// TestPeekNotWithFiles: answers that are parts of files carry acknowledgements as well.
func TestPeekNotWithFiles(t *testing.T) {
	file, _ := patternFile(t, 100)
	p := newPeeked(t, LoopConfig{}, func(p *peeked) Handler {
		check := p.check
		p.read = func(c *Conn, b []byte) error {
			check(b)
			c.AppendBuffer(file.Wrap(0, 100, segment.DataBuffer))
			return nil
		}
		return &p.funcs
	})
	for range 200 {
		p.small(1, 20)
		if _, err := io.ReadFull(p.peer, make([]byte, 100)); err != nil {
			t.Fatal(err)
		}
	}
	if p.l.stats.Peeks != 0 {
		t.Errorf("%d peeks in %d reads that are answered", p.l.stats.Peeks, p.l.stats.Reads)
	}
}
