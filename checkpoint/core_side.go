package checkpoint

import (
	"cmp"
	"maps"
	"slices"
)

// EventKind is what an Event is.
type EventKind uint8

// The kinds.
const (
	// TriggerEvent: checkpoint ID begins, as Trigger says.
	TriggerEvent EventKind = iota
	// CompletedEvent: checkpoint ID exists, and contains all older ones: commit what was prepared for them. Last: nothing follows.
	CompletedEvent
	// AbortedEvent: checkpoint ID will not be, for Cause. What was prepared for it stays, and belongs to the next one.
	AbortedEvent
)

func (k EventKind) String() string { return [...]string{"trigger", "completed", "aborted"}[k] }

// Event is what a member hears from the coordinator during an epoch.
type Event struct {
	Kind    EventKind
	ID      int64
	Trigger Trigger // of TriggerEvent
	Last    bool    // of CompletedEvent
	Cause   string  // of AbortedEvent
}

// side is a member's half of the protocol: what it has heard and said in an epoch, so that after a lost connection both ends agree
// again. Its methods are events; they return what is to be sent. One owner; no I/O.
//
// Invariant: each trigger that was handed out, and each checkpoint that was answered, is followed by one CompletedEvent of it or a newer
// one, or one AbortedEvent, as long as the epoch lives; the ids of CompletedEvents increase.
type side struct {
	name, nonce string
	state       sideState
	epoch       int32 // the newest one
	completed   int64
	open        map[int64]*sideCheckpoint // triggered, and neither completed nor aborted
	heard       int64                     // the newest trigger
	early       map[int64]*message        // answers to checkpoints whose triggers have not come: their barriers came with the data
	ended       bool
	failed      string // why this process cannot go on in the epoch
	byed        bool
	goodbye     bool // the answer to bye came
	finished    bool // the epoch is only there to commit the last checkpoint

	events  []Event  // for the user
	welcome *message // of the epoch
	over    string   // why the epoch is over
	refused string   // why the coordinator will not have this process
}

type sideState uint8

const (
	sideIdle     sideState = iota // in no epoch, wants none
	sideJoining                   // wants the next one
	sideRunning                   // in an epoch
	sideReplaced                  // another process has the name
	sideRefused
)

type sideCheckpoint struct {
	trigger Trigger
	said    *message // an acknowledgement or a decline
}

// maxEarly bounds the answers that wait for their triggers: barriers without one are somebody's mistake.
const maxEarly = 64

func newSide(name, nonce string) *side {
	return &side{name: name, nonce: nonce, open: map[int64]*sideCheckpoint{}, early: map[int64]*message{}}
}

// connected says that there is a connection again, and returns what to send on it first.
func (s *side) connected() []*message {
	out := []*message{{Kind: msgHello, Version: protocolVersion, Purpose: forMember, Member: s.name, Nonce: s.nonce}}
	switch s.state {
	case sideJoining:
		out = append(out, &message{Kind: msgJoin, Epoch: s.epoch})
	case sideRunning:
		out = append(out, &message{Kind: msgResume, Epoch: s.epoch})
	}
	return out
}

// join says that the process wants the next epoch, and gives up the one it is in.
func (s *side) join() []*message {
	if s.state == sideReplaced || s.state == sideRefused {
		return nil
	}
	s.state = sideJoining
	s.welcome = nil
	return []*message{{Kind: msgJoin, Epoch: s.epoch}}
}

// receive takes a message of the coordinator.
func (s *side) receive(m *message) (out []*message) {
	switch m.Kind {
	case msgReplaced:
		s.state = sideReplaced
	case msgRefused:
		s.state, s.refused = sideRefused, m.Cause
	case msgWelcome:
		if s.state == sideJoining {
			s.begin(m)
		}
	case msgGoodbye:
		s.goodbye = s.goodbye || s.byed
	}
	if s.state != sideRunning || m.Epoch != s.epoch {
		return nil
	}
	switch m.Kind {
	case msgFenced:
		s.state, s.over = sideIdle, m.Cause
	case msgTrigger:
		for _, t := range m.Triggers {
			s.trigger(t)
		}
	case msgCompleted:
		s.complete(m.ID, m.Last)
	case msgAborted:
		s.abort(m.ID, m.Cause)
	case msgResumed:
		out = s.resumed(m)
	}
	return out
}

func (s *side) begin(m *message) {
	s.state, s.epoch, s.welcome = sideRunning, m.Epoch, m
	s.completed, s.open, s.events = 0, map[int64]*sideCheckpoint{}, nil
	s.heard, s.early = 0, map[int64]*message{}
	s.ended, s.failed, s.byed, s.goodbye, s.over = false, "", false, false, ""
	s.finished = m.Finished
	if m.Restored != nil {
		s.completed = m.Restored.ID
	}
}

