package segment

// shares computes how many segments each local pool may hold, given avail segments that are not guaranteed to anyone, and
// calls set with each. It is NetworkBufferPool#redistributeBuffers, except that pools are visited in the order of their
// creation, so that the result is the same in every run.
func shares(avail int, pools []*LocalPool, set func(*LocalPool, int)) {
	var capacity int64
	for _, l := range pools {
		capacity += int64(l.room(avail))
	}
	if avail == 0 {
		for _, l := range pools {
			if l.cfg.Max > l.cfg.Required {
				set(l, l.cfg.Required)
			}
		}
		return
	}
	if capacity == 0 {
		return
	}
	give := min(int64(avail), capacity)
	var parts, given int64
	for _, l := range pools {
		if l.cfg.Max == l.cfg.Required {
			continue
		}
		parts += int64(l.room(avail))
		mine := give*parts/capacity - given
		given += mine
		set(l, l.cfg.Required+int(mine))
	}
}

// room returns how many of avail segments the pool could take beyond its guarantee.
func (l *LocalPool) room(avail int) int { return min(avail, l.cfg.Max-l.cfg.Required) }
