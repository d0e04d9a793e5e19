package inspect

import (
	"bytes"
	"slices"
)

const (
	// maxHeld bounds the bytes of a stream that wait for earlier ones, maxPieces in how many pieces they may be.
	maxHeld   = 4 << 20
	maxPieces = 4096
	// patience is how many more packets of a connection may pass before bytes that the other end has acknowledged count as not
	// captured: packets may be captured a little out of order.
	patience = 32
)

// stream puts one direction of a TCP connection together. The sequence numbers are modulo 2^32, so they are only compared with
// next, from which they are less than 2^31 away.
type stream struct {
	begun    bool // next is valid
	next     uint32
	held     []piece // what lies beyond next, in order of seq
	bytes    int     // in held
	acked    uint32  // the other end has everything before; valid if ackedOK
	ackedOK  bool
	waited   int // packets since bytes that are missing here were acknowledged
	fin      bool
	finSeq   uint32
	consumer consumer
}

// consumer takes a stream: bytes, gaps of n bytes, and how many bytes came that were there before.
type consumer interface {
	bytes(p []byte) error
	gap(n int64) error
	again(n int64) error
}

type piece struct {
	seq  uint32
	data []byte
	cut  int
}

func (p *piece) len() uint32 { return uint32(len(p.data) + p.cut) }

// drop drops n bytes at the front.
func (p *piece) drop(n uint32) {
	p.seq += n
	k := min(int(n), len(p.data))
	p.data = p.data[k:]
	p.cut -= int(n) - k
}

// before tells how far seq lies before next; negative: behind.
func (s *stream) before(seq uint32) int32 { return int32(s.next - seq) }

// add takes a segment's bytes. data is not kept.
func (s *stream) add(p piece) error {
	if p.len() == 0 {
		return nil
	}
	if !s.begun {
		s.begun, s.next = true, p.seq
	}
	if p.len() == 1 && s.before(p.seq) == 1 {
		return nil // keeps the connection alive
	}
	if s.before(p.seq) < 0 {
		return s.hold(p)
	}
	if err := s.deliver(p); err != nil {
		return err
	}
	return s.drain()
}

// deliver hands a piece on that does not lie behind next.
func (s *stream) deliver(p piece) error {
	if old := uint32(s.before(p.seq)); old > 0 {
		old = min(old, p.len())
		p.drop(old)
		if err := s.consumer.again(int64(old)); err != nil {
			return err
		}
	}
	s.next += p.len()
	if len(p.data) > 0 {
		if err := s.consumer.bytes(p.data); err != nil {
			return err
		}
	}
	if p.cut > 0 {
		return s.consumer.gap(int64(p.cut))
	}
	return nil
}

// hold keeps a piece for later.
func (s *stream) hold(p piece) error {
	p.data = bytes.Clone(p.data)
	i, _ := slices.BinarySearchFunc(s.held, p, func(a, b piece) int { return int(s.before(b.seq)) - int(s.before(a.seq)) })
	s.held = slices.Insert(s.held, i, p)
	s.bytes += len(p.data)
	for s.bytes > maxHeld || len(s.held) > maxPieces {
		if err := s.jump(); err != nil {
			return err
		}
	}
	return nil
}

// drain hands on what has become due.
func (s *stream) drain() error {
	for len(s.held) > 0 && s.before(s.held[0].seq) >= 0 {
		p := s.held[0]
		s.held = slices.Delete(s.held, 0, 1)
		s.bytes -= len(p.data)
		if err := s.deliver(p); err != nil {
			return err
		}
	}
	s.waited = 0
	return nil
}

// jump gives up the bytes before the first piece that is held.
func (s *stream) jump() error {
	n := uint32(-s.before(s.held[0].seq))
	s.next += n
	if err := s.consumer.gap(int64(n)); err != nil {
		return err
	}
	return s.drain()
}

// ack takes the other end's acknowledgement.
func (s *stream) ack(n uint32) error {
	if !s.ackedOK || int32(n-s.acked) > 0 {
		s.acked, s.ackedOK = n, true
	}
	if len(s.held) == 0 || s.before(s.acked) >= 0 {
		return nil
	}
	if s.waited++; s.waited > patience {
		return s.jump()
	}
	return nil
}

// ended reports whether everything up to the end of the stream was handed on.
func (s *stream) ended() bool { return s.fin && s.begun && s.before(s.finSeq) >= 0 }

// finish hands on what is held at the end of the capture.
func (s *stream) finish() error {
	for len(s.held) > 0 {
		if err := s.jump(); err != nil {
			return err
		}
	}
	end := s.acked
	if s.fin {
		end = s.finSeq
	}
	if n := -s.before(end); s.begun && (s.fin || s.ackedOK) && n > 1 { // 1 may be the end itself
		s.next = end
		return s.consumer.gap(int64(n))
	}
	return nil
}
