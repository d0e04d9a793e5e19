//go:build linux && !weirportable

package netio

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirflow/weir/internal/alloctest"
	"github.com/weirflow/weir/internal/buildtag"
	"github.com/weirflow/weir/internal/modelrun"
	"github.com/weirflow/weir/internal/testcert"
	"golang.org/x/sys/unix"
)

// spacer is a SpaceHandler made of functions; without offer it adds nothing.
type spacer struct {
	funcs
	offer  func(*Conn, *Space)
	filled func(c *Conn, n int, spill []byte) error

	asked, answered int // calls of OnSpace that added something, and of OnFilled
	added           int // bytes, since then
}

func (s *spacer) OnSpace(c *Conn, p *Space) {
	if s.asked != s.answered {
		panic("asked again before the answer")
	}
	before := p.Room()
	if s.offer != nil {
		s.offer(c, p)
	}
	if s.added = before - p.Room(); s.added > 0 {
		s.asked++
	}
}

func (s *spacer) OnFilled(c *Conn, n int, spill []byte) error {
	if s.answered++; s.answered != s.asked || n < 0 || n > s.added || n > 0 && len(spill) < n {
		panic(fmt.Sprintf("answer %d to %d questions: %d of %d bytes, %d to spill", s.answered, s.asked, n, s.added, len(spill)))
	}
	if s.filled != nil {
		return s.filled(c, n, spill)
	}
	return nil
}

// stream is a spacer that offers random pieces and checks that the bytes of a pattern come in order.
type stream struct {
	spacer
	t      testing.TB
	rng    *rand.Rand
	memory []byte   // that pieces are cut from
	pieces [][]byte // offered
	got    int
	count  modelrun.Exposure
	want   int
	done   *once // all of it is here
}

func newStream(t testing.TB, seed uint64, want int) *stream {
	s := &stream{t: t, rng: rand.New(rand.NewPCG(seed, 2)), memory: make([]byte, 1<<20), count: modelrun.Exposure{}, want: want, done: newOnce()}
	s.offer, s.filled, s.read = s.space, s.take, s.rest
	return s
}

// space offers none, a few or as many as there may be, small or large.
func (s *stream) space(_ *Conn, p *Space) {
	s.pieces = s.pieces[:0]
	n := []int{0, 1, 2, 7, maxSpace}[s.rng.IntN(5)]
	if n == 0 {
		s.count["none"]++
	}
	most := []int{1, 50, 5000, 100_000}[s.rng.IntN(4)]
	memory := s.memory
	for range n {
		size := min(1+s.rng.IntN(most), len(memory))
		if s.rng.IntN(20) == 0 {
			size = min(p.Room(), len(memory)) // nothing is left for the region
		}
		piece := memory[:size:size]
		room := p.Room()
		if ok := p.Add(piece); ok != (size > 0 && size <= room) {
			s.t.Errorf("a piece of %d bytes is added: %v, with room for %d", size, ok, room)
		} else if ok {
			s.pieces = append(s.pieces, piece)
			memory = memory[size:]
		}
	}
	if p.Room() == 0 {
		s.count["no region"]++
	}
	for _, piece := range s.pieces { // what is not read must not be taken for what is
		clear(piece)
	}
}

func (s *stream) take(_ *Conn, n int, spill []byte) error {
	if n == 0 {
		s.count["nothing"]++
		return nil
	}
	s.count["filled"]++
	if n < s.added {
		s.count["in part"]++
	}
	for i := range spill { // the handler's
		spill[i] = 0xEE
	}
	for _, p := range s.pieces {
		k := min(n, len(p))
		s.check(p[:k])
		n -= k
	}
	return nil
}

func (s *stream) rest(_ *Conn, p []byte) error {
	if len(s.pieces) > 0 {
		s.count["overflow"]++
	} else {
		s.count["plain"]++
	}
	s.check(p)
	return nil
}

func (s *stream) check(p []byte) {
	if at := checkPattern(p, s.got); at >= 0 && !s.t.Failed() {
		s.t.Errorf("byte %d is wrong", at)
	}
	if s.got += len(p); s.got >= s.want {
		s.done.done()
	}
}

