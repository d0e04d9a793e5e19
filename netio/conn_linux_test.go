//go:build linux && !weirportable

package netio

import (
	"net"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A lone small frame behind bulk arrives although the kernel was asked for large portions: within lowatWait, by the rule.
func TestLowatLoneFrame(t *testing.T) {
	k := newLink(t, LoopConfig{Standby: -1}, linkPayload, 32)
	k.a.acquire()
	k.b.acquire()
	defer k.a.Release()
	defer k.b.Release()
	for range 20 {
		for end := time.Now().Add(hang); len(k.b.raised) == 0; {
			k.allow(20)
			for !k.sink.ready() && len(k.b.raised) == 0 {
				k.a.Turn(NoWait)
				k.b.Turn(NoWait)
			}
			if time.Now().After(end) {
				t.Fatal("the case did not happen: never raised")
			}
		}
		// What is under way arrives, whole frames all of it, but while it is raised.
		for !k.frames.ready() {
			k.a.Turn(NoWait)
		}
		for !k.sink.ready() {
			k.b.Turn(Wait(time.Second))
		}
		c := k.b.conns[0]
		c.setLowat(true)
		start := time.Now()
		k.sink.wanted.Add(100)
		k.sender.Stage(100)
		for k.sender.Pending() > 0 {
			k.a.Turn(NoWait)
		}
		for !k.sink.ready() {
			k.b.Turn(Wait(hang))
			if time.Since(start) >= hang {
				t.Fatal("the frame does not arrive while the loop sleeps")
			}
		}
		if len(k.b.raised) != 0 {
			t.Fatal("still raised after a small frame")
		}
	}
}

// A loop that polls lowers it once polling has brought nothing, before it sleeps.
func TestLowatPollingLowers(t *testing.T) {
	k := newLink(t, LoopConfig{Standby: -1, Poll: lowatWait / 10}, linkPayload, 32)
	k.a.acquire()
	k.b.acquire()
	defer k.a.Release()
	defer k.b.Release()
	for end := time.Now().Add(hang); len(k.b.conns) == 0; {
		if k.b.Turn(NoWait); time.Now().After(end) {
			t.Fatal("the connection is not accepted")
		}
	}
	k.b.conns[0].setLowat(true)
	for k.b.spin(k.b.cfg.Poll, nil) { // what there is to do at the beginning
	}
	if n := len(k.b.raised); n != 0 {
		t.Errorf("%d connections are raised after an idle time", n)
	}
}

// Credit for few buffers, or small reads, leave SO_RCVLOWAT alone.
func TestLowatNeedsCredit(t *testing.T) {
	for name, v := range map[string]struct{ size, credit int }{"credit": {linkPayload, 10}, "size": {4000, 100}} {
		t.Run(name, func(t *testing.T) {
			k := newLink(t, LoopConfig{FullFrame: 400 << 10}, v.size, v.credit)
			k.b.cfg.FullFrame = defaultFullFrame
			if name == "size" {
				k.b.cfg.FullFrame = DefaultReadSize
			}
			k.send(t.Context(), t, 500)
			inTurn(t, k.b, func() {
				if k.b.stats.Lowats != 0 {
					t.Errorf("changed %d times", k.b.stats.Lowats)
				}
			})
		})
	}
}

func TestSocketOptions(t *testing.T) {
	l := newLoop(t, LoopConfig{Socket: SocketOptions{
		KeepAlive: 7 * time.Second, UserTimeout: 9 * time.Second, Congestion: "reno", SendBuffer: 40000, RecvBuffer: 50000,
	}})
	conns := make(chan *Conn, 2)
	addr := listen(t, l, func(c *Conn) Handler { conns <- c; return &funcs{} })
	c, err := l.Dial(t.Context(), "tcp", addr.String(), &funcs{})
	if err != nil {
		t.Fatal(err)
	}
	conns <- c
	for range 2 {
		c := <-conns
		inTurn(t, l, func() {
			for _, o := range []struct {
				name            string
				level, opt, min int
				max             int
			}{
				{"TCP_NODELAY", unix.IPPROTO_TCP, unix.TCP_NODELAY, 1, 1},
				{"SO_KEEPALIVE", unix.SOL_SOCKET, unix.SO_KEEPALIVE, 1, 1},
				{"TCP_KEEPIDLE", unix.IPPROTO_TCP, unix.TCP_KEEPIDLE, 7, 7},
				{"TCP_KEEPINTVL", unix.IPPROTO_TCP, unix.TCP_KEEPINTVL, 7, 7},
				{"TCP_USER_TIMEOUT", unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, 9000, 9000},
				{"SO_SNDBUF", unix.SOL_SOCKET, unix.SO_SNDBUF, 40000, 80000},
				{"SO_RCVBUF", unix.SOL_SOCKET, unix.SO_RCVBUF, 50000, 100000},
			} {
				if v, err := unix.GetsockoptInt(c.sys.fd, o.level, o.opt); err != nil || v < o.min || v > o.max {
					t.Errorf("%s is %d, %v", o.name, v, err)
				}
			}
			if v, err := unix.GetsockoptString(c.sys.fd, unix.IPPROTO_TCP, unix.TCP_CONGESTION); err != nil || v != "reno" {
				t.Errorf("congestion control %q, %v", v, err)
			}
		})
	}
	bad := newLoop(t, LoopConfig{Socket: SocketOptions{Congestion: "nonsense"}})
	if _, err := bad.Dial(t.Context(), "tcp", addr.String(), &funcs{}); err == nil {
		t.Error("an unknown congestion control was accepted")
	}
}

// The addresses of both ends, IPv4 and IPv6.
func TestAddresses(t *testing.T) {
	l := newLoop(t, LoopConfig{})
	for _, host := range []string{"127.0.0.1:0", "[::1]:0"} {
		got := make(chan [2]net.Addr, 1)
		addr, err := l.Listen("tcp", host, func(c *Conn) Handler {
			got <- [2]net.Addr{c.LocalAddr(), c.RemoteAddr()}
			return &funcs{}
		})
		if err != nil {
			t.Fatal(err)
		}
		c, err := l.Dial(t.Context(), "tcp", addr.String(), &funcs{})
		if err != nil {
			t.Fatal(err)
		}
		far := <-got
		if far[0].String() != c.RemoteAddr().String() || far[1].String() != c.LocalAddr().String() {
			t.Errorf("accepted %v, dialled %v to %v", far, c.LocalAddr(), c.RemoteAddr())
		}
	}
}

// A failed write: everything that came before is read, then the connection is closed with the write's error.
func TestDataBeforeFailedWrite(t *testing.T) {
	for _, paused := range []bool{false, true} {
		l := manual(t, &hooks{write: func(*Conn, *vectors) (int, unix.Errno) { return -1, unix.EPIPE }})
		l.sys.region = l.sys.region[:100]
		read, closes := 0, 0
		var got error
		c, peer := pair(t, l, &funcs{
			read:  func(_ *Conn, p []byte) error { read += len(p); return nil },
			close: func(_ *Conn, err error) { closes++; got = err },
		})
		if _, errno := sysWriteFD(peer, make([]byte, 950)); errno != 0 {
			t.Fatal(errno)
		}
		_ = unix.Close(peer)
		if paused {
			c.PauseRead()
		}
		c.Stage(10)
		l.settle()
		if paused {
			if closes != 0 || read != 0 {
				t.Fatal("closed although what came is not read")
			}
			c.ResumeRead()
			for range 20 {
				l.Turn(NoWait)
			}
		}
		if read != 950 || closes != 1 || got == nil || c.Pending() != 0 {
			t.Fatalf("paused %v: read %d, %d close callbacks, %v", paused, read, closes, got)
		}
		l.sys.region = l.sys.region[:cap(l.sys.region)]
	}
}

// After a failed write, while what came before is still to be read, copies go home and are not queued.
func TestAppendCopiesAfterFailedWrite(t *testing.T) {
	for _, withReleaser := range []bool{false, true} {
		l := manual(t, &hooks{write: func(*Conn, *vectors) (int, unix.Errno) { return -1, unix.EPIPE }})
		c, peer := pair(t, l, &funcs{})
		d := newLender(t, withReleaser)
		if withReleaser {
			c.SetReleaser(d.releaser)
		}
		c.PauseRead()
		c.AppendCopies(d.lend())
		d.back("queued")
		if c.Pending() != 10 {
			t.Errorf("%d bytes are queued, want 10", c.Pending())
		}
		l.settle()
		if c.Closed() || c.writeErr == nil {
			t.Fatalf("the case did not happen: closed %t, %v", c.Closed(), c.writeErr)
		}
		c.AppendCopies(d.lend())
		d.back("after a failed write")
		if c.Pending() != 0 || !c.out.empty() {
			t.Errorf("%d bytes are queued after a failed write", c.Pending())
		}
		d.close()
		c.Close(nil)
		_ = unix.Close(peer)
	}
}
