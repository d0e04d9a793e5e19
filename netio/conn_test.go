package netio

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"math/big"
	mrand "math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirflow/weir/internal/buildtag"
	"github.com/weirflow/weir/ringbuf"
	"github.com/weirflow/weir/segment"
)

// What a handler may do in its calls: close, from OnRead, OnFlush and OnOpen, and the order that follows.
func TestCloseInHandler(t *testing.T) {
	eachMode(t, func(t *testing.T, l *Loop) {
		reason := errors.New("reason")
		for _, where := range []string{"open", "flush", "read", "error"} {
			closed := make(chan error, 2)
			var calls atomic.Int32
			h := &funcs{close: func(c *Conn, err error) {
				if !c.Closed() || calls.Add(1) != 1 {
					t.Error("closed twice")
				}
				closed <- err
			}}
			after := func(c *Conn) {
				if c.Closed() {
					t.Errorf("%s: called after Close", where)
				}
			}
			act := func(c *Conn) {
				c.Stage(100)
				c.AppendBuffer(segment.Wrap(make([]byte, 10000), segment.DataBuffer))
				c.Close(reason)
				c.Close(nil)
				if len(c.Stage(10)) != 10 || c.Pending() != 0 && c.p == nil {
					t.Error("Stage on a closed connection")
				}
				if _, err := c.Write([]byte{1}); err == nil {
					t.Error("Write on a closed connection")
				}
			}
			h.open = func(c *Conn) {
				if where == "open" {
					act(c)
				}
			}
			h.flush = func(c *Conn) {
				after(c)
				if where == "flush" {
					act(c)
				}
			}
			h.read = func(c *Conn, p []byte) error {
				after(c)
				if where == "read" {
					act(c)
				}
				if where == "error" {
					return reason
				}
				return nil
			}
			addr := listen(t, l, func(*Conn) Handler { return h })
			nc := dialNet(t, addr)
			_, _ = nc.Write([]byte{1})
			select {
			case err := <-closed:
				if err != reason {
					t.Errorf("%s: got %v", where, err)
				}
			case <-time.After(hang):
				t.Fatalf("%s: not closed", where)
			}
			l.CloseListener(addr)
		}
	})
}

