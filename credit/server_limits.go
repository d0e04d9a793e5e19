package credit

import (
	"errors"
	"fmt"
	"time"

	"github.com/weirflow/weir/netio"
)

// Bounds of what a client may cost a server. A connection costs some kilobytes, at most maxUnwantedEvent for a message that is not
// whole and maxAnswers for answers to what it did wrong; beyond that, all connections together what RegistryConfig.MaxWaiting says.
const (
	// DefaultMaxConnections is the default of ServerOptions.MaxConnections. Each process that consumes has one.
	DefaultMaxConnections = 4096
	// maxUnwantedEvent bounds the task events of clients, which no producer here takes.
	maxUnwantedEvent = 16 << 10
	// maxAnswers bounds the answers to wrong requests that a client has not read, in bytes.
	maxAnswers = 64 << 10
	// answersLimit is how long a client may take to read more answers than that, which it gets for right requests: partitions that are
	// not there.
	answersLimit = 30 * time.Second
)

var (
	// ErrTooManyConnections: a server has as many connections as it may have.
	ErrTooManyConnections = errors.New("too many connections")
	// ErrSilent ends a connection whose client has not sent a whole message in time.
	ErrSilent = errors.New("no whole message in time after connecting")
	// ErrFlood ends the connection of a client whose requests cause answers that it does not read.
	ErrFlood = errors.New("the client does not read the answers to its requests")
)

// admit tells whether another connection may be.
func (s *Server) admit(c *netio.Conn) bool {
	if len(s.conns) < s.opt.MaxConnections {
		return true
	}
	if now := s.loop.Now(); s.opt.OnError != nil && now.Sub(s.refused) >= time.Second {
		s.refused = now
		s.opt.OnError(&ConnError{Peer: c.RemoteAddr().String(), Err: fmt.Errorf("%w: %d, the limit", ErrTooManyConnections, len(s.conns))})
	}
	return false
}

// reportsPerSecond bounds how many clients' errors are reported in a second; the others are counted.
const reportsPerSecond = 16

// reports counts them.
type reports struct {
	since        time.Time
	told, untold int
}

// report tells of a client's error.
func (s *Server) report(err error) {
	r := &s.reports
	if now := s.loop.Now(); now.Sub(r.since) >= time.Second {
		r.since, r.told = now, 0
	}
	switch {
	case s.opt.OnError == nil:
	case r.told == reportsPerSecond:
		r.untold++
	default:
		if r.told++; r.untold > 0 {
			err = fmt.Errorf("%w (%d more clients before)", err, r.untold)
			r.untold = 0
		}
		s.opt.OnError(err)
	}
}

// deadlines are connections that must do something in time, all within the same time: the first one's is up first.
type deadlines struct {
	within      time.Duration
	timer       *netio.Timer
	first, last *deadline
	missed      func(*serverConn)
}

// deadline is a connection's place in line.
type deadline struct {
	h          *serverConn
	at         time.Time
	prev, next *deadline
	armed      bool
}

func (l *deadlines) init(loop *netio.Loop, within time.Duration, missed func(*serverConn)) {
	l.within, l.missed = within, missed
	l.timer = loop.NewTimer(func() { l.expire(loop) })
}

// arm puts a connection in line.
func (l *deadlines) arm(d *deadline, h *serverConn) {
	now := h.server.loop.Now()
	d.h, d.at, d.armed, d.prev = h, now.Add(l.within), true, l.last
	if l.last != nil {
		l.last.next = d
	} else {
		l.first = d
		l.timer.Reset(l.within)
	}
	l.last = d
}

// disarm takes it out, if it is in.
func (l *deadlines) disarm(d *deadline) {
	if !d.armed {
		return
	}
	if d.prev != nil {
		d.prev.next = d.next
	} else {
		l.first = d.next
	}
	if d.next != nil {
		d.next.prev = d.prev
	} else {
		l.last = d.prev
	}
	*d = deadline{}
}

// expire is for those whose time is up.
func (l *deadlines) expire(loop *netio.Loop) {
	now := loop.Now()
	for d := l.first; d != nil && !d.at.After(now); d = l.first {
		h := d.h
		l.disarm(d)
		l.missed(h)
	}
	if l.first != nil {
		l.timer.Reset(l.first.at.Sub(now))
	}
}

// silent ends a connection without a first message.
func (s *Server) silent(h *serverConn) {
	h.fail(fmt.Errorf("%w: %d bytes of one in %v", ErrSilent, h.decoder.Partial(), s.opt.FirstMessage))
}

// unread ends a connection that still has answers to take which were queued long ago.
func (s *Server) unread(h *serverConn) {
	if h.sent() < h.answersMark {
		h.fail(fmt.Errorf("%w: %d bytes in %v", ErrFlood, h.answers.unread(h.sent()), answersLimit))
	}
}

// answers counts the bytes of answers that were not written, in two generations: once the older one is written, the younger one is the
// older. So it counts no more than were queued while those before them were on their way.
type answers struct {
	old, young       int
	oldEnd, youngEnd int64 // where they end in the outgoing stream
}

func (a *answers) add(n int, end int64) {
	a.young += n
	a.youngEnd = end
}

func (a *answers) unread(sent int64) int {
	for range 2 {
		if sent >= a.oldEnd {
			a.old, a.oldEnd = a.young, a.youngEnd
			a.young = 0
		}
	}
	return a.old + a.young
}

// sent is how many bytes of the outgoing stream were written.
func (h *serverConn) sent() int64 { return h.queued - int64(h.conn.Pending()) }

// answered counts an answer that was queued.
func (h *serverConn) answered(n int) {
	h.queued += int64(n)
	h.answers.add(n, h.queued)
	if h.unread.armed || !h.Flooded() {
		return
	}
	h.answersMark = h.queued
	h.server.unreads.arm(&h.unread, h)
}

// Flooded is part of Flooder.
func (h *serverConn) Flooded() bool { return h.answers.unread(h.sent()) > maxAnswers }
