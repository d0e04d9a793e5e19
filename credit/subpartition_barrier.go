package credit

import (
	"errors"
	"fmt"

	"github.com/weirflow/weir/segment"
	"github.com/weirflow/weir/serde/event"
)

// OutputSink takes the in-flight data of subpartitions that belongs to a checkpoint (ChannelStateWriter#addOutputData
// and #addOutputDataFuture). A StateSink is one. Buffers, and the slice of them, are lent for the call: an
// implementation that keeps one retains it. A buffer may be the zero Buffer: an element whose bytes were all sent.
// Called by the owner of the partition's loop half.
type OutputSink interface {
	// OutputData brings what an unaligned barrier overtook, in order; at least one buffer.
	OutputData(checkpoint int64, subpartition int, bufs []segment.Buffer)
	// OutputPromise tells that a barrier that may become unaligned was queued: exactly one call of OutputKept or
	// OutputBroken follows.
	OutputPromise(checkpoint int64, subpartition int)
	// OutputKept brings what the barrier overtook when its time ran out; no buffers if it left in order.
	OutputKept(checkpoint int64, subpartition int, bufs []segment.Buffer)
	// OutputBroken tells that nothing will come for the promise.
	OutputBroken(checkpoint int64, subpartition int, cause error)
}

// StateSink takes the in-flight data of both ends that belongs to checkpoints.
type StateSink interface {
	InputSink
	OutputSink
}

// ErrPromiseReplaced: a second barrier that may time out was queued while the first one's promise was open.
var ErrPromiseReplaced = errors.New("barrier of another checkpoint queued")

var (
	errNotBlocked = errors.New("not blocked")
	errConsumed   = errors.New("already consumed")
)

// addPriority puts a priority event behind older ones and before everything else, and hands over what an unaligned
// barrier overtakes. It returns whether the listener must hear of it.
func (s *Subpartition) addPriority(e element) bool {
	id, unaligned := int64(0), false
	if b, ok := s.barrierOf(&e.r); ok {
		id, unaligned = b.ID, b.Options.IsUnaligned()
	}
	first := s.queue.PushPriority(e)
	if unaligned && s.part.sink != nil {
		if bufs := s.overtaken(s.queue.Len()); len(bufs) > 0 {
			s.part.sink.OutputData(id, int(s.index), bufs)
			s.part.giveBack(bufs)
		}
	}
	return first && !(s.blocked && s.part.profile == Flink120)
}

// overtaken returns copies of the data elements between the priority section and index end. They are the caller's; the
// slice is scratch of the partition.
func (s *Subpartition) overtaken(end int) []segment.Buffer {
	bufs := s.part.scratch[:0]
	for i := s.queue.PriorityLen(); i < end; i++ {
		e := s.queue.At(i)
		if !e.r.Type().IsBuffer() {
			continue
		}
		c := e.r.Copy()
		for k := range e.parts - 1 {
			bufs = append(bufs, c.Take(e.partLen(k)))
		}
		b, _ := c.Next()
		c.Close()
		bufs = append(bufs, b)
	}
	s.part.scratch = bufs
	return bufs
}

// barrierOf decodes an event if it is a checkpoint barrier. The event must be one that we made: it is decodable.
func (s *Subpartition) barrierOf(r *segment.Reader) (b *event.Barrier, ok bool) {
	c := r.Copy()
	buf, _ := c.Next()
	defer buf.Release()
	c.Close()
	ev := &s.part.event
	if err := event.Decode(buf.Bytes(), ev); err != nil || ev.Kind != event.CheckpointBarrier {
		return nil, false
	}
	return &ev.Barrier, true
}

// makePromise is called for a timeoutable barrier that was just queued.
func (s *Subpartition) makePromise(r *segment.Reader) {
	b, ok := s.barrierOf(r)
	if !ok {
		return
	}
	id := b.ID
	s.breakPromise(fmt.Errorf("%w: %d", ErrPromiseReplaced, id))
	s.promise, s.promiseID = true, id
	if s.part.sink != nil {
		s.part.sink.OutputPromise(id, int(s.index))
	}
}

// barrierLeaves is called when a timeoutable barrier is polled: it was in time.
func (s *Subpartition) barrierLeaves(r *segment.Reader) {
	if !s.promise {
		return
	}
	if b, ok := s.barrierOf(r); ok && b.ID == s.promiseID {
		s.keepPromise(nil)
	}
}

func (s *Subpartition) keepPromise(bufs []segment.Buffer) {
	s.promise = false
	if s.part.sink != nil {
		s.part.sink.OutputKept(s.promiseID, int(s.index), bufs)
	}
}

func (s *Subpartition) breakPromise(cause error) {
	if !s.promise {
		return
	}
	s.promise = false
	if s.part.sink != nil {
		s.part.sink.OutputBroken(s.promiseID, int(s.index), cause)
	}
}

// AlignedBarrierTimeout makes the barrier of checkpoint id, if it is still here, an unaligned one that overtakes the data
// in front of it.
func (s *Subpartition) AlignedBarrierTimeout(id int64) {
	if !s.promise || s.promiseID != id {
		return
	}
	at, found := s.findBarrier(id)
	if !found { // the promise says that it is queued
		panic(fmt.Sprintf("credit: subpartition %d: the barrier of checkpoint %d is lost", s.index, id))
	}
	bufs := s.overtaken(at)
	first := s.queue.PushPriority(element{r: s.unalignedBarrier(at)})
	old := s.queue.Remove(at + 1)
	old.r.Close()
	s.keepPromise(bufs)
	s.part.giveBack(bufs)
	if first && !(s.blocked && s.part.profile == Flink120) {
		s.notifyPriority()
	}
}

// findBarrier finds the timeoutable barrier of checkpoint id.
func (s *Subpartition) findBarrier(id int64) (int, bool) {
	for i := s.queue.PriorityLen(); i < s.queue.Len(); i++ {
		e := s.queue.At(i)
		if e.r.Type() != segment.TimeoutableAlignedBarrier {
			continue
		}
		if b, ok := s.barrierOf(&e.r); ok && b.ID == id {
			return i, true
		}
	}
	return 0, false
}

// unalignedBarrier encodes the barrier at index at anew, as unaligned and with priority.
func (s *Subpartition) unalignedBarrier(at int) segment.Reader {
	b, _ := s.barrierOf(&s.queue.At(at).r)
	ev := event.Event{Kind: event.CheckpointBarrier, Barrier: *b}
	ev.Barrier.Options = ev.Barrier.Options.ToUnaligned()
	return segment.ReadAll(segment.Wrap(event.AppendPadded(nil, &ev), segment.PrioritizedEvent))
}

// AbortCheckpoint breaks the promise of checkpoint id. The barrier stays queued.
func (s *Subpartition) AbortCheckpoint(id int64, cause error) {
	if s.promise && s.promiseID == id {
		s.breakPromise(cause)
	}
}
