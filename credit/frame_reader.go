package credit

import (
	"encoding/binary"
	"fmt"
)

// maxKeptBody is the most memory for bodies that a decoder keeps between frames.
const maxKeptBody = 64 << 10

// frameReader cuts a stream into frames: the part that both decoders share. It accumulates a header or a body only if
// it comes in pieces. Memory for a body grows with the bytes that arrived, never with the length that was claimed.
type frameReader struct {
	err    error
	offset int64 // of the current frame in the stream
	id     MessageID
	header bool // the frame header is complete
	body   int  // length of the body
	hn     int  // bytes of the frame header in hbuf
	hbuf   [FrameHeaderLen]byte
	acc    []byte // body so far, if it comes in pieces
}

// next takes the next piece of a frame out of p. done: body holds the whole body (valid until frameDone). check is
// called once a frame, with the id and the length of the body.
func (r *frameReader) next(p []byte, check func(MessageID, int) error) (body, rest []byte, done bool, err error) {
	if !r.header {
		p, err = r.readHeader(p)
		if err != nil || !r.header {
			return nil, nil, false, err
		}
		if err = check(r.id, r.body); err != nil {
			return nil, nil, false, err
		}
	}
	if len(r.acc) == 0 && len(p) >= r.body {
		return p[:r.body], p[r.body:], true, nil
	}
	n := min(len(p), r.body-len(r.acc))
	r.acc = append(r.acc, p[:n]...)
	return r.acc, p[n:], len(r.acc) == r.body, nil
}

// readHeader takes bytes of the frame header out of p; r.header tells when it is complete.
func (r *frameReader) readHeader(p []byte) (rest []byte, err error) {
	h := p
	if r.hn > 0 || len(p) < FrameHeaderLen {
		n := copy(r.hbuf[r.hn:], p)
		r.hn += n
		p = p[n:]
		if r.hn < FrameHeaderLen {
			return nil, nil
		}
		h = r.hbuf[:]
	} else {
		p = p[FrameHeaderLen:]
	}
	length := binary.BigEndian.Uint32(h)
	if magic := binary.BigEndian.Uint32(h[4:]); magic != Magic {
		return nil, r.fail(ErrBadMagic, fmt.Sprintf("%08x instead of %08x", magic, Magic))
	}
	r.id, r.header = MessageID(h[8]), true
	if length < FrameHeaderLen || length > 1<<31-1 {
		return nil, r.fail(ErrFrameLength, fmt.Sprintf("%d", length))
	}
	r.body = int(length) - FrameHeaderLen
	return p, nil
}

// frameDone makes the reader ready for the next frame.
func (r *frameReader) frameDone() {
	r.offset += int64(FrameHeaderLen + r.body)
	r.header, r.hn, r.body = false, 0, 0
	r.acc = r.acc[:0]
	if cap(r.acc) > maxKeptBody {
		r.acc = nil
	}
}

// fail makes an error that names the current frame.
func (r *frameReader) fail(err error, detail string) error {
	return &FrameError{Offset: r.offset, Message: r.id, HasMessage: r.header, Detail: detail, Err: err}
}

// Offset is the number of bytes of all complete frames so far.
func (r *frameReader) Offset() int64 { return r.offset }

// Partial is the number of bytes of the current frame so far, without the pieces of it that were handed on.
func (r *frameReader) Partial() int { return max(r.hn, len(r.acc)) }

// InFrame reports whether the stream stands in the middle of a frame: an end of stream now is not an orderly one.
func (r *frameReader) InFrame() bool { return r.header || r.hn > 0 }
