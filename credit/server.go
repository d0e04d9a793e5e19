package credit

import (
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/weirflow/weir/netio"
	"github.com/weirflow/weir/segment"
)

// ServerOptions configures a Server.
type ServerOptions struct {
	// Profile is the release line of the clients.
	Profile Profile
	// NoPacking sends each buffer of a pipelined partition in a message of its own, as Flink does. Else small ones that wait behind one another
	// share a message, and so a credit, in the form that Flink 2.3 has for it (never with Flink120).
	NoPacking bool
	// Grace bounds how long a connection that ends may write what is queued; 0 means 3 s.
	Grace time.Duration
	// OnLost is told of each consumer whose connection ended before it had said that it processed everything; err names its
	// address. May be nil.
	OnLost func(partition PartitionID, subpartition int, err error)
	// OnError is told of connections that are closed for what their clients sent, 16 a second and then how many more; err names the
	// client's address. May be nil.
	OnError func(err error)
	// TLS secures every connection; nil: none is, and a client that speaks TLS is refused.
	TLS *netio.TLS
	// MaxConnections bounds the connections that are open at once; further ones are closed, and OnError gets ErrTooManyConnections, at
	// most once a second. 0 means DefaultMaxConnections.
	MaxConnections int
	// FirstMessage bounds how long a new connection may take to its first whole message; 0 means 10 s. A client connects
	// in order to ask for something.
	FirstMessage time.Duration
}

// Server serves the partitions of a registry on the connections that it accepts (NettyServer). It belongs to its loop: all
// methods are for the holder of the loop's token.
type Server struct {
	loop     *netio.Loop
	registry *Registry
	opt      ServerOptions
	conns    map[*serverConn]struct{}
	expiry   *netio.Timer
	closed   bool
	silents  deadlines      // connections without a first message
	unreads  deadlines      // connections with many answers to read
	refused  time.Time      // when a refusal was reported last
	ended    SchedulerStats // of connections that have ended
	reports  reports
}

// NewServer makes a server that does not listen yet.
func NewServer(loop *netio.Loop, registry *Registry, opt ServerOptions) *Server {
	if opt.Grace == 0 {
		opt.Grace = 3 * time.Second
	}
	if opt.MaxConnections == 0 {
		opt.MaxConnections = DefaultMaxConnections
	}
	if opt.FirstMessage == 0 {
		opt.FirstMessage = netio.DefaultHandshake
	}
	s := &Server{loop: loop, registry: registry, opt: opt, conns: make(map[*serverConn]struct{})}
	s.expiry = loop.NewTimer(s.expire)
	s.silents.init(loop, opt.FirstMessage, s.silent)
	s.unreads.init(loop, answersLimit, s.unread)
	return s
}

// Listen accepts connections at addr: network "tcp" and "HOST:PORT", port 0 for a free one, or "unix" and a path. It returns
// the address that it listens at.
func (s *Server) Listen(network, addr string) (net.Addr, error) {
	accept := func(c *netio.Conn) netio.Handler {
		if s.closed || !s.admit(c) {
			return nil
		}
		h := &serverConn{server: s, conn: c, decoder: &ServerDecoder{MaxTaskEvent: maxUnwantedEvent}}
		h.core = NewServerCore(s.registry, h)
		s.conns[h] = struct{}{}
		s.silents.arm(&h.silent, h)
		return h
	}
	if t := s.opt.TLS; t != nil {
		return s.loop.ListenTLS(network, addr, *t, accept)
	}
	return s.loop.Listen(network, addr, accept)
}

// Stats is what was sent so far, over all connections.
func (s *Server) Stats() SchedulerStats {
	sum := s.ended
	for h := range s.conns {
		sum.add(h.core.sched.stats)
	}
	return sum
}

// Connections is the number of open connections.
func (s *Server) Connections() int { return len(s.conns) }

// expire ends the requests that have waited too long, and sees to it that the next ones are.
func (s *Server) expire() {
	if next, ok := s.registry.Expire(); ok {
		s.expiry.Reset(max(next-s.registry.cfg.Clock(), time.Millisecond))
	}
}

