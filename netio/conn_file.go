package netio

import (
	"errors"
	"os"

	"github.com/weirflow/weir/segment"
)

// filePart is a part of a file that is still to be written.
type filePart struct {
	f  *os.File
	at int64
	n  int
}

func (p *filePart) skip(n int) {
	p.at += int64(n)
	p.n -= n
}

// ErrNoFiles: a buffer that is part of a file was queued on a connection that cannot send it from there.
var ErrNoFiles = errors.New("netio: the connection does not send from files")

// appendFile queues a part of a file.
func (c *Conn) appendFile(b segment.Buffer) {
	f, at, n := b.FileRegion()
	if c.deaf() || f == nil || !c.SendsFiles() {
		c.releaseBuffer(b)
		c.publishReleased()
		if !c.deaf() {
			c.Close(ErrNoFiles)
		}
		return
	}
	pc := c.out.push()
	pc.buf, pc.file = b, filePart{f, at, n}
	c.out.bytes += n
	c.out.files++
	c.queued()
}
