//go:build linux && !weirportable

package netio

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"crypto/tls"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/weirflow/weir/internal/testcert"
	"golang.org/x/sys/unix"
)

const tlsNative = true

// tlsPeer connects an ordinary tls.Conn, whose handshake is through, to a connection of l with handler h.
func tlsPeer(t testing.TB, l *Loop, cfg *tls.Config, h Handler) (*tls.Conn, *Conn) {
	t.Helper()
	accepted := make(chan *Conn, 1)
	addr := listenTLS(t, l, TLS{Config: cfg}, func(c *Conn) Handler {
		accepted <- c
		return h
	})
	client := cfg.Clone()
	client.ServerName = "localhost"
	nc := dialNet(t, addr)
	_ = nc.(*net.TCPConn).SetReadBuffer(128 << 10) // not less: the loopback's packets are of 64 KiB
	tc := tls.Client(nc, client)
	if err := tc.Handshake(); err != nil {
		t.Fatal(err)
	}
	select {
	case c := <-accepted:
		return tc, c
	case <-time.After(hang):
		t.Fatal("not accepted")
		return nil, nil
	}
}

func eachVersion(t *testing.T, f func(t *testing.T, cfg *tls.Config)) {
	cfg := testcert.New(t, "authority").TLS(t, "node")
	for name, version := range map[string]uint16{"1.2": tls.VersionTLS12, "1.3": tls.VersionTLS13} {
		t.Run(name, func(t *testing.T) {
			cfg := cfg.Clone()
			cfg.MinVersion, cfg.MaxVersion = version, version
			f(t, cfg)
		})
	}
}

// dribble is a kernel that gives and takes a byte at a time, or as many as size says, and is interrupted or full now and then.
func dribble(size func(call int) int) *hooks {
	reads, writes := 0, 0
	return &hooks{
		read: func(c *Conn, p []byte) (int, unix.Errno) {
			switch reads++; {
			case reads%101 == 0:
				return -1, unix.EINTR
			case reads%31 == 0:
				return -1, unix.EAGAIN
			}
			return sysRead(c.sys.fd, p[:min(len(p), size(reads))])
		},
		write: func(c *Conn, v *vectors) (int, unix.Errno) {
			switch writes++; {
			case writes%101 == 0:
				return -1, unix.EINTR
			case writes%31 == 0:
				return -1, unix.EAGAIN
			}
			p := c.sys.tls.out[c.sys.tls.sent:]
			return sysWriteFD(c.sys.fd, p[:min(len(p), size(writes))])
		},
	}
}

// stuck waits until the connection's socket has been full for a while.
func stuck(t testing.TB, l *Loop, c *Conn) {
	t.Helper()
	last, times := uint64(0), 0
	until(t, "the socket is full", func() bool {
		inTurn(t, l, func() {
			if times++; !c.blocked || l.stats.WriteBytes != last {
				times = 0
			}
			last = l.stats.WriteBytes
		})
		return times > 50
	})
}

// However little the kernel gives and takes at a time, every byte arrives in its place: records are cut at each of theirs.
func TestTLSInPieces(t *testing.T) {
	sizes := map[string]func(int) int{
		"bytes":  func(int) int { return 1 },
		"pieces": func(call int) int { return 1 + call*7919%5000 },
	}
	eachVersion(t, func(t *testing.T, cfg *tls.Config) {
		for name, size := range sizes {
			t.Run(name, func(t *testing.T) {
				l := newLoop(t, LoopConfig{Grace: hang}) // the rest goes back after the peer's end
				total := 3 << 20
				if name == "bytes" {
					total = 40_000
				}
				inTurn(t, l, func() { l.hooks = dribble(size) })
				tc, _ := tlsPeer(t, l, cfg, echo(nil))
				go func() {
					p := make([]byte, total)
					pattern(p, 0)
					for off, i := 0, 0; off < total; i++ {
						n := min(1+i*104729%40_000, total-off)
						if _, err := tc.Write(p[off : off+n]); err != nil {
							t.Error(err)
							return
						}
						off += n
					}
					_ = tc.CloseWrite()
				}()
				readAll(t, tc, total)
			})
		}
	})
}

