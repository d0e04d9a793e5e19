package serde

import (
	"encoding/binary"

	"github.com/weirflow/weir/segment"
)

// Unconsumed is what a deserializer had taken in but not handed out, as a
// sequence of buffers: what an unaligned checkpoint stores of a channel. It is
// a copy (of a spilled record: a hold on its file), so the deserializer may go
// on, be cleared or closed meanwhile. Next and Close may run on another
// goroutine than the deserializer's, one at a time. The zero value is empty.
type Unconsumed struct {
	first, last []byte // before and after the file's pieces; nil: none
	file        *spillFile
	off, size   int64 // the next byte of the file, and where it ends for us
	piece       int
}

// Unconsumed returns the not yet delivered part of the stream. Its pieces
// together begin at a record's length; fed to a fresh deserializer they lead
// to the same records. The state of the deserializer does not change. A record
// handed out by the last call of Next is not part of it.
//
// The pieces are Flink's (getUnconsumedBuffer): the rest of the buffer; or a
// part of a length; or length, body so far and rest of the buffer in one; of a
// spilled record the length, the file in pieces of at most
// [DeserializerConfig.FileBuffer] bytes, and the rest of the buffer.
//
// The caller closes the iterator, also when it took everything. After an error
// of the deserializer its error is returned.
func (d *Deserializer) Unconsumed() (Unconsumed, error) {
	if d.err != nil {
		return Unconsumed{}, d.err
	}
	s := &d.span
	switch {
	case d.pos < len(d.data):
		return Unconsumed{first: clone(d.data[d.pos:])}, nil
	case s.delivered:
		return Unconsumed{first: clone(d.rest)}, nil
	case s.nhead > 0:
		return Unconsumed{first: clone(s.head[:s.nhead])}, nil
	case s.length < 0:
		return Unconsumed{}, nil
	}
	u := Unconsumed{first: binary.BigEndian.AppendUint32(make([]byte, 0, lengthSize+len(s.body)+len(d.rest)), uint32(s.length))}
	if s.file == nil {
		u.first = append(append(u.first, s.body...), d.rest...)
		return u, nil
	}
	u.file, u.size, u.piece = s.file.retain(), int64(s.have), d.cfg.FileBuffer
	u.last = clone(d.rest)
	return u, nil
}

// clone copies p; the copy of nothing is nil.
func clone(p []byte) []byte { return append([]byte(nil), p...) }

// Next returns the next piece as a data buffer on the heap, which the caller
// releases; false when there is none left.
func (u *Unconsumed) Next() (b segment.Buffer, ok bool, err error) {
	var p []byte
	switch {
	case u.first != nil:
		p, u.first = u.first, nil
	case u.off < u.size:
		p = make([]byte, min(int64(u.piece), u.size-u.off))
		if err := u.file.readAt(p, u.off); err != nil {
			return b, false, err
		}
		u.off += int64(len(p))
	case u.last != nil:
		p, u.last = u.last, nil
	default:
		return b, false, nil
	}
	return segment.Wrap(p, segment.DataBuffer), true, nil
}

// Len returns how many bytes are left, over all pieces.
func (u *Unconsumed) Len() int64 {
	return int64(len(u.first)) + u.size - u.off + int64(len(u.last))
}

// Close gives up what is left. It may be called twice.
func (u *Unconsumed) Close() {
	if u.file != nil {
		u.file.release()
	}
	*u = Unconsumed{}
}

// AppendUnconsumed appends the same bytes to dst, without making pieces.
func (d *Deserializer) AppendUnconsumed(dst []byte) ([]byte, error) {
	u, err := d.Unconsumed()
	if err != nil {
		return dst, err
	}
	defer u.Close()
	dst = append(dst, u.first...)
	if n := int(u.size); n > 0 {
		at := len(dst)
		dst = append(dst, make([]byte, n)...)
		if err := u.file.readAt(dst[at:], 0); err != nil {
			return dst[:at], err
		}
	}
	return append(dst, u.last...), nil
}
