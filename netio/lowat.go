package netio

import "time"

// The rule of SO_RCVLOWAT. Asking the kernel to report data only in portions of lowatBytes saves wake-ups and system calls
// while bulk flows: the reader gets four full frames at a time instead of one or two. It costs most of the rate if the peer
// stops for want of credit before the portion is full. So it is raised only after a read that brought at least two full
// frames, and while credit for at least lowatCredit full buffers is out. A lone small frame behind bulk must not wait:
// while it is raised a sleep lasts at most lowatWait, and an idle time of that length lowers it. A loop that polls lowers it as soon
// as polling, or the nap in its place, brought nothing, before it sleeps: the peer has stopped, be it for a moment (a checkpoint barrier), and
// what it sent last is less than a portion.
const (
	lowatBytes  = 128 << 10
	lowatCredit = 24
	lowatFrames = 2
	lowatWait   = time.Millisecond
)

// lowatRule is applied after a read of n bytes.
func (c *Conn) lowatRule(n int) {
	c.setLowat(c.credit >= lowatCredit && n >= lowatFrames*c.l.cfg.FullFrame && !c.l.cfg.NoLowat)
}

// setLowat raises or lowers it, if that is a change.
func (c *Conn) setLowat(raise bool) {
	if raise == (c.raisedAt >= 0) || c.p != nil {
		return
	}
	l := c.l
	if raise {
		if c.closed || !c.sysLowat(lowatBytes) {
			return
		}
		c.raisedAt = len(l.raised)
		l.raised = append(l.raised, c)
	} else {
		if !c.closed {
			c.sysLowat(1)
		}
		last := len(l.raised) - 1
		moved := l.raised[last]
		l.raised[c.raisedAt], moved.raisedAt = moved, c.raisedAt
		l.raised[last] = nil
		l.raised = l.raised[:last]
		c.raisedAt = -1
	}
	l.stats.Lowats++
}

// lowatIdle lowers all connections once the loop has had nothing to do for lowatWait.
func (l *Loop) lowatIdle(worked bool) {
	if worked {
		l.raisedIdle = 0
		return
	}
	now := l.clock()
	if l.raisedIdle == 0 {
		l.raisedIdle = now
		return
	}
	if now-l.raisedIdle < lowatWait {
		return
	}
	l.lowerAll()
}

// lowerAll has the kernel report everything on all connections.
func (l *Loop) lowerAll() {
	for len(l.raised) > 0 {
		l.raised[len(l.raised)-1].setLowat(false)
	}
	l.raisedIdle = 0
}
