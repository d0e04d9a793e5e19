package checkpoint

import (
	"fmt"
	"slices"
	"time"
)

// hello says that a connection is that of a member's process. It is followed by join or resume.
func (c *core) hello(conn connID, name, nonce string) {
	m := c.find(name)
	if m == nil {
		c.drop(conn, &message{Kind: msgRefused, Cause: fmt.Sprintf("%.120q is no member of this pipeline", name)})
		return
	}
	if m.nonce != nonce {
		if slices.Contains(m.old, nonce) {
			c.drop(conn, &message{Kind: msgReplaced})
			return
		}
		if m.standing == running || m.standing == away {
			// A process of this name is in the epoch. This one either is newer, or lost its place before a coordinator that
			// remembers it: which one it is, join or resume tells.
			c.byConn[conn] = &member{name: name, conn: conn, nonce: nonce}
			return
		}
		c.replace(m, nonce)
	}
	c.attach(m, conn)
}

// replace makes another process that of a name.
func (c *core) replace(m *member, nonce string) {
	if m.nonce != "" {
		c.counts.Replaced++
		m.old = append(m.old, m.nonce)
		m.old = m.old[max(0, len(m.old)-maxOld):]
	}
	m.nonce = nonce
	if m.conn != 0 {
		c.note("member %s: its process is replaced by another one", m.name)
		delete(c.byConn, m.conn)
		c.drop(m.conn, &message{Kind: msgReplaced})
		m.conn = 0
	}
	if m.standing != gone {
		m.standing = absent
	}
}

// attach makes a connection that of a member.
func (c *core) attach(m *member, conn connID) {
	if m.conn != 0 && m.conn != conn {
		delete(c.byConn, m.conn)
		c.do(action{kind: doClose, conn: m.conn})
	}
	m.conn = conn
	c.byConn[conn] = m
	switch m.standing {
	case absent, joined:
		m.standing = connected
	}
}

// gone says that a connection is closed; silent: it was given up because nothing came for the time that makes a member lost.
func (c *core) gone(now time.Duration, conn connID, silent bool) {
	m := c.byConn[conn]
	delete(c.byConn, conn)
	if m == nil || m.conn != conn {
		return
	}
	m.conn, m.byeing = 0, false
	switch m.standing {
	case connected, joined:
		m.standing = absent
	case running:
		m.standing, m.deadline = away, now+c.cfg.memberTimeout
		if silent {
			m.deadline = now
			c.tick(now, time.Time{})
		}
	}
}

// receive takes a message of a member.
func (c *core) receive(now time.Duration, conn connID, msg *message) {
	m := c.byConn[conn]
	if m == nil {
		return
	}
	if known := c.find(m.name); known != m {
		// The process of a name that another process has in the epoch.
		delete(c.byConn, conn)
		if msg.Kind != msgJoin {
			c.drop(conn, &message{Kind: msgReplaced})
			return
		}
		old := known.standing
		c.replace(known, m.nonce)
		if old == running || old == away {
			c.fence(fmt.Sprintf("member %s was started again", m.name))
		}
		m = known
		c.attach(m, conn)
	}
	switch msg.Kind {
	case msgPing:
		c.send(m, &message{Kind: msgPong, MemberTimeout: c.cfg.memberTimeout})
	case msgJoin:
		c.join(m, msg.Epoch)
	case msgResume:
		c.resume(m, msg)
	case msgAck, msgDecline, msgEnded, msgFail:
		c.report(now, m, msg)
	case msgBye:
		c.bye(m)
	default:
		c.drop(conn, &message{Kind: msgRefused, Cause: fmt.Sprintf("a member sends no %s", msg.Kind)})
		c.gone(now, conn, false)
	}
}

// join: the process wants the next epoch, the last one that it knew was epoch. If it was in one, it is in it no longer.
func (c *core) join(m *member, epoch int32) {
	if epoch < maxEpoch {
		c.seen = max(c.seen, epoch)
	}
	if m.standing == running || m.standing == away {
		if c.phase != phaseFinishing {
			c.fence(fmt.Sprintf("member %s left it", m.name))
		}
	}
	switch c.phase {
	case phaseFinishing, phaseFinished:
		was := m.standing
		c.welcome(m)
		if was == gone {
			m.standing = gone // it may come back, but nobody waits for it
		}
	default:
		m.standing = joined
		c.maybeBegin()
	}
}

