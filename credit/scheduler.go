package credit

import "github.com/weirflow/weir/segment"

// Outbound is the sending side of a connection. Its methods are called once per frame, by the connection's owner.
type Outbound interface {
	// Writable reports whether the connection takes more messages now.
	Writable() bool
	// WriteBuffer sends a BufferResponse and takes b over: it is released once it was sent. h is valid during the call;
	// b may be the zero Buffer with h.Size 0.
	WriteBuffer(h *BufferHeader, b segment.Buffer)
	// WriteFrame sends a whole frame, writable or not. frame is valid during the call.
	WriteFrame(frame []byte)
	// WantFlush asks that Scheduler.Run be called soon (at the end of the loop's turn): there is something to send.
	WantFlush()
}

// SchedulerStats counts what a scheduler sent.
type SchedulerStats struct {
	// Data, Events and Bytes sent in BufferResponses; Packed: those of several buffers in one; Announcements of a backlog; Spurious:
	// readers that had nothing when their turn came.
	Data, Events, Bytes, Packed, Announcements, Spurious uint64
}

func (s *SchedulerStats) add(o SchedulerStats) {
	s.Data += o.Data
	s.Events += o.Events
	s.Bytes += o.Bytes
	s.Packed += o.Packed
	s.Announcements += o.Announcements
	s.Spurious += o.Spurious
}

// Scheduler lets the readers of one connection take turns (PartitionRequestQueue): one message each, round robin, as
// long as the connection is writable. It costs the same for one reader and for ten thousand: those that have nothing are
// not looked at.
type Scheduler struct {
	out         Outbound
	first, last *Reader // the line of readers that may have something
	length      int
	stopped     bool   // the connection failed
	polled      Polled // the message under way
	header      BufferHeader
	frame       [64]byte
	stats       SchedulerStats
}

func newScheduler(out Outbound) *Scheduler { return &Scheduler{out: out} }

// Stats returns what was sent so far.
func (s *Scheduler) Stats() SchedulerStats { return s.stats }

// Len returns the length of the line of readers.
func (s *Scheduler) Len() int { return s.length }

// notify puts a reader in the line if it may have something to send, or else tells its receiver of a backlog if it could
// not learn of it otherwise. (A reader that the server core has released is not heard: its view has no listener any more.)
func (s *Scheduler) notify(r *Reader) {
	if r.queued || s.stopped {
		return
	}
	ok, backlog := r.available()
	if !ok {
		if r.needsAnnouncement(ok, backlog) {
			s.stats.Announcements++
			s.out.WriteFrame(AppendBacklogAnnouncement(s.frame[:0], r.id, backlog))
		}
		return
	}
	s.enqueue(r)
	s.out.WantFlush()
}

// Run sends what credit, fairness and the connection allow and returns the number of messages. It is to be called after
// WantFlush and when the connection has become writable again. An error means that an invariant of ours broke: the
// connection must fail with it (ServerCore.Fail).
func (s *Scheduler) Run() (n int, err error) {
	for s.first != nil && !s.stopped && s.out.Writable() {
		r := s.first
		s.dequeue(r)
		more, ok, err := r.take(&s.polled)
		switch {
		case err != nil:
			return n, err
		case !ok:
			s.stats.Spurious++
			s.reportFailure(r)
			continue
		}
		if more {
			s.enqueue(r)
		}
		s.send(r, &s.polled)
		n++
	}
	return n, nil
}

// send writes one message.
func (s *Scheduler) send(r *Reader, p *Polled) {
	h := &s.header
	h.Receiver = r.id
	h.Subpartition = p.Subpartition
	h.Seq = p.Seq
	h.Backlog = p.Backlog
	h.Type = p.Type
	h.Compressed = p.Buf.Compressed()
	h.Size = int32(p.Buf.Len())
	h.Partial, h.PartialSizes = int32(len(p.Sizes)), p.Sizes
	if p.Type.IsBuffer() {
		s.stats.Data++
	} else {
		s.stats.Events++
	}
	more := 0
	for i := range p.More {
		more += p.More[i].Len()
	}
	h.Size += int32(more)
	if len(p.Sizes) > 1 {
		s.stats.Packed++
	}
	s.stats.Bytes += uint64(h.Size)
	s.out.WriteBuffer(h, p.Buf)
	if more > 0 {
		s.out.(packer).WriteMore(p.More, more) // else the view would not have packed
	}
}

// reportFailure tells a receiver whose view gave nothing why, if the producer failed.
func (s *Scheduler) reportFailure(r *Reader) {
	if !r.view.Released() || r.failureSent {
		return
	}
	if cause := r.view.FailureCause(); cause != nil {
		r.failureSent = true
		s.out.WriteFrame(AppendError(nil, cause, r.id, false))
	}
}

func (s *Scheduler) enqueue(r *Reader) {
	r.queued = true
	r.prev, r.next = s.last, nil
	if s.last != nil {
		s.last.next = r
	} else {
		s.first = r
	}
	s.last = r
	s.length++
}

func (s *Scheduler) dequeue(r *Reader) {
	if !r.queued {
		return
	}
	if r.prev != nil {
		r.prev.next = r.next
	} else {
		s.first = r.next
	}
	if r.next != nil {
		r.next.prev = r.prev
	} else {
		s.last = r.prev
	}
	r.queued, r.prev, r.next = false, nil, nil
	s.length--
}

// stop ends all sending.
func (s *Scheduler) stop() {
	s.stopped = true
	for s.first != nil {
		s.dequeue(s.first)
	}
}
