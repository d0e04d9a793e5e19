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
	tries = 200
)

// FreeAddr is an address of the loopback interface that nobody listens at.
func FreeAddr() (string, error) {
	var err error
	for range tries {
		var l net.Listener
		if l, err = net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", first+rand.IntN(last-first+1))); err == nil {
			return l.Addr().String(), l.Close()
		}
	}
	return "", fmt.Errorf("loopback: no free port between %d and %d: %w", first, last, err)
}
