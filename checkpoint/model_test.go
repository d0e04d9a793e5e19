package checkpoint

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/weirflow/weir/internal/buildtag"
)

// The model: a coordinator's core and the sides of member processes, as they are, with a network that loses what is on its way when a
// connection is cut, a store whose writes may fail before or after they took effect, and crashes of all of them at any moment.
// Each member is a source and a sink in one: it counts up, and commits what it counted. The naive reference is arithmetic: what is
// committed must be 1, 2, 3, ... without a gap or a repetition, at each moment, and all of it in the end.

// modelTx is a prepared transaction: the numbers from (exclusive) to to.
type modelTx struct{ id, from, to int64 }

// modelState is a snapshot.
type modelState struct {
	name  string
	epoch int32
	id    int64
	pos   int64
	txs   []modelTx
}

// modelSink is what outlives processes.
type modelSink struct {
	prepared  map[int64]modelTx
	committed map[int64]modelTx
	upTo      int64
}

// modelProc is a process of a member.
type modelProc struct {
	name     string
	side     *side
	link     *modelLink // nil: not connected
	frozen   int        // steps for which it stands still
	over     bool
	inEpoch  int32 // the epoch that its data belongs to, 0 if none
	from     int64 // where the open transaction begins
	pos      int64
	prepared []modelTx
	sentBye  bool
}

// modelLink is a connection: what is on its way in both directions.
type modelLink struct {
	id      connID
	proc    *modelProc
	up      []*message
	down    []*message
	cut     bool // neither direction carries anything any more
	unheard bool // and the coordinator does not know
}

type modelWorld struct {
	t       *testing.T
	rnd     *rand.Rand
	log     []string
	names   []string
	total   int64 // how far each member counts
	cfg     coreConfig
	now     time.Duration
	core    *core
	jobs    []action
	links   []*modelLink
	lastID  connID
	procs   []*modelProc
	nonces  int
	states  []modelState
	sinks   map[string]*modelSink
	rec     *record
	done    map[int64]*Metadata
	late    []*Metadata // said to have failed, and not there yet
	newest  int64       // completed by a coordinator
	epochs  map[int32]map[string]string
	seen    map[string]int // exposure
	quiet   bool           // no faults any more
	problem string
}

func (w *modelWorld) fail(format string, args ...any) {
	if w.problem == "" {
		w.problem = fmt.Sprintf(format, args...)
	}
}

func (w *modelWorld) note(format string, args ...any) {
	w.log = append(w.log, fmt.Sprintf(format, args...))
}

// roundTrip sends a message through the codec.
func (w *modelWorld) roundTrip(m *message) *message {
	frame, err := appendFrame(nil, m)
	if err != nil {
		w.fail("encoding %v: %v", m.Kind, err)
		return m
	}
	got, err := newFrameReader(bytes.NewReader(frame)).read()
	if err != nil {
		w.fail("decoding %v: %v", m.Kind, err)
		return m
	}
	return got
}

func newModelWorld(t *testing.T, seed uint64) *modelWorld {
	rnd := rand.New(rand.NewPCG(seed, 8))
	w := &modelWorld{
		t: t, rnd: rnd, names: abc[:2+rnd.IntN(2)], total: int64(20 + rnd.IntN(60)), sinks: map[string]*modelSink{},
		done: map[int64]*Metadata{}, epochs: map[int32]map[string]string{}, seen: map[string]int{},
	}
	w.cfg = coreConfig{
		members: w.names, interval: 10, minPause: time.Duration(rnd.IntN(5)), timeout: 200, maxInFlight: 1 + rnd.IntN(3), memberTimeout: 60, retry: 5,
	}
	for _, name := range w.names {
		w.sinks[name] = &modelSink{prepared: map[int64]modelTx{}, committed: map[int64]modelTx{}}
		w.spawn(name)
	}
	w.startCoordinator()
	return w
}

func (w *modelWorld) startCoordinator() {
	w.core = newCore(w.cfg)
	var newest *Metadata
	for _, id := range w.ids() {
		if w.rec == nil || w.rec.good(w.done[id]) {
			newest = w.done[id]
		}
	}
	w.core.loaded(w.now, w.rec, newest)
	w.act()
}

