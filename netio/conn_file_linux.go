//go:build linux && !weirportable

package netio

import (
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// SendsFiles tells whether AppendBuffer takes buffers that are parts of files, to be sent from there: plain connections on Linux
// do.
func (c *Conn) SendsFiles() bool { return c.p == nil && c.sys.tls == nil }

// sysWriteFiles is sysWrite when parts of files are queued: what lies in memory goes out up to the next one, which follows by
// sendfile, and so on, for about BatchBytes in all. The kernel is told that more follows, so that a header makes no packet of its
// own.
func (c *Conn) sysWriteFiles() {
	for sent := 0; sent < BatchBytes && c.out.bytes > 0 && !c.blocked; {
		before := c.out.bytes
		var ok bool
		if pc := c.out.first(); pc.file.f != nil {
			ok = c.sendPart(pc)
		} else {
			ok = c.sendMemory(BatchBytes - sent)
		}
		if !ok {
			return
		}
		sent += before - c.out.bytes
	}
}

// sendMemory writes what lies in memory in front of the next part of a file, at most about limit bytes. It returns false if
// nothing more is to be written now.
func (c *Conn) sendMemory(limit int) bool {
	v := &c.l.sys.vec
	v.reset()
	total, more := 0, false
	for i := range uint32(min(c.out.len(), MaxVectors)) {
		pc := c.out.at(i)
		if more = pc.file.f != nil; more {
			break
		}
		if len(pc.p) == 0 {
			continue
		}
		v.add(pc.p)
		if total += len(pc.p); total >= limit {
			break
		}
	}
	var n int
	var errno unix.Errno
	if h := c.l.hooks; more && (h == nil || h.write == nil) {
		n, errno = v.writeMore(c.sys.fd)
	} else {
		n, errno = c.writeVectors(v)
	}
	v.release()
	return c.wrote("write", n, total, errno)
}

// sendPart sends a part of a file. If the file is to blame that nothing goes out, it is read once more, as another file system may
// only be able to do that; if that fails, too, the frame's header has gone out and the rest of it cannot: the connection ends.
func (c *Conn) sendPart(pc *piece) bool {
	part := pc.file
	n, errno := c.sendFile(part)
	switch errno {
	case 0:
		if n > 0 {
			c.l.stats.FileBytes += uint64(n)
			return c.wrote("sendfile", n, part.n, 0)
		}
	case unix.EAGAIN, unix.EINTR, unix.EPIPE, unix.ECONNRESET, unix.ETIMEDOUT, unix.EHOSTUNREACH, unix.ENETUNREACH, unix.ENOTCONN:
		return c.wrote("sendfile", 0, part.n, errno)
	}
	p := make([]byte, part.n)
	if k, err := part.f.ReadAt(p, part.at); k < part.n {
		if err == nil || err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		c.writeFailed(&os.PathError{Op: "sendfile", Path: part.f.Name(), Err: err})
		return false
	}
	pc.p, pc.file = p, filePart{}
	c.out.files--
	return true
}

func (c *Conn) sendFile(part filePart) (int, unix.Errno) {
	if h := c.l.hooks; h != nil && h.send != nil {
		return h.send(c, part)
	}
	at := part.at
	n, err := unix.Sendfile(c.sys.fd, int(part.f.Fd()), &at, part.n)
	if err == nil {
		return n, 0
	}
	errno, ok := err.(unix.Errno)
	if !ok {
		errno = unix.EIO
	}
	return 0, errno
}
