package credit

import "github.com/weirflow/weir/segment"

// Sharing: small whole buffers of a subpartition lie in one segment as its parts (segment.PartsBuilder). The ring has an item for the segment, not
// for each of them: the loop looks for new parts of the segments that are open, each time that it polls, and before it does another item of
// their subpartition. The order is that in which they were handed over, as the writer closes the segment before it hands over anything else
// for that subpartition.

// mostRuns is how many shared segments a partition has open at a time: the loop looks at each of them.
const mostRuns = 64

// runs are the shared segments that a writer has open.
type runs struct {
	subs []segment.PartsBuilder // of all subpartitions; nil before the first one
	open []int32                // which are, oldest first
}

// Share hands over a copy of p, as one whole buffer of data behind what was handed over before, in a segment that it shares with others. It
// returns false, and does nothing, if there is no room and no memory for another segment, if p is too long for one, if the subpartition is
// finished or released, or the partition is a blocking one, whose buffers go to a file anyway.
func (w *PartitionWriter) Share(sub int, p []byte) bool {
	if w.part == nil || w.finished[sub] || w.shared.subs[sub].released.Load() {
		return false
	}
	if w.runs.subs == nil {
		w.runs.subs = make([]segment.PartsBuilder, len(w.finished))
		w.runs.open = make([]int32, 0, min(mostRuns, len(w.finished)))
	}
	if r := &w.runs.subs[sub]; !r.Append(p) && !w.openRun(sub, p) {
		return false
	}
	w.handedOver(len(p))
	return true
}

// openRun starts another shared segment with p.
func (w *PartitionWriter) openRun(sub int, p []byte) bool {
	w.endRun(sub)
	if !w.pool.Available() {
		return false
	}
	b, ok := w.pool.TakeFor(sub)
	if !ok {
		return false
	}
	r := segment.MakePartsBuilder(b)
	reader := r.NewReader()
	if !r.Append(p) { // segments are too small
		reader.Close()
		r.Close()
		return false
	}
	if len(w.runs.open) == cap(w.runs.open) {
		w.endRun(int(w.runs.open[0]))
	}
	w.runs.subs[sub] = r
	w.runs.open = append(w.runs.open, int32(sub))
	w.put(item{kind: itemRun, sub: int32(sub), r: reader})
	return true
}

// endRun closes the shared segment of a subpartition, if there is one.
func (w *PartitionWriter) endRun(sub int) {
	open := w.runs.open
	for i, s := range open {
		if int(s) == sub {
			w.runs.subs[sub].Close()
			w.runs.open = append(open[:i], open[i+1:]...)
			return
		}
	}
}

// Unshare closes the shared segments: the room that is left in them is given back with them.
func (w *PartitionWriter) Unshare() {
	for _, sub := range w.runs.open {
		w.runs.subs[sub].Close()
	}
	w.runs.open = w.runs.open[:0]
}

// follow has the subpartition take the parts of another shared segment.
func (s *Subpartition) follow(r segment.Reader) {
	if s.released || s.finished {
		r.Close()
		return
	}
	s.run = segment.ReadParts(r)
	s.part.runs = append(s.part.runs, s)
	s.takeParts()
}

// takeParts puts the parts that were added to the shared segment since the last look into the queue, as one element, and reports whether there were
// any.
func (s *Subpartition) takeParts() bool {
	if !s.run.Open() {
		return false
	}
	b, first, n, closed := s.run.Next()
	if closed {
		s.run.Close()
		s.part.forgetRun(s)
	}
	if n == 0 {
		return false
	}
	e := s.queue.Append()
	e.r, e.partial = segment.ReadAll(b), 0
	e.parts, e.at = int32(n), int32(first)
	e.weight = int32(b.Len())
	s.dataCount += int32(n)
	s.weight += b.Len()
	if s.view != nil && !s.flushRequested && !s.blocked && s.finishedCount() == 1 {
		s.notifyData()
	}
	return true
}

// takePart is what poll gives of an element of several parts: the first of them.
func (s *Subpartition) takePart(e *element) segment.Buffer {
	n := e.partLen(0)
	b := e.r.Take(n)
	s.leavesParts(e, 1, n)
	return b
}

// partLen is the length of part i of those that e still has.
func (e *element) partLen(i int32) int { return e.r.PartLen(int(e.at + i)) }

// leavesParts takes the first n parts, of that many bytes, off the counts. Others stay.
func (s *Subpartition) leavesParts(e *element, n int32, bytes int) {
	e.parts -= n
	e.at += n
	e.weight -= int32(bytes)
	s.dataCount -= n
	s.weight -= bytes
}

func (p *Partition) forgetRun(s *Subpartition) {
	for i, o := range p.runs {
		if o == s {
			last := len(p.runs) - 1
			p.runs[i] = p.runs[last]
			p.runs[last] = nil
			p.runs = p.runs[:last]
			return
		}
	}
}

// takeRuns is takeParts for all shared segments.
func (p *Partition) takeRuns() (worked bool) {
	for i := len(p.runs) - 1; i >= 0; i-- {
		if p.runs[i].takeParts() {
			worked = true
		}
	}
	return worked
}
