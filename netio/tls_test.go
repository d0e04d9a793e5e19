package netio

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirflow/weir/internal/testcert"
)

// reports collects what a loop reports.
type reports struct {
	mu   sync.Mutex
	list []error
	more chan struct{}
}

func newReports() *reports { return &reports{more: make(chan struct{}, 1)} }

func (r *reports) add(err error) {
	r.mu.Lock()
	r.list = append(r.list, err)
	r.mu.Unlock()
	select {
	case r.more <- struct{}{}:
	default:
	}
}

// await waits until n reports are matched and returns them.
func (r *reports) await(t testing.TB, n int, match func(error) bool) []error {
	t.Helper()
	end := time.After(hang)
	for {
		var found []error
		r.mu.Lock()
		for _, err := range r.list {
			if match(err) {
				found = append(found, err)
			}
		}
		all := fmt.Sprint(r.list)
		r.mu.Unlock()
		if len(found) >= n {
			return found
		}
		select {
		case <-r.more:
		case <-end:
			t.Fatalf("%d of %d reports; all are %s", len(found), n, all)
		}
	}
}

func handshakeOf(nc net.Conn) func(error) bool {
	return func(err error) bool {
		var h *HandshakeError
		return errors.As(err, &h) && h.Peer == nc.LocalAddr().String()
	}
}

func tlsLoop(t testing.TB) (*Loop, *reports) {
	r := newReports()
	return newLoop(t, LoopConfig{OnError: r.add}), r
}

func listenTLS(t testing.TB, l *Loop, o TLS, accept func(*Conn) Handler) net.Addr {
	t.Helper()
	addr, err := l.ListenTLS("tcp", "127.0.0.1:0", o, accept)
	if err != nil {
		t.Fatal(err)
	}
	return addr
}

// stats reads the counters.
func stats(t testing.TB, l *Loop) (s Stats) {
	t.Helper()
	inTurn(t, l, func() { s = l.Stats() })
	return s
}

