package serde

import "github.com/weirflow/weir/segment"

// smallBuffer is the longest whole buffer that shares a segment with others. (It is also the longest that package credit packs.)
const smallBuffer = 8 << 10

// sharer is an [Output] that has small whole buffers of a subpartition share a segment: it copies them there, one behind the other. So an
// output of small buffers holds as many bytes as one of full ones, and the segment that the caller fills is the same one each time, and warm.
type sharer interface {
	// Share hands over a buffer with a copy of p, behind what was handed over before. It returns false, and does nothing, if there is no memory
	// for a segment to share: the buffer goes by itself then.
	Share(sub int, p []byte) bool
	// Unshare gives back the room that is left in shared segments.
	Unshare()
}

// share hands the first n bytes of a lent buffer over in a shared segment, and keeps the buffer to be lent again. It returns false, and does
// nothing, if that cannot be.
func (w *RecordWriter[O]) share(sub int, b segment.Buffer, n int) bool {
	if w.sharer == nil || b.Type() != segment.DataBuffer || b.Compressed() || !w.sharer.Share(sub, b.Memory()[:n]) {
		return false
	}
	w.shares = true
	if w.spare.IsZero() && sub == w.lentTo {
		w.spare, w.spareSub = b, sub
	} else {
		b.Release()
	}
	return true
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
	w.sharer.Unshare()
	return true
}
