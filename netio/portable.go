package netio

import (
	"net"
	"os"
	"sync"
	"time"
)

// portable serves a connection through package net: on systems without epoll, and everywhere for connections that were adopted and
// are not plain sockets. A reader and a writer goroutine each do one blocking call at a time and then put the connection into
// the loop's inbox; handlers are called in turns, as ever.
//
//	reader   reads into a ring of bytes, from which the loop takes them, until that is full
//	writer   gets a batch of queued pieces, writes it, says how much
//
// So memory is bounded by one ring and one batch. It costs two goroutine switches each way, and a few allocations.
type portable struct {
	c  *Conn
	nc net.Conn

	in ahead

	// The loop's, until it has handed the batch over; then the writer's.
	batch    [][]byte
	shutting bool // instead of a batch: end the stream
	wrote    int
	writeErr error
	work     chan struct{}

	// The loop's.
	draining bool // in resume
	over     bool // the end of the input was passed on
	busy     bool // the writer is at work
	started  bool

	stop    chan struct{}
	readers sync.WaitGroup
	joined  []byte // the writer's: pieces joined for connections without gathered writes
}

type pconn = portable

const portableChunk = 64 << 10

func newPortable(c *Conn, nc net.Conn) *portable {
	return &portable{c: c, nc: nc, work: make(chan struct{}, 1), stop: make(chan struct{})}
}

// start starts the goroutines. They end after close.
func (p *portable) start() {
	p.started = true
	p.in.ring, p.in.room = make([]byte, aheadSize), make(chan struct{}, 1)
	p.readers.Add(1)
	p.c.l.workers.Add(2)
	go p.reader()
	go p.writer()
}

func (p *portable) reader() {
	defer p.c.l.workers.Done()
	defer p.readers.Done()
	for {
		b := p.in.next(p.stop)
		if b == nil {
			return
		}
		n, err := p.nc.Read(b)
		p.in.add(n)
		if err != nil {
			p.in.end(err)
		}
		p.tell(attnReadable)
		if err != nil {
			return
		}
	}
}

func (p *portable) writer() {
	defer p.c.l.workers.Done()
	for {
		select {
		case <-p.work:
			if p.shutting {
				p.wrote, p.writeErr = 0, p.closeWrite()
			} else {
				p.wrote, p.writeErr = p.writeBatch()
			}
			p.tell(attnWritten)
			continue
		case <-p.stop:
		}
		break
	}
	p.readers.Wait()
	closeLimited(p.nc) // may take a while: TLS says goodbye
	p.tell(attnGone)
}

// tell puts the connection into the loop's inbox and wakes the loop.
func (p *portable) tell(flag uint32) {
	if p.c.notify(flag) {
		p.c.l.nudge()
	}
}

// writeBatch writes the batch and returns how much of it went out.
func (p *portable) writeBatch() (int, error) {
	switch p.nc.(type) {
	case *net.TCPConn, *net.UnixConn:
		b := net.Buffers(p.batch)
		n, err := b.WriteTo(p.nc)
		return int(n), err
	}
	// One call for each 64 KiB rather than for each piece: TLS makes records of what it gets.
	total := 0
	flush := func() error {
		if len(p.joined) == 0 {
			return nil
		}
		n, err := p.nc.Write(p.joined)
		total += n
		p.joined = p.joined[:0]
		return err
	}
	for _, q := range p.batch {
		for len(q) > 0 {
			k := min(len(q), portableChunk-len(p.joined))
			p.joined = append(p.joined, q[:k]...)
			q = q[k:]
			if len(p.joined) == portableChunk {
				if err := flush(); err != nil {
					p.joined = p.joined[:0]
					return total, err
				}
			}
		}
	}
	err := flush()
	p.joined = p.joined[:0]
	return total, err
}

// write hands a batch to the writer. The pieces stay queued until it is done.
func (p *portable) write() {
	if p.busy {
		return
	}
	c := p.c
	p.batch = p.batch[:0]
	total := 0
	for i := range uint32(min(c.out.len(), MaxVectors)) {
		q := c.out.at(i).p
		p.batch = append(p.batch, q)
		if total += len(q); total >= BatchBytes {
			break
		}
	}
	p.busy = true
	c.blocked = true // until the writer is done
	p.work <- struct{}{}
}

// attend handles what the goroutines brought. Holder of the token.
func (p *portable) attend(flags uint32) {
	c := p.c
	if flags&attnWritten != 0 {
		shut := p.shutting
		p.busy, p.shutting = false, false
		c.blocked = false
		clear(p.batch)
		if p.wrote > 0 {
			c.l.stats.Writes++
			c.l.stats.WriteBytes += uint64(p.wrote)
			c.acknowledge(p.wrote)
		}
		if p.writeErr != nil {
			p.resume() // what came before, and perhaps a better reason
			c.writeFailed(c.opError("write", p.writeErr))
		}
		if shut && c.ended && !c.finishing {
			c.Close(nil)
		}
		c.WantFlush()
	}
	if flags&attnReadable != 0 {
		p.resume()
	}
	if flags&attnGone != 0 {
		c.gone()
	}
}

// close ends both goroutines; the last thing they do is attnGone.
func (p *portable) close() {
	if !p.started {
		// Not in this turn, as TLS says goodbye.
		p.c.l.workers.Add(1)
		go func() {
			defer p.c.l.workers.Done()
			closeLimited(p.nc)
			p.tell(attnGone)
		}()
		return
	}
	// A deadline in the past ends the calls that are under way but lets TLS say goodbye after.
	if p.nc.SetDeadline(time.Unix(1, 0)) != nil {
		_ = p.nc.Close()
	}
	close(p.stop)
}

// shutdownWrite has the writer, which has nothing else to do, send the end of stream: TLS may have to wait for room.
func (p *portable) shutdownWrite() {
	p.busy, p.shutting = true, true
	p.c.blocked = true
	p.work <- struct{}{}
}

// closeWrite sends the end of stream, if the connection has such a thing.
func (p *portable) closeWrite() error {
	if cw, ok := p.nc.(interface{ CloseWrite() error }); ok {
		if err := cw.CloseWrite(); err != nil && !os.IsTimeout(err) {
			return err
		}
	}
	return nil
}
