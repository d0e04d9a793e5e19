//go:build linux && !weirportable

package netio

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirflow/weir/internal/buildtag"
	"github.com/weirflow/weir/segment"
	"golang.org/x/sys/unix"
)

const raceOrPortable = buildtag.Race

// pair returns a connection of the loop and the other end of a Unix socket pair. The loop has no standby; the caller holds the
// token.
func pair(t testing.TB, l *Loop, h Handler) (*Conn, int) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	c := l.newConn("unix", &net.UnixAddr{Net: "unix"}, &net.UnixAddr{Net: "unix"}, h)
	c.sys.fd = fds[0]
	c.attach()
	return c, fds[1]
}

// manual is a loop whose turns the test runs.
func manual(t testing.TB, h *hooks) *Loop {
	t.Helper()
	l := newLoop(t, LoopConfig{Standby: -1, Poll: -1})
	if !l.TryAcquire() {
		t.Fatal("token")
	}
	l.hooks = h
	t.Cleanup(l.Release)
	return l
}

// openFDs counts the descriptors of the process.
func openFDs(t testing.TB) int {
	names, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(names)
}

// NET-01: writev fails with EINVAL when more than 1 024 pieces are queued.
func TestNET01ManyPieces(t *testing.T) {
	const pieces = 2500
	most, calls := 0, 0
	l := manual(t, &hooks{copyMax: 1, write: func(c *Conn, v *vectors) (int, unix.Errno) {
		most, calls = max(most, v.len()), calls+1
		return v.write(c.sys.fd)
	}})
	c, peer := pair(t, l, &funcs{})
	defer unix.Close(peer)
	bufs := make([]segment.Buffer, pieces)
	for i := range bufs {
		bufs[i] = segment.Wrap(fmt.Appendf(nil, "%010d", i), segment.DataBuffer)
		c.AppendBuffer(bufs[i].Retain())
	}
	if !c.Full() || c.Pending() != 10*pieces {
		t.Fatalf("full %v, pending %d", c.Full(), c.Pending())
	}
	got := make([]byte, 0, 10*pieces)
	buf := make([]byte, 4096)
	for end := time.Now().Add(hang); len(got) < 10*pieces && time.Now().Before(end); {
		l.Turn(NoWait)
		if n, err := unix.Read(peer, buf); err == nil {
			got = append(got, buf[:n]...)
		}
	}
	for i := range bufs {
		if want := fmt.Sprintf("%010d", i); string(got[10*i:10*i+10]) != want {
			t.Fatalf("piece %d is %q", i, got[10*i:10*i+10])
		}
		if n := bufs[i].Refs(); n != 1 {
			t.Fatalf("piece %d has %d references, not only ours", i, n)
		}
		bufs[i].Release()
	}
	if most > MaxVectors || calls < 3 {
		t.Fatalf("%d pieces in one of %d calls", most, calls)
	}
}

// epollSet reads the epoll set from the kernel: descriptor to mask.
func epollSet(t testing.TB, l *Loop) map[int]uint32 {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/self/fdinfo/%d", l.sys.epfd))
	if err != nil {
		t.Fatal(err)
	}
	set := map[int]uint32{}
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if len(f) >= 4 && f[0] == "tfd:" {
			fd, _ := strconv.Atoi(f[1])
			mask, _ := strconv.ParseUint(f[3], 16, 32)
			if _, twice := set[fd]; twice {
				t.Fatalf("descriptor %d is in the set twice", fd)
			}
			set[fd] = uint32(mask)
		}
	}
	return set
}

