package credit

import (
	"bytes"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/weirflow/weir/internal/modelrun"
	"github.com/weirflow/weir/segment"
	"github.com/weirflow/weir/serde/event"
)

// pairModel drives a pair at random and checks the invariants of the protocol after each step.
type pairModel struct {
	t    *rapid.T
	p    *pair
	subs []pairSub
	held []heldBuffer
	id   int64 // of the last barrier

	moved, waited, resumed, prioritized, dropped, empty, packed int
}

type heldBuffer struct {
	b  segment.Buffer
	ch int
}

// pairSub is what the model knows of a subpartition and its channel. Streams hold data bytes (below 0xF0), and for each
// event without priority 0xFA and its checkpoint's low byte.
type pairSub struct {
	open      *segment.Builder
	next      byte
	in, out   []byte  // streams
	pin, pout []int64 // priority barriers
	announced []int32 // sequence numbers
	ids       []int64 // and their barriers
	resumes   int     // blocking events taken and not resumed
	finished  bool
	released  bool
	ended     bool
}

func (m *pairModel) sub() (int, *pairSub) {
	i := rapid.IntRange(0, len(m.subs)-1).Draw(m.t, "sub")
	return i, &m.subs[i]
}

func (m *pairModel) bytes(s *pairSub) []byte {
	n := rapid.IntRange(0, 16).Draw(m.t, "size")
	p := make([]byte, n)
	for i := range p {
		p[i] = s.next
		s.next = (s.next + 1) % 0xF0
	}
	return p
}

// closeOpen finishes the open buffer, as a writer does before anything else follows.
func (s *pairSub) closeOpen() {
	if s.open != nil {
		finish(s.open)
		s.open = nil
	}
}

// writable reports whether the subpartition still takes something.
func (m *pairModel) writable(i int) bool {
	return !m.subs[i].finished && !m.p.s.w.Released(i)
}

func (m *pairModel) add() {
	i, s := m.sub()
	if !m.writable(i) {
		return
	}
	s.closeOpen()
	p := m.bytes(s)
	s.in = append(s.in, p...)
	finished := rapid.Bool().Draw(m.t, "finished")
	s.open = m.p.s.buffer(i, p, finished)
}

func (m *pairModel) write() {
	i, s := m.sub()
	if s.open == nil || !m.writable(i) {
		return
	}
	p := m.bytes(s)
	n := s.open.Append(p)
	s.open.Commit()
	s.in = append(s.in, p[:n]...)
	s.next = byte((int(s.next) + 0xF0 - (len(p) - n)) % 0xF0)
}

func (m *pairModel) event() {
	i, s := m.sub()
	if !m.writable(i) {
		return
	}
	m.id++
	switch kind := rapid.SampledFrom([]string{"aligned", "unaligned", "timeoutable", "cancel"}).Draw(m.t, "event"); kind {
	case "unaligned":
		s.pin = append(s.pin, m.id)
		m.p.s.w.AddEvent(i, unalignedBarrier(m.id))
	default:
		s.closeOpen()
		s.in = append(s.in, 0xFA, byte(m.id))
		switch kind {
		case "aligned":
			m.p.s.w.AddEvent(i, alignedBarrier(m.id))
		case "timeoutable":
			m.p.s.w.AddEvent(i, timeoutableBarrier(m.id))
		case "cancel":
			e := event.Event{Kind: event.CancelCheckpoint, CheckpointID: m.id}
			m.p.s.w.AddEvent(i, segment.Wrap(event.Append(nil, &e), segment.EventBuffer))
		}
	}
}

func (m *pairModel) poll() bool {
	it, st, err := m.p.r.gate.Poll()
	if err != nil {
		m.t.Fatalf("poll: %v", err)
	}
	if st != Ready {
		return false
	}
	s := &m.subs[it.Channel]
	if it.Event == nil {
		s.out = append(s.out, it.Buf.Bytes()...)
		m.held = append(m.held, heldBuffer{it.Buf, it.Channel})
		m.moved++
		return true
	}
	switch e := it.Event; e.Kind {
	case event.CheckpointBarrier:
		if e.Barrier.Options.NeedsAlignment() {
			s.resumes++
		}
		if it.Type.HasPriority() {
			s.pout = append(s.pout, e.Barrier.ID)
		} else {
			s.out = append(s.out, 0xFA, byte(e.Barrier.ID))
		}
	case event.CancelCheckpoint:
		s.out = append(s.out, 0xFA, byte(e.CheckpointID))
	case event.Announcement:
		s.announced = append(s.announced, e.Seq)
		s.ids = append(s.ids, e.Announced.Barrier.ID)
	case event.EndOfPartition:
		s.ended = true
	default:
		m.t.Fatalf("unexpected %v", e)
	}
	return true
}

