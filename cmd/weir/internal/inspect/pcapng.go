package inspect

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"time"
)

// ng reads pcapng. Blocks that hold no packets are skipped.
type ng struct {
	*input
	links   []ngLink // of the section
	pending bool     // the type of a section header was read already
}

// ngLink is an interface of a section.
type ngLink struct {
	link, snap uint32
	resolution byte // of times: 10^-n s, or 2^-n s with the highest bit set
	offset     int64
}

// Types of blocks.
const (
	ngInterface = 1
	ngPacket    = 2
	ngSimple    = 3
	ngEnhanced  = 6
)

const ngByteOrder = 0x1a2b3c4d

var (
	errBlock     = errors.New("block too short for what it holds")
	errNoLink    = errors.New("packet of an interface that was not described")
	errBlockSize = errors.New("impossible length of block")
)

func (r *ng) next() (packet, error) {
	for {
		at := r.off
		if r.pending {
			at -= 4
		}
		typ, body, err := r.block()
		if err == io.EOF {
			return packet{}, err
		}
		var p packet
		ok := false
		if err == nil {
			p, ok, err = r.use(typ, body)
		}
		if err != nil {
			return packet{}, fmt.Errorf("pcapng: block at byte %d: %w", at, noEOF(err))
		}
		if ok {
			return p, nil
		}
	}
}

// block reads a block. io.EOF: there is none.
func (r *ng) block() (typ uint32, body []byte, err error) {
	head := []byte{0x0a, 0x0d, 0x0d, 0x0a}
	if !r.pending {
		if head, err = r.take(4); err != nil {
			return 0, nil, err
		}
	}
	r.pending = false
	typ = r.order.Uint32(head) // a section header's reads the same in both orders
	if typ == magicNG {
		return typ, nil, r.section()
	}
	h, err := r.take(4)
	if err != nil {
		return 0, nil, noEOF(err)
	}
	n := r.order.Uint32(h)
	if n < 12 || n%4 != 0 || n > maxPacket+64 {
		return 0, nil, fmt.Errorf("%w: %d", errBlockSize, n)
	}
	body, err = r.take(int(n) - 8)
	if err != nil {
		return 0, nil, noEOF(err)
	}
	end := len(body) - 4
	if again := r.order.Uint32(body[end:]); again != n {
		return 0, nil, fmt.Errorf("%w: %d at its begin, %d at its end", errBlockSize, n, again)
	}
	return typ, body[:end], nil
}

// section reads a section header from behind its type: it sets the byte order and forgets the interfaces.
func (r *ng) section() error {
	h, err := r.take(8)
	if err != nil {
		return noEOF(err)
	}
	switch {
	case binary.BigEndian.Uint32(h[4:]) == ngByteOrder:
		r.order = binary.BigEndian
	case binary.LittleEndian.Uint32(h[4:]) == ngByteOrder:
		r.order = binary.LittleEndian
	default:
		return fmt.Errorf("byte order %08x", h[4:])
	}
	n := r.order.Uint32(h)
	if n < 28 || n%4 != 0 || n > maxPacket {
		return fmt.Errorf("%w: %d", errBlockSize, n)
	}
	rest, err := r.take(int(n) - 12)
	if err != nil {
		return noEOF(err)
	}
	if v := r.order.Uint16(rest); v != 1 {
		return fmt.Errorf("version %d, want 1", v)
	}
	r.links = r.links[:0]
	return nil
}

// use takes in a block; ok: it is a packet.
func (r *ng) use(typ uint32, b []byte) (p packet, ok bool, err error) {
	switch typ {
	case ngInterface:
		return p, false, r.describe(b)
	case ngEnhanced, ngPacket:
		if len(b) < 20 {
			return p, false, errBlock
		}
		i := r.order.Uint32(b)
		if typ == ngPacket {
			i = uint32(r.order.Uint16(b))
		}
		if int64(i) >= int64(len(r.links)) {
			return p, false, errNoLink
		}
		n, length := r.order.Uint32(b[12:]), r.order.Uint32(b[16:])
		if int64(n) > int64(len(b)-20) {
			return p, false, errBlock
		}
		l := r.links[i]
		t := l.when(uint64(r.order.Uint32(b[4:]))<<32 | uint64(r.order.Uint32(b[8:])))
		return packet{time: t, link: l.link, data: b[20 : 20+n], length: clampLength(length, int(n))}, true, nil
	case ngSimple:
		switch {
		case len(b) < 4:
			return p, false, errBlock
		case len(r.links) == 0:
			return p, false, errNoLink
		}
		l, length := r.links[0], r.order.Uint32(b)
		n := min(uint64(len(b)-4), uint64(length))
		if l.snap > 0 {
			n = min(n, uint64(l.snap))
		}
		return packet{link: l.link, data: b[4 : 4+n], length: clampLength(length, int(n))}, true, nil
	}
	return p, false, nil
}

// describe reads the description of an interface.
func (r *ng) describe(b []byte) error {
	if len(b) < 8 {
		return errBlock
	}
	l := ngLink{link: uint32(r.order.Uint16(b)), snap: r.order.Uint32(b[4:]), resolution: 6}
	for b = b[8:]; len(b) >= 4; {
		code, n := r.order.Uint16(b), int(r.order.Uint16(b[2:]))
		b = b[4:]
		if code == 0 {
			break
		}
		if n > len(b) {
			return errBlock
		}
		switch {
		case code == 9 && n == 1: // if_tsresol
			l.resolution = b[0]
		case code == 14 && n == 8: // if_tsoffset
			l.offset = int64(r.order.Uint64(b))
		}
		b = b[min((n+3)&^3, len(b)):]
	}
	if n := l.resolution &^ 0x80; l.resolution < 0x80 && n > 19 || n > 63 {
		return fmt.Errorf("times in units of %#x", l.resolution)
	}
	r.links = append(r.links, l)
	return nil
}

// when makes a time of a count of units.
func (l ngLink) when(units uint64) time.Time {
	perSecond := uint64(1)
	if l.resolution >= 0x80 {
		perSecond <<= l.resolution &^ 0x80
	} else {
		for range l.resolution {
			perSecond *= 10
		}
	}
	hi, lo := bits.Mul64(units%perSecond, 1e9)
	nanos, _ := bits.Div64(hi, lo, perSecond)
	return time.Unix(int64(units/perSecond)+l.offset, int64(nanos))
}