// spaceLoop is a loop whose turns the test runs, with a region of size bytes.
func spaceLoop(t testing.TB, size int, h *hooks) *Loop {
	t.Helper()
	l := newLoop(t, LoopConfig{Standby: -1, Poll: -1, ReadSize: size})
	if !l.TryAcquire() {
		t.Fatal("token")
	}
	l.hooks = h
	t.Cleanup(l.Release)
	return l
}

// send writes all of p to a descriptor that has room.
func send(t testing.TB, fd int, p []byte) {
	t.Helper()
	if n, errno := sysWriteFD(fd, p); errno != 0 || n != len(p) {
		t.Fatalf("wrote %d of %d bytes: %v", n, len(p), errno)
	}
}

// TestSpaceInOrder: with any pieces, all bytes come in order, none of them twice.
func TestSpaceInOrder(t *testing.T) {
	count := modelrun.Exposure{}
	total := modelrun.Steps(t, 20<<20)
	for seed := range uint64(4) {
		reads := 0
		l := spaceLoop(t, []int{10_000, 1 << 16, DefaultReadSize, 300}[seed], nil)
		if seed%2 == 1 {
			l.hooks = &hooks{readv: func(c *Conn, v *vectors) (int, unix.Errno) {
				if reads++; reads%7 == 0 {
					return -1, []unix.Errno{unix.EAGAIN, unix.EINTR}[reads/7%2]
				}
				if v.len() > maxSpace+1 {
					t.Errorf("%d pieces in one read", v.len())
				}
				return v.read(c.sys.fd)
			}}
		}
		s := newStream(t, seed+modelrun.Seed(t), total/4)
		s.count = count
		c, peer := pair(t, l, s)
		rng := rand.New(rand.NewPCG(seed, 3))
		buf := make([]byte, 200_000)
		sent := 0
		for end := time.Now().Add(hang); s.got < s.want && !c.Closed(); {
			if n := min(1+rng.IntN([]int{10, 1000, len(buf)}[rng.IntN(3)]), s.want-sent); n > 0 {
				pattern(buf[:n], sent)
				if n, errno := sysWriteFD(peer, buf[:n]); errno == 0 {
					sent += n
				}
			}
			for range rng.IntN(3) {
				l.Turn(NoWait)
			}
			if time.Now().After(end) {
				t.Fatalf("%d of %d bytes came", s.got, s.want)
			}
		}
		_ = unix.Close(peer)
		for range 3 {
			l.Turn(NoWait)
		}
		if s.got != s.want || !c.Closed() || s.asked != s.answered {
			t.Fatalf("%d of %d bytes, closed %v, %d questions, %d answers", s.got, s.want, c.Closed(), s.asked, s.answered)
		}
	}
	count.Report(t, "space", total, "none", "filled", "in part", "overflow", "plain", "nothing", "no region")
}

// TestSpaceOverLoopback: the same over TCP, with a loop that runs by itself.
func TestSpaceOverLoopback(t *testing.T) {
	const total = 8 << 20
	for _, cfg := range []LoopConfig{{}, {ReadSize: 20_000}} {
		l := newLoop(t, cfg)
		s := newStream(t, 9, total)
		closed := newOnce()
		s.close = func(_ *Conn, err error) {
			if err != nil {
				t.Error(err)
			}
			closed.done()
		}
		nc := dialNet(t, listen(t, l, func(*Conn) Handler { return s }))
		rng := rand.New(rand.NewPCG(9, 9))
		buf := make([]byte, 100_000)
		for sent := 0; sent < total; {
			n := min(1+rng.IntN(len(buf)), total-sent)
			pattern(buf[:n], sent)
			if _, err := nc.Write(buf[:n]); err != nil {
				t.Fatal(err)
			}
			sent += n
		}
		wait(t, s.done.c, "the last byte")
		_ = nc.Close()
		wait(t, closed.c, "the end")
		if s.got != total || s.asked != s.answered || s.count["filled"] == 0 {
			t.Fatalf("%d of %d bytes, %d questions, %d answers, %v", s.got, total, s.asked, s.answered, s.count)
		}
	}
}

