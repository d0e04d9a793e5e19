package segment

// Buffer is a handle to a window of bytes in a counted segment: which segment, which life of it (generation), which
// reference, from where to where, and what the bytes are. It is a value of 24 bytes; making, slicing and retaining one
// allocates nothing. The zero Buffer is no buffer: it has no bytes, and releasing it does nothing.
//
// A handle that came from Take, Wrap, Retain, Slice or Reader.Next owns one reference, and is passed on rather than
// copied: whoever holds it last calls Release, exactly once. Methods that return a changed handle (WithType, Resized,
// Narrow, …) pass the same reference on; the old handle is not used after. One goroutine at a time uses a handle; another
// one gets its own by Retain.
//
// A second Release, or a use after release, is found by the generation and the identity of the reference. It changes
// nothing, and is counted in Usage; debug builds panic and name both stacks.
//
// Reading and writing of the bytes is not synchronized. The holder of the only reference may write (Memory); with several
// holders the bytes are read-only, except beyond the committed length of a Builder.
//
// Flink: NetworkBuffer and ReadOnlySlicedNetworkBuffer.
type Buffer struct {
	h     *header
	gen   uint32
	off   uint32
	n     uint32
	typ   DataType
	flags uint8
	ref   refID
}

const (
	flagCompressed = 1 << iota
	flagReadOnly
)

// IsZero tells whether b is no buffer.
func (b Buffer) IsZero() bool { return b.h == nil }

// Bytes returns the window. The slice is valid until b is released, and is not written to unless b is the only reference.
// It is nil for a file-backed buffer (see ReadInto) and for a handle that was released. Its capacity ends with the window.
func (b Buffer) Bytes() []byte {
	if h := b.h; h != nil && h.gen == b.gen {
		return h.window(b.off, b.n)
	}
	return b.stale()
}

func (h *header) window(off, n uint32) []byte {
	if h.mem == nil {
		return nil
	}
	return h.mem[off : off+n : off+n]
}

// stale is the cold end of Bytes.
func (b Buffer) stale() []byte {
	if b.h != nil {
		b.h.misuse(useAfterRelease, b, ErrReleased)
	}
	return nil
}

// Len returns the length of the window in bytes.
func (b Buffer) Len() int { return int(b.n) }

// Type returns what the bytes are. A buffer just taken is a DataBuffer.
func (b Buffer) Type() DataType { return b.typ }

// WithType returns the handle with another data type. Slices and copies made before keep theirs.
func (b Buffer) WithType(t DataType) Buffer {
	b.typ = t
	return b
}

// Compressed tells whether the bytes are a compressed block.
func (b Buffer) Compressed() bool { return b.flags&flagCompressed != 0 }

// WithCompressed returns the handle marked as compressed or not.
func (b Buffer) WithCompressed(c bool) Buffer {
	b.flags &^= flagCompressed
	if c {
		b.flags |= flagCompressed
	}
	return b
}

// ReadOnly tells whether b came from Slice, or is file-backed, so that Memory refuses.
func (b Buffer) ReadOnly() bool { return b.flags&flagReadOnly != 0 }

// Memory returns the whole segment, to be filled by the holder of the only reference; then Resized says how much of it
// counts. It is nil for a read-only or released handle.
func (b Buffer) Memory() []byte {
	h := b.h
	switch {
	case h == nil:
		return nil
	case h.gen != b.gen:
		return b.stale()
	case b.flags&flagReadOnly != 0:
		h.misuse(writeToReadOnly, b, ErrReadOnly)
		return nil
	}
	return h.mem
}

// Resized returns the handle with the window [0, n) of the segment. An n outside of the segment is a misuse; it is cut
// to what there is.
func (b Buffer) Resized(n int) Buffer {
	if b.h == nil {
		return b
	}
	if size := b.capacity(); uint(n) > uint(size) {
		b.h.misuse(badWindow, b, ErrRange)
		n = min(max(n, 0), size)
	}
	b.off, b.n = 0, uint32(n)
	return b
}

