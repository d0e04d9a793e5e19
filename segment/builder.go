package segment

import (
	"math"
)

// The marker is one 32-bit word that the builder stores and readers load (Flink: BufferBuilder.PositionMarker):
//
//	p ≥ 0            p bytes are committed, and more may come
//	p < 0            finished with -p bytes
//	math.MinInt32    finished with 0 bytes
//
// Bytes are written before the store that covers them. A reader that loads a marker sees all bytes below it.
const finishedEmpty = math.MinInt32

func markFinished(n int32) int32 {
	if n == 0 {
		return finishedEmpty
	}
	return -n
}

func markLen(m int32) int32 {
	switch {
	case m >= 0:
		return m
	case m == finishedEmpty:
		return 0
	}
	return -m
}

// Builder fills a buffer while its Reader already passes on what is committed. It belongs to one goroutine, is a value
// that must not be copied once used, and allocates nothing. It holds one reference, given up by Close.
//
// Life: MakeBuilder, NewReader (handed to whoever sends), Append and Commit as often as needed, Finish, Close. A
// builder closed without Finish leaves its reader waiting for ever, which is right only if the task has failed.
//
// Flink: BufferBuilder.
type Builder struct {
	b      Buffer
	mem    []byte // up to the limit, the whole segment beyond it; once done, only what was written
	n      int    // written, committed or not
	limit  int32  // SetCap
	done   bool
	reader bool
}

// MakeBuilder starts to fill b from its first byte and takes b's reference over. b must be the only reference. From the
// zero Buffer, or one that may not be written, comes a builder that is full and finished.
func MakeBuilder(b Buffer) Builder {
	mem := b.Memory()
	if mem == nil {
		return Builder{b: b, done: true, reader: true}
	}
	if b.h.marker.Load() != 0 {
		b.h.marker.Store(0)
	}
	limit := min(len(mem), math.MaxInt32)
	return Builder{b: b, mem: mem[:limit], limit: int32(limit)}
}

// Append copies as much of p as there is room for and returns how much. It is not visible before Commit. After Finish it
// takes nothing.
func (w *Builder) Append(p []byte) int {
	if w.done {
		return w.late()
	}
	n := copy(w.mem[w.n:], p)
	w.n += n
	return n
}

// late is a use after Finish.
func (w *Builder) late() int {
	if w.b.h != nil {
		w.b.h.misuse(builderMisuse, ErrFinished)
	}
	return 0
}

// Spare returns the room that is left, to be filled in place and then taken by Advance; none after Finish. It is valid until
// the next call.
func (w *Builder) Spare() []byte { return w.mem[w.n:len(w.mem):len(w.mem)] }

// Advance counts the first n bytes of Spare as written. n beyond the room is a misuse and is cut.
func (w *Builder) Advance(n int) {
	if uint(n) > uint(len(w.mem)-w.n) {
		n = w.cutAdvance(n)
	}
	w.n += n
}

// cutAdvance is the cold end of Advance, so that it can be inlined.
func (w *Builder) cutAdvance(n int) int {
	if w.done {
		return w.late()
	}
	w.b.h.misuse(badWindow, ErrRange)
	return min(max(n, 0), len(w.mem)-w.n)
}

// Commit lets the reader see everything written so far.
func (w *Builder) Commit() {
	if !w.done {
		w.b.h.marker.Store(int32(w.n))
	}
}

// Publish is Advance and Commit in one, for the hot path: it counts the first n bytes of Spare as written and lets the reader
// see everything so far. n beyond the room is a misuse, and publishes what there is room for.
func (w *Builder) Publish(n int) {
	if w.done || uint(n) > uint(len(w.mem)-w.n) {
		w.publishSlow(n)
		return
	}
	w.n += n
	w.b.h.marker.Store(int32(w.n))
}

func (w *Builder) publishSlow(n int) {
	w.Advance(n)
	w.Commit()
}