// TestSpaceRoom: what Add takes, and what it refuses.
func TestSpaceRoom(t *testing.T) {
	var s Space
	s.reset(100)
	if s.Add(nil) || s.Add([]byte{}) || s.Add(make([]byte, 101)) || s.Room() != 100 {
		t.Fatalf("%d bytes of room after what does not fit", s.Room())
	}
	if !s.Add(make([]byte, 99)) || s.Room() != 1 || s.Add(make([]byte, 2)) || s.Room() != 1 || !s.Add(make([]byte, 1)) || s.Room() != 0 {
		t.Fatalf("%d bytes of room at the end", s.Room())
	}
	if s.Add(make([]byte, 1)) || len(s.pieces) != 2 {
		t.Fatalf("%d pieces", len(s.pieces))
	}
	old := s.pieces
	s.reset(1000)
	if old[0] != nil || old[1] != nil || s.Room() != 1000 {
		t.Fatal("it keeps what was added before")
	}
	for i := range maxSpace {
		if !s.Add(make([]byte, 2)) {
			t.Fatalf("piece %d is refused", i)
		}
	}
	if s.Add(make([]byte, 2)) || s.Room() != 1000-2*maxSpace {
		t.Fatalf("more than %d pieces", maxSpace)
	}
	l := spaceLoop(t, 777, nil)
	room := 0
	_, peer := pair(t, l, &spacer{offer: func(_ *Conn, s *Space) { room = s.Room() }})
	defer unix.Close(peer)
	send(t, peer, []byte("x"))
	l.Turn(NoWait)
	if room != 777 {
		t.Fatalf("room for %d bytes", room)
	}
}

// TestSpaceAnswered: one OnFilled follows each OnSpace that added something, whatever the read comes to; none follows another.
func TestSpaceAnswered(t *testing.T) {
	for name, tc := range map[string]struct {
		offer, send, filled, read int
		errno                     unix.Errno // instead of a read
		end                       bool       // of the stream
		err                       error      // that the connection is closed with
	}{
		"part":       {offer: 100, send: 60, filled: 60},
		"exactly":    {offer: 100, send: 100, filled: 100},
		"more":       {offer: 100, send: 150, filled: 100, read: 50},
		"all there":  {offer: 1000, send: 1500, filled: 1000, read: 500}, // in the read after
		"none":       {offer: 0, send: 60, read: 60},
		"again":      {offer: 100, send: 60, errno: unix.EAGAIN, filled: 60},
		"interrupt":  {offer: 100, send: 60, errno: unix.EINTR, filled: 60},
		"reset":      {offer: 100, send: 60, errno: unix.ECONNRESET, err: unix.ECONNRESET},
		"end":        {offer: 100, end: true},
		"end behind": {offer: 100, send: 30, filled: 30, end: true},
		"end at all": {offer: 0, end: true},
	} {
		t.Run(name, func(t *testing.T) {
			failed := tc.errno == 0
			l := spaceLoop(t, 1000, &hooks{readv: func(c *Conn, v *vectors) (int, unix.Errno) {
				if !failed {
					failed = true
					return -1, tc.errno
				}
				return v.read(c.sys.fd)
			}})
			memory := make([]byte, tc.offer)
			filled, read, nothing, closes := 0, 0, 0, 0
			var closedWith error
			h := &spacer{}
			h.offer = func(_ *Conn, s *Space) {
				if filled == 0 { // then plain reads
					s.Add(memory)
				}
			}
			h.filled = func(_ *Conn, n int, spill []byte) error {
				if filled += n; n == 0 {
					nothing++
				}
				if at := checkPattern(memory[:n], 0); at >= 0 {
					t.Errorf("byte %d is wrong", at)
				}
				return nil
			}
			h.read = func(_ *Conn, p []byte) error {
				if at := checkPattern(p, filled+read); at >= 0 {
					t.Errorf("byte %d is wrong", at)
				}
				read += len(p)
				return nil
			}
			h.close = func(_ *Conn, err error) { closes++; closedWith = err }
			c, peer := pair(t, l, h)
			if tc.send > 0 {
				p := make([]byte, tc.send)
				pattern(p, 0)
				send(t, peer, p)
			}
			if tc.end {
				_ = unix.Close(peer)
			} else {
				defer unix.Close(peer)
			}
			for range 4 {
				l.Turn(NoWait)
			}
			wantNothing := 0
			if tc.offer > 0 && (tc.errno != 0 || tc.end && tc.filled == 0) {
				wantNothing = 1
			}
			if filled != tc.filled || read != tc.read || nothing != wantNothing || h.asked != h.answered {
				t.Fatalf("%d filled, %d read, %d times nothing, %d questions, %d answers", filled, read, nothing, h.asked, h.answered)
			}
			if closed := tc.end || tc.err != nil; c.Closed() != closed || closes > 1 || closes == 1 != closed || !errors.Is(closedWith, tc.err) {
				t.Fatalf("closed %v, %d calls of OnClose, with %v", c.Closed(), closes, closedWith)
			}
		})
	}
}

