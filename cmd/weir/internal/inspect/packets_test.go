package inspect

import (
	"encoding/binary"
	"net/netip"
	"os"
	"testing"
	"time"
)

// wire writes packets of one connection as a capture would have them.
type wire struct {
	link    uint32
	six     bool
	client  netip.AddrPort
	server  netip.AddrPort
	seq     [2]uint32 // next of who sends in a direction
	now     time.Time
	step    time.Duration
	packets []stamped
	snap    int
}

type stamped struct {
	at     time.Time
	data   []byte
	length int
}

func newWire(link uint32, six bool) *wire {
	w := &wire{link: link, six: six, seq: [2]uint32{0xffffff00, 5}, // the client's numbers wrap around soon
		now: time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC), step: time.Millisecond}
	host := "10.0.0."
	if six {
		host = "fd00::"
	}
	w.client = netip.AddrPortFrom(netip.MustParseAddr(host+"1"), 40000)
	w.server = netip.AddrPortFrom(netip.MustParseAddr(host+"2"), 6121)
	return w
}

func (w *wire) handshake() {
	w.seq[ToServer]--
	w.seq[ToClient]--
	w.raw(ToServer, w.seq[ToServer], tcpSYN, nil)
	w.seq[ToServer]++
	w.raw(ToClient, w.seq[ToClient], tcpSYN|tcpACK, nil)
	w.seq[ToClient]++
	w.raw(ToServer, w.seq[ToServer], tcpACK, nil)
}

func (w *wire) fin() {
	for _, d := range []Dir{ToServer, ToClient} {
		w.raw(d, w.seq[d], tcpFIN|tcpACK, nil)
		w.seq[d]++
	}
	w.raw(ToServer, w.seq[ToServer], tcpACK, nil)
}

// send sends bytes in segments of at most n.
func (w *wire) send(dir Dir, p []byte, n int) {
	for len(p) > 0 {
		k := min(n, len(p))
		w.raw(dir, w.seq[dir], tcpACK, p[:k])
		w.seq[dir] += uint32(k)
		p = p[k:]
	}
}

// raw puts down one segment, acknowledging all that the other end sent.
func (w *wire) raw(dir Dir, seq uint32, flags byte, p []byte) {
	src, dst := w.client, w.server
	if dir == ToClient {
		src, dst = dst, src
	}
	be := binary.BigEndian
	var b []byte
	switch w.link {
	case linkEthernet:
		b = append(b, make([]byte, 12)...)
		b = be.AppendUint16(b, 0x8100) // a virtual LAN
		b = be.AppendUint16(b, 7)
	case linkNull:
		b = binary.LittleEndian.AppendUint32(b, 2)
	case linkCooked:
		b = append(b, make([]byte, 14)...)
	}
	ether := uint16(etherIPv4)
	if w.six {
		ether = etherIPv6
	}
	switch w.link {
	case linkEthernet, linkCooked:
		b = be.AppendUint16(b, ether)
	case linkCooked2:
		b = append(be.AppendUint16(b, ether), make([]byte, 18)...)
	}
	if w.six {
		b = append(b, 0x60, 0, 0, 0)
		b = be.AppendUint16(b, uint16(8+20+len(p)))
		b = append(b, 60, 64) // destination options come first
		s, d := src.Addr().As16(), dst.Addr().As16()
		b = append(append(b, s[:]...), d[:]...)
		b = append(b, 6, 0, 1, 4, 0, 0, 0, 0)
	} else {
		b = append(b, 0x45, 0)
		b = be.AppendUint16(b, uint16(20+20+len(p)))
		b = append(b, 0, 0, 0x40, 0, 64, 6, 0, 0) // may not be cut in fragments
		s, d := src.Addr().As4(), dst.Addr().As4()
		b = append(append(b, s[:]...), d[:]...)
	}
	b = be.AppendUint16(be.AppendUint16(b, src.Port()), dst.Port())
	b = be.AppendUint32(b, seq)
	b = be.AppendUint32(b, w.seq[1-dir])
	b = append(b, 5<<4, flags, 0, 0, 0, 0, 0, 0)
	b = append(b, p...)
	if len(p) == 0 && w.link == linkEthernet {
		b = append(b, make([]byte, 6)...) // padded to the least length
	}
	s := stamped{at: w.now, data: b, length: len(b)}
	if w.snap > 0 {
		s.data = b[:min(len(b), w.snap)]
	}
	w.now = w.now.Add(w.step)
	w.packets = append(w.packets, s)
}

