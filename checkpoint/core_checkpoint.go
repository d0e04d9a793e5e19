package checkpoint

import (
	"fmt"
	"slices"
	"time"
)

// tick lets time pass; wall is what the clock on the wall says, for the barriers, or zero if no checkpoint is to begin now.
func (c *core) tick(now time.Duration, wall time.Time) {
	for _, m := range c.members {
		if m.standing == away && now >= m.deadline && c.phase != phaseFinishing {
			c.fence(fmt.Sprintf("member %s is lost", m.name))
		}
	}
	for _, p := range slices.Clone(c.inFlight) {
		if now >= p.deadline && (c.storing == nil || c.storing.ID != p.trigger.ID) {
			c.abort(now, p.trigger.ID, fmt.Sprintf("not acknowledged within %v by %s", c.cfg.timeout, c.missing(p)))
		}
	}
	if now >= c.retryAt {
		c.retryAt = 0
		c.maybeBegin()
		if c.phase == phaseFinishing {
			c.saveByes()
		}
		if c.phase == phaseRunning && c.record.Reserved-c.nextID < idLow && !c.saving {
			rec := c.record
			rec.Reserved = c.nextID + idBlock
			c.saving = true
			c.do(action{kind: doSave, record: rec})
		}
	}
	if !wall.IsZero() && now >= c.triggerAt() {
		c.trigger(now, wall)
	}
}

// missing names who has not acknowledged.
func (c *core) missing(p *pending) (names []string) {
	for _, m := range c.members {
		if _, ok := p.acks[m.name]; !ok {
			names = append(names, m.name)
		}
	}
	return names
}

const never = time.Duration(1<<63 - 1)

// ended tells whether all members have reached the end of their data.
func (c *core) ended() bool {
	return !slices.ContainsFunc(c.members, func(m *member) bool { return !m.ended })
}

// triggerAt is when the next checkpoint may begin.
func (c *core) triggerAt() time.Duration {
	if c.phase != phaseRunning || !c.all(running) || len(c.inFlight) >= c.cfg.maxInFlight || c.nextID >= c.record.Reserved {
		return never
	}
	at := max(c.lastTrigger+c.cfg.interval, c.lastEnd+c.cfg.minPause)
	if c.ended() {
		if slices.ContainsFunc(c.inFlight, func(p *pending) bool { return p.trigger.Final }) {
			return never
		}
		// The last one does not wait for its time; only its second try does a little.
		at = min(at, c.lastEnd+min(c.cfg.interval, c.cfg.retry))
		if !c.triedLast {
			at = 0
		}
	}
	return at
}

// next is when tick has something to do.
func (c *core) next() time.Duration {
	at := c.triggerAt()
	for _, m := range c.members {
		if m.standing == away && c.phase != phaseFinishing {
			at = min(at, m.deadline)
		}
	}
	for _, p := range c.inFlight {
		if c.storing == nil || c.storing.ID != p.trigger.ID {
			at = min(at, p.deadline)
		}
	}
	if c.retryAt > 0 {
		at = min(at, c.retryAt)
	}
	return at
}

func (c *core) trigger(now time.Duration, wall time.Time) {
	t := Trigger{
		ID: c.nextID, Time: wall.Round(0).Truncate(time.Millisecond), Alignment: c.cfg.alignment, Final: c.ended(),
	}
	if t.Alignment == Timed {
		t.AlignmentTimeout = c.cfg.alignTimeout
	}
	c.nextID++
	c.lastTrigger, c.triedLast = now, t.Final
	c.counts.Triggered++
	c.inFlight = append(c.inFlight, &pending{trigger: t, deadline: now + c.cfg.timeout, acks: map[string]MemberState{}})
	for _, m := range c.members {
		c.send(m, &message{Kind: msgTrigger, Epoch: c.record.Epoch, Triggers: []Trigger{t}})
	}
}

// abort gives a checkpoint up.
func (c *core) abort(now time.Duration, id int64, cause string) {
	c.counts.Aborted++
	c.lastEnd = now
	c.inFlight = slices.DeleteFunc(c.inFlight, func(p *pending) bool { return p.trigger.ID == id })
	c.note("checkpoint %d is aborted: %s", id, cause)
	for _, m := range c.members {
		if m.standing == running {
			c.send(m, &message{Kind: msgAborted, Epoch: c.record.Epoch, ID: id, Cause: cause})
		}
	}
	c.do(action{kind: doDiscard, id: id})
}

// maybeComplete writes the newest checkpoint that all have acknowledged.
func (c *core) maybeComplete() {
	if c.storing != nil || c.phase != phaseRunning {
		return
	}
	for _, p := range slices.Backward(c.inFlight) {
		if len(p.acks) < len(c.members) {
			continue
		}
		m := &Metadata{ID: p.trigger.ID, Epoch: c.record.Epoch, Time: p.trigger.Time, Last: true}
		for _, name := range c.cfg.members {
			s := p.acks[name]
			m.Members = append(m.Members, s)
			m.Last = m.Last && s.Final
		}
		c.storing = m
		c.do(action{kind: doComplete, meta: m})
		return
	}
}

// stored says that the metadata of a checkpoint is durable, or why not.
func (c *core) stored(now time.Duration, id int64, err error) {
	m := c.storing
	if m == nil || m.ID != id {
		return
	}
	c.storing = nil
	fenced := c.phase == phaseFencing
	if fenced {
		c.phase = phaseGathering
	}
	if err != nil {
		// It may be durable all the same. Then it is as good as any: a cut that all members took part in. But nobody commits it
		// now, and the next epoch is told whether it is there.
		c.abort(now, id, err.Error())
		c.maybeComplete()
		c.maybeBegin()
		return
	}
	c.completed, c.last, c.lastEnd = id, m.Last, now
	c.counts.Completed++
	if m.Last {
		c.restored = m
		c.phase = phaseFinishing
	}
	c.settle(id)
	for _, mem := range c.members {
		if mem.standing == running {
			c.send(mem, &message{Kind: msgCompleted, Epoch: c.record.Epoch, ID: id, Last: m.Last})
		}
	}
	for _, mem := range c.members {
		if m.Last && mem.standing == joined {
			c.welcome(mem)
		}
	}
	c.maybeComplete()
	c.maybeBegin()
}

// settle ends the checkpoints up to the one that was completed: the older ones are contained in it.
func (c *core) settle(id int64) {
	var keep []int64
	var left []*pending
	for _, p := range c.inFlight {
		switch {
		case p.trigger.ID > id && !c.last:
			left = append(left, p)
			keep = append(keep, p.trigger.ID)
		case p.trigger.ID != id:
			c.counts.Aborted++
			c.note("checkpoint %d is aborted: checkpoint %d is completed", p.trigger.ID, id)
			c.do(action{kind: doDiscard, id: p.trigger.ID})
		}
	}
	c.inFlight = left
	c.do(action{kind: doPrune, id: id, keep: keep})
}
