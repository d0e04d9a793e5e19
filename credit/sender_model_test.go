package credit

import (
	"bytes"
	"errors"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/weirflow/weir/segment"
	"github.com/weirflow/weir/serde/event"
)

// subModel is a naive twin of one subpartition and its channel: what went in, what came out, and what may.
type subModel struct {
	open      *segment.Builder
	in, out   []byte         // bytes that the writer committed, and that arrived
	waiting   []waitingEvent // in order
	priority  []int64        // checkpoints whose barriers overtake and have not arrived
	credit    int32
	initial   int32
	requested bool
	cancelled bool
	ended     bool // end of partition was added
	gotEnd    bool
	blocked   bool // a blocking event arrived and was not resumed
	nextSeq   int32
	promised  map[int64]bool
	granted   int64
	data      int64
}

// waitingEvent is an event that was added and has not arrived; id is that of its checkpoint, if it has one.
type waitingEvent struct {
	typ segment.DataType
	id  int64
}

// senderModel drives a rig and checks the sender's invariants after every step.
type senderModel struct {
	t         *rapid.T
	r         *senderRig
	subs      []subModel
	nextByte  byte
	nextID    int64
	persisted int // checkpoints with persisted data: the test's exposure
	overtook  int
	kept      int
	packed    int // messages of several buffers
}

// Exposure over all runs of the model: what never happened was not tested.
var modelExposure exposure

type exposure struct{ sent, persisted, overtook, kept, blocked, announced, packed int }

func (e *exposure) complete() bool {
	return e.sent > 0 && e.persisted > 0 && e.overtook > 0 && e.kept > 0 && e.blocked > 0 && e.announced > 0 && e.packed > 0
}

func (m *senderModel) OutputData(id int64, sub int, bufs []segment.Buffer) {
	m.persisted++
	m.checkCopies(sub, bufs, true)
}

func (m *senderModel) OutputPromise(id int64, sub int) { m.subs[sub].promised[id] = true }

func (m *senderModel) OutputKept(id int64, sub int, bufs []segment.Buffer) {
	m.kept++
	m.settle(id, sub)
	m.checkCopies(sub, bufs, false)
}

func (m *senderModel) OutputBroken(id int64, sub int, cause error) {
	if cause == nil {
		m.t.Fatal("a promise was broken without a cause")
	}
	m.settle(id, sub)
}

// settle: each promise is settled exactly once.
func (m *senderModel) settle(id int64, sub int) {
	if !m.subs[sub].promised[id] {
		m.t.Fatalf("subpartition %d: no open promise for %d", sub, id)
	}
	delete(m.subs[sub].promised, id)
}

// checkCopies: in-flight data is exactly what was written and has not been sent (I24); of a timed-out barrier a prefix.
func (m *senderModel) checkCopies(sub int, bufs []segment.Buffer, all bool) {
	var got []byte
	for _, b := range bufs {
		got = append(got, b.Bytes()...)
	}
	s := &m.subs[sub]
	want := s.in[len(s.out):]
	if all && !bytes.Equal(got, want) || !bytes.HasPrefix(want, got) {
		m.t.Fatalf("subpartition %d: %d bytes were stored, %d are in flight", sub, len(got), len(want))
	}
}

