package sim

import (
	"errors"
	"fmt"
	"time"

	"github.com/weirflow/weir/credit"
	"github.com/weirflow/weir/segment"
)

// source is polled at the start of each turn (netio.Source).
type source interface{ Poll() bool }

// node is a process: its memory and its loop.
type node struct {
	w     *world
	id    int
	name  string
	pool  *segment.Pool
	total int // segments

	// Of one job.
	recv    *credit.ReceivePool
	reg     *credit.Registry
	sources []source
	ends    []*end
	clients []*client // by node
	posted  []func()

	newest   int // of the bytes that have come, and where they came
	newestOf *end

	scheduled  bool
	stallUntil int64
	expiring   bool
}

func (w *world) makeNodes() {
	for i := range w.plan.nodes {
		w.nodes = append(w.nodes, &node{w: w, id: i, name: fmt.Sprint("n", i)})
	}
}

// provide makes the node's memory, once.
func (n *node) provide(segments int) {
	if n.pool != nil {
		if n.total != segments {
			n.w.violate("%s: %d segments wanted, there are %d", n.name, segments, n.total)
		}
		return
	}
	pool, err := segment.NewPool(segment.Config{SegmentSize: n.w.plan.segment, Segments: segments, Backing: segment.BackingHeap,
		OnMisuse: func(e *segment.MisuseError) { n.w.violate("%s: %v", n.name, e) }})
	n.must(err)
	n.pool, n.total = pool, segments
}

func (n *node) must(err error) {
	if err != nil {
		n.w.violate("%s: %v", n.name, err)
	}
}

// wake lets a turn run soon, as Loop.Wake does.
func (n *node) wake() {
	if n.scheduled {
		return
	}
	n.scheduled = true
	n.w.after(max(n.w.soon(), n.stallUntil-n.w.now), n.turn)
}

// wakeFromOutside is what the types under test are given to wake the loop.
func (n *node) wakeFromOutside() {
	n.w.exp.Wakes++
	n.wake()
}

// post runs f in the next turn.
func (n *node) post(f func()) {
	n.posted = append(n.posted, f)
	n.wake()
}

// turn is a turn of the loop: what was posted, sources, reads, writes.
func (n *node) turn() {
	n.scheduled = false
	if n.w.now < n.stallUntil {
		n.wake()
		return
	}
	worked := false
	posted := n.posted
	n.posted = nil
	for _, f := range posted {
		f()
	}
	for _, s := range n.sources {
		if s.Poll() {
			worked = true
		}
	}
	for i := 0; i < len(n.ends); i++ {
		if e := n.ends[i]; !e.closed {
			e.read()
		}
	}
	for i := 0; i < len(n.ends); i++ {
		if e := n.ends[i]; (e.want || e.dirty) && !e.closed {
			e.flush()
		}
	}
	if worked {
		n.wake()
	}
}

// dropClosed forgets ends that are closed, and sources of a job that has ended.
func (n *node) dropAll() {
	n.ends, n.sources, n.clients, n.posted, n.reg, n.recv = nil, nil, nil, nil, nil, nil
}

// open makes what a job needs.
func (n *node) open(segments int) {
	var err error
	n.clients = make([]*client, len(n.w.nodes))
	n.reg = credit.NewRegistry(credit.RegistryConfig{Timeout: 20 * time.Millisecond,
		Clock: func() time.Duration { return time.Duration(n.w.now) * time.Microsecond }})
	n.recv, err = credit.NewReceivePool(n.pool, credit.ReceivePoolConfig{Name: n.name, Segments: segments, Wake: n.wakeFromOutside})
	n.must(err)
}

// expire ends the requests that have waited too long, and sees to it that the next ones are.
func (n *node) expire() {
	if n.expiring || n.reg == nil {
		return
	}
	reg := n.reg
	if next, ok := reg.Expire(); ok {
		n.expiring = true
		n.w.after(max(next.Microseconds()-n.w.now, 1), func() {
			n.expiring = false
			if n.reg == reg {
				n.post(n.expire)
			}
		})
	}
}

// close checks that all memory came home.
func (n *node) close() {
	if n.pool != nil {
		n.must(n.pool.Close())
	}
}

// checkHome checks that everything is where it was before the job.
func (n *node) checkHome() {
	u := n.pool.Usage()
	if u.Free != n.total || u.LocalPools != 0 || u.Closing != 0 || u.Guaranteed != 0 {
		n.w.violate("%s: not all memory came home: %+v", n.name, u)
	}
	if u.Misuse != (segment.Misuse{}) {
		n.w.violate("%s: misuse of buffers: %+v", n.name, u.Misuse)
	}
}

// serverEnd is the server's side of a connection: what credit's server.go is to a socket.
type serverEnd struct {
	node    *node
	end     *end
	decoder *credit.ServerDecoder
	core    *credit.ServerCore
	shadow  *shadowDown
}

func newServerEnd(n *node) *serverEnd {
	h := &serverEnd{node: n, decoder: new(credit.ServerDecoder)}
	h.core = credit.NewServerCore(n.reg, h)
	h.shadow = newShadowDown(n.w)
	return h
}

func (h *serverEnd) onRead(p []byte) error {
	err := h.decoder.Feed(p, &serverIn{ServerCore: h.core, w: h.node.w})
	switch {
	case err == nil:
		if _, waiting := h.core.Readers(); waiting > 0 {
			h.node.expire()
		}
	case errors.Is(err, credit.ErrCloseRequested):
		h.end.closeAfterFlush()
	default:
		h.node.w.violate("%s: the server cannot read what the client sent: %v", h.end.name, err)
	}
	return nil
}

