package serde

import "github.com/weirflow/weir/segment"

// smallBuffer is the longest whole buffer that shares a segment with others. (It is also the longest that package credit packs.)
const smallBuffer = 8 << 10

// sharing is the segment that small whole buffers of a subpartition are copied into, one behind the other: each is a slice of it, with a
// reference of its own. So an output of small buffers holds as many bytes as one of full ones, and the segment that the caller
// fills is the same one each time, and warm.
type sharing struct {
	w segment.Builder
	r segment.Reader // of what was not handed over yet: nothing, between calls
	n int            // buffers
}

// mostShare is how many buffers share a segment at most: each is an element of queues, however short it is.
const mostShare = 256

// sharer is an [Output] whose queues hold more buffers than there are segments.
type sharer interface {
	// Roomy reports whether another buffer may be handed over that has no segment of its own.
	Roomy() bool
}

// share hands the first n bytes of a lent buffer over in a shared segment, and keeps the buffer to be lent again. It returns false, and does
// nothing, if there is no memory for one: the buffer goes by itself then.
func (w *RecordWriter[O]) share(sub int, b segment.Buffer, n int) bool {
	if w.sharer == nil || !w.sharer.Roomy() || b.Type() != segment.DataBuffer || b.Compressed() {
		return false
	}
	if w.small == nil {
		w.small = make([]sharing, len(w.slots))
	}
	s := &w.small[sub]
	if !isOpen(&s.w) || room(&s.w) < n || s.n == mostShare {
		s.close()
		if !w.out.Available(sub) {
			return false
		}
		fresh, ok := w.out.Take(sub)
		if !ok {
			return false
		}
		s.w = segment.MakeBuilder(fresh)
		s.r = s.w.NewReader()
		w.shares = true
		if room(&s.w) < n {
			return false
		}
	}
	s.w.Append(b.Memory()[:n])
	s.w.Commit()
	part, _ := s.r.Next()
	s.n++
	w.out.Add(sub, segment.ReadAll(part), 0)
	if w.spare.IsZero() && sub == w.lentTo {
		w.spare, w.spareSub, w.shares = b, sub, true
	} else {
		b.Release()
	}
	if s.w.Full() {
		s.close()
	}
	return true
}

func (s *sharing) close() {
	s.r.Close()
	closeBuilder(&s.w)
	s.n = 0
}

// lendSpare gives the buffer that was kept for sub.
func (w *RecordWriter[O]) lendSpare(sub int) (b segment.Buffer, ok bool) {
	b = w.spare
	if b.IsZero() || w.spareSub != sub {
		return segment.Buffer{}, false
	}
	w.spare = segment.Buffer{}
	return b, true
}

// Reclaim gives back the memory that is kept for small whole buffers. The writer does so before it reports [ErrFull]; a caller that waits for
// memory without that calls it first.
func (w *RecordWriter[O]) Reclaim() { w.unshare() }

// unshare gives back what is kept for whole buffers, as it may be this that is waited for, or there will be no more of them. It reports
// whether there was anything.
func (w *RecordWriter[O]) unshare() bool {
	if !w.shares {
		return false
	}
	w.shares = false
	w.spare.Release()
	w.spare = segment.Buffer{}
	for i := range w.small {
		w.small[i].close()
	}
	return true
}
