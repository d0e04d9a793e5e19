//go:build !linux || weirportable

package netio

import (
	"errors"
	"net"
	"time"
)

// Accepting pauses after an error that may pass, and is reported at intervals.
const (
	acceptPause  = 100 * time.Millisecond
	acceptReport = time.Second
)

// sysListener accepts in a goroutine, which hands over one connection at a time.
type sysListener struct {
	nl      net.Listener
	arrived chan net.Conn // capacity 1
	failed  chan error    // capacity 1, for the report
	stop    chan struct{}
}

func (a *listener) sysInit(nl net.Listener) error {
	a.sys = sysListener{nl: nl, arrived: make(chan net.Conn, 1), failed: make(chan error, 1), stop: make(chan struct{})}
	return nil
}

func (a *listener) sysAttach() error {
	a.l.workers.Add(1)
	go a.acceptor()
	return nil
}

func (a *listener) acceptor() {
	defer a.l.workers.Done()
	var reported time.Time
	for {
		nc, err := a.sys.nl.Accept()
		switch {
		case err == nil:
			select {
			case a.sys.arrived <- nc:
			case <-a.sys.stop:
				_ = nc.Close()
				return
			}
		case errors.Is(err, net.ErrClosed):
			return
		default:
			if now := time.Now(); now.Sub(reported) >= acceptReport {
				reported = now
				select {
				case a.sys.failed <- err:
				default:
				}
			}
			select {
			case <-time.After(acceptPause):
			case <-a.sys.stop:
				return
			}
		}
		// At most two entries: one connection or error looked at, one to come.
		if !a.l.inbox.put(a) {
			return
		}
		a.l.nudge()
	}
}

func (a *listener) sysAttend() {
	select {
	case nc := <-a.sys.arrived:
		a.serveNet(nc)
	default:
	}
	select {
	case err := <-a.sys.failed:
		a.l.report(&AcceptError{Addr: a.addr.String(), Err: err})
	default:
	}
}

func (a *listener) sysClose() {
	_ = a.sys.nl.Close()
	close(a.sys.stop)
	select {
	case nc := <-a.sys.arrived:
		_ = nc.Close()
	default:
	}
}
