package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync/atomic"
	"time"
)

// serverConn is a member's connection at the coordinator: a goroutine reads it, another one writes what is sent.
type serverConn struct {
	id   connID
	conn net.Conn
	out  chan *message // nil: close
}

// sendQueue is how many messages may wait for a member that does not read. One that has more is cut off.
const sendQueue = 256

// send sends a message; nil closes the connection behind what was sent before. The coordinator's goroutine.
func (s *serverConn) send(m *message) {
	select {
	case s.out <- m:
	default:
		_ = s.conn.Close()
	}
}

// lastConn counts connections.
type lastConn struct{ n atomic.Uint64 }

func (l *lastConn) next() connID { return connID(l.n.Add(1)) }

// accept takes connections, no more than there are slots. A goroutine of its own.
func (c *Coordinator) accept() {
	var ids lastConn
	pause := time.Millisecond
	for {
		conn, err := c.ln.Accept()
		if err != nil {
			if c.ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
				return
			}
			c.log(slog.LevelWarn, "accept failed", "error", err) // a full file table, for one
			select {
			case <-c.ctx.Done():
				return
			case <-time.After(pause):
			}
			pause = min(2*pause, time.Second)
			continue
		}
		pause = time.Millisecond
		select {
		case c.slots <- struct{}{}:
			c.wg.Go(func() {
				defer func() { <-c.slots }()
				c.serve(ids.next(), conn)
			})
		default:
			c.log(slog.LevelWarn, "too many connections", "peer", conn.RemoteAddr())
			_ = conn.Close()
		}
	}
}

// serve serves a connection to its end.
func (c *Coordinator) serve(id connID, conn net.Conn) {
	defer conn.Close()
	stop := context.AfterFunc(c.ctx, func() { _ = conn.Close() })
	defer stop()
	r := &patient{conn: conn, limit: min(handshakeLimit, c.cfg.MemberTimeout)}
	fr := newFrameReader(r)
	hello, err := fr.read()
	switch {
	case err == nil && hello.Kind != msgHello:
		err = fmt.Errorf("%w: it begins with %s, not hello", ErrProtocol, hello.Kind)
	case err == nil && hello.Version != protocolVersion:
		err = fmt.Errorf("%w: version %d, this coordinator speaks %d", ErrProtocol, hello.Version, protocolVersion)
	case err == nil:
		err = errors.Join(checkName("member", hello.Member), checkName("process", hello.Nonce))
	}
	if err != nil {
		c.log(slog.LevelWarn, "a connection is refused", "peer", conn.RemoteAddr(), "error", err)
		_ = c.reply(conn, &message{Kind: msgRefused, Cause: err.Error()})
		return
	}
	r.limit = c.cfg.MemberTimeout
	switch hello.Purpose {
	case forMember:
		c.serveMember(&serverConn{id: id, conn: conn, out: make(chan *message, sendQueue)}, r, fr, hello)
	case forPut:
		r.limit = c.cfg.Timeout // a member may take its time for a snapshot
		c.servePut(conn, r, fr, hello)
	case forGet:
		c.serveGet(conn, hello)
	default:
		_ = c.reply(conn, &message{Kind: msgRefused, Cause: fmt.Sprintf("a connection for %.40q", hello.Purpose)})
	}
}

// reply writes a message to a connection that nobody else writes to.
func (c *Coordinator) reply(conn net.Conn, m *message) error {
	return writeMessage(conn, m, c.cfg.MemberTimeout)
}

func writeMessage(conn net.Conn, m *message, limit time.Duration) error {
	frame, err := appendFrame(nil, m)
	if err != nil {
		return err
	}
	return writeFrame(conn, frame, limit)
}

func writeFrame(conn net.Conn, frame []byte, limit time.Duration) error {
	err := conn.SetWriteDeadline(time.Now().Add(limit))
	if err == nil {
		_, err = conn.Write(frame)
	}
	return err
}

// patient reads from a connection that must not be silent for longer than limit.
type patient struct {
	conn  net.Conn
	limit time.Duration
}

func (p *patient) Read(b []byte) (n int, err error) {
	// The time may be up because this process was stopped: then what the peer said meanwhile is there, and read by the second try.
	for _, limit := range []time.Duration{p.limit, p.limit / 4} {
		if err := p.conn.SetReadDeadline(time.Now().Add(limit)); err != nil {
			return 0, err
		}
		n, err = p.conn.Read(b)
		if n > 0 || !isTimeout(err) {
			return n, err
		}
	}
	return n, fmt.Errorf("silent for %v: %w", p.limit, err)
}

func isTimeout(err error) bool {
	var ne net.Error
	return errors.As(err, &ne) && ne.Timeout()
}

