package checkpoint

import (
	"net"
	"sync"
	"testing"
)

// proxy passes connections on, and can cut them, or stand still.
type proxy struct {
	ln net.Listener
	to string
	wg sync.WaitGroup

	mu     sync.Mutex
	conns  map[net.Conn]bool
	still  chan struct{} // closed when it does not stand still
	refuse bool
}

func proxyTo(t testing.TB, to string) *proxy {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{ln: ln, to: to, conns: map[net.Conn]bool{}, still: make(chan struct{})}
	close(p.still)
	p.wg.Go(func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			p.mu.Lock()
			refuse, addr := p.refuse, p.to
			p.mu.Unlock()
			if refuse {
				conn.Close()
				continue
			}
			there, err := net.Dial("tcp", addr)
			if err != nil {
				conn.Close()
				continue
			}
			p.pass(conn, there)
			p.pass(there, conn)
		}
	})
	t.Cleanup(func() {
		ln.Close()
		p.stand(false)
		p.cut()
		p.wg.Wait()
	})
	return p
}

func (p *proxy) addr() string { return p.ln.Addr().String() }

func (p *proxy) pass(from, to net.Conn) {
	p.mu.Lock()
	p.conns[from] = true
	p.mu.Unlock()
	p.wg.Go(func() {
		defer to.Close()
		defer from.Close()
		buf := make([]byte, 32<<10)
		for {
			n, err := from.Read(buf)
			p.mu.Lock()
			still := p.still
			p.mu.Unlock()
			<-still
			if n > 0 {
				if _, werr := to.Write(buf[:n]); werr != nil {
					return
				}
			}
			if err != nil {
				return
			}
		}
	})
}

// cut ends all connections.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		c.Close()
	}
	clear(p.conns)
}

// stand lets the proxy stand still, or go on.
func (p *proxy) stand(still bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.still:
		if still {
			p.still = make(chan struct{})
		}
	default:
		if !still {
			close(p.still)
		}
	}
}

// block refuses connections from now on, or takes them again; to is where they go then.
func (p *proxy) block(refuse bool, to string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refuse = refuse
	if to != "" {
		p.to = to
	}
}