// arrived checks one message.
func (m *senderModel) arrived(msg *sentMessage) {
	sub := int(msg.Receiver[0])
	s := &m.subs[sub]
	fail := func(format string, args ...any) {
		m.t.Helper()
		m.t.Fatalf("subpartition %d, %s seq %d: "+format, append([]any{sub, msg.Type, msg.Seq}, args...)...)
	}
	switch {
	case !s.requested || s.cancelled:
		fail("sent to a channel that does not exist (I17)")
	case s.gotEnd:
		fail("sent after the end of partition (I18)")
	case msg.Seq != s.nextSeq:
		fail("number %d follows (I5)", s.nextSeq)
	case s.blocked && !msg.Type.HasPriority():
		fail("sent between a blocking event and its resume (I10)")
	case msg.Backlog < 0 || msg.Type.BlocksUpstream() && msg.Backlog != 0:
		fail("backlog %d (I8, I10)", msg.Backlog)
	}
	if s.nextSeq += msg.Numbers(); msg.Partial > 1 {
		m.packed++
	}
	if msg.Type.IsBuffer() {
		if s.credit--; s.credit < 0 {
			fail("sent without credit (I2)")
		}
		if s.data++; s.initial > 0 && s.data > s.granted {
			fail("%d data messages for %d credits (I3)", s.data, s.granted)
		}
		if len(s.priority) > 0 {
			fail("sent before a priority event that was queued with it (I6)")
		}
		s.out = append(s.out, msg.payload...)
		if !bytes.HasPrefix(s.in, s.out) {
			fail("bytes differ (I7)")
		}
		return
	}
	var ev event.Event
	if err := event.Decode(msg.payload, &ev); err != nil {
		fail("%v", err)
	}
	if msg.Type.HasPriority() {
		m.overtook++
		if len(s.priority) > 0 && s.priority[0] == ev.Barrier.ID {
			s.priority = s.priority[1:]
			return
		}
		fail("barrier %d, but %d were to come (I6)", ev.Barrier.ID, s.priority)
	}
	if len(s.waiting) == 0 || s.waiting[0].typ != msg.Type || ev.Kind == event.CheckpointBarrier && s.waiting[0].id != ev.Barrier.ID {
		fail("%v were to come (I6)", s.waiting)
	}
	s.waiting = s.waiting[1:]
	s.blocked = s.blocked || msg.Type.BlocksUpstream()
	s.gotEnd = msg.Type == segment.EndOfPartition
}

// bytes returns n bytes that tell where they were written.
func (m *senderModel) bytes(n int) []byte {
	p := make([]byte, n)
	for i := range p {
		m.nextByte++
		p[i] = m.nextByte
	}
	return p
}

func (m *senderModel) sub() int { return rapid.IntRange(0, len(m.subs)-1).Draw(m.t, "sub") }

func (m *senderModel) closeOpen(sub int) {
	if w := m.subs[sub].open; w != nil {
		finish(w)
		m.subs[sub].open = nil
	}
}

// gone reports whether the subpartition takes nothing any more.
func (m *senderModel) gone(sub int) bool { return m.subs[sub].ended || m.r.w.Released(sub) }

func (m *senderModel) add(finished bool) {
	sub := m.sub()
	if m.gone(sub) {
		return
	}
	m.closeOpen(sub)
	p := m.bytes(rapid.IntRange(0, 20).Draw(m.t, "size"))
	if finished && len(p) == 0 {
		p = m.bytes(1)
	}
	m.subs[sub].in = append(m.subs[sub].in, p...)
	m.subs[sub].open = m.r.buffer(sub, p, finished)
	m.done()
}

func (m *senderModel) write() {
	sub := m.sub()
	w := m.subs[sub].open
	if w == nil {
		return
	}
	p := m.bytes(rapid.IntRange(1, 10).Draw(m.t, "size"))
	n := w.Append(p)
	w.Commit()
	m.subs[sub].in = append(m.subs[sub].in, p[:n]...)
	m.done()
}

func (m *senderModel) event() {
	sub := m.sub()
	if m.gone(sub) {
		return
	}
	m.nextID++
	s := &m.subs[sub]
	switch kind := rapid.IntRange(0, 3).Draw(m.t, "kind"); kind {
	case 0:
		s.priority = append(s.priority, m.nextID)
		m.r.w.AddEvent(sub, unalignedBarrier(m.nextID)) // may overtake an open buffer
	default:
		m.closeOpen(sub)
		b := []segment.Buffer{{}, someEvent(), alignedBarrier(m.nextID), timeoutableBarrier(m.nextID)}[kind]
		s.waiting = append(s.waiting, waitingEvent{b.Type(), m.nextID})
		m.r.w.AddEvent(sub, b)
	}
	m.done()
}

func (m *senderModel) finish() {
	sub := m.sub()
	if m.gone(sub) {
		return
	}
	m.closeOpen(sub)
	m.subs[sub].ended = true
	m.subs[sub].waiting = append(m.subs[sub].waiting, waitingEvent{typ: segment.EndOfPartition})
	m.r.w.Finish(sub)
	m.done()
}

func (m *senderModel) request() {
	sub := m.sub()
	s := &m.subs[sub]
	if s.requested {
		return
	}
	s.requested = true
	s.initial = rapid.Int32Range(0, 3).Draw(m.t, "initial")
	s.credit, s.granted = s.initial, int64(s.initial)
	m.r.request(sub, s.initial)
	m.done()
}

