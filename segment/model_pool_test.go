package segment

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"pgregory.net/rapid"
)

// naivePool is the rules of NetworkBufferPool and LocalBufferPool written down with counters alone. It is driven beside
// the real one, which must agree in every counter after every step.
type naivePool struct {
	total, free, required, unpooled int
	locals                          []*naiveLocal
	closing                         []*naiveLocal
}

type naiveLocal struct {
	p                                   *naivePool
	required, max, quota, overdraft     int
	size, target, requested, idle       int
	counts                              []int
	waiting, woken, closed, resizeNoted bool
	homeless                            []int // charges of segments that were released and not yet taken in
}

func (p *naivePool) redistribute() {
	avail := p.total - p.required
	capacity := 0
	for _, l := range p.locals {
		capacity += min(avail, l.max-l.required)
	}
	give := min(avail, capacity)
	parts, given := 0, 0
	for _, l := range p.locals {
		if l.max == l.required {
			continue
		}
		mine := 0
		if avail > 0 && capacity > 0 {
			parts += min(avail, l.max-l.required)
			mine = give*parts/capacity - given
			given += mine
		}
		l.target = l.required + mine
	}
}

func (p *naivePool) put() {
	p.free++
	for _, l := range p.locals {
		if l.waiting {
			l.woken = true
		}
	}
}

func (p *naivePool) create(required, most, subs, quota, overdraft int) (*naiveLocal, bool) {
	if p.required+required > p.total {
		return nil, false
	}
	p.required += required
	l := &naiveLocal{p: p, required: required, max: most, quota: quota, overdraft: overdraft, size: required, target: required,
		counts: make([]int, subs)}
	p.locals = append(p.locals, l)
	p.redistribute()
	l.attend()
	return l, true
}

// attend does what the owner's next call does first.
func (l *naiveLocal) attend() {
	if l.woken {
		l.woken, l.waiting = false, false
	}
	l.size = l.target
	for l.requested > l.size && l.idle > 0 {
		l.idle--
		l.requested--
		l.p.put()
	}
	l.update()
}

func (l *naiveLocal) update() {
	if l.idle > 0 || l.requested >= l.size || l.waiting || l.closed {
		return
	}
	if l.p.free == 0 {
		l.waiting = true
		return
	}
	l.p.free--
	l.requested++
	l.idle++
}

func (l *naiveLocal) drain() {
	for _, sub := range l.homeless {
		l.home(sub)
	}
	l.homeless = nil
	l.attend()
}

func (l *naiveLocal) home(sub int) {
	if sub >= 0 {
		l.counts[sub]--
	}
	if l.requested > l.size {
		l.requested--
		l.p.put()
		return
	}
	l.idle++
}

func (l *naiveLocal) take(sub int) bool {
	l.attend()
	if l.idle == 0 {
		l.drain()
	}
	switch {
	case l.idle > 0:
		l.idle--
	case l.requested >= l.size && l.requested-l.size < l.overdraft && l.p.free > 0:
		l.p.free--
		l.requested++
	default:
		return false
	}
	if sub >= 0 {
		l.counts[sub]++
	}
	l.update()
	return true
}

func (l *naiveLocal) over() (n int) {
	for _, c := range l.counts {
		if c >= l.quota {
			n++
		}
	}
	return n
}

func (l *naiveLocal) close() {
	l.drain()
	for ; l.idle > 0; l.idle-- {
		l.requested--
		l.p.put()
	}
	l.closed = true
	for i, x := range l.p.locals {
		if x == l {
			l.p.locals = append(l.p.locals[:i], l.p.locals[i+1:]...)
		}
	}
	l.p.required -= l.required
	l.p.redistribute()
}

// poolMachine drives both.
type poolMachine struct {
	real  *Pool
	naive *naivePool
	pairs []*pair
	loose []Buffer // unpooled
	life  int
}

type pair struct {
	real      *LocalPool
	naive     *naiveLocal
	releasers []*Releaser
	held      []Buffer
	subs      []int // what held ones are charged to
	returned  int
}

func (m *poolMachine) pick(t *rapid.T) *pair {
	if len(m.pairs) == 0 {
		t.Skip("no local pool")
	}
	return m.pairs[rapid.IntRange(0, len(m.pairs)-1).Draw(t, "pool")]
}

