package netio

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirflow/weir/ringbuf"
)

// modes are the ways to drive a loop; each test of the basics runs in all of them.
var modes = []struct {
	name string
	cfg  LoopConfig
}{
	{"standby", LoopConfig{}},
	{"dedicated", LoopConfig{Dedicated: true}},
	{"nopoll", LoopConfig{Poll: -1}},
}

func eachMode(t *testing.T, f func(t *testing.T, l *Loop)) {
	for _, m := range modes {
		t.Run(m.name, func(t *testing.T) {
			m.cfg.Grace = hang // it bounds what is sent after the peer's end, too
			f(t, newLoop(t, m.cfg))
		})
	}
}

func TestEcho(t *testing.T) {
	eachMode(t, func(t *testing.T, l *Loop) {
		for _, network := range []string{"tcp4", "tcp6", "unix"} {
			addr := map[string]string{"tcp4": "127.0.0.1:0", "tcp6": "[::1]:0", "unix": filepath.Join(t.TempDir(), "s")}[network]
			a, err := l.Listen(network, addr, echo)
			if err != nil {
				t.Fatal(err)
			}
			nc := dialNet(t, a)
			const total = 1 << 20
			go func() {
				p := make([]byte, total)
				pattern(p, 0)
				for off := 0; off < total; off += 10000 {
					_, _ = nc.Write(p[off:min(off+10000, total)])
				}
				_ = nc.(interface{ CloseWrite() error }).CloseWrite()
			}()
			readAll(t, nc, total)
		}
	})
}

// bulk sends total bytes from one loop to another and checks them.
type bulkSender struct {
	funcs
	sent, total int
}

func (b *bulkSender) OnFlush(c *Conn) {
	for !c.Full() && b.sent < b.total {
		n := min(1+b.sent%9000, b.total-b.sent)
		pattern(c.Stage(n), b.sent)
		b.sent += n
	}
	if b.sent == b.total {
		c.CloseWrite()
	}
}

func TestLoopToLoop(t *testing.T) {
	eachMode(t, func(t *testing.T, l *Loop) {
		const total = 20 << 20
		got, ended := 0, newOnce()
		addr := listen(t, l, func(*Conn) Handler {
			return &funcs{
				read: func(_ *Conn, p []byte) error {
					if at := checkPattern(p, got); at >= 0 {
						return fmt.Errorf("byte %d is wrong", at)
					}
					got += len(p)
					return nil
				},
				close: func(_ *Conn, err error) {
					if err != nil || got != total {
						t.Errorf("closed with %v after %d bytes", err, got)
					}
					ended.done()
				},
			}
		})
		other := newLoop(t, LoopConfig{})
		if _, err := other.Dial(t.Context(), addr.Network(), addr.String(), &bulkSender{total: total}); err != nil {
			t.Fatal(err)
		}
		wait(t, ended.c, "end of stream")
	})
}