// NET-06: EEXIST or ENOENT from epoll_ctl when interest is registered early, or after a number was used again.
func TestNET06Registration(t *testing.T) {
	var failed atomic.Int32
	l := newLoop(t, LoopConfig{OnError: func(err error) { failed.Add(1); t.Error(err) }})
	var closes atomic.Int32
	addr, err := l.Listen("unix", filepath.Join(t.TempDir(), "s"), func(c *Conn) Handler {
		c.Stage(300 << 10) // more than the socket takes: a partial write on opening
		return &funcs{close: func(_ *Conn, err error) {
			closes.Add(1)
			if errors.Is(err, unix.EEXIST) || errors.Is(err, unix.ENOENT) {
				t.Error(err)
			}
		}}
	})
	if err != nil {
		t.Fatal(err)
	}
	n := rounds(4000)
	var open []net.Conn
	for i := range n {
		nc := dialNet(t, addr)
		if i%8 == 0 {
			_, _ = nc.Write([]byte{1})
		}
		if open = append(open, nc); len(open) > 3 { // some stay open, so that numbers are used again in another order
			k := i * 7 % len(open)
			_ = open[k].Close()
			open[k] = open[len(open)-1]
			open = open[:len(open)-1]
		}
	}
	until(t, "all are served", func() (ok bool) { // those of the end may not be accepted yet
		inTurn(t, l, func() { ok = int(closes.Load()) >= n-len(open) && len(l.conns) >= len(open) })
		return ok
	})
	inTurn(t, l, func() {
		if int(closes.Load()) != n-len(open) || len(l.conns) != len(open) {
			t.Errorf("%d closed, %d open, want %d and %d", closes.Load(), len(l.conns), n-len(open), len(open))
		}
		const bits = unix.EPOLLIN | unix.EPOLLOUT
		set := epollSet(t, l)
		if len(set) != len(open)+2 { // and the wake-up descriptor and the listener
			t.Errorf("%d descriptors in the set", len(set))
		}
		for _, c := range l.conns {
			if !c.blocked {
				t.Error("the case did not happen: nothing left to write")
			}
			if set[c.sys.fd]&bits != c.wants() {
				t.Errorf("mask %x, want %x", set[c.sys.fd], c.wants())
			}
		}
	})
}

// NET-07: sending stops for ever after a partial write.
func TestNET07PartialWrite(t *testing.T) {
	const total = 16406
	nl, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer nl.Close()
	l := newLoop(t, LoopConfig{Socket: SocketOptions{SendBuffer: 4096}})
	blocked, read := make(chan struct{}), make(chan struct{})
	c, err := l.Dial(t.Context(), "unix", nl.Addr().String(), &funcs{
		open: func(c *Conn) {
			pattern(c.Stage(total), 0)
			l.After(time.Millisecond, func() { // after the flush
				if c.blocked && c.wants() == unix.EPOLLIN|unix.EPOLLOUT && c.sys.mask == c.wants() {
					close(blocked)
				}
			})
		},
		read: func(c *Conn, p []byte) error {
			if c.sys.mask&unix.EPOLLOUT == 0 {
				t.Error("reading took the write interest away")
			}
			close(read)
			return nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	nc, err := nl.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	_ = nc.SetDeadline(time.Now().Add(hang))
	wait(t, blocked, "partial write")
	if _, err := nc.Write([]byte{1}); err != nil {
		t.Fatal(err)
	}
	wait(t, read, "read while a write is pending")
	p := make([]byte, total)
	if _, err := io.ReadFull(nc, p); err != nil {
		t.Fatal(err)
	}
	if at := checkPattern(p, 0); at >= 0 {
		t.Fatalf("byte %d is wrong", at)
	}
	for off := false; !off; { // the last write is known to the loop a moment after the bytes are here
		inTurn(t, l, func() { off = c.sys.mask == unix.EPOLLIN })
	}
	quiet(t, l, "in silence")
}

// NET-08: the loop spins on EPOLLHUP while read gives EAGAIN.
func TestNET08HangupWithoutData(t *testing.T) {
	var c *Conn
	l := manual(t, &hooks{read: func(*Conn, []byte) (int, unix.Errno) { return -1, unix.EAGAIN }})
	var got error
	c, peer := pair(t, l, &funcs{close: func(_ *Conn, err error) { got = err }})
	defer unix.Close(peer)
	rounds := 0
	for ; rounds < 10 && !c.Closed(); rounds++ {
		c.event(unix.EPOLLIN | unix.EPOLLHUP)
	}
	l.Turn(NoWait)
	if rounds > 2 || !errors.Is(got, ErrHangup) {
		t.Fatalf("closed after %d rounds with %v", rounds, got)
	}
}

// NET-10: a dial to where nobody answers ends with its context and leaves no descriptor.
func TestNET10BlackHole(t *testing.T) {
	// A listener whose queue is full drops what comes.
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	if err := unix.Listen(fd, 0); err != nil {
		t.Fatal(err)
	}
	sa, err := unix.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	addr := fmt.Sprintf("127.0.0.1:%d", sa.(*unix.SockaddrInet4).Port)
	nc, err := net.DialTimeout("tcp", addr, hang)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	until(t, "the queue is full", func() bool {
		info, err := unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO)
		if err != nil {
			t.Fatal(err)
		}
		return info.Unacked > info.Sacked // of a listener: how many wait, and how many may
	})
	l := newLoop(t, LoopConfig{})
	before := openFDs(t)
	start := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	c, err := l.Dial(ctx, "tcp", addr, &funcs{})
	d := time.Since(start)
	if c != nil || !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), addr) {
		t.Fatalf("got %v, %v", c, err)
	}
	if d < 250*time.Millisecond {
		t.Fatalf("took %v", d)
	}
	for end := time.Now().Add(hang); openFDs(t) > before; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d descriptors, %d before", openFDs(t), before)
		}
	}
}

