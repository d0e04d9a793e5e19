package credit

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/weirflow/weir/netio"
)

// ClientOptions configures a Client.
type ClientOptions struct {
	// Pool is the loop's receive pool.
	Pool *ReceivePool
	// Policy decides when credit is told; nil: Immediate, which between turns is one message a channel all the same.
	Policy GrantPolicy
	// Decoder holds the release line of the servers and the limits of what is accepted.
	Decoder DecoderConfig
	// ConnectTimeout bounds one attempt to connect; 0 means 10 s.
	ConnectTimeout time.Duration
	// RetryEvery is the pause between attempts to connect, and before a partition that was not found is asked for again; 0
	// means 50 ms.
	RetryEvery time.Duration
	// TLS secures every connection; nil: none does, and a server that speaks TLS is an error.
	TLS *netio.TLS
}

func (o ClientOptions) withDefaults() ClientOptions {
	def := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	def(&o.ConnectTimeout, 10*time.Second)
	def(&o.RetryEvery, 50*time.Millisecond)
	return o
}

// Client opens channels to servers: one connection for each server address, shared by all channels to it
// (PartitionRequestClientFactory). It belongs to its loop: all methods are for the holder of the loop's token.
type Client struct {
	loop   *netio.Loop
	opt    ClientOptions
	conns  map[string]*clientConn
	closed bool
	past   ClientStats // of connections that are not in conns any more
	ctx    context.Context
	cancel context.CancelFunc
}

// NewClient makes a client without connections.
func NewClient(loop *netio.Loop, opt ClientOptions) *Client {
	c := &Client{loop: loop, opt: opt.withDefaults(), conns: make(map[string]*clientConn)}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return c
}

