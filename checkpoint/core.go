package checkpoint

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// phase is where a pipeline is.
type phase uint8

const (
	// phaseLoading: what the store has is not known yet.
	phaseLoading phase = iota
	// phaseGathering: no epoch. Once all members have joined, the next one opens.
	phaseGathering
	// phaseOpening: the restored checkpoint is being chosen, and the epoch recorded.
	phaseOpening
	// phaseRunning: an epoch, with data and checkpoints.
	phaseRunning
	// phaseReturning: the coordinator came back into an epoch, and waits for its members.
	phaseReturning
	// phaseFencing: the epoch is over, but whether a checkpoint of it exists is not known yet.
	phaseFencing
	// phaseFinishing: the last checkpoint exists; the members commit it.
	phaseFinishing
	// phaseFinished: they all have.
	phaseFinished
)

func (p phase) String() string {
	return [...]string{"loading", "gathering", "opening", "running", "returning", "fencing", "finishing", "finished"}[p]
}

// standing is where a member is.
type standing uint8

const (
	absent    standing = iota // no process, or none that wants the next epoch
	connected                 // a process that has to leave an old epoch first
	joined                    // wants the next epoch
	running                   // in the epoch
	away                      // in the epoch as far as is known, but without a connection
	gone                      // has said bye
)

func (s standing) String() string {
	return [...]string{"absent", "connected", "joined", "running", "away", "gone"}[s]
}

// connID names a connection. 0: none.
type connID uint64

// member is what the coordinator knows of a member.
type member struct {
	name     string
	conn     connID
	nonce    string   // of its process
	old      []string // nonces of processes that were replaced, the newest few
	standing standing
	deadline time.Duration // away: when it is lost
	ended    bool          // has reached the end of its data, in this epoch
	byeing   bool          // its bye is being recorded
}

// pending is a checkpoint in flight.
type pending struct {
	trigger  Trigger
	deadline time.Duration
	acks     map[string]MemberState
}

// coreConfig configures a core, defaults filled in.
type coreConfig struct {
	members       []string
	interval      time.Duration
	minPause      time.Duration
	timeout       time.Duration
	maxInFlight   int
	memberTimeout time.Duration
	alignment     Alignment
	alignTimeout  time.Duration
	retry         time.Duration // pause after the store failed
}

// record is what the coordinator writes down before it acts on it.
type record struct {
	Members []string `json:"members"`
	// Epoch is the newest one that was opened, Restored the checkpoint that it began with. A checkpoint is good if it is of this epoch,
	// or not newer than Restored: any other one was begun in an epoch that was fenced before anybody knew of its completion.
	Epoch    int32 `json:"epoch"`
	Restored int64 `json:"restored"`
	// Reserved: no checkpoint has this id or a higher one.
	Reserved int64             `json:"reserved"`
	Nonces   map[string]string `json:"nonces,omitempty"` // the processes in the epoch
	Gone     []string          `json:"gone,omitempty"`   // the members that have said bye
}

// good tells whether a checkpoint may be restored.
func (r *record) good(m *Metadata) bool { return m.Epoch == r.Epoch || m.ID <= r.Restored }

// actionKind is what the core wants done.
type actionKind uint8

const (
	// doSend: action.msg to action.conn. doClose: that connection is to be closed, once what was sent before has left.
	doSend actionKind = iota
	doClose
	// doBegin: choose the newest whole good checkpoint by action.record, which is that of the epoch before, then write down
	// action.next with it as Restored; answer with began.
	doBegin
	// doComplete: write action.meta; answer with stored.
	doComplete
	// doDiscard: delete what there is of action.id. No answer.
	doDiscard
	// doPrune: delete old checkpoints, and unfinished ones that are not in action.keep and older than action.id. No answer.
	doPrune
	// doSave: write down action.record; answer with saved.
	doSave
	// doNote: tell who watches; action.text.
	doNote
	// doFail: the coordinator cannot go on; action.err.
	doFail
)

type action struct {
	kind   actionKind
	conn   connID
	msg    *message
	meta   *Metadata
	id     int64
	keep   []int64
	record record
	next   record
	text   string
	err    error
}

