package framing

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// Kind says how an input is cut.
type Kind uint8

// The kinds of framing.
const (
	// Lines ends a record behind each line feed. What follows the last one is a record, too.
	Lines Kind = iota
	// NDJSON is Lines whose records are JSON values.
	NDJSON
	// CSV ends a record behind each line feed that is not between double quotes.
	CSV
	// Length expects a big-endian uint32 before the bytes it counts. The record holds both.
	Length
	// Raw cuts blocks of BlockSize bytes, the last one shorter.
	Raw
)

// BlockSize is the size of Raw's records in bytes.
const BlockSize = 32 << 10

var names = [...]string{"lines", "ndjson", "csv", "length", "raw"}

// String is the name that Parse takes.
func (k Kind) String() string {
	if int(k) < len(names) {
		return names[k]
	}
	return fmt.Sprintf("framing(%d)", uint8(k))
}

// Parse finds the kind with that name.
func Parse(name string) (Kind, error) {
	for i, n := range names {
		if n == name {
			return Kind(i), nil
		}
	}
	return 0, fmt.Errorf("unknown framing %q: want one of lines, ndjson, csv, length, raw", name)
}

// ErrTooLarge is in the error for a record above the limit.
var ErrTooLarge = errors.New("record larger than the limit")

// Scanner reads records from an input. It is for one goroutine.
type Scanner struct {
	r      io.Reader
	kind   Kind
	limit  int
	buf    []byte
	lo, hi int  // the unread bytes are buf[lo:hi]
	seen   int  // bytes behind lo already searched for the end of the record
	quoted bool // CSV: buf[lo+seen] is between quotes
	eof    bool
	offset int64 // of buf[lo] in the input
}

// NewScanner reads records of at most limit bytes from r.
func NewScanner(r io.Reader, kind Kind, limit int) *Scanner {
	return &Scanner{r: r, kind: kind, limit: limit, buf: make([]byte, 256<<10)}
}

// Reset starts anew with another input and keeps the buffer.
func (s *Scanner) Reset(r io.Reader) {
	*s = Scanner{r: r, kind: s.kind, limit: s.limit, buf: s.buf}
}

// Offset is the position in the input of the record that Next returns next.
func (s *Scanner) Offset() int64 { return s.offset }

// Next returns the next record, a view that is valid until the following call, or io.EOF behind the last one. The record
// that is cut off by the end of a Length input is io.ErrUnexpectedEOF.
func (s *Scanner) Next() ([]byte, error) {
	s.seen, s.quoted = 0, false
	for {
		n, err := s.end()
		if err != nil {
			return nil, err
		}
		if n > s.limit || n == 0 && s.hi-s.lo > s.limit {
			return nil, fmt.Errorf("record at byte %d of the input: %w of %d bytes", s.offset, ErrTooLarge, s.limit)
		}
		if n > 0 {
			rec := s.buf[s.lo : s.lo+n]
			s.lo += n
			s.offset += int64(n)
			return rec, nil
		}
		if s.eof {
			return nil, io.EOF
		}
		if err := s.fill(); err != nil {
			return nil, err
		}
	}
}

// end returns the length of the record at lo, or 0 when more bytes are needed or none are left.
func (s *Scanner) end() (int, error) {
	p := s.buf[s.lo:s.hi]
	if len(p) == 0 {
		return 0, nil
	}
	switch s.kind {
	case Length:
		if len(p) >= 4 {
			n := int64(binary.BigEndian.Uint32(p)) + 4
			if n > int64(s.limit) {
				return s.limit + 1, nil // Next says so; nothing is allocated for it
			}
			if int64(len(p)) >= n {
				return int(n), nil
			}
		}
		if s.eof {
			return 0, fmt.Errorf("record at byte %d of the input: %w", s.offset, io.ErrUnexpectedEOF)
		}
		return 0, nil
	case Raw:
		if len(p) >= BlockSize {
			return BlockSize, nil
		}
	case CSV:
		for ; s.seen < len(p); s.seen++ {
			switch p[s.seen] {
			case '"':
				s.quoted = !s.quoted
			case '\n':
				if !s.quoted {
					return s.seen + 1, nil
				}
			}
		}
	default:
		if i := bytes.IndexByte(p[s.seen:], '\n'); i >= 0 {
			return s.seen + i + 1, nil
		}
		s.seen = len(p)
	}
	if s.eof {
		return len(p), nil
	}
	return 0, nil
}

// fill reads more bytes behind hi, with the unread ones moved to the front and the buffer grown if it is full.
func (s *Scanner) fill() error {
	if s.lo > 0 {
		s.hi = copy(s.buf, s.buf[s.lo:s.hi])
		s.lo = 0
	}
	if s.hi == len(s.buf) {
		grown := make([]byte, 2*len(s.buf))
		copy(grown, s.buf)
		s.buf = grown
	}
	for range 100 {
		n, err := s.r.Read(s.buf[s.hi:])
		s.hi += n
		if err == io.EOF {
			s.eof = true
			return nil
		}
		if err != nil || n > 0 {
			return err
		}
	}
	return io.ErrNoProgress
}
