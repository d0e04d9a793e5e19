//go:build linux && !weirportable

package netio

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/weirflow/weir/internal/alloctest"
	"github.com/weirflow/weir/internal/buildtag"
	"github.com/weirflow/weir/internal/modelrun"
	"github.com/weirflow/weir/ringbuf"
	"golang.org/x/sys/unix"
)

// prompt is how long a message may take that the kernel has to report at once. One that it does not report never comes.
const prompt = 10 * time.Second

// canPeek skips the test where the rule does nothing.
func canPeek(t testing.TB) {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_PEEK_OFF, 0); err != nil {
		t.Skipf("this kernel has no SO_PEEK_OFF for TCP: %v", err)
	}
}

// peeked is a TCP connection whose loop the test drives itself, with a peer that sends a pattern.
type peeked struct {
	*stream
	l      *Loop
	c      *Conn
	peer   *net.TCPConn
	n      *ringbuf.Notifier
	sent   int
	takes  int // of bytes that were seen, as far as they show
	ends   int
	closes int
	err    error // of OnClose
}

// newPeeked makes one without a standby, if cfg says nothing else. as makes the handler of the stream; nil: one without space.
func newPeeked(t testing.TB, cfg LoopConfig, as func(*peeked) Handler) *peeked {
	t.Helper()
	canPeek(t)
	if cfg.Standby == 0 {
		cfg.Standby = -1
	}
	p := &peeked{stream: newStream(t, 5, 1<<30), n: ringbuf.NewNotifier()}
	p.close = func(_ *Conn, err error) { p.closes++; p.err = err }
	if p.l = newLoop(t, cfg); p.l.oneP {
		t.Skip("with one P there is no polling, and without it nobody peeks")
	}
	a, b := netPair(t)
	p.peer = a.(*net.TCPConn)
	_ = p.peer.SetDeadline(time.Now().Add(hang))
	h := Handler(&p.funcs)
	if as != nil {
		h = as(p)
	}
	var err error
	if p.c, err = p.l.Adopt(b, h); err != nil {
		t.Fatal(err)
	}
	return p
}

// hold runs f with the token.
func (p *peeked) hold(f func()) {
	p.l.acquire()
	f()
	p.l.Release()
}

// write has the peer send n bytes.
func (p *peeked) write(n int) {
	p.t.Helper()
	b := make([]byte, n)
	pattern(b, p.sent)
	if _, err := p.peer.Write(b); err != nil {
		p.t.Fatal(err)
	}
	p.sent += n
}

// run drives the loop until ready.
func (p *peeked) run(what string, ready func() bool) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), prompt)
	defer cancel()
	if err := p.l.RunUntil(ctx, ready, p.n); err != nil || p.t.Failed() {
		p.t.Fatalf("%s: %v; %d of %d bytes came, %+v, %d bytes are unread", what, err, p.got, p.sent, p.c.sys.peek, p.unread())
	}
}

func (p *peeked) all() {
	p.t.Helper()
	owed := p.c.sys.peek.owed
	p.run("all that was sent", func() bool { return p.got == p.sent })
	if p.c.sys.peek.owed < owed {
		p.takes++
	}
}

// small sends n messages, each when the last one has come.
func (p *peeked) small(n, size int) {
	p.t.Helper()
	for range n {
		p.write(size)
		p.all()
	}
}

// look has the connection peek, and leaves bytes in the socket that the handler has.
func (p *peeked) look(size int) {
	p.t.Helper()
	for range 4 * peekAfter {
		p.small(1, size)
		if p.c.sys.peek.owed > 0 {
			return
		}
	}
	p.t.Fatalf("the case did not happen: %+v", p.c.sys.peek)
}

func (p *peeked) option(opt int) int {
	p.t.Helper()
	n, err := unix.GetsockoptInt(p.c.sys.fd, unix.SOL_SOCKET, opt)
	if err != nil {
		p.t.Fatal(err)
	}
	return n
}

// unread is how many bytes the socket has.
func (p *peeked) unread() int {
	if p.c.sys.fd < 0 {
		return -1
	}
	n, err := unix.IoctlGetInt(p.c.sys.fd, unix.TIOCINQ)
	if err != nil {
		p.t.Error(err)
	}
	return n
}

// packets is how many the connection has sent.
func (p *peeked) packets() int {
	p.t.Helper()
	i, err := unix.GetsockoptTCPInfo(p.c.sys.fd, unix.IPPROTO_TCP, unix.TCP_INFO)
	if err != nil {
		p.t.Fatal(err)
	}
	return int(i.Segs_out)
}

