package netio

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
	"time"
)

// Defaults and limits of TLS.
const (
	// DefaultHandshake bounds a TLS handshake, as Netty does in Flink.
	DefaultHandshake = 10 * time.Second
	// DefaultHalfOpen is how many accepted connections of a listener may be in their handshake at once.
	DefaultHalfOpen = 128

	// alertLinger is how long a peer whose handshake failed may take to fetch the reason: closing with unread input would
	// reset the connection, and the alert would be lost.
	alertLinger = 250 * time.Millisecond
	// goodbyeLimit bounds the close_notify of a connection that is cut off while its socket is full.
	goodbyeLimit = time.Second
	// handshakeReports is how many failed handshakes a listener reports in a second; the others are counted.
	handshakeReports = 16
)

var (
	// ErrNotTLS: the peer does not speak TLS.
	ErrNotTLS = errors.New("netio: the peer does not speak TLS")
	// ErrHandshakeTimeout: the handshake was not through in time, for instance since the peer said nothing.
	ErrHandshakeTimeout = errors.New("netio: TLS handshake not finished in time")
	// ErrHalfOpen: as many handshakes are under way as the listener allows; other peers wait.
	ErrHalfOpen = errors.New("netio: limit of unfinished TLS handshakes reached")
)

// TLS says how a listener or a dial secures connections.
type TLS struct {
	// Config is used as it is, and must not be changed meanwhile. For a dial without ServerName it is the host of the address.
	Config *tls.Config
	// Handshake bounds the handshake; 0 means DefaultHandshake.
	Handshake time.Duration
	// HalfOpen bounds how many accepted connections of a listener may be in their handshake; 0 means DefaultHalfOpen.
	HalfOpen int
}

func (t TLS) withDefaults() TLS {
	if t.Handshake <= 0 {
		t.Handshake = DefaultHandshake
	}
	if t.HalfOpen <= 0 {
		t.HalfOpen = DefaultHalfOpen
	}
	return t
}

// HandshakeError says why there is no TLS connection with a peer.
type HandshakeError struct {
	// Peer is the address of the other end.
	Peer string
	// Err is what happened.
	Err error
	// More is how many other failures a listener did not report before this one.
	More int
}

// Error names the peer.
func (e *HandshakeError) Error() string {
	if e.More > 0 {
		return fmt.Sprintf("netio: TLS handshake with %s: %v (%d more failed before)", e.Peer, e.Err, e.More)
	}
	return fmt.Sprintf("netio: TLS handshake with %s: %v", e.Peer, e.Err)
}

// Unwrap returns the cause.
func (e *HandshakeError) Unwrap() error { return e.Err }

// Final tells whether another attempt would fail alike: a certificate was refused, or the peer does not speak TLS. Otherwise the
// connection was lost or the time was up.
func (e *HandshakeError) Final() bool {
	var op *net.OpError
	switch {
	case errors.As(e.Err, &op) && (op.Op == "remote error" || op.Op == "local error"): // an alert
		return true
	case op != nil, errors.Is(e.Err, ErrHandshakeTimeout), errors.Is(e.Err, ErrClosed), errors.Is(e.Err, context.Canceled),
		errors.Is(e.Err, context.DeadlineExceeded), errors.Is(e.Err, io.EOF), errors.Is(e.Err, io.ErrUnexpectedEOF),
		errors.Is(e.Err, net.ErrClosed), errors.Is(e.Err, syscall.ECONNRESET), errors.Is(e.Err, syscall.EPIPE):
		return false
	}
	return true
}

