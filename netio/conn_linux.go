//go:build linux && !weirportable

package netio

import (
	"golang.org/x/sys/unix"
)

// sysConn is the native half of a connection: a non-blocking socket.
type sysConn struct {
	fd   int
	slot int32
	mask uint32   // in the epoll set; 0: not in it
	tls  *tlsLink // nil: a plain connection
	peek peek
}

// maxDrain bounds what is read after a failed write, in bytes: more than a socket's buffer holds.
const maxDrain = 256 << 20

// wants is the only place where the interest of a connection is decided.
func (c *Conn) wants() (mask uint32) {
	if !c.paused && !c.ended && (c.sys.tls == nil || !c.sys.tls.choked()) {
		mask |= unix.EPOLLIN
	}
	if c.blocked {
		mask |= unix.EPOLLOUT
	}
	return mask
}

func (c *Conn) sysAttach() error {
	if c.sys.tls != nil {
		if err := c.tlsAttach(); err != nil {
			return err
		}
	}
	c.sys.slot = c.l.sys.takeSlot(c)
	mask := c.wants()
	if err := c.l.setMask(c.sys.fd, c.sys.slot, 0, mask); err != nil {
		return c.opError("epoll_ctl", err)
	}
	c.sys.mask = mask
	return nil
}

func (c *Conn) sysInterest() {
	if k := c.sys.tls; k != nil && k.again && !c.paused && !k.choked() {
		c.WantFlush()
	}
	mask := c.wants()
	if mask == c.sys.mask {
		return
	}
	if err := c.l.setMask(c.sys.fd, c.sys.slot, c.sys.mask, mask); err != nil {
		c.Close(c.opError("epoll_ctl", err))
		return
	}
	c.sys.mask = mask
}

// sysClose closes the descriptor, once.
func (c *Conn) sysClose() {
	if c.l.sys.last == c {
		c.l.sys.last = nil
	}
	if c.sys.slot > 0 {
		if c.sys.mask != 0 {
			// Explicit, as another descriptor of the same socket would keep the entry alive.
			_ = c.l.setMask(c.sys.fd, c.sys.slot, c.sys.mask, 0)
			c.sys.mask = 0
		}
		c.l.sys.dropSlot(c.sys.slot)
		c.sys.slot = 0
	}
	if c.sys.fd >= 0 {
		c.stopPeek() // what was left unread would reset the connection
		c.l.closeFD(c.sys.fd)
		c.sys.fd = -1
	}
}

func (l *Loop) closeFD(fd int) {
	if h := l.hooks; h != nil && h.closeFD != nil {
		h.closeFD(fd)
	}
	_ = unix.Close(fd)
}

// event handles what the kernel reports of the connection.
func (c *Conn) event(mask uint32) {
	const hangup = unix.EPOLLHUP | unix.EPOLLERR
	if c.closed {
		c.farewell()
		return
	}
	if mask&(unix.EPOLLOUT|hangup) != 0 && c.blocked {
		c.blocked = false // in case of a hang-up the write finds out what happened
		c.WantFlush()
	}
	if mask&(unix.EPOLLIN|hangup) != 0 && !c.paused && !c.ended {
		c.sysReadOnce(mask&hangup != 0)
	}
}

// sysReadOnce reads once; more is left to the next turn. It reports whether the connection may have more.
func (c *Conn) sysReadOnce(hangup bool) (again bool) {
	l := c.l
	if c.sys.tls != nil {
		return c.tlsRead(hangup)
	}
	if c.sys.peek.on {
		n, errno := c.look(l.sys.region)
		if c.closed {
			return false
		}
		return c.readDone(n, errno, hangup, nil)
	}
	if h := c.space; h != nil && !c.finishing && !l.sys.polling {
		s := &l.sys.space
		s.reset(l.cfg.ReadSize)
		if h.OnSpace(c, s); s.size > 0 {
			n, errno := c.readSpace(s)
			return c.readDone(n, errno, hangup, h)
		}
	}
	n, errno := c.readInto(l.sys.region)
	return c.readDone(n, errno, hangup, nil)
}

// readDone handles the outcome of a read, into the space that h has offered and the region behind, or, if h is nil, into the region.
func (c *Conn) readDone(n int, errno unix.Errno, hangup bool, h SpaceHandler) (again bool) {
	l := c.l
	if h != nil && (errno != 0 || n == 0) {
		_ = h.OnFilled(c, 0, nil) // nothing has come that could be wrong
	}
	switch {
	case errno == unix.EAGAIN:
		if hangup {
			c.hungUp()
		}
	case errno == unix.EINTR:
		return true
	case errno != 0:
		err := c.writeErr
		if err == nil {
			err = c.opError("read", errno)
		}
		c.Close(err)
	case n == 0:
		c.endOfStream()
	default:
		l.sys.last = c
		l.stats.Reads++
		l.stats.ReadBytes += uint64(n)
		var ok bool
		if h != nil {
			ok = c.receivedSpace(h, n)
		} else {
			ok = c.received(l.sys.region[:n])
		}
		if ok {
			if c.lowatRule(n); !c.sys.peek.on {
				c.peekRule(n)
			}
			return true
		}
	}
	return false
}

