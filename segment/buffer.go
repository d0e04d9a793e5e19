package segment

import (
	"sync/atomic"

	"github.com/weirflow/weir/internal/buildtag"
)

// Buffer is a handle to a window of bytes in a counted segment: which segment, which life of it (generation), which
// reference, from where to where, and what the bytes are. It is a value of 24 bytes; making, slicing and retaining one
// allocates nothing. The zero Buffer is no buffer: it has no bytes, and releasing it does nothing.
//
// A handle that came from Take, Wrap, Retain, Slice or Reader.Next owns one reference, and is passed on rather than
// copied: whoever holds it last calls Release, exactly once. Methods that return a changed handle (WithType, Resized,
// Narrow, …) pass the same reference on; the old handle is not used after. One goroutine at a time uses a handle; another
// one gets its own by Retain.
//
// A second Release, or a Retain or Slice after it, is found by the generation and the identity of the reference. It
// changes nothing, and is counted in PoolUsage.Misuse; Bytes and Memory of a released handle are nil. Debug builds panic
// on each of these and name the stacks.
//
// Reading and writing of the bytes is not synchronized. The holder of the only reference may write (Memory); with several
// holders the bytes are read-only, except beyond the committed length of a Builder.
//
// Flink: NetworkBuffer and ReadOnlySlicedNetworkBuffer.
type Buffer struct {
	h    *header
	win  uint64 // offset << 32 | length
	meta uint64 // generation << 38 | reference << 16 | data type << 8 | flags
}

// The fields are packed because the compiler keeps structs of up to four fields in registers, and larger ones in
// memory: that costs three times as much as all the rest of taking and releasing.
const (
	offShift = 32
	lenMask  = 1<<offShift - 1
	refShift = 16
	typShift = 8

	flagCompressed = 1 << 0
	flagReadOnly   = 1 << 1
	flagFixed      = 1 << 2 // of a Reader's buffer: there is no builder

	takenMeta = uint64(DataBuffer) << typShift
)

func (b Buffer) ref() refID  { return refID(b.meta >> refShift) }
func (b Buffer) off() uint32 { return uint32(b.win >> offShift) }

// withRef is b with another reference.
func (b Buffer) withRef(r refID) Buffer {
	b.meta = b.meta&^(0xffff<<refShift) | uint64(r)<<refShift
	return b
}

// fresh is the first handle of a life of h: empty, a DataBuffer, reference 0. The word is sole but for its generation,
// so this leaves the generation and puts takenMeta in the place of sole.
func (h *header) fresh() Buffer { return Buffer{h: h, meta: h.word ^ (sole ^ takenMeta)} }

// IsZero tells whether b is no buffer.
func (b Buffer) IsZero() bool { return b.h == nil }

// Bytes returns the window. The slice is valid until b is released, and is not written to unless b is the only reference.
// It is nil for a file-backed buffer (see ReadInto) and for a handle that was released. Its capacity ends with the window.
func (b Buffer) Bytes() []byte {
	if buildtag.Debug {
		return b.checkedBytes()
	}
	h := b.h
	if off, end := b.win>>offShift, b.win>>offShift+b.win&lenMask; h != nil &&
		(atomic.LoadUint64(&h.word)^b.meta)>>genShift == 0 && end <= uint64(len(h.mem)) {
		return h.mem[off:end:end]
	}
	return nil
}

// checkedBytes is Bytes of a debug build.
func (b Buffer) checkedBytes() []byte {
	if b.h == nil || b.h.mem == nil {
		return nil
	}
	if !b.valid() {
		b.h.misuse(useAfterRelease, ErrReleased)
		return nil
	}
	return b.h.mem[b.off():][:b.Len():b.Len()]
}

// Len returns the length of the window in bytes.
func (b Buffer) Len() int { return int(b.win & lenMask) }

// Type returns what the bytes are. A buffer just taken is a DataBuffer.
func (b Buffer) Type() DataType { return DataType(b.meta >> typShift) }

