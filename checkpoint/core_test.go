package checkpoint

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// coreRig is a core with members whose processes are on connections, driven by hand.
type coreRig struct {
	t     *testing.T
	c     *core
	now   time.Duration
	conns map[string]connID
	last  connID
	acts  []action
}

func newCoreRig(t *testing.T, names ...string) *coreRig {
	r := &coreRig{t: t, conns: map[string]connID{}, c: newCore(coreConfig{
		members: names, interval: time.Second, timeout: 10 * time.Second, maxInFlight: 2, memberTimeout: 5 * time.Second, retry: time.Second,
	})}
	r.c.loaded(0, nil, nil)
	return r
}

// hello connects a process.
func (r *coreRig) hello(name, nonce string) connID {
	r.last++
	r.conns[name] = r.last
	r.c.hello(r.last, name, nonce)
	return r.last
}

func (r *coreRig) say(name string, m *message) {
	r.c.receive(r.now, r.conns[name], m)
}

// take returns what the core wants done since the last time, as text without the notes.
func (r *coreRig) take() string {
	r.acts = r.c.take()
	var list []string
	for _, a := range r.acts {
		switch a.kind {
		case doSend:
			s := fmt.Sprintf("%d<%v", a.conn, a.msg.Kind)
			if a.msg.ID != 0 {
				s += fmt.Sprint(" ", a.msg.ID)
			}
			for _, t := range a.msg.Triggers {
				s += fmt.Sprint(" ", t.ID)
			}
			list = append(list, s)
		case doClose:
			list = append(list, fmt.Sprintf("%d<close", a.conn))
		case doBegin:
			list = append(list, fmt.Sprintf("begin %d", a.next.Epoch))
		case doComplete:
			list = append(list, fmt.Sprintf("complete %d", a.meta.ID))
		case doDiscard:
			list = append(list, fmt.Sprintf("discard %d", a.id))
		case doPrune:
			list = append(list, fmt.Sprintf("prune %d", a.id))
		case doSave:
			list = append(list, "save")
		}
	}
	return strings.Join(list, ", ")
}

func (r *coreRig) want(want string) {
	r.t.Helper()
	if got := r.take(); got != want {
		r.t.Fatalf("the core wants %q, not %q", got, want)
	}
}

// find returns the action of a kind that take returned last.
func (r *coreRig) find(k actionKind) action {
	r.t.Helper()
	i := slices.IndexFunc(r.acts, func(a action) bool { return a.kind == k })
	if i < 0 {
		r.t.Fatalf("no such action in %v", r.acts)
	}
	return r.acts[i]
}

func (r *coreRig) began(m *Metadata) {
	r.t.Helper()
	r.c.began(r.now, r.find(doBegin).next, m, 0, nil)
}

// running brings members a and b to epoch 1, on connections 1 and 2.
func runningRig(t *testing.T) *coreRig {
	r := newCoreRig(t, "a", "b")
	r.hello("a", "a1")
	r.say("a", &message{Kind: msgJoin})
	r.want("")
	r.hello("b", "b1")
	r.say("b", &message{Kind: msgJoin})
	r.want("begin 1")
	r.began(nil)
	r.want("1<welcome, 2<welcome")
	return r
}

func (r *coreRig) tick(d time.Duration) {
	r.now += d
	r.c.tick(r.now, time.Unix(1, 0).Add(r.now))
}

func ackOf(epoch int32, id int64) *message { return &message{Kind: msgAck, Epoch: epoch, ID: id} }

// TestCoreCompletes: trigger, acknowledgements, metadata, and only then the completion.
func TestCoreCompletes(t *testing.T) {
	r := runningRig(t)
	r.tick(time.Second)
	r.want("1<trigger 1, 2<trigger 1")
	r.say("a", ackOf(1, 1))
	r.say("a", ackOf(1, 1)) // twice
	r.want("")
	r.say("b", ackOf(1, 1))
	r.want("complete 1")
	r.say("b", ackOf(1, 1))
	r.say("b", &message{Kind: msgDecline, Epoch: 1, ID: 1}) // too late
	r.want("")
	r.c.stored(r.now, 1, nil)
	r.c.stored(r.now, 1, nil) // twice
	r.want("prune 1, 1<completed 1, 2<completed 1")
}

