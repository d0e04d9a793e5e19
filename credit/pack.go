package credit

import "github.com/weirflow/weir/segment"

// Packing: small buffers that wait behind one another go out in one message, in the form that Flink 2.3 has for partial buffers
// (wire format of BufferResponse; there only sort-merge partitions make use of it). Such a message costs one credit, one header and one
// segment of the receiver, who hands the buffers out one by one, as they were, with the sequence numbers that they would have had.
// Only whole buffers of data are packed, of one type, that lie next to each other: what is flushed while it is written grows in its
// buffer anyway.

const (
	// packPart is the longest buffer that is packed: a receiver puts longer ones straight into its segments.
	packPart = landLeast
	// packParts is the most buffers in one message, and packMost the most bytes, if the receiver's segments have room for so many.
	packParts = 256
	packMost  = 32 << 10
)

// packer is an Outbound whose receiver takes several buffers in one message.
type packer interface {
	Outbound
	// Packs reports whether it does.
	Packs() bool
	// WriteMore adds n bytes to the payload of the message that WriteBuffer began, of buffers that it takes over. The header counted them.
	WriteMore(bufs []segment.Buffer, n int)
}

// Packs reports whether the connection takes several buffers in one message.
func (r *Reader) Packs() bool {
	p, ok := r.sched.out.(packer)
	return ok && p.Packs()
}

// packed is what the views of a partition pack into, one message at a time.
type packed struct {
	bufs  []segment.Buffer
	sizes []int32
}

// weigh is how much of a message a buffer takes up.
func (s *Subpartition) weigh(r *segment.Reader) int32 {
	if n := r.Written(); r.Finished() && n <= packPart {
		return int32(n)
	}
	return int32(s.part.packLimit)
}

// leaves takes a data buffer off the counts.
func (s *Subpartition) leaves(weight int32) {
	s.dataCount--
	s.weight -= int(weight)
}

// packedBacklog is Backlog in messages of several buffers, about as many as there will be, and one if there is anything. A receiver that was told of each buffer would
// keep credit for it that nobody uses.
func (s *Subpartition) packedBacklog() int32 {
	n, limit := s.Backlog(), s.packLimit()
	return min(n, max(1, int32((s.weight+limit-1)/limit), (n+packParts-1)/packParts))
}

// packLimit is the most bytes of a message of several buffers. A receiver that wishes for small ones (debloating) wants that little for a
// credit.
func (s *Subpartition) packLimit() int {
	limit := s.part.packLimit
	if wish := int(s.part.shared.sub(s.index).hint.Load()); wish > 0 {
		limit = min(limit, wish)
	}
	return limit
}

// pack adds to p, a buffer of data that was just polled, those behind it that go out with it.
func (s *Subpartition) pack(p *Polled) {
	limit := s.packLimit()
	total := p.Buf.Len()
	if total == 0 || total > packPart || !p.Type.IsBuffer() || p.Buf.Compressed() {
		return
	}
	k := &s.part.packed
	k.bufs, k.sizes = k.bufs[:0], append(k.sizes[:0], int32(total))
	last := &p.Buf
	for len(k.sizes) < packParts && s.queue.PriorityLen() == 0 {
		front := s.queue.Front()
		if front == nil || front.r.Type() != p.Type {
			break
		}
		if front.parts > 1 {
			if front.at == 0 && total > limit-limit/4 {
				break // another segment: the message is full enough to go out in one piece
			}
			b, more := s.packParts(front, limit-total)
			if b.IsZero() {
				break
			}
			total += b.Len()
			last = k.add(last, b)
			if more {
				break
			}
			continue
		}
		n, finished := front.r.Rest()
		if !finished || n == 0 || n > packPart || total+n > limit {
			break
		}
		b, _ := front.r.NextClose()
		if s.queue.Len() == 1 {
			s.flushRequested = false
		}
		s.leaves(front.weight)
		s.queue.DropFront()
		total += n
		k.sizes = append(k.sizes, int32(n))
		last = k.add(last, b)
	}
	if more := len(k.sizes) - 1; more > 0 {
		p.More, p.Sizes = k.bufs, k.sizes
		s.seq += int32(more)
		p.Next = s.next()
	}
}

// add puts b behind the last buffer of the message, and returns what is the last one then.
func (k *packed) add(last *segment.Buffer, b segment.Buffer) *segment.Buffer {
	var joined bool
	if *last, joined = last.Join(b); joined {
		return last
	}
	k.bufs = append(k.bufs, b)
	return &k.bufs[len(k.bufs)-1]
}

// packParts takes off an element of several parts those that go into room bytes, as one buffer; the zero Buffer if the first one does not. more: not
// all of them did.
func (s *Subpartition) packParts(e *element, room int) (b segment.Buffer, more bool) {
	k := &s.part.packed
	n, bytes := int32(0), 0
	for ; n < e.parts && len(k.sizes) < packParts; n++ {
		size := e.partLen(n)
		if bytes+size > room {
			break
		}
		bytes += size
		k.sizes = append(k.sizes, int32(size))
	}
	if n == 0 {
		return segment.Buffer{}, true
	}
	if n < e.parts {
		b = e.r.Take(bytes)
		s.leavesParts(e, n, bytes)
		return b, true
	}
	s.leavesParts(e, n, bytes)
	b, _ = e.r.NextClose()
	if s.queue.Len() == 1 {
		s.flushRequested = false
	}
	s.queue.DropFront()
	return b, false
}