// TestSpaceEnds: a connection that ends in OnFilled, or already in OnSpace, hears nothing more of what came.
func TestSpaceEnds(t *testing.T) {
	boom := errors.New("boom")
	for name, tc := range map[string]struct {
		space  func(*Conn)
		filled func(*Conn) error
		want   error
		n      int
	}{
		"error":           {filled: func(*Conn) error { return boom }, want: boom, n: 10},
		"close":           {filled: func(c *Conn) error { c.Close(nil); return nil }, n: 10},
		"close and error": {filled: func(c *Conn) error { c.Close(boom); return io.EOF }, want: boom, n: 10},
		"in OnSpace":      {space: func(c *Conn) { c.Close(boom) }, want: boom},
	} {
		l := spaceLoop(t, 1000, nil)
		closes := 0
		var got error
		n := -1
		h := &spacer{}
		h.offer = func(c *Conn, s *Space) {
			s.Add(make([]byte, 10))
			if tc.space != nil {
				tc.space(c)
			}
		}
		h.filled = func(c *Conn, k int, _ []byte) error {
			if n = k; tc.filled != nil {
				return tc.filled(c)
			}
			return nil
		}
		h.read = func(*Conn, []byte) error { t.Errorf("%s: OnRead", name); return nil }
		h.close = func(_ *Conn, err error) { closes++; got = err }
		c, peer := pair(t, l, h)
		send(t, peer, make([]byte, 30))
		for range 3 {
			l.Turn(NoWait)
		}
		_ = unix.Close(peer)
		if !c.Closed() || closes != 1 || got != tc.want || n != tc.n || h.asked != 1 || h.answered != 1 {
			t.Fatalf("%s: closed %v, %d times with %v; %d bytes, %d questions, %d answers", name, c.Closed(), closes, got, n, h.asked, h.answered)
		}
	}
	// An error for a read that brought nothing counts for nothing: the read's does.
	l := spaceLoop(t, 1000, nil)
	var got error
	h := &spacer{offer: func(_ *Conn, s *Space) { s.Add(make([]byte, 10)) }, filled: func(*Conn, int, []byte) error { return boom }}
	h.close = func(_ *Conn, err error) { got = err }
	c, peer := pair(t, l, h)
	_ = unix.Close(peer)
	l.Turn(NoWait)
	if !c.Closed() || got != nil {
		t.Fatalf("closed %v with %v", c.Closed(), got)
	}
}

