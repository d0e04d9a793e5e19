package credit

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/weirflow/weir/internal/buildtag"
	"github.com/weirflow/weir/internal/modelrun"
	"github.com/weirflow/weir/segment"
	"github.com/weirflow/weir/serde/event"
)

// landModel sends the same random stream, cut at the same places, to two receivers: one is fed, the other has it landed where it
// says, as netio does it. Nobody may be able to tell them apart.
type landModel struct {
	t       *rapid.T
	fed     *rig
	landed  *rig
	rng     *rand.Rand // what payloads are made of
	profile Profile
	size    int // of a segment
	run     int // bytes of the data messages of a run
	room    int // of a read
	senders []landSender
	stream  []byte // under way
	held    []landHeld
	lent    map[*byte]bool // memory that a task holds
	placed  map[*byte]bool // memory that a whole payload was read into
	seen    modelrun.Exposure
	err     error // of the connection
}

// landSender is what the server knows of a channel.
type landSender struct {
	seq, credit int32
	blocked     bool // behind a barrier
	stopped     bool // it has heard that the receiver is gone, or has sent what ends it
	resumes     int  // barriers that the task took and has not resumed
	released    bool // by the task
}

// landHeld is a buffer that the task has not given back, of both receivers.
type landHeld struct {
	ch         int
	fed, other segment.Buffer
	text       []byte
}

func newLandModel(t testing.TB, rt *rapid.T, seen modelrun.Exposure) *landModel {
	m := &landModel{t: rt, rng: rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "payloads"), 1)), seen: seen,
		lent: map[*byte]bool{}, placed: map[*byte]bool{}}
	m.profile = rapid.SampledFrom([]Profile{Flink23, Flink120}).Draw(rt, "profile")
	m.size = rapid.SampledFrom([]int{landLeast, landLeast + 100, 2 * landLeast}).Draw(rt, "segment")
	m.run = rapid.SampledFrom([]int{m.size, m.size, landLeast}).Draw(rt, "run")
	m.room = rapid.SampledFrom([]int{m.size + 60, 3*m.size + 200, 10*m.size + 1, 400 << 10}).Draw(rt, "room")
	channels := rapid.IntRange(1, 3).Draw(rt, "channels")
	cfg := rigConfig{channels: channels, exclusive: rapid.IntRange(0, 8).Draw(rt, "exclusive"),
		floating: rapid.IntRange(1, 12).Draw(rt, "floating"), segment: m.size, leaky: true}
	cfg.client.Decoder.Profile = m.profile
	cfg.client.ListenerTimeout, cfg.client.MaxBackoff = 1, 2
	cfg.gate.Decompress = func(b segment.Buffer) (segment.Buffer, error) {
		seen["compressed"]++
		return b.WithCompressed(false), nil
	}
	if rapid.Bool().Draw(rt, "batched") {
		cfg.client.Policy = Batched{Max: 3}
	}
	m.fed, m.landed = newRig(t, cfg), newRig(t, cfg)
	m.senders = make([]landSender, channels)
	m.settle()
	return m
}

// channel draws a channel, with its sender.
func (m *landModel) channel() (int, *landSender) {
	i := rapid.IntRange(0, len(m.senders)-1).Draw(m.t, "channel")
	return i, &m.senders[i]
}

// append sends a message of a channel.
func (m *landModel) append(id ChannelID, h BufferHeader) {
	h.Receiver = id
	payload := make([]byte, h.Size)
	for i := 0; i < len(payload); i += 8 {
		v := m.rng.Uint64()
		for j := i; j < min(i+8, len(payload)); j++ {
			payload[j] = byte(v >> (8 * (j - i)))
		}
	}
	m.stream = AppendBufferResponse(m.stream, m.profile, &h, payload)
}

// data sends a data message if there is credit, or anyway.
func (m *landModel) data(ch, n int, backlog int32, anyway bool) {
	s := &m.senders[ch]
	if s.stopped || s.blocked || s.credit == 0 && !anyway {
		return
	}
	if s.credit == 0 && n > 0 {
		m.seen["overrun"]++
	} else if s.credit > 0 {
		s.credit--
	}
	h := BufferHeader{Seq: s.seq, Backlog: backlog, Type: segment.DataBuffer, Size: int32(n)}
	s.seq++
	m.append(rigID(ch), h)
}

// full sends a run of data messages of one size.
func (m *landModel) full() {
	n := rapid.IntRange(1, 20).Draw(m.t, "messages")
	one := rapid.Bool().Draw(m.t, "one channel")
	ch, _ := m.channel()
	for range n {
		if !one {
			ch = m.rng.IntN(len(m.senders))
		}
		m.data(ch, m.run, int32(m.rng.IntN(4)), false)
	}
}

