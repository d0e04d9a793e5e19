package credit

import (
	"fmt"

	"github.com/weirflow/weir/ringbuf"
	"github.com/weirflow/weir/segment"
)

// element is an event, complete on arrival, or a data buffer that may still be written to.
type element struct {
	r segment.Reader
	// partial is the number of bytes at the beginning that continue a record of the buffer before; negative: unknown.
	partial int32
	weight  int32 // of data: see weigh
	// parts is the number of buffers that it stands for, if they are several in a shared segment, and at the index of the first one there.
	parts, at int32
}

// Subpartition is the queue of one consumer's data in a pipelined partition (PipelinedSubpartition): a state machine
// that decides what a consumer may get and when it hears of it. It belongs to the loop half of its Partition.
//
// Only the last element that has no priority may be unfinished. Sequence numbers are given at poll, so an event that
// overtakes data has a smaller one.
type Subpartition struct {
	part  *Partition
	index int32
	queue ringbuf.Deque[element]
	// dataCount is the number of data elements in queue.
	dataCount int32
	weight    int // sum of their weights
	// seq is the next sequence number; it wraps.
	seq            int32
	flushRequested bool // the writer wants partial data delivered
	finished       bool // the end-of-partition event was added
	blocked        bool // a blocking event was sent; wait for resume
	released       bool // no more adds, queue emptied
	viewCreated    bool // there may be one view ever
	isConsumed     bool // that view was released
	acked          bool // the consumer has processed all records
	dirty          bool // in part.dirty: the last element may be unfinished
	view           *subView
	run            segment.PartsReader // the shared segment that the writer adds to

	promise   bool // a timeoutable barrier of promiseID is queued, and buffers were promised for it
	promiseID int64
}

// Index returns the index of the subpartition in its partition.
func (s *Subpartition) Index() int { return int(s.index) }

// Queued returns the number of queued buffers and events. It counts them: for statistics.
func (s *Subpartition) Queued() (n int) {
	for i := range s.queue.Len() {
		n += int(max(s.queue.At(i).parts, 1))
	}
	return n
}

// Blocked reports whether a blocking event was sent that the consumer has not resumed yet.
func (s *Subpartition) Blocked() bool { return s.blocked }

// HadView reports whether a consumer has come, ever.
func (s *Subpartition) HadView() bool { return s.viewCreated }

// Acked reports whether the consumer has processed all records.
func (s *Subpartition) Acked() bool { return s.acked }

// Released reports whether the subpartition was released.
func (s *Subpartition) Released() bool { return s.released }

// finishedCount is the number of elements that are known to be complete. It uses the cached flag of the reader, as Flink
// does: a lone buffer that was finished after it was added still counts as unfinished here.
func (s *Subpartition) finishedCount() int {
	n := s.queue.Len()
	if n == 1 && s.queue.Front().r.Finished() {
		return 1
	}
	return max(0, n-1)
}

// available reports whether poll gives something. Without credit that is only so if the first element is an event;
// blocked is not looked at then, so a poll may give nothing.
func (s *Subpartition) available(credit bool) bool {
	if credit {
		return !s.blocked && (s.flushRequested || s.finishedCount() > 0)
	}
	front := s.queue.Front()
	return front != nil && front.r.Type().IsEvent()
}

// Backlog is the number of data buffers that a consumer may count on. The last buffer, which may be unfinished, is left
// out unless it was flushed or nothing follows.
func (s *Subpartition) Backlog() int32 {
	switch {
	case s.blocked || s.queue.Len() == 0:
		return 0
	case s.flushRequested || s.finished || s.queue.Back().r.Type().IsEvent():
		return s.dataCount
	}
	return max(s.dataCount-1, 0)
}

// add puts an element into the queue, which takes over its reader. It returns false, and closes the reader, if the
// subpartition is finished or released.
func (s *Subpartition) add(r segment.Reader, partial int32) bool {
	return s.addElement(r, partial, false)
}

func (s *Subpartition) addElement(r segment.Reader, partial int32, end bool) bool {
	if s.finished || s.released {
		r.Close()
		return false
	}
	priority := false
	switch t := r.Type(); {
	case t.HasPriority():
		priority = s.addPriority(element{r: r, partial: partial})
	default:
		e := s.queue.Append()
		e.r, e.partial, e.parts = r, partial, 0
		if t == segment.TimeoutableAlignedBarrier {
			s.makePromise(&e.r)
		} else if t.IsBuffer() {
			s.dataCount++
			e.weight = s.weigh(&r)
			s.weight += int(e.weight)
			if !r.Finished() || s.part.emptyMessages {
				s.part.markDirty(s)
			}
		}
	}
	s.finished = end
	data := end || s.view != nil && !s.flushRequested && !s.blocked && s.finishedCount() == 1
	if priority {
		s.notifyPriority()
	}
	if data {
		s.notifyData()
	}
	return true
}

// notifyData tells the view's listener that there is something.
func (s *Subpartition) notifyData() {
	if v := s.view; v != nil && v.listener != nil {
		v.listener.DataAvailable()
	}
}

func (s *Subpartition) notifyPriority() {
	if v := s.view; v != nil && v.listener != nil {
		v.listener.PriorityEvent(s.seq)
	}
}

// flush lets the consumer have what is written of an unfinished buffer.
func (s *Subpartition) flush() {
	n := s.queue.Len()
	if n == 0 || s.flushRequested {
		return
	}
	partial := n == 1 && s.queue.Front().r.DataAvailable()
	s.flushRequested = n > 1 || partial
	if partial && !s.blocked { // with more elements the listener has been told before
		s.notifyData()
	}
}