// TestSpaceHandlers: the handler that is there for a read is asked, and what overflows goes to the one that is there then.
func TestSpaceHandlers(t *testing.T) {
	l := spaceLoop(t, 1000, nil)
	memory := make([]byte, 10)
	second := ""
	plain := &funcs{read: func(_ *Conn, p []byte) error { second += string(p); return nil }}
	first := ""
	h := &spacer{offer: func(_ *Conn, s *Space) { s.Add(memory) }}
	h.filled = func(c *Conn, n int, _ []byte) error {
		first += string(memory[:n])
		c.SetHandler(plain)
		return nil
	}
	c, peer := pair(t, l, h)
	defer unix.Close(peer)
	send(t, peer, []byte("0123456789abc"))
	l.Turn(NoWait)
	send(t, peer, []byte("def"))
	l.Turn(NoWait)
	c.SetHandler(h)
	send(t, peer, []byte("ghi"))
	l.Turn(NoWait)
	if first != "0123456789ghi" || second != "abcdef" || h.asked != 2 || h.answered != 2 {
		t.Fatalf("the first got %q, the second %q; %d questions, %d answers", first, second, h.asked, h.answered)
	}
	kept := l.sys.space.pieces
	for i, p := range kept[:cap(kept)] {
		if p != nil {
			t.Fatalf("the loop keeps piece %d, of %d bytes", i, len(p))
		}
	}
	if cap(kept) == 0 {
		t.Fatal("there were no pieces")
	}
}

// TestSpaceFinishing: a connection that only writes the rest asks for no memory, and drops what comes.
func TestSpaceFinishing(t *testing.T) {
	for _, within := range []bool{false, true} {
		l := spaceLoop(t, 1000, nil)
		memory := make([]byte, 10)
		h := &spacer{offer: func(_ *Conn, s *Space) { s.Add(memory) }}
		h.read = func(*Conn, []byte) error { t.Error("OnRead"); return nil }
		h.filled = func(c *Conn, _ int, _ []byte) error {
			c.CloseAfterFlush(hang)
			return nil
		}
		c, peer := pair(t, l, h)
		_, _ = c.Write(make([]byte, 4<<20)) // more than the socket takes
		asked := 0
		if within {
			asked = 1
			send(t, peer, make([]byte, 30)) // 20 of them overflow
			l.Turn(NoWait)
		} else {
			c.CloseAfterFlush(hang)
		}
		send(t, peer, make([]byte, 500))
		reads := l.stats.ReadBytes
		for range 5 {
			l.Turn(NoWait)
		}
		if c.Closed() || l.stats.ReadBytes-reads != 500 || h.asked != asked || h.answered != asked {
			t.Fatalf("closed %v, %d bytes read, %d questions, %d answers", c.Closed(), l.stats.ReadBytes-reads, h.asked, h.answered)
		}
		_ = unix.Close(peer)
		for range 3 {
			l.Turn(NoWait)
		}
	}
}

// TestSpaceBeforeFailedWrite: what came before a write failed goes into the memory that is offered for it.
func TestSpaceBeforeFailedWrite(t *testing.T) {
	l := spaceLoop(t, 300, &hooks{write: func(*Conn, *vectors) (int, unix.Errno) { return -1, unix.EPIPE }})
	s := newStream(t, 4, 50_000)
	var got error
	s.close = func(_ *Conn, err error) { got = err }
	c, peer := pair(t, l, s)
	p := make([]byte, s.want)
	pattern(p, 0)
	send(t, peer, p)
	_ = unix.Close(peer)
	c.Stage(10)
	l.settle()
	if s.got != s.want || !errors.Is(got, unix.EPIPE) || s.asked != s.answered || s.count["filled"] == 0 {
		t.Fatalf("%d of %d bytes, %v, %d questions, %d answers, %v", s.got, s.want, got, s.asked, s.answered, s.count)
	}
}