// TestCoreSubsumes: a newer checkpoint that completes first takes the older one with it.
func TestCoreSubsumes(t *testing.T) {
	r := runningRig(t)
	r.tick(time.Second)
	r.tick(time.Second)
	r.tick(time.Second) // two are in flight, which is the limit
	r.want("1<trigger 1, 2<trigger 1, 1<trigger 2, 2<trigger 2")
	r.say("a", ackOf(1, 1))
	r.say("a", ackOf(1, 2))
	r.say("b", ackOf(1, 2))
	r.want("complete 2")
	r.say("b", ackOf(1, 1)) // while the metadata of 2 is being written
	r.want("")
	r.c.stored(r.now, 2, nil)
	r.want("discard 1, prune 2, 1<completed 2, 2<completed 2")
	if got := r.c.counts; got != (Counts{Triggered: 2, Completed: 1, Aborted: 1}) {
		t.Errorf("counts: %+v", got)
	}
}

// TestCoreAborts: by decline, by time, and by an error of the store; each leaves the next one its chance.
func TestCoreAborts(t *testing.T) {
	r := runningRig(t)
	r.tick(time.Second)
	r.want("1<trigger 1, 2<trigger 1")
	r.say("a", &message{Kind: msgDecline, Epoch: 1, ID: 1, Cause: "disk full"})
	r.want("1<aborted 1, 2<aborted 1, discard 1")
	r.tick(time.Second)
	r.want("1<trigger 2, 2<trigger 2")
	r.say("a", ackOf(1, 2))
	r.c.tick(r.now+10*time.Second, time.Time{})
	r.want("1<aborted 2, 2<aborted 2, discard 2")
	if cause := r.acts[1].msg.Cause; !strings.Contains(cause, "[b]") {
		t.Errorf("a time-out does not name who is late: %q", cause)
	}
	r.tick(10 * time.Second)
	r.want("1<trigger 3, 2<trigger 3")
	r.say("a", ackOf(1, 3))
	r.say("b", ackOf(1, 3))
	r.want("complete 3")
	r.c.stored(r.now, 3, errors.New("no"))
	r.want("1<aborted 3, 2<aborted 3, discard 3")
	r.tick(time.Second)
	r.want("1<trigger 4, 2<trigger 4")
}

// TestCoreWaitsForStore: a member is lost while the metadata is on its way. The next epoch opens when it is known what became of it.
func TestCoreWaitsForStore(t *testing.T) {
	for _, err := range []error{nil, errors.New("no")} {
		r := runningRig(t)
		r.tick(time.Second)
		r.say("a", ackOf(1, 1))
		r.say("b", ackOf(1, 1))
		r.want("1<trigger 1, 2<trigger 1, complete 1")
		meta := r.find(doComplete).meta
		r.hello("b", "b2")
		r.say("b", &message{Kind: msgJoin})
		r.want("2<replaced, 2<close, 1<fenced")
		r.say("a", &message{Kind: msgJoin})
		r.want("")
		r.c.stored(r.now, 1, err)
		if err == nil {
			r.want("prune 1, begin 2")
		} else {
			r.want("discard 1, begin 2")
		}
		r.began(meta)
		r.want("1<welcome, 3<welcome")
		if got := r.acts[len(r.acts)-1].msg.Restored.ID; got != 1 {
			t.Errorf("epoch 2 begins from checkpoint %d", got)
		}
	}
}

// TestCoreReplaced: of two processes with one name the older one is out, whatever it says later.
func TestCoreReplaced(t *testing.T) {
	r := runningRig(t)
	r.hello("b", "b2")
	r.want("") // it may be an older one
	r.say("b", &message{Kind: msgJoin})
	r.want("2<replaced, 2<close, 1<fenced")
	r.conns["b"] = 2
	r.say("b", ackOf(1, 1)) // from the connection that was closed
	r.want("")
	r.hello("b", "b1")
	r.want("4<replaced, 4<close")
	r.conns["b"] = 3
	r.say("a", &message{Kind: msgJoin})
	r.want("begin 2")
	// A third process comes while the epoch is being written down: nobody hears of that epoch.
	r.hello("b", "b3")
	r.say("b", &message{Kind: msgJoin})
	opening := r.find(doBegin)
	r.want("3<replaced, 3<close")
	r.c.began(r.now, opening.next, nil, 0, nil)
	r.want("begin 3")
	r.began(nil)
	r.want("1<welcome, 5<welcome")
	// An older process that a coordinator does not remember says that it is in the epoch: it is not.
	r.hello("b", "b0")
	r.say("b", &message{Kind: msgResume, Epoch: 3})
	r.want("6<replaced, 6<close")
	r.hello("x", "x1")
	r.want("7<refused, 7<close")
}