// Finish commits and says that nothing more will come. It returns the length in bytes, and may be called again.
func (w *Builder) Finish() int {
	if !w.done {
		w.done = true
		w.mem = w.mem[:w.n]
		w.b.h.marker.Store(markFinished(int32(w.n)))
	}
	return w.n
}

// Finished tells whether Finish was called.
func (w *Builder) Finished() bool { return w.done }

// Full tells whether there is no more room.
func (w *Builder) Full() bool { return w.n >= int(w.limit) }

// Cap returns how many bytes the builder takes in all.
func (w *Builder) Cap() int { return int(w.limit) }

// SetCap sets how many bytes the builder takes in all (buffer debloating): not below what is written, not above the
// segment's size (BufferBuilder#trim).
func (w *Builder) SetCap(n int) {
	limit := min(max(n, w.n), cap(w.mem), math.MaxInt32)
	w.limit = int32(limit)
	if !w.done {
		w.mem = w.mem[:limit]
	}
}

// Written returns how many bytes were written, committed or not.
func (w *Builder) Written() int { return w.n }

// SetType sets the data type; to be called before NewReader.
func (w *Builder) SetType(t DataType) { w.b = w.b.WithType(t) }

// Type returns the data type.
func (w *Builder) Type() DataType { return w.b.Type() }

// NewReader returns the builder's only reader, which starts at the first byte and has a reference of its own. Further ones
// come from Reader.Copy. A second call is a misuse and returns a reader without a buffer.
func (w *Builder) NewReader() Reader { return w.newReader(0) }

// NewReaderHere is NewReader starting behind what is committed (BufferBuilder#createBufferConsumer).
func (w *Builder) NewReaderHere() Reader {
	if w.b.h == nil {
		return Reader{}
	}
	return w.newReader(markLen(w.b.h.marker.Load()))
}

func (w *Builder) newReader(at int32) Reader {
	if w.reader {
		if w.b.h != nil {
			w.b.h.misuse(builderMisuse, ErrFinished)
		}
		return Reader{}
	}
	w.reader = true
	b := w.b.Retain()
	if b.h == nil {
		return Reader{}
	}
	return Reader{b: b, pos: at, seen: b.h.marker.Load()}
}

// Close gives the builder's reference up. It may be called again.
func (w *Builder) Close() {
	b := w.b
	w.b, w.mem, w.done, w.reader = Buffer{}, w.mem[:w.n], true, true
	b.Release()
}

// Reader follows a Builder and hands out what is committed. Each Reader belongs to one goroutine at a time and holds one
// reference, given up by Close. It is a value that is passed on rather than copied; Copy makes another. It allocates
// nothing. The zero Reader is finished and has no bytes.
//
// Flink: BufferConsumer.
type Reader struct {
	b    Buffer
	pos  int32
	seen int32 // the marker as last loaded
}

// ReadAll returns a reader of all of b, finished from the start, and takes b's reference over. (In Flink an empty one is
// not finished; here it is.)
func ReadAll(b Buffer) Reader {
	return Reader{b: b}.fixed()
}

// fixed makes r a reader of a buffer that has no builder: the window is its content.
func (r Reader) fixed() Reader {
	r.seen = markFinished(int32(r.b.Len()))
	r.b.meta |= flagFixed
	return r
}

func (r *Reader) load() int32 {
	if r.b.h == nil {
		return finishedEmpty
	}
	if r.b.meta&flagFixed != 0 {
		return r.seen
	}
	return r.b.h.marker.Load()
}

// Next returns all bytes that were committed since the last call, as a buffer with a reference of its own, and whether
// the builder had finished, so that nothing more will come. With no new bytes it returns the zero Buffer.
func (r *Reader) Next() (b Buffer, finished bool) {
	r.seen = r.load()
	return r.unread(), r.seen < 0
}

// unread returns what is new up to the marker as last loaded.
func (r *Reader) unread() (b Buffer) {
	if n := markLen(r.seen); n > r.pos {
		b = r.window(r.pos, n).Retain()
		r.pos = n
	}
	return b
}

