//go:build linux && !weirportable

package netio

import (
	"io"

	"golang.org/x/sys/unix"
)

// The rule of peeking. A read that empties a socket has the kernel acknowledge what it took, within the call, unless an answer on the same
// connection is about to carry that; in Flink's protocol the answer goes over another connection. So each small message costs its receiver a
// packet of its own before anybody looks at it, a third of its way on loopback. A read that leaves the bytes in the socket (MSG_PEEK), and begins
// where the last one ended (SO_PEEK_OFF, which TCP has since Linux 6.9), acknowledges nothing. So a loop that polls looks at small messages, and takes
// them out of the socket, without another copy (MSG_TRUNC), when it has nothing better to do: several at a time if the next ones come at once.
//
// Bytes stay in the socket for a moment only. Their sender may be waiting: its window counts packets, and Nagle's algorithm waits for all of
// them. They take up the kernel's memory, a page each. And closing a socket with unread bytes resets the connection. So whatever was seen is
// taken after peekIdle of polling in vain, before the loop sleeps, and after peekBusy turns that did other things; there are peekTake looks at most.
//
// Bytes that were seen must not be reported again, so SO_RCVLOWAT is one more than they are: raised before the kernel is asked, lowered at once
// when they are taken. It may be too low for a while, which costs a read in vain, and is never too high. The rule of lowat.go is for bulk, this
// one for small messages: a connection is under one of them at most.
const (
	peekSmall = 1 << 10 // bytes of a small read
	peekAfter = 8       // small reads in a row after which a connection peeks
	peekTurn  = 8       // looks after which what they saw is taken when the kernel is asked
	peekTake  = 32      // and at once
	peekMost  = 8 << 10 // bytes, likewise
	peekConns = 64      // connections of a loop that peeks: it goes over them
	peekBusy  = 16      // turns
)

// peek is the state of the rule for one connection.
type peek struct {
	on, never bool  // never: the kernel cannot
	listed    bool  // in loopSys.owing
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
	if k.writes <= peekAfter/4 && c.mayPeek() {
		if k.never = !c.startPeek(); !k.never {
			k.on, k.writes, k.owed, k.level = true, 0, 0, 1
		}
	}
}

func (c *Conn) mayPeek() bool {
	l := c.l
	return !l.cfg.NoPeek && l.pollFor() > 0 && len(l.conns) <= peekConns && c.net != "unix" && c.sys.tls == nil && !c.finishing && c.raisedAt < 0 &&
		(l.hooks == nil || l.hooks.read == nil && l.hooks.readv == nil)
}

// startPeek sets the socket up. It asks for what it has set: there are kernels that take the option and do not know it. Urgent bytes, which nobody
// sends in earnest, count as others from then on: the kernel would see one of them twice.
func (c *Conn) startPeek() bool {
	set := func(opt, v int) bool { return unix.SetsockoptInt(c.sys.fd, unix.SOL_SOCKET, opt, v) == nil }
	if !set(unix.SO_PEEK_OFF, 0) || !set(unix.SO_OOBINLINE, 1) {
		return false
	}
	off, err := unix.GetsockoptInt(c.sys.fd, unix.SOL_SOCKET, unix.SO_PEEK_OFF)
	return err == nil && off == 0
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
		c.l.sys.busy = 0
		switch {
		case n > peekSmall || k.writes > peekTurn/2 || c.finishing: // others than small messages, or what is written carries the acknowledgements
			c.stopPeek()
		case k.count >= peekTake || k.owed > peekMost:
			c.take()
		case !k.listed:
			k.listed = true
			c.l.sys.owing = append(c.l.sys.owing, c)
		}
	case errno == 0:
		c.stopPeek() // the end: the socket is empty, as after a read
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
		if n <= 0 { // what was seen is there, as nobody else reads from it
			k.owed = 0
			err := io.ErrUnexpectedEOF
			if errno != 0 {
				err = errno
			}
			c.Close(c.opError("read", err))
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
	if k := &c.sys.peek; k.on {
		c.take()
		k.on = false
	}
}

// sysSettlePeeks is called before the kernel is asked what there is. idle: the loop polls, and has time to take what was seen, if that is much.
func (l *Loop) sysSettlePeeks(idle bool) {
	kept := l.sys.owing[:0]
	for _, c := range l.sys.owing {
		k := &c.sys.peek
		if idle && k.count >= peekTurn {
			c.take()
		}
		if k.listed = k.owed > 0; k.listed {
			c.peekLevel()
			kept = append(kept, c)
		}
	}
	clear(l.sys.owing[len(kept):])
	l.sys.owing = kept
}

// sysTakePeeks takes out of all sockets what was seen. Nothing is left in them when the loop sleeps.
func (l *Loop) sysTakePeeks() {
	for i, c := range l.sys.owing {
		l.sys.owing[i] = nil
		c.sys.peek.listed = false
		c.take()
	}
	l.sys.owing = l.sys.owing[:0]
}

// sysBusy is called after a turn that did something: a loop that is never idle takes what was seen, too.
func (l *Loop) sysBusy() {
	if len(l.sys.owing) == 0 {
		return
	}
	if l.sys.busy++; l.sys.busy > peekBusy {
		l.sysTakePeeks()
	}
}
