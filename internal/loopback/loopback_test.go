package loopback

import (
	"net"
	"testing"
)

func TestFreeAddr(t *testing.T) {
	addr, err := FreeAddr()
	if err != nil {
		t.Fatal(err)
	}
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
