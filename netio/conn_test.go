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

// copySender sends the pattern: by turns staged, copied together, by reference, and copied alone.
type copySender struct {
	funcs
	t           *testing.T
	at, size, n int
	copies      int // bytes that were copied together
}

// next is a buffer of the next n bytes.
func (s *copySender) next(n int) segment.Buffer {
	p := make([]byte, n)
	pattern(p, s.at)
	s.at += n
	return segment.Wrap(p, segment.DataBuffer)
}

func (s *copySender) OnFlush(c *Conn) {
	for ; s.at < s.size && !c.Full(); s.n++ {
		switch left := s.size - s.at; s.n % 6 {
		case 0:
			k := min(47, left)
			pattern(c.Stage(k), s.at)
			s.at += k
		case 1, 2, 4: // two behind one another, and one alone; some longer than a chunk
			var bufs []segment.Buffer
			total := 0
			for i := range 1 + s.n*31%200 {
				k := min(1+i*s.n*7%1500, left-total)
				if k == 0 {
					break
				}
				bufs = append(bufs, s.next(k))
				total += k
			}
			before, sent := c.Pending(), append([]segment.Buffer(nil), bufs...)
			c.AppendCopies(bufs)
			if c.Pending() != before+total {
				s.t.Errorf("%d bytes more are queued, want %d", c.Pending()-before, total)
			}
			for _, b := range sent {
				if !b.Released() {
					s.t.Error("a copied buffer is not released")
				}
			}
			s.copies += total
		case 3:
			c.AppendBuffer(s.next(min(CopyLimit+1000, left)))
		default:
			c.AppendBuffer(s.next(min(100, left)))
		}
	}
	if s.at == s.size {
		c.CloseWrite()
	}
}

// What AppendCopies takes arrives like anything else, and in its place.
func TestAppendCopies(t *testing.T) {
	eachMode(t, func(t *testing.T, l *Loop) {
		const size = 4 << 20
		closed := newOnce()
		s := &copySender{t: t, size: size}
		s.close = func(_ *Conn, err error) {
			if err != nil {
				t.Errorf("closed with %v", err)
			}
			closed.done()
		}
		nc := dialNet(t, listen(t, l, func(*Conn) Handler { return s }))
		readAll(t, nc, size)
		_ = nc.Close()
		wait(t, closed.c, "the end of the connection")
		inTurn(t, l, func() {
			if s.copies < size/2 {
				t.Errorf("the case did not happen: %d of %d bytes were copied together", s.copies, size)
			}
		})
	})
}

// lender is a pool whose buffers a connection gets, with or without a releaser between. Its owner is who holds the token.
type lender struct {
	t        *testing.T
	pool     *segment.Pool
	local    *segment.LocalPool
	releaser *segment.Releaser
}

func newLender(t *testing.T, withReleaser bool) *lender {
	t.Helper()
	pool, err := segment.NewPool(segment.Config{SegmentSize: 256, Segments: 8})
	if err != nil {
		t.Fatal(err)
	}
	local, err := pool.NewLocal(segment.LocalConfig{Required: 8})
	if err != nil {
		t.Fatal(err)
	}
	d := &lender{t: t, pool: pool, local: local}
	if withReleaser {
		d.releaser = local.NewReleaser()
	}
	return d
}

// lend returns three buffers of a word, one of no bytes, and no buffer: 10 bytes.
func (d *lender) lend() []segment.Buffer {
	var bufs []segment.Buffer
	for _, word := range []string{"one ", "two ", "", "10"} {
		b, ok := d.local.Take()
		if !ok {
			d.t.Errorf("nothing to take: %+v", d.local.Stats())
			return bufs
		}
		bufs = append(bufs, b.Resized(copy(b.Memory(), word)))
	}
	return append(bufs, segment.Buffer{})
}

// back fails the test unless the four came home, and are seen there without a Flush of the test's.
func (d *lender) back(what string) {
	d.t.Helper()
	if n := d.local.Drain(); n != 4 || d.local.Stats().InUse != 0 {
		d.t.Errorf("%s: %d buffers came home, want 4; %d are out", what, n, d.local.Stats().InUse)
	}
	if d.releaser != nil && d.releaser.Staged() != 0 {
		d.t.Errorf("%s: %d returns are not flushed", what, d.releaser.Staged())
	}
}

func (d *lender) close() {
	if d.releaser != nil {
		d.releaser.Close()
	}
	d.local.Close()
	if u := d.pool.Usage(); u.Misuse.Total() != 0 {
		d.t.Errorf("%+v", u.Misuse)
	}
	if err := d.pool.Close(); err != nil {
		d.t.Error(err)
	}
}

// lendTo makes a connection that is open, and stays so after an end of stream; nc is the other side.
func lendTo(t *testing.T, l *Loop, withReleaser bool) (c *Conn, d *lender, nc net.Conn) {
	t.Helper()
	d = newLender(t, withReleaser)
	opened := make(chan *Conn, 1)
	h := &ending{end: func(*Conn) {}}
	h.open = func(c *Conn) {
		if d.releaser != nil {
			c.SetReleaser(d.releaser)
		}
		opened <- c
	}
	nc = dialNet(t, listen(t, l, func(*Conn) Handler { return h }))
	return <-opened, d, nc
}

// Who appends copies has the buffers back when the call returns, before anything is written.
func TestAppendCopiesReleasesAtOnce(t *testing.T) {
	eachMode(t, func(t *testing.T, l *Loop) {
		for _, withReleaser := range []bool{false, true} {
			c, d, nc := lendTo(t, l, withReleaser)
			inTurn(t, l, func() {
				c.AppendCopies(nil)
				c.AppendCopies([]segment.Buffer{{}})
				if !c.out.empty() || c.chunk != nil {
					t.Errorf("%d pieces are queued for no bytes", c.out.len())
				}
				for range 3 {
					c.AppendCopies(d.lend())
					d.back("appended")
				}
				if c.Pending() != 30 || c.out.len() != 1 {
					t.Errorf("%d bytes are queued in %d pieces, want 30 in one", c.Pending(), c.out.len())
				}
				d.close() // while they are queued: the connection holds none
			})
			got := make([]byte, 30)
			if _, err := io.ReadFull(nc, got); err != nil || string(got) != "one two 10one two 10one two 10" {
				t.Errorf("releaser %t: got %q, %v", withReleaser, got, err)
			}
		}
	})
}

// On a connection that takes nothing any more they go home too, and nothing is queued.
func TestAppendCopiesToDeafConn(t *testing.T) {
	eachMode(t, func(t *testing.T, l *Loop) {
		for _, withReleaser := range []bool{false, true} {
			for _, how := range []string{"closed", "shut"} {
				c, d, nc := lendTo(t, l, withReleaser)
				end := func() {
					if b, err := io.ReadAll(nc); err != nil || len(b) != 0 {
						t.Errorf("%s: got %q, %v", how, b, err)
					}
				}
				if how == "shut" {
					inTurn(t, l, c.CloseWrite)
					end()
				}
				inTurn(t, l, func() {
					if how == "closed" {
						c.Close(nil)
					}
					dirty := c.dirty
					c.AppendCopies(d.lend())
					d.back(how)
					if c.Pending() != 0 || !c.out.empty() || c.chunk != nil || c.dirty != dirty {
						t.Errorf("%s: %d bytes are queued, chunk %t, to be flushed: %t", how, c.Pending(), c.chunk != nil, c.dirty)
					}
					d.close()
				})
				if how == "closed" {
					end()
				}
			}
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