func (m *senderModel) addCredit() {
	sub := m.sub()
	s := &m.subs[sub]
	if !s.requested || s.cancelled {
		return
	}
	n := rapid.Int32Range(1, 4).Draw(m.t, "credit")
	s.credit += n
	s.granted += int64(n)
	m.r.feed(AppendAddCredit(nil, senderChannel(sub), n))
	m.done()
}

func (m *senderModel) resume() {
	sub := m.sub()
	s := &m.subs[sub]
	if !s.blocked || s.cancelled {
		return
	}
	modelExposure.blocked++
	s.blocked = false
	if s.initial == 0 {
		s.credit = 0
	}
	m.r.feed(AppendResumeConsumption(nil, senderChannel(sub)))
	m.done()
}

func (m *senderModel) cancel() {
	sub := m.sub()
	s := &m.subs[sub]
	if !s.requested || rapid.IntRange(0, 9).Draw(m.t, "really") > 0 {
		return
	}
	s.cancelled = true
	m.r.feed(AppendCancelPartitionRequest(nil, senderChannel(sub)))
	m.done()
}

func (m *senderModel) timeout() {
	sub := m.sub()
	s := &m.subs[sub]
	for id := range s.promised {
		i := slices.Index(s.waiting, waitingEvent{segment.TimeoutableAlignedBarrier, id})
		if i < 0 {
			m.t.Fatalf("subpartition %d: a promise for barrier %d, which has left", sub, id)
		}
		s.waiting = slices.Delete(s.waiting, i, i+1)
		s.priority = append(s.priority, id)
		m.r.part.Subpartition(sub).AlignedBarrierTimeout(id)
		break
	}
	m.done()
}

func (m *senderModel) abort() {
	sub := m.sub()
	for id := range m.subs[sub].promised {
		m.r.part.Subpartition(sub).AbortCheckpoint(id, errors.New("aborted"))
		break
	}
	m.done()
}

// done pumps, and checks what must hold whenever nothing is under way.
func (m *senderModel) done() {
	r := m.r
	r.pump()
	queued := 0
	for i := range m.subs {
		s := r.part.Subpartition(i)
		m.checkQueue(s)
		reader := r.core.Reader(senderChannel(i))
		if reader == nil {
			continue
		}
		if reader.credit != m.subs[i].credit {
			m.t.Fatalf("subpartition %d: credit %d, granted %d (I2)", i, reader.credit, m.subs[i].credit)
		}
		if s.blocked != m.subs[i].blocked && !s.released {
			m.t.Fatalf("subpartition %d: blocked %v, the consumer says %v", i, s.blocked, m.subs[i].blocked)
		}
		if reader.queued {
			queued++
		}
		if ok, _ := reader.available(); ok && !reader.queued && !s.blocked {
			m.t.Fatalf("subpartition %d may send and is not in the line (I12)", i)
		}
	}
	n := 0
	for x := r.core.sched.first; x != nil; x = x.next {
		if !x.queued || r.core.readers.get(&x.id) != x {
			m.t.Fatal("the line holds a reader that is not marked (I11)")
		}
		n++
	}
	if n != queued || n != r.core.sched.length {
		m.t.Fatalf("%d readers in the line, %d marked, length %d (I11)", n, queued, r.core.sched.length)
	}
	if n > 0 && r.Writable() {
		m.t.Fatal("readers wait on a connection that is idle and writable (I12)")
	}
	for _, e := range r.errors {
		m.t.Fatalf("error %v", e.Cause)
	}
}

// checkQueue: the counters of the queue are what a walk over it finds.
func (m *senderModel) checkQueue(s *Subpartition) {
	data := int32(0)
	for i := range s.queue.Len() {
		e := s.queue.At(i)
		if e.r.Type().IsBuffer() {
			data++
		}
		if e.r.Type().HasPriority() != (i < s.queue.PriorityLen()) {
			m.t.Fatalf("subpartition %d: element %d is %s, %d have priority", s.index, i, e.r.Type(), s.queue.PriorityLen())
		}
	}
	if data != s.dataCount {
		m.t.Fatalf("subpartition %d: count %d, %d data elements (I9)", s.index, s.dataCount, data)
	}
	want := data
	last := s.queue.Back()
	switch {
	case s.blocked || last == nil:
		want = 0
	case last.r.Type().IsBuffer() && !s.flushRequested && !s.finished:
		want--
	}
	if got := s.Backlog(); got != max(want, 0) {
		m.t.Fatalf("subpartition %d: backlog %d, want %d (I8)", s.index, got, want)
	}
}