// odd sends a data message of another size.
func (m *landModel) odd() {
	ch, _ := m.channel()
	n := rapid.OneOf(rapid.IntRange(0, 60), rapid.IntRange(landLeast-1, m.size)).Draw(m.t, "size")
	m.data(ch, n, int32(m.rng.IntN(4)), false)
	if n == 0 {
		m.seen["empty"]++
	}
}

// packed sends several buffers in one message, or a compressed one.
func (m *landModel) packed() {
	ch, s := m.channel()
	if s.stopped || s.blocked || s.credit == 0 {
		return
	}
	s.credit--
	h := BufferHeader{Seq: s.seq, Type: segment.DataBuffer, Size: int32(m.run)}
	if m.profile == Flink23 && rapid.Bool().Draw(m.t, "partial sizes") {
		h.PartialSizes = []int32{1000, 1, int32(m.run) - 1001}
		h.Partial = 3
		m.seen["partial sizes"]++
	} else {
		h.Compressed = true
	}
	s.seq += h.Numbers()
	m.append(rigID(ch), h)
}

// event sends one that waits its turn, small or large, or blocks its channel.
func (m *landModel) event() {
	ch, s := m.channel()
	if s.stopped || s.blocked {
		return
	}
	e := event.Event{Kind: event.CancelCheckpoint, CheckpointID: int64(s.seq)}
	switch rapid.IntRange(0, 3).Draw(m.t, "event") {
	case 0:
		e = aligned(int64(s.seq))
		s.blocked = true
	case 1:
		e = barrier(int64(s.seq), event.AtLeastOnce, event.NoTimeout)
		e.Barrier.Options.Location = make([]byte, rapid.SampledFrom([]int{10, landLeast, 3 * landLeast}).Draw(m.t, "location"))
		m.seen["large event"]++
	}
	p := event.AppendPadded(nil, &e)
	h := BufferHeader{Receiver: rigID(ch), Seq: s.seq, Type: event.DataTypeOf(&e, false), Size: int32(len(p))}
	s.seq++
	m.stream = AppendBufferResponse(m.stream, m.profile, &h, p)
}

// strange sends what belongs to no channel.
func (m *landModel) strange() {
	if rapid.IntRange(0, 3).Draw(m.t, "really") != 0 {
		return
	}
	m.seen["unknown"]++
	m.append(rigID(99), BufferHeader{Type: segment.DataBuffer, Size: int32(m.run)})
}

// announce announces a backlog.
func (m *landModel) announce() {
	ch, s := m.channel()
	if !s.stopped && !s.blocked {
		m.stream = AppendBacklogAnnouncement(m.stream, rigID(ch), int32(rapid.IntRange(1, 20).Draw(m.t, "backlog")))
	}
}

// refuse ends a channel by an error of the server, or the connection, or sends what is no message.
func (m *landModel) refuse() {
	ch, s := m.channel()
	if rapid.IntRange(0, 7).Draw(m.t, "really") != 0 {
		return
	}
	what := rapid.SampledFrom([]string{"channel", "not found", "overrun", "overrun", "gap", "fatal", "magic", "length", "type", "size"}).Draw(m.t, "error")
	at := len(m.stream)
	switch what {
	case "channel":
		m.stream = AppendErrorResponse(m.stream, AppendThrowable(nil, ClassIOException, "boom"), rigID(ch), false)
	case "not found":
		m.stream = AppendErrorResponse(m.stream, AppendThrowable(nil, ClassPartitionNotFound, "gone"), rigID(ch), false)
	case "fatal":
		m.stream = AppendErrorResponse(m.stream, AppendThrowable(nil, ClassIOException, "boom"), ChannelID{}, true)
	case "overrun":
		for range s.credit + 1 {
			m.data(ch, m.run, 0, true)
		}
	case "gap":
		s.seq++
		m.data(ch, m.run, 0, false)
	default:
		m.data(ch, m.run, 0, true)
		if len(m.stream) == at {
			return
		}
		switch p := m.stream[at:]; what {
		case "magic":
			p[5] ^= 1
		case "length":
			p[3] ^= 1
		case "type":
			p[FrameHeaderLen+m.profile.headerLen()-6] = 200
		case "size":
			p[FrameHeaderLen+m.profile.headerLen()-1] ^= 1
		}
	}
	if what != "gap" && what != "overrun" {
		s.stopped = true
	}
}