// prioritize makes an announced barrier overtake what is queued before it.
func (m *pairModel) prioritize() {
	i, s := m.sub()
	if rapid.Bool().Draw(m.t, "soon") && m.writable(i) && !s.released && !s.ended {
		// What it takes to come to an announcement whose barrier waits behind data.
		s.closeOpen()
		s.in = append(s.in, s.next)
		m.p.s.buffer(i, []byte{s.next}, true)
		s.next = (s.next + 1) % 0xF0
		m.id++
		s.in = append(s.in, 0xFA, byte(m.id))
		m.p.s.w.AddEvent(i, timeoutableBarrier(m.id))
		if err := m.p.settle(); err != nil {
			m.t.Fatal(err)
		}
		m.p.r.gate.Fill()
		if m.p.r.gate.NextIsPriority() {
			m.poll()
		}
	}
	if len(s.announced) == 0 || s.released || s.ended {
		return
	}
	seq, id := s.announced[0], s.ids[0]
	s.announced, s.ids = s.announced[1:], s.ids[1:]
	if m.p.r.gate.Prioritize(i, seq) != nil {
		return // it was taken meanwhile, or is not the last one
	}
	m.prioritized++
	at := bytes.Index(s.in[len(s.out):], []byte{0xFA, byte(id)})
	if at < 0 {
		m.t.Fatalf("barrier %d was made a priority event, but is not to come", id)
	}
	at += len(s.out)
	s.in = append(s.in[:at:at], s.in[at+2:]...)
	s.pin = append(s.pin, id)
}

func (m *pairModel) resume(i int) {
	s := &m.subs[i]
	if s.resumes == 0 || s.released || s.ended {
		return
	}
	s.resumes--
	if err := m.p.r.gate.Resume(i); err != nil {
		m.t.Fatalf("resume: %v", err)
	}
	m.resumed++
}

func (m *pairModel) giveBack(k int) {
	h := m.held[k]
	m.held = append(m.held[:k], m.held[k+1:]...)
	if m.id%2 == 0 {
		m.p.r.gate.Recycle(h.ch, h.b)
	} else {
		h.b.Release()
	}
}

// check checks the invariants, at a point where nothing is half done.
func (m *pairModel) check() {
	p := m.p
	p.pump()
	charged, floats := int32(0), int32(0)
	for i := range m.subs {
		s, c := &m.subs[i], p.r.ch[i]
		l := &c.ledger
		charged += c.charged
		floats += l.borrowed
		if err := c.Err(); err != nil {
			m.t.Fatalf("channel %d: %v", i, err)
		}
		if bytes.HasPrefix(s.in, s.out) == false {
			m.t.Fatalf("channel %d: % x came of % x", i, s.out, s.in)
		}
		g := &p.r.gate.chans[i]
		if g.q.Len() > 0 && !g.ended && !g.enqueued && !g.held {
			m.t.Fatalf("channel %d holds %d items and is not in the line (I20)", i, g.q.Len())
		}
		if l.unannounced < 0 || l.floating < 0 || l.exclusive < 0 {
			m.t.Fatalf("channel %d: negative count in %+v", i, l)
		}
		if l.waiting {
			m.waited++
		}
		if s.released || s.ended {
			continue
		}
		if l.exclusive+c.charged-(l.borrowed-l.floating) != l.initial {
			m.t.Fatalf("channel %d: exclusive units are lost: %+v, %d charged (I14)", i, l, c.charged)
		}
		reader := p.s.core.Reader(c.id)
		if reader == nil {
			continue // the request is under way
		}
		if l.initial == 0 && p.s.part.Subpartition(i).Blocked() {
			continue // resume sets both ends to nothing
		}
		t, d := p.underway(c.id)
		if sum := l.unannounced + t + reader.Credit() + d; sum != l.Free() {
			m.t.Fatalf("channel %d: %d unannounced, %d and %d under way, %d at the sender; %d free (I1)", i,
				l.unannounced, t, d, reader.Credit(), l.Free())
		}
		if c.outstanding != t+reader.Credit()+d {
			m.t.Fatalf("channel %d: %d outstanding, should be %d + %d + %d", i, c.outstanding, t, reader.Credit(), d)
		}
	}
	if n := p.r.recv.Local().Stats().InUse; n != int(charged) {
		m.t.Fatalf("%d segments in use, %d charged (I15)", n, charged)
	}
	if b := p.r.port.Budget(); b.Out() != floats || b.Out() > b.Limit() {
		m.t.Fatalf("%d floating units out, channels have %d, limit %d", b.Out(), floats, b.Limit())
	}
}

