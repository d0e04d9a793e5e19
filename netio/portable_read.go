package netio

import (
	"bufio"
	"net"
	"sync/atomic"
)

// aheadSize is how far a reader may be ahead of its loop: what comes while the loop is on its way arrives in one turn. aheadRoom is
// the least room that is worth a read.
const (
	aheadSize = 2 * portableChunk
	aheadRoom = portableChunk / 4
)

// ahead is what the reader of a portable connection has read and the loop has not taken: a ring of bytes with one producer
// and one consumer, which look at each other's positions.
type ahead struct {
	ring  []byte
	read  atomic.Uint64 // the reader's position
	taken atomic.Uint64 // the loop's
	full  atomic.Bool   // the reader waits for room
	ended atomic.Bool   // the reader is done, because of err
	err   error         // written before ended
	room  chan struct{} // capacity 1
}

// next returns where the reader reads to, and waits for room until stop is closed; nil then.
func (a *ahead) next(stop <-chan struct{}) []byte {
	size := uint64(len(a.ring))
	r := a.read.Load()
	for size-(r-a.taken.Load()) < min(aheadRoom, size) {
		a.full.Store(true)
		if size-(r-a.taken.Load()) >= min(aheadRoom, size) {
			break
		}
		select {
		case <-a.room: // perhaps of an earlier wait: look again
		case <-stop:
			return nil
		}
	}
	off := r % size
	return a.ring[off:min(size, off+size-(r-a.taken.Load()))]
}

// add publishes n more bytes.
func (a *ahead) add(n int) { a.read.Add(uint64(n)) }

// end says that no more come.
func (a *ahead) end(err error) {
	a.err = err
	a.ended.Store(true)
}

// front returns the next bytes, at most limit; with none, whether there will never be any.
func (a *ahead) front(limit int) (p []byte, ended bool) {
	ended = a.ended.Load() // before the position, which is final then
	t := a.taken.Load()
	n := a.read.Load() - t
	if n == 0 {
		return nil, ended
	}
	off := t % uint64(len(a.ring))
	return a.ring[off : off+min(n, uint64(len(a.ring))-off, uint64(limit))], false
}

// take gives back n bytes of what front returned.
func (a *ahead) take(n int) {
	a.taken.Add(uint64(n))
	if a.full.Load() && a.full.Swap(false) {
		select {
		case a.room <- struct{}{}:
		default:
		}
	}
}

// resume passes on what was read, unless reading is paused. Holder of the token.
func (p *portable) resume() {
	c := p.c
	if p.draining {
		return // the handler that was called below pauses and resumes
	}
	p.draining = true
	defer func() { p.draining = false }()
	for passed := 0; !c.paused && !c.closed && !p.over; {
		if passed >= len(p.in.ring) {
			p.tell(attnReadable) // the rest is for the next turn
			return
		}
		b, ended := p.in.front(c.l.cfg.ReadSize)
		if len(b) == 0 {
			if ended {
				p.over = true
				p.endOfInput(p.in.err)
			}
			return
		}
		c.l.stats.Reads++
		c.l.stats.ReadBytes += uint64(len(b))
		c.received(b)
		p.in.take(len(b))
		passed += len(b)
	}
}

func (p *portable) endOfInput(err error) {
	if isEOF(err) {
		p.c.endOfStream()
		return
	}
	p.c.Close(p.c.opError("read", err))
}

// buffered is a connection whose reads are as large as can be: crypto/tls would make two for each record.
type buffered struct {
	net.Conn
	r *bufio.Reader
}

// newBuffered is small: during a handshake nobody knows yet who the peer is.
func newBuffered(nc net.Conn) *buffered {
	return &buffered{Conn: nc, r: bufio.NewReaderSize(nc, 4<<10)}
}

// grow makes it large. The small reader hands over what it has, and passes reads through afterwards.
func (b *buffered) grow() { b.r = bufio.NewReaderSize(b.r, portableChunk) }

// Read is net.Conn's.
func (b *buffered) Read(p []byte) (int, error) { return b.r.Read(p) }

// CloseWrite ends the outgoing stream.
func (b *buffered) CloseWrite() error {
	if cw, ok := b.Conn.(interface{ CloseWrite() error }); ok {
		return cw.CloseWrite()
	}
	return nil
}
