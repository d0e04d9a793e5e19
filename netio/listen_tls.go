package netio

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"time"
)

// ListenTLS is Listen for connections that speak TLS. Each accepted one does its handshake in a goroutine of its own, never on the
// loop, within t.Handshake, and is registered and passed to accept when that is through. While t.HalfOpen of them are at it no
// other is served: it waits, and LoopConfig.OnError gets an *AcceptError with ErrHalfOpen, at most once a second. Failed
// handshakes are reported as *HandshakeError with the peer's address, a bounded number a second. A closed listener ends the
// handshakes that are under way.
//
// On Linux connections run on the loop after their handshake, like plain ones; elsewhere two goroutines serve each, see Adopt.
func (l *Loop) ListenTLS(network, addr string, t TLS, accept func(*Conn) Handler) (net.Addr, error) {
	if t.Config == nil {
		return nil, errors.New("netio: listening with TLS needs a configuration")
	}
	return l.listen(network, addr, &t, accept)
}

// tlsAcceptor accepts and does handshakes for a listener.
type tlsAcceptor struct {
	TLS
	a      *listener
	nl     net.Listener
	ctx    context.Context // done when the listener closes
	cancel context.CancelFunc
	slots  chan struct{} // one in it for each half-open connection
	told   atomic.Bool   // an AcceptError is on its way

	// The token holder's.
	second   time.Duration // when reports began to be counted
	reported int           // since then
	more     int           // not reported
}

func newTLSAcceptor(a *listener, nl net.Listener, t TLS) *tlsAcceptor {
	k := &tlsAcceptor{TLS: t.withDefaults(), a: a, nl: nl}
	k.slots = make(chan struct{}, k.HalfOpen)
	k.ctx, k.cancel = context.WithCancel(a.l.ctx)
	return k
}

// start begins to accept. Holder of the token.
func (k *tlsAcceptor) start() {
	k.a.l.workers.Add(1)
	go k.run()
}

// close ends everything but the connections. Holder of the token.
func (k *tlsAcceptor) close() {
	k.cancel()
	_ = k.nl.Close()
}

func (k *tlsAcceptor) run() {
	l := k.a.l
	defer l.workers.Done()
	var reported time.Time
	report := func(err error) {
		if now := time.Now(); now.Sub(reported) >= time.Second && !k.told.Swap(true) {
			reported = now
			k.tell(func() {
				k.told.Store(false)
				l.report(&AcceptError{Addr: k.a.addr.String(), Err: err})
			})
		}
	}
	for {
		nc, err := k.nl.Accept()
		if errors.Is(err, net.ErrClosed) || k.ctx.Err() != nil {
			if err == nil {
				_ = nc.Close()
			}
			return
		}
		if err != nil {
			report(err)
			select {
			case <-time.After(acceptPause):
			case <-k.ctx.Done():
				return
			}
			continue
		}
		select {
		case k.slots <- struct{}{}:
		default:
			report(fmt.Errorf("%w: %d", ErrHalfOpen, k.HalfOpen))
			select {
			case k.slots <- struct{}{}:
			case <-k.ctx.Done():
				_ = nc.Close()
				return
			}
		}
		l.workers.Add(1) // not the first: run is one itself
		go k.serve(nc)
	}
}

// serve does the handshake of one connection and hands it to the loop. Its slot is free once the loop has taken notice, so that
// the inbox is bounded too.
func (k *tlsAcceptor) serve(nc net.Conn) {
	l := k.a.l
	defer l.workers.Done()
	setOptions(nc, l.cfg.Socket)
	tc := tls.Server(newUnderTLS(nc, false), k.Config)
	err := k.shake(k.ctx, tc, nc.RemoteAddr().String())
	ok := k.tell(func() {
		<-k.slots
		switch {
		case err != nil:
			l.stats.HandshakesFailed++
			if k.ctx.Err() == nil {
				k.failed(err.(*HandshakeError))
			}
		case l.closing.Load() || !k.a.open:
			l.abandon(tc)
		default:
			l.stats.Handshakes++
			k.a.serveNet(tc)
		}
	})
	if !ok && err == nil {
		closeLimited(tc)
	}
}

// tell runs f in a turn.
func (k *tlsAcceptor) tell(f func()) bool {
	if !k.a.l.inbox.put(call(f)) {
		return false
	}
	k.a.l.nudge()
	return true
}

// failed reports a failed handshake, unless there were many lately. Holder of the token.
func (k *tlsAcceptor) failed(err *HandshakeError) {
	l := k.a.l
	if now := l.clock(); now-k.second >= time.Second {
		k.second, k.reported = now, 0
	}
	if k.reported == handshakeReports {
		k.more++
		return
	}
	k.reported++
	err.More, k.more = k.more, 0
	l.report(err)
}

// abandon closes a connection that nobody wants, off the loop. Holder of the token.
func (l *Loop) abandon(nc net.Conn) {
	l.workers.Add(1)
	go func() {
		defer l.workers.Done()
		closeLimited(nc)
	}()
}

// closeLimited closes nc; a TLS connection whose socket is full is cut off after a while. Not for a turn.
func closeLimited(nc net.Conn) {
	if tc, ok := nc.(*tls.Conn); ok {
		defer time.AfterFunc(goodbyeLimit, func() { _ = tc.NetConn().Close() }).Stop()
	}
	_ = nc.Close()
}

// serveNet registers an accepted connection of package net and asks for its handler. Holder of the token.
func (a *listener) serveNet(nc net.Conn) {
	l := a.l
	c := l.newConn(a.addr.Network(), nc.LocalAddr(), nc.RemoteAddr(), nil)
	c.agreed = agreement(nc)
	native, err := c.sysAdopt(nc)
	if !native {
		c.p = newPortable(c, nc)
		setOptions(nc, l.cfg.Socket)
	}
	c.enlist()
	if native {
		err = c.sysAttach()
	}
	if err != nil {
		c.Close(err) // has no handler yet, so somebody else must be told
		l.report(err)
		return
	}
	a.accepted(c)
	if !c.closed && !native {
		c.p.start() // not before the handler is known
	}
}
