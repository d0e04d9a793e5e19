package credit

// Small says how far a partition's pool may grow while its buffers are small.
type Small struct {
	// Required, Max and Quota are what the pool was made with.
	Required, Max, Quota int
	// Times is how many times Max and Quota it may have, a power of two. 0 or 1: it does not grow.
	Times int
}

// smallBuffers adapts a pool to the sizes of the buffers that are handed over. One of few bytes takes a segment like a full one. A writer
// of small ones may hold as many bytes as one of full ones, as far as there are segments that no pool can want: with 32 of a kilobyte each
// it would wait for memory, and the loop be run, 30 times as often.
type smallBuffers struct {
	cfg   Small
	sum   int // of the last meanOf or so, in bytes
	times int // what the pool has now
	count int // buffers since it was last asked whether it gets that
}

const (
	meanOf = 8
	// askEvery is how often a pool that has grown is asked: others may have come, and get less of what there is the more it wants.
	askEvery = 64
)

func newSmallBuffers(cfg Small, full int) smallBuffers {
	return smallBuffers{cfg: cfg, sum: meanOf * full, times: 1}
}

// added notes a buffer of n bytes, one that is still open as a full one, and reports whether the pool should have another size.
func (s *smallBuffers) added(n, full int) bool {
	s.sum += n - s.sum/meanOf
	s.count++
	if s.times > 1 && s.count >= askEvery {
		return true
	}
	mean := max(s.sum/meanOf, 1)
	return 2*mean*s.times <= full && 2*s.times <= s.cfg.Times && s.count >= meanOf || 2*mean*s.times >= 3*full && s.times > 1
}

// adapt gives the pool the size that fits the buffers, and that takes nothing from others.
func (w *PartitionWriter) adapt(full int) {
	s, times := &w.small, 1
	s.count = 0
	for mean := max(s.sum/meanOf, 1); 2*times <= min(full/mean, s.cfg.Times); {
		times *= 2
	}
	if times >= s.times {
		if s.times > 1 && w.pool.Size() < s.cfg.Max*s.times {
			times = s.times / 2 // it does not get it all
		} else if times > s.times {
			for spare := w.pool.Spare(); times > s.times && s.cfg.Max*(times-s.times) > spare; {
				times /= 2
				s.count = -8 * askEvery // not again soon
			}
		}
	}
	if times == s.times || w.pool.Resize(s.cfg.Required, max(s.cfg.Max*times, s.cfg.Required)) != nil {
		return // closed: whoever takes a segment finds out
	}
	w.pool.SetQuota(s.cfg.Quota * times)
	s.times = times
}