// Open requests ch from the server at addr ("host:port", or the path of a Unix socket with network "unix"). It connects if need be, again
// and again until wait has passed, and the server is asked again for a partition that is not there yet for about as long. What
// goes wrong becomes the channel's error; the gate's poll returns it.
func (c *Client) Open(network, addr string, ch *RemoteChannel, wait time.Duration) {
	if c.closed {
		ch.fail(ch.error(fmt.Errorf("%w: the client is closed", ErrReleased)))
		ch.port.Publish()
		return
	}
	key := network + "!" + addr
	conn := c.conns[key]
	if conn != nil && conn.dead() {
		conn.leave() // channels on it stay with it; new ones get a new connection
		conn = nil
	}
	if conn == nil {
		conn = &clientConn{client: c, key: key, network: network, addr: addr}
		c.conns[key] = conn
		conn.deadline = c.loop.Now().Add(wait)
		conn.dial()
	}
	conn.wait = max(conn.wait, wait)
	conn.deadline = later(conn.deadline, c.loop.Now().Add(wait))
	if conn.core != nil {
		conn.request(ch)
		return
	}
	conn.waiting = append(conn.waiting, ch)
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// Connections is the number of servers that the client has a connection to, or is connecting to.
func (c *Client) Connections() int { return len(c.conns) }

// CreditOutstanding is the number of buffers that all servers together may send.
func (c *Client) CreditOutstanding() (n int) {
	for _, conn := range c.conns {
		if conn.core != nil {
			n += conn.core.CreditOutstanding()
		}
	}
	return n
}

// Stats is the sum over the connections that the client has, and had.
func (c *Client) Stats() ClientStats {
	sum := c.past
	for _, conn := range c.conns {
		if conn.core != nil {
			sum.add(conn.core.Stats())
		}
	}
	return sum
}

func (s *ClientStats) add(o ClientStats) {
	s.Data += o.Data
	s.Events += o.Events
	s.Bytes += o.Bytes
	s.Grants += o.Grants
	s.Credits += o.Credits
}

// Close ends all connections. Channels that are still open get an error.
func (c *Client) Close() {
	if c.closed {
		return
	}
	c.closed = true
	c.cancel()
	for _, conn := range c.conns {
		if conn.conn != nil {
			// What channels said last, their cancels, still goes out.
			conn.conn.CloseAfterFlush(time.Second)
		}
		conn.fail(fmt.Errorf("%w: the client is closed", ErrReleased))
	}
	clear(c.conns)
}

// clientConn is one connection, from the first attempt to connect on. It is a netio.OpenHandler.
type clientConn struct {
	client        *Client
	key           string
	network, addr string
	deadline      time.Time // for connecting, and for partitions to be there
	wait          time.Duration
	waiting       []*RemoteChannel // until connected
	core          *ClientCore
	conn          *netio.Conn
	failed        bool
	lastDial      error
	tries         int
	known         bool // the server speaks what it is to
	asksAgain     map[*RemoteChannel]struct{}
}

var (
	_ netio.OpenHandler  = (*clientConn)(nil)
	_ netio.SpaceHandler = (*clientConn)(nil)
)

func (h *clientConn) dead() bool {
	return h.failed || h.core != nil && (h.core.Err() != nil || h.core.Closing())
}

// dial makes one attempt to connect.
func (h *clientConn) dial() {
	c := h.client
	left := h.deadline.Sub(c.loop.Now())
	limit := min(max(left, c.opt.RetryEvery), c.opt.ConnectTimeout)
	h.tries++
	ctx, cancel := context.WithTimeout(c.ctx, limit)
	done := func(_ *netio.Conn, err error) {
		cancel()
		if err != nil {
			h.dialFailed(err)
		}
	}
	var ok bool
	if t := c.opt.TLS; t != nil {
		ok = c.loop.DialTLSFunc(ctx, h.network, h.addr, *t, h, done)
	} else {
		ok = c.loop.DialFunc(ctx, h.network, h.addr, h, done)
	}
	if !ok {
		cancel()
		h.fail(netio.ErrClosed)
	}
}

// dialFailed tries again in a while, or gives up.
func (h *clientConn) dialFailed(err error) {
	if h.failed || h.client.closed {
		return
	}
	h.lastDial = err
	if hs := (*netio.HandshakeError)(nil); errors.As(err, &hs) && hs.Final() {
		h.fail(err) // a certificate does not get better
		return
	}
	if h.client.loop.Now().Add(h.client.opt.RetryEvery).Before(h.deadline) {
		h.client.loop.After(h.client.opt.RetryEvery, h.dial)
		return
	}
	h.fail(fmt.Errorf("could not connect in %d attempts within %v: %w", h.tries, h.wait, err))
}

// fail gives every channel the error. The connection's entry is removed.
func (h *clientConn) fail(err error) {
	if h.failed {
		return
	}
	h.failed = true
	h.leave()
	if h.core != nil {
		h.core.Fail(err)
	}
	for _, ch := range h.waiting {
		e := ch.error(err).(*ChannelError)
		e.Peer = h.addr
		ch.fail(e)
		ch.port.Publish()
	}
	h.waiting = nil
}

// leave takes the connection out of the client's table.
func (h *clientConn) leave() {
	if h.client.conns[h.key] == h {
		delete(h.client.conns, h.key)
		if h.core != nil {
			h.client.past.add(h.core.Stats())
		}
	}
}

// OnOpen requests the channels that waited.
func (h *clientConn) OnOpen(c *netio.Conn) {
	if h.failed || h.client.closed {
		c.Close(nil)
		return
	}
	opt := &h.client.opt
	h.conn = c
	h.core = NewClientCore(ClientConfig{
		Peer:    h.addr,
		Out:     c,
		Pool:    opt.Pool,
		Policy:  opt.Policy,
		Decoder: opt.Decoder,
		// The clock decides when it is enough, in notFound, and not the count of requests: how long a server waits, it
		// does not say.
		ListenerTimeout: 1, MaxBackoff: math.MaxInt64 / 4,
		NotFound: h.notFound,
		Empty:    h.empty,
	})
	for _, ch := range h.waiting {
		h.request(ch)
	}
	h.waiting = nil
	c.SetCredit(h.core.CreditOutstanding())
}

func (h *clientConn) request(ch *RemoteChannel) {
	if err := h.core.Request(ch); err != nil {
		ch.fail(ch.error(err))
		ch.port.Publish()
	}
}

// notFound asks again in a while for a partition that is not there, or gives up.
func (h *clientConn) notFound(ch *RemoteChannel) {
	c := h.client
	if c.loop.Now().After(h.deadline) {
		h.core.ProducerState(ch, ProducerUnknown)
		return
	}
	if _, soon := h.asksAgain[ch]; soon {
		return // a server may say it a thousand times
	}
	if h.asksAgain == nil {
		h.asksAgain = make(map[*RemoteChannel]struct{})
	}
	h.asksAgain[ch] = struct{}{}
	c.loop.After(c.opt.RetryEvery, func() {
		delete(h.asksAgain, ch)
		if !h.dead() && !c.closed {
			h.core.Retrigger(ch)
		}
	})
}

// empty is called when the last channel was released. The close request that was queued goes out first.
func (h *clientConn) empty(closing bool) {
	if closing && h.conn != nil {
		h.failed = true // nobody is left to be told
		h.leave()
		h.conn.CloseAfterFlush(time.Second)
	}
}

// OnRead feeds the core; the gates see what came once all of it is decoded.
func (h *clientConn) OnRead(c *netio.Conn, p []byte) error {
	if !h.known {
		if h.known = true; h.client.opt.TLS == nil && netio.LooksLikeTLS(p) {
			return &ConnError{Peer: h.addr, Err: fmt.Errorf("%w: the server wants TLS, and this client has none", ErrTLS)}
		}
	}
	err := h.core.Feed(p)
	c.SetCredit(h.core.CreditOutstanding())
	return err
}

// OnSpace has the loop read into segments what can be foreseen.
func (h *clientConn) OnSpace(_ *netio.Conn, s *netio.Space) {
	for _, p := range h.core.Land(s.Room()) {
		s.Add(p)
	}
}

// OnFilled is OnRead for what lies in segments.
func (h *clientConn) OnFilled(c *netio.Conn, n int, spill []byte) error {
	err := h.core.Landed(n, spill)
	c.SetCredit(h.core.CreditOutstanding())
	return err
}

// OnFlush writes what channels have to tell, with all credit that came back since the last turn.
func (h *clientConn) OnFlush(c *netio.Conn) {
	h.core.FlushGrants()
	h.core.WriteIntents()
	c.SetCredit(h.core.CreditOutstanding())
}

// OnClose tells all channels.
func (h *clientConn) OnClose(_ *netio.Conn, err error) {
	switch {
	case h.core == nil:
	case err == nil:
		h.core.EndOfStream()
	default:
		var ours *ConnError
		if !errors.As(err, &ours) {
			err = fmt.Errorf("lost the connection: %w", err)
		}
		h.core.Fail(err)
	}
	h.fail(err)
}
