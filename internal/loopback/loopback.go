package loopback

import (
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
)

// The ports that are tried, below the ephemeral ones of all usual systems.
const (
	first = 18_000
	last  = 31_999
	tries = 1000
)

// reserved keeps the sockets that say which ports are taken, until the process ends.
var reserved struct {
	sync.Mutex
	marks []net.PacketConn
}

// FreeAddr is an address of the loopback interface that nobody listens at, and that no other call returns, in any process, as long as
// this one runs: a UDP socket with the same number marks it, which leaves TCP free. It stays open until the process ends.
func FreeAddr() (string, error) {
	var err error
	for range tries {
		addr := fmt.Sprintf("127.0.0.1:%d", first+rand.IntN(last-first+1))
		var mark net.PacketConn
		if mark, err = net.ListenPacket("udp", addr); err != nil {
			continue
		}
		var l net.Listener
		if l, err = net.Listen("tcp", addr); err != nil {
			_ = mark.Close()
			continue
		}
		reserved.Lock()
		reserved.marks = append(reserved.marks, mark)
		reserved.Unlock()
		return addr, l.Close()
	}
	return "", fmt.Errorf("loopback: no free port between %d and %d: %w", first, last, err)
}
