//go:build linux && !weirportable

package netio

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"testing"
	"time"

	"github.com/weirflow/weir/internal/buildtag"
	"github.com/weirflow/weir/ringbuf"
	"github.com/weirflow/weir/segment"
	"golang.org/x/sys/unix"
)

// driven is a peeked whose loop others run: a consumer that never has enough, or the loop's own goroutine.
type driven struct {
	*peeked
	came chan int // bytes, read by read
}

func newDriven(t testing.TB, cfg LoopConfig) *driven {
	t.Helper()
	came := make(chan int, 1<<16)
	p := newPeeked(t, cfg, func(p *peeked) Handler {
		check := p.check
		p.read = func(_ *Conn, b []byte) error { check(b); came <- len(b); return nil }
		return &p.funcs
	})
	d := &driven{p, came}
	if cfg.Standby == 0 && !cfg.Dedicated {
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan struct{})
		go func() {
			defer close(done)
			_ = p.l.RunUntil(ctx, func() bool { return false }, p.n)
		}()
		t.Cleanup(func() { cancel(); <-done })
	}
	return d
}

// sleeping waits until somebody waits in the kernel.
func (d *driven) sleeping() {
	d.t.Helper()
	for end := time.Now().Add(prompt); d.l.state.Load()&(asleep|watch) == 0; runtime.Gosched() {
		if time.Now().After(end) {
			d.t.Fatal("nobody falls asleep")
		}
	}
}

// pass has the peer send n bytes, and waits for them.
func (d *driven) pass(n int, what string) {
	d.t.Helper()
	d.write(n)
	limit := time.NewTimer(prompt)
	defer limit.Stop()
	for n > 0 {
		select {
		case k := <-d.came:
			n -= k
		case <-limit.C:
			d.t.Fatalf("%s: does not come", what)
		}
	}
}

// consume has n messages come to a consumer that the test is itself.
func (d *driven) consume(n, size int) {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), prompt)
	defer cancel()
	for range n {
		d.write(size)
		for left := size; left > 0; left -= <-d.came {
			if err := d.l.RunUntil(ctx, func() bool { return len(d.came) > 0 }, nil); err != nil {
				d.t.Fatal(err)
			}
		}
	}
}

// TestPeekWakes: a receiver that sleeps in the kernel gets the next byte after any number of messages of any size, as SO_RCVLOWAT is lowered
// when bytes are taken.
func TestPeekWakes(t *testing.T) {
	all := []int{1, 20, peekSmall - 1, peekSmall}
	few := []int{1, 100, peekSmall}
	for name, tc := range map[string]struct {
		cfg   LoopConfig
		sizes []int
		step  int // of the counts
		kicks bool
	}{
		"consumer":     {sizes: all, step: 1},
		"long polling": {cfg: LoopConfig{Poll: 2 * time.Millisecond}, sizes: few, step: 7},
		"no polling":   {cfg: LoopConfig{Poll: -1}, sizes: few, step: 7},
		"beside kicks": {sizes: few, step: 3, kicks: true},
		"standby":      {cfg: LoopConfig{Standby: time.Millisecond}, sizes: few, step: 7},
		"dedicated":    {cfg: LoopConfig{Dedicated: true}, sizes: few, step: 7},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDriven(t, tc.cfg)
			for _, size := range tc.sizes {
				for count := 1; count <= 3*peekTurn; count += tc.step {
					for _, way := range []struct{ shrink, slow bool }{{}, {shrink: true}, {slow: true}} {
						what := fmt.Sprintf("%d messages of %d bytes, %+v", count, size, way)
						for i := range count {
							n := size
							if way.shrink { // the next one is shorter than what was seen
								n = max(1, size-i*size/count)
							}
							if way.slow {
								d.sleeping()
							}
							if tc.kicks {
								d.l.Kick()
							}
							d.pass(n, fmt.Sprintf("message %d of %s", i, what))
						}
						d.sleeping()
						d.pass(1, "the byte after "+what)
					}
				}
			}
			s := stats(t, d.l)
			t.Logf("%d reads, %d of them peeks; %d sleeps", s.Reads, s.Peeks, s.Sleeps)
			if most := s.Peeks > s.Reads/2; most != (tc.cfg.Poll >= 0) || s.Sleeps < s.Reads/20 {
				t.Errorf("%d reads, %d of them peeks; %d sleeps", s.Reads, s.Peeks, s.Sleeps)
			}
		})
	}
}