func (w *modelWorld) ids() []int64 {
	var ids []int64
	for id := range w.done {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

func (w *modelWorld) spawn(name string) {
	w.nonces++
	w.procs = append(w.procs, &modelProc{name: name, side: newSide(name, fmt.Sprintf("p%d", w.nonces))})
}

// act takes what the core wants done.
func (w *modelWorld) act() {
	for _, a := range w.core.take() {
		switch a.kind {
		case doSend, doClose:
			i := slices.IndexFunc(w.links, func(l *modelLink) bool { return l.id == a.conn })
			if i < 0 || w.links[i].cut {
				continue
			}
			if a.kind == doSend {
				w.check(w.links[i], a.msg)
				w.links[i].down = append(w.links[i].down, w.roundTrip(a.msg))
			} else {
				w.links[i].down = append(w.links[i].down, nil)
			}
		case doNote:
			w.note("  %s", a.text)
		case doFail:
			w.fail("the core gave up: %v", a.err)
		case doBegin:
			if w.core.storing != nil {
				w.fail("epoch %d is to be opened while checkpoint %d is being stored", a.next.Epoch, w.core.storing.ID)
			}
			w.jobs = append(w.jobs, a)
		case doComplete:
			w.checkComplete(a.meta)
			w.jobs = append(w.jobs, a)
		default:
			w.jobs = append(w.jobs, a)
		}
	}
}

// check looks at what the coordinator tells a member.
func (w *modelWorld) check(l *modelLink, m *message) {
	switch m.Kind {
	case msgWelcome:
		if w.rec == nil || w.rec.Epoch != m.Epoch {
			w.fail("epoch %d is begun and not written down", m.Epoch)
		}
		if m.Finished {
			w.seen["recovered at the end"]++
			return
		}
		if w.epochs[m.Epoch] == nil {
			w.epochs[m.Epoch] = map[string]string{}
		}
		if other := w.epochs[m.Epoch][l.proc.name]; other != "" {
			w.fail("epoch %d begins twice for member %s: %s and %s", m.Epoch, l.proc.name, other, l.proc.side.nonce)
		}
		w.epochs[m.Epoch][l.proc.name] = l.proc.side.nonce
	case msgCompleted:
		if w.done[m.ID] == nil && m.ID >= w.newest {
			w.fail("checkpoint %d is said to be completed, and is not stored", m.ID)
		}
	}
}

func (w *modelWorld) checkComplete(m *Metadata) {
	if m.ID <= w.newest {
		w.fail("checkpoint %d completes after %d", m.ID, w.newest)
	}
	for _, s := range m.Members {
		if len(s.Parts) != 1 {
			w.fail("checkpoint %d: member %s has %d parts", m.ID, s.Name, len(s.Parts))
			return
		}
		st := w.states[s.Parts[0].Size]
		if st.name != s.Name || st.id != m.ID || st.epoch != m.Epoch {
			w.fail("checkpoint %d of epoch %d holds for %s the state %+v", m.ID, m.Epoch, s.Name, st)
		}
	}
	if len(m.Members) != len(w.names) {
		w.fail("checkpoint %d has %d members", m.ID, len(m.Members))
	}
}

// job does what the store has to do next: it takes effect or not, and says so or fails.
func (w *modelWorld) job() {
	a := w.jobs[0]
	w.jobs = w.jobs[1:]
	effect, err := true, error(nil)
	if !w.quiet && w.rnd.IntN(12) == 0 {
		effect, err = w.rnd.IntN(2) == 0, errors.New("the store failed")
		w.seen["store failed"]++
		if effect && a.kind == doComplete {
			w.seen["completed in spite of an error"]++
		}
	}
	switch a.kind {
	case doBegin:
		var m *Metadata
		for _, id := range w.ids() {
			if a.record.good(w.done[id]) {
				m = w.done[id]
			}
		}
		if m != nil {
			a.next.Restored = m.ID
		}
		if effect {
			next := a.next
			w.rec = &next
			for _, id := range w.ids() {
				if id > next.Restored && w.rnd.IntN(2) == 0 { // or their removal failed
					delete(w.done, id)
				}
			}
		}
		w.core.began(w.now, a.next, m, 0, err)
	case doComplete:
		switch {
		case effect && err != nil && w.rnd.IntN(2) == 0:
			w.late = append(w.late, a.meta) // a store far away does it some time
		case effect:
			w.done[a.meta.ID] = a.meta
		}
		if err == nil {
			w.newest = a.meta.ID
			w.seen["completed"]++
		}
		w.core.stored(w.now, a.meta.ID, err)
	case doSave:
		if effect {
			rec := a.record
			w.rec = &rec
		}
		w.core.saved(w.now, a.record, err)
	case doDiscard:
		if effect {
			delete(w.done, a.id)
		}
	case doPrune:
		ids := w.ids()
		for _, id := range ids[:max(0, len(ids)-3)] {
			delete(w.done, id)
		}
	}
	w.act()
}

// crash ends the coordinator. What it had asked the store for may be done all the same.
func (w *modelWorld) crash() {
	w.note("the coordinator crashes in phase %v", w.core.phase)
	for len(w.jobs) > 0 && w.rnd.IntN(2) == 0 {
		quiet := w.quiet
		w.quiet = true
		w.job()
		w.quiet = quiet
		w.seen["stored, and crashed"]++
	}
	w.jobs, w.core = nil, nil
	for _, l := range w.links {
		w.cutLink(l)
		l.unheard = false
	}
	w.links = nil
}

func (w *modelWorld) cutLink(l *modelLink) {
	if l.cut {
		return
	}
	l.cut, l.unheard = true, true
	for _, m := range l.up {
		if m.Kind == msgAck {
			w.seen["lost an acknowledgement"]++
		}
	}
	for _, m := range l.down {
		if m != nil && m.Kind == msgCompleted {
			w.seen["lost a completion"]++
		}
	}
	l.up, l.down = nil, nil
	if l.proc.link == l {
		l.proc.link = nil
	}
}

// send puts what a process says on its link.
func (w *modelWorld) send(p *modelProc, msgs []*message) {
	for _, m := range msgs {
		if p.link != nil && !p.link.cut {
			p.link.up = append(p.link.up, w.roundTrip(m))
		}
	}
}

// die ends a process.
func (w *modelWorld) die(p *modelProc) {
	if len(w.sinks[p.name].prepared) > 0 {
		w.seen["killed with something prepared"]++
	}
	p.over = true
	if p.link != nil {
		w.cutLink(p.link)
	}
}

// recover begins an epoch in a process: the sink and the position go to the restored checkpoint.
func (w *modelWorld) recover(p *modelProc, m *message) {
	sink := w.sinks[p.name]
	st := modelState{}
	if m.Restored != nil && len(m.Restored.State.Parts) > 0 {
		st = w.states[m.Restored.State.Parts[0].Size]
	}
	for _, tx := range st.txs {
		w.commit(p.name, tx)
	}
	if len(sink.prepared) > 0 {
		w.seen["rolled back"]++
	}
	clear(sink.prepared)
	if p.pos > st.pos {
		w.seen["replayed"]++
	}
	p.inEpoch, p.pos, p.from, p.prepared, p.sentBye = m.Epoch, st.pos, st.pos, nil, false
	if m.Finished {
		p.sentBye = true
		w.send(p, p.side.bye(m.Epoch))
	}
}

func (w *modelWorld) commit(name string, tx modelTx) {
	sink := w.sinks[name]
	if done, ok := sink.committed[tx.id]; ok {
		if done != tx {
			w.fail("member %s: checkpoint %d commits %v, and has committed %v", name, tx.id, tx, done)
		}
		w.seen["committed again"]++
		return
	}
	if got, ok := sink.prepared[tx.id]; !ok || got != tx {
		w.fail("member %s: %v is to be committed, and prepared is %v", name, tx, got)
	}
	delete(sink.prepared, tx.id)
	if tx.from != sink.upTo {
		w.fail("member %s: %v is committed after %d", name, tx, sink.upTo)
	}
	sink.upTo = tx.to
	sink.committed[tx.id] = tx
}

// step lets a process do one thing.
func (w *modelWorld) step(p *modelProc) {
	s := p.side
	if s.state == sideReplaced || s.state == sideRefused {
		w.seen["replaced"]++
		w.note("%s %s is replaced", p.name, s.nonce)
		w.die(p)
		return
	}
	if s.goodbye {
		w.die(p)
		return
	}
	if p.link == nil {
		if w.core != nil && w.rnd.IntN(3) == 0 {
			w.lastID++
			p.link = &modelLink{id: w.lastID, proc: p}
			w.links = append(w.links, p.link)
			w.send(p, s.connected())
		}
		if s.state == sideRunning {
			w.work(p) // data goes on flowing
		}
		return
	}
	switch s.state {
	case sideIdle:
		p.inEpoch = 0
		w.send(p, s.join())
	case sideRunning:
		if s.welcome != nil {
			w.recover(p, s.welcome)
			s.welcome = nil
			return
		}
		w.work(p)
	}
}

// work: count, take a snapshot, commit.
func (w *modelWorld) work(p *modelProc) {
	s := p.side
	if p.inEpoch != s.epoch {
		return
	}
	if len(s.events) > 0 {
		ev := s.events[0]
		s.events = s.events[1:]
		if ev.Kind == CompletedEvent {
			for len(p.prepared) > 0 && p.prepared[0].id <= ev.ID {
				w.commit(p.name, p.prepared[0])
				p.prepared = p.prepared[1:]
			}
			if ev.Last {
				p.sentBye = true
				w.send(p, s.bye(s.epoch))
			}
		}
		return
	}
	if p.sentBye {
		return
	}
	if p.pos < w.total {
		p.pos++
	}
	if p.pos == w.total {
		w.send(p, s.end(s.epoch))
	}
	for _, id := range append(s.ids(), w.overtaking(p)...) {
		c := s.open[id]
		if c != nil && (c.said != nil || w.rnd.IntN(3) > 0) {
			continue
		}
		if !w.quiet && w.rnd.IntN(20) == 0 {
			w.seen["declined"]++
			w.answer(p, c != nil, &message{Kind: msgDecline, ID: id, Cause: "no"})
			continue
		}
		if slices.ContainsFunc(p.prepared, func(tx modelTx) bool { return tx.id > id }) {
			continue // its barrier was overtaken by a newer one
		}
		tx := modelTx{id, p.from, p.pos}
		p.from = p.pos
		w.sinks[p.name].prepared[id] = tx
		p.prepared = append(p.prepared, tx)
		w.states = append(w.states, modelState{name: p.name, epoch: s.epoch, id: id, pos: p.pos, txs: slices.Clone(p.prepared)})
		w.answer(p, c != nil, &message{
			Kind: msgAck, ID: id, Parts: []Part{{Name: "s", Size: int64(len(w.states) - 1)}}, Final: s.ended,
		})
	}
}

// overtaking are the checkpoints whose barriers have come to a process with the data, from one that has answered them, while its own trigger
// is on its way.
func (w *modelWorld) overtaking(p *modelProc) (ids []int64) {
	for _, q := range w.procs {
		if q.side.epoch != p.side.epoch || q.inEpoch != p.inEpoch {
			continue
		}
		for _, id := range q.side.ids() {
			if q.side.open[id].said != nil && id > max(p.side.heard, p.side.completed) && p.side.early[id] == nil && !slices.Contains(ids, id) {
				ids = append(ids, id)
			}
		}
	}
	slices.Sort(ids)
	return ids
}

// answer says something of a checkpoint, which goes out in any case: nothing else brings the checkpoint to its end soon.
func (w *modelWorld) answer(p *modelProc, triggered bool, m *message) {
	msgs := p.side.say(p.side.epoch, m)
	if len(msgs) == 0 {
		w.fail("member %s: the answer to checkpoint %d is lost", p.name, m.ID)
	}
	if !triggered {
		w.seen["answered before its trigger"]++
	}
	w.send(p, msgs)
}

// deliver carries a message over a link, or lets its end be known.
func (w *modelWorld) deliver(l *modelLink) {
	if l.cut {
		if l.unheard && w.core != nil {
			l.unheard = false
			w.core.gone(w.now, l.id, w.rnd.IntN(2) == 0)
			w.act()
		}
		if !l.unheard {
			w.links = slices.DeleteFunc(w.links, func(o *modelLink) bool { return o == l })
		}
		return
	}
	if w.core != nil && len(l.up) > 0 && w.rnd.IntN(2) == 0 {
		m := l.up[0]
		l.up = l.up[1:]
		if m.Kind == msgHello {
			w.core.hello(l.id, m.Member, m.Nonce)
		} else {
			w.core.receive(w.now, l.id, m)
		}
		w.act()
		return
	}
	if len(l.down) > 0 && l.proc.frozen == 0 {
		m := l.down[0]
		l.down = l.down[1:]
		if m == nil {
			w.cutLink(l)
			return
		}
		if m.Kind == msgResumed {
			w.seen["resumed"]++
		}
		w.send(l.proc, l.proc.side.receive(m))
	}
}

// fault lets something go wrong.
func (w *modelWorld) fault() {
	p := w.procs[w.rnd.IntN(len(w.procs))]
	switch w.rnd.IntN(6) {
	case 0:
		w.note("%s %s is killed", p.name, p.side.nonce)
		w.die(p)
	case 1:
		if p.link != nil {
			w.note("%s %s is cut off", p.name, p.side.nonce)
			w.cutLink(p.link)
		}
	case 2:
		p.frozen = w.rnd.IntN(200)
		w.seen["frozen"]++
	case 3:
		if len(w.procs) < 2*len(w.names) {
			w.note("a second process of %s", p.name)
			w.spawn(p.name)
		}
	case 4:
		if w.core != nil {
			w.crash()
		}
	case 5:
		w.seen["failed"]++
		w.send(p, p.side.fail(p.side.epoch, "a peer is gone"))
	}
}

// turn is one step of the world.
func (w *modelWorld) turn() {
	w.now += time.Duration(w.rnd.IntN(3))
	for _, p := range slices.Clone(w.procs) {
		if p.frozen > 0 {
			p.frozen--
			continue
		}
		if w.rnd.IntN(2) == 0 {
			w.step(p)
		}
	}
	w.procs = slices.DeleteFunc(w.procs, func(p *modelProc) bool { return p.over })
	for _, name := range w.names {
		alive := slices.ContainsFunc(w.procs, func(p *modelProc) bool { return p.name == name })
		if !alive && w.rnd.IntN(10) == 0 && (w.core == nil || w.core.phase != phaseFinished) {
			w.spawn(name) // the supervisor
		}
	}
	for _, l := range slices.Clone(w.links) {
		for range 1 + w.rnd.IntN(3) {
			w.deliver(l)
		}
	}
	if w.core == nil {
		if w.rnd.IntN(20) == 0 || w.quiet {
			w.startCoordinator()
		}
		return
	}
	if len(w.jobs) > 0 && w.rnd.IntN(2) == 0 {
		w.job()
	}
	if len(w.late) > 0 && w.rnd.IntN(100) == 0 {
		m := w.late[0]
		w.late, w.done[m.ID] = w.late[1:], m
		if !w.rec.good(m) {
			w.seen["completed when its epoch was over"]++
		}
	}
	w.core.tick(w.now, time.Unix(0, int64(w.now)))
	w.act()
	if !w.quiet && w.rnd.IntN(40) == 0 && len(w.procs) > 0 {
		w.fault()
	}
}

// finished tells whether all is committed and everybody knows.
func (w *modelWorld) finished() bool {
	if w.core == nil || w.core.phase != phaseFinished {
		return false
	}
	return !slices.ContainsFunc(w.procs, func(p *modelProc) bool { return !p.side.goodbye })
}

func runModel(t *testing.T, seed uint64) map[string]int {
	w := newModelWorld(t, seed)
	for i := 0; w.problem == "" && !w.finished(); i++ {
		w.turn()
		if w.quiet = i > 1500; i > 20000 {
			w.fail("it does not come to an end: phase %v", w.core.phase)
		}
	}
	if w.problem == "" {
		for _, name := range w.names {
			if got := w.sinks[name].upTo; got != w.total {
				w.fail("member %s has committed %d of %d", name, got, w.total)
			}
		}
	}
	if w.problem != "" {
		for _, line := range w.log[max(0, len(w.log)-60):] {
			t.Log(line)
		}
		t.Fatalf("seed %d: %s", seed, w.problem)
	}
	w.seen["fenced"] += int(w.core.counts.Fenced)
	return w.seen
}

// TestModel runs the coordinator's and the members' state machines through random faults, and compares with counting.
func TestModel(t *testing.T) {
	seeds := 300
	if testing.Short() || buildtag.Race {
		seeds = 150
	}
	total := map[string]int{}
	for seed := range seeds {
		for k, n := range runModel(t, uint64(seed)) {
			total[k] += n
		}
	}
	for _, k := range []string{
		"completed", "fenced", "replaced", "replayed", "rolled back", "committed again", "resumed", "declined", "failed", "frozen",
		"killed with something prepared", "lost an acknowledgement", "lost a completion", "store failed", "completed in spite of an error",
		"stored, and crashed", "completed when its epoch was over", "recovered at the end", "answered before its trigger",
	} {
		if total[k] == 0 {
			t.Errorf("it never happened: %s", k)
		}
	}
	t.Logf("%d seeds: %v", seeds, total)
}