// reclaim deals with a last buffer that was finished after the consumer had last looked. Nobody would ask for it before the
// next one comes, and meanwhile it keeps a segment, and a place in its subpartition's quota, for which the writer may
// wait: then the next one never comes. What is left in it is sent; if that is nothing, it goes back, unless the consumer
// has to be told of it by an empty message. (Flink keeps it, and can stand still in small pools.)
func (s *Subpartition) reclaim() {
	last := s.queue.Back()
	if last == nil || s.flushRequested || !last.r.Type().IsBuffer() {
		return
	}
	c := last.r.Copy() // looks again
	finished, left := c.Finished(), c.DataAvailable()
	c.Close()
	switch alone := s.queue.Len() == 1; {
	case !finished:
	case left || !alone || s.part.emptyMessages:
		s.flushRequested = true
		if alone && !s.blocked { // with more elements the listener has been told before
			s.notifyData()
		}
	default:
		last.r.Close()
		s.leaves(last.weight)
		s.queue.PopFront()
	}
}

// poll gives the next data buffer or event.
func (s *Subpartition) poll(p *Polled) bool {
	if s.blocked && (s.queue.PriorityLen() == 0 || s.part.profile == Flink120) {
		return false
	}
	for {
		front := s.queue.Front()
		if front == nil {
			s.flushRequested = false
			return false
		}
		p.Type = front.r.Type()
		if p.Type == segment.TimeoutableAlignedBarrier {
			s.barrierLeaves(&front.r)
		}
		if front.parts > 1 {
			p.Buf = s.takePart(front)
			break
		}
		alone := s.queue.Len() == 1
		buf, finished := front.r.NextClose()
		if !finished && !alone {
			panic(fmt.Sprintf("credit: subpartition %d: an unfinished buffer is not the last one", s.index))
		}
		if alone {
			s.flushRequested = false
		}
		if finished {
			if p.Type.IsBuffer() {
				s.leaves(front.weight)
			}
			s.queue.DropFront()
		}
		// A finished buffer without bytes is sent only if the consumer may have reserved a floating buffer for it.
		if buf.IsZero() && !(finished && s.part.emptyMessages && p.Type.IsBuffer()) {
			if finished {
				continue
			}
			return false
		}
		p.Buf = buf
		break
	}
	if p.Type.BlocksUpstream() {
		s.blocked = true
	}
	p.Backlog = s.Backlog()
	p.Next = s.next()
	p.Seq, p.Subpartition, p.Sizes, p.More = s.seq, s.index, nil, nil
	s.seq++
	return true
}

// next is the type of what the next poll would give to who has credit.
func (s *Subpartition) next() segment.DataType {
	if s.available(true) {
		return s.queue.Front().r.Type()
	}
	return segment.None
}

// finish appends the end-of-partition event.
func (s *Subpartition) finish() bool {
	return s.addElement(segment.ReadAll(segment.Wrap(endOfPartition[:], segment.EndOfPartition)), 0, true)
}

// endOfPartition is the event's serialized form; it is never written to.
var endOfPartition [4]byte

// resume ends a block.
func (s *Subpartition) resume() error {
	if !s.blocked {
		return fmt.Errorf("%w: subpartition %d should be blocked by a checkpoint", errNotBlocked, s.index)
	}
	s.blocked = false
	return nil
}

// ack notes that the consumer has processed everything up to the end of data; again is ignored.
func (s *Subpartition) ack() {
	if !s.acked {
		s.acked = true
		s.part.shared.sub(s.index).acked.Store(true)
		s.part.ackedOne()
	}
}

func (s *Subpartition) setBufferSize(n int32) { s.part.shared.sub(s.index).hint.Store(n) }

// newView creates the only view that the subpartition will ever have.
func (s *Subpartition) newView(l ViewListener) (View, error) {
	if err := s.mayView(); err != nil {
		return nil, err
	}
	return s.openView(l), nil
}

// mayView reports why a view cannot be had.
func (s *Subpartition) mayView() error {
	switch {
	case s.released:
		return fmt.Errorf("%w: subpartition %d of %s", ErrReleased, s.index, s.part.id)
	case s.viewCreated:
		return fmt.Errorf("%w: subpartition %d of %s", errConsumed, s.index, s.part.id)
	}
	return nil
}

func (s *Subpartition) openView(l ViewListener) *subView {
	s.viewCreated = true
	s.view = &subView{s: s, listener: l}
	if r, ok := l.(*Reader); ok && r.Packs() {
		s.view.packs = true
	}
	return s.view
}

// consumed is called when the view was released. A pipelined subpartition has one consumer ever: nobody will want what
// comes, so the memory goes back and the writer hears of it. (Flink keeps queueing until the whole partition is
// released, so that a writer may stand still for a consumer that is gone; KeepCancelled does the same.)
func (s *Subpartition) consumed() {
	if s.isConsumed {
		return
	}
	s.isConsumed = true
	if !s.part.cfg.KeepCancelled {
		s.release(ErrReleased)
	}
	if f := s.part.cfg.OnConsumed; f != nil {
		f(int(s.index))
	}
	s.part.userGone()
}

// release empties the queue and refuses what comes; cause breaks a promise.
func (s *Subpartition) release(cause error) {
	if s.released {
		return
	}
	s.released = true
	s.part.shared.sub(s.index).released.Store(true)
	s.part.shared.live.Add(-1)
	s.queue.Clear(func(e element) { e.r.Close() })
	if s.run.Open() {
		s.run.Close()
		s.part.forgetRun(s)
	}
	s.dataCount, s.weight = 0, 0
	s.breakPromise(cause)
	s.view = nil
	s.part.cfg.Pool.Notifier().Wake() // the writer may wait for a place in this queue
}