// TestPeekHoldsNobodyUp: messages do not wait, one after the other, because their sender's window is full of packets that were read and not
// acknowledged. (A receiver that does not get the CPU for a while has the same effect, now and then.)
func TestPeekHoldsNobodyUp(t *testing.T) {
	const rounds, size = 300, 20
	for name, cfg := range map[string]LoopConfig{
		"consumer": {}, "no polling": {Poll: -1}, "long polling": {Poll: 20 * time.Millisecond},
		"standby": {Standby: time.Millisecond}, "dedicated": {Dedicated: true},
	} {
		for _, burst := range []int{1, 3, 8} {
			t.Run(fmt.Sprint(name, " ", burst), func(t *testing.T) {
				d := newDriven(t, cfg)
				late, full := time.NewTimer(hang), 0
				defer late.Stop()
				for i := range rounds {
					for range burst {
						d.write(size)
						for start := time.Now(); time.Since(start) < 2*time.Microsecond; { // so that it is a packet of its own
						}
					}
					late.Reset(10 * time.Millisecond)
					for n := size * burst; n > 0; {
						select {
						case k := <-d.came:
							n -= k
						case <-late.C: // on a busy machine that alone means nothing
							if p := d.window(); p.Unacked >= p.Snd_cwnd && p.Notsent_bytes > 0 {
								if full++; full > rounds/4 {
									t.Fatalf("the %dth time, in round %d: %d packets are unacknowledged, %d bytes wait for that", full, i, p.Unacked, p.Notsent_bytes)
								}
							}
							late.Reset(prompt)
						}
					}
				}
			})
		}
	}
}

// TestPeekNagle: a sender whose kernel holds the next message back until the last one is acknowledged does not wait for a timer each time.
func TestPeekNagle(t *testing.T) {
	const messages, timer = 300, 40 * time.Millisecond
	p := newPeeked(t, LoopConfig{}, nil)
	if err := p.peer.SetNoDelay(false); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	p.small(messages, 20)
	if took := time.Since(start); took > messages*timer/2 || p.l.stats.Peeks == 0 {
		t.Errorf("%d messages took %v, %d peeks", messages, took, p.l.stats.Peeks)
	}
}

// window is what the peer's kernel knows of its side.
func (d *driven) window() (i *unix.TCPInfo) {
	d.t.Helper()
	rc, err := d.peer.SyscallConn()
	if err == nil {
		if cerr := rc.Control(func(fd uintptr) { i, err = unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO) }); cerr != nil {
			err = cerr
		}
	}
	if err != nil {
		d.t.Fatal(err)
	}
	return i
}

// TestPeekUrgent: an urgent byte neither repeats nor hides others, and closes nothing.
func TestPeekUrgent(t *testing.T) {
	p := newPeeked(t, LoopConfig{}, nil)
	p.look(10)
	var got []byte
	p.read = func(_ *Conn, b []byte) error { got = append(got, b...); return nil }
	want := ""
	for i := range 3 * peekTurn {
		text := fmt.Sprintf("%04d", i)
		if _, err := p.peer.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
		if want += text; i%3 == 0 {
			p.run("what was sent", func() bool { return len(got) == len(want) || p.closes > 0 })
		}
		if i == peekTurn/2 {
			rc, err := p.peer.SyscallConn()
			if err != nil {
				t.Fatal(err)
			}
			_ = rc.Control(func(fd uintptr) { err = unix.Sendto(int(fd), []byte("!"), unix.MSG_OOB, nil) })
			if err != nil {
				t.Fatal(err)
			}
			want += "!"
		}
	}
	p.run("what was sent", func() bool { return len(got) >= len(want) || p.closes > 0 })
	if string(got) != want || p.closes > 0 {
		t.Errorf("got %q, want %q; closed %d times with %v", got, want, p.closes, p.err)
	}
}