// deliver lets bytes arrive at both.
func (m *landModel) deliver() {
	n := rapid.OneOf(rapid.IntRange(1, 100), rapid.IntRange(1, 2*m.size), rapid.IntRange(m.size, m.room), rapid.Just(m.room)).Draw(m.t, "bytes")
	n = min(n, m.room, len(m.stream))
	if n == 0 || m.err != nil {
		return
	}
	chunk := bytes.Clone(m.stream[:n])
	m.stream = m.stream[n:]
	landed := m.land(bytes.Clone(chunk)) // first, as it says when segments come home
	fed := m.fed.core.Feed(chunk)
	if fmt.Sprint(fed) != fmt.Sprint(landed) {
		m.t.Fatalf("fed: %v\nlanded: %v", fed, landed)
	}
	if m.err = fed; fed != nil {
		m.seen["error"]++
		m.stream = nil
		if errors.Is(fed, ErrRemote) {
			m.seen["fatal"]++
		}
	}
	if a, b := len(m.fed.core.dirty), len(m.landed.core.dirty); a+b != 0 {
		m.t.Fatalf("%d and %d gates do not see what came", a, b)
	}
	m.settle()
}

// land is what netio does with the bytes of one read.
func (m *landModel) land(chunk []byte) error {
	core, pool := m.landed.core, m.landed.recv.Local()
	if rapid.IntRange(0, 4).Draw(m.t, "plain") == 0 {
		m.home()
		return core.Feed(chunk)
	}
	pieces := m.ask()
	for len(pieces) > 0 && rapid.IntRange(0, 7).Draw(m.t, "nothing came") == 0 {
		if err := core.Landed(0, nil); err != nil {
			m.t.Fatal(err)
		}
		if now, charged := pool.Stats().InUse, charged(m.landed); now != charged {
			m.t.Fatalf("%d segments in use, %d charged, after a read that got nothing", now, charged)
		}
		m.seen["nothing"]++
		// The pause goes on with each question, so it may be that there are none now.
		again := m.ask()
		for i := range min(len(pieces), len(again)) {
			if !buildtag.Debug && (&pieces[i][0] != &again[i][0] || len(pieces[i]) != len(again[i])) {
				m.t.Fatalf("piece %d is another one after a read that got nothing", i)
			}
		}
		pieces = again
	}
	if len(pieces) == 0 {
		if now, charged := pool.Stats().InUse, charged(m.landed); now != charged {
			m.t.Fatalf("%d segments are lent without pieces", now-charged)
		}
		m.home()
		return core.Feed(chunk)
	}
	m.home()
	rest, k, whole := chunk, 0, []*byte(nil)
	for _, p := range pieces {
		n := copy(p, rest)
		if n == len(p) && n >= landLeast {
			whole = append(whole, &p[0])
		}
		k, rest = k+n, rest[n:]
	}
	if len(m.landed.core.landing.pieces[0]) > 0 && core.landing.tail {
		m.seen["tail"]++
		if len(pieces[0]) >= landLeast && len(whole) > 0 { // the rest of a segment is no whole one
			whole = slices.DeleteFunc(whole, func(p *byte) bool { return p == &pieces[0][0] })
		}
	}
	spill := bytes.Repeat([]byte{0xEE}, k)
	err := core.Landed(k, spill[:k:k])
	for i := range spill { // nobody may keep it
		spill[i] = 0xDD
	}
	switch {
	case err != nil:
		m.seen["error while landing"]++
	case core.landing.pause > 0:
		m.seen["miss"]++
	default:
		for _, p := range whole {
			m.placed[p] = true
		}
	}
	if core.landing.n != 0 || slices.ContainsFunc(core.landing.lent[:], func(b segment.Buffer) bool { return !b.IsZero() }) {
		m.t.Fatal("lent beyond the read")
	}
	if err == nil && len(rest) > 0 {
		m.seen["overflow"]++
		err = core.Feed(rest)
	}
	return err
}

// home takes in what was given back, at both. A loan does so when it finds nothing, at a time of its own, and whether a channel stands in
// line for a floating buffer depends on what came first, that or a backlog.
func (m *landModel) home() {
	m.fed.recv.Poll()
	m.landed.recv.Poll()
}