func (c *Coordinator) serveMember(s *serverConn, r *patient, fr *frameReader, hello *message) {
	written := make(chan struct{})
	c.wg.Go(func() {
		defer close(written)
		c.writeMember(s)
	})
	ok := c.post(func() {
		c.conns[s.id] = s
		c.core.hello(s.id, hello.Member, hello.Nonce)
	})
	var err error
	for ok {
		var m *message
		if m, err = fr.read(); err != nil {
			break
		}
		if m.Kind == msgChunk {
			err = fmt.Errorf("%w: a chunk from a member", ErrProtocol)
			break
		}
		ok = c.post(func() { c.core.receive(c.clock.read(), s.id, m) })
	}
	if errors.Is(err, ErrProtocol) {
		c.log(slog.LevelWarn, "a member is cut off", "member", hello.Member, "peer", s.conn.RemoteAddr(), "error", err)
	}
	c.post(func() {
		delete(c.conns, s.id)
		c.core.gone(c.clock.read(), s.id, isTimeout(err))
		close(s.out)
	})
	if c.ctx.Err() == nil {
		select {
		case <-written:
		case <-c.ctx.Done():
		}
	}
}

// writeMember writes what is sent. A goroutine of its own, which ends with the connection's.
func (c *Coordinator) writeMember(s *serverConn) {
	defer s.conn.Close()
	for {
		select {
		case <-c.ctx.Done():
			return
		case m, ok := <-s.out:
			if !ok || m == nil || c.reply(s.conn, m) != nil {
				return
			}
		}
	}
}

// servePut takes a part and puts it into the store.
func (c *Coordinator) servePut(conn net.Conn, r *patient, fr *frameReader, hello *message) {
	err := c.put(fr, hello)
	if err == nil {
		_ = c.reply(conn, &message{Kind: msgDone})
		return
	}
	c.log(slog.LevelWarn, "a part is not stored", "member", hello.Member, "checkpoint", hello.ID, "part", hello.Part, "error", err)
	if c.reply(conn, &message{Kind: msgRefused, Cause: err.Error()}) != nil {
		return
	}
	r.limit = c.cfg.MemberTimeout
	for { // what is unread when the connection closes would take the answer with it
		if m, err := fr.read(); err != nil || m.Kind != msgChunk {
			return
		}
	}
}

func (c *Coordinator) put(fr *frameReader, hello *message) error {
	if err := checkName("part", hello.Part); err != nil {
		return err
	}
	if err := c.ask(func() error { return c.core.mayPut(hello) }); err != nil {
		return err
	}
	b, err := c.cfg.Store.Put(c.ctx, hello.ID, hello.Member+"/"+hello.Part)
	if err != nil {
		return err
	}
	defer b.Abort()
	for {
		m, err := fr.read()
		if err != nil {
			return unexpected(err)
		}
		switch m.Kind {
		case msgChunk:
			if _, err := b.Write(m.chunk); err != nil {
				return err
			}
		case msgEnd:
			if err := c.ask(func() error { return c.core.mayPut(hello) }); err != nil {
				return err
			}
			return b.Commit()
		default:
			return fmt.Errorf("%w: %s between the chunks of a part", ErrProtocol, m.Kind)
		}
	}
}

// serveGet sends a part of the restored checkpoint.
func (c *Coordinator) serveGet(conn net.Conn, hello *message) {
	if err := c.get(conn, hello); err != nil {
		c.log(slog.LevelWarn, "a part is not read", "member", hello.Member, "checkpoint", hello.ID, "part", hello.Part, "error", err)
		_ = c.reply(conn, &message{Kind: msgRefused, Cause: err.Error()})
	}
}

func (c *Coordinator) get(conn net.Conn, hello *message) error {
	if err := checkName("part", hello.Part); err != nil {
		return err
	}
	if err := c.ask(func() error { return c.core.mayGet(hello) }); err != nil {
		return err
	}
	r, err := c.cfg.Store.Get(c.ctx, hello.ID, hello.Member+"/"+hello.Part)
	if err != nil {
		return err
	}
	defer r.Close()
	return sendPart(conn, r, c.cfg.Timeout)
}

// sendPart sends what r has, and the end. Each chunk is read to where it is sent from.
func sendPart(conn net.Conn, r io.Reader, limit time.Duration) error {
	frame := appendChunkHead(make([]byte, 0, frameHead+1+maxChunk))
	head := len(frame)
	for {
		n, err := io.ReadFull(r, frame[head:cap(frame)])
		if n > 0 {
			if err := writeFrame(conn, endChunk(frame[:head+n]), limit); err != nil {
				return err
			}
		}
		switch err {
		case nil:
		case io.EOF, io.ErrUnexpectedEOF:
			return writeMessage(conn, &message{Kind: msgEnd}, limit)
		default:
			return err
		}
	}
}
