package loopback

import (
	"fmt"
	"net"
	"os"
	"sync/atomic"
)

// The ports that are tried, below the ephemeral ones of all usual systems. Each process has a block of them and takes one after the other:
// an address is not handed out again soon, and not by another process at the same time, though nobody listens there yet.
const (
	first = 18_000
	last  = 31_999
	block = 200
	tries = 2 * block
)

// taken counts the addresses that were looked at.
var taken atomic.Uint32

// FreeAddr is an address of the loopback interface that nobody listens at.
func FreeAddr() (string, error) {
	var err error
	for i := range tries {
		at := (os.Getpid()+i/block)*block + int(taken.Add(1)%block)
		port := first + at%(last-first+1)
		var l net.Listener
		if l, err = net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port)); err == nil {
			return l.Addr().String(), l.Close()
		}
	}
	return "", fmt.Errorf("loopback: no free port between %d and %d: %w", first, last, err)
}
