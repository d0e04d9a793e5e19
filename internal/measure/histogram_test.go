package measure

import (
	"testing"
	"time"
)

func TestHistogram(t *testing.T) {
	var h Histogram
	h.Add(time.Second) // before the stretch that counts
	begin := h.Counts()
	for i := range 1000 {
		h.Add(time.Duration(i+1) * 1000 * time.Nanosecond)
	}
	c := h.Since(begin)
	for _, q := range []struct{ p, want float64 }{{0, 1}, {0.5, 501}, {0.99, 991}, {0.999, 1000}} {
		if got := c.Micros(q.p); got < q.want*0.996 || got > q.want*1.004 {
			t.Errorf("quantile %v is %v us, want about %v", q.p, got, q.want)
		}
	}
	extra := map[string]float64{}
	c.Put(extra)
	if c.Total() != 1000 || extra["samples"] != 1000 || extra["p50_us"] != c.Micros(0.5) {
		t.Errorf("%d counted, %v", c.Total(), extra)
	}
	if n := h.Since(h.Counts()); n.Total() != 0 || n.Micros(0.5) != 0 {
		t.Error("a stretch without durations has a quantile")
	}
}

// Every duration is in a bucket whose middle is near it, and longer ones are never in an earlier bucket.
func TestHistogramBuckets(t *testing.T) {
	last := -1
	for ns := uint64(0); ns < 1<<39; ns += 1 + ns/700 {
		b := bucket(ns)
		if b < last {
			t.Fatalf("%d ns are in bucket %d, shorter ones in %d", ns, b, last)
		}
		last = b
		if m := nanoseconds(b); m < float64(ns)*0.996-1 || m > float64(ns)*1.004+1 {
			t.Fatalf("%d ns are in the bucket of %v", ns, m)
		}
	}
	if b := bucket(1 << 62); b != buckets-1 {
		t.Errorf("a very long duration is in bucket %d", b)
	}
}
