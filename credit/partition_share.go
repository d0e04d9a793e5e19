package credit

import (
	"slices"

	"github.com/weirflow/weir/segment"
)

// Sharing: small whole buffers of a subpartition lie in one segment as its parts (segment.PartsBuilder). The ring has an item for the segment, not
// for each of them: the loop looks for new parts each time that it polls, if a word says that there are any (segment.Signal), and before it does
// another item of their subpartition. The order is that in which they were handed over, as the writer closes the segment before it hands over
// anything else for that subpartition.

// mostRuns is how many shared segments a partition has open at a time: when there are new parts the loop looks at each of them. Others get
// buffers of their own.
const mostRuns = 512

// runs are the shared segments that a writer has open.
type runs struct {
	subs []run   // of all subpartitions; nil before the first one
	open []int32 // the subpartitions that have one
	more bool    // something was done to one since the loop was woken
}

type run struct {
	w  segment.PartsBuilder
	at int32 // place in open
}

// Share hands over a copy of p, as one whole buffer of data behind what was handed over before, in a segment that it shares with others. It
// returns false, and does nothing, if there is no room and no memory for another segment, if p is longer than half of one, if the subpartition is
// finished or released, or the partition is a blocking one, whose buffers go to a file anyway.
func (w *PartitionWriter) Share(sub int, p []byte) bool {
	if w.part == nil || w.finished[sub] || w.shared.subs[sub].released.Load() {
		return false
	}
	if w.runs.subs == nil {
		w.runs.subs = make([]run, len(w.finished))
		w.runs.open = make([]int32, 0, min(mostRuns, len(w.finished)))
	}
	if r := &w.runs.subs[sub]; !r.w.Append(p) && !w.openRun(sub, p) {
		return false
	}
	w.runs.more = true
	w.shared.parts.Bump()
	w.handedOver(len(p))
	return true
}

// openRun starts another shared segment with p.
func (w *PartitionWriter) openRun(sub int, p []byte) bool {
	if 2*len(p) > w.pool.SegmentSize() {
		return false
	}
	w.endRun(sub)
	if len(w.runs.open) == cap(w.runs.open) || !w.pool.Available() {
		return false
	}
	b, ok := w.pool.TakeFor(sub)
	if !ok {
		return false
	}
	r := &w.runs.subs[sub]
	r.w = segment.MakePartsBuilder(b)
	reader := r.w.NewReader()
	if !r.w.Append(p) { // segments are too small
		reader.Close()
		r.w.Close()
		return false
	}
	r.at = int32(len(w.runs.open))
	w.runs.open = append(w.runs.open, int32(sub))
	w.put(item{kind: itemRun, sub: int32(sub), r: reader})
	return true
}

// endRun closes the shared segment of a subpartition, if there is one.
func (w *PartitionWriter) endRun(sub int) {
	if len(w.runs.open) == 0 || !w.runs.subs[sub].w.Open() {
		return
	}
	r := &w.runs.subs[sub]
	r.w.Close()
	last := len(w.runs.open) - 1
	moved := w.runs.open[last]
	w.runs.open[r.at], w.runs.subs[moved].at = moved, r.at
	w.runs.open = w.runs.open[:last]
	w.runs.more = true
	w.shared.parts.Bump()
}

// Unshare closes the shared segments: the room that is left in them is given back with them, at the next turn of the loop, which Publish asks for.
func (w *PartitionWriter) Unshare() {
	if len(w.runs.open) == 0 {
		return
	}
	for _, sub := range w.runs.open {
		w.runs.subs[sub].w.Close()
	}
	w.runs.open = w.runs.open[:0]
	w.runs.more = true
	w.shared.parts.Bump()
	w.sinceUp++
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
	if s.part.emptyMessages {
		s.part.markDirty(s)
	}
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

// forgetRun takes a subpartition that followed a shared segment off the list.
func (p *Partition) forgetRun(s *Subpartition) {
	i, last := slices.Index(p.runs, s), len(p.runs)-1
	p.runs[i], p.runs[last] = p.runs[last], nil
	p.runs = p.runs[:last]
}

// takeRuns is takeParts for all shared segments, if there are new parts.
func (p *Partition) takeRuns() (worked bool) {
	n := p.shared.parts.Count() // before the parts
	if n == p.partsSeen {
		return false
	}
	p.partsSeen = n
	for i := len(p.runs) - 1; i >= 0; i-- {
		if p.runs[i].takeParts() {
			worked = true
		}
	}
	return worked
}
