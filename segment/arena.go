package segment

import "fmt"

// arena cuts slabs of memory into segments and keeps those that nobody has. It has no lock: Pool.mu guards it.
//
// Segments are taken from the lowest slab that has one, so that the load gathers in the low slabs and high ones become
// idle. An idle slab is given back if a slab's worth of segments stays free without it.
type arena struct {
	cfg      Config
	sys      *system
	headers  []header
	slabs    []slab
	free     int // segments in slabs that are mapped
	out      int // segments that somebody has
	mapped   int // slabs
	clock    int // returns so far, for the back-off of failed unmapping
	closed   bool
	unmapErr error // of the last attempt that failed
	stats    MemoryUsage
}

type slab struct {
	mem   []byte   // as mapped; longer than the segments if rounded up to pages
	first int      // header of the first segment
	n     int      // segments
	free  []uint32 // headers of free segments
	state slabState

	fails   int // attempts to unmap that failed
	retryAt int // arena.clock of the next
}

type slabState uint8

const (
	slabAbsent slabState = iota
	slabMapped
	slabStuck // given up, but the system refuses to unmap it
)

// init divides the budget into slabs and maps the first, or all if there is one.
func (a *arena) init(cfg Config, headers []header) error {
	a.cfg, a.headers = cfg, headers
	if a.sys == nil { // a test may have put in its own
		var err error
		if a.sys, err = systemFor(cfg); err != nil {
			return err
		}
	}
	return a.start()
}

func (a *arena) start() error {
	per := a.cfg.SlabSegments
	if int64(per)*int64(a.cfg.SegmentSize) > maxSlabBytes {
		return badConfig("a slab of %d segments of %d bytes is more than this platform can map at once", per, a.cfg.SegmentSize)
	}
	for first := 0; first < a.cfg.Segments; first += per {
		n := min(per, a.cfg.Segments-first)
		a.slabs = append(a.slabs, slab{first: first, n: n, free: make([]uint32, 0, n)})
		for i := first; i < first+n; i++ {
			a.headers[i].slab = int32(len(a.slabs) - 1)
		}
	}
	if len(a.slabs) == 0 {
		return nil
	}
	if err := a.grow(&a.slabs[0]); err != nil {
		n := uint64(a.slabs[0].n) * uint64(a.cfg.SegmentSize)
		return fmt.Errorf("segment: could not allocate enough memory for the pool (required %d MB, allocated %d MB, missing %d MB): %w",
			n>>20, 0, n>>20, err)
	}
	return nil
}

// maxSlabBytes keeps lengths within an int with room for rounding up.
const maxSlabBytes = int64(^uint(0)>>1) - 1<<22

// grow maps a slab.
func (a *arena) grow(s *slab) error {
	mem, err := a.sys.obtain(&a.stats, a.cfg, s.n*a.cfg.SegmentSize)
	a.stats.GrowRefused = err
	if err != nil {
		return err
	}
	s.mem, s.state = mem, slabMapped
	size := a.cfg.SegmentSize
	for i := s.n - 1; i >= 0; i-- {
		h := &a.headers[s.first+i]
		h.mem = mem[i*size : (i+1)*size : (i+1)*size]
		h.free = true
		s.free = append(s.free, uint32(s.first+i))
		h.mapped()
	}
	a.free += s.n
	a.mapped++
	return nil
}

// take returns a free segment, or nil if there is none and no slab can be mapped.
func (a *arena) take() *header {
	if a.closed {
		return nil
	}
	if a.free == 0 && !a.growOne() {
		return nil
	}
	for i := range a.slabs {
		s := &a.slabs[i]
		if n := len(s.free); n > 0 {
			h := &a.headers[pick(&s.free)]
			h.free = false
			a.free--
			a.out++
			return h
		}
	}
	return nil
}

// growOne maps one more slab. If all that are missing wait to be unmapped, that is tried now.
func (a *arena) growOne() bool {
	if a.mapped == len(a.slabs) {
		return false
	}
	for range 2 {
		for i := range a.slabs {
			if a.slabs[i].state == slabAbsent {
				return a.grow(&a.slabs[i]) == nil
			}
		}
		a.retry(true)
	}
	return false
}

// put takes a segment back.
func (a *arena) put(h *header) {
	h.free = true
	s := &a.slabs[h.slab]
	s.free = append(s.free, h.index)
	a.free++
	a.out--
	a.clock++
	if len(s.free) == s.n && (a.closed || len(a.slabs) > 1 && a.free-s.n >= a.cfg.SlabSegments) {
		a.giveUp(s)
	}
	if a.stats.Stuck > 0 {
		a.retry(false)
	}
}

// giveUp unmaps an idle slab.
func (a *arena) giveUp(s *slab) {
	for _, i := range s.free {
		a.headers[i].mem = nil
	}
	a.free -= s.n
	a.mapped--
	s.free = s.free[:0]
	s.state = slabStuck
	s.fails = 0
	a.stats.Stuck++
	a.unmap(s)
}

// unmap tries to unmap a slab that was given up. If the system refuses (it may have to split a mapping, and have no
// room for another), the slab stays ours, unused, and is tried again later.
func (a *arena) unmap(s *slab) {
	if err := a.sys.release(&a.stats, s.mem); err != nil {
		s.fails++
		s.retryAt = a.clock + 1<<min(s.fails, 16)
		a.stats.UnmapFailures++
		a.unmapErr = err
		return
	}
	a.stats.Stuck--
	s.mem, s.state = nil, slabAbsent
}

// retry unmaps slabs that were refused before, those whose time has come or all.
func (a *arena) retry(all bool) {
	for i := range a.slabs {
		if s := &a.slabs[i]; s.state == slabStuck && (all || s.retryAt <= a.clock) {
			a.unmap(s)
		}
	}
}

// trim gives all idle slabs back but those needed to keep keep segments free.
func (a *arena) trim(keep int) {
	for i := len(a.slabs) - 1; i >= 0; i-- {
		if s := &a.slabs[i]; s.state == slabMapped && len(s.free) == s.n && a.free-s.n >= keep {
			a.giveUp(s)
		}
	}
	a.retry(true)
}

// close gives idle slabs back now and the others when their last segment comes home.
func (a *arena) close() {
	a.closed = true
	a.trim(0)
}