func (s *side) trigger(t Trigger) {
	if _, twice := s.open[t.ID]; twice || t.ID <= s.completed {
		return
	}
	s.giveUpEarly(t.ID)
	s.heard = max(s.heard, t.ID)
	s.open[t.ID] = &sideCheckpoint{trigger: t, said: s.early[t.ID]}
	delete(s.early, t.ID)
	s.events = append(s.events, Event{Kind: TriggerEvent, ID: t.ID, Trigger: t})
}

// giveUpEarly aborts what was answered early and is older than a checkpoint that is triggered: triggers come in order, so that its own
// will not come any more.
func (s *side) giveUpEarly(before int64) {
	for _, id := range slices.Sorted(maps.Keys(s.early)) {
		if id < before {
			delete(s.early, id)
			s.events = append(s.events, Event{Kind: AbortedEvent, ID: id, Cause: givenUp})
		}
	}
}

const givenUp = "the coordinator has given it up meanwhile"

func (s *side) complete(id int64, last bool) {
	if id <= s.completed {
		return
	}
	s.completed = id
	for k := range s.open {
		if k <= id {
			delete(s.open, k)
		}
	}
	maps.DeleteFunc(s.early, func(k int64, _ *message) bool { return k <= id })
	s.events = append(s.events, Event{Kind: CompletedEvent, ID: id, Last: last})
}

func (s *side) abort(id int64, cause string) {
	if _, ok := s.open[id]; ok {
		delete(s.open, id)
		s.events = append(s.events, Event{Kind: AbortedEvent, ID: id, Cause: cause})
	}
}

// ids are the checkpoints that are open, in order.
func (s *side) ids() []int64 {
	ids := make([]int64, 0, len(s.open))
	for id := range s.open {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// resumed makes both ends agree: what the coordinator does not know of any more is aborted, and what may not have reached it is said
// again.
func (s *side) resumed(m *message) (out []*message) {
	s.complete(m.Completed, m.Last)
	for _, id := range s.ids() {
		if !slices.ContainsFunc(m.Triggers, func(t Trigger) bool { return t.ID == id }) {
			s.abort(id, givenUp)
		}
	}
	slices.SortFunc(m.Triggers, func(a, b Trigger) int { return cmp.Compare(a.ID, b.ID) })
	for _, t := range m.Triggers {
		s.trigger(t)
	}
	if s.ended {
		out = append(out, &message{Kind: msgEnded, Epoch: s.epoch})
	}
	for _, id := range s.ids() {
		if said := s.open[id].said; said != nil {
			out = append(out, said)
		}
	}
	if s.failed != "" {
		out = append(out, &message{Kind: msgFail, Epoch: s.epoch, Cause: s.failed})
	}
	if s.byed && !s.goodbye {
		out = append(out, &message{Kind: msgBye, Epoch: s.epoch})
	}
	return out
}

// say acknowledges or declines a checkpoint, also one whose trigger is still on its way: another member that had it sooner has sent the
// barrier, and data may be faster. Nil: it is over already, or something was said.
func (s *side) say(epoch int32, m *message) []*message {
	if s.state != sideRunning || epoch != s.epoch {
		return nil
	}
	c := s.open[m.ID]
	switch {
	case c != nil && c.said == nil:
		c.said = m
	case c == nil && m.ID > max(s.heard, s.completed) && s.early[m.ID] == nil && len(s.early) < maxEarly:
		s.early[m.ID] = m
	default:
		return nil
	}
	m.Epoch = epoch
	return []*message{m}
}

// end says that the process has reached the end of its data.
func (s *side) end(epoch int32) []*message {
	if s.state != sideRunning || epoch != s.epoch || s.ended {
		return nil
	}
	s.ended = true
	return []*message{{Kind: msgEnded, Epoch: epoch}}
}

// fail says that the process cannot go on in the epoch.
func (s *side) fail(epoch int32, cause string) []*message {
	if s.state != sideRunning || epoch != s.epoch || s.failed != "" {
		return nil
	}
	s.failed = cause
	return []*message{{Kind: msgFail, Epoch: epoch, Cause: cause}}
}

// bye says that the process has committed everything.
func (s *side) bye(epoch int32) []*message {
	if s.state != sideRunning || epoch != s.epoch {
		return nil
	}
	s.byed = true
	return []*message{{Kind: msgBye, Epoch: epoch}}
}