// ask asks for pieces, and checks that they are what may be asked for.
func (m *landModel) ask() [][]byte {
	core, pool := m.landed.core, m.landed.recv.Local()
	outstanding := core.outstanding
	pieces := slices.Clone(core.Land(m.room))
	l := &core.landing
	total := 0
	for i, p := range pieces {
		if total += len(p); len(p) == 0 {
			m.t.Fatalf("piece %d is empty", i)
		}
	}
	if total > m.room {
		m.t.Fatalf("%d bytes, there is room for %d", total, m.room)
	}
	if len(pieces) == 0 {
		return nil
	}
	p := pieces
	if l.tail {
		p = p[1:]
	}
	n := len(p) / 2
	free := m.landed.recv.Capacity() - pool.Stats().InUse + n // after the loan, which takes in what came home meanwhile
	most := min(outstanding, free, landMost)
	if len(p) != 2*n || n > most {
		m.t.Fatalf("%d segments lent, with credit for %d, %d are free", n, outstanding, free)
	}
	if need := core.decoder.headLen() + core.landing.size; n < most && total+need <= m.room {
		m.t.Fatalf("%d segments lent of %d, with %d bytes of room left", n, most, m.room-total)
	}
	if n == most && outstanding < landMost {
		m.seen["bounded by credit"]++
	}
	for i := 1; i < len(p); i += 2 {
		if at := &p[i][0]; m.lent[at] {
			m.t.Fatal("a segment is lent that a task holds")
		} else {
			delete(m.placed, at)
		}
	}
	return pieces
}

// poll polls both gates and compares what comes.
func (m *landModel) poll() bool {
	a, sa, ea := m.fed.gate.Poll()
	b, sb, eb := m.landed.gate.Poll()
	if x, y := describe(a, sa, ea), describe(b, sb, eb); x != y {
		m.t.Fatalf("fed: %.200q\nlanded: %.200q", x, y)
	}
	switch {
	case ea != nil:
		m.seen["channel error"]++
		if errors.Is(ea, ErrNoBuffer) {
			m.seen["no buffer"]++
		}
		return true
	case sa != Ready:
		return false
	case a.Event != nil:
		m.seen["event"]++
		if e := a.Event; e.Kind == event.CheckpointBarrier && e.Barrier.Options.NeedsAlignment() {
			m.senders[a.Channel].resumes++
		}
		return true
	}
	if a.Buf.Type() != b.Buf.Type() || a.Seq != b.Seq {
		m.t.Fatalf("%v %d and %v %d", a.Buf.Type(), a.Seq, b.Buf.Type(), b.Seq)
	}
	h := landHeld{ch: a.Channel, fed: a.Buf, other: b.Buf, text: bytes.Clone(a.Buf.Bytes())}
	if p := b.Buf.Bytes(); len(p) > 0 {
		if m.placed[&p[0]] {
			m.seen["in place"]++
		}
		m.lent[&p[0]] = true
	}
	m.held = append(m.held, h)
	m.seen["data"]++
	return true
}

// recycle gives a buffer back at both.
func (m *landModel) recycle(i int) {
	h := m.held[i]
	m.held = slices.Delete(m.held, i, i+1)
	p := h.other.Bytes()
	if !bytes.Equal(p, h.text) || !bytes.Equal(h.fed.Bytes(), h.text) {
		m.t.Fatal("a buffer changed while a task held it")
	}
	if len(p) > 0 {
		delete(m.lent, &p[0])
	}
	if m.rng.IntN(2) == 0 {
		m.fed.gate.Recycle(h.ch, h.fed)
		m.landed.gate.Recycle(h.ch, h.other)
	} else {
		h.fed.Release()
		h.other.Release()
	}
}

func (m *landModel) resume(ch int) {
	s := &m.senders[ch]
	if s.resumes == 0 || s.released {
		return
	}
	s.resumes--
	a, b := m.fed.gate.Resume(ch), m.landed.gate.Resume(ch)
	if fmt.Sprint(a) != fmt.Sprint(b) {
		m.t.Fatal(a, b)
	}
}

func (m *landModel) release() {
	ch, s := m.channel()
	if s.released || rapid.IntRange(0, 9).Draw(m.t, "really") != 0 {
		return
	}
	s.released = true
	m.seen["released"]++
	for _, r := range []*rig{m.fed, m.landed} {
		r.gate.Release(ch)
		r.gate.leave(&r.gate.chans[ch]) // its place in the line would be an error of the next poll
	}
}

// settle runs both loops and compares what they say and where they stand.
func (m *landModel) settle() {
	m.fed.pump()
	m.landed.pump()
	a, b := m.fed.written(), m.landed.written()
	if !slices.Equal(a, b) {
		m.t.Fatalf("fed: %q\nlanded: %q", a, b)
	}
	for _, line := range a {
		var what string
		var ch int
		var n int32
		if _, err := fmt.Sscan(line, &what, &ch, &n); err != nil && !strings.Contains("cancel resume", what) {
			m.t.Fatal(line, err)
		}
		if ch >= len(m.senders) {
			continue // the strange one
		}
		switch s := &m.senders[ch]; what {
		case "request":
			s.credit = n
		case "credit":
			s.credit += n
		case "resume":
			s.blocked = false
			if m.fed.ch[ch].ledger.initial == 0 {
				s.credit = 0
			}
		case "cancel":
			s.stopped = true
		}
	}
	if a, b := m.state(m.fed), m.state(m.landed); a != b {
		m.t.Fatalf("fed: %s\nlanded: %s", a, b)
	}
	for _, h := range m.held {
		if !bytes.Equal(h.other.Bytes(), h.text) {
			m.t.Fatal("a buffer changed while a task held it")
		}
	}
}