// TestPeekAcknowledgesTogether: small messages one way, each sent when the last one has come, cost their receiver far fewer packets than there
// are messages, if it polls; one by one without the rule.
func TestPeekAcknowledgesTogether(t *testing.T) {
	const messages, size = 400, 20
	for name, cfg := range map[string]LoopConfig{"peeking": {}, "without": {NoPeek: true}, "without polling": {Poll: -1}} {
		t.Run(name, func(t *testing.T) {
			p := newPeeked(t, cfg, nil)
			p.small(3*peekAfter, size)
			before, takes, packets := p.l.stats, p.takes, p.packets()
			p.small(messages, size)
			peeks, reads := int(p.l.stats.Peeks-before.Peeks), int(p.l.stats.Reads-before.Reads)
			takes, packets = p.takes-takes, p.packets()-packets
			t.Logf("%d messages, %d reads, %d of them peeks, taken %d times: %d packets", messages, reads, peeks, takes, packets)
			switch {
			case reads < peeks || reads < messages:
				t.Errorf("%d messages of their own came by %d reads", messages, reads)
			case name == "peeking" && (peeks < messages/2 || takes < messages/(2*peekTake) || packets >= messages/2):
				t.Errorf("%d of %d messages were peeked at and taken %d times, %d packets", peeks, messages, takes, packets)
			case name != "peeking" && (p.l.stats.Peeks != 0 || packets < messages/2):
				t.Errorf("%d peeks, %d packets", p.l.stats.Peeks, packets)
			}
		})
	}
}

// TestPeekTakes: what was seen is taken out of the socket when the loop polls in vain, before it sleeps, beside other work, and when it is
// much; but not by a glance between two looks.
func TestPeekTakes(t *testing.T) {
	for name, tc := range map[string]struct {
		do   func(*peeked)
		left bool
	}{
		"a glance":   {func(p *peeked) { p.l.sysReadLast() }, true},
		"a question": {func(p *peeked) { p.l.Turn(NoWait) }, true},
		"a pause":    {func(p *peeked) { p.l.sysSettlePeeks(true) }, true},
		"a pause after some looks": {func(p *peeked) {
			p.turns(peekTurn, 50)
			p.l.sysSettlePeeks(true)
		}, false},
		"polling": {func(p *peeked) {
			for end := time.Now().Add(prompt); p.c.sys.peek.owed > 0 && time.Now().Before(end); {
				p.l.spin(time.Millisecond, nil) // it may be over after one turn, where others have the CPU
			}
		}, false},
		"old news": {func(p *peeked) {
			p.l.Turn(NoWait)
			if err := unix.SetsockoptInt(p.c.sys.fd, unix.SOL_SOCKET, unix.SO_RCVLOWAT, 1); err != nil {
				p.t.Fatal(err)
			}
			p.l.Turn(NoWait) // the kernel reports what was seen
		}, false},
		"a sleep": {func(p *peeked) {
			p.l.sysSettlePeeks(false) // nothing that was seen ends the sleep
			p.l.sleep(nil, nil, nil, 1, false)
		}, false},
		"other turns": {func(p *peeked) {
			p.l.AddSource(new(busy))
			for range peekBusy + 1 {
				p.l.Turn(NoWait)
			}
		}, false},
		"looks": {func(p *peeked) { p.turns(peekTake-int(p.c.sys.peek.count), 50) }, false},
		"bytes": {func(p *peeked) { p.turns(peekMost/peekSmall, peekSmall) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPeeked(t, LoopConfig{}, nil)
			p.look(50)
			p.hold(func() {
				if tc.do(p); p.c.sys.peek.owed > 0 != tc.left || p.unread() != p.c.sys.peek.owed || !p.c.sys.peek.on {
					t.Errorf("%+v, %d bytes unread", p.c.sys.peek, p.unread())
				}
			})
			p.small(1, 1)
		})
	}
}

// turns has n messages come one by one, in turns that do not wait.
func (p *peeked) turns(n, size int) {
	p.t.Helper()
	end := time.Now().Add(prompt)
	for range n {
		for p.write(size); p.got < p.sent; {
			if p.l.Turn(NoWait); time.Now().After(end) {
				p.t.Fatalf("%d of %d bytes came", p.got, p.sent)
			}
		}
	}
}

// busy is a source that always has something to do.
type busy struct{ polls int }

func (b *busy) Poll() bool { b.polls++; return true }

// invariants looks at the kernel's side of the connection. It is a source, so that it does so in each turn.
type invariants struct{ *peeked }

