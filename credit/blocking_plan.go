package credit

import (
	"slices"

	"github.com/weirflow/weir/segment"
)

// intakePlan decides when what the writer has handed over goes to the file, and when a region ends. It counts; who has it does the
// rest.
type intakePlan struct {
	spillAt  int // buffers that are worth a write
	regionAt int // buffers after which a region should end

	pending int              // buffers handed over, but not stored
	region  int              // buffers in the region
	events  segment.DataType // the events that the region is of; None: data, or nothing yet
	asked   bool             // the writer was asked to end the region
}

// minRegion is the least that makes a region, in buffers. Readers of a range go through a file region by region; the more there
// are, the more small buffers, since every region ends with the last record of each subpartition.
const minRegion = 1024

func newIntakePlan(subpartitions, buffers int) intakePlan {
	return intakePlan{spillAt: max(1, buffers/2), regionAt: max(minRegion, 4*subpartitions)}
}

// added counts a buffer. spill: it is time to write. cut: it is time to ask the writer for the end of the region.
func (p *intakePlan) added() (spill, cut bool) {
	p.pending++
	spill = p.pending >= p.spillAt
	if cut = !p.asked && p.region+p.pending >= p.regionAt; cut {
		p.asked = true
	}
	return spill, cut
}

// before says whether the region has to end before something of this type, as far as that is possible: each kind of event has a region of
// its own, as in Flink, so that readers of a range get them behind all data, and together.
func (p *intakePlan) before(t segment.DataType) (end bool) {
	kind := segment.None
	if t.IsEvent() {
		kind = t
	}
	end = kind != p.events && p.region+p.pending > 0
	p.events = kind
	return end
}

// spilled notes that n buffers were stored.
func (p *intakePlan) spilled(n int) {
	p.pending -= n
	p.region += n
}

// ended notes the end of a region.
func (p *intakePlan) ended() { p.region, p.asked = 0, false }

// readPlan decides whose turn it is to be read ahead for, and who may take a segment.
//
// Readers with nothing waiting go first, else the one that stands first in the file, so that the disk is read in one direction. A reader
// may always have one segment. Further ones it gets as long as one is left for each that has none: so a consumer that takes nothing
// holds back no other, whatever it has in its hands.
type readPlan struct {
	limit   int // segments that are sure to be had
	held    int // segments that readers have
	without int // readers that need segments and have none
	members int // readers that need segments
	ready   []*diskReader
}

// diskReader is what the plan knows of a view's reader.
type diskReader struct {
	diskCursor
	out    int  // messages that wait to be polled
	held   int  // segments
	needs  bool // it reads into segments
	queued bool // in ready
	ended  bool
}

// join takes a reader in. It returns how many more segments must be sure to be had.
func (p *readPlan) join(r *diskReader) (more int) {
	if r.needs {
		p.members++
		p.without++
		more = max(0, p.members-p.limit)
	}
	p.wake(r)
	return more
}

// leave takes a reader out; its segments may still be on their way home.
func (p *readPlan) leave(r *diskReader) {
	if r.ended {
		return
	}
	r.ended = true
	if r.needs {
		p.members--
		if r.held == 0 {
			p.without--
		}
	}
	if i := slices.Index(p.ready, r); i >= 0 {
		p.ready = slices.Delete(p.ready, i, i+1)
		r.queued = false
	}
}

// wake puts a reader among those that can be read for, if it has room.
func (p *readPlan) wake(r *diskReader) {
	if !r.queued && !r.ended && r.out < blockingWindow {
		r.queued = true
		p.ready = append(p.ready, r)
	}
}

// next takes out the reader to read for; nil: none can be.
func (p *readPlan) next() *diskReader {
	best := -1
	for i, r := range p.ready {
		if p.mayTake(r) && (best < 0 || r.before(p.ready[best])) {
			best = i
		}
	}
	if best < 0 {
		return nil
	}
	r := p.ready[best]
	p.ready = slices.Delete(p.ready, best, best+1)
	r.queued = false
	return r
}

func (r *diskReader) before(s *diskReader) bool {
	if a, b := r.out == 0, s.out == 0; a != b {
		return a
	}
	return r.at() < s.at()
}

// mayTake reports whether a reader may have another segment, if it needs one.
func (p *readPlan) mayTake(r *diskReader) bool {
	return !r.needs || r.held == 0 || p.limit-p.held > p.without
}

// took counts a segment.
func (p *readPlan) took(r *diskReader) {
	if r.held++; r.held == 1 && !r.ended {
		p.without--
	}
	p.held++
}

// returned counts a segment that came home.
func (p *readPlan) returned(r *diskReader) {
	if r.held--; r.held == 0 && !r.ended {
		p.without++
	}
	p.held--
}