// Close ends all connections, with a limit for what is queued, and forgets all partitions.
func (s *Server) Close() {
	if s.closed {
		return
	}
	s.closed = true
	s.expiry.Stop()
	s.silents.timer.Stop()
	s.unreads.timer.Stop()
	s.registry.Close()
	for h := range s.conns {
		h.core.Disconnected()
		h.conn.CloseAfterFlush(s.opt.Grace)
	}
}

// serverConn is one accepted connection: a netio.Handler, and the Outbound of its core.
type serverConn struct {
	server  *Server
	conn    *netio.Conn
	decoder *ServerDecoder
	core    *ServerCore
	failed  bool
	known   bool // the client speaks what it is to

	silent, unread deadline
	queued         int64 // bytes of the outgoing stream
	answers        answers
	answersMark    int64 // the end of those that must be read in time
}

// OnRead does what the client asks for.
func (h *serverConn) OnRead(c *netio.Conn, p []byte) error {
	if !h.known {
		if h.known = true; h.server.opt.TLS == nil && netio.LooksLikeTLS(p) {
			// The answer is no TLS, from which the client learns the same.
			h.fail(fmt.Errorf("%w: the client wants TLS, and this server has none", ErrTLS))
			return nil
		}
	}
	err := h.decoder.Feed(p, h.core)
	if h.silent.armed && h.decoder.Offset() > 0 {
		h.server.silents.disarm(&h.silent)
	}
	switch {
	case err == nil:
		if _, waiting := h.core.Readers(); waiting > 0 {
			h.server.expire()
		}
	case errors.Is(err, ErrCloseRequested):
		c.CloseAfterFlush(h.server.opt.Grace)
	default:
		h.fail(err)
	}
	return nil
}

// fail tells the client and closes.
func (h *serverConn) fail(err error) {
	if h.failed {
		return
	}
	h.failed = true
	err = &ConnError{Peer: h.conn.RemoteAddr().String(), Err: err}
	h.server.report(err)
	h.core.Fail(err)
	h.conn.CloseAfterFlush(h.server.opt.Grace)
}

// OnFlush lets readers send as much as a batch takes.
func (h *serverConn) OnFlush(*netio.Conn) {
	if _, err := h.core.Run(); err != nil {
		h.fail(err)
	}
}

// OnClose releases what the connection read.
func (h *serverConn) OnClose(c *netio.Conn, err error) {
	if err == nil {
		err = errors.New("closed by the consumer")
	}
	if f := h.server.opt.OnLost; f != nil {
		err := &ConnError{Peer: c.RemoteAddr().String(), Err: err}
		for r := range h.core.readers.values() {
			if v, ok := r.view.(*subView); ok && !v.s.acked {
				f(v.s.part.id, int(v.s.index), err)
			}
		}
	}
	h.core.Disconnected()
	delete(h.server.conns, h)
	h.server.ended.add(h.core.sched.stats)
	h.server.silents.disarm(&h.silent)
	h.server.unreads.disarm(&h.unread)
}

// Writable is part of Outbound: one batch at a time.
func (h *serverConn) Writable() bool { return !h.conn.Full() }

// SendsFiles reports whether WriteBuffer takes buffers that are parts of a file.
func (h *serverConn) SendsFiles() bool { return h.conn.SendsFiles() }

// WriteBuffer is part of Outbound: the payload goes out from where it lies.
func (h *serverConn) WriteBuffer(hd *BufferHeader, b segment.Buffer) {
	n := FrameHeaderLen + h.server.opt.Profile.headerLen() + 4*len(hd.PartialSizes)
	AppendBufferHeader(h.conn.Stage(n)[:0], h.server.opt.Profile, hd)
	h.queued += int64(n + b.Len())
	if !b.IsZero() {
		h.conn.AppendBuffer(b)
	}
}

// Packs reports whether the client takes several buffers in one message.
func (h *serverConn) Packs() bool { return h.server.opt.Profile == Flink23 && !h.server.opt.NoPacking }

// WriteMore adds to the payload of the message that WriteBuffer began.
func (h *serverConn) WriteMore(bufs []segment.Buffer, n int) {
	h.queued += int64(n)
	h.conn.AppendCopies(bufs)
}

// WriteFrame is part of Outbound.
func (h *serverConn) WriteFrame(frame []byte) {
	copy(h.conn.Stage(len(frame)), frame)
	h.answered(len(frame))
}

// WantFlush is part of Outbound.
func (h *serverConn) WantFlush() { h.conn.WantFlush() }
