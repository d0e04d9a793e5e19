package serde

import (
	"encoding/binary"
	"fmt"

	"github.com/valyala/bytebufferpool"
)

const (
	// firstScratch is the size at which a deserializer's own array starts.
	firstScratch = 1 << 10
	// keptScratch bounds the array that a deserializer keeps: records of about
	// a segment are gathered without allocating, while 10 000 idle channels do
	// not hold megabytes each. Longer ones are gathered in pooled memory.
	keptScratch = 32 << 10
)

// spanning gathers the record that does not lie inside one buffer (Flink:
// SpanningWrapper). It is in one of these states:
//
//	idle       length == -1, nhead == 0
//	in length  nhead 1..3: a part of the length is there
//	in body    length >= 0, have < length
//	full       length >= 0, have == length: to be handed out
//	delivered  as full, and the caller looks at pooled or mapped memory that
//	           goes back in retire
type spanning struct {
	cfg *DeserializerConfig

	head      [lengthSize]byte
	nhead     int
	length    int
	have      int
	delivered bool

	body    []byte // the bytes so far, in memory; unused when file is set
	scratch []byte // the reused array, at most keptScratch; body is in it while it fits
	pooled  *bytebufferpool.ByteBuffer
	file    *spillFile
	mapped  spillView // the file's content, once it is full

	dirs spillDirs
}

func (s *spanning) init(cfg *DeserializerConfig) {
	s.cfg = cfg
	s.length = -1
	s.dirs.init(cfg)
}

// active reports whether the next buffer continues a record.
func (s *spanning) active() bool { return s.length >= 0 || s.nhead > 0 }

func (s *spanning) full() bool { return s.length >= 0 && s.have == s.length }

// startLength keeps the first bytes of a length, fewer than 4, maybe none.
func (s *spanning) startLength(p []byte) {
	s.nhead = copy(s.head[:], p)
}

// start begins a record of n bytes with the first ones.
func (s *spanning) start(n int, p []byte) error {
	if err := s.setLength(n); err != nil {
		return err
	}
	return s.append(p)
}

func (s *spanning) setLength(n int) error {
	if n > s.cfg.SpillThreshold {
		if s.cfg.NoSpill {
			return fmt.Errorf("%w: %d bytes need a file, which is switched off (threshold %d)", ErrTooLarge, n, s.cfg.SpillThreshold)
		}
		f, err := s.dirs.create()
		if err != nil {
			return err
		}
		s.file = f
	}
	s.nhead = 0
	s.length = n
	s.have = 0
	s.body = s.scratch[:0]
	return nil
}

// add takes what p has of the record that was begun, and returns the rest.
func (s *spanning) add(p []byte) (rest []byte, err error) {
	if s.nhead > 0 {
		k := copy(s.head[s.nhead:], p)
		s.nhead += k
		p = p[k:]
		if s.nhead < lengthSize {
			return nil, nil
		}
		length := binary.BigEndian.Uint32(s.head[:])
		if err := s.cfg.checkLength(length); err != nil {
			return nil, err
		}
		if err := s.setLength(int(length)); err != nil {
			return nil, err
		}
	}
	k := min(s.length-s.have, len(p))
	if err := s.append(p[:k]); err != nil {
		return nil, err
	}
	return p[k:], nil
}

// append adds bytes of the body; there are never more than the record has.
func (s *spanning) append(p []byte) error {
	if s.file != nil {
		if len(p) == 0 {
			return nil
		}
		if err := s.file.write(p); err != nil {
			return err
		}
		s.have += len(p)
		return nil
	}
	n := len(s.body)
	if need := n + len(p); need > cap(s.body) {
		s.grow(need)
	}
	s.body = s.body[:n+len(p)]
	copy(s.body[n:], p)
	s.have += len(p)
	return nil
}

// grow makes room for need bytes. It follows the bytes that have arrived, not
// the length that was announced: a hostile length alone costs no memory.
func (s *spanning) grow(need int) {
	size := max(need, 2*cap(s.body), firstScratch)
	if size > keptScratch {
		size = max(need, min(size, s.length))
	}
	if size <= keptScratch {
		b := make([]byte, len(s.body), size)
		copy(b, s.body)
		s.body, s.scratch = b, b[:0]
		return
	}
	if s.pooled == nil {
		s.pooled = bytebufferpool.Get()
	}
	if cap(s.pooled.B) < size {
		b := make([]byte, len(s.body), size)
		copy(b, s.body)
		s.pooled.B = b
	} else {
		s.pooled.B = append(s.pooled.B[:0], s.body...)
	}
	s.body = s.pooled.B
}

// record hands out the full record. It is valid until retire.
func (s *spanning) record() ([]byte, error) {
	if s.file == nil {
		rec := s.body[:s.length:s.length]
		if rec == nil {
			rec = s.head[:0:0] // length 0, nothing was ever gathered
		}
		if s.pooled != nil {
			s.delivered = true
			return rec, nil
		}
		s.length, s.have = -1, 0
		return rec, nil
	}
	v, err := s.file.view(s.length)
	if err != nil {
		return nil, err
	}
	s.mapped = v
	s.delivered = true
	return v.bytes(), nil
}

// retire gives back what a delivered record needed. It does nothing else.
func (s *spanning) retire() {
	if s.delivered {
		s.reset()
	}
}

// reset drops the record and everything that it needed, except for the reused array.
func (s *spanning) reset() {
	s.mapped.close()
	if s.file != nil {
		s.file.release()
		s.file = nil
	}
	if s.pooled != nil {
		bytebufferpool.Put(s.pooled)
		s.pooled = nil
	}
	s.body = nil
	s.nhead, s.length, s.have = 0, -1, 0
	s.delivered = false
}