// TestCoreOldEpoch: what is said of an epoch that is over has no effect.
func TestCoreOldEpoch(t *testing.T) {
	r := runningRig(t)
	r.tick(time.Second)
	r.say("a", ackOf(1, 1))
	r.say("b", &message{Kind: msgFail, Epoch: 1, Cause: "no peer"})
	r.want("1<trigger 1, 2<trigger 1, 1<fenced, 2<fenced, discard 1")
	r.say("b", ackOf(1, 1))
	r.want("")
	r.say("a", &message{Kind: msgJoin, Epoch: 1})
	r.say("b", &message{Kind: msgJoin, Epoch: 1})
	r.want("begin 2")
	r.began(nil)
	r.take()
	r.tick(time.Second)
	r.want("1<trigger 2, 2<trigger 2")
	for _, k := range []kind{msgAck, msgDecline, msgEnded, msgFail} {
		r.say("b", &message{Kind: k, Epoch: 1, ID: 2, Cause: "late"})
	}
	r.want("")
	if r.c.ended() || r.c.phase != phaseRunning {
		t.Errorf("phase %v, ended %t", r.c.phase, r.c.ended())
	}
	// A process that slept through it all says where it was.
	r.hello("b", "b1")
	r.say("b", &message{Kind: msgResume, Epoch: 1})
	r.want("2<close, 1<fenced, 3<fenced, discard 2, 3<fenced")
}

// TestCoreGrace: a lost connection is no lost member until its time is up; silence is.
func TestCoreGrace(t *testing.T) {
	r := runningRig(t)
	r.tick(time.Second)
	r.want("1<trigger 1, 2<trigger 1")
	r.c.gone(r.now, 2, false)
	r.say("a", ackOf(1, 1))
	r.tick(4 * time.Second)
	r.want("") // and nothing is triggered without it
	r.hello("b", "b1")
	r.say("b", &message{Kind: msgResume, Epoch: 1})
	r.want("3<resumed 1")
	r.say("b", ackOf(1, 1))
	r.want("complete 1")
	r.c.stored(r.now, 1, nil)
	r.take()
	r.c.gone(r.now, 3, false)
	r.c.tick(r.now+5*time.Second, time.Time{})
	r.want("1<fenced")

	r = runningRig(t)
	r.c.gone(r.now, 2, true)
	r.want("1<fenced")
}

// TestCoreReturns: a coordinator comes back. If all members return unharmed the epoch goes on; if one does not, the next one begins.
func TestCoreReturns(t *testing.T) {
	rec := record{Members: []string{"a", "b"}, Epoch: 3, Restored: 4, Reserved: 1000, Nonces: map[string]string{"a": "a1", "b": "b1"}}
	newest := &Metadata{ID: 7, Epoch: 3, Members: []MemberState{{Name: "a"}, {Name: "b"}}}
	back := func() *coreRig {
		r := newCoreRig(t, "a", "b")
		r.c = newCore(r.c.cfg)
		again := rec
		r.c.loaded(0, &again, newest)
		r.hello("a", "a1")
		r.say("a", &message{Kind: msgResume, Epoch: 3})
		r.want("1<resumed")
		if m := r.acts[len(r.acts)-1].msg; m.Completed != 7 || len(m.Triggers) > 0 {
			t.Errorf("resumed: %+v", m)
		}
		return r
	}
	r := back()
	r.tick(time.Second)
	r.want("") // no checkpoint with half of the members
	r.hello("b", "b1")
	r.say("b", &message{Kind: msgResume, Epoch: 3})
	r.take()
	r.tick(time.Second)
	r.want("save") // ids that no coordinator before it has used
	r.c.saved(r.now, r.find(doSave).record, nil)
	r.tick(0)
	r.want("1<trigger 1000, 2<trigger 1000")

	// Who was still reading what the epoch began with may go on; nobody puts or gets anything else.
	for _, c := range []struct {
		nonce    string
		epoch    int32
		id       int64
		get, put bool
	}{
		{"a1", 3, 4, true, false}, {"a1", 3, 5, false, false}, {"a1", 3, 0, false, false}, {"a1", 3, 1000, false, true},
		{"a1", 2, 4, false, false}, {"a2", 3, 4, false, false}, {"a2", 3, 1000, false, false},
	} {
		m := &message{Member: "a", Nonce: c.nonce, Epoch: c.epoch, ID: c.id}
		if get, put := r.c.mayGet(m) == nil, r.c.mayPut(m) == nil; get != c.get || put != c.put {
			t.Errorf("%+v: may get %t, may put %t", c, get, put)
		}
	}

	r = back()
	r.hello("b", "b2")
	r.say("b", &message{Kind: msgJoin})
	r.want("1<fenced")
	r.say("a", &message{Kind: msgJoin, Epoch: 3})
	r.want("begin 4")

	r = back()
	r.tick(10 * time.Second)
	r.want("1<fenced")

	// Its folder is gone, too: the members know better which epochs there were.
	r = newCoreRig(t, "a", "b")
	r.hello("a", "a1")
	r.say("a", &message{Kind: msgResume, Epoch: 3})
	r.want("1<fenced")
	r.say("a", &message{Kind: msgJoin, Epoch: 3})
	r.hello("b", "b2")
	r.say("b", &message{Kind: msgJoin})
	r.want("begin 4")
}