// readSpace reads into s, and what is more into the end of the region: its beginning is left for what the handler copies.
func (c *Conn) readSpace(s *Space) (int, unix.Errno) {
	v := &c.l.sys.vec
	v.reset()
	for _, p := range s.pieces {
		v.add(p)
	}
	if rest := c.l.sys.region[s.size:]; len(rest) > 0 {
		v.add(rest)
	}
	var n int
	var errno unix.Errno
	if h := c.l.hooks; h != nil && h.readv != nil {
		n, errno = h.readv(c, v)
	} else {
		n, errno = v.read(c.sys.fd)
	}
	v.release()
	s.forget()
	return n, errno
}

// receivedSpace passes what was read to h, which has offered space, and the rest to the handler; false: the connection is closed now.
func (c *Conn) receivedSpace(h SpaceHandler, n int) bool {
	c.spurious = 0
	region, size := c.l.sys.region, c.l.sys.space.size
	if err := h.OnFilled(c, min(n, size), region[:size]); err != nil {
		c.Close(err)
	}
	if c.closed || n <= size {
		return !c.closed
	}
	return c.received(region[size:n])
}

func (c *Conn) readInto(p []byte) (int, unix.Errno) {
	if h := c.l.hooks; h != nil && h.read != nil {
		return h.read(c, p)
	}
	return sysRead(c.sys.fd, p)
}

// hungUp: neither data nor an error. It allows for an event that was overtaken, but does not turn round for ever.
func (c *Conn) hungUp() {
	if c.spurious++; c.spurious >= 2 {
		c.Close(c.opError("read", c.hangupReason()))
	}
}

// hangupReason asks the socket why it hung up.
func (c *Conn) hangupReason() error {
	if n, err := unix.GetsockoptInt(c.sys.fd, unix.SOL_SOCKET, unix.SO_ERROR); err == nil && n != 0 {
		return unix.Errno(n)
	}
	return ErrHangup
}

// sysDrain reads everything that came before a write failed, then closes the connection with the write's error.
func (c *Conn) sysDrain() {
	before := c.l.stats.ReadBytes
	for !c.closed && !c.paused && c.sysReadOnce(false) && c.l.stats.ReadBytes-before < maxDrain {
	}
	if !c.closed && !c.paused {
		c.Close(c.writeErr)
	}
}

// sysWrite writes once, at most about BatchBytes and MaxVectors pieces.
func (c *Conn) sysWrite() {
	if c.sys.tls != nil {
		c.tlsWrite()
		return
	}
	if c.out.files > 0 {
		c.sysWriteFiles()
		return
	}
	l := c.l
	v := &l.sys.vec
	v.reset()
	total := 0
	for i := range uint32(min(c.out.len(), MaxVectors)) {
		p := c.out.at(i).p
		if len(p) == 0 {
			continue
		}
		// A batch ends with a whole frame if it can: the collector waits for the call, but not for a few more µs.
		if total+len(p) > BatchBytes+chunkSize {
			p = p[:BatchBytes+chunkSize-total]
		}
		v.add(p)
		if total += len(p); total >= BatchBytes {
			break
		}
	}
	n, errno := c.writeVectors(v)
	v.release()
	c.wrote("write", n, total, errno)
}

// wrote notes what a system call has written of want bytes. It returns false if nothing more is to be written now.
func (c *Conn) wrote(op string, n, want int, errno unix.Errno) bool {
	switch errno {
	case 0:
		c.l.stats.Writes++
		c.l.stats.WriteBytes += uint64(n)
		c.acknowledge(n)
		c.sys.peek.writes++  // it may wrap: then peeking goes on for a while
		c.blocked = n < want // the socket is full
	case unix.EAGAIN:
		c.blocked = true
	case unix.EINTR:
	default:
		c.writeFailed(c.opError(op, errno))
		return false
	}
	return !c.blocked
}

func (c *Conn) writeVectors(v *vectors) (int, unix.Errno) {
	if h := c.l.hooks; h != nil && h.write != nil {
		return h.write(c, v)
	}
	return v.write(c.sys.fd)
}

func (c *Conn) sysShutdown() error {
	if c.sys.tls != nil {
		return c.tlsShutdown()
	}
	return unix.Shutdown(c.sys.fd, unix.SHUT_WR)
}

// sealed is how much was encrypted and is still to be written.
func (c *Conn) sealed() int {
	if c.sys.tls == nil {
		return 0
	}
	return c.sys.tls.sealed()
}

// sysAgain reads without being told by the kernel, if there is a reason.
func (c *Conn) sysAgain() {
	if k := c.sys.tls; k != nil && k.again {
		c.tlsAgain()
	}
}

// delivered tells whether the peer's kernel has everything that was written.
func (c *Conn) delivered() bool {
	if c.net == "unix" {
		return true // it lies in the peer's queue already, and stays there
	}
	n, err := unix.IoctlGetInt(c.sys.fd, unix.SIOCOUTQ)
	return err != nil || n == 0
}

func (c *Conn) sysLowat(n int) bool {
	c.stopPeek()
	return c.lowat(n)
}

func (c *Conn) lowat(n int) bool {
	return unix.SetsockoptInt(c.sys.fd, unix.SOL_SOCKET, unix.SO_RCVLOWAT, n) == nil
}