// state is everything that a receiver counts.
func (m *landModel) state(r *rig) string {
	var s strings.Builder
	c := r.core
	fmt.Fprintln(&s, c.outstanding, c.idle, c.stats, c.channels.len(), c.Pending(), c.refs, c.err, r.port.Budget().Out(), r.recv.Reserved())
	for _, ch := range r.ch {
		l := &ch.ledger
		fmt.Fprintln(&s, ch.expected, ch.outstanding, ch.charged, ch.blocked, ch.err, ch.released, l.exclusive, l.floating, l.borrowed,
			l.required, l.unannounced, l.waiting)
	}
	d := c.decoder
	fmt.Fprintln(&s, d.offset, d.err)
	if d.err == nil { // after one it stays where it is, and how it counted until then is its affair
		fmt.Fprintln(&s, d.InFrame(), d.stage, d.n, d.keep)
	}
	if n, charged := r.recv.Local().Stats().InUse, charged(r); n != charged {
		m.t.Fatalf("%d segments in use, %d charged", n, charged)
	}
	return s.String()
}

// charged is how many segments the channels of a receiver have.
func charged(r *rig) (n int) {
	for _, ch := range r.ch {
		n += int(ch.charged)
	}
	return n
}

// drain delivers all that is under way, takes it all and gives it back.
func (m *landModel) drain() {
	for len(m.stream) > 0 && m.err == nil {
		m.deliver()
	}
	for range 10_000 {
		worked := m.poll()
		for i := range m.senders {
			for m.senders[i].resumes > 0 && !m.senders[i].released && m.err == nil {
				m.resume(i)
			}
		}
		for len(m.held) > 0 {
			m.recycle(0)
		}
		m.settle()
		if !worked {
			break
		}
	}
	// Half a message may have come.
	m.fed.close()
	m.landed.close()
}

// What is read straight into segments comes to the same as what is copied there.
func TestLandModel(t *testing.T) {
	seen := modelrun.Exposure{}
	needed := []string{"data", "in place", "miss", "tail", "overflow", "nothing", "event", "large event", "empty", "unknown", "released", "overrun",
		"no buffer", "compressed", "partial sizes", "channel error", "error", "fatal", "error while landing", "bounded by credit"}
	steps := 0
	modelrun.Rounds(t, func(int) bool {
		rapid.Check(t, func(rt *rapid.T) { steps += landHistory(t, rt, seen) })
		return seen["in place"] > 500 && !slices.ContainsFunc(needed, func(what string) bool { return seen[what] == 0 })
	})
	seen.Report(t, "landing", steps, needed...)
}

func landHistory(t *testing.T, rt *rapid.T, seen modelrun.Exposure) (steps int) {
	m := newLandModel(t, rt, seen)
	do := func(f func()) func() {
		return func() {
			f()
			m.settle()
		}
	}
	all := func() {
		for m.poll() {
			m.settle()
		}
		for len(m.held) > 0 {
			m.recycle(0)
		}
	}
	actions := map[string]func(){
		"full": do(m.full), "full2": do(m.full), "full3": do(m.full), "full4": do(m.full),
		"odd": do(m.odd), "packed": do(m.packed), "event": do(m.event), "strange": do(m.strange), "announce": do(m.announce),
		"refuse":  do(m.refuse),
		"deliver": m.deliver, "deliver2": m.deliver, "deliver3": m.deliver, "deliver4": m.deliver,
		"poll": do(func() { m.poll() }), "all": do(all), "all2": do(all),
		"recycle": do(func() {
			if len(m.held) > 0 {
				m.recycle(rapid.IntRange(0, len(m.held)-1).Draw(rt, "buffer"))
			}
		}),
		"resume": do(func() {
			for ch := range m.senders {
				m.resume(ch)
			}
		}),
		"release": do(m.release),
	}
	names := slices.Sorted(maps.Keys(actions))
	steps = rapid.IntRange(30, 300).Draw(rt, "steps")
	for range steps {
		actions[rapid.SampledFrom(names).Draw(rt, "action")]()
	}
	m.drain()
	return steps
}