// A refused connection is closed, and the listener goes on; a closed listener refuses.
func TestRefuseAndCloseListener(t *testing.T) {
	eachMode(t, func(t *testing.T, l *Loop) {
		n := 0
		addr := listen(t, l, func(c *Conn) Handler {
			if n++; n == 1 {
				return nil
			}
			return echo(c)
		})
		nc := dialNet(t, addr)
		if _, err := nc.Read(make([]byte, 1)); err == nil {
			t.Fatal("not refused")
		}
		nc = dialNet(t, addr)
		_, _ = nc.Write([]byte{1})
		if _, err := io.ReadFull(nc, make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		l.CloseListener(addr)
		for end := time.Now().Add(hang); ; time.Sleep(time.Millisecond) {
			c, err := net.Dial("tcp", addr.String())
			if err != nil {
				break
			}
			_ = c.Close()
			if time.Now().After(end) {
				t.Fatal("the closed listener still accepts")
			}
		}
		_, _ = nc.Write([]byte{1})
		if _, err := io.ReadFull(nc, make([]byte, 1)); err != nil {
			t.Fatalf("a connection of the closed listener: %v", err)
		}
	})
}

// CloseAfterFlush: everything arrives although input lies unread, which would make a plain close a reset.
func TestCloseAfterFlush(t *testing.T) {
	eachMode(t, func(t *testing.T, l *Loop) {
		const total = 4 << 20
		got := make(chan error, 1)
		addr := listen(t, l, func(c *Conn) Handler {
			c.PauseRead()
			h := &funcs{close: func(_ *Conn, err error) { got <- err }}
			h.open = func(c *Conn) {
				for off := 0; off < total; off += 8192 {
					pattern(c.Stage(8192), off)
				}
				l.After(10*time.Millisecond, func() { c.CloseAfterFlush(hang) })
			}
			return h
		})
		nc := dialNet(t, addr)
		go func() {
			for range 100 { // never read by the handler
				if _, err := nc.Write(make([]byte, 1000)); err != nil {
					return
				}
				time.Sleep(time.Millisecond)
			}
		}()
		time.Sleep(30 * time.Millisecond)
		readAll(t, nc, total)
		_ = nc.Close() // the portable driver waits for it
		if err := <-got; err != nil {
			t.Fatal(err)
		}
	})
}

// A peer that has asked and ends its side at once still gets the whole answer, though the handler knows nothing of half-closed
// connections.
func TestPeerEndsBeforeItsAnswer(t *testing.T) {
	for _, m := range modes {
		m.cfg.Grace = hang // on a loaded machine the answer takes longer than what tests allow otherwise
		l := newLoop(t, m.cfg)
		const total = 8 << 20 // more than sockets hold
		got := make(chan error, 1)
		addr := listen(t, l, func(*Conn) Handler {
			return &funcs{
				read: func(c *Conn, _ []byte) error {
					for off := 0; off < total; off += 8192 {
						pattern(c.Stage(8192), off)
					}
					return nil
				},
				close: func(_ *Conn, err error) { got <- err },
			}
		})
		nc := dialNet(t, addr)
		if _, err := nc.Write([]byte{1}); err != nil {
			t.Fatal(err)
		}
		if err := nc.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		inTurn(t, l, func() {}) // the end is seen, and most of the answer is not written
		readAll(t, nc, total)
		_ = nc.Close()
		if err := <-got; err != nil {
			t.Fatal(err)
		}
	}
}

// The peer takes nothing: the limit holds, and buffers come back.
func TestCloseAfterFlushLimit(t *testing.T) {
	eachMode(t, func(t *testing.T, l *Loop) {
		b := segment.Wrap(make([]byte, 64<<20), segment.DataBuffer)
		defer b.Release()
		got := make(chan error, 1)
		addr := listen(t, l, func(c *Conn) Handler {
			h := &funcs{close: func(_ *Conn, err error) { got <- err }}
			c.AppendBuffer(b.Retain())
			c.CloseAfterFlush(50 * time.Millisecond)
			return h
		})
		dialNet(t, addr)
		select {
		case err := <-got:
			if !errors.Is(err, ErrFlushTimeout) || b.Refs() != 1 {
				t.Fatalf("got %v, %d references", err, b.Refs())
			}
		case <-time.After(hang):
			t.Fatal("not closed")
		}
	})
}

// Loop.Close: what is queued goes out, OnClose was called when it returns.
func TestLoopCloseFlushes(t *testing.T) {
	for _, m := range modes {
		t.Run(m.name, func(t *testing.T) {
			const total = 2 << 20
			cfg := m.cfg
			cfg.Grace = hang
			l, err := NewLoop(cfg)
			if err != nil {
				t.Fatal(err)
			}
			opened, closed := newOnce(), false
			addr := listen(t, l, func(c *Conn) Handler {
				pattern(c.Stage(total), 0)
				opened.done()
				return &funcs{close: func(_ *Conn, err error) {
					if err != nil {
						t.Error(err)
					}
					closed = true
				}}
			})
			nc := dialNet(t, addr)
			wait(t, opened.c, "accept")
			read := make(chan struct{})
			go func() {
				defer close(read)
				time.Sleep(20 * time.Millisecond)
				readAll(t, nc, total)
				_ = nc.Close()
			}()
			ran := false
			l.Post(func() { ran = true })
			if err := l.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
			if !closed || !ran {
				t.Errorf("Close returned, OnClose called: %v, posted function ran: %v", closed, ran)
			}
			wait(t, read, "reading")
		})
	}
}

// TLS goes through the portable half, within the same loop.
func TestTLS(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), DNSNames: []string{"weir.test"}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(cert)
	server := &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}
	client := &tls.Config{RootCAs: roots, ServerName: "weir.test"}

	eachMode(t, func(t *testing.T, l *Loop) {
		const total = 3 << 20
		a, b := netPair(t)
		got, ended := 0, make(chan error, 2)
		if _, err := l.Adopt(tls.Server(a, server), &funcs{
			read: func(_ *Conn, p []byte) error {
				if at := checkPattern(p, got); at >= 0 {
					t.Errorf("byte %d is wrong", at)
				}
				got += len(p)
				return nil
			},
			close: func(_ *Conn, err error) {
				if got != total {
					t.Errorf("%d of %d bytes", got, total)
				}
				ended <- err
			},
		}); err != nil {
			t.Fatal(err)
		}
		s := &bulkSender{total: total}
		s.close = func(_ *Conn, err error) { ended <- err }
		if _, err := l.Adopt(tls.Client(b, client), s); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			select {
			case err := <-ended:
				if err != nil {
					t.Error(err)
				}
			case <-time.After(hang):
				t.Fatal("TLS connections do not end")
			}
		}
		// A client that does not know the certificate: both ends say so.
		a, b = netPair(t)
		fail := func(_ *Conn, err error) { ended <- err }
		if _, err := l.Adopt(tls.Server(a, server), &funcs{close: fail}); err != nil {
			t.Fatal(err)
		}
		if _, err := l.Adopt(tls.Client(b, &tls.Config{ServerName: "weir.test"}), &funcs{close: fail}); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			select {
			case err := <-ended:
				if err == nil {
					t.Error("closed without an error")
				}
			case <-time.After(hang):
				t.Fatal("a failed handshake leaves a connection open")
			}
		}
	})
}

