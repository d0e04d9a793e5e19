package measure

import (
	"math/bits"
	"sync/atomic"
	"time"
)

// Buckets of a histogram: below finest nanoseconds one each, above them finest for each doubling, so that a quantile is off by
// less than 0.4 %.
const (
	finestBits = 8
	finest     = 1 << finestBits
	buckets    = finest * (40 - finestBits)
)

// Histogram counts durations up to some minutes. Add is for one goroutine, everything else for any.
type Histogram struct{ counts [buckets]atomic.Uint32 }

func bucket(ns uint64) int {
	if ns < finest {
		return int(ns)
	}
	shift := bits.Len64(ns) - finestBits - 1
	return min(buckets-1, shift*finest+int(ns>>shift))
}

// nanoseconds is the middle of a bucket.
func nanoseconds(bucket int) float64 {
	if bucket < 2*finest {
		return float64(bucket)
	}
	shift := bucket/finest - 1
	return (float64(bucket-shift*finest) + 0.5) * float64(uint64(1)<<shift)
}

// Add counts a duration.
func (h *Histogram) Add(d time.Duration) {
	c := &h.counts[bucket(uint64(max(0, d)))]
	c.Store(c.Load() + 1)
}

// Counts are those of the moment, for a later Since.
func (h *Histogram) Counts() *Counts {
	c := new(Counts)
	for i := range h.counts {
		c.n[i] = h.counts[i].Load()
		c.total += int64(c.n[i])
	}
	return c
}

// Since are the durations that were counted after begin was taken.
func (h *Histogram) Since(begin *Counts) *Counts {
	c := h.Counts()
	for i := range c.n {
		c.n[i] -= begin.n[i]
	}
	c.total -= begin.total
	return c
}

// Counts are the durations of a stretch of time.
type Counts struct {
	n     [buckets]uint32
	total int64
}

// Total is how many there are.
func (c *Counts) Total() int64 { return c.total }

// Micros is the p-quantile in microseconds, 0 for none.
func (c *Counts) Micros(p float64) float64 {
	rank, seen := int64(p*float64(c.total)), int64(0)
	for i, n := range c.n {
		if seen += int64(n); n > 0 && seen > rank {
			return nanoseconds(i) / 1e3
		}
	}
	return 0
}

// Put adds the quantiles that every table shows to the figures of a result.
func (c *Counts) Put(extra map[string]float64) {
	extra["samples"] = float64(c.total)
	extra["p50_us"], extra["p99_us"], extra["p999_us"] = c.Micros(0.5), c.Micros(0.99), c.Micros(0.999)
}