// NextClose is Next, but when the builder has finished it passes the reader's own reference on instead of taking another,
// and closes the reader.
func (r *Reader) NextClose() (b Buffer, finished bool) {
	r.seen = r.load() // once: the builder may finish at any moment, and a reader that reports it is closed
	if r.seen >= 0 {
		return r.unread(), false
	}
	if n := markLen(r.seen); n > r.pos {
		b = r.window(r.pos, n)
		*r = Reader{pos: n, seen: r.seen}
		return b, true
	}
	r.Close()
	return Buffer{}, true
}

// Take returns the next n bytes as a buffer with a reference of its own. They must be fewer than there are; else it is a misuse, and the zero
// Buffer.
func (r *Reader) Take(n int) Buffer {
	if room := int(markLen(r.load()) - r.pos); n <= 0 || n >= room {
		if r.b.h != nil {
			r.b.h.misuse(badWindow, ErrRange)
		}
		return Buffer{}
	}
	b := r.window(r.pos, r.pos+int32(n)).Retain()
	r.pos += int32(n)
	return b
}

// window is the buffer [from, to) of the content, without a reference of its own.
func (r *Reader) window(from, to int32) Buffer {
	b := r.b
	b.win = uint64(b.off()+uint32(from))<<offShift | uint64(uint32(to-from))
	b.meta = b.meta&^flagFixed | flagReadOnly
	return b
}

// Finished tells whether the builder had finished when this reader last looked (Next, Skip, NewReader), as Flink's
// BufferConsumer#isFinished does.
func (r *Reader) Finished() bool { return r.b.h == nil || r.seen < 0 }

// Rest looks how many committed bytes Next would return, and whether nothing follows them because the builder has finished.
func (r *Reader) Rest() (n int, finished bool) {
	m := r.load()
	return int(max(markLen(m)-r.pos, 0)), m < 0 // of a closed one the position stays
}

// DataAvailable looks whether there are committed bytes that Next would return.
func (r *Reader) DataAvailable() bool { return markLen(r.load()) > r.pos }

// Written returns how many bytes had been committed when this reader last looked.
func (r *Reader) Written() int { return int(markLen(r.seen)) }

// Pos returns how many bytes Next has handed out.
func (r *Reader) Pos() int { return int(r.pos) }

// Type returns the data type of the buffers that Next returns.
func (r *Reader) Type() DataType { return r.b.Type() }

// IsStartOfData tells whether the reader stands at the first byte of a DataBuffer.
func (r *Reader) IsStartOfData() bool { return r.b.Type() == DataBuffer && r.pos == 0 }

// IsZero tells whether the reader has no buffer: the zero value, or closed.
func (r *Reader) IsZero() bool { return r.b.h == nil }

// Copy returns another reader at the same position, with a reference of its own.
func (r *Reader) Copy() Reader {
	c := *r
	c.b = r.b.Retain()
	c.seen = c.load()
	return c
}

// CopyAt is Copy at position pos, which may lie before the present one. Beyond what is committed it is a misuse, and gives
// the zero Reader.
func (r *Reader) CopyAt(pos int) Reader {
	r.seen = r.load()
	if pos < 0 || pos > int(markLen(r.seen)) {
		if r.b.h != nil {
			r.b.h.misuse(badWindow, ErrRange)
		}
		return Reader{}
	}
	c := r.Copy()
	c.pos = int32(pos)
	return c
}

// Skip passes over n committed bytes. Beyond what is committed it is a misuse, and passes over what there is.
func (r *Reader) Skip(n int) {
	r.seen = r.load()
	if room := int(markLen(r.seen) - r.pos); uint(n) > uint(room) {
		if r.b.h != nil {
			r.b.h.misuse(badWindow, ErrRange)
		}
		n = min(max(n, 0), room)
	}
	r.pos += int32(n)
}

// Close gives the reader's reference up. It may be called again.
func (r *Reader) Close() {
	b := r.b
	r.b = Buffer{}
	b.Release()
}