const (
	// idBlock is how many checkpoint ids are reserved at a time: they are written down before they are used, so that a coordinator
	// that comes back uses none twice.
	idBlock = 1000
	// idLow is how few may be left before more are reserved.
	idLow = 100
	// maxEpoch is a number of epochs that nobody reaches.
	maxEpoch = 1 << 30
	// maxOld bounds how many replaced processes of a name are remembered.
	maxOld = 16
)

// core is the coordinator's decisions: events are its methods, what is to be done comes out of take. Time is a duration since
// some start, given with each event, which never goes back. One goroutine; no I/O.
//
// Invariants. A checkpoint is completed only if each member acknowledged it in the epoch that it was triggered in, and that epoch
// was not fenced before the metadata was on its way. While that is on its way no epoch opens. Ids that complete increase. An epoch is
// written down before a member hears of it.
type core struct {
	cfg     coreConfig
	phase   phase
	record  record
	members []*member
	byConn  map[connID]*member

	inFlight    []*pending // by id
	storing     *Metadata  // its metadata is being written
	saving      bool       // record is being written, for more ids or byes
	retryAt     time.Duration
	seen        int32 // the newest epoch that a member knew: newer than the record if the folder was lost
	nextID      int64
	completed   int64 // the newest one
	last        bool  // it is the last one
	restored    *Metadata
	lastTrigger time.Duration
	triedLast   bool          // the newest trigger of the epoch was final
	lastEnd     time.Duration // of a checkpoint: completed or aborted
	counts      Counts
	out         []action
}

// Counts is what a coordinator did.
type Counts struct {
	// Triggered checkpoints; each is Completed or Aborted in the end.
	Triggered, Completed, Aborted int64
	// Fenced epochs.
	Fenced int64
	// Refused are checkpoints that were damaged when they were to be restored.
	Refused int64
	// Replaced are processes that another one with the same name took the place of.
	Replaced int64
}

func newCore(cfg coreConfig) *core {
	c := &core{cfg: cfg, phase: phaseLoading, byConn: map[connID]*member{}, lastTrigger: -1 << 62, lastEnd: -1 << 62}
	for _, name := range cfg.members {
		c.members = append(c.members, &member{name: name})
	}
	return c
}

// take returns what is to be done, in order.
func (c *core) take() []action {
	out := c.out
	c.out = nil
	return out
}

func (c *core) do(a action) { c.out = append(c.out, a) }

func (c *core) note(format string, args ...any) {
	c.do(action{kind: doNote, text: fmt.Sprintf(format, args...)})
}

func (c *core) send(m *member, msg *message) {
	if m.conn != 0 {
		c.do(action{kind: doSend, conn: m.conn, msg: msg})
	}
}

func (c *core) drop(conn connID, msg *message) {
	if conn == 0 {
		return
	}
	c.do(action{kind: doSend, conn: conn, msg: msg})
	c.do(action{kind: doClose, conn: conn})
}

func (c *core) find(name string) *member {
	i := slices.IndexFunc(c.members, func(m *member) bool { return m.name == name })
	if i < 0 {
		return nil
	}
	return c.members[i]
}

// all tells whether each member stands so.
func (c *core) all(s standing) bool {
	return !slices.ContainsFunc(c.members, func(m *member) bool { return m.standing != s })
}

func (c *core) flight(id int64) *pending {
	i := slices.IndexFunc(c.inFlight, func(p *pending) bool { return p.trigger.ID == id })
	if i < 0 {
		return nil
	}
	return c.inFlight[i]
}