// TestSenderModel checks the sender's invariants over random histories.
func TestSenderModel(t *testing.T) {
	for range 20 { // short runs may miss something rare: go on until everything was seen
		rapid.Check(t, func(rt *rapid.T) { senderHistory(t, rt) })
		if modelExposure.complete() {
			return
		}
	}
	t.Errorf("the test has not seen everything: %+v", modelExposure)
}

// senderHistory checks one random history.
func senderHistory(t *testing.T, rt *rapid.T) {

	n := rapid.IntRange(1, 3).Draw(rt, "subpartitions")
	m := &senderModel{t: rt, subs: make([]subModel, n)}
	for i := range m.subs {
		m.subs[i].promised = map[int64]bool{}
	}
	m.r = newSenderRig(t, PartitionConfig{Subpartitions: n, Exclusive: rapid.IntRange(0, 2).Draw(rt, "exclusive"), Sink: m}, 1024, 32)
	m.r.onSend = m.arrived
	m.r.packs = rapid.Bool().Draw(rt, "packs")
	rt.Repeat(map[string]func(*rapid.T){
		"add":     func(*rapid.T) { m.add(true) },
		"start":   func(*rapid.T) { m.add(false) },
		"write":   func(*rapid.T) { m.write() },
		"close":   func(*rapid.T) { m.closeOpen(m.sub()); m.done() },
		"event":   func(*rapid.T) { m.event() },
		"finish":  func(*rapid.T) { m.finish() },
		"flush":   func(*rapid.T) { m.r.w.Flush(m.sub()); m.done() },
		"timer":   func(*rapid.T) { m.r.part.FlushDirty(); m.done() },
		"request": func(*rapid.T) { m.request() },
		"credit":  func(*rapid.T) { m.addCredit() },
		"resume":  func(*rapid.T) { m.resume() },
		"cancel":  func(*rapid.T) { m.cancel() },
		"timeout": func(*rapid.T) { m.timeout() },
		"abort":   func(*rapid.T) { m.abort() },
		"room": func(*rapid.T) {
			m.r.room = rapid.SampledFrom([]int{-1, -1, 0, 1, 3}).Draw(m.t, "room")
			m.r.wanted = true
			m.done()
		},
	})
	m.drain()
	modelExposure.sent += int(m.r.core.sched.stats.Data)
	modelExposure.persisted += m.persisted
	modelExposure.overtook += m.overtook
	modelExposure.kept += m.kept
	modelExposure.packed += m.packed
	modelExposure.announced += len(m.r.backlogs)
	m.r.close()
}

// drain lets everything out, and checks that nothing is missing.
func (m *senderModel) drain() {
	r := m.r
	r.room, r.wanted = -1, true
	for i := range m.subs {
		m.closeOpen(i)
		s := &m.subs[i]
		if !s.requested {
			s.requested, s.initial, s.credit, s.granted = true, 1, 1, 1
			r.request(i, 1)
		}
		if !m.gone(i) {
			s.ended = true
			s.waiting = append(s.waiting, waitingEvent{typ: segment.EndOfPartition})
			r.w.Finish(i)
		}
	}
	m.done()
	for i := range m.subs {
		s := &m.subs[i]
		for range 1000 {
			if s.cancelled || s.gotEnd {
				break
			}
			if s.blocked {
				s.blocked = false
				if s.initial == 0 {
					s.credit = 0
				}
				r.feed(AppendResumeConsumption(nil, senderChannel(i)))
			}
			s.credit++
			s.granted++
			r.feed(AppendAddCredit(nil, senderChannel(i), 1))
			m.done()
		}
		if s.cancelled {
			continue
		}
		if !s.gotEnd || !bytes.Equal(s.in, s.out) || len(s.waiting) > 0 || len(s.priority) > 0 {
			m.t.Fatalf("subpartition %d: end %v, %d of %d bytes, %v are missing (I7)", i, s.gotEnd, len(s.out), len(s.in), s.waiting)
		}
		if len(s.promised) > 0 {
			m.t.Fatalf("subpartition %d: promises %v were never settled", i, s.promised)
		}
	}
}

var _ OutputSink = (*senderModel)(nil)
