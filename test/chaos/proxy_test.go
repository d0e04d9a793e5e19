//go:build unix

package chaos

import (
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// proxy passes connections on to a process, and does them harm.
type proxy struct {
	target string
	l      net.Listener
	wg     sync.WaitGroup

	mu    sync.Mutex
	conns map[*pair]bool // guarded by mu
}

// pair is a connection through a proxy.
type pair struct {
	client, server *net.TCPConn
	delay          atomic.Int64 // of the next piece, in ns
	cut            atomic.Int64 // if positive: the next piece is cut to so many bytes, and the connection closed
}

func newProxy(target string) (*proxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &proxy{target: target, l: l, conns: map[*pair]bool{}}
	p.wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			p.wg.Go(func() { p.serve(c.(*net.TCPConn)) })
		}
	})
	return p, nil
}

func (p *proxy) addr() string { return p.l.Addr().String() }

func (p *proxy) close() {
	_ = p.l.Close()
	p.mu.Lock()
	for c := range p.conns {
		c.reset()
	}
	p.mu.Unlock()
	p.wg.Wait()
}

func (p *proxy) serve(client *net.TCPConn) {
	s, err := net.DialTimeout("tcp", p.target, time.Second)
	if err != nil {
		_ = client.Close()
		return
	}
	c := &pair{client: client, server: s.(*net.TCPConn)}
	p.mu.Lock()
	p.conns[c] = true
	p.mu.Unlock()
	var both sync.WaitGroup
	both.Go(func() { c.pass(c.server, c.client) })
	both.Go(func() { c.pass(c.client, c.server) })
	both.Wait()
	_ = c.client.Close()
	_ = c.server.Close()
	p.mu.Lock()
	delete(p.conns, c)
	p.mu.Unlock()
}

// pass passes on what comes, and the end.
func (c *pair) pass(to, from *net.TCPConn) {
	buf := make([]byte, 4096)
	for {
		n, err := from.Read(buf)
		time.Sleep(time.Duration(c.delay.Swap(0)))
		if cut := c.cut.Swap(0); cut > 0 && n > 0 {
			_, _ = to.Write(buf[:min(int64(n), cut)])
			_ = from.Close()
			_ = to.Close()
			return
		}
		if n > 0 {
			if _, err := to.Write(buf[:n]); err != nil {
				_ = from.Close()
				return
			}
		}
		if err != nil {
			_ = to.CloseWrite()
			return
		}
	}
}

// reset ends both sides at once, and what is under way is lost.
func (c *pair) reset() {
	for _, conn := range []*net.TCPConn{c.client, c.server} {
		_ = conn.SetLinger(0)
		_ = conn.Close()
	}
}

// The kinds of harm.
var harms = []string{"reset", "truncate", "delay"}

// harm does it to a connection, and reports whether there was one.
func (p *proxy) harm(kind string, r *rand.Rand) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		switch kind {
		case "reset":
			c.reset()
		case "truncate":
			c.cut.Store(1 + int64(r.IntN(600)))
		case "delay":
			c.delay.Store(int64(time.Duration(1+r.IntN(200)) * time.Millisecond))
		}
		return true
	}
	return false
}
