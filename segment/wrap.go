package segment

import "sync"

// wrapHeaders keeps headers of wrapped buffers for the next Wrap. A header's generation grows on, so handles of an earlier
// life are still found.
var wrapHeaders = sync.Pool{New: func() any { return &header{word: sole, kind: kindWrapped} }}

// Wrap returns a buffer over bytes that belong to no pool, such as a serialized event. The bytes are not copied: they must
// not change while a reference exists. Counting and the finding of misuse are the same as for pooled buffers, and the
// last Release lets go of p. Wrap is meant for events: it allocates now and then a header.
//
// Flink: MemorySegmentFactory#wrap with FreeingBufferRecycler.
func Wrap(p []byte, t DataType) Buffer {
	h := wrapHeaders.Get().(*header)
	h.kind = kindWrapped
	h.mem = p
	if p == nil {
		h.mem = []byte{}
	}
	b := h.handle().WithType(t)
	b.win = uint64(uint32(len(p)))
	return b
}

// unwrap ends a wrapped or file-backed life.
func (h *header) unwrap() {
	if f := h.file; f != nil {
		h.file = nil
		f.release()
	}
	h.mem, h.note = nil, 0
	wrapHeaders.Put(h)
}