// WithType returns the handle with another data type. Slices and copies made before keep theirs.
func (b Buffer) WithType(t DataType) Buffer {
	b.meta = b.meta&^(0xff<<typShift) | uint64(t)<<typShift
	return b
}

// Compressed tells whether the bytes are a compressed block.
func (b Buffer) Compressed() bool { return b.meta&flagCompressed != 0 }

// WithCompressed returns the handle marked as compressed or not.
func (b Buffer) WithCompressed(c bool) Buffer {
	b.meta &^= flagCompressed
	if c {
		b.meta |= flagCompressed
	}
	return b
}

// ReadOnly tells whether b came from Slice, or is file-backed, so that Memory refuses.
func (b Buffer) ReadOnly() bool { return b.meta&flagReadOnly != 0 }

// Memory returns the whole segment, to be filled by the holder of the only reference; then Resized says how much of it
// counts. It is nil for a read-only or released handle.
func (b Buffer) Memory() []byte {
	if buildtag.Debug {
		return b.checkedMemory()
	}
	h := b.h
	if h != nil && (atomic.LoadUint64(&h.word)^b.meta)>>genShift|b.meta&flagReadOnly == 0 {
		return h.mem
	}
	return nil
}

// checkedMemory is Memory of a debug build.
func (b Buffer) checkedMemory() []byte {
	switch {
	case b.h == nil:
		return nil
	case !b.valid():
		b.h.misuse(useAfterRelease, ErrReleased)
		return nil
	case b.ReadOnly():
		b.h.misuse(writeToReadOnly, ErrReadOnly)
		return nil
	}
	return b.h.mem
}

// Resized returns the handle with the window [0, n) of the segment. An n outside of the segment is a misuse; it is cut
// to what there is.
func (b Buffer) Resized(n int) Buffer {
	if b.h == nil {
		return b
	}
	if size := b.capacity(); uint(n) > uint(size) {
		b.h.misuse(badWindow, ErrRange)
		n = min(max(n, 0), size)
	}
	b.win = uint64(uint32(n))
	return b
}

// Join returns one handle for b and for next, if that is the window right behind b's in the same segment, and true. It passes b's
// reference on and gives up next's. Else it returns b and false, and next is still the caller's.
func (b Buffer) Join(next Buffer) (Buffer, bool) {
	if b.h == nil || b.h != next.h || (b.meta^next.meta)&^(0xffff<<refShift) != 0 || b.off()+uint32(b.Len()) != next.off() || b.Compressed() {
		return b, false
	}
	b.win += uint64(next.Len())
	next.Release()
	return b, true
}

// Narrow returns the handle with the window [off, off+n) of the present window, keeping its reference. A window that does
// not fit is a misuse and leaves b as it is.
func (b Buffer) Narrow(off, n int) Buffer {
	if !b.fits(off, n) {
		return b
	}
	b.win = uint64(b.off()+uint32(off))<<offShift | uint64(uint32(n))
	return b
}

// fits tells whether [off, off+n) lies in the window, and reports a misuse if not. A compressed block can't be cut.
func (b Buffer) fits(off, n int) bool {
	if b.h == nil {
		return off == 0 && n == 0
	}
	ok := off >= 0 && n >= 0 && off <= b.Len() && n <= b.Len()-off
	if b.meta&flagCompressed != 0 {
		ok = off == 0 && n == b.Len()
	}
	if !ok {
		b.h.misuse(badWindow, ErrRange)
	}
	return ok
}

// capacity returns the size of what stands behind the handle.
func (b Buffer) capacity() int {
	if b.h.kind == kindFile {
		return b.Len()
	}
	return len(b.h.mem)
}