// TestCoreLast: the last checkpoint comes at once, byes are written down before they are answered, and a member that was killed before
// its commit may come back for it.
func TestCoreLast(t *testing.T) {
	r := runningRig(t)
	r.say("a", &message{Kind: msgEnded, Epoch: 1})
	r.tick(time.Millisecond)
	r.want("")
	r.say("b", &message{Kind: msgEnded, Epoch: 1})
	r.tick(0)
	r.want("1<trigger 1, 2<trigger 1")
	if !r.acts[0].msg.Triggers[0].Final {
		t.Error("the trigger is not final")
	}
	for _, name := range []string{"a", "b"} {
		r.say(name, &message{Kind: msgAck, Epoch: 1, ID: 1, Final: true})
	}
	r.want("complete 1")
	if !r.find(doComplete).meta.Last {
		t.Error("the checkpoint is not the last one")
	}
	r.c.stored(r.now, 1, nil)
	r.want("prune 1, 1<completed 1, 2<completed 1")
	r.c.gone(r.now, 2, false) // killed
	r.tick(time.Hour)
	r.want("")
	r.say("a", &message{Kind: msgBye, Epoch: 1})
	r.want("save")
	r.c.saved(r.now, r.find(doSave).record, nil)
	r.want("1<goodbye")
	r.c.gone(r.now, 1, false)
	r.hello("b", "b2")
	r.say("b", &message{Kind: msgJoin})
	r.want("3<welcome")
	if m := r.acts[len(r.acts)-1].msg; !m.Finished || m.Restored.ID != 1 {
		t.Errorf("welcome: %+v", m)
	}
	r.say("b", &message{Kind: msgBye, Epoch: 1})
	r.want("save")
	r.c.saved(r.now, r.find(doSave).record, errors.New("no"))
	r.want("")
	r.tick(time.Second)
	r.want("save")
	r.c.saved(r.now, r.find(doSave).record, nil)
	r.want("3<goodbye")
	if r.c.phase != phaseFinished {
		t.Errorf("phase %v", r.c.phase)
	}
}

// TestCoreByeTooEarly: who says bye before the last checkpoint is lost.
func TestCoreByeTooEarly(t *testing.T) {
	r := runningRig(t)
	r.say("a", &message{Kind: msgBye, Epoch: 1})
	r.want("1<fenced, 2<fenced")
}

// TestCoreReserves: ids are written down before they are used.
func TestCoreReserves(t *testing.T) {
	r := runningRig(t)
	r.c.nextID = r.c.record.Reserved
	r.c.saving = true // and the store is slow
	r.tick(time.Hour)
	r.want("")
	r.c.saving = false
	r.tick(time.Second)
	r.want("save")
	r.c.saved(r.now, r.find(doSave).record, nil)
	r.tick(0)
	r.want("1<trigger 1001, 2<trigger 1001")
}