// pcap writes the classic format.
func pcap(link uint32, order binary.AppendByteOrder, nanos bool, packets []stamped) []byte {
	m, unit := uint32(magicMicros), time.Microsecond
	if nanos {
		m, unit = magicNanos, time.Nanosecond
	}
	b := order.AppendUint32(nil, m)
	b = order.AppendUint16(order.AppendUint16(b, 2), 4)
	b = order.AppendUint32(append(b, make([]byte, 8)...), 1<<18)
	b = order.AppendUint32(b, link)
	for _, p := range packets {
		b = order.AppendUint32(b, uint32(p.at.Unix()))
		b = order.AppendUint32(b, uint32(p.at.Nanosecond()/int(unit)))
		b = order.AppendUint32(b, uint32(len(p.data)))
		b = append(order.AppendUint32(b, uint32(p.length)), p.data...)
	}
	return b
}

// block writes a block of pcapng.
func block(b []byte, order binary.AppendByteOrder, typ uint32, body []byte) []byte {
	for len(body)%4 != 0 {
		body = append(body, 0)
	}
	n := uint32(12 + len(body))
	b = order.AppendUint32(order.AppendUint32(b, typ), n)
	return order.AppendUint32(append(b, body...), n)
}

// pcapng writes the newer format: times in units of 2^-30 s since an hour later, with blocks in between that hold no packets.
func pcapng(link uint32, order binary.AppendByteOrder, packets []stamped) []byte {
	head := order.AppendUint32(nil, ngByteOrder)
	head = append(order.AppendUint16(order.AppendUint16(head, 1), 0), 255, 255, 255, 255, 255, 255, 255, 255)
	b := block(nil, order, magicNG, head)
	face := order.AppendUint16(nil, uint16(link))
	face = order.AppendUint32(append(face, 0, 0), 1<<18)
	face = append(order.AppendUint16(order.AppendUint16(face, 2), 3), 'l', 'o', '0', 0) // a name
	face = append(order.AppendUint16(order.AppendUint16(face, 9), 1), 0x80|30, 0, 0, 0)
	face = order.AppendUint64(order.AppendUint16(order.AppendUint16(face, 14), 8), 3600)
	face = append(face, 0, 0, 0, 0)
	b = block(b, order, ngInterface, face)
	for i, p := range packets {
		if i%10 == 0 {
			b = block(b, order, 5, make([]byte, 12)) // statistics
		}
		units := uint64(p.at.Unix()-3600)<<30 + uint64(p.at.Nanosecond())<<30/1e9
		body := order.AppendUint32(order.AppendUint32(order.AppendUint32(nil, 0), uint32(units>>32)), uint32(units))
		body = append(order.AppendUint32(order.AppendUint32(body, uint32(len(p.data))), uint32(p.length)), p.data...)
		b = block(b, order, ngEnhanced, body)
	}
	return b
}

// play sends a captured session in its pieces.
func (w *wire) play(t testing.TB, f *Files, segment int) {
	t.Helper()
	var streams [2][]byte
	for d, path := range []string{f.ToServer, f.ToClient} {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		streams[d] = b
	}
	for _, c := range f.Chunks {
		w.send(c.Dir, streams[c.Dir][:c.N], segment)
		streams[c.Dir] = streams[c.Dir][c.N:]
	}
	if len(streams[0])+len(streams[1]) > 0 {
		t.Fatal("the pieces are not all of the session")
	}
}

func netipPort(a netip.AddrPort, port uint16) netip.AddrPort {
	return netip.AddrPortFrom(a.Addr(), port)
}
