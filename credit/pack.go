package credit

import "github.com/weirflow/weir/segment"

// Packing: small buffers that wait behind one another go out in one message, in the form that Flink 2.3 has for partial buffers
// (wire format of BufferResponse; there only sort-merge partitions make use of it). Such a message costs one credit, one header and one
// segment of the receiver, who hands the buffers out one by one, as they were, with the sequence numbers that they would have had.
// Only whole buffers of data are packed, of one type, that lie next to each other: what is flushed while it is written grows in its
// buffer anyway.

const (
	// packPart is the longest buffer that is packed. It is copied, twice; a receiver puts longer ones straight into its segments (landLeast).
	packPart = landLeast
	// packParts is the most buffers in one message.
	packParts = 256
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

// pack adds to p, a buffer of data that was just polled, those behind it that go out with it: at most limit bytes in all.
func (s *Subpartition) pack(p *Polled, limit int) {
	total := p.Buf.Len()
	if total == 0 || total > packPart || !p.Type.IsBuffer() || p.Buf.Compressed() {
		return
	}
	k := &s.part.packed
	k.bufs, k.sizes = k.bufs[:0], append(k.sizes[:0], int32(total))
	for len(k.sizes) < packParts && s.queue.PriorityLen() == 0 {
		front := s.queue.Front()
		if front == nil || front.r.Type() != p.Type {
			break
		}
		n, finished := front.r.Rest()
		if !finished || n == 0 || n > packPart || total+n > limit {
			break
		}
		b, _ := front.r.NextClose()
		if s.queue.Len() == 1 {
			s.flushRequested = false
		}
		s.queue.DropFront()
		s.dataCount--
		total += n
		k.bufs, k.sizes = append(k.bufs, b), append(k.sizes, int32(n))
	}
	if len(k.bufs) > 0 {
		p.More, p.Sizes = k.bufs, k.sizes
		s.seq += int32(len(k.bufs))
		p.Backlog, p.Next = s.Backlog(), s.next()
	}
}