// A connection whose socket is full encrypts no more than a batch ahead, and the rest of it follows when the peer reads.
func TestTLSFullSocket(t *testing.T) {
	eachVersion(t, func(t *testing.T, cfg *tls.Config) {
		const total = 4 << 20
		l := newLoop(t, LoopConfig{Socket: SocketOptions{SendBuffer: 64 << 10}})
		s := &bulkSender{total: total}
		tc, c := tlsPeer(t, l, cfg, s)
		stuck(t, l, c)
		for range 50 {
			inTurn(t, l, func() {
				k := c.sys.tls
				if k.sealed() == 0 || cap(k.out) > sealSpace {
					t.Errorf("%d bytes in a staging buffer of %d", k.sealed(), cap(k.out))
				}
				if n := c.Pending(); n < k.sealed() || n > 2*BatchBytes {
					t.Errorf("%d bytes are pending, %d of them sealed", n, k.sealed())
				}
			})
		}
		readAll(t, tc, total)
		until(t, "staging is given back", func() (idle bool) {
			inTurn(t, l, func() { idle = c.sys.tls.out == nil && len(l.sys.seals.small) > 0 })
			return idle
		})
	})
}

// Closing while the socket is full: what is queued goes home at once, and the peer that reads on gets what was encrypted, and is told
// the end. A peer that does not is cut off.
func TestTLSCloseWithFullSocket(t *testing.T) {
	cfg := testcert.New(t, "authority").TLS(t, "node")
	for _, reads := range []bool{true, false} {
		t.Run(fmt.Sprintf("reads=%v", reads), func(t *testing.T) {
			l := newLoop(t, LoopConfig{Socket: SocketOptions{SendBuffer: 64 << 10}})
			ended := make(chan error, 1)
			s := &bulkSender{total: 1 << 30}
			s.close = func(_ *Conn, err error) { ended <- err }
			tc, c := tlsPeer(t, l, cfg, s)
			stuck(t, l, c)
			fds := openFDs(t)
			cause := errors.New("enough")
			begin := time.Now()
			inTurn(t, l, func() {
				if !reads {
					l.hooks = &hooks{write: func(*Conn, *vectors) (int, unix.Errno) { return -1, unix.EAGAIN }}
				}
				c.Close(cause)
				if c.out.bytes != 0 {
					t.Errorf("%d bytes are still queued", c.out.bytes)
				}
				c.Close(nil) // does nothing
				if reads && c.sys.tls.limit != nil {
					c.sys.tls.limit.Reset(hang) // however slow the machine is
				}
			})
			if reads {
				got, buf := 0, make([]byte, 64<<10)
				for {
					n, err := tc.Read(buf)
					if at := checkPattern(buf[:n], got); at >= 0 {
						t.Fatalf("byte %d is wrong", at)
					}
					if got += n; err != nil {
						if err != io.EOF {
							t.Errorf("after %d bytes: %v", got, err)
						}
						break
					}
				}
			}
			select {
			case err := <-ended:
				if err != cause {
					t.Error(err)
				}
			case <-time.After(hang):
				t.Fatal("no OnClose")
			}
			if d := time.Since(begin); !reads && d < goodbyeLimit {
				t.Errorf("it took %v", d)
			}
			if n := openFDs(t); n >= fds {
				t.Errorf("%d descriptors, %d before the end", n, fds)
			}
		})
	}
}

