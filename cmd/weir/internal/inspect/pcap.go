package inspect

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"
)

// packet is one captured packet.
type packet struct {
	time time.Time // zero: not known
	link uint32    // type of the link layer (LINKTYPE_...)
	data []byte    // valid until the next packet is read
	// length is how long the packet was; data may be cut.
	length int
}

// packetReader reads the packets of a capture. io.EOF is its orderly end.
type packetReader interface {
	next() (packet, error)
}

// The magic numbers of captures, as their first four bytes give them, big-endian.
const (
	magicMicros        = 0xa1b2c3d4
	magicMicrosSwapped = 0xd4c3b2a1
	magicNanos         = 0xa1b23c4d
	magicNanosSwapped  = 0x4d3cb2a1
	magicNG            = 0x0a0d0d0a
)

// maxPacket bounds a packet or a block of a capture: no link has packets that large.
const maxPacket = 16 << 20

// IsCapture tells whether a file is a capture of packets, by its first bytes. A file that is not there is none.
func IsCapture(path string) (bool, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer f.Close()
	var head [4]byte
	switch _, err := io.ReadFull(f, head[:]); {
	case err == io.EOF || err == io.ErrUnexpectedEOF:
		return false, nil
	case err != nil:
		return false, err
	}
	switch binary.BigEndian.Uint32(head[:]) {
	case magicMicros, magicMicrosSwapped, magicNanos, magicNanosSwapped, magicNG:
		return true, nil
	}
	return false, nil
}

// newPacketReader reads the head of a capture.
func newPacketReader(r io.Reader) (packetReader, error) {
	in := &input{r: r, order: binary.BigEndian}
	head, err := in.take(4)
	if err != nil {
		return nil, fmt.Errorf("capture: no head: %w", err)
	}
	c := &classic{input: in, unit: time.Microsecond}
	switch m := binary.BigEndian.Uint32(head); m {
	case magicNG:
		return &ng{input: in, pending: true}, nil
	case magicMicros:
	case magicMicrosSwapped:
		in.order = binary.LittleEndian
	case magicNanos:
		c.unit = time.Nanosecond
	case magicNanosSwapped:
		in.order, c.unit = binary.LittleEndian, time.Nanosecond
	default:
		return nil, fmt.Errorf("capture: it begins with %08x, neither pcap nor pcapng", m)
	}
	if head, err = in.take(20); err != nil {
		return nil, fmt.Errorf("pcap: head: %w", noEOF(err))
	}
	if v := in.order.Uint16(head); v != 2 {
		return nil, fmt.Errorf("pcap: version %d, want 2", v)
	}
	c.link = in.order.Uint32(head[16:]) & 0xffff // above it: length of a checksum
	return c, nil
}

// input reads pieces of a file and counts.
type input struct {
	r     io.Reader
	order binary.ByteOrder
	off   int64 // bytes taken
	buf   []byte
}

// take returns the next n bytes, valid until the next call. Memory follows the bytes that are there. io.EOF: there are none.
func (in *input) take(n int) ([]byte, error) {
	const step = 64 << 10
	for have := 0; have < n; {
		want := min(n, have+step)
		if cap(in.buf) < want {
			in.buf = append(in.buf[:cap(in.buf)], make([]byte, want-cap(in.buf))...)
		}
		in.buf = in.buf[:cap(in.buf)]
		k, err := io.ReadFull(in.r, in.buf[have:want])
		have += k
		in.off += int64(k)
		if err != nil {
			if have > 0 {
				err = noEOF(err)
			}
			return nil, err
		}
	}
	return in.buf[:n], nil
}

// noEOF makes an end that comes too early an error.
func noEOF(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// classic reads the format of libpcap.
type classic struct {
	*input
	link uint32
	unit time.Duration
}

func (c *classic) next() (packet, error) {
	at := c.off
	fail := func(err error) (packet, error) {
		return packet{}, fmt.Errorf("pcap: packet at byte %d: %w", at, noEOF(err))
	}
	h, err := c.take(16)
	if err == io.EOF {
		return packet{}, err
	}
	if err != nil {
		return fail(err)
	}
	sec, frac := c.order.Uint32(h), c.order.Uint32(h[4:])
	n, length := c.order.Uint32(h[8:]), c.order.Uint32(h[12:])
	if n > maxPacket {
		return fail(fmt.Errorf("%d bytes, more than %d", n, maxPacket))
	}
	data, err := c.take(int(n))
	if err != nil {
		return fail(err)
	}
	return packet{time: time.Unix(int64(sec), int64(frac)*int64(c.unit)), link: c.link, data: data, length: clampLength(length, len(data))}, nil
}

// clampLength keeps a packet's length between what there is of it and what is possible.
func clampLength(length uint32, have int) int { return max(int(min(length, maxPacket)), have) }
