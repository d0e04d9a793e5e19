package netio

import (
	"bytes"
	"errors"
	"net"
	"testing"

	"github.com/weirflow/weir/segment"
)

// A connection of the portable driver closes rather than send a header without what belongs to it.
func TestNoFilesThroughPortableDriver(t *testing.T) {
	l := newLoop(t, LoopConfig{})
	file := segment.NewFile(bytes.NewReader(make([]byte, 100)))
	ours, theirs := net.Pipe()
	defer theirs.Close()
	ends := make(chan error, 1)
	c, err := l.Adopt(ours, &funcs{close: func(_ *Conn, err error) { ends <- err }})
	if err != nil {
		t.Fatal(err)
	}
	inTurn(t, l, func() {
		if c.SendsFiles() {
			t.Error("it says that it does")
		}
		c.AppendBuffer(file.Wrap(0, 100, segment.DataBuffer))
	})
	if err := <-ends; !errors.Is(err, ErrNoFiles) {
		t.Errorf("the connection ended with %v", err)
	}
	if n := file.Regions(); n != 0 {
		t.Errorf("%d parts of the file are still held", n)
	}
}