// NET-11: an event for a closed descriptor is applied to a new connection that got the same number.
func TestNET11NumberUsedAgain(t *testing.T) {
	l := manual(t, nil)
	again := 0
	for range rounds(2000) {
		var conns [2]*Conn
		var peers [2]int
		var third *Conn
		thirdPeer, reads := -1, 0
		for i := range conns {
			h := &funcs{}
			h.read = func(c *Conn, p []byte) error {
				if reads++; reads > 1 {
					t.Fatal("the closed connection was read")
				}
				other := conns[1-i]
				number := other.sys.fd
				other.Close(nil)
				third, thirdPeer = pair(t, l, &funcs{read: func(*Conn, []byte) error {
					t.Error("an event of the old connection was applied to the new one")
					return nil
				}})
				if third.sys.fd == number { // unless a lower one has become free meanwhile
					again++
				}
				// Data in the new one makes a wrong event visible; it is read before the next turn finds it.
				_, _ = unix.Write(thirdPeer, []byte{3})
				return nil
			}
			conns[i], peers[i] = pair(t, l, h)
		}
		for _, p := range peers {
			_, _ = unix.Write(p, []byte{1})
		}
		if !l.sysPoll() || reads != 1 {
			t.Fatalf("%d reads", reads)
		}
		for _, c := range append(conns[:], third) {
			c.Close(nil)
		}
		l.Turn(NoWait)
		for _, p := range append(peers[:], thirdPeer) {
			_ = unix.Close(p)
		}
	}
	if again == 0 {
		t.Error("the case did not happen: no number was used again")
	}
}

// NET-12: a wake-up written during shutdown lands in somebody else's file.
func TestNET12WakeDuringClose(t *testing.T) {
	n := rounds(1500)
	var late atomic.Int64
	for range n {
		l, err := NewLoop(LoopConfig{Poll: -1, Standby: 50 * time.Microsecond})
		if err != nil {
			t.Fatal(err)
		}
		var stop atomic.Bool
		var wg sync.WaitGroup
		for i := range 8 {
			wg.Add(1)
			go func() {
				defer wg.Done()
				for !stop.Load() {
					l.Wake()
					if l.Closed() {
						late.Add(1)
					}
					l.sysInterrupt() // without the check for sleepers: the worst case
					if i == 0 {
						l.Post(func() {})
					}
					runtime.Gosched() // the one that closes wants to run as well
				}
			}()
		}
		number := l.sys.evfd
		if err := l.Close(context.Background()); err != nil {
			t.Fatal(err)
		}
		var files []int
		for {
			fd, err := unix.MemfdCreate("foreign", unix.MFD_CLOEXEC)
			if err != nil {
				t.Fatal(err)
			}
			files = append(files, fd)
			if fd >= number {
				break
			}
		}
		if l.Post(func() {}) {
			t.Fatal("post after close")
		}
		for end := time.Now().Add(hang); late.Load() == 0 && time.Now().Before(end); { // until the others have run
			runtime.Gosched()
		}
		stop.Store(true)
		wg.Wait()
		for _, fd := range files {
			var st unix.Stat_t
			if err := unix.Fstat(fd, &st); err != nil || st.Size != 0 {
				t.Fatalf("descriptor %d of a file of ours: %d bytes, %v", fd, st.Size, err)
			}
			_ = unix.Close(fd)
		}
	}
	if late.Load() == 0 {
		t.Error("the case did not happen: no wake-up during a close")
	}
}

