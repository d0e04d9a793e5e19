//go:build linux && !weirportable

package netio

import "golang.org/x/sys/unix"

// The rule of peeking. A read that empties a socket has the kernel acknowledge what it took, within the call, unless an answer on the same
// connection is about to carry that; in Flink's protocol the answer goes over another connection. So each small message costs its receiver a
// packet of its own before anybody looks at it, a third of its way on loopback. A read that leaves the bytes in the socket (MSG_PEEK), and begins
// where the last one ended (SO_PEEK_OFF, which TCP has since Linux 6.9), acknowledges nothing. Small messages are read like that, and taken out of
// the socket several at a time, without another copy (MSG_TRUNC), when the loop has nothing better to do. A kernel that has waited for that
// for too long acknowledges by itself.
//
// Bytes that were seen must not be reported again, so SO_RCVLOWAT is one more than they are: raised before the kernel is asked, lowered at once
// when they are taken. It may be too low for a while, which costs a read in vain, and is never too high. The rule of lowat.go is for bulk, this
// one for small messages: a connection is under one of them at most.
const (
	peekSmall = 1 << 10 // bytes of a small read
	peekAfter = 8       // small reads in a row after which a connection peeks
	peekTake  = 8       // looks after which what they saw is taken
	peekMost  = 4 << 10 // bytes that are taken in any case
)

// peek is the state of the rule for one connection.
type peek struct {
	on, never bool  // never: the kernel cannot
	stale     bool  // in loopSys.stale
	count     uint8 // on: looks since bytes were taken; off: small reads in a row
	writes    uint8 // meanwhile: each carries an acknowledgement
	owed      int   // bytes seen and not taken
	level     int   // SO_RCVLOWAT as the kernel has it, if on: at most owed+1
}

// peekRule is applied after a read of n bytes that took them.
func (c *Conn) peekRule(n int) {
	k := &c.sys.peek
	if n > peekSmall || k.never {
		k.count = 0
		return
	}
	if k.count++; k.count == 1 {
		k.writes = 0
	}
	if k.count < peekAfter {
		return
	}
	k.count = 0
	l := c.l
	if k.writes > peekAfter/4 || c.finishing || c.raisedAt >= 0 || l.cfg.NoPeek || c.net == "unix" || c.sys.tls != nil ||
		l.hooks != nil && (l.hooks.read != nil || l.hooks.readv != nil) {
		return
	}
	if unix.SetsockoptInt(c.sys.fd, unix.SOL_SOCKET, unix.SO_PEEK_OFF, 0) != nil {
		k.never = true
		return
	}
	k.on, k.writes, k.level = true, 0, 1
}

// look reads into p what was not seen yet.
func (c *Conn) look(p []byte) (int, unix.Errno) {
	k := &c.sys.peek
	n, errno := sysRecv(c.sys.fd, p, len(p), unix.MSG_PEEK)
	switch {
	case errno == 0 && n > 0:
		k.owed += n
		k.count++
		c.l.stats.Peeks++
		if n > peekSmall || k.owed > peekMost || c.finishing {
			c.stopPeek()
		} else if !k.stale {
			k.stale = true
			c.l.sys.stale = append(c.l.sys.stale, c)
		}
	case errno == 0:
		c.stopPeek() // the end: whoever waits for an acknowledgement of it gets one
	case errno == unix.EAGAIN && !c.l.sys.polling:
		c.take() // the kernel took something that was seen for news
	}
	return n, errno
}

// take takes out of the socket what was seen.
func (c *Conn) take() {
	k := &c.sys.peek
	for k.owed > 0 {
		n, errno := sysRecv(c.sys.fd, nil, k.owed, unix.MSG_TRUNC)
		if errno == unix.EINTR {
			continue
		}
		if n <= 0 { // nobody else reads from it, so this cannot be
			k.owed = 0
			c.Close(c.opError("read", errno))
			return
		}
		k.owed -= n
	}
	k.count, k.writes = 0, 0
	c.peekLevel()
}

// peekLevel has the kernel report what was not seen.
func (c *Conn) peekLevel() {
	if k := &c.sys.peek; k.level != k.owed+1 && c.lowat(k.owed+1) {
		k.level = k.owed + 1
	}
}

// stopPeek ends peeking: the next read takes what it reads.
func (c *Conn) stopPeek() {
	k := &c.sys.peek
	if !k.on {
		return
	}
	c.take()
	k.on = false
}

// sysSettlePeeks is called before the kernel is asked what there is; idle: the loop is about to wait, so there is time to take what was seen.
func (l *Loop) sysSettlePeeks(idle bool) {
	for i, c := range l.sys.stale {
		l.sys.stale[i] = nil
		k := &c.sys.peek
		k.stale = false
		switch {
		case !k.on:
		case idle && k.writes > peekTake/2: // they carry the acknowledgements
			c.stopPeek()
		case idle && k.count >= peekTake:
			c.take()
		default:
			c.peekLevel()
		}
	}
	l.sys.stale = l.sys.stale[:0]
}
