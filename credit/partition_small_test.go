package credit

import (
	"testing"

	"github.com/weirflow/weir/segment"
)

// smallRig is a partition whose pool, of at most 8 segments and a quota of 6, may grow fourfold.
func smallRig(t *testing.T, segments int) (r *senderRig, done func()) {
	r = &senderRig{t: t, room: -1}
	var err error
	if r.pool, err = segment.NewPool(segment.Config{SegmentSize: 1024, Segments: segments}); err != nil {
		t.Fatal(err)
	}
	r.local, err = r.pool.NewLocal(segment.LocalConfig{Name: "writer", Required: 2, Max: 8, Subpartitions: 1, Quota: 6})
	if err != nil {
		t.Fatal(err)
	}
	r.part, r.w, err = NewPartition(PartitionConfig{ID: senderPartition, Subpartitions: 1, Pool: r.local, Segments: 40,
		Small: Small{Required: 2, Max: 8, Quota: 6, Times: 4}})
	if err != nil {
		t.Fatal(err)
	}
	return r, func() {
		r.w.Close()
		r.part.Release()
		for r.part.Poll() {
		}
		r.local.Close()
		if err := r.pool.Close(); err != nil {
			t.Error(err)
		}
	}
}

// pass hands over buffers of n bytes, each of which is taken home at once.
func (r *senderRig) pass(n, times int) {
	r.t.Helper()
	for range times {
		b, ok := r.w.Take(0)
		if !ok {
			r.t.Fatal("no memory")
		}
		r.w.Add(0, segment.ReadAll(b.Resized(n)), 0)
		r.part.Poll()
		var p Polled
		for r.part.Subpartition(0).poll(&p) {
			p.Buf.Release()
		}
		r.local.Drain()
	}
}

func (r *senderRig) holds(what string, most int) {
	r.t.Helper()
	if got := r.local.Stats().Max; got != most {
		r.t.Errorf("%s: %d segments at most, want %d", what, got, most)
	}
}

// TestSmallBuffersLetThePoolGrow: by as much as there is room for, and back.
func TestSmallBuffersLetThePoolGrow(t *testing.T) {
	r, done := smallRig(t, 64)
	r.pass(1024, 50)
	r.holds("full buffers", 8)
	r.pass(500, 50)
	r.holds("half buffers", 16)
	r.pass(300, 50)
	r.holds("a bit less", 16)
	r.pass(10, 50)
	r.holds("small ones", 32)
	r.pass(1, 500)
	r.holds("tiny ones", 32)
	r.pass(400, 100)
	r.holds("larger ones again", 16)
	r.pass(1024, 100)
	r.holds("full ones again", 8)
	done()
}

// TestGrowingTakesNothingFromOthers: a pool that grows leaves others what they may have, also those that come later.
func TestGrowingTakesNothingFromOthers(t *testing.T) {
	r, done := smallRig(t, 40)
	other := func(most int) *segment.LocalPool {
		l, err := r.pool.NewLocal(segment.LocalConfig{Name: "other", Required: 1, Max: most})
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	full := func(what string, l *segment.LocalPool) {
		t.Helper()
		l.Drain() // takes notice
		if u := l.Stats(); u.Size != u.Max {
			t.Errorf("%s: another pool may have %d segments of %d", what, u.Size, u.Max)
		}
	}
	a := other(20)
	r.pass(10, 2000)
	r.holds("20 of 40 are another's", 16)
	full("the first", a)
	a.Close()
	r.pass(10, 2000)
	r.holds("it has gone", 32)
	b := other(30) // wants more than is left
	r.pass(10, 200)
	r.holds("one has come that has not enough", 8)
	full("the second", b)
	b.Close()
	r.pass(10, 2000)
	r.holds("it has gone, too", 32)
	done()
}
