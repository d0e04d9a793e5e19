package credit

import (
	"fmt"

	"github.com/weirflow/weir/segment"
)

// RemoteConfig describes a channel to a partition on another machine.
type RemoteConfig struct {
	// Index is the channel's index in its gate.
	Index int
	// ID is its id on the wire; zero: drawn at random.
	ID ChannelID
	// Partition and Range are what it consumes.
	Partition PartitionID
	Range     SubpartitionRange
	// Exclusive is its initial credit: the number of buffers that belong to it.
	Exclusive int
}

// RemoteChannel is the loop half of one channel to another machine: its credit, its place in the stream of sequence
// numbers, what was asked of the sender (RemoteInputChannel without its queue, which is the task's). It belongs to the
// loop, and is driven by the ClientCore of its connection and by the GatePort of its gate.
type RemoteChannel struct {
	ledger Ledger
	port   *GatePort
	core   *ClientCore // nil until requested
	slot   uint32      // in the receive pool

	id          ChannelID
	partition   PartitionID
	subs        SubpartitionRange
	index       int32
	expected    int32 // sequence number of the next message
	outstanding int32 // credit that the sender knows of and has not used
	charged     int32 // segments that are not home
	err         error
	backoff     requestBackoff

	creditPosted bool // an intent to tell credit is in the queue
	heldListed   bool // in the connection's list of credit that the policy held back
	released     bool
	requested    bool // counts in the connection's references
	blocked      bool // the sender waits behind a blocking event
}

// ID is the channel's id on the wire.
func (c *RemoteChannel) ID() ChannelID { return c.id }

// Partition is the partition that the channel consumes.
func (c *RemoteChannel) Partition() PartitionID { return c.partition }

// Subpartitions are those of the partition that it consumes.
func (c *RemoteChannel) Subpartitions() SubpartitionRange { return c.subs }

// Index is the channel's index in its gate.
func (c *RemoteChannel) Index() int { return int(c.index) }

// Ledger is the channel's credit, to look at.
func (c *RemoteChannel) Ledger() *Ledger { return &c.ledger }

// Outstanding is the credit that the sender knows of and has not used, as far as is known here.
func (c *RemoteChannel) Outstanding() int { return int(c.outstanding) }

// Unread is the number of segments that hold data of the channel: they arrived, and were not given back.
func (c *RemoteChannel) Unread() int { return int(c.charged) }

// Err is the channel's error, nil as long as it has none.
func (c *RemoteChannel) Err() error { return c.err }

// Released reports whether the channel was released.
func (c *RemoteChannel) Released() bool { return c.released }

// SetNextSeq sets the sequence number that the next message must have (for tests of the wrap-around).
func (c *RemoteChannel) SetNextSeq(seq int32) { c.expected = seq }

// announce tells the sender of n units of credit, as the policy allows. A channel with an error stays silent: whoever
// gave the buffer back is not to blame.
func (c *RemoteChannel) announce(n int32) {
	c.ledger.Announce(n)
	if n <= 0 || c.err != nil || c.released || c.core == nil || c.creditPosted {
		return
	}
	c.core.grant(c)
}

// returned un-charges a unit: one of the channel's segments came home.
func (c *RemoteChannel) returned(kind CreditKind) {
	c.charged--
	c.announce(c.ledger.Return(kind))
	if c.released && c.charged == 0 {
		c.port.forget(c)
	}
}

// onBacklog handles what the sender still holds.
func (c *RemoteChannel) onBacklog(backlog int32) { c.announce(c.ledger.OnBacklog(backlog)) }

// fail records the channel's error and brings it to the task. The first one counts.
func (c *RemoteChannel) fail(err error) {
	if c.err != nil || c.released {
		return
	}
	c.err = err
	a := c.port.stage(segment.None)
	a.Channel, a.Err = c.index, err
}

// error wraps an error of this channel.
func (c *RemoteChannel) error(err error) error {
	e := &ChannelError{Partition: c.partition, Channel: c.id, Index: int(c.index), Err: err}
	if c.core != nil {
		e.Peer = c.core.cfg.Peer
	}
	return e
}

// checkSeq fails the channel if a message with sequence number seq is not the one that must come next.
func (c *RemoteChannel) checkSeq(seq int32) bool {
	if seq != c.expected {
		c.fail(c.error(fmt.Errorf("%w: expected %d, but received %d", ErrReordered, c.expected, seq)))
		return false
	}
	return true
}

// onEmpty handles a data message without bytes: only its number and its backlog count. Its credit came back already.
// (RemoteInputChannel#onEmptyBuffer)
func (c *RemoteChannel) onEmpty(h *BufferHeader) {
	if c.checkSeq(h.Seq) {
		c.expected++
		c.onBacklog(h.Backlog)
	}
}

// onBuffer handles a message that is complete; it takes over b. (RemoteInputChannel#onBuffer)
func (c *RemoteChannel) onBuffer(h *BufferHeader, b segment.Buffer) {
	if !c.checkSeq(h.Seq) {
		b.Release()
		return
	}
	event := !h.Type.IsBuffer()
	if event && !c.port.admit(b.Len()) {
		c.fail(c.error(fmt.Errorf("%w: limit %d bytes", ErrTooManyEvents, c.port.maxEventBytes)))
		b.Release()
		return
	}
	if h.Type.BlocksUpstream() {
		c.ledger.OnBlocking()
		c.core.setBlocked(c, true)
		if h.Backlog != 0 {
			c.port.link.eventBytes.Add(-int64(b.Len()) - eventCost)
			c.fail(c.error(fmt.Errorf("%w: %s with backlog %d", ErrBlockingBacklog, h.Type, h.Backlog)))
			b.Release()
			return
		}
	}
	cost := int32(0)
	if event {
		cost = int32(b.Len()) + eventCost
	}
	if h.Partial <= 0 {
		c.arrive(h, h.Seq, h.Subpartition, b, cost)
	} else {
		// Several buffers in one message: views of the segment, which goes home, once, after the last of them and the loop
		// have let go of it. That is also the only credit they cost.
		off := 0
		for i, n := range h.PartialSizes {
			c.arrive(h, h.Seq+int32(i), -1, b.Slice(off, int(n)), cost)
			cost = 0 // counted with the first
			off += int(n)
		}
		b.Release()
	}
	c.expected += h.Numbers()
	c.onBacklog(h.Backlog)
}

// arrive brings one buffer or event of a message to the task.
func (c *RemoteChannel) arrive(h *BufferHeader, seq, sub int32, b segment.Buffer, cost int32) {
	a := c.port.stage(h.Type)
	a.Channel, a.Seq, a.Subpartition, a.cost = c.index, seq, sub, cost
	a.Buf = b.WithType(h.Type).WithCompressed(h.Compressed)
}

// requestBackoff decides how often a request is repeated while its partition is not there: each time it was the sender
// that waited, for its listener timeout (RemoteInputChannel#increaseBackoff).
type requestBackoff struct{ waited int64 }

// again reports whether another request may be sent. timeout is the sender's listener timeout, limit the largest
// backoff of requests, in the same unit. Without a timeout a request is never repeated.
func (b *requestBackoff) again(timeout, limit int64) bool {
	if timeout <= 0 {
		return false
	}
	b.waited += timeout
	return b.waited < 2*limit
}
