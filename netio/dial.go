package netio

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"
)

// Dial connects to addr and registers the connection with the loop. It waits for the connection, at most until ctx is done,
// and fails with the remote address and the cause in the text; the error is ctx's then. network is "tcp", "tcp4", "tcp6" or
// "unix". h gets its first calls in one of the loop's next turns. Any goroutine that does not hold the token, so not for
// handlers: they use DialFunc.
func (l *Loop) Dial(ctx context.Context, network, addr string, h Handler) (*Conn, error) {
	return l.dial(ctx, network, addr, nil, h)
}

// dial connects, with TLS if t is not nil.
func (l *Loop) dial(ctx context.Context, network, addr string, t *TLS, h Handler) (*Conn, error) {
	if l.Closed() {
		return nil, ErrClosed
	}
	if ctx == nil {
		ctx = context.Background()
	}
	limit := ctx
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(l.ctx, cancel)()
	d := net.Dialer{KeepAlive: -1, Control: l.control} // keep-alive is among our own options
	nc, err := d.DialContext(ctx, network, addr)
	if err != nil {
		return nil, l.dialError(limit, err)
	}
	if t != nil {
		setOptions(nc, l.cfg.Socket)
		if nc, err = t.client(ctx, nc, addr); err != nil {
			return nil, l.dialError(limit, err)
		}
	}
	return l.Adopt(nc, h)
}

// dialError adds why a dial ended early: package net has its own words for it, and may notice a deadline before ctx does.
func (l *Loop) dialError(ctx context.Context, err error) error {
	cause := ctx.Err()
	if at, ok := ctx.Deadline(); ok && cause == nil && !time.Now().Before(at) {
		cause = context.DeadlineExceeded
	}
	if l.Closed() {
		cause = ErrClosed
	}
	if cause == nil || errors.Is(err, cause) {
		return err
	}
	return fmt.Errorf("%w (%w)", err, cause)
}

// DialFunc is Dial for those that must not wait: done is called in one of the loop's turns, also if the loop is closed
// meanwhile. It reports false, and done is not called, if the loop is closed already. Any goroutine.
func (l *Loop) DialFunc(ctx context.Context, network, addr string, h Handler, done func(*Conn, error)) bool {
	return l.dialFunc(ctx, network, addr, nil, h, done)
}

func (l *Loop) dialFunc(ctx context.Context, network, addr string, t *TLS, h Handler, done func(*Conn, error)) bool {
	l.inbox.mu.Lock()
	defer l.inbox.mu.Unlock()
	if l.Closed() {
		return false
	}
	l.workers.Add(1)
	l.dials.Add(1)
	go func() {
		defer l.workers.Done()
		c, err := l.dial(ctx, network, addr, t, h)
		l.inbox.put(call(func() {
			l.dials.Add(-1)
			done(c, err)
		}))
		l.nudge()
	}()
	return true
}

// call is a function in the inbox.
type call func()

func (f call) attend() { f() }

// Adopt takes a connection over and registers it with the loop; h gets its first calls in one of the loop's next turns. On
// Linux, a *net.TCPConn or *net.UnixConn becomes a socket of the loop's own: nc is closed and its descriptor duplicated. Any
// other connection (a pipe, a *tls.Conn) is served by two goroutines of its own that post to the loop; it is closed with the Conn.
// If Adopt fails nc is closed. A *tls.Conn whose handshake is not through does it there, without a limit: see DialTLS and
// ListenTLS, which need no goroutines on Linux. Any goroutine.
func (l *Loop) Adopt(nc net.Conn, h Handler) (*Conn, error) {
	if l.Closed() {
		_ = nc.Close()
		return nil, ErrClosed
	}
	c := l.newConn(nc.LocalAddr().Network(), nc.LocalAddr(), nc.RemoteAddr(), h)
	c.agreed = agreement(nc)
	native, err := c.sysAdopt(nc)
	if err != nil {
		_ = nc.Close()
		return nil, err
	}
	if !native {
		c.p = newPortable(c, nc)
		setOptions(nc, l.cfg.Socket)
	}
	if !c.notify(attnAttach) {
		if native {
			c.sysClose()
		}
		closeLimited(nc) // again, unless it is TLS or served by goroutines
		return nil, ErrClosed
	}
	l.nudge()
	return c, nil
}

// setOptions applies the options that package net knows.
func setOptions(nc net.Conn, o SocketOptions) {
	c, ok := nc.(*net.TCPConn)
	if !ok {
		return
	}
	_ = c.SetNoDelay(true)
	if o.KeepAlive < 0 {
		_ = c.SetKeepAlive(false)
	} else {
		_ = c.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Idle: o.KeepAlive, Interval: o.KeepAlive})
	}
	if o.SendBuffer > 0 {
		_ = c.SetWriteBuffer(o.SendBuffer)
	}
	if o.RecvBuffer > 0 {
		_ = c.SetReadBuffer(o.RecvBuffer)
	}
}
