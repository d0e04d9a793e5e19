package netio

import (
	"context"
	"net"
)

// Listen opens a listener whose connections belong to the loop. network is "tcp", "tcp4", "tcp6" or "unix". accept is called in
// the loop's turns, for each connection once it is registered, and returns its handler; nil refuses it. accept may queue the
// first bytes. It returns the address it listens on. Listen may be called by any goroutine, also within a turn.
//
// At the limit of descriptors the listener reports an *AcceptError, at most once a second, and accepts again when some are
// free; clients wait meanwhile. It is closed by CloseListener or with the loop.
func (l *Loop) Listen(network, addr string, accept func(*Conn) Handler) (net.Addr, error) {
	return l.listen(network, addr, nil, accept)
}

// listen opens a listener, with TLS if t is not nil.
func (l *Loop) listen(network, addr string, t *TLS, accept func(*Conn) Handler) (net.Addr, error) {
	if l.Closed() {
		return nil, ErrClosed
	}
	lc := net.ListenConfig{KeepAlive: -1, Control: l.control}
	lc.SetMultipathTCP(false) // on by default since Go 1.24, with other options and other speed
	nl, err := lc.Listen(context.Background(), network, addr)
	if err != nil {
		return nil, err
	}
	a := &listener{l: l, addr: nl.Addr(), accept: accept}
	if t != nil {
		a.tls = newTLSAcceptor(a, nl, *t)
	} else if err := a.sysInit(nl); err != nil {
		_ = nl.Close()
		return nil, err
	}
	if !l.inbox.put(a) {
		a.shut()
		return nil, ErrClosed
	}
	l.nudge()
	return a.addr, nil
}

// CloseListener closes the listener on addr, as returned by Listen, in the loop's next turn. Its connections stay. Any goroutine.
func (l *Loop) CloseListener(addr net.Addr) {
	if l.inbox.put(call(func() {
		for _, a := range l.listeners {
			if a.addr == addr {
				a.close()
				return
			}
		}
	})) {
		l.nudge()
	}
}

// listener accepts connections. It belongs to the loop.
type listener struct {
	l      *Loop
	addr   net.Addr
	accept func(*Conn) Handler
	once   bool // was registered
	open   bool // and is
	sys    sysListener
	tls    *tlsAcceptor // instead of sys
}

// attend registers a new listener, and later looks at what its goroutine has brought (portable).
func (a *listener) attend() {
	if a.once {
		if a.open {
			a.sysAttend()
		}
		return
	}
	a.once = true
	if a.l.closing.Load() {
		a.shut()
		return
	}
	a.open = true
	a.l.listeners = append(a.l.listeners, a)
	if a.tls != nil {
		a.tls.start()
		return
	}
	if err := a.sysAttach(); err != nil {
		a.l.report(&AcceptError{Addr: a.addr.String(), Err: err})
		a.close()
	}
}

func (a *listener) close() {
	if !a.open {
		return
	}
	a.open = false
	list := a.l.listeners
	for i := range list {
		if list[i] == a {
			list[i] = list[len(list)-1]
			list[len(list)-1] = nil
			a.l.listeners = list[:len(list)-1]
			break
		}
	}
	a.shut()
}

// shut ends accepting.
func (a *listener) shut() {
	if a.tls != nil {
		a.tls.close()
		return
	}
	a.sysClose()
}

// accepted asks the application for the handler of a registered connection.
func (a *listener) accepted(c *Conn) {
	a.l.stats.Accepted++
	h := a.accept(c)
	if c.closed {
		return
	}
	if h == nil {
		c.Close(ErrRefused)
		return
	}
	c.SetHandler(h)
	c.opened()
}