func (v invariants) Poll() bool {
	c, k := v.c, &v.c.sys.peek
	if c.index < 0 || c.closed {
		return false
	}
	level, unread := v.option(unix.SO_RCVLOWAT), v.unread()
	if listed := slices.Contains(v.l.sys.owing, c); listed != k.listed || k.owed > 0 && !listed {
		v.t.Errorf("%d bytes seen and not taken, and the loop knows of them: %v, %v", k.owed, k.listed, listed)
	}
	switch {
	case k.on:
		if level > k.owed+1 || max(level, 1) != k.level {
			v.t.Errorf("SO_RCVLOWAT is %d, %d as we have it, with %d bytes seen", level, k.level, k.owed)
		}
		if k.owed > peekMost || k.owed > unread {
			v.t.Errorf("%d bytes seen and not taken, %d are in the socket", k.owed, unread)
		}
		v.count["peeking"]++
		if level > 1 {
			v.count["higher"]++
		}
		if c.paused && k.owed > 0 {
			v.count["paused with bytes seen"]++
		}
	case k.owed != 0 || c.raisedAt < 0 && level > 1: // 0 counts as 1; a listener for MPTCP has it so
		v.t.Errorf("SO_RCVLOWAT is %d although nobody peeks, %d bytes seen and not taken", level, k.owed)
	case c.raisedAt >= 0:
		v.count["raised"]++
		if level <= peekMost {
			v.t.Errorf("SO_RCVLOWAT is %d although it is raised", level)
		}
	default:
		v.count["plain reads"]++
	}
	return false
}

// TestPeekWalk: whatever sizes come, and whatever the receiver does meanwhile, all bytes come in order, and SO_RCVLOWAT is never above the
// next byte.
func TestPeekWalk(t *testing.T) {
	count := modelrun.Exposure{}
	steps := modelrun.Steps(t, 1200)
	for name, as := range map[string]func(*peeked) Handler{
		"plain": nil,
		"space": func(p *peeked) Handler { return p.stream },
	} {
		for seed := range uint64(3) {
			cfg := []LoopConfig{{}, {Poll: -1}, {ReadSize: 900, FullFrame: peekSmall / 4}}[seed] // the last raises it for small messages
			p := newPeeked(t, cfg, as)
			p.count = count
			p.l.AddSource(invariants{p})
			w := &walk{p, rand.New(rand.NewPCG(seed+modelrun.Seed(t), 7))}
			for range steps / 6 {
				w.step()
			}
			w.bulk(1 << 20)
			p.small(2*peekAfter, 100)
			if p.c.Closed() || p.got != p.sent {
				t.Fatalf("%s, seed %d: closed %v with %v, %d of %d bytes", name, seed, p.c.Closed(), p.err, p.got, p.sent)
			}
			count["peeks"] += int(p.l.stats.Peeks)
			count["reads"] += int(p.l.stats.Reads)
		}
	}
	count.Report(t, "peek", steps, "peeking", "higher", "raised", "plain reads", "paused with bytes seen", "taken", "stopped", "filled")
}

// walk takes random steps.
type walk struct {
	*peeked
	rng *rand.Rand
}

func (w *walk) step() {
	w.t.Helper()
	before := w.c.sys.peek
	switch size := 1 + w.rng.IntN([]int{4, 64, peekSmall}[w.rng.IntN(3)]); w.rng.IntN(12) {
	case 0, 1, 2, 3:
		w.small(1+w.rng.IntN(2*peekTake), size)
	case 4: // several at a time, of any size
		for range 1 + w.rng.IntN(6) {
			w.write(1 + w.rng.IntN(size))
		}
		w.all()
	case 5:
		w.write(peekSmall + w.rng.IntN(10_000))
		w.all()
	case 6:
		if w.rng.IntN(4) == 0 {
			w.bulk(1 << 20)
		}
	case 7: // turns that are never idle
		w.hold(func() {
			for range w.rng.IntN(300) {
				w.write(1 + w.rng.IntN(size))
				w.l.Turn(NoWait)
			}
		})
		w.all()
	case 8:
		w.write(size)
		for range w.rng.IntN(3 * kernelEvery) {
			w.l.Kick()
		}
		w.all()
	case 9: // answers, which carry acknowledgements
		n := 1 + w.rng.IntN(2*peekTake)
		for range n {
			w.hold(func() { _, _ = w.c.Write([]byte("x")) })
			w.small(1, size)
		}
		if _, err := io.ReadFull(w.peer, make([]byte, n)); err != nil {
			w.t.Fatal(err)
		}
	case 10: // a pause while more comes
		w.hold(w.c.PauseRead)
		w.write(size)
		w.hold(func() { w.l.Turn(NoWait); w.l.After(time.Duration(w.rng.IntN(200))*time.Microsecond, w.c.ResumeRead) })
		w.all()
	case 11:
		w.hold(func() { w.c.SetCredit([]int{0, 2 * lowatCredit}[w.rng.IntN(2)]) })
	}
	if after := w.c.sys.peek; before.on && !after.on {
		w.count["stopped"]++
	} else if before.on && after.owed < before.owed {
		w.count["taken"]++
	}
}

