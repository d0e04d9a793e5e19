package credit

import (
	"encoding/binary"
	"fmt"

	"github.com/weirflow/weir/ringbuf"
	"github.com/weirflow/weir/segment"
	"github.com/weirflow/weir/serde/event"
)

// queued is one item in a channel's queue. It owns a reference on buf.
type queued struct {
	buf segment.Buffer
	seq int32
	sub int32
	// cost is what it counts in the link's eventBytes.
	cost int32
	// local: it takes up the window of a local channel.
	local bool
	// announcement: the item tells that the barrier in buf stands further back in the queue, under the same seq.
	announcement bool
}

func (e *queued) dataType() segment.DataType {
	if e.announcement {
		return segment.PrioritizedEvent
	}
	return e.buf.Type()
}

// gateChannel is the task half of one channel: its queue and what it knows about barriers.
type gateChannel struct {
	q         ringbuf.Deque[queued]
	up        Upstream
	link      *GateLink // up, if it is one
	persister persister
	err       error
	info      ChannelError // what an error of this channel names

	index         int
	bytes         int   // sum of the sizes in q, without announcements
	lastBarrier   int64 // newest barrier that arrived, -1: none
	barrierSeq    int32 // and its sequence number
	lastPriority  int32 // sequence number of the priority event read last
	lastSeq       int32 // sequence number of the item read last
	blockSeq      int32 // while blocked: sequence number of the item that blocks; what was sent before it may pass
	subpartitions int
	eods, eops    int // ends that were swallowed or handed out

	readPriority     bool // lastPriority is valid
	enqueued         bool // in the ready line
	enqueuedPriority bool // in its priority part
	blocked          bool // see Guard
	held             bool // taken out of the ready line because it is blocked
	released         bool
	endedData        bool
	ended            bool // delivered its end of partition
}

func (c *gateChannel) forgetBarrier() { c.lastBarrier, c.barrierSeq = -1, 0 }

// push queues an arrival. It is written where it lies: copies of structs that were just written field by field, or in pieces that
// overlap, wait until the fields are in the cache.
func (c *gateChannel) push(a *Arrival) {
	c.bytes += a.Buf.Len()
	e := c.q.Append()
	e.buf, e.seq, e.sub, e.cost, e.local = a.Buf, a.Seq, a.Subpartition, a.cost, a.local
}

// pushPriority reports whether the item is now the only one with priority.
func (c *gateChannel) pushPriority(e queued) (first bool) {
	if !e.announcement {
		c.bytes += e.buf.Len()
	}
	return c.q.PushPriority(e)
}

// pop takes the first item out, into e.
func (c *gateChannel) pop(e *queued) bool {
	front := c.q.Front()
	if front == nil {
		return false
	}
	*e = *front
	c.q.DropFront()
	if !e.announcement {
		c.bytes -= e.buf.Len()
		c.uncount(e.cost)
		if e.local {
			c.link.took(c.index)
		}
	}
	return true
}

// uncount takes the cost of an event off: it is not under way any more.
func (c *gateChannel) uncount(cost int32) {
	if cost != 0 && c.link != nil {
		c.link.eventBytes.Add(-int64(cost))
	}
}

// release gives back everything that is queued. The channel stays in the ready line if it is there.
func (c *gateChannel) release() {
	c.released = true
	c.bytes = 0
	c.q.Clear(func(e queued) {
		c.uncount(e.cost)
		e.buf.Release()
	})
}

// error makes the error of this channel.
func (c *gateChannel) error(err error) error {
	e := c.info
	e.Err = err
	return &e
}

// barrierID returns the checkpoint of a serialized barrier; ok is false for any other event.
func barrierID(p []byte) (id int64, ok bool) {
	if len(p) < 12 || binary.BigEndian.Uint32(p) != uint32(event.CheckpointBarrier) {
		return 0, false
	}
	return int64(binary.BigEndian.Uint64(p[4:])), true
}

// checkForBarrier notes the barrier that event bytes p may hold.
func (c *gateChannel) checkForBarrier(p []byte, seq int32) {
	id, ok := barrierID(p)
	if ok && c.persister.barrier(id) && id > c.lastBarrier {
		c.lastBarrier, c.barrierSeq = id, seq
	}
}

