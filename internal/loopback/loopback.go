package loopback

import (
	"fmt"
	"math/rand/v2"
	"net"
)

// The ports that are tried, below the ephemeral ones of all usual systems.
const (
	first = 18_000
	last  = 31_999
	tries = 1000
)

// FreeAddr is an address of the loopback interface that nobody listens at, and that no other call returns, in any process, until free is
// called or this process ends: a UDP socket with the same number marks it, which leaves TCP to whoever got the address.
func FreeAddr() (addr string, free func(), err error) {
	for range tries {
		addr = fmt.Sprintf("127.0.0.1:%d", first+rand.IntN(last-first+1))
		var mark net.PacketConn
		if mark, err = net.ListenPacket("udp", addr); err != nil {
			continue
		}
		var l net.Listener
		if l, err = net.Listen("tcp", addr); err == nil {
			return addr, func() { _ = mark.Close() }, l.Close()
		}
		_ = mark.Close()
	}
	return "", nil, fmt.Errorf("loopback: no free port between %d and %d: %w", first, last, err)
}