func TestRunUntil(t *testing.T) {
	eachMode(t, func(t *testing.T, l *Loop) {
		var got atomic.Int64
		n := ringbuf.NewNotifier()
		addr := listen(t, l, func(*Conn) Handler {
			return &funcs{read: func(_ *Conn, p []byte) error {
				got.Add(int64(len(p)))
				n.Wake()
				return nil
			}}
		})
		nc := dialNet(t, addr)
		for i := int64(1); i <= 200; i++ {
			go func() {
				if i%50 == 0 {
					time.Sleep(30 * time.Millisecond) // long enough for the standby
				}
				_, _ = nc.Write([]byte{1})
			}()
			if err := l.RunUntil(t.Context(), func() bool { return got.Load() >= i }, n); err != nil {
				t.Fatal(err)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		if err := l.RunUntil(ctx, func() bool { return false }, n); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("got %v", err)
		}
	})
}

// Several consumers on one loop, whose conditions are made true by each other, by turns and by outsiders.
func TestRunUntilMany(t *testing.T) {
	eachMode(t, func(t *testing.T, l *Loop) {
		const consumers, rounds = 4, 200
		var turn atomic.Int64
		var notes [consumers]*ringbuf.Notifier
		for i := range notes {
			notes[i] = ringbuf.NewNotifier()
		}
		done := make(chan error, consumers)
		for i := range consumers {
			go func() {
				for r := range rounds {
					mine := int64(r*consumers + i)
					if err := l.RunUntil(t.Context(), func() bool { return turn.Load() == mine }, notes[i]); err != nil {
						done <- err
						return
					}
					next := func() {
						turn.Add(1)
						notes[(i+1)%consumers].Wake()
					}
					if r%2 == 0 {
						next()
					} else if !l.Post(next) {
						done <- errors.New("post refused")
						return
					}
				}
				done <- nil
			}()
		}
		for range consumers {
			select {
			case err := <-done:
				if err != nil {
					t.Fatal(err)
				}
			case <-time.After(hang):
				t.Fatalf("stuck at %d", turn.Load())
			}
		}
	})
}

// ringSource counts what comes out of a ring.
type ringSource struct {
	ring *ringbuf.SPSC[int]
	got  atomic.Int64
}

func (s *ringSource) Poll() (worked bool) {
	for {
		if _, ok := s.ring.Pop(); !ok {
			return worked
		}
		s.got.Add(1)
		worked = true
	}
}

// An item pushed into a source's ring and followed by Wake is seen, whatever the loop is doing.
func TestSourceWake(t *testing.T) {
	eachMode(t, func(t *testing.T, l *Loop) {
		s := &ringSource{ring: ringbuf.NewSPSC[int](4)}
		l.AddSource(s)
		rounds := 600 // Wake alone may take LoopConfig.Standby, so most of them kick
		if testing.Short() {
			rounds = 100
		}
		for i := range rounds {
			for !s.ring.Push(i) {
				t.Fatal("ring full")
			}
			if i%10 == 0 {
				l.Wake()
			} else {
				l.Kick()
			}
			deadline := time.Now().Add(hang)
			for s.got.Load() != int64(i+1) {
				if time.Now().After(deadline) {
					t.Fatalf("item %d was not seen", i)
				}
				runtime.Gosched()
			}
			if i%7 == 0 {
				time.Sleep(300 * time.Microsecond) // the loop falls asleep
			}
		}
		l.RemoveSource(s)
	})
}

func TestTimers(t *testing.T) {
	eachMode(t, func(t *testing.T, l *Loop) {
		var order []int
		done := make(chan struct{})
		start := time.Now()
		inTurn(t, l, func() {
			l.After(30*time.Millisecond, func() { order = append(order, 3); close(done) })
			l.After(10*time.Millisecond, func() { order = append(order, 1) })
			moved := l.After(5*time.Millisecond, func() { order = append(order, 2) })
			moved.Reset(20 * time.Millisecond)
			l.After(15*time.Millisecond, func() { order = append(order, 9) }).Stop()
		})
		wait(t, done, "timer")
		if d := time.Since(start); d < 30*time.Millisecond || fmt.Sprint(order) != "[1 2 3]" {
			t.Fatalf("timers %v after %v", order, d)
		}
	})
}

func TestTimerHeap(t *testing.T) {
	l := newLoop(t, LoopConfig{Standby: -1})
	if !l.TryAcquire() {
		t.Fatal("token")
	}
	defer l.Release()
	var last time.Duration
	fired := 0
	var list []*Timer
	for i := range 1000 {
		tm := l.NewTimer(nil)
		tm.f = func() {
			if tm.at < last {
				t.Fatalf("fired at %v after %v", tm.at, last)
			}
			last = tm.at
			fired++
		}
		tm.Reset(time.Duration(i*7919%1000) * time.Microsecond)
		list = append(list, tm)
	}
	stopped := 0
	for i := 0; i < 1000; i += 3 {
		if list[i].Stop() {
			stopped++
		}
	}
	for i := 1; i < 1000; i += 3 {
		list[i].Reset(time.Duration(i*31%1000) * time.Microsecond)
	}
	for end := time.Now().Add(hang); len(l.timers) > 0 && time.Now().Before(end); {
		l.Turn(NoWait)
	}
	if fired+stopped != 1000 {
		t.Fatalf("%d fired, %d stopped", fired, stopped)
	}
}

func TestHalfClose(t *testing.T) {
	eachMode(t, func(t *testing.T, l *Loop) {
		closed := newOnce()
		addr := listen(t, l, func(*Conn) Handler {
			h := &ending{}
			sum := 0
			h.read = func(_ *Conn, p []byte) error { sum += len(p); return nil }
			h.end = func(c *Conn) {
				pattern(c.Stage(sum), 0) // as much as came, after the peer's end
				c.CloseWrite()
			}
			h.close = func(_ *Conn, err error) {
				if err != nil {
					t.Errorf("closed with %v", err)
				}
				closed.done()
			}
			return h
		})
		nc := dialNet(t, addr)
		if _, err := nc.Write(make([]byte, 3000)); err != nil {
			t.Fatal(err)
		}
		if err := nc.(*net.TCPConn).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		readAll(t, nc, 3000)
		wait(t, closed.c, "close")
	})
}

// Nobody hears from a connection that was adopted as a pipe, except through turns.
func TestAdoptPipe(t *testing.T) {
	eachMode(t, func(t *testing.T, l *Loop) {
		a, b := net.Pipe()
		closed := newOnce()
		h := echo(nil).(*funcs)
		h.close = func(*Conn, error) { closed.done() }
		if _, err := l.Adopt(a, h); err != nil {
			t.Fatal(err)
		}
		const total = 300 << 10
		go func() {
			p := make([]byte, total)
			pattern(p, 0)
			_, _ = b.Write(p)
		}()
		p := make([]byte, total)
		if _, err := io.ReadFull(b, p); err != nil {
			t.Fatal(err)
		}
		if at := checkPattern(p, 0); at >= 0 {
			t.Fatalf("byte %d is wrong", at)
		}
		_ = b.Close()
		wait(t, closed.c, "close")
	})
}

func TestAbortAndClose(t *testing.T) {
	eachMode(t, func(t *testing.T, l *Loop) {
		addr := listen(t, l, echo)
		reason := errors.New("reason")
		got := make(chan error, 1)
		c, err := l.Dial(t.Context(), addr.Network(), addr.String(), &funcs{close: func(_ *Conn, err error) { got <- err }})
		if err != nil {
			t.Fatal(err)
		}
		c.Abort(reason)
		select {
		case err := <-got:
			if err != reason {
				t.Fatalf("got %v", err)
			}
		case <-time.After(hang):
			t.Fatal("not closed")
		}
	})
}