// drain ends everything and checks that all came, and all came home.
func (m *pairModel) drain() {
	p := m.p
	p.full, p.r.wire.full = false, false
	for i := range m.subs {
		m.subs[i].closeOpen()
		m.subs[i].finished = true
		p.s.w.Finish(i)
	}
	for range 10_000 {
		if err := p.settle(); err != nil {
			m.t.Fatal(err)
		}
		worked := m.poll()
		for i := range m.subs {
			for m.subs[i].resumes > 0 && !m.subs[i].released && !m.subs[i].ended {
				m.resume(i)
				worked = true
			}
		}
		for len(m.held) > 0 {
			m.giveBack(0)
			worked = true
		}
		m.check()
		if !worked {
			break
		}
	}
	for i := range m.subs {
		s := &m.subs[i]
		if s.released {
			continue
		}
		if !s.ended || !bytes.Equal(s.in, s.out) || len(s.pin) != len(s.pout) {
			m.t.Fatalf("channel %d: ended %v, % x of % x, priority %v of %v (I7)", i, s.ended, s.out, s.in, s.pout, s.pin)
		}
	}
	if !p.r.gate.Finished() {
		for i := range m.subs {
			if !m.subs[i].released {
				continue
			}
			return // a gate with a channel that was given up never finishes
		}
		m.t.Fatal("all channels ended, the gate did not (I21)")
	}
}

func TestPairModel(t *testing.T) {
	var total pairModel
	modelrun.Rounds(t, func(int) bool { // a hundred histories may miss something rare
		rapid.Check(t, func(rt *rapid.T) { pairHistory(t, rt, &total) })
		return total.packed > 0 && total.moved > 0 && total.waited > 0 && total.resumed > 0 && total.prioritized > 0 && total.dropped > 0
	})
	t.Logf("%d buffers, %d waits, %d resumes, %d prioritized, %d released", total.moved, total.waited, total.resumed, total.prioritized, total.dropped)
}

// pairHistory checks one random history, and adds what it met to total.
func pairHistory(t *testing.T, rt *rapid.T, total *pairModel) {
	n := rapid.IntRange(1, 3).Draw(rt, "subpartitions")
	var cfg rigConfig
	if rapid.Bool().Draw(rt, "batched") {
		cfg.client.Policy = Batched{Max: 3}
	}
	cfg.packs = rapid.Bool().Draw(rt, "packs")
	p := newPair(t, n, rapid.IntRange(0, 3).Draw(rt, "exclusive"), rapid.IntRange(1, 4).Draw(rt, "floating"), cfg)
	m := &pairModel{t: rt, p: p, subs: make([]pairSub, n)}
	step := func(f func()) func(*rapid.T) {
		return func(*rapid.T) {
			f()
			m.check()
		}
	}
	actions := map[string]func(*rapid.T){
		"add":   step(m.add),
		"add2":  step(m.add),
		"write": step(m.write),
		"event": step(m.event),
		"flush": step(func() { i, _ := m.sub(); p.s.w.Flush(i) }),
		"deliver": step(func() {
			down := rapid.SampledFrom([]int{1, 40, 47, 60, 1000}).Draw(rt, "down")
			up := rapid.SampledFrom([]int{0, 1, 28, 1000}).Draw(rt, "up")
			if err := p.deliver(down, up); err != nil {
				rt.Fatal(err)
			}
		}),
		"poll":  step(func() { m.poll() }),
		"poll2": step(func() { m.poll() }),
		"recycle": step(func() {
			if len(m.held) > 0 {
				m.giveBack(rapid.IntRange(0, len(m.held)-1).Draw(rt, "buffer"))
			}
		}),
		"resume":     step(func() { i, _ := m.sub(); m.resume(i) }),
		"prioritize": step(m.prioritize),
		"full": step(func() {
			p.full = rapid.Bool().Draw(rt, "sender")
			p.r.wire.full = rapid.Bool().Draw(rt, "receiver")
			p.s.wanted = true
		}),
		"release": step(func() {
			if i, s := m.sub(); rapid.IntRange(0, 9).Draw(rt, "really") == 0 && !s.released && !s.ended {
				s.released = true
				p.r.gate.Release(i)
				// Its place in the line would be an error of the next poll.
				p.r.gate.leave(&p.r.gate.chans[i])
				m.dropped++
			}
		}),
	}
	names := slices.Sorted(maps.Keys(actions))
	for range rapid.IntRange(10, 120).Draw(rt, "steps") {
		actions[rapid.SampledFrom(names).Draw(rt, "action")](rt)
	}
	m.drain()
	p.close()
	total.moved += m.moved
	total.waited += m.waited
	total.resumed += m.resumed
	total.prioritized += m.prioritized
	total.dropped += m.dropped
	total.packed += p.packed
}