func (m *poolMachine) Create(t *rapid.T) {
	if len(m.pairs) > 5 {
		t.Skip("enough")
	}
	c := LocalConfig{
		Name:          fmt.Sprint("pool ", m.life),
		Required:      rapid.IntRange(1, 6).Draw(t, "required"),
		Subpartitions: rapid.IntRange(0, 2).Draw(t, "subpartitions"),
		Quota:         rapid.IntRange(1, 3).Draw(t, "quota"),
		Overdraft:     rapid.IntRange(0, 3).Draw(t, "overdraft"),
	}
	m.life++
	c.Max = c.Required + rapid.IntRange(0, 6).Draw(t, "more")
	x := &pair{}
	c.OnReturn = func(tag uint32) {
		if tag != 77 {
			t.Fatalf("tag %d came home", tag)
		}
		x.returned++
	}
	l, err := m.real.NewLocal(c)
	n, ok := m.naive.create(c.Required, c.Max, c.Subpartitions, c.Quota, c.Overdraft)
	if ok != (err == nil) || !ok && !errors.Is(err, ErrTooFew) {
		t.Fatalf("created %v, want %v", err, ok)
	}
	if ok {
		x.real, x.naive = l, n
		x.releasers = append(x.releasers, l.NewReleaser(), l.NewReleaser())
		m.pairs = append(m.pairs, x)
	}
}

func (m *poolMachine) Take(t *rapid.T) {
	x := m.pick(t)
	sub := rapid.IntRange(-1, len(x.naive.counts)-1).Draw(t, "sub")
	b, got := x.real.TakeFor(sub)
	if want := x.naive.take(sub); got != want {
		t.Fatalf("took %v, want %v: %+v, %+v", got, want, x.real.Stats(), *x.naive)
	}
	if got {
		if len(b.Memory()) != m.real.SegmentSize() || b.Tag() != 0 || b.Refs() != 1 {
			t.Fatal("not a fresh segment")
		}
		b.SetTag(77)
		x.held = append(x.held, b)
		x.subs = append(x.subs, sub)
	}
}

func (m *poolMachine) Release(t *rapid.T) {
	x := m.pick(t)
	if len(x.held) == 0 {
		t.Skip("nothing held")
	}
	i := rapid.IntRange(0, len(x.held)-1).Draw(t, "buffer")
	b, sub := x.held[i], x.subs[i]
	x.held = append(x.held[:i], x.held[i+1:]...)
	x.subs = append(x.subs[:i], x.subs[i+1:]...)
	way := rapid.IntRange(0, 5).Draw(t, "way")
	if rapid.Bool().Draw(t, "shared") {
		b.Retain().Release()
	}
	switch way {
	case 0: // the owner's way
		x.real.Put(b)
		x.naive.attend()
		x.naive.home(sub)
		return
	case 1, 2:
		r := x.releasers[way-1]
		r.Release(b)
		r.Flush()
	case 3:
		b.Slice(0, 0).Release()
		b.Release()
	case 4: // with a view of it, and nothing
		ReleaseAll([]Buffer{b.Slice(0, 0), {}, b})
	default:
		b.Release()
	}
	x.naive.homeless = append(x.naive.homeless, sub)
}

func (m *poolMachine) SetOverdraft(t *rapid.T) {
	x := m.pick(t)
	n := rapid.IntRange(0, 3).Draw(t, "overdraft")
	x.real.SetOverdraft(n)
	x.naive.overdraft = n
}

func (m *poolMachine) Request(t *rapid.T) {
	n := rapid.IntRange(0, 4).Draw(t, "n")
	ctx, cancel := context.WithCancel(context.Background())
	cancel() // so that it doesn't wait
	bs, err := m.real.Request(ctx, n)
	p := m.naive
	switch {
	case n > p.total-p.required:
		if !errors.Is(err, ErrTooFew) {
			t.Fatal(err)
		}
		return
	case p.free >= n:
		if err != nil || len(bs) != n {
			t.Fatalf("%d of %d, %v", len(bs), n, err)
		}
		p.free -= n
		p.required += n
		p.unpooled += n
		p.redistribute()
		m.loose = append(m.loose, bs...)
	default:
		if !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		// Taken and put back: all who wait are woken if there was something.
		if p.free > 0 {
			p.free--
			p.put()
		}
		p.redistribute()
	}
}

