package segment

import (
	"bytes"
	"context"
	"slices"
	"testing"

	"github.com/weirflow/weir/internal/buildtag"
)

// The twin of FuzzRecycling: what each segment is, written down in a table.
type recycled struct {
	home  *recyclePool // nil: unpooled
	refs  int
	stamp byte // in each byte of it
}

// recyclePool is a local pool of the fuzzed program, open or closed.
type recyclePool struct {
	*LocalPool
	releaser *Releaser
	closed   bool
}

// recycleHandle is a live handle.
type recycleHandle struct {
	b        Buffer
	seg      uint32
	from, to int // its window
}

// recycler runs a program on a pool and on the twin.
type recycler struct {
	t       *testing.T
	pool    *Pool
	pools   []*recyclePool
	live    map[uint32]*recycled
	handles []recycleHandle
	dead    []Buffer // released handles
	stamp   byte
	misused int
	program []byte
}

const (
	recycleSegments = 12
	recycleSize     = 32
)

// next is the next number of the program, below n; 0 at its end.
func (r *recycler) next(n int) int {
	if len(r.program) == 0 || n < 1 {
		return 0
	}
	k := int(r.program[0])
	r.program = r.program[1:]
	return k % n
}

func (r *recycler) openPools() (open []*recyclePool) {
	for _, p := range r.pools {
		if !p.closed {
			open = append(open, p)
		}
	}
	return open
}

func (r *recycler) pick() *recyclePool {
	open := r.openPools()
	if len(open) == 0 {
		return nil
	}
	return open[r.next(len(open))]
}

// taken notes a segment that came out of a pool: nobody else may have it.
func (r *recycler) taken(b Buffer, home *recyclePool) {
	seg := b.h.index
	if r.live[seg] != nil {
		r.t.Fatalf("segment %d was handed out twice", seg)
	}
	if b.Refs() != 1 || b.Len() != 0 && home != nil {
		r.t.Fatalf("a new buffer has %d references and %d bytes", b.Refs(), b.Len())
	}
	r.stamp++
	for i := range b.Memory() {
		b.Memory()[i] = r.stamp
	}
	r.live[seg] = &recycled{home: home, refs: 1, stamp: r.stamp}
	r.handles = append(r.handles, recycleHandle{b: b.Resized(recycleSize), seg: seg, to: recycleSize})
}

// handle takes a live handle out of the list, or leaves it in.
func (r *recycler) handle(out bool) (h recycleHandle, ok bool) {
	if len(r.handles) == 0 {
		return h, false
	}
	i := r.next(len(r.handles))
	h = r.handles[i]
	if out {
		r.handles = slices.Delete(r.handles, i, i+1)
	}
	return h, true
}

// released notes that a reference has gone.
func (r *recycler) released(h recycleHandle) {
	s := r.live[h.seg]
	if s.refs--; s.refs == 0 {
		delete(r.live, h.seg)
	}
	r.dead = append(r.dead, h.b)
}

// release gives a handle back in one of the ways there are.
func (r *recycler) release() {
	how := r.next(4)
	h, ok := r.handle(true)
	if !ok {
		return
	}
	home := r.live[h.seg].home
	switch {
	case how == 1 && home != nil && !home.closed:
		home.Put(h.b)
	case how == 2 && home != nil && home.releaser != nil:
		home.releaser.Release(h.b)
	case how == 3:
		r.pool.ReleaseAll([]Buffer{h.b})
	default:
		h.b.Release()
	}
	r.released(h)
}

// step does one instruction.
func (r *recycler) step() {
	switch r.next(16) {
	case 0, 1, 2:
		if p := r.pick(); p != nil {
			if b, ok := p.TakeFor(r.next(4) - 1); ok {
				r.taken(b, p)
			}
		}
	case 3, 4, 5:
		r.release()
	case 6:
		if h, ok := r.handle(false); ok && r.live[h.seg].refs < 40 {
			h.b = h.b.Retain()
			r.live[h.seg].refs++
			r.handles = append(r.handles, h)
		}
	case 7, 8:
		if h, ok := r.handle(false); ok && r.live[h.seg].refs < 40 {
			from := r.next(h.to - h.from + 1)
			n := r.next(h.to - h.from - from + 1)
			h.b = h.b.Slice(from, n)
			h.from, h.to = h.from+from, h.from+from+n
			r.live[h.seg].refs++
			r.handles = append(r.handles, h)
		}
	case 9:
		if len(r.handles) > 0 { // a narrower window of the same reference
			h := &r.handles[r.next(len(r.handles))]
			if !h.b.ReadOnly() {
				n := r.next(recycleSize + 1)
				h.b, h.from, h.to = h.b.Resized(n), 0, n
			}
		}
	case 10:
		if p := r.pick(); p != nil {
			p.Drain()
		}
	case 11:
		for _, p := range r.pools {
			if p.releaser != nil && r.next(2) == 0 {
				p.releaser.Flush()
			}
		}
	case 12:
		if p := r.pick(); p != nil {
			required := 1 + r.next(4)
			_ = p.Resize(required, required+r.next(8)) // may be too much
		}
	case 13:
		r.openOrClose()
	case 14:
		r.request()
	case 15:
		r.again()
	}
}