// loaded begins: rec is what was written down before, nil if nothing, and newest the newest whole good checkpoint.
func (c *core) loaded(now time.Duration, rec *record, newest *Metadata) {
	c.phase = phaseGathering
	c.nextID = 1
	if newest != nil {
		c.completed, c.last, c.nextID = newest.ID, newest.Last, newest.ID+1
		c.record.Epoch, c.record.Restored = newest.Epoch, newest.ID
		c.restored = newest
	}
	if rec == nil {
		c.record.Members = c.cfg.members
		if c.last {
			c.phase = phaseFinishing
		}
		return
	}
	c.record = *rec
	c.nextID = max(c.nextID, rec.Reserved)
	for _, m := range c.members {
		m.nonce = rec.Nonces[m.name]
	}
	switch {
	case c.last:
		c.phase = phaseFinishing
		for _, name := range rec.Gone {
			if m := c.find(name); m != nil {
				m.standing = gone
			}
		}
		c.maybeFinish()
	case rec.Epoch > 0:
		c.phase = phaseReturning
		for _, m := range c.members {
			m.standing, m.deadline = away, now+2*c.cfg.memberTimeout
		}
		c.note("back in epoch %d: its members have %v to return", rec.Epoch, 2*c.cfg.memberTimeout)
	}
}

// fence ends the epoch.
func (c *core) fence(cause string) {
	if c.phase != phaseRunning && c.phase != phaseReturning {
		return
	}
	c.counts.Fenced++
	c.note("epoch %d is fenced: %s", c.record.Epoch, cause)
	for _, m := range c.members {
		m.ended = false
		switch m.standing {
		case running:
			m.standing = connected
			c.send(m, &message{Kind: msgFenced, Epoch: c.record.Epoch, Cause: cause})
		case away:
			m.standing = absent
		}
	}
	c.phase = phaseGathering
	if c.storing != nil {
		c.phase = phaseFencing
	}
	for _, p := range c.inFlight {
		if c.storing == nil || p.trigger.ID != c.storing.ID {
			c.counts.Aborted++
			c.do(action{kind: doDiscard, id: p.trigger.ID})
		}
	}
	c.inFlight = nil
	c.maybeBegin()
}

// maybeBegin opens the next epoch if all are there.
func (c *core) maybeBegin() {
	if c.phase != phaseGathering || !c.all(joined) {
		return
	}
	next := record{
		Members: c.cfg.members, Epoch: max(c.record.Epoch, c.seen) + 1, Reserved: max(c.record.Reserved, c.nextID+idBlock), Nonces: map[string]string{},
	}
	for _, m := range c.members {
		next.Nonces[m.name] = m.nonce
	}
	c.phase = phaseOpening
	c.do(action{kind: doBegin, record: c.record, next: next})
}

// began says that next is written down, with restored as its checkpoint, nil if there is none; or why not.
func (c *core) began(now time.Duration, next record, restored *Metadata, refused int, err error) {
	if c.phase != phaseOpening {
		return
	}
	c.phase = phaseGathering
	c.counts.Refused += int64(refused)
	if err != nil {
		c.retryAt = now + c.cfg.retry
		c.note("epoch %d cannot be opened: %v", next.Epoch, err)
		if errors.Is(err, ErrNoneWhole) {
			c.do(action{kind: doFail, err: err})
		}
		return
	}
	c.record, c.restored = next, restored
	if restored != nil {
		c.completed, c.last = restored.ID, restored.Last
	}
	if c.last {
		c.phase = phaseFinishing
		for _, m := range c.members {
			if m.standing == joined {
				c.welcome(m)
			}
		}
		return
	}
	if !c.all(joined) || slices.ContainsFunc(c.members, func(m *member) bool { return m.nonce != next.Nonces[m.name] }) {
		c.maybeBegin()
		return // somebody left meanwhile, or came in another's place: nobody hears of this epoch
	}
	c.phase = phaseRunning
	c.lastTrigger, c.lastEnd, c.triedLast = now, now-c.cfg.minPause, false
	c.note("epoch %d begins, from checkpoint %d", next.Epoch, next.Restored)
	for _, m := range c.members {
		m.ended = false
		c.welcome(m)
	}
}

// welcome tells a member that the epoch begins.
func (c *core) welcome(m *member) {
	m.standing = running
	msg := &message{Kind: msgWelcome, Epoch: c.record.Epoch, Finished: c.phase == phaseFinishing || c.phase == phaseFinished}
	if c.restored != nil {
		r := &restoredState{ID: c.restored.ID, Epoch: c.restored.Epoch, State: MemberState{Name: m.name}}
		if s := c.restored.Member(m.name); s != nil {
			r.State = *s
		}
		msg.Restored = r
	}
	c.send(m, msg)
}