// TestSideSaysAgain: after a lost connection a member says again what the coordinator may not have heard, and learns what it missed.
func TestSideSaysAgain(t *testing.T) {
	s := newSide("a", "a1")
	s.join()
	s.receive(&message{Kind: msgWelcome, Epoch: 2})
	for id := int64(1); id <= 4; id++ {
		s.receive(&message{Kind: msgTrigger, Epoch: 2, Triggers: []Trigger{{ID: id}}})
	}
	s.say(2, ackOf(0, 2))
	s.say(2, ackOf(0, 3))
	s.say(2, &message{Kind: msgDecline, ID: 4})
	s.end(2)
	s.events = nil
	out := s.receive(&message{Kind: msgResumed, Epoch: 2, Completed: 1, Triggers: []Trigger{{ID: 5}, {ID: 3}, {ID: 4}}})
	var said []string
	for _, m := range out {
		said = append(said, fmt.Sprint(m.Kind, " ", m.ID))
	}
	if got := strings.Join(said, ", "); got != "ended 0, ack 3, decline 4" {
		t.Errorf("said again: %s", got)
	}
	var heard []string
	for _, e := range s.events {
		heard = append(heard, fmt.Sprint(e.Kind, " ", e.ID))
	}
	if got := strings.Join(heard, ", "); got != "completed 1, aborted 2, trigger 5" {
		t.Errorf("heard: %s", got)
	}
	s.events = nil
	s.receive(&message{Kind: msgCompleted, Epoch: 2, ID: 3})
	s.receive(&message{Kind: msgCompleted, Epoch: 2, ID: 3}) // twice
	s.receive(&message{Kind: msgCompleted, Epoch: 1, ID: 9}) // of an old epoch
	s.receive(&message{Kind: msgTrigger, Epoch: 2, Triggers: []Trigger{{ID: 2}}})
	if len(s.events) != 1 || s.completed != 3 {
		t.Errorf("events %v, completed %d", s.events, s.completed)
	}
	if s.say(2, ackOf(0, 3)) != nil || s.say(1, ackOf(0, 5)) != nil {
		t.Error("a settled checkpoint, or one of another epoch, is answered")
	}
}

// TestAnswerBeforeTrigger: a barrier that comes with the data may be faster than the coordinator's trigger. The answer goes out at once, once, and
// again after a lost connection; what is given up, or never triggered, is aborted.
func TestAnswerBeforeTrigger(t *testing.T) {
	s := newSide("a", "p1")
	s.connected()
	s.join()
	s.receive(&message{Kind: msgWelcome, Epoch: 3, Restored: &restoredState{ID: 4}})
	ack := func(id int64) *message { return &message{Kind: msgAck, ID: id} }
	trigger := func(id int64) { s.receive(&message{Kind: msgTrigger, Epoch: 3, Triggers: []Trigger{{ID: id}}}) }
	events := func() (got []string) {
		for _, e := range s.events {
			got = append(got, fmt.Sprint(e.Kind, " ", e.ID))
		}
		s.events = nil
		return got
	}
	is := func(want ...string) {
		t.Helper()
		if got := events(); !slices.Equal(got, want) {
			t.Fatalf("%q, want %q", got, want)
		}
	}
	if out := s.say(3, ack(4)); out != nil {
		t.Error("the restored checkpoint is answered")
	}
	if out := s.say(3, ack(5)); len(out) != 1 || out[0].Epoch != 3 {
		t.Fatalf("%v", out)
	}
	if out := s.say(3, ack(5)); out != nil {
		t.Error("answered twice")
	}
	trigger(5)
	is("trigger 5")
	if out := s.say(3, ack(5)); out != nil {
		t.Error("answered twice, around its trigger")
	}
	s.say(3, ack(6))
	// The connection is lost, and with it the answers; the coordinator has 5 and 6 in flight.
	out := s.receive(&message{Kind: msgResumed, Epoch: 3, Triggers: []Trigger{{ID: 5}, {ID: 6}}})
	if len(out) != 2 || out[0].ID != 5 || out[1].ID != 6 {
		t.Fatalf("after the connection was lost it says %v", out)
	}
	is("trigger 6")
	s.receive(&message{Kind: msgCompleted, Epoch: 3, ID: 6})
	is("completed 6")
	s.say(3, ack(7)) // its trigger is lost with the connection, and it is given up
	s.receive(&message{Kind: msgResumed, Epoch: 3, Completed: 6})
	trigger(8)
	is("aborted 7", "trigger 8")
	if out := s.say(3, ack(7)); out != nil {
		t.Error("what was given up is answered")
	}
	s.say(3, ack(9))
	s.receive(&message{Kind: msgCompleted, Epoch: 3, ID: 9})
	is("completed 9")
	for id := int64(10); id < 10+2*maxEarly; id++ {
		s.say(3, ack(id))
	}
	if len(s.early) != maxEarly {
		t.Errorf("%d answers wait for triggers, want %d", len(s.early), maxEarly)
	}
}
