package netio

import "github.com/weirflow/weir/segment"

// piece is a part of what a connection has queued: bytes in a chunk (headers and small payloads, adjacent ones in one piece),
// a payload by reference, or a part of a file.
type piece struct {
	p     []byte // what is still to be written, unless it is in a file
	buf   segment.Buffer
	chunk *chunk
	file  filePart
}

// len is how much is still to be written.
func (pc *piece) len() int { return len(pc.p) + pc.file.n }

// queue is a ring of pieces that grows to what one batch needs and then stays.
type queue struct {
	ring       []piece // length a power of two
	head, tail uint32  // pieces are at [head, tail)
	bytes      int
	files      int // pieces that are parts of files
}

func (q *queue) len() int           { return int(q.tail - q.head) }
func (q *queue) at(i uint32) *piece { return &q.ring[(q.head+i)&uint32(len(q.ring)-1)] }
func (q *queue) last() *piece       { return &q.ring[(q.tail-1)&uint32(len(q.ring)-1)] }
func (q *queue) first() *piece      { return &q.ring[q.head&uint32(len(q.ring)-1)] }
func (q *queue) popFirst()          { *q.first() = piece{}; q.head++ }
func (q *queue) empty() bool        { return q.head == q.tail }

func (q *queue) push() *piece {
	if q.len() == len(q.ring) {
		q.grow()
	}
	q.tail++
	return q.last()
}

func (q *queue) grow() {
	ring := make([]piece, max(16, 2*len(q.ring)))
	n := q.len()
	for i := range n {
		ring[i] = *q.at(uint32(i))
	}
	q.ring, q.head, q.tail = ring, 0, uint32(n)
}

// chunkSize is the length of a staging piece: some 13 of them make a batch of small frames.
const chunkSize = 64 << 10

// chunksKept bounds what an idle loop keeps: two batches.
const chunksKept = 2 * BatchBytes / chunkSize

// chunk is memory that headers and small payloads are staged in. It goes back to the pool when nothing queued lies in it.
type chunk struct {
	mem  []byte
	used int
	refs int // pieces in it
}

// chunkPool is the loop's stock of chunks.
type chunkPool struct{ free []*chunk }

// get returns a chunk with room for n bytes. Only n above chunkSize makes an odd one.
func (k *chunkPool) get(n int) *chunk {
	if n > chunkSize {
		return &chunk{mem: make([]byte, n)}
	}
	if last := len(k.free) - 1; last >= 0 {
		c := k.free[last]
		k.free[last] = nil
		k.free = k.free[:last]
		return c
	}
	return &chunk{mem: make([]byte, chunkSize)}
}

func (k *chunkPool) put(c *chunk) {
	if len(c.mem) == chunkSize && len(k.free) < chunksKept {
		c.used, c.refs = 0, 0
		k.free = append(k.free, c)
	}
}

// stage appends n bytes to the queue and returns them to be filled.
func (c *Conn) stage(n int) []byte {
	k := c.chunk
	if k == nil || len(k.mem)-k.used < n {
		if k != nil && k.refs == 0 {
			c.l.chunks.put(k)
		}
		k = c.l.chunks.get(n)
		c.chunk = k
	}
	p := k.mem[k.used : k.used+n]
	k.used += n
	c.out.bytes += n
	if !c.out.empty() {
		if last := c.out.last(); last.chunk == k {
			last.p = last.p[:len(last.p)+n] // adjacent: nothing else was taken from this chunk since
			return p[:n:n]
		}
	}
	k.refs++
	pc := c.out.push()
	pc.p, pc.chunk = p, k
	return p[:n:n]
}

// acknowledge takes n written bytes off the queue and releases what is written.
func (c *Conn) acknowledge(n int) {
	c.out.bytes -= n
	for n > 0 {
		pc := c.out.first()
		if left := pc.len(); n < left {
			if pc.file.f != nil {
				pc.file.skip(n)
			} else {
				pc.p = pc.p[n:]
			}
			break
		} else {
			n -= left
		}
		c.releasePiece(pc)
		c.out.popFirst()
	}
	c.publishReleased()
	if c.out.empty() && c.chunk != nil {
		c.l.chunks.put(c.chunk) // an idle connection holds no memory
		c.chunk = nil
	}
}

// releasePiece gives back what pc holds.
func (c *Conn) releasePiece(pc *piece) {
	if k := pc.chunk; k != nil {
		if k.refs--; k.refs == 0 && k != c.chunk {
			c.l.chunks.put(k)
		}
		return
	}
	if pc.file.f != nil {
		c.out.files--
	}
	c.releaseBuffer(pc.buf)
}

// releaseBuffer gives b back; publishReleased follows.
func (c *Conn) releaseBuffer(b segment.Buffer) {
	c.released = true
	if c.releaser != nil {
		c.releaser.Release(b)
		return
	}
	b.Release()
}

// releaseAll gives several back.
func (c *Conn) releaseAll(bufs []segment.Buffer) {
	if c.releaser == nil {
		segment.ReleaseAll(bufs)
		return
	}
	for i, b := range bufs {
		c.releaser.Release(b)
		bufs[i] = segment.Buffer{}
	}
	c.releaser.Flush()
}

// drop releases everything that is queued.
func (c *Conn) drop() {
	if c.out.bytes > 0 {
		c.acknowledge(c.out.bytes)
	}
}