// NET-15: a connection whose registration fails is neither served nor closed.
func TestNET15RegistrationFails(t *testing.T) {
	var reports atomic.Int32
	l := newLoop(t, LoopConfig{OnError: func(err error) {
		if !errors.Is(err, unix.ENOSPC) {
			t.Error(err)
		}
		reports.Add(1)
	}})
	adds := 0
	inTurn(t, l, func() {
		l.hooks = &hooks{ctl: func(op, _ int) error {
			if op == unix.EPOLL_CTL_ADD {
				if adds++; adds == 4 { // the first is the listener's
					return unix.ENOSPC
				}
			}
			return nil
		}}
	})
	addr := listen(t, l, echo)
	inTurn(t, l, func() {})
	before := openFDs(t)
	var conns []net.Conn
	for i := range 5 {
		nc := dialNet(t, addr)
		conns = append(conns, nc)
		_, _ = nc.Write([]byte{byte(i)})
		b := make([]byte, 1)
		_, err := nc.Read(b)
		if i == 2 {
			if err == nil {
				t.Error("client 3 was served")
			}
		} else if err != nil || b[0] != byte(i) {
			t.Errorf("client %d: %v", i+1, err)
		}
	}
	served := 0
	inTurn(t, l, func() { served = len(l.conns) })
	// There may have been some at the beginning that were about to be closed.
	if got := openFDs(t) - before; got > 9 || served != 4 || reports.Load() != 1 {
		t.Errorf("%d more descriptors, want 9; %d connections; %d reports", got, served, reports.Load())
	}
	for _, nc := range conns {
		_ = nc.Close()
	}
}

// NET-17: bytes are acknowledged to the output queue although the send failed.
func TestNET17FailedSend(t *testing.T) {
	calls := 0
	l := manual(t, &hooks{copyMax: 1, write: func(*Conn, *vectors) (int, unix.Errno) {
		if calls++; calls == 1 {
			return 150, 0
		}
		return -1, unix.EPIPE
	}})
	var got error
	c, peer := pair(t, l, &funcs{close: func(_ *Conn, err error) { got = err }})
	defer unix.Close(peer)
	var bufs [3]segment.Buffer
	refs := func() (r [3]int) {
		for i, b := range bufs {
			r[i] = b.Refs()
		}
		return r
	}
	for i := range bufs {
		bufs[i] = segment.Wrap(make([]byte, 100), segment.DataBuffer)
		defer bufs[i].Release()
		c.AppendBuffer(bufs[i].Retain())
	}
	l.settle()
	if c.Pending() != 150 || refs() != [3]int{1, 2, 2} {
		t.Fatalf("pending %d, references %v after a partial write", c.Pending(), refs())
	}
	c.blocked = false
	c.WantFlush()
	l.settle()
	if calls != 2 || refs() != [3]int{1, 1, 1} || !errors.Is(got, unix.EPIPE) {
		t.Fatalf("%d calls, references %v, closed with %v", calls, refs(), got)
	}
	if l.stats.WriteBytes != 150 {
		t.Fatalf("%d bytes counted", l.stats.WriteBytes)
	}
}

// NET-20: closed by the user in the instant that the peer's reset is handled.
func TestNET20CloseAndReset(t *testing.T) {
	l := newLoop(t, LoopConfig{})
	var fds, closes atomic.Int32
	inTurn(t, l, func() { l.hooks = &hooks{closeFD: func(int) { fds.Add(1) }} })
	accepted := make(chan *Conn, 1)
	addr := listen(t, l, func(c *Conn) Handler {
		calls := 0
		accepted <- c
		return &funcs{close: func(*Conn, error) {
			if calls++; calls > 1 {
				t.Error("closed twice")
			}
			closes.Add(1)
		}}
	})
	n := rounds(1000)
	for i := range n {
		nc := dialNet(t, addr).(*net.TCPConn)
		c := <-accepted
		_ = nc.SetLinger(0)
		go c.Abort(nil)
		if i%2 == 0 {
			go c.Abort(nil)
		}
		_ = nc.Close()
	}
	for end := time.Now().Add(hang); int(closes.Load()) < n && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	inTurn(t, l, func() {
		if int(closes.Load()) != n || int(fds.Load()) != n || len(l.conns) != 0 {
			t.Errorf("%d close callbacks, %d descriptors closed, %d open, of %d", closes.Load(), fds.Load(), len(l.conns), n)
		}
	})
}
