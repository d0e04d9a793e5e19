package inspect

import (
	"encoding/binary"
	"net/netip"
)

// segment is a TCP segment.
type tcpSegment struct {
	src, dst netip.AddrPort
	seq, ack uint32
	flags    byte
	data     []byte
	cut      int // bytes behind data that were not captured
}

const (
	tcpFIN = 1
	tcpSYN = 2
	tcpRST = 4
	tcpACK = 16
)

// skip says why a packet has no segment that can be read.
type skip uint8

const (
	skipNone     skip = iota
	skipLink          // a link layer that is not known
	skipNotTCP        // something else
	skipFragment      // a fragment of an IP packet
	skipCut           // too little of it was captured
	numSkips
)

var skipNames = [numSkips]string{"", "of unknown links", "not TCP", "fragments of IP", "cut too short"}

// Types of links.
const (
	linkNull     = 0
	linkEthernet = 1
	linkRawBSD   = 12
	linkRawOpen  = 14
	linkRaw      = 101
	linkLoop     = 108
	linkCooked   = 113
	linkIPv4     = 228
	linkIPv6     = 229
	linkCooked2  = 276
)

const (
	etherIPv4 = 0x0800
	etherIPv6 = 0x86dd
)

// parse finds the TCP segment in a packet.
func parse(p *packet) (s tcpSegment, why skip) {
	b, beyond := p.data, p.length-len(p.data)
	switch p.link {
	case linkEthernet:
		return parseEther(b, 12, beyond)
	case linkCooked:
		return parseEther(b, 14, beyond)
	case linkCooked2:
		if len(b) < 20 {
			return s, skipCut
		}
		switch binary.BigEndian.Uint16(b) {
		case etherIPv4, etherIPv6:
			return parseIP(b[20:], beyond)
		}
		return s, skipNotTCP
	case linkNull, linkLoop: // the family's number depends on the system, but the packet says what it is
		if len(b) < 4 {
			return s, skipCut
		}
		return parseIP(b[4:], beyond)
	case linkRaw, linkRawBSD, linkRawOpen, linkIPv4, linkIPv6:
		return parseIP(b, beyond)
	}
	return s, skipLink
}

// parseEther reads a packet whose type is at offset at, perhaps behind tags of virtual LANs.
func parseEther(b []byte, at, beyond int) (s tcpSegment, why skip) {
	for range 4 {
		if len(b) < at+2 {
			return s, skipCut
		}
		switch binary.BigEndian.Uint16(b[at:]) {
		case etherIPv4, etherIPv6:
			return parseIP(b[at+2:], beyond)
		case 0x8100, 0x88a8, 0x9100:
			at += 4
		default:
			return s, skipNotTCP
		}
	}
	return s, skipNotTCP
}

// parseIP reads an IP packet; beyond are bytes that were not captured.
func parseIP(b []byte, beyond int) (s tcpSegment, why skip) {
	if len(b) < 1 {
		return s, skipCut
	}
	switch b[0] >> 4 {
	case 4:
		return parseIPv4(b, beyond)
	case 6:
		return parseIPv6(b, beyond)
	}
	return s, skipNotTCP
}

func parseIPv4(b []byte, beyond int) (s tcpSegment, why skip) {
	if len(b) < 20 {
		return s, skipCut
	}
	head, total := int(b[0]&15)*4, int(binary.BigEndian.Uint16(b[2:]))
	if total == 0 { // captured before the network card cut it into segments
		total = len(b) + beyond
	}
	switch {
	case b[9] != 6 || head < 20 || total < head:
		return s, skipNotTCP
	case binary.BigEndian.Uint16(b[6:])&0x3fff != 0:
		return s, skipFragment
	case len(b) < head:
		return s, skipCut
	}
	src, dst := netip.AddrFrom4([4]byte(b[12:])), netip.AddrFrom4([4]byte(b[16:]))
	return parseTCP(b[head:], total-head, src, dst)
}

func parseIPv6(b []byte, beyond int) (s tcpSegment, why skip) {
	if len(b) < 40 {
		return s, skipCut
	}
	rest := int(binary.BigEndian.Uint16(b[4:]))
	if rest == 0 { // a jumbogram, or captured before it was cut into segments
		rest = len(b) - 40 + beyond
	}
	src, dst := netip.AddrFrom16([16]byte(b[8:])), netip.AddrFrom16([16]byte(b[24:]))
	next := b[6]
	b = b[40:]
	for range 8 { // extension headers
		n := 0
		switch next {
		case 6:
			return parseTCP(b, rest, src, dst)
		case 44:
			return s, skipFragment
		case 0, 43, 60:
			if len(b) >= 2 {
				n = int(b[1])*8 + 8
			}
		case 51:
			if len(b) >= 2 {
				n = int(b[1])*4 + 8
			}
		default:
			return s, skipNotTCP
		}
		if n == 0 || len(b) < n || rest < n {
			return s, skipCut
		}
		next, b, rest = b[0], b[n:], rest-n
	}
	return s, skipNotTCP
}

// parseTCP reads a segment of n bytes, of which b has the first, and perhaps padding behind them.
func parseTCP(b []byte, n int, src, dst netip.Addr) (s tcpSegment, why skip) {
	if n < 20 {
		return s, skipNotTCP
	}
	if len(b) < 20 {
		return s, skipCut
	}
	b = b[:min(n, len(b))]
	be := binary.BigEndian
	s = tcpSegment{src: netip.AddrPortFrom(src, be.Uint16(b)), dst: netip.AddrPortFrom(dst, be.Uint16(b[2:])),
		seq: be.Uint32(b[4:]), ack: be.Uint32(b[8:]), flags: b[13]}
	head := int(b[12]>>4) * 4
	switch {
	case head < 20 || head > n:
		return s, skipNotTCP
	case head > len(b):
		return s, skipCut
	}
	s.data = b[head:]
	s.cut = n - len(b)
	return s, skipNone
}