// TestPeekFinishing: a connection that only writes the rest takes what comes, at once.
func TestPeekFinishing(t *testing.T) {
	p := newPeeked(t, LoopConfig{}, nil)
	p.look(50)
	p.hold(func() {
		_, _ = p.c.Write(make([]byte, 16<<20)) // more than the socket takes
		p.c.CloseAfterFlush(hang)
		for range 20 {
			p.l.Turn(NoWait)
		}
		p.c.sys.peek.writes = 0 // as if they were some time ago
		p.write(10)
		for end := time.Now().Add(prompt); p.unread() > 0; {
			if p.l.Turn(Wait(time.Second)); time.Now().After(end) {
				t.Fatalf("%d bytes are left in the socket, %+v", p.unread(), p.c.sys.peek)
			}
		}
		if p.c.Closed() || p.c.sys.peek.on {
			t.Errorf("closed %v with %v; %+v", p.c.Closed(), p.err, p.c.sys.peek)
		}
	})
}

// TestPeekSmallBuffer: a socket whose buffer bounds SO_RCVLOWAT below what was seen reports everything all the same, and the loop rests.
func TestPeekSmallBuffer(t *testing.T) {
	d := newDriven(t, LoopConfig{Socket: SocketOptions{RecvBuffer: 1}})
	for i := range 40 {
		d.pass(1+i*25, fmt.Sprintf("message %d", i))
	}
	quiet(t, d.l, "with bytes seen in a small buffer")
	d.pass(1, "a byte after a rest")
	if s := stats(t, d.l); s.Peeks == 0 {
		t.Errorf("%d reads, none of them a peek", s.Reads)
	}
}

// TestPeekRests: nothing that was seen is left in the socket of a loop that rests, whoever runs it.
func TestPeekRests(t *testing.T) {
	for name, cfg := range map[string]LoopConfig{
		"consumer": {}, "standby": {Standby: time.Millisecond}, "standby for a consumer": {Standby: time.Millisecond}, "dedicated": {Dedicated: true},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDriven(t, cfg)
			if name == "standby for a consumer" { // that one does not poll
				d.consume(2*peekAfter, 50)
			}
			for count := range 3 * peekAfter {
				d.pass(50, "a message")
				if count < peekAfter {
					continue
				}
				d.sleeping()
				until(t, "it is taken", func() bool { return d.unread() == 0 }) // without another turn
			}
			quiet(t, d.l, "after peeking")
			d.pass(1, "a byte after a rest")
			if s := stats(t, d.l); s.Peeks < peekAfter {
				t.Errorf("%d reads, %d of them peeks", s.Reads, s.Peeks)
			}
		})
	}
}

// TestDriveAsksBySleeping: a consumer that does not poll asks the kernel by sleeping only, and gets what came before it came. One that polls
// asks first.
func TestDriveAsksBySleeping(t *testing.T) {
	for name, tc := range map[string]struct {
		poll   time.Duration
		sleeps uint64 // before the data is read
	}{"no polling": {-1, 1}, "polling": {defaultPoll, 0}} {
		t.Run(name, func(t *testing.T) {
			l := newLoop(t, LoopConfig{Standby: -1, Poll: tc.poll})
			if l.oneP && tc.poll > 0 {
				t.Skip("with one P there is no polling")
			}
			a, b := netPair(t)
			got, sleeps := 0, uint64(0)
			c, err := l.Adopt(b, &funcs{read: func(c *Conn, p []byte) error {
				got += len(p)
				sleeps = c.l.stats.Sleeps
				return nil
			}})
			if err != nil {
				t.Fatal(err)
			}
			l.acquire()
			l.Turn(NoWait) // registers it
			l.Release()
			n := ringbuf.NewNotifier()
			for i := range 20 {
				if _, err := a.Write(make([]byte, 10)); err != nil {
					t.Fatal(err)
				}
				until(t, "the data is in the socket", func() bool {
					n, err := unix.IoctlGetInt(c.sys.fd, unix.TIOCINQ)
					return err != nil || n > c.sys.peek.owed
				})
				before := l.stats.Sleeps
				ctx, cancel := context.WithTimeout(t.Context(), prompt)
				if err := l.RunUntil(ctx, func() bool { return got == 10*(i+1) }, n); err != nil {
					t.Fatalf("%v: what came before is not reported", err)
				}
				cancel()
				if sleeps-before != tc.sleeps {
					t.Errorf("message %d was read after %d sleeps, want %d", i, sleeps-before, tc.sleeps)
				}
			}
		})
	}
}

