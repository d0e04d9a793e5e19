package netio

// flushDirty flushes the connections that asked for it.
func (l *Loop) flushDirty() {
	l.dirty, l.flushing = l.flushing[:0], l.dirty
	for i, c := range l.flushing {
		l.flushing[i] = nil
		c.dirty = false
		c.sysAgain()
		c.flush()
	}
}

// publishReleased makes released buffers visible to their owner.
func (c *Conn) publishReleased() {
	if c.released {
		c.released = false
		if c.releaser != nil {
			c.releaser.Flush()
		}
	}
}

// flush fills and writes once.
func (c *Conn) flush() {
	if c.closed || c.blocked || c.index < 0 {
		return
	}
	if !c.finishing && !c.Full() && !c.deaf() {
		c.filling = true
		c.h.OnFlush(c)
		c.filling = false
		if c.closed {
			c.publishReleased()
			return
		}
	}
	more := c.Full()
	if c.unsent() > 0 {
		if c.p != nil {
			c.p.write()
		} else {
			c.sysWrite()
		}
	}
	if c.closed {
		return
	}
	switch {
	case c.unsent() > 0:
		if !c.blocked {
			c.WantFlush() // more than one write's worth
		}
	case c.shutWrite && !c.wasShut:
		c.wasShut = true
		c.shutdownWrite()
		if c.ended && !c.closed && !c.shutting() {
			c.Close(nil)
		}
	}
	c.publishReleased()
	if c.closed {
		return
	}
	if more && !c.blocked {
		c.WantFlush()
	}
	if c.finishing && c.unsent() == 0 {
		c.finish()
	}
	if !c.closed {
		c.interest()
	}
}

// unsent is how much is queued, or encrypted already, and not yet written.
func (c *Conn) unsent() int { return c.out.bytes + c.sealed() }

// shutting tells whether the end of stream is being sent (portable, TLS).
func (c *Conn) shutting() bool { return c.p != nil && c.p.shutting || c.wasShut && c.sealed() > 0 }

// shutdownWrite sends the end of stream.
func (c *Conn) shutdownWrite() {
	if c.p != nil {
		c.p.shutdownWrite()
		return
	}
	if err := c.sysShutdown(); err != nil {
		c.writeFailed(c.opError("shutdown", err))
	}
}

// writeFailed keeps the error until everything that came before is read, then closes the connection with it.
func (c *Conn) writeFailed(err error) {
	if c.closed || c.writeErr != nil {
		return
	}
	c.writeErr = err
	c.blocked = false
	if c.p != nil || c.ended {
		c.Close(err)
		return
	}
	c.drop()
	if !c.paused {
		c.sysDrain()
		return
	}
	c.interest()
}

// received passes what was read to the handler; false: the connection is closed now.
func (c *Conn) received(p []byte) bool {
	c.spurious = 0
	if c.finishing {
		return true
	}
	if err := c.h.OnRead(c, p); err != nil {
		c.Close(err)
	}
	return !c.closed
}

// endOfStream: the peer sends no more.
func (c *Conn) endOfStream() {
	c.ended = true
	switch e, ok := c.h.(EndHandler); {
	case c.writeErr != nil:
		c.Close(c.writeErr)
	case c.finishing:
		if c.unsent() == 0 && !c.shutting() {
			c.Close(nil)
			return
		}
		c.interest()
	case ok:
		e.OnEnd(c)
		if c.closed {
			return
		}
		if c.wasShut && !c.shutting() {
			c.Close(nil)
			return
		}
		c.interest()
	case c.unsent() == 0:
		c.Close(nil)
	default:
		c.CloseAfterFlush(c.l.cfg.Grace)
		c.interest()
	}
}