// resume: the process is in an epoch, and lost the connection.
func (c *core) resume(m *member, msg *message) {
	finishing := c.phase == phaseFinishing || c.phase == phaseFinished
	in := m.standing == running || m.standing == away
	if msg.Epoch != c.record.Epoch || !finishing && (!in || c.phase != phaseRunning && c.phase != phaseReturning) {
		if in {
			c.fence(fmt.Sprintf("member %s is in epoch %d", m.name, msg.Epoch))
		}
		c.send(m, &message{Kind: msgFenced, Epoch: msg.Epoch, Cause: "it was fenced while this member was away"})
		return
	}
	if m.standing != gone {
		m.standing = running
	}
	re := &message{Kind: msgResumed, Epoch: c.record.Epoch, Completed: c.completed, Last: c.last}
	for _, p := range c.inFlight {
		re.Triggers = append(re.Triggers, p.trigger)
	}
	c.send(m, re)
	if c.phase == phaseReturning && c.all(running) {
		c.phase = phaseRunning
		c.note("epoch %d goes on", c.record.Epoch)
	}
}

// report: an acknowledgement, or what else a member in the epoch has to say.
func (c *core) report(now time.Duration, m *member, msg *message) {
	if m.standing != running || msg.Epoch != c.record.Epoch {
		return // of an epoch that is over; the member has been told
	}
	switch msg.Kind {
	case msgAck:
		if p := c.flight(msg.ID); p != nil {
			if _, twice := p.acks[m.name]; !twice {
				p.acks[m.name] = MemberState{Name: m.name, Final: msg.Final, Parts: slices.Clone(msg.Parts)}
				c.maybeComplete()
			}
		}
	case msgDecline:
		if c.flight(msg.ID) != nil && (c.storing == nil || c.storing.ID != msg.ID) {
			c.abort(now, msg.ID, fmt.Sprintf("declined by member %s: %s", m.name, msg.Cause))
		}
	case msgEnded:
		m.ended = true
		c.tick(now, time.Time{})
	case msgFail:
		c.fence(fmt.Sprintf("member %s cannot go on: %s", m.name, msg.Cause))
	}
}

// bye: the process has committed the last checkpoint.
func (c *core) bye(m *member) {
	switch {
	case c.phase != phaseFinishing && c.phase != phaseFinished:
		c.fence(fmt.Sprintf("member %s said bye before the last checkpoint", m.name))
	case m.standing == gone:
		c.send(m, &message{Kind: msgGoodbye})
	default:
		m.byeing = true
		c.saveByes()
	}
}

// saveByes writes down who goes, before it is told that it may.
func (c *core) saveByes() {
	if c.saving {
		return
	}
	rec := c.record
	rec.Gone = nil
	for _, m := range c.members {
		if m.byeing || m.standing == gone {
			rec.Gone = append(rec.Gone, m.name)
		}
	}
	if len(rec.Gone) == len(c.record.Gone) {
		return
	}
	c.saving = true
	c.do(action{kind: doSave, record: rec})
}

// saved says that rec is written down, or why not.
func (c *core) saved(now time.Duration, rec record, err error) {
	c.saving = false
	if err != nil {
		c.retryAt = now + c.cfg.retry
		c.note("the coordinator's state cannot be written: %v", err)
		return
	}
	if rec.Epoch != c.record.Epoch {
		return // of an epoch before: opening the next one has written more
	}
	c.record = rec
	for _, name := range rec.Gone {
		if m := c.find(name); m != nil && m.standing != gone {
			m.standing, m.byeing = gone, false
			c.send(m, &message{Kind: msgGoodbye})
		}
	}
	if c.phase == phaseFinishing {
		c.saveByes()
	}
	c.maybeFinish()
}

func (c *core) maybeFinish() {
	if c.phase == phaseFinishing && c.all(gone) {
		c.phase = phaseFinished
		c.note("the pipeline has finished with checkpoint %d", c.completed)
	}
}