// TestDriveBusyHearsThePeer: a consumer that does not poll, and whose sources never rest, gets what arrives.
func TestDriveBusyHearsThePeer(t *testing.T) {
	p := newPeeked(t, LoopConfig{Poll: -1}, nil)
	s := new(busy)
	p.l.AddSource(s)
	p.small(100, 30)
	if s.polls < 100 || p.l.stats.Sleeps != 0 {
		t.Errorf("%d polls, %d sleeps", s.polls, p.l.stats.Sleeps)
	}
}

// TestKickLeavesTheKernelToWhoAsks: a kick asks the kernel only when nobody has for some turns.
func TestKickLeavesTheKernelToWhoAsks(t *testing.T) {
	p := newPeeked(t, LoopConfig{}, nil)
	p.look(30)
	// kicks is how many it takes until a message is read that is there.
	kicks := func() (n int) {
		p.write(30)
		until(t, "the data is in the socket", func() bool { return p.unread() > p.c.sys.peek.owed })
		for p.got != p.sent {
			if n++; n > 10*kernelEvery {
				t.Fatalf("not read after %d kicks", n)
			}
			p.l.Kick()
		}
		return n
	}
	for range 5 {
		p.hold(func() { p.l.Turn(NoWait) })
		if n := kicks(); n != kernelEvery {
			t.Errorf("read by kick %d after the kernel was asked, want %d", n, kernelEvery)
		}
		if n := kicks(); n != kernelEvery {
			t.Errorf("read by kick %d after one that asked the kernel, want %d", n, kernelEvery)
		}
	}
}

// TestWriteToClosed: a write of one piece and one of several fail alike, and the one that says so to the kernel raises no signal.
func TestWriteToClosed(t *testing.T) {
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, unix.SIGPIPE, unix.SIGWINCH)
	defer signal.Stop(signals)
	// raised tells whether there was a SIGPIPE: of two signals that wait, the one with the lower number comes first.
	raised := func() (pipe bool) {
		if err := unix.Kill(unix.Getpid(), unix.SIGWINCH); err != nil {
			t.Fatal(err)
		}
		for {
			select {
			case s := <-signals:
				if s == unix.SIGWINCH {
					return pipe
				}
				pipe = true
			case <-time.After(hang):
				t.Fatal("no signal comes")
			}
		}
	}
	for _, network := range []string{"tcp", "unix"} {
		for pieces := 1; pieces < 4; pieces++ {
			l := manual(t, nil)
			var c *Conn
			var got error
			h := &funcs{close: func(_ *Conn, err error) { got = err }}
			if network == "tcp" {
				_, b := netPair(t)
				var err error
				if c, err = l.Adopt(b, h); err != nil {
					t.Fatal(err)
				}
				l.Turn(NoWait)
			} else {
				var peer int
				c, peer = pair(t, l, h)
				defer unix.Close(peer)
			}
			if err := unix.Shutdown(c.sys.fd, unix.SHUT_WR); err != nil {
				t.Fatal(err)
			}
			v := &l.sys.vec
			v.reset()
			for range pieces {
				v.add(make([]byte, 10))
			}
			raised() // by the last one
			n, errno := v.write(c.sys.fd)
			v.release()
			if n != -1 || errno != unix.EPIPE {
				t.Errorf("%s, %d pieces: %d, %v", network, pieces, n, errno)
			}
			if pipe := raised(); pipe && pieces == 1 && !buildtag.NoUnsafe {
				t.Errorf("%s, one piece: SIGPIPE", network)
			}
			// And the connection ends with it.
			for range pieces {
				c.AppendBuffer(segment.Wrap(make([]byte, CopyLimit+1), segment.DataBuffer)) // a piece of its own
			}
			for end := time.Now().Add(prompt); got == nil; l.Turn(NoWait) {
				if time.Now().After(end) {
					t.Fatalf("%s, %d pieces: not closed", network, pieces)
				}
			}
			if !errors.Is(got, unix.EPIPE) {
				t.Errorf("%s, %d pieces: closed with %v", network, pieces, got)
			}
		}
	}
}