// shake does the handshake of tc, within t's limit and ctx. If it fails, tc is closed. It blocks: never in a turn.
func (t *TLS) shake(ctx context.Context, tc *tls.Conn, peer string) error {
	limited, cancel := context.WithTimeout(ctx, t.Handshake)
	defer cancel()
	err := tc.HandshakeContext(limited)
	if err == nil {
		if b, ok := tc.NetConn().(*buffered); ok {
			b.grow()
		}
		return nil
	}
	var notTLS tls.RecordHeaderError
	switch {
	case errors.As(err, &notTLS):
		err = fmt.Errorf("%w: it begins with % x", ErrNotTLS, notTLS.RecordHeader)
		if notTLS.Conn != nil { // a server's: the peer has got nothing yet
			_ = notTLS.Conn.SetWriteDeadline(time.Now().Add(alertLinger))
			_, _ = notTLS.Conn.Write(notTLSAlert[:])
		}
		linger(ctx, tc.NetConn())
	case ctx.Err() == context.Canceled:
		err = ctx.Err()
	case ctx.Err() != nil:
		err = fmt.Errorf("%w: %w", ErrHandshakeTimeout, ctx.Err())
	case limited.Err() != nil:
		err = fmt.Errorf("%w, %v", ErrHandshakeTimeout, t.Handshake)
	case errors.Is(err, io.EOF):
		err = fmt.Errorf("the peer closed the connection: %w", err)
	default:
		linger(ctx, tc.NetConn())
	}
	_ = tc.NetConn().Close()
	return &HandshakeError{Peer: peer, Err: err}
}

// notTLSAlert tells a peer that does not speak TLS who it talks to: the record of a fatal alert "unexpected message".
var notTLSAlert = [...]byte{21, 3, 3, 0, 2, 2, 10}

// linger lets the peer fetch the alert before the connection is closed.
func linger(ctx context.Context, nc net.Conn) {
	cw, ok := nc.(interface{ CloseWrite() error })
	if !ok || cw.CloseWrite() != nil {
		return
	}
	defer context.AfterFunc(ctx, func() { _ = nc.Close() })()
	if nc.SetReadDeadline(time.Now().Add(alertLinger)) == nil {
		_, _ = io.CopyN(io.Discard, nc, portableChunk)
	}
}

// LooksLikeTLS tells whether the first bytes of a stream are those of a TLS record: a handshake or an alert.
func LooksLikeTLS(p []byte) bool {
	return len(p) > 0 && (p[0] == 22 || p[0] == 21) && (len(p) == 1 || p[1] == 3)
}

// DialTLS is Dial with a TLS handshake, which ctx and t bound. A failed one is a *HandshakeError. After it the connection runs on the
// loop like a plain one. On other systems than Linux, or if tls.Config.Renegotiation allows another handshake, two goroutines serve
// it, see Adopt.
func (l *Loop) DialTLS(ctx context.Context, network, addr string, t TLS, h Handler) (*Conn, error) {
	return l.dial(ctx, network, addr, &t, h)
}

// DialTLSFunc is DialTLS for those that must not wait, as DialFunc is Dial.
func (l *Loop) DialTLSFunc(ctx context.Context, network, addr string, t TLS, h Handler, done func(*Conn, error)) bool {
	return l.dialFunc(ctx, network, addr, &t, h, done)
}

// client makes a TLS client of nc, which it closes if that fails.
func (t TLS) client(ctx context.Context, nc net.Conn, addr string) (net.Conn, error) {
	t = t.withDefaults()
	cfg := t.Config
	if cfg == nil {
		cfg = new(tls.Config)
	}
	if cfg.ServerName == "" {
		host, _, err := net.SplitHostPort(addr)
		if err == nil {
			cfg = cfg.Clone()
			cfg.ServerName = host
		}
	}
	tc := tls.Client(newUnderTLS(nc, cfg.Renegotiation != tls.RenegotiateNever), cfg)
	if err := t.shake(ctx, tc, addr); err != nil {
		return nil, err
	}
	return tc, nil
}

// TLS returns what was agreed with the peer; false: the connection is not secured, or was adopted before its handshake. Any
// goroutine.
func (c *Conn) TLS() (tls.ConnectionState, bool) {
	if c.agreed == nil {
		return tls.ConnectionState{}, false
	}
	return *c.agreed, true
}

// agreement is asked for before the connection is served, as it may have to wait for a reader later.
func agreement(nc net.Conn) *tls.ConnectionState {
	if tc, ok := nc.(*tls.Conn); ok {
		if st := tc.ConnectionState(); st.HandshakeComplete {
			return &st
		}
	}
	return nil
}