func TestTLSExchange(t *testing.T) {
	cfg := testcert.New(t, "authority").TLS(t, "node")
	for name, version := range map[string]uint16{"1.2": tls.VersionTLS12, "1.3": tls.VersionTLS13} {
		t.Run(name, func(t *testing.T) {
			cfg := cfg.Clone()
			cfg.MinVersion, cfg.MaxVersion = version, version
			eachMode(t, func(t *testing.T, l *Loop) {
				const total = 3 << 20
				ended := make(chan error, 2)
				addr := listenTLS(t, l, TLS{Config: cfg}, func(c *Conn) Handler {
					if st, ok := c.TLS(); !ok || st.Version != version || len(st.PeerCertificates) != 1 {
						t.Errorf("accepted with %v, version %x, %d certificates", ok, st.Version, len(st.PeerCertificates))
					}
					got := 0
					return &funcs{
						read: func(_ *Conn, p []byte) error {
							if at := checkPattern(p, got); at >= 0 {
								return fmt.Errorf("byte %d is wrong", at)
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
					}
				})
				s := &bulkSender{total: total}
				s.close = func(_ *Conn, err error) { ended <- err }
				if !l.DialTLSFunc(t.Context(), "tcp", addr.String(), TLS{Config: cfg}, s, func(_ *Conn, err error) {
					if err != nil {
						ended <- err
					}
				}) {
					t.Fatal("dial refused")
				}
				for range 2 {
					select {
					case err := <-ended:
						if err != nil {
							t.Error(err)
						}
					case <-time.After(hang):
						t.Fatal("connections do not end")
					}
				}
				if st := stats(t, l); st.Handshakes != 1 || st.HalfOpen != 0 {
					t.Errorf("%d handshakes, %d half open", st.Handshakes, st.HalfOpen)
				}
			})
		})
	}
}

// A peer that says nothing, or a byte now and then, is cut off in time; the loop does not notice meanwhile.
func TestTLSDeadline(t *testing.T) {
	ca := testcert.New(t, "authority")
	l, r := tlsLoop(t)
	addr := listenTLS(t, l, TLS{Config: ca.TLS(t, "node"), Handshake: 300 * time.Millisecond}, echo)
	silent, slow := dialNet(t, addr), dialNet(t, addr)
	stop := make(chan struct{})
	go func() {
		defer close(stop)
		hello := []byte{22, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3}
		for i := 0; ; i++ { // until the server closes
			b := byte(0)
			if i < len(hello) {
				b = hello[i]
			}
			if _, err := slow.Write([]byte{b}); err != nil {
				return
			}
			time.Sleep(5 * time.Millisecond)
		}
	}()
	plain := dialNet(t, listen(t, l, echo))
	until(t, "both are at it", func() bool { // or are cut off already
		st := stats(t, l)
		return st.HalfOpen+int(st.HandshakesFailed) == 2
	})
	for range 20 {
		if _, err := plain.Write([]byte{1}); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(plain, make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
	}
	for _, nc := range []net.Conn{silent, slow} {
		if err := r.await(t, 1, handshakeOf(nc))[0]; !errors.Is(err, ErrHandshakeTimeout) {
			t.Errorf("report: %v", err)
		}
	}
	if _, err := silent.Read(make([]byte, 1)); err == nil {
		t.Error("the silent peer's connection is still open")
	}
	<-stop
	if st := stats(t, l); st.HalfOpen != 0 || st.HandshakesFailed != 2 || st.Accepted != 1 {
		t.Errorf("%+v", st)
	}
}

// No more than the allowed number is at it at once, which is reported; who waits gets its turn.
func TestTLSHalfOpenBound(t *testing.T) {
	const bound, silent = 4, 12
	begin := time.Now()
	cfg := testcert.New(t, "authority").TLS(t, "node")
	l, r := tlsLoop(t)
	addr := listenTLS(t, l, TLS{Config: cfg, Handshake: hang, HalfOpen: bound}, echo)
	var silents []net.Conn
	for range silent {
		silents = append(silents, dialNet(t, addr))
	}
	until(t, "full", func() bool {
		n := stats(t, l).HalfOpen
		if n > bound {
			t.Fatalf("%d half open, allowed are %d", n, bound)
		}
		return n == bound
	})
	err := r.await(t, 1, func(err error) bool { return errors.Is(err, ErrHalfOpen) })[0]
	if a := (*AcceptError)(nil); !errors.As(err, &a) || a.Addr != addr.String() || !strings.Contains(err.Error(), "4") {
		t.Errorf("report: %v", err)
	}
	nc := dialNet(t, addr)
	for _, c := range silents {
		_ = c.Close()
	}
	tc := tls.Client(nc, &tls.Config{RootCAs: cfg.RootCAs, Certificates: cfg.Certificates, ServerName: "localhost"})
	p := make([]byte, 1)
	if _, err := tc.Write([]byte{7}); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(tc, p); err != nil || p[0] != 7 {
		t.Errorf("who waited got %d, %v", p[0], err)
	}
	if st := stats(t, l); st.HandshakesFailed < silent-bound || st.Handshakes < 1 {
		t.Errorf("%+v", st)
	}
	n := len(r.await(t, 0, func(err error) bool { return errors.Is(err, ErrHalfOpen) }))
	if n > 2+int(time.Since(begin)/time.Second) {
		t.Errorf("the bound was reported %d times", n)
	}
}

// Closing the listener, or the loop, ends handshakes that are under way, at once.
func TestTLSCloseWithHalfOpen(t *testing.T) {
	cfg := testcert.New(t, "authority").TLS(t, "node")
	for _, name := range []string{"listener", "loop"} {
		t.Run(name, func(t *testing.T) {
			l, _ := tlsLoop(t)
			addr := listenTLS(t, l, TLS{Config: cfg, HalfOpen: 16, Handshake: time.Hour}, echo)
			var silent []net.Conn
			for range 30 {
				silent = append(silent, dialNet(t, addr))
			}
			until(t, "half open", func() bool { return stats(t, l).HalfOpen == 16 })
			if name == "listener" {
				l.CloseListener(addr)
			} else if err := l.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
			for _, nc := range silent {
				if _, err := nc.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
					t.Fatalf("still open: %v", err)
				}
			}
		})
	}
}

// A peer without TLS gets an alert, and the report says what it is; a server without TLS makes the dial fail.
func TestTLSPlainPeer(t *testing.T) {
	cfg := testcert.New(t, "authority").TLS(t, "node")
	l, r := tlsLoop(t)
	nc := dialNet(t, listenTLS(t, l, TLS{Config: cfg}, echo))
	if _, err := nc.Write([]byte{0, 0, 0, 80, 0xba, 0xdc, 0x0f, 0xfe, 2, 0, 0}); err != nil {
		t.Fatal(err)
	}
	p, err := io.ReadAll(nc)
	if err != nil || !LooksLikeTLS(p) {
		t.Errorf("the plain peer got % x, %v", p, err)
	}
	if err := r.await(t, 1, handshakeOf(nc))[0]; !errors.Is(err, ErrNotTLS) {
		t.Errorf("report: %v", err)
	}
	addr := listen(t, l, func(c *Conn) Handler {
		return &funcs{read: func(c *Conn, p []byte) error {
			if !LooksLikeTLS(p) {
				t.Errorf("a handshake begins with % x", p[:min(8, len(p))])
			}
			_, _ = c.Write([]byte{0, 0, 0, 80, 0xba, 0xdc, 0x0f, 0xfe, 1})
			return nil
		}}
	})
	_, err = newLoop(t, LoopConfig{}).DialTLS(t.Context(), "tcp", addr.String(), TLS{Config: cfg}, &funcs{})
	if h := (*HandshakeError)(nil); !errors.As(err, &h) || h.Peer != addr.String() || !errors.Is(err, ErrNotTLS) || !h.Final() {
		t.Errorf("dial: %v", err)
	}
}

// A server that says nothing does not hold up a dial for ever.
func TestTLSDialDeadline(t *testing.T) {
	cfg := testcert.New(t, "authority").TLS(t, "node")
	nl, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer nl.Close()
	l := newLoop(t, LoopConfig{})
	_, err = l.DialTLS(t.Context(), "tcp", nl.Addr().String(), TLS{Config: cfg, Handshake: 50 * time.Millisecond}, &funcs{})
	if h := (*HandshakeError)(nil); !errors.As(err, &h) || !errors.Is(err, ErrHandshakeTimeout) || h.Final() {
		t.Error(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err = l.DialTLS(ctx, "tcp", nl.Addr().String(), TLS{Config: cfg}, &funcs{})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
}

// Both ends learn why a certificate was refused, whatever the version, and not just that the connection was reset.
func TestTLSRefusedCertificate(t *testing.T) {
	ca, other := testcert.New(t, "authority"), testcert.New(t, "other")
	cfg := ca.TLS(t, "node")
	for name, version := range map[string]uint16{"1.2": tls.VersionTLS12, "1.3": tls.VersionTLS13} {
		t.Run(name, func(t *testing.T) {
			l, r := tlsLoop(t)
			addr := listenTLS(t, l, TLS{Config: cfg}, echo)
			// The server's, by the client.
			client := &tls.Config{Certificates: cfg.Certificates, RootCAs: other.Pool(), MinVersion: version, MaxVersion: version}
			_, err := l.DialTLS(t.Context(), "tcp", addr.String(), TLS{Config: client}, &funcs{})
			var unknown *tls.CertificateVerificationError
			if h := (*HandshakeError)(nil); !errors.As(err, &h) || !errors.As(err, &unknown) || !h.Final() {
				t.Errorf("dial: %v", err)
			}
			bad := func(err error) bool { return strings.Contains(err.Error(), "remote error: tls: ") }
			r.await(t, 1, bad)
			// The client's, by the server. With TLS 1.3 the client's handshake is through by then.
			client.RootCAs, client.Certificates = ca.Pool(), nil
			client.ServerName = "localhost"
			tc := tls.Client(dialNet(t, addr), client)
			_, err = tc.Write(make([]byte, 1000))
			if err == nil {
				_, err = tc.Read(make([]byte, 1))
			}
			if err == nil || !strings.Contains(err.Error(), "remote error: tls: ") {
				t.Errorf("client: %v", err)
			}
			r.await(t, 1, func(err error) bool { return strings.Contains(err.Error(), "client didn't provide a certificate") })
		})
	}
}

// An orderly end is announced (close_notify), and a connection that breaks off within a record is not taken for one.
func TestTLSEnds(t *testing.T) {
	cfg := testcert.New(t, "authority").TLS(t, "node")
	client := cfg.Clone()
	client.ServerName = "localhost"
	for name, end := range map[string]func(*Conn){
		"CloseAfterFlush": func(c *Conn) { c.CloseAfterFlush(hang) },
		"CloseWrite":      func(c *Conn) { c.CloseWrite() },
		"Close":           func(c *Conn) { c.WantFlush() }, // see below
	} {
		t.Run(name, func(t *testing.T) {
			l, _ := tlsLoop(t)
			ended := make(chan error, 1)
			addr := listenTLS(t, l, TLS{Config: cfg}, func(c *Conn) Handler {
				if name == "Close" {
					c.Close(nil) // refused within accept: nothing is sent but the end
					return nil
				}
				_, _ = c.Write([]byte("all"))
				end(c)
				return &funcs{close: func(_ *Conn, err error) { ended <- err }}
			})
			tc := tls.Client(dialNet(t, addr), client.Clone())
			p, err := io.ReadAll(tc)
			if err != nil || name != "Close" && string(p) != "all" {
				t.Fatalf("%q, %v", p, err)
			}
			_ = tc.Close()
			if name == "Close" {
				return
			}
			select {
			case err := <-ended:
				if err != nil {
					t.Error(err)
				}
			case <-time.After(hang):
				t.Fatal("no OnClose")
			}
		})
	}
	t.Run("cut", func(t *testing.T) {
		l, _ := tlsLoop(t)
		ended := make(chan error, 1)
		addr := listenTLS(t, l, TLS{Config: cfg}, func(*Conn) Handler {
			return &funcs{close: func(_ *Conn, err error) { ended <- err }}
		})
		tc := tls.Client(dialNet(t, addr), client.Clone())
		if err := tc.Handshake(); err != nil {
			t.Fatal(err)
		}
		_, _ = tc.NetConn().Write([]byte{23, 3, 3, 0, 99, 1, 2, 3})
		_ = tc.NetConn().Close()
		select {
		case err := <-ended:
			if !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("a connection that was cut within a record ended with %v", err)
			}
		case <-time.After(hang):
			t.Fatal("no OnClose")
		}
	})
}

// stuckEnd is a connection whose end of stream cannot be sent for the moment.
type stuckEnd struct {
	net.Conn
	free chan struct{}
}

func (s *stuckEnd) CloseWrite() error { <-s.free; return os.ErrDeadlineExceeded }

// SetDeadline ends it, as on a socket.
func (s *stuckEnd) SetDeadline(t time.Time) error { close(s.free); return s.Conn.SetDeadline(t) }

// Sending the end of stream may block, as TLS writes something. The loop goes on, and the limit holds.
func TestEndOfStreamBlocksNoTurn(t *testing.T) {
	l := newLoop(t, LoopConfig{})
	a, b := net.Pipe()
	defer b.Close()
	s := &stuckEnd{Conn: a, free: make(chan struct{})}
	ended := make(chan error, 1)
	c, err := l.Adopt(s, &funcs{
		open:  func(c *Conn) { c.CloseWrite() },
		close: func(_ *Conn, err error) { ended <- err },
	})
	if err != nil {
		t.Fatal(err)
	}
	until(t, "the end of stream is under way", func() (is bool) {
		inTurn(t, l, func() { is = c.wasShut && c.shutting() })
		return is
	})
	inTurn(t, l, func() { c.CloseAfterFlush(100 * time.Millisecond) })
	for range 10 {
		inTurn(t, l, func() {})
	}
	select {
	case err := <-ended:
		if !errors.Is(err, ErrFlushTimeout) {
			t.Error(err)
		}
	case <-time.After(hang):
		t.Fatal("no OnClose")
	}
}

func TestTLSReportsAreBounded(t *testing.T) {
	l, r := tlsLoop(t)
	addr := listenTLS(t, l, TLS{Config: testcert.New(t, "authority").TLS(t, "node")}, echo)
	const peers = 5 * handshakeReports
	begin := time.Now()
	for range peers {
		nc := dialNet(t, addr)
		_ = nc.Close()
	}
	until(t, "all failed", func() bool { return stats(t, l).HandshakesFailed == peers })
	r.mu.Lock()
	defer r.mu.Unlock()
	if n := len(r.list); n < handshakeReports || n > handshakeReports*(2+int(time.Since(begin)/time.Second)) {
		t.Errorf("%d failures gave %d reports", peers, n)
	}
}

func TestListenTLSWithoutConfig(t *testing.T) {
	if _, err := newLoop(t, LoopConfig{}).ListenTLS("tcp", "127.0.0.1:0", TLS{}, echo); err == nil {
		t.Error("accepted")
	}
}