func (m *poolMachine) ReleaseLoose(t *rapid.T) {
	if len(m.loose) == 0 {
		t.Skip("nothing loose")
	}
	n := rapid.IntRange(1, len(m.loose)).Draw(t, "n")
	if rapid.Bool().Draw(t, "together") {
		m.real.ReleaseAll(m.loose[:n])
	} else {
		for _, b := range m.loose[:n] {
			b.Release()
		}
	}
	m.loose = m.loose[n:]
	for range n {
		m.naive.put()
	}
	m.naive.required -= n
	m.naive.unpooled -= n
	m.naive.redistribute()
}

func (m *poolMachine) Resize(t *rapid.T) {
	x := m.pick(t)
	required := rapid.IntRange(1, 6).Draw(t, "required")
	most := required + rapid.IntRange(0, 6).Draw(t, "more")
	err := x.real.Resize(required, most)
	n, p := x.naive, m.naive
	if ok := p.required+required-n.required <= p.total; ok != (err == nil) {
		t.Fatal(err)
	} else if !ok {
		return
	}
	p.required += required - n.required
	n.required, n.max, n.target = required, most, required
	p.redistribute()
	n.attend()
}

func (m *poolMachine) Close(t *rapid.T) {
	x := m.pick(t)
	x.real.Close()
	x.naive.close()
	for i := range m.pairs {
		if m.pairs[i] == x {
			m.pairs = append(m.pairs[:i], m.pairs[i+1:]...)
			break
		}
	}
	// What is still out goes home to the global pool.
	home := x.returned
	for i, b := range x.held {
		if i%2 == 0 {
			b.Release()
		} else {
			x.releasers[0].Release(b)
		}
		m.naive.put()
		x.naive.requested--
	}
	x.releasers[0].Close()
	if s := x.real.Stats(); s.Requested != 0 || x.naive.requested != 0 || x.returned != home { // L8
		t.Fatalf("closed, all home: %+v, want %d requested", s, x.naive.requested)
	}
}

// Check pumps all rings empty, in the order of creation until nothing changes, and compares.
func (m *poolMachine) Check(t *rapid.T) {
	for range len(m.pairs) + 2 {
		for _, x := range m.pairs {
			x.real.Drain()
			x.naive.drain()
		}
	}
	if u := m.real.Usage(); u.Free != m.naive.free || u.Guaranteed != m.naive.required || u.Unpooled != m.naive.unpooled || u.Misuse.Total() != 0 {
		t.Fatalf("%+v, want %+v", u, *m.naive)
	}
	for _, x := range m.pairs {
		s, n := x.real.Stats(), x.naive
		over := n.over()
		available := n.idle > 0 && over == 0 // L1
		if s.Size != n.size || s.Requested != n.requested || s.Idle != n.idle || s.Over != over || x.real.Available() != available {
			t.Fatalf("%+v available %v, want %+v over %d", s, x.real.Available(), *n, over)
		}
		sum := 0
		for i, c := range n.counts {
			if int(x.real.counts[i]) != c {
				t.Fatalf("counts %v, want %v", x.real.counts, n.counts)
			}
			sum += c
		}
		if s.InUse != len(x.held) || sum > len(x.held) { // L5
			t.Fatalf("%+v, but %d are held", s, len(x.held))
		}
		if s.Idle == 0 && s.Requested < s.Size && !x.real.subscribed { // L3
			t.Fatalf("the pool neither has a segment nor waits for one: %+v", s)
		}
	}
	if err := m.real.check(); err != nil {
		t.Fatal(err)
	}
}

func TestModelPools(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		total := rapid.IntRange(1, 24).Draw(t, "total")
		slab := rapid.IntRange(0, 7).Draw(t, "slab")
		p, err := NewPool(Config{Segments: total, SegmentSize: 16, SlabSegments: slab, Backing: BackingHeap})
		if err != nil {
			t.Fatal(err)
		}
		m := &poolMachine{real: p, naive: &naivePool{total: total, free: total}}
		t.Repeat(map[string]func(*rapid.T){
			"":             m.Check,
			"create":       m.Create,
			"take":         m.Take,
			"take again":   m.Take,
			"release":      m.Release,
			"overdraft":    m.SetOverdraft,
			"request":      m.Request,
			"releaseLoose": m.ReleaseLoose,
			"resize":       m.Resize,
			"close":        m.Close,
		})
		for len(m.pairs) > 0 {
			m.Close(t)
		}
		p.ReleaseAll(m.loose)
		if err := p.Close(); err != nil {
			t.Fatal(err)
		}
	})
}