// The standby takes over from a consumer that stays away, and lets it have the turns back.
func TestStandbyTakesOver(t *testing.T) {
	l := newLoop(t, LoopConfig{})
	addr := listen(t, l, echo)
	nc := dialNet(t, addr)
	n := ringbuf.NewNotifier()
	var flag atomic.Bool
	for i := range 20 {
		// The consumer drives for a while …
		flag.Store(false)
		go func() {
			_, _ = nc.Write([]byte{1})
			_, _ = io.ReadFull(nc, make([]byte, 1))
			flag.Store(true)
			n.Wake()
		}()
		if err := l.RunUntil(t.Context(), flag.Load, n); err != nil {
			t.Fatal(err)
		}
		// … and stays away while a peer wants an answer.
		_, _ = nc.Write([]byte{1})
		if _, err := io.ReadFull(nc, make([]byte, 1)); err != nil {
			t.Fatalf("round %d: %v", i, err)
		}
	}
}

// Everything that drives a loop, at once, with pauses: nobody may get stuck.
func TestStressDrivers(t *testing.T) {
	eachMode(t, func(t *testing.T, l *Loop) {
		server := newLoop(t, LoopConfig{Poll: -1})
		addr := listen(t, server, echo)
		stop := make(chan struct{})
		d := 700 * time.Millisecond
		if testing.Short() || buildtag.Race {
			d = 150 * time.Millisecond
		}
		time.AfterFunc(d, func() { close(stop) })
		stopped := func() bool {
			select {
			case <-stop:
				return true
			default:
				return false
			}
		}
		src := &ringSource{ring: ringbuf.NewSPSC[int](1024)}
		l.AddSource(src)
		var wg sync.WaitGroup
		var trips [3]int
		for i := range trips { // consumers
			wg.Add(1)
			go func() {
				defer wg.Done()
				n := ringbuf.NewNotifier()
				var got, sent atomic.Int64
				c, err := l.Dial(t.Context(), "tcp", addr.String(), &funcs{read: func(_ *Conn, p []byte) error {
					got.Add(int64(len(p)))
					n.Wake()
					return nil
				}})
				if err != nil {
					t.Error(err)
					return
				}
				send := func() { c.Stage(int(sent.Load() - got.Load())) }
				for !stopped() || trips[i] == 0 {
					sent.Add(1 + mrand.Int64N(20000))
					for !l.Post(send) {
						time.Sleep(time.Millisecond)
					}
					if mrand.IntN(2) == 0 {
						l.Kick()
					}
					ctx, cancel := t.Context(), func() {}
					err := l.RunUntil(ctx, func() bool { return got.Load() == sent.Load() }, n)
					cancel()
					if err != nil {
						t.Error(err)
						return
					}
					trips[i]++
					if mrand.IntN(20) == 0 {
						time.Sleep(time.Duration(mrand.Int64N(int64(25 * time.Millisecond))))
					}
				}
			}()
		}
		wg.Add(2)
		pushed := int64(0)
		go func() { // a writer
			defer wg.Done()
			for !stopped() {
				if src.ring.Push(1) {
					pushed++
				}
				if mrand.IntN(4) == 0 {
					l.Wake()
				} else {
					l.Kick()
				}
				time.Sleep(time.Duration(mrand.Int64N(int64(300 * time.Microsecond))))
			}
			l.Kick()
		}()
		go func() { // one that runs turns with a limit
			defer wg.Done()
			for !stopped() {
				if !l.cfg.Dedicated && l.TryAcquire() {
					l.Turn(Wait(mrand.Int64N(int64(2 * time.Millisecond))))
					l.Release()
				}
				time.Sleep(time.Duration(mrand.Int64N(int64(time.Millisecond))))
			}
		}()
		done := make(chan struct{})
		go func() { wg.Wait(); close(done) }()
		wait(t, done, "end of the consumers")
		for end := time.Now().Add(hang); src.got.Load() != pushed; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("%d of %d items seen", src.got.Load(), pushed)
			}
		}
		for i, n := range trips {
			if n == 0 {
				t.Errorf("consumer %d made no round trip", i)
			}
		}
	})
}
