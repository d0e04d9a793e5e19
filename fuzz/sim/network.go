package sim

import (
	"errors"
	"fmt"

	"github.com/weirflow/weir/segment"
)

// errReset is how a connection ends that the network broke.
var errReset = errors.New("connection reset by the simulator")

// handler is one end's protocol, as in netio.
type handler interface {
	onRead(p []byte) error
	onFlush()
	onClose(err error)
	// sniff sees the bytes that this end sends, in order.
	sniff(p []byte)
}

// piece is something to be sent: bytes, or a buffer by reference.
type piece struct {
	p   []byte
	buf segment.Buffer
	off int
}

func (p *piece) bytes() []byte {
	if p.buf.IsZero() {
		return p.p
	}
	return p.buf.Bytes()
}

// chunk is bytes under way.
type chunk struct {
	at int64
	no int // in the order of sending, of all connections
	p  []byte
}

// end is one end of a connection: what netio.Conn is to credit's glue.
type end struct {
	node    *node
	peer    *end
	conn    *connection
	name    string
	h       handler
	out     []piece
	pending int // bytes in out
	sniffed int // pieces of out that were sniffed
	want    bool
	dirty   bool // something was staged: it is written at the end of the turn, also if nobody wants a flush
	blocked bool // the pipe was full
	closing bool
	closed  bool

	server  bool // it sends to a client
	wrote   cutter
	got     cutter
	in      []chunk
	inBytes int
	eof     int64 // the peer closed; when that is seen
	lastAt  int64 // when the last chunk arrives
}

// connection joins two ends.
type connection struct {
	w        *world
	a, b     *end
	name     string
	latency  int64
	cutUntil int64
	broken   bool // reset: nothing gets through any more
}

func (w *world) connect(name string, from, to *node, a, b handler) *connection {
	c := &connection{w: w, name: name, latency: 1 + w.rng.Int64N(w.plan.latency)}
	c.a = &end{node: from, conn: c, name: name + ">", h: a}
	c.b = &end{node: to, conn: c, name: name + "<", h: b, server: true}
	c.a.peer, c.b.peer = c.b, c.a
	from.ends = append(from.ends, c.a)
	to.ends = append(to.ends, c.b)
	return c
}

func (c *connection) dead() bool { return c.a.closed || c.b.closed || c.broken }

// cut stops all delivery for a while; nothing is lost.
func (c *connection) cut(d int64) {
	c.w.exp.Cuts++
	c.w.note(c.name, "cut for", int(d))
	c.cutUntil = max(c.cutUntil, c.w.now+d)
	c.w.after(d, func() { c.a.node.wake(); c.b.node.wake() })
}

// reset breaks the connection: what is under way is lost.
func (c *connection) reset() {
	c.w.exp.Resets++
	c.w.note(c.name, "reset")
	c.broken = true
	for _, e := range []*end{c.a, c.b} {
		e.in, e.inBytes = nil, 0
		c.w.after(c.w.soon(), func() { e.node.post(func() { e.close(errReset) }) })
	}
}

// Stage returns n bytes of what goes out.
func (e *end) Stage(n int) []byte {
	p := make([]byte, n)
	e.out = append(e.out, piece{p: p})
	e.pending += n
	e.dirty = true
	return p
}

// AppendBuffer sends a buffer from where it lies.
func (e *end) AppendBuffer(b segment.Buffer) {
	if b.Len() == 0 || e.closed {
		b.Release()
		return
	}
	e.out = append(e.out, piece{buf: b})
	e.pending += b.Len()
}

// Full reports that a batch is complete.
func (e *end) Full() bool { return e.pending >= e.node.w.plan.stage }

// WantFlush asks for onFlush at the end of this turn.
func (e *end) WantFlush() {
	e.want = true
	e.node.wake()
}

// closeAfterFlush closes once what is staged was sent.
func (e *end) closeAfterFlush() {
	e.closing = true
	e.WantFlush()
}

// close ends this end now. err is nil for an orderly end.
func (e *end) close(err error) {
	if e.closed {
		return
	}
	e.closed = true
	e.node.w.note(e.name, "closed")
	for i := range e.out {
		if p := &e.out[i]; !p.buf.IsZero() {
			p.buf.Release()
		}
	}
	e.out, e.pending, e.in, e.inBytes = nil, 0, nil, 0
	if !e.peer.closed {
		e.peer.eof = max(e.peer.lastAt, e.node.w.now+e.conn.latency)
		e.node.w.after(e.peer.eof-e.node.w.now, e.peer.node.wake)
	}
	e.h.onClose(err)
}