// beforeBarrier reports whether data with sequence number seq was sent before the noted barrier
// (RemoteInputChannel#shouldBeSpilled). It is wrap-safe.
func (c *gateChannel) beforeBarrier(seq int32) bool {
	const half = (1<<31 - 1) / 2
	switch {
	case c.lastBarrier < 0:
		return true
	case c.barrierSeq > half:
		return seq < c.barrierSeq && seq > 0
	case c.barrierSeq < -half:
		return seq < c.barrierSeq || seq > 0
	}
	return seq < c.barrierSeq
}

// persistArrived hands data that arrived to the checkpoint which waits for the channel's barrier.
func (g *Gate) persistArrived(c *gateChannel, a *Arrival) {
	if c.persister.pending() && g.cfg.Sink != nil {
		g.cfg.Sink.InputData(c.persister.lastSeen, c.index, a.Seq, a.Buf)
	}
}

// CheckpointStarted makes channel ch hand the data that it holds, and what arrives until the barrier, to the sink.
// ErrSubsumed: the channel has seen a newer barrier. (RemoteInputChannel#checkpointStarted)
func (g *Gate) CheckpointStarted(ch int, b *event.Barrier) error {
	c := &g.chans[ch]
	if b.ID < c.lastBarrier {
		return c.error(fmt.Errorf("%w: checkpoint %d, but the channel is at %d", ErrSubsumed, b.ID, c.lastBarrier))
	}
	if b.ID > c.lastBarrier {
		c.forgetBarrier() // an obsolete one
	}
	if err := c.persister.start(b.ID); err != nil {
		return c.error(err)
	}
	if g.cfg.Sink == nil {
		return nil
	}
	var last *queued
	for i := c.q.PriorityLen(); i < c.q.Len(); i++ {
		e := c.q.At(i)
		if !e.buf.Type().IsBuffer() {
			continue
		}
		if !c.beforeBarrier(e.seq) {
			break
		}
		g.cfg.Sink.InputData(b.ID, ch, e.seq, e.buf)
		last = e
	}
	if last != nil && c.subpartitions > 1 {
		m := event.Event{Kind: event.RecoveryMetadata, Subpartition: last.sub}
		g.cfg.Sink.InputData(b.ID, ch, last.seq, segment.Wrap(event.Append(nil, &m), segment.RecoveryMetadata))
	}
	return nil
}

// CheckpointStopped ends what CheckpointStarted began. (RemoteInputChannel#checkpointStopped)
func (g *Gate) CheckpointStopped(ch int, id int64) error {
	c := &g.chans[ch]
	c.persister.stop(id)
	if c.lastBarrier == id {
		c.forgetBarrier()
	}
	return nil
}

// Prioritize makes the barrier with sequence number seq, which is queued in channel ch, a priority event: it overtakes
// the data before it. Its bytes stay as they are. ErrNotQueued: there is no such barrier, it is not the last one that
// came (then also ErrNewerBarrier), its announcement was not read yet, or it has priority already. (RemoteInputChannel#convertToPriorityEvent)
func (g *Gate) Prioritize(ch int, seq int32) error {
	c := &g.chans[ch]
	fail := func(why string) error {
		return c.error(fmt.Errorf("%w: sequence number %d: %s", ErrNotQueued, seq, why))
	}
	if !c.persister.received() {
		return fail("no barrier was received")
	}
	i := 0
	for ; i < c.q.Len() && c.q.At(i).seq != seq; i++ {
	}
	switch {
	case i == c.q.Len():
		return fail("not in the queue")
	case i < c.q.PriorityLen():
		return fail("has priority already")
	case c.lastBarrier >= 0 && c.barrierSeq-seq > 0:
		return c.error(fmt.Errorf("%w: sequence number %d: %w, of checkpoint %d", ErrNotQueued, seq, ErrNewerBarrier, c.lastBarrier))
	case c.lastBarrier < 0 || c.barrierSeq != seq:
		return fail("not the last barrier")
	case c.q.At(i).buf.Type().IsBuffer():
		return fail("not an event")
	}
	e := c.q.At(i)
	e.buf = e.buf.WithType(segment.PrioritizedEvent)
	c.q.Prioritize(i)
	if c.q.PriorityLen() == 1 {
		// Forced: the announcement with the same number was read already, so this one would pass for outdated.
		g.enqueue(c, true, seq, true)
	}
	return nil
}