// openOrClose makes a pool, or closes one with whatever is out.
func (r *recycler) openOrClose() {
	if r.next(2) == 0 {
		if p := r.pick(); p != nil {
			p.Close()
			p.closed = true
		}
		return
	}
	required := 1 + r.next(4)
	l, err := r.pool.NewLocal(LocalConfig{Required: required, Max: required + r.next(8), Subpartitions: 3, Quota: 1 + r.next(3), Overdraft: r.next(4)})
	if err != nil {
		return
	}
	p := &recyclePool{LocalPool: l}
	if r.next(2) == 0 {
		p.releaser = l.NewReleaser()
	}
	r.pools = append(r.pools, p)
}

// request takes segments that belong to no pool, if they are to be had at once.
func (r *recycler) request() {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	bs, err := r.pool.Request(ctx, r.next(4))
	if err != nil {
		return
	}
	for _, b := range bs {
		r.taken(b, nil)
	}
}

// again releases a handle a second time: it is noticed, and takes nothing from others.
func (r *recycler) again() {
	if len(r.dead) == 0 || buildtag.Debug {
		return // a debug build panics
	}
	b := r.dead[r.next(len(r.dead))]
	if s := r.live[b.h.index]; s != nil && s.refs > 1 {
		return // beyond 16 references in a life they are only counted
	}
	before := r.misused
	b.Release()
	if r.misused == before {
		r.t.Fatal("a second release went unnoticed")
	}
}

// check compares everything that is live with the twin.
func (r *recycler) check() {
	for _, h := range r.handles {
		s := r.live[h.seg]
		if got := h.b.Refs(); got != s.refs {
			r.t.Fatalf("segment %d has %d references, want %d", h.seg, got, s.refs)
		}
		if got := h.b.Bytes(); len(got) != h.to-h.from || len(bytes.Trim(got, string([]byte{s.stamp}))) != 0 {
			r.t.Fatalf("segment %d, window %d to %d: % x, want %02x in each byte", h.seg, h.from, h.to, got, s.stamp)
		}
	}
	out := map[*recyclePool]int{}
	for _, s := range r.live {
		out[s.home]++
	}
	for _, p := range r.openPools() {
		if p.releaser != nil {
			p.releaser.Flush()
		}
		p.Drain()
		if u := p.Stats(); u.InUse != out[p] {
			r.t.Fatalf("%d segments are out, want %d: %+v", u.InUse, out[p], u)
		}
	}
}

// FuzzRecycling runs random programs of takes, retains, releases, slices, resizes, closes and requests over a pool, its local pools
// and their rings, and compares them with a table.
func FuzzRecycling(f *testing.F) {
	for _, p := range recyclePrograms() {
		f.Add(p)
	}
	f.Fuzz(func(t *testing.T, program []byte) {
		if len(program) > 4096 {
			t.Skip("longer programs find nothing more")
		}
		r := &recycler{t: t, live: map[uint32]*recycled{}, program: program}
		var err error
		r.pool, err = NewPool(Config{Segments: recycleSegments, SegmentSize: recycleSize, SlabSegments: 1 + r.next(recycleSegments), Backing: BackingHeap,
			OnMisuse: func(*MisuseError) { r.misused++ }})
		if err != nil {
			t.Fatal(err)
		}
		for len(r.program) > 0 {
			r.step()
			r.check()
		}
		for len(r.handles) > 0 {
			r.release()
		}
		for _, p := range r.pools {
			if p.releaser != nil {
				p.releaser.Flush()
			}
			p.Close()
		}
		if err := r.pool.Close(); err != nil {
			t.Fatal(err)
		}
		if err := r.pool.check(); err != nil {
			t.Fatal(err)
		}
	})
}

// recyclePrograms are where the fuzzer starts: each way of release, closing with segments out, unpooled segments, everything at once.
func recyclePrograms() [][]byte {
	open := []byte{3, 13, 1, 2, 3, 1, 2, 1, 13, 1, 1, 5, 2, 3, 0}
	with := func(p ...byte) []byte { return append(slices.Clone(open), p...) }
	all := with()
	for i := range byte(200) {
		all = append(all, i*37+i/7, i*11)
	}
	return [][]byte{
		with(0, 0, 1, 0, 1, 2, 3, 0, 0, 3, 1, 0, 10, 0),
		with(0, 0, 0, 7, 0, 3, 9, 8, 1, 1, 1, 3, 2, 0, 3, 2, 0, 3, 2, 0, 11, 0, 0, 10),
		with(0, 1, 1, 0, 1, 2, 13, 0, 0, 13, 0, 0, 3, 0, 1, 3, 2, 0),
		with(14, 3, 14, 2, 6, 0, 3, 3, 0, 3, 3, 0, 15, 0, 15, 1),
		with(0, 0, 0, 12, 0, 3, 7, 12, 1, 0, 0, 9, 0, 5, 15, 0, 3, 1, 0, 15, 0),
		all,
	}
}