// flush fills and writes until the pipe is full or nothing is left.
func (e *end) flush() {
	e.dirty = false
	for !e.closed {
		if e.want && !e.Full() {
			e.want = false
			if !e.closing {
				e.h.onFlush()
			}
		}
		for ; e.sniffed < len(e.out); e.sniffed++ {
			e.h.sniff(e.out[e.sniffed].bytes())
		}
		wasFull := e.Full()
		all := e.write()
		switch {
		case !all:
			return
		case e.closing:
			e.close(nil)
			return
		case wasFull: // the socket can take more
			e.want = true
		case !e.want:
			return
		}
	}
}

// write moves bytes into the pipe and reports whether all went.
func (e *end) write() bool {
	w := e.node.w
	if e.conn.broken {
		return false
	}
	if e.pending == 0 {
		return true
	}
	room := w.plan.pipe - e.peer.inBytes
	if room > 0 && w.plan.partial {
		room = 1 + w.rng.IntN(room)
	}
	var p []byte
	for len(e.out) > 0 && room > 0 {
		first := &e.out[0]
		b := first.bytes()[first.off:]
		k := min(room, len(b))
		p = append(p, b[:k]...)
		room -= k
		if first.off += k; k < len(b) {
			w.exp.PartialWrites++
			break
		}
		if !first.buf.IsZero() {
			first.buf.Release()
		}
		e.out = e.out[1:]
		e.sniffed--
	}
	e.pending -= len(p)
	if len(p) > 0 {
		w.note(e.name, "writes", len(p), e.pending)
		at := max(w.now+e.conn.latency+w.rng.Int64N(w.plan.jitter), e.peer.lastAt)
		e.peer.lastAt = at
		w.sent++
		e.peer.in = append(e.peer.in, chunk{at: at, no: w.sent, p: p})
		e.countCut(&e.wrote, p, &w.exp.WrittenDown, &w.exp.WrittenUp, e.server)
		e.peer.inBytes += len(p)
		w.after(at-w.now, e.peer.node.wake)
	}
	if e.pending == 0 {
		return true
	}
	e.blocked = true
	if e.peer.inBytes < w.plan.pipe { // a partial write: the rest at once
		e.blocked = false
		e.want = true
		e.node.wake()
	}
	return false
}

// ready is how many bytes can be read now.
func (e *end) ready() (n int) {
	if e.node.w.now < e.conn.cutUntil {
		return 0
	}
	for i := range e.in {
		if e.in[i].at > e.node.w.now {
			break
		}
		n += len(e.in[i].p)
	}
	return n
}

// read does one read and hands its bytes to the handler in pieces. The memory is overwritten then: nobody may keep it.
func (e *end) read() {
	w := e.node.w
	if e.conn.broken {
		return
	}
	n := e.ready()
	if n == 0 {
		if e.eof > 0 && len(e.in) == 0 && w.now >= max(e.eof, e.conn.cutUntil) {
			e.close(nil)
		}
		return
	}
	k := min(n, 1+w.rng.IntN(w.plan.read))
	if k < n {
		w.exp.PartialReads++
		e.node.wake()
	}
	region := make([]byte, 0, k)
	for len(region) < k {
		c := &e.in[0]
		m := min(len(c.p), k-len(region))
		region = append(region, c.p[:m]...)
		e.node.arrived(c.no, e)
		if c.p = c.p[m:]; len(c.p) == 0 {
			e.in = e.in[1:]
		}
	}
	e.inBytes -= k
	w.note(e.name, "reads", k)
	if e.peer.blocked && !e.peer.closed {
		e.peer.blocked = false
		e.peer.WantFlush()
	}
	for p := region; len(p) > 0 && !e.closed; {
		m := min(len(p), 1+w.rng.IntN(w.plan.feed))
		e.countCut(&e.got, p[:m], &w.exp.ReadDown, &w.exp.ReadUp, !e.server)
		err := e.h.onRead(p[:m])
		for i := range p[:m] {
			p[i] = 0xDD
		}
		p = p[m:]
		if err != nil {
			w.note(e.name, fmt.Sprint("fails: ", err))
			e.close(err)
		}
	}
}

// countCut counts where a read or a write ended.
func (e *end) countCut(c *cutter, p []byte, down *[downOffsets]int, up *[upOffsets]int, isDown bool) {
	if len(p) == 1 {
		e.node.w.exp.OneByte++
	}
	if isDown {
		c.next(p, down[:])
	} else {
		c.next(p, up[:])
	}
}

// arrived notes that bytes came, and whether others that were sent later to the same node came before them.
func (n *node) arrived(no int, e *end) {
	if no < n.newest && n.newestOf != e {
		n.w.exp.Reordered++
	}
	if no > n.newest {
		n.newest, n.newestOf = no, e
	}
}