// Narrow returns the handle with the window [off, off+n) of the present window, keeping its reference. A window that does
// not fit is a misuse and leaves b as it is.
func (b Buffer) Narrow(off, n int) Buffer {
	if !b.fits(off, n) {
		return b
	}
	b.off += uint32(off)
	b.n = uint32(n)
	return b
}

// fits tells whether [off, off+n) lies in the window, and reports a misuse if not. A compressed block can't be cut.
func (b Buffer) fits(off, n int) bool {
	if b.h == nil {
		return off == 0 && n == 0
	}
	ok := off >= 0 && n >= 0 && off <= int(b.n) && n <= int(b.n)-off
	if b.flags&flagCompressed != 0 {
		ok = off == 0 && n == int(b.n)
	}
	if !ok {
		b.h.misuse(badWindow, b, ErrRange)
	}
	return ok
}

// capacity returns the size of what stands behind the handle.
func (b Buffer) capacity() int {
	if b.h.kind == kindFile {
		return int(b.n)
	}
	return len(b.h.mem)
}

// Slice returns a read-only view of the bytes [off, off+n) of the window, with a reference of its own: the segment goes
// home when the view and all other handles are released. A view of a view refers to the segment, not to the first view.
// Type and compressed flag are b's. A compressed buffer can only be sliced whole. A window that does not fit, or a handle that
// was released, is a misuse and gives the zero Buffer.
func (b Buffer) Slice(off, n int) Buffer {
	if !b.fits(off, n) {
		return Buffer{}
	}
	s := b.Retain()
	s.off += uint32(off)
	s.n = uint32(n)
	s.flags |= flagReadOnly
	return s
}

// Retain returns another handle to the same bytes, with a reference of its own. The original keeps its reference; each of
// the two is released once. Retaining a released handle, or one with MaxRefs references, is a misuse and gives the zero
// Buffer.
func (b Buffer) Retain() Buffer {
	h := b.h
	if h == nil {
		return Buffer{}
	}
	ref, err := h.addRef(b.gen, b.ref)
	if err != nil {
		h.misuse(misuseOf(err), b, err)
		return Buffer{}
	}
	b.ref = ref
	return b
}

// TryRetain is Retain for callers that want the error: ErrReleased or ErrTooManyRefs. It counts no misuse.
func (b Buffer) TryRetain() (Buffer, error) {
	if b.h == nil {
		return Buffer{}, ErrReleased
	}
	ref, err := b.h.addRef(b.gen, b.ref)
	if err != nil {
		return Buffer{}, err
	}
	b.ref = ref
	return b, nil
}

// Release gives the handle's reference up; the last one sends the segment home. Any goroutine may call it. The handle, and
// every slice of bytes got from it, must not be used after. A second Release of the same handle is a misuse: it changes
// nothing.
func (b Buffer) Release() {
	h := b.h
	if h == nil {
		return
	}
	last, err := h.dropRef(b.gen, b.ref)
	if last {
		h.sendHome()
	} else if err != nil {
		h.misuse(overRelease, b, err)
	}
}

// TryRelease is Release for callers that want the error: ErrReleased. It counts no misuse.
func (b Buffer) TryRelease() error {
	if b.h == nil {
		return nil
	}
	last, err := b.h.dropRef(b.gen, b.ref)
	if last {
		b.h.sendHome()
	}
	return err
}

// Released tells whether the segment has gone home since the handle was made. Only the holder of a reference gets an answer
// that stays true.
func (b Buffer) Released() bool { return b.h != nil && b.h.gen != b.gen }

// Refs returns how many references the segment has: a snapshot, exact if it is 1 and b is the one. It is 0 for a
// released handle.
func (b Buffer) Refs() int {
	if b.h == nil || b.h.gen != b.gen {
		return 0
	}
	return b.h.refs()
}

// SetTag stores a number with the segment. It stays there until the segment is home, where LocalConfig.OnReturn gets it.
// Only the holder of the only reference may call it. Take gives segments with tag 0.
func (b Buffer) SetTag(tag uint32) {
	if b.h != nil && b.h.gen == b.gen {
		b.h.tag = tag
	}
}

// Tag returns the number last stored by SetTag.
func (b Buffer) Tag() uint32 {
	if b.h == nil || b.h.gen != b.gen {
		return 0
	}
	return b.h.tag
}
