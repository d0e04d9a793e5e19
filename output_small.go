package weir

// A claimed buffer takes a segment, be it committed with few bytes or full. An output of small ones may hold as many bytes as one of
// full ones, as far as the node's pool has segments that nobody needs: with 32 of a kilobyte each a writer would wait for memory, and
// the loop be run, 30 times as often.

// mostSmall is the most segments that an output of few subpartitions holds for that.
const mostSmall = 1024

// sizes is what an output knows of the buffers that were committed.
type sizes struct {
	sum   int // of the last meanOf or so, in bytes
	times int // how many times Buffers the output may hold now, a power of two
	most  int // what times may be
}

const meanOf = 8

// committed adapts what the output may hold to the sizes of its buffers, of which one of n bytes was just committed.
func (o *Output) committed(n int) {
	s := &o.sizes
	s.sum += n - s.sum/meanOf
	full := o.node.cfg.SegmentSize
	if mean := max(s.sum/meanOf, 1); 2*mean*s.times <= full && 2*s.times <= s.most || 2*mean*s.times >= 3*full {
		times := 1
		for 2*times <= min(full/mean, s.most) {
			times *= 2
		}
		o.adapt(times)
	}
}

func (o *Output) adapt(times int) {
	most := max(o.cfg.Buffers*times, o.cfg.Subpartitions+1)
	if times == o.sizes.times || o.pool.Resize(o.cfg.Subpartitions+1, most) != nil {
		return // closed: the next write says so
	}
	o.pool.SetQuota(o.cfg.BuffersPerSubpartition * times)
	o.sizes.times = times
}