// bulk sends n bytes at once, and may pause the receiver in the middle.
func (w *walk) bulk(n int) {
	w.t.Helper()
	b, done := make([]byte, n), make(chan error, 1)
	pattern(b, w.sent)
	w.sent += n
	go func() {
		_, err := w.peer.Write(b)
		done <- err
	}()
	if half := w.sent - n/2; w.rng.IntN(2) == 0 {
		w.run("the first half", func() bool { return w.got >= half })
		w.hold(func() { w.c.PauseRead(); w.l.Turn(NoWait); w.l.After(time.Millisecond, w.c.ResumeRead) })
	}
	w.all()
	if err := <-done; err != nil {
		w.t.Fatal(err)
	}
}

// TestPeekEveryByteIsTaken: a message that is not small, and bulk, end peeking. None of the bytes that were seen is left, and it begins anew.
func TestPeekEveryByteIsTaken(t *testing.T) {
	p := newPeeked(t, LoopConfig{}, nil)
	for i := range 20 {
		p.look(100)
		if w := (&walk{p, rand.New(rand.NewPCG(1, 1))}); i%2 == 0 {
			w.bulk(1 << 20)
		} else {
			w.small(1, peekSmall+1)
		}
		if k := p.c.sys.peek; k.on || k.owed != 0 || p.unread() != 0 || p.option(unix.SO_PEEK_OFF) != 0 {
			t.Fatalf("%+v, %d bytes are left, and the next look begins at %d", k, p.unread(), p.option(unix.SO_PEEK_OFF))
		}
	}
}

// TestPeekThenClose: a connection that is closed while the socket has bytes that were seen does not reset the peer, whatever closes it.
func TestPeekThenClose(t *testing.T) {
	boom := errors.New("boom")
	for name, tc := range map[string]struct {
		close func(*peeked)
		err   error
		last  string // what the peer gets
	}{
		"Close": {close: func(p *peeked) { p.hold(func() { p.c.Close(boom) }) }, err: boom},
		"Abort": {close: func(p *peeked) { p.c.Abort(boom) }, err: boom},
		"in OnRead": {close: func(p *peeked) {
			p.read = func(c *Conn, b []byte) error { p.check(b); c.Close(nil); return nil }
			p.write(50)
		}},
		"error of OnRead": {close: func(p *peeked) {
			p.read = func(_ *Conn, b []byte) error { p.check(b); return boom }
			p.write(50)
		}, err: boom},
		"paused": {close: func(p *peeked) { p.hold(func() { p.c.PauseRead(); p.c.Close(nil) }) }},
		"after flush": {close: func(p *peeked) {
			p.hold(func() { _, _ = p.c.Write([]byte("bye")); p.c.CloseAfterFlush(hang) })
		}, last: "bye"},
		"half first": {close: func(p *peeked) {
			p.hold(func() { _, _ = p.c.Write([]byte("bye")); p.c.CloseWrite(); p.l.Turn(NoWait); p.c.Close(nil) })
		}, last: "bye"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPeeked(t, LoopConfig{}, nil)
			p.look(50)
			tc.close(p)
			p.run("OnClose", func() bool { return p.closes > 0 })
			if p.closes != 1 || !errors.Is(p.err, tc.err) || p.got != p.sent {
				t.Errorf("%d calls of OnClose, with %v; %d of %d bytes", p.closes, p.err, p.got, p.sent)
			}
			if last, err := io.ReadAll(p.peer); err != nil || string(last) != tc.last {
				t.Errorf("the peer got %q, %v", last, err)
			}
		})
	}
	t.Run("loop", func(t *testing.T) {
		p := newPeeked(t, LoopConfig{}, nil)
		p.look(50)
		if err := p.l.Close(t.Context()); err != nil || p.closes != 1 {
			t.Errorf("%v, %d calls of OnClose", err, p.closes)
		}
		if last, err := io.ReadAll(p.peer); err != nil || len(last) > 0 {
			t.Errorf("the peer got %q, %v", last, err)
		}
	})
}

