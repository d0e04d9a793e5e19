package loopback

import (
	"net"
	"testing"
)

func TestFreeAddr(t *testing.T) {
	addr, free, err := FreeAddr()
	if err != nil {
		t.Fatal(err)
	}
	defer free()
	for range 2 { // it can be listened at again
		l, err := net.Listen("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		if port := l.Addr().(*net.TCPAddr).Port; port < first || port > last {
			t.Errorf("port %d", port)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestFreeAddrOnce: nobody gets an address a second time before it is given up, though nobody listens at it.
func TestFreeAddrOnce(t *testing.T) {
	seen := map[string]bool{}
	for range 300 {
		addr, free, err := FreeAddr()
		if err != nil {
			t.Fatal(err)
		}
		defer free()
		if seen[addr] {
			t.Fatalf("%s twice", addr)
		}
		seen[addr] = true
		if mark, err := net.ListenPacket("udp", addr); err == nil {
			_ = mark.Close()
			t.Fatalf("%s is not marked for other processes", addr)
		}
	}
}
