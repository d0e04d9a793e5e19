package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"
)

// parts is the half of a Store that members use.
type parts interface {
	Put(ctx context.Context, id int64, part string) (Blob, error)
	Get(ctx context.Context, id int64, part string) (io.ReadCloser, error)
}

// remoteStore puts and gets parts through the coordinator, each on a connection of its own.
type remoteStore struct{ e *Epoch }

// open connects for a part. The connection ends with ctx.
func (r remoteStore) open(ctx context.Context, purpose string, id int64, part string) (*remoteConn, error) {
	m := r.e.m
	conn, err := m.dial(ctx)
	if err != nil {
		return nil, err
	}
	_, name, _ := strings.Cut(part, "/")
	c := &remoteConn{ctx: ctx, conn: conn, fr: newFrameReader(conn), limit: m.cfg.Timeout}
	c.stop = context.AfterFunc(ctx, func() { _ = conn.Close() })
	if err := c.send(&message{
		Kind: msgHello, Version: protocolVersion, Purpose: purpose, Member: m.cfg.Name, Nonce: m.nonce,
		Epoch: r.e.number, ID: id, Part: name,
	}); err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

// Put is part of parts.
func (r remoteStore) Put(ctx context.Context, id int64, part string) (Blob, error) {
	c, err := r.open(ctx, forPut, id, part)
	if err != nil {
		return nil, err
	}
	return &remoteBlob{c: c, frame: appendChunkHead(make([]byte, 0, frameHead+1+maxChunk))}, nil
}

// Get is part of parts.
func (r remoteStore) Get(ctx context.Context, id int64, part string) (io.ReadCloser, error) {
	c, err := r.open(ctx, forGet, id, part)
	if err != nil {
		return nil, err
	}
	return &remoteReader{c: c}, nil
}

// remoteConn is a connection for one part. One goroutine.
type remoteConn struct {
	ctx   context.Context
	conn  net.Conn
	fr    *frameReader
	limit time.Duration
	stop  func() bool
	frame []byte
}

func (c *remoteConn) close() {
	c.stop()
	_ = c.conn.Close()
}

// explain prefers the end of the context to what it led to.
func (c *remoteConn) explain(err error) error {
	if err != nil && c.ctx.Err() != nil {
		return context.Cause(c.ctx)
	}
	return unexpected(err)
}

func (c *remoteConn) send(m *message) (err error) {
	if c.frame, err = appendFrame(c.frame[:0], m); err != nil {
		return err
	}
	return c.explain(writeFrame(c.conn, c.frame, c.limit))
}

// read reads an answer; a refusal is its error.
func (c *remoteConn) read() (*message, error) {
	m, err := c.fr.read()
	if err != nil {
		return nil, c.explain(err)
	}
	if m.Kind == msgRefused {
		return nil, fmt.Errorf("%w: %s", ErrRefused, m.Cause)
	}
	return m, nil
}

// remoteBlob is a part on its way to the coordinator.
type remoteBlob struct {
	c     *remoteConn
	frame []byte // the head of a chunk's frame, and what there is of the chunk
	done  bool
}

func (b *remoteBlob) Write(p []byte) (n int, err error) {
	if b.done {
		return 0, net.ErrClosed
	}
	for len(p) > 0 {
		k := min(len(p), cap(b.frame)-len(b.frame))
		b.frame = append(b.frame, p[:k]...)
		n, p = n+k, p[k:]
		if len(b.frame) == cap(b.frame) {
			if err := b.flush(); err != nil {
				return n, err
			}
		}
	}
	return n, nil
}

func (b *remoteBlob) flush() error {
	if len(b.frame) == frameHead+1 {
		return nil
	}
	err := b.c.explain(writeFrame(b.c.conn, endChunk(b.frame), b.c.limit))
	b.frame = b.frame[:frameHead+1]
	if err != nil {
		return b.why(err)
	}
	return nil
}

// why is what the coordinator said, if it said why it takes no more.
func (b *remoteBlob) why(err error) error {
	_ = b.c.conn.SetReadDeadline(time.Now().Add(b.c.limit / 4))
	if _, rerr := b.c.read(); errors.Is(rerr, ErrRefused) {
		return rerr
	}
	return err
}

func (b *remoteBlob) Commit() error {
	if b.done {
		return net.ErrClosed
	}
	defer b.Abort()
	if err := b.flush(); err != nil {
		return err
	}
	if err := b.c.send(&message{Kind: msgEnd}); err != nil {
		return b.why(err)
	}
	m, err := b.c.read()
	if err == nil && m.Kind != msgDone {
		err = fmt.Errorf("%w: %s instead of done", ErrProtocol, m.Kind)
	}
	return err
}

func (b *remoteBlob) Abort() {
	if !b.done {
		b.done = true
		b.c.close()
	}
}

// remoteReader is a part on its way from the coordinator.
type remoteReader struct {
	c    *remoteConn
	rest []byte
	err  error
}

func (r *remoteReader) Read(p []byte) (int, error) {
	for len(r.rest) == 0 {
		if r.err != nil {
			return 0, r.err
		}
		m, err := r.c.read()
		switch {
		case err != nil:
			r.err = err
		case m.Kind == msgChunk:
			r.rest = m.chunk
		case m.Kind == msgEnd:
			r.err = io.EOF
		default:
			r.err = fmt.Errorf("%w: %s among the chunks of a part", ErrProtocol, m.Kind)
		}
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

func (r *remoteReader) Close() error {
	r.c.close()
	return nil
}
