package segment

import "testing"

// TestReleaserFindsItsRingFull: what finds no room in a releaser's ring comes home all the same.
func TestReleaserFindsItsRingFull(t *testing.T) {
	const n = releaserRing + 3*releaseBatch + 1
	p := mustPool(t, Config{Segments: n, SegmentSize: 64})
	l := mustLocal(t, p, LocalConfig{Required: n, Max: n})
	bufs := make([]Buffer, n)
	for i := range bufs {
		bufs[i] = mustTake(t, l)
	}
	r := l.NewReleaser()
	for _, b := range bufs {
		r.Release(b)
	}
	r.Flush()
	if home := l.Drain(); home != n {
		t.Errorf("%d of %d segments came home", home, n)
	}
	r.Close()
	closeAll(t, p, l)
}

// TestNextClosePassesItsReferenceOn: the reader has none left to give up.
func TestNextClosePassesItsReferenceOn(t *testing.T) {
	p := mustPool(t, Config{Segments: 2, SegmentSize: 64})
	l := mustLocal(t, p, LocalConfig{Required: 2, Max: 2})
	w := MakeBuilder(mustTake(t, l))
	r := w.NewReader()
	w.Append([]byte("abc"))
	w.Finish()
	w.Close()
	b, finished := r.NextClose()
	if !finished || !r.IsZero() {
		t.Errorf("finished %t, and the reader holds on: %t", finished, !r.IsZero())
	}
	r.Close()
	if string(b.Bytes()) != "abc" || b.Refs() != 1 {
		t.Errorf("%q with %d references", b.Bytes(), b.Refs())
	}
	b.Release()
	closeAll(t, p, l)
}
