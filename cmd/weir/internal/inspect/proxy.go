package inspect

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

const (
	// maxConns bounds the connections at a time; more wait to be accepted.
	maxConns = 256
	// pieceSize is how many bytes a direction passes on at a time.
	pieceSize = 64 << 10
	// dialLimit bounds how long the target may take to accept.
	dialLimit = 10 * time.Second
)

// Proxy stands between clients and a server, passes all bytes on as they are, and shows what goes by. Bytes that cannot
// be decoded are passed on like all others. Its memory does not grow with what it passes: the sink holds up the
// connection, and so the ends' own flow control.
type Proxy struct {
	listener net.Listener
	target   string
	cfg      Config

	mu   sync.Mutex // the sink's
	sink Sink
	err  error // of the sink; guarded by mu

	stop context.CancelFunc
}

// NewProxy listens on an address for a target, both HOST:PORT. Run must be called.
func NewProxy(listen, target string, cfg Config, sink Sink) (*Proxy, error) {
	if _, _, err := net.SplitHostPort(target); err != nil {
		return nil, fmt.Errorf("target %q: %w", target, err)
	}
	l, err := net.Listen("tcp", listen)
	if err != nil {
		return nil, err
	}
	return &Proxy{listener: l, target: target, cfg: cfg, sink: sink}, nil
}

// Addr is where the proxy listens.
func (p *Proxy) Addr() net.Addr { return p.listener.Addr() }

// Run passes connections on until the context ends. It returns when all of them are closed and the sink has their
// summaries. The error is the listener's or the sink's; that of a connection is a note, and the end of the context is
// none.
func (p *Proxy) Run(ctx context.Context) error {
	ctx, p.stop = context.WithCancel(ctx)
	defer p.stop()
	defer context.AfterFunc(ctx, func() { p.listener.Close() })()
	defer p.listener.Close()
	var all sync.WaitGroup
	slots := make(chan struct{}, maxConns)
	var err error
	for n := 1; ; n++ {
		slots <- struct{}{}
		var c net.Conn
		if c, err = p.listener.Accept(); err != nil {
			break
		}
		all.Go(func() {
			p.serve(ctx, n, c)
			<-slots
		})
	}
	if ctx.Err() != nil {
		err = nil
	}
	p.stop()
	all.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	return errors.Join(err, p.err)
}

// with calls f while it alone has the sink. An error of f ends the proxy.
func (p *Proxy) with(f func() error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err != nil {
		return
	}
	if p.err = f(); p.err != nil {
		p.stop()
	}
}

// serve passes one connection on until both directions have ended.
func (p *Proxy) serve(ctx context.Context, n int, client net.Conn) {
	defer client.Close()
	s := NewSession(p.cfg, n, p.sink)
	s.Name = fmt.Sprintf("%d (%s to %s)", n, client.RemoteAddr(), p.target)
	note := func(format string, args ...any) {
		p.with(func() error {
			s.now = time.Now()
			return s.note(format, args...)
		})
	}
	d := net.Dialer{Timeout: dialLimit}
	server, err := d.DialContext(ctx, "tcp", p.target)
	if err != nil {
		note("connection %s: %v", s.Name, err)
		return
	}
	defer server.Close()
	defer context.AfterFunc(ctx, func() {
		client.Close()
		server.Close()
	})()
	note("connection %s begins", s.Name)
	var both sync.WaitGroup
	copyAll := func(dir Dir, from, to net.Conn) {
		err := p.copy(s, dir, from, to)
		if err == nil {
			return
		}
		if ctx.Err() == nil && !errors.Is(err, net.ErrClosed) { // else it is not the first
			note("%s: %v", dir, err)
		}
		client.Close()
		server.Close()
	}
	both.Go(func() { copyAll(ToServer, client, server) })
	both.Go(func() { copyAll(ToClient, server, client) })
	both.Wait()
	p.with(func() error {
		defer s.release()
		s.now = time.Now()
		if err := s.note("connection %s ends", s.Name); err != nil {
			return err
		}
		return s.Close(false)
	})
}

// copy passes one direction on. A piece is shown before it is passed on, so that nobody's answer is shown first.
func (p *Proxy) copy(s *Session, dir Dir, from, to net.Conn) error {
	buf := make([]byte, pieceSize)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			p.with(func() error { return s.Feed(dir, buf[:n], time.Now()) })
			if _, err := to.Write(buf[:n]); err != nil {
				return err
			}
		}
		if err == io.EOF {
			if c, ok := to.(*net.TCPConn); ok {
				return c.CloseWrite()
			}
			return nil
		}
		if err != nil {
			return err
		}
	}
}