// Each side may end its stream and go on reading.
func TestTLSHalfClose(t *testing.T) {
	eachVersion(t, func(t *testing.T, cfg *tls.Config) {
		const size = 300_000
		l := newLoop(t, LoopConfig{})
		got, ended := 0, make(chan error, 1)
		ours := &ending{}
		ours.open = func(c *Conn) {
			pattern(c.Stage(size), 0)
			c.CloseWrite()
		}
		ours.read = func(_ *Conn, p []byte) error {
			if at := checkPattern(p, got); at >= 0 {
				t.Errorf("byte %d is wrong", at)
			}
			got += len(p)
			return nil
		}
		ours.end = func(*Conn) {}
		ours.close = func(_ *Conn, err error) { ended <- err }
		tc, _ := tlsPeer(t, l, cfg, ours)
		readAll(t, tc, size)
		p := make([]byte, size)
		pattern(p, 0)
		if _, err := tc.Write(p); err != nil { // after our end
			t.Fatal(err)
		}
		if err := tc.CloseWrite(); err != nil {
			t.Fatal(err)
		}
		select {
		case err := <-ended:
			if err != nil || got != size {
				t.Errorf("%d bytes, %v", got, err)
			}
		case <-time.After(hang):
			t.Fatal("no OnClose")
		}

		// The peer's end first: we answer after it.
		theirs := &ending{}
		theirs.end = func(c *Conn) {
			pattern(c.Stage(size), 0)
			c.CloseWrite()
		}
		theirs.close = func(_ *Conn, err error) { ended <- err }
		tc, _ = tlsPeer(t, l, cfg, theirs)
		if err := tc.CloseWrite(); err != nil {
			t.Fatal(err)
		}
		readAll(t, tc, size)
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// What crypto/tls holds when reading is paused arrives after it is resumed, although the socket has nothing more to report.
func TestTLSPause(t *testing.T) {
	eachVersion(t, func(t *testing.T, cfg *tls.Config) {
		const records, size = 50, 100
		l := newLoop(t, LoopConfig{Poll: -1}) // which would look at the connection by itself
		got := 0
		all := newOnce()
		tc, c := tlsPeer(t, l, cfg, &funcs{read: func(c *Conn, p []byte) error {
			if at := checkPattern(p, got); at >= 0 {
				t.Errorf("byte %d is wrong", at)
			}
			if got += len(p); got == records*size {
				all.done()
				return nil
			}
			c.PauseRead()
			if got%(2*size) == 0 {
				c.ResumeRead() // within the call
				c.PauseRead()
			}
			l.Post(c.ResumeRead)
			return nil
		}})
		inTurn(t, l, func() { l.cfg.ReadSize, l.sys.region = size, l.sys.region[:size] })
		defer inTurn(t, l, func() { l.sys.region = l.sys.region[:cap(l.sys.region)] })
		inTurn(t, l, c.PauseRead)
		p := make([]byte, records*size)
		pattern(p, 0)
		for i := range records {
			if _, err := tc.Write(p[i*size : (i+1)*size]); err != nil {
				t.Fatal(err)
			}
		}
		quiet(t, l, "while paused")
		inTurn(t, l, func() {
			if got != 0 {
				t.Errorf("%d bytes in spite of the pause", got)
			}
			c.ResumeRead()
		})
		wait(t, all.c, "every byte")
	})
}

// A flood of records of one byte: no turn takes more than its share.
func TestTLSSmallRecords(t *testing.T) {
	const total = 5000
	l := newLoop(t, LoopConfig{})
	got, inThis, turn := 0, 0, uint64(0)
	all := newOnce()
	tc, _ := tlsPeer(t, l, testcert.New(t, "authority").TLS(t, "node"), &funcs{read: func(c *Conn, p []byte) error {
		if now := l.turns.Load(); now != turn {
			turn, inThis = now, 0
		}
		if inThis += len(p); inThis > recordsPerTurn {
			t.Errorf("%d records in a turn", inThis)
		}
		if at := checkPattern(p, got); at >= 0 {
			t.Errorf("byte %d is wrong", at)
		}
		if got += len(p); got == total {
			all.done()
		}
		return nil
	}})
	for i := range total {
		if _, err := tc.Write([]byte{patternAt(i)}); err != nil {
			t.Fatal(err)
		}
	}
	wait(t, all.c, "every byte")
}

// A peer that resets the connection within a record, and one that sends garbage, which is told so.
func TestTLSBrokenPeer(t *testing.T) {
	eachVersion(t, func(t *testing.T, cfg *tls.Config) {
		l := newLoop(t, LoopConfig{})
		ended := make(chan error, 1)
		h := &funcs{close: func(_ *Conn, err error) { ended <- err }}
		tc, c := tlsPeer(t, l, cfg, h)
		nc := tc.NetConn().(*net.TCPConn)
		if _, err := nc.Write([]byte{23, 3, 3, 1, 0, 1, 2, 3}); err != nil {
			t.Fatal(err)
		}
		until(t, "the part is read", func() (ok bool) {
			inTurn(t, l, func() { ok = l.stats.ReadBytes == 8 })
			return ok
		})
		_ = nc.SetLinger(0)
		_ = nc.Close()
		if err := <-ended; !errors.Is(err, syscall.ECONNRESET) || !strings.Contains(err.Error(), c.RemoteAddr().String()) {
			t.Errorf("after a reset: %v", err)
		}

		tc, _ = tlsPeer(t, l, cfg, h)
		if _, err := tc.NetConn().Write(append([]byte{23, 3, 3, 1, 0}, make([]byte, 256)...)); err != nil {
			t.Fatal(err)
		}
		if err := <-ended; err == nil || !strings.Contains(err.Error(), "local error: tls: bad record MAC") {
			t.Errorf("after garbage: %v", err)
		}
		if _, err := tc.Read(make([]byte, 1)); err == nil || !strings.Contains(err.Error(), "remote error: tls: bad record MAC") {
			t.Errorf("the peer was told: %v", err)
		}
	})
}

// A failed write: everything that came before is read, then the connection is closed with the write's error.
func TestTLSDataBeforeFailedWrite(t *testing.T) {
	const size = 100_000
	l := newLoop(t, LoopConfig{})
	got, ended := 0, make(chan error, 1)
	tc, c := tlsPeer(t, l, testcert.New(t, "authority").TLS(t, "node"), &funcs{
		read: func(_ *Conn, p []byte) error {
			if at := checkPattern(p, got); at >= 0 {
				t.Errorf("byte %d is wrong", at)
			}
			got += len(p)
			return nil
		},
		close: func(_ *Conn, err error) { ended <- err },
	})
	inTurn(t, l, c.PauseRead)
	p := make([]byte, size)
	pattern(p, 0)
	if _, err := tc.Write(p); err != nil {
		t.Fatal(err)
	}
	_ = tc.Close()
	inTurn(t, l, func() {
		l.hooks = &hooks{write: func(*Conn, *vectors) (int, unix.Errno) { return -1, unix.EPIPE }}
		c.Stage(10)
	})
	inTurn(t, l, c.ResumeRead)
	select {
	case err := <-ended:
		if !errors.Is(err, syscall.EPIPE) || got != size {
			t.Errorf("closed with %v after %d bytes", err, got)
		}
	case <-time.After(hang):
		t.Fatal("no OnClose")
	}
}

// Connections have no goroutines after their handshake, at neither end.
func TestTLSNoGoroutines(t *testing.T) {
	const conns = 40
	cfg := testcert.New(t, "authority").TLS(t, "node")
	l := newLoop(t, LoopConfig{})
	var mu sync.Mutex
	var all []*Conn
	addr := listenTLS(t, l, TLS{Config: cfg}, func(c *Conn) Handler {
		mu.Lock()
		defer mu.Unlock()
		all = append(all, c)
		return echo(c)
	})
	before := 0
	for i := range conns {
		if i == 1 {
			before = runtime.NumGoroutine() // of the first one the acceptor may be missing
		}
		answered := newOnce()
		c, err := l.DialTLS(t.Context(), "tcp", addr.String(), TLS{Config: cfg}, &funcs{
			open: func(c *Conn) { c.Stage(1) },
			read: func(*Conn, []byte) error { answered.done(); return nil },
		})
		if err != nil {
			t.Fatal(err)
		}
		mu.Lock()
		all = append(all, c)
		mu.Unlock()
		wait(t, answered.c, "answer")
	}
	inTurn(t, l, func() {
		if len(all) != 2*conns {
			t.Errorf("%d connections", len(all))
		}
		for _, c := range all {
			if st, ok := c.TLS(); c.p != nil || c.SendsFiles() || !ok || !st.HandshakeComplete {
				t.Fatalf("portable %v, files %v, TLS %v", c.p != nil, c.SendsFiles(), ok)
			}
		}
	})
	until(t, "the handshakes' goroutines have gone", func() bool { return runtime.NumGoroutine() <= before })
}

// A client that lets its server ask for another handshake is served by goroutines, as a handshake waits.
func TestTLSRenegotiation(t *testing.T) {
	cfg := testcert.New(t, "authority").TLS(t, "node")
	cfg.Renegotiation, cfg.MaxVersion = tls.RenegotiateOnceAsClient, tls.VersionTLS12
	l := newLoop(t, LoopConfig{})
	addr := listenTLS(t, l, TLS{Config: cfg}, echo)
	answered := newOnce()
	c, err := l.DialTLS(t.Context(), "tcp", addr.String(), TLS{Config: cfg}, &funcs{
		open: func(c *Conn) { c.Stage(1) },
		read: func(*Conn, []byte) error { answered.done(); return nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	wait(t, answered.c, "answer")
	if c.p == nil {
		t.Error("it is served by the loop")
	}
}

// A loop that is closed while connections were dialled but not attached.
func TestTLSClosedBeforeAttach(t *testing.T) {
	cfg := testcert.New(t, "authority").TLS(t, "node")
	server := newLoop(t, LoopConfig{})
	ended := make(chan error, 1)
	addr := listenTLS(t, server, TLS{Config: cfg}, func(*Conn) Handler {
		return &funcs{close: func(_ *Conn, err error) { ended <- err }}
	})
	l := newLoop(t, LoopConfig{Standby: -1}) // nobody runs turns
	closed := newOnce()
	c, err := l.DialTLS(t.Context(), "tcp", addr.String(), TLS{Config: cfg}, &funcs{close: func(_ *Conn, err error) {
		if !errors.Is(err, ErrClosed) {
			t.Error(err)
		}
		closed.done()
	}})
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	wait(t, closed.c, "OnClose")
	if err := <-ended; err != nil || c.sys.fd >= 0 {
		t.Errorf("the peer's connection ended with %v, ours has descriptor %d", err, c.sys.fd)
	}
}

// records makes records of TLS 1.3 as a client does, of those that crypto/tls does not.
type records struct {
	t      testing.TB
	nc     net.Conn
	secret []byte
	seq    uint64
}

// secrets catches the secret of a client's application data.
type secrets struct{ client []byte }

func (s *secrets) Write(line []byte) (int, error) {
	if f := strings.Fields(string(line)); len(f) == 3 && f[0] == "CLIENT_TRAFFIC_SECRET_0" {
		s.client, _ = hex.DecodeString(f[2])
	}
	return len(line), nil
}

// expand is HKDF-Expand-Label of RFC 8446, section 7.1.
func (r *records) expand(label string, n int) []byte {
	label = "tls13 " + label
	info := binary.BigEndian.AppendUint16(nil, uint16(n))
	info = append(append(append(info, byte(len(label))), label...), 0)
	p, err := hkdf.Expand(sha256.New, r.secret, string(info), n)
	if err != nil {
		r.t.Fatal(err)
	}
	return p
}

// seal appends a record to p.
func (r *records) seal(p []byte, typ byte, data []byte) []byte {
	block, err := aes.NewCipher(r.expand("key", 16))
	if err != nil {
		r.t.Fatal(err)
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		r.t.Fatal(err)
	}
	nonce := r.expand("iv", 12)
	seq := binary.BigEndian.AppendUint64(nil, r.seq)
	for i := range seq {
		nonce[4+i] ^= seq[i]
	}
	r.seq++
	head := []byte{23, 3, 3}
	head = binary.BigEndian.AppendUint16(head, uint16(len(data)+1+aead.Overhead()))
	return append(append(p, head...), aead.Seal(nil, nonce, append(slices.Clone(data), typ), head)...)
}

// update appends a key update that asks for the peer's.
func (r *records) update(p []byte) []byte {
	p = r.seal(p, 22, []byte{24, 0, 0, 1, 1})
	r.secret, r.seq = r.expand("traffic upd", sha256.Size), 0
	return p
}

func newRecords(t testing.TB, l *Loop, h Handler) (*tls.Conn, *Conn, *records) {
	cfg := testcert.New(t, "authority").TLS(t, "node")
	s := new(secrets)
	cfg.KeyLogWriter = s // of both ends: the same secret
	cfg.MinVersion = tls.VersionTLS13
	tc, c := tlsPeer(t, l, cfg, h)
	if st := tc.ConnectionState(); st.CipherSuite != tls.TLS_AES_128_GCM_SHA256 {
		t.Skipf("the cipher suite is %x", st.CipherSuite)
	}
	return tc, c, &records{t: t, nc: tc.NetConn(), secret: s.client}
}

// A peer changes its keys and asks us to: the answer goes out before anything under the new key, also when nothing else is sent; a key
// update may come in two records.
func TestTLSKeyUpdate(t *testing.T) {
	l := newLoop(t, LoopConfig{})
	tc, c, r := newRecords(t, l, echo(nil))
	var p []byte
	for i := range 10 {
		p = r.seal(p, 23, fmt.Appendf(nil, "before %d;", i))
		p = r.update(p)
		p = r.seal(p, 23, fmt.Appendf(nil, "after %d;", i))
	}
	p = r.seal(r.seal(p, 22, []byte{24, 0}), 22, []byte{0, 1, 1})
	r.secret, r.seq = r.expand("traffic upd", sha256.Size), 0
	p = r.seal(p, 23, []byte("the end"))
	for len(p) > 0 { // in pieces
		n := min(37, len(p))
		if _, err := r.nc.Write(p[:n]); err != nil {
			t.Fatal(err)
		}
		p = p[n:]
	}
	var want string
	for i := range 10 {
		want += fmt.Sprintf("before %d;after %d;", i, i)
	}
	want += "the end"
	got := make([]byte, len(want))
	if _, err := io.ReadFull(tc, got); err != nil || string(got) != want {
		t.Fatalf("%q, %v", got, err)
	}
	// With nothing else to send.
	written := stats(t, l).WriteBytes
	if _, err := r.nc.Write(r.update(nil)); err != nil {
		t.Fatal(err)
	}
	until(t, "an answer", func() bool { return stats(t, l).WriteBytes > written })
	inTurn(t, l, func() {
		if c.sys.tls.out != nil {
			t.Error("staging is held")
		}
	})
}

// A peer that asks for new keys all the time and does not fetch the answers: they do not pile up.
func TestTLSKeyUpdateFlood(t *testing.T) {
	l := newLoop(t, LoopConfig{Socket: SocketOptions{SendBuffer: 32 << 10}})
	got := 0
	_, c, r := newRecords(t, l, &funcs{read: func(_ *Conn, p []byte) error { got += len(p); return nil }})
	sent, rest := 0, []byte(nil)
	choked := func() (ok bool) {
		inTurn(t, l, func() { ok = c.blocked && c.sys.tls.choked() })
		return ok
	}
	for end := time.Now().Add(hang); ; {
		p := rest
		for range 100 {
			for range 10 { // crypto/tls allows 16 without data
				p = r.update(p)
			}
			p = r.seal(p, 23, []byte{1})
			sent++
		}
		_ = r.nc.SetWriteDeadline(time.Now().Add(100 * time.Millisecond))
		n, err := r.nc.Write(p)
		if rest = p[n:]; err != nil && choked() { // not merely slow
			break
		}
		if time.Now().After(end) {
			t.Fatal("the connection reads for ever")
		}
	}
	inTurn(t, l, func() {
		if k := c.sys.tls; !c.blocked || !k.choked() || k.sealed() > sealSpace+2*repliesMax || c.sys.mask != unix.EPOLLOUT {
			t.Errorf("blocked %v, %d bytes of answers, mask %x", c.blocked, k.sealed(), c.sys.mask)
		}
	})
	quiet(t, l, "while the socket is full")
	// It fetches them after all.
	_ = r.nc.SetDeadline(time.Now().Add(hang))
	drained := newOnce()
	go func() {
		_, _ = io.Copy(io.Discard, r.nc)
		drained.done()
	}()
	if _, err := r.nc.Write(rest); err != nil {
		t.Error(err)
	}
	until(t, "all is read", func() (ok bool) {
		inTurn(t, l, func() { ok = got == sent && !c.blocked && c.sys.tls.out == nil })
		return ok
	})
	_ = r.nc.Close()
	wait(t, drained.c, "the end")
}
