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