// TestPeekThenEnd: the peer's end of stream, behind bytes that were seen and some that were not, is one as without peeking.
func TestPeekThenEnd(t *testing.T) {
	for name, more := range map[string]int{"at once": 0, "after a byte": 1, "after a message": 100, "after bulk": 100_000} {
		t.Run(name, func(t *testing.T) {
			p := newPeeked(t, LoopConfig{}, nil)
			end := func() {
				p.look(50)
				if more > 0 {
					p.write(more)
				}
				if err := p.peer.CloseWrite(); err != nil {
					t.Fatal(err)
				}
			}
			end()
			p.run("OnClose", func() bool { return p.closes > 0 })
			if p.closes != 1 || p.err != nil || p.got != p.sent {
				t.Errorf("%d calls of OnClose, with %v; %d of %d bytes", p.closes, p.err, p.got, p.sent)
			}
			if last, err := io.ReadAll(p.peer); err != nil || len(last) > 0 {
				t.Errorf("the peer got %q, %v", last, err)
			}
			// With a handler that goes on writing.
			p = newPeeked(t, LoopConfig{}, func(p *peeked) Handler {
				return &ending{p.funcs, func(*Conn) { p.ends++ }}
			})
			end()
			p.run("OnEnd", func() bool { return p.ends > 0 })
			p.hold(func() {
				if _, _ = p.c.Write([]byte("bye")); p.c.Closed() || p.c.sys.peek.on || p.unread() != 0 {
					t.Errorf("closed %v after the peer's end; %+v, %d bytes unread", p.c.Closed(), p.c.sys.peek, p.unread())
				}
				p.c.CloseWrite()
			})
			p.run("OnClose", func() bool { return p.closes > 0 })
			if p.ends != 1 || p.closes != 1 || p.err != nil || p.got != p.sent {
				t.Errorf("%d calls of OnEnd, %d of OnClose, with %v; %d of %d bytes", p.ends, p.closes, p.err, p.got, p.sent)
			}
			if last, err := io.ReadAll(p.peer); err != nil || string(last) != "bye" {
				t.Errorf("the peer got %q, %v", last, err)
			}
		})
	}
}

// TestPeekThenReset: what came before a reset is passed on once, then the connection is closed with it.
func TestPeekThenReset(t *testing.T) {
	for name, more := range map[string]int{"at once": 0, "after a byte": 1, "after a message": 100, "after bulk": 3 * peekMost} {
		t.Run(name, func(t *testing.T) {
			p := newPeeked(t, LoopConfig{}, nil)
			p.look(50)
			if more > 0 {
				p.write(more)
			}
			_ = p.peer.SetLinger(0)
			_ = p.peer.Close()
			p.run("OnClose", func() bool { return p.closes > 0 })
			if p.closes != 1 || !errors.Is(p.err, unix.ECONNRESET) || p.got != p.sent {
				t.Errorf("%d calls of OnClose, with %v; %d of %d bytes", p.closes, p.err, p.got, p.sent)
			}
		})
	}
}

// TestPeekBeforeFailedWrite: what came before a write failed is passed on, with bytes that were seen and some that were not.
func TestPeekBeforeFailedWrite(t *testing.T) {
	p := newPeeked(t, LoopConfig{}, nil)
	p.look(50)
	p.write(200)
	p.hold(func() {
		p.l.hooks = &hooks{write: func(*Conn, *vectors) (int, unix.Errno) { return -1, unix.EPIPE }}
		p.c.Stage(10)
		p.l.settle()
	})
	if p.closes != 1 || !errors.Is(p.err, unix.EPIPE) || p.got != p.sent {
		t.Errorf("%d calls of OnClose, with %v; %d of %d bytes", p.closes, p.err, p.got, p.sent)
	}
}

// TestPeekAllocatesNothing: neither a look nor what takes the bytes.
func TestPeekAllocatesNothing(t *testing.T) {
	if buildtag.Race || buildtag.Debug || buildtag.NoUnsafe {
		t.Skip("these builds allocate by themselves")
	}
	p := newPeeked(t, LoopConfig{}, nil)
	b := make([]byte, 20)
	ctx, cancel := context.WithTimeout(t.Context(), hang)
	defer cancel()
	ready := func() bool { return p.got == p.sent }
	alloctest.Zero(t, 100, 1000, func() {
		pattern(b, p.sent)
		if _, err := p.peer.Write(b); err != nil {
			t.Fatal(err)
		}
		p.sent += len(b)
		owed := p.c.sys.peek.owed
		if err := p.l.RunUntil(ctx, ready, p.n); err != nil {
			t.Fatal(err)
		}
		if p.c.sys.peek.owed < owed {
			p.takes++
		}
	})
	if n := int(p.l.stats.Peeks); n < 1000 || p.takes < n/(2*peekTake) {
		t.Errorf("%d peeks, taken %d times", n, p.takes)
	}
}