// TestSpacePolling: a loop that polls the socket which brought data last asks nobody, as nothing is said to have come.
func TestSpacePolling(t *testing.T) {
	l := spaceLoop(t, 1000, nil)
	var got bytes.Buffer
	h := &spacer{}
	h.read = func(_ *Conn, p []byte) error { got.Write(p); return nil }
	c, peer := pair(t, l, h)
	defer unix.Close(peer)
	if l.sysFew() || l.sysReadLast() {
		t.Fatal("read where nothing has come yet")
	}
	send(t, peer, []byte("abc"))
	l.Turn(NoWait)
	h.offer = func(_ *Conn, s *Space) { t.Error("OnSpace"); s.Add(make([]byte, 10)) }
	if !l.sysFew() || l.sysReadLast() || got.String() != "abc" {
		t.Fatalf("something was read, or not: %q", got.String())
	}
	send(t, peer, []byte("def"))
	if !l.sysReadLast() || got.String() != "abcdef" {
		t.Fatalf("got %q", got.String())
	}
	h.offer = nil
	send(t, peer, []byte("ghi"))
	l.Turn(NoWait)
	if got.String() != "abcdefghi" {
		t.Fatalf("got %q", got.String())
	}
	c.Close(nil)
	if l.sysFew() || l.sysReadLast() {
		t.Fatal("a closed connection is read from")
	}
}

// TestPollingServesAll: a loop that polls where data came last finds what comes elsewhere, too.
func TestPollingServesAll(t *testing.T) {
	l := spaceLoop(t, 1000, nil)
	var got [2]bytes.Buffer
	var peers [2]int
	for i := range got {
		h := &spacer{}
		h.read = func(_ *Conn, p []byte) error { got[i].Write(p); return nil }
		_, peers[i] = pair(t, l, h)
		defer unix.Close(peers[i])
	}
	send(t, peers[0], []byte("a"))
	l.Turn(NoWait)
	if !l.sysFew() || got[0].String() != "a" {
		t.Fatalf("got %q", got[0].String())
	}
	send(t, peers[1], []byte("b"))
	if !l.spin(5*time.Second, nil) || got[1].String() != "b" {
		t.Errorf("got %q after polling for long", got[1].String())
	}
}

// TestSpaceTLS: a connection with TLS knows nothing of it.
func TestSpaceTLS(t *testing.T) {
	var asked atomic.Int32
	l := newLoop(t, LoopConfig{})
	got := newOnce()
	h := &spacer{offer: func(*Conn, *Space) { asked.Add(1) }}
	n := 0
	h.read = func(_ *Conn, p []byte) error {
		if n += len(p); n == 100_000 {
			got.done()
		}
		return nil
	}
	o := TLS{Config: testcert.New(t, "authority").TLS(t, "node")}
	addr := listenTLS(t, l, o, func(*Conn) Handler { return h })
	c, err := l.DialTLS(t.Context(), "tcp", addr.String(), o, &funcs{})
	if err != nil {
		t.Fatal(err)
	}
	inTurn(t, l, func() { _, _ = c.Write(make([]byte, 100_000)) })
	wait(t, got.c, "the last byte")
	if asked.Load() != 0 {
		t.Fatalf("asked %d times", asked.Load())
	}
}

// TestSpaceAllocatesNothing: nor does a read into pieces.
func TestSpaceAllocatesNothing(t *testing.T) {
	if buildtag.Race || buildtag.Debug || buildtag.NoUnsafe {
		t.Skip("these builds allocate by themselves")
	}
	l := spaceLoop(t, 1<<16, nil)
	memory := make([]byte, 40_000)
	got := 0
	h := &spacer{offer: func(_ *Conn, s *Space) {
		for p := memory; len(p) > 0; p = p[10_000:] {
			s.Add(p[:10_000])
		}
	}}
	h.filled = func(_ *Conn, n int, _ []byte) error { got += n; return nil }
	h.read = func(_ *Conn, p []byte) error { got += len(p); return nil }
	_, peer := pair(t, l, h)
	defer unix.Close(peer)
	p := make([]byte, 50_000)
	sent := 0
	alloctest.Zero(t, 100, 1000, func() {
		n, errno := sysWriteFD(peer, p)
		if errno != 0 {
			t.Fatal(errno)
		}
		sent += n
		for got < sent {
			l.Turn(NoWait)
		}
	})
	if h.answered == 0 || h.asked != h.answered {
		t.Fatalf("%d questions, %d answers", h.asked, h.answered)
	}
}
