package segment

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// releaseAllRig has segments of all homes: three local pools of one pool, one of them closed, one of another pool, and none.
type releaseAllRig struct {
	p, q             *Pool
	a, b, closed, c  *LocalPool
	home, want       []uint32 // tags that came home, and those that have to
	misused, expect  int      // second releases
	wrapped          []Buffer // to be gone
	bufs, kept       []Buffer // to be released; and what holds on to some of them
	keptText         []string
	tags             uint32
	unpooled, buried int // segments kept that no open local pool counts
}

func newReleaseAllRig(t *rapid.T) *releaseAllRig {
	r := &releaseAllRig{}
	newPool := func() *Pool {
		p, err := NewPool(Config{Segments: 150, SegmentSize: 16, Backing: BackingHeap, OnMisuse: func(*MisuseError) { r.misused++ }})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	told := func(tag uint32) { r.home = append(r.home, tag) }
	newLocal := func(p *Pool, onReturn func(uint32)) *LocalPool {
		l, err := p.NewLocal(LocalConfig{Required: 32, Subpartitions: 1, Quota: 1, OnReturn: onReturn})
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	r.p, r.q = newPool(), newPool()
	r.a, r.b, r.closed, r.c = newLocal(r.p, told), newLocal(r.p, told), newLocal(r.p, nil), newLocal(r.q, told)
	return r
}

// buffer makes a buffer with a text of its own; tag is 0 if nobody is told that it came home.
func (r *releaseAllRig) buffer(t *rapid.T, from string) (b Buffer, tag uint32) {
	l := map[string]*LocalPool{"a": r.a, "b": r.b, "closed": r.closed, "other pool": r.c}[from]
	r.tags++
	text := fmt.Sprint("text ", r.tags)
	switch from {
	case "wrapped":
		return Wrap([]byte(text), EventBuffer), 0
	case "unpooled":
		bs, err := r.p.Request(context.Background(), 1)
		if err != nil {
			t.Fatal(err)
		}
		b = bs[0]
	default:
		var ok bool
		if b, ok = l.TakeFor(rapid.IntRange(-1, 0).Draw(t, "subpartition")); !ok {
			t.Fatalf("nothing to take: %+v", l.Stats())
		}
		b.SetTag(r.tags)
		if l != r.closed {
			tag = r.tags
		}
	}
	return b.Resized(copy(b.Memory(), text)), tag
}

// add puts a buffer among those to be released, once or twice, alone or not.
func (r *releaseAllRig) add(t *rapid.T) {
	from := rapid.SampledFrom([]string{"a", "b", "closed", "other pool", "unpooled", "wrapped", "none"}).Draw(t, "from")
	if from == "none" {
		r.bufs = append(r.bufs, Buffer{})
		return
	}
	hows := []string{"last", "kept", "slices"}
	if from != "wrapped" { // whose misuse is a panic in debug builds
		hows = append(hows, "twice", "released before")
	}
	how := rapid.SampledFrom(hows).Draw(t, "how")
	b, tag := r.buffer(t, from)
	switch how {
	case "last":
		r.bufs = append(r.bufs, b)
	case "kept":
		r.kept, r.keptText = append(r.kept, b.Retain()), append(r.keptText, string(b.Bytes()))
		r.bufs = append(r.bufs, b)
		switch from {
		case "unpooled":
			r.unpooled++
		case "closed":
			r.buried++
		}
		return
	case "slices":
		r.bufs = append(r.bufs, b.Slice(0, 2), b, b.Slice(1, 3))
	case "twice":
		r.bufs = append(r.bufs, b, b)
		r.expect++
	case "released before":
		b.Release()
		r.bufs = append(r.bufs, b)
		r.expect++
	}
	if tag != 0 {
		r.want = append(r.want, tag)
	}
	if from == "wrapped" {
		r.wrapped = append(r.wrapped, b)
	}
}

// TestReleaseAll: whatever is mixed, in whatever order, each handle loses its one reference, and each segment goes home once.
func TestReleaseAll(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := newReleaseAllRig(t)
		wrappedBefore := WrappedMisuse()
		for range rapid.IntRange(0, 20).Draw(t, "n") {
			r.add(t)
		}
		r.closed.Close()
		order := make([]int, len(r.bufs))
		for i := range order {
			order[i] = i
		}
		var bufs []Buffer
		for _, i := range rapid.Permutation(order).Draw(t, "order") {
			bufs = append(bufs, r.bufs[i])
		}
		ReleaseAll(bufs)
		for i, b := range bufs {
			if b != (Buffer{}) {
				t.Fatalf("handle %d of %d is not forgotten", i, len(bufs))
			}
		}
		for _, l := range []*LocalPool{r.a, r.b, r.c} {
			l.Drain()
		}
		slices.Sort(r.home)
		slices.Sort(r.want)
		if !slices.Equal(r.home, r.want) {
			t.Fatalf("segments came home: %v, want %v", r.home, r.want)
		}
		if n := r.p.Usage().Misuse.OverRelease + r.q.Usage().Misuse.OverRelease; r.misused != r.expect || n != uint64(r.expect) {
			t.Fatalf("%d second releases were reported, %d counted, want %d", r.misused, n, r.expect)
		}
		if n := r.p.Usage().Misuse.Total() + r.q.Usage().Misuse.Total(); n != uint64(r.expect) || WrappedMisuse() != wrappedBefore {
			t.Fatalf("%d misuses, want %d second releases; of wrapped ones %+v, before %+v", n, r.expect, WrappedMisuse(), wrappedBefore)
		}
		if u := r.p.Usage(); u.Unpooled != r.unpooled || r.closed.Stats().Requested != r.buried {
			t.Fatalf("%d unpooled and %d of a closed pool are out, want %d and %d", u.Unpooled, r.closed.Stats().Requested, r.unpooled, r.buried)
		}
		for _, b := range r.wrapped {
			if !b.Released() {
				t.Fatal("a wrapped buffer is not released")
			}
		}
		for i, b := range r.kept {
			if b.Refs() != 1 || string(b.Bytes()) != r.keptText[i] {
				t.Fatalf("kept: %q with %d references, want %q with one", b.Bytes(), b.Refs(), r.keptText[i])
			}
		}
		ReleaseAll(r.kept)
		for _, l := range []*LocalPool{r.a, r.b, r.c} {
			l.Drain()
			if s := l.Stats(); s.InUse != 0 || l.counts[0] != 0 || s.Over != 0 {
				t.Fatalf("not all is home: %+v, charged %d", s, l.counts[0])
			}
			l.Close()
		}
		for _, p := range []*Pool{r.p, r.q} {
			if err := p.Close(); err != nil {
				t.Fatal(err)
			}
			if err := p.check(); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// TestReleaseAllGivesRunsTogether: those of one pool that lie next to each other are one return to its owner, who is woken once.
func TestReleaseAllGivesRunsTogether(t *testing.T) {
	p := mustPool(t, Config{Segments: 20, SegmentSize: 16})
	woken := map[string]int{}
	local := func(name string) *LocalPool {
		return mustLocal(t, p, LocalConfig{Name: name, Required: 10, Wake: func() { woken[name]++ }})
	}
	a, b := local("a"), local("b")
	kept := mustTake(t, b)
	var bufs []Buffer
	for _, l := range []*LocalPool{a, a, a, b, b, a, a} {
		bufs = append(bufs, mustTake(t, l))
	}
	bufs = slices.Insert(bufs, 1, Buffer{}, kept.Retain(), Wrap(nil, EventBuffer)) // they part nothing
	clear(woken)
	ReleaseAll(bufs)
	if woken["a"] != 2 || woken["b"] != 1 {
		t.Errorf("woken: %v, want a twice and b once", woken)
	}
	if a, b := a.Drain(), b.Drain(); a != 5 || b != 2 {
		t.Errorf("%d and %d segments came home, want 5 and 2", a, b)
	}
	clear(woken)
	ReleaseAll(nil)
	ReleaseAll([]Buffer{{}, {}})
	ReleaseAll([]Buffer{kept.Retain()})
	if len(woken) != 0 || a.Drain()+b.Drain() != 0 {
		t.Errorf("woken: %v, without a return", woken)
	}
	w := Wrap([]byte("event"), EventBuffer)
	if misuseOfWrapped(func() { ReleaseAll([]Buffer{w, w}) }) == nil || !w.Released() {
		t.Error("a second release of wrapped bytes went unnoticed")
	}
	kept.Release()
	closeAll(t, p, a, b)
}
