package netio

import "time"

// Close closes the connection now: what is queued is released unwritten. OnClose gets err at the end of the turn, or, if the socket
// is full and TLS has to say goodbye, within a second. Closing again does nothing.
func (c *Conn) Close(err error) {
	c.l.check.assertHeld()
	if c.closed {
		return
	}
	c.closed = true
	c.err = err
	c.setLowat(false)
	if c.limit != nil {
		c.limit.Stop()
	}
	if c.p != nil {
		c.p.close() // the writer may be at work: the queue is dropped when it is done
		return
	}
	if c.sysFarewell() {
		c.drop()
		return
	}
	c.sysClose()
	c.gone()
}

// gone ends Close: nobody uses what is queued any more.
func (c *Conn) gone() {
	c.drop()
	c.publishReleased()
	c.l.gone = append(c.l.gone, c)
}

// reportClosed calls OnClose.
func (c *Conn) reportClosed() {
	l := c.l
	if c.index >= 0 {
		last := len(l.conns) - 1
		moved := l.conns[last]
		l.conns[c.index], moved.index = moved, c.index
		l.conns[last] = nil
		l.conns = l.conns[:last]
		l.open.Store(int32(last))
		c.index = -1
	}
	if !c.reported {
		c.reported = true
		if c.h != nil {
			c.h.OnClose(c, c.err)
		}
	}
}

// CloseAfterFlush writes what is queued, for at most limit, and closes the connection. OnFlush is not called any more, and
// what arrives is dropped. OnClose gets nil, or ErrFlushTimeout. A TCP connection is not closed before the peer's kernel has
// everything, as closing with unread input would reset it; where that cannot be found out (the portable driver), not before the
// peer has closed its side or limit is over.
func (c *Conn) CloseAfterFlush(limit time.Duration) {
	if c.closed || c.finishing {
		return
	}
	c.finishing = true
	c.shutWrite = true
	c.ResumeRead()
	c.limitAt = c.l.clock() + limit
	c.limit = c.l.NewTimer(c.finish)
	c.WantFlush()
	c.limit.Reset(limit)
}

// lingerStep is how often a finished connection looks whether the peer has everything.
const lingerStep = 2 * time.Millisecond

// finish is CloseAfterFlush's timer, and called when everything is written.
func (c *Conn) finish() {
	switch {
	case c.unsent() > 0 || c.shutting():
		if c.l.clock() >= c.limitAt {
			c.Close(ErrFlushTimeout)
			return
		}
		c.limit.Reset(c.limitAt - c.l.clock())
	case c.ended || c.p == nil && c.delivered() || c.l.clock() >= c.limitAt:
		c.Close(nil)
	default:
		c.limit.Reset(min(lingerStep, c.limitAt-c.l.clock()))
	}
}