func (h *serverEnd) onFlush() {
	n, err := h.core.Run()
	if err != nil {
		h.node.w.violate("%s: %v", h.end.name, err)
	}
	if n > 0 {
		h.node.w.note(h.end.name, "sends", n)
	}
}

func (h *serverEnd) onClose(error) {
	h.core.Disconnected()
	h.node.w.exp.addServer(h.core.Scheduler().Stats())
}

func (h *serverEnd) sniff(p []byte) { h.shadow.sent(p) }

// Writable is part of credit.Outbound.
func (h *serverEnd) Writable() bool { return !h.end.Full() && !h.end.closed }

// WriteBuffer is part of credit.Outbound.
func (h *serverEnd) WriteBuffer(hd *credit.BufferHeader, b segment.Buffer) {
	p := h.node.w.plan.profile
	if len(hd.PartialSizes) < 2 && int(hd.Size) != b.Len() {
		h.node.w.violate("%s: a header says %d bytes, there are %d", h.end.name, hd.Size, b.Len())
	}
	credit.AppendBufferHeader(h.end.Stage(credit.BufferHeaderLen(p) + 4*len(hd.PartialSizes))[:0], p, hd)
	if !b.IsZero() {
		h.end.AppendBuffer(b)
	}
}

// Packs reports whether several buffers may share a message.
func (h *serverEnd) Packs() bool { return h.node.w.plan.packs }

// WriteMore adds to the payload of the message that WriteBuffer began.
func (h *serverEnd) WriteMore(bufs []segment.Buffer, n int) {
	for _, b := range bufs {
		n -= b.Len()
		h.end.AppendBuffer(b)
	}
	if n != 0 {
		h.node.w.violate("%s: buffers of a message differ by %d bytes from what was counted", h.end.name, -n)
	}
}

// WriteFrame is part of credit.Outbound.
func (h *serverEnd) WriteFrame(frame []byte) { copy(h.end.Stage(len(frame)), frame) }

// WantFlush is part of credit.Outbound.
func (h *serverEnd) WantFlush() { h.end.WantFlush() }

// client is the client's side of a connection to one node: what credit's client.go is to a socket.
type client struct {
	node    *node
	end     *end
	core    *credit.ClientCore
	server  *serverEnd
	up      *shadowUp
	failed  bool
	waiting []*credit.RemoteChannel
}

// retryEvery is the pause before a partition that was not found is asked for again.
const retryEvery = 5_000

// dial connects to a node after a while. Channels wait meanwhile.
func (n *node) dial(to *node) *client {
	if c := n.clients[to.id]; c != nil {
		return c
	}
	c := &client{node: n, up: newShadowUp(n.w)}
	n.clients[to.id] = c
	j := n.w.job
	n.w.after(1+n.w.rng.Int64N(5_000), func() {
		if n.w.job == j && !j.closed {
			n.post(func() { c.open(to) })
		}
	})
	return c
}

func (c *client) open(to *node) {
	w := c.node.w
	s := newServerEnd(to)
	con := w.connect(fmt.Sprintf("%s-%s", c.node.name, to.name), c.node, to, c, s)
	c.end, s.end, c.server = con.a, con.b, s
	w.job.conns = append(w.job.conns, con)
	p := &w.plan
	cfg := credit.ClientConfig{Peer: to.name, Out: c.end, Pool: c.node.recv, Reuse: p.reuse,
		Decoder:         credit.DecoderConfig{Profile: p.profile, MaxBuffer: p.segment},
		ListenerTimeout: 1, MaxBackoff: 1 << 40, NotFound: c.notFound, Empty: c.empty}
	if p.batched {
		cfg.Policy = credit.Batched{}
	}
	c.core = credit.NewClientCore(cfg)
	for _, ch := range c.waiting {
		c.request(ch)
	}
	c.waiting = nil
}

func (c *client) request(ch *credit.RemoteChannel) {
	switch {
	case ch.Released():
	case c.core == nil:
		c.waiting = append(c.waiting, ch)
	default:
		c.node.must(c.core.Request(ch))
	}
}

func (c *client) notFound(ch *credit.RemoteChannel) {
	w := c.node.w
	w.exp.NotFound++
	j := w.job
	w.after(retryEvery, func() {
		if w.job == j && !j.closed {
			c.node.post(func() {
				if !c.failed && c.core.Err() == nil && !c.core.Closing() {
					c.core.Retrigger(ch)
				}
			})
		}
	})
}

func (c *client) empty(closing bool) {
	if closing {
		c.failed = true
		c.end.closeAfterFlush()
	}
}

func (c *client) onRead(p []byte) error {
	c.server.shadow.arrived(p)
	return c.core.Feed(p)
}

func (c *client) onFlush() {
	c.core.FlushGrants()
	c.core.WriteIntents()
}

func (c *client) onClose(err error) {
	if c.node.w.job != nil {
		c.node.w.exp.addClient(c.core.Stats())
	}
	if err == nil {
		c.core.EndOfStream()
	} else {
		c.core.Fail(fmt.Errorf("lost the connection: %w", err))
	}
	c.failed = true
}

func (c *client) sniff(p []byte) { c.up.sent(p) }