// Slice returns a read-only view of the bytes [off, off+n) of the window, with a reference of its own: the segment goes
// home when the view and all other handles are released. A view of a view refers to the segment, not to the first view.
// Type and compressed flag are b's. A compressed buffer can only be sliced whole. A window that does not fit, or a
// handle that was released, is a misuse and gives the zero Buffer.
func (b Buffer) Slice(off, n int) Buffer {
	if !b.fits(off, n) {
		return Buffer{}
	}
	s := b.Retain()
	if s.h == nil {
		return s
	}
	s.win = uint64(s.off()+uint32(off))<<offShift | uint64(uint32(n))
	s.meta |= flagReadOnly
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
	if s := atomic.LoadUint64(&h.word); s == b.meta&genMask|sole && !buildtag.Debug {
		h.word = s + 1 + 1<<idShift // addRef by the sole owner of a fresh buffer, whose identity is 0
		b.meta |= 1 << refShift
		return b
	}
	return b.retain()
}

// retain is Retain with everything else that can happen.
func (b Buffer) retain() Buffer {
	ref, err := b.addRef()
	if err != nil {
		b.h.misuse(misuseOf(err), err)
		return Buffer{}
	}
	return b.withRef(ref)
}

// TryRetain is Retain for callers that want the error: ErrReleased or ErrTooManyRefs. It counts no misuse.
func (b Buffer) TryRetain() (Buffer, error) {
	if b.h == nil {
		return Buffer{}, ErrReleased
	}
	ref, err := b.addRef()
	if err != nil {
		return Buffer{}, err
	}
	return b.withRef(ref), nil
}

// Release gives the handle's reference up; the last one sends the segment home. Any goroutine may call it. The handle, and
// every slice of bytes got from it, must not be used after. A second Release of the same handle is a misuse: it changes
// nothing.
func (b Buffer) Release() {
	h := b.h
	if h == nil {
		return
	}
	last, err := b.dropRef()
	if last {
		h.sendHome()
	} else if err != nil {
		h.misuse(overRelease, err)
	}
}

// ReleaseAll is Release for each of bufs, and forgets them. Those that go home to one pool together do so with one atomic exchange.
func ReleaseAll(bufs []Buffer) {
	var home *LocalPool
	var first, last *header // a list of those that go to home
	for i, b := range bufs {
		bufs[i] = Buffer{}
		h := b.h
		if h == nil {
			continue
		}
		gone, err := b.dropRef()
		switch {
		case err != nil:
			home.giveAll(first, last) // a report may panic
			home, first = nil, nil
			h.misuse(overRelease, err)
		case !gone:
		case h.kind != kindPooled || h.home == nil:
			h.sendHome()
		default:
			if h.home != home {
				home.giveAll(first, last)
				home, first, last = h.home, nil, h
			}
			h.next, first = first, h
		}
	}
	home.giveAll(first, last)
}

// TryRelease is Release for callers that want the error: ErrReleased. It counts no misuse.
func (b Buffer) TryRelease() error {
	if b.h == nil {
		return nil
	}
	last, err := b.dropRef()
	if last {
		b.h.sendHome()
	}
	return err
}

// Released tells whether the segment has gone home since the handle was made. Only the holder of a reference gets an answer
// that stays true.
func (b Buffer) Released() bool { return b.h != nil && !b.live() }

// Refs returns how many references the segment has: a snapshot, exact if it is 1 and b is the one. It is 0 for a
// released handle.
func (b Buffer) Refs() int {
	if b.h == nil || !b.live() {
		return 0
	}
	return b.h.refs()
}

// SetTag stores a number with the segment. It stays there until the segment is home, where LocalConfig.OnReturn gets it.
// Only the holder of the only reference may call it. Take gives segments with tag 0.
func (b Buffer) SetTag(tag uint32) {
	if b.h != nil && b.live() {
		b.h.note = b.h.note&^(1<<noteShift-1) | uint64(tag)
	}
}

// Tag returns the number last stored by SetTag.
func (b Buffer) Tag() uint32 {
	if b.h == nil || !b.live() {
		return 0
	}
	return b.h.tag()
}
