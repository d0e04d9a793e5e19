package credit

import (
	"fmt"

	"github.com/weirflow/weir/ringbuf"
	"github.com/weirflow/weir/segment"
)

// ClientOut is where a ClientCore writes to: a connection, or a recorder.
type ClientOut interface {
	// Stage returns n bytes of the outgoing stream, to be filled before the next call. It works even when Full.
	Stage(n int) []byte
	// Full reports that the connection takes no more for now.
	Full() bool
	// WantFlush asks for a call of WriteIntents at the end of this turn, or once the connection is not Full any more.
	WantFlush()
}

// ClientConfig configures one end of a connection to a server.
type ClientConfig struct {
	// Peer is the server's address, for errors.
	Peer string
	// Out is where messages go.
	Out ClientOut
	// Pool is the loop's receive pool.
	Pool *ReceivePool
	// Policy decides when credit is told; nil: Immediate.
	Policy GrantPolicy
	// Decoder holds the profile and the limits of what is accepted.
	Decoder DecoderConfig
	// Reuse keeps the connection when the last channel goes (the default in Flink): a cancel is sent rather than a close
	// request.
	Reuse bool
	// ListenerTimeout is how long the server waits for a partition to appear, and MaxBackoff half of how long a request is
	// repeated; in the same unit. Zero: a request is never repeated.
	ListenerTimeout, MaxBackoff int64
	// NotFound is told that the partition of a channel is not there. It finds out about the producer, now or later, and
	// then calls ProducerState on the loop. nil: the producer is taken to be running.
	NotFound func(ch *RemoteChannel)
	// Empty is told that the last channel was released; the connection was sent a close request if closing.
	Empty func(closing bool)
}

// intentKind is what a channel has to tell its sender.
type intentKind uint8

const (
	intentCredit intentKind = iota
	intentResume
	intentAck
	intentBufferSize
	intentSegment
)

// intent is one thing that a channel has to tell its sender, once the connection takes it.
type intent struct {
	ch   *RemoteChannel
	kind intentKind
	n    int32
	sub  int32
}

// ClientCore is the receiving end of one connection: it knows the channels on it, takes what the server sends apart,
// and writes what they have to tell. (CreditBasedPartitionRequestClientHandler and NettyPartitionRequestClient.) A state
// machine without I/O, which belongs to the loop:
//
//	Feed(bytes read)   → segments filled, arrivals staged → EndBatch → the gates see them
//	Land, read, Landed → the same, read into the segments
//	GatePort.Poll      → commands and returned buffers    → intents
//	WriteIntents       → frames in Out
type ClientCore struct {
	cfg      ClientConfig
	decoder  *ClientDecoder
	channels channelTable[RemoteChannel]
	last     *RemoteChannel // channel of the message before
	intents  ringbuf.Deque[intent]
	held     []*RemoteChannel // channels whose credit the policy holds back
	dirty    []*GatePort      // ports with staged arrivals
	err      error
	refs     int // channels that use the connection
	closing  bool

	landing landing

	// The message that is arriving.
	cur struct {
		ch     *RemoteChannel
		buf    segment.Buffer // data
		event  []byte
		failed error // why there is no memory for it
	}

	lateCancels int // written for late messages since the connection became full
	outstanding int // credit that the server knows of and has not used, over all channels
	idle        int // of it, that of channels whose senders wait to be resumed
	stats       ClientStats
}

// ClientStats counts what a connection's receiving end did.
type ClientStats struct {
	// Data and Events that arrived whole, for known channels or not, and the payload Bytes of the data.
	Data, Events, Bytes uint64
	// Grants are AddCredit messages sent, Credits the sum of what they granted.
	Grants, Credits uint64
}

// Stats returns what was done so far.
func (c *ClientCore) Stats() ClientStats { return c.stats }

// NewClientCore makes the receiving end of a connection.
func NewClientCore(cfg ClientConfig) *ClientCore {
	if cfg.Policy == nil {
		cfg.Policy = Immediate{}
	}
	return &ClientCore{cfg: cfg, decoder: NewClientDecoder(cfg.Decoder)}
}

// Peer is the server's address.
func (c *ClientCore) Peer() string { return c.cfg.Peer }

// Err is the connection's error, nil while it has none.
func (c *ClientCore) Err() error { return c.err }

// Channels is the number of channels registered.
func (c *ClientCore) Channels() int { return c.channels.len() }

// CreditOutstanding is the number of buffers that the server may send without hearing from here: the sum over all
// channels, less those whose sender waits behind a blocking event. It decides how many bytes a read may wait for.
func (c *ClientCore) CreditOutstanding() int { return c.outstanding - c.idle }

// Pending is the number of messages that wait for the connection to take them.
func (c *ClientCore) Pending() int { return c.intents.Len() }

// Closing reports that the last channel has gone and a close request was sent.
func (c *ClientCore) Closing() bool { return c.closing }

// Request opens a channel: it registers it and sends the partition request with its exclusive units as credit. The error
// is the connection's, if it has one.
func (c *ClientCore) Request(ch *RemoteChannel) error {
	if c.err != nil {
		return c.err
	}
	if c.closing || ch.released || ch.core != nil && ch.core != c {
		return ch.error(fmt.Errorf("%w: requested on a connection that is not its own", ErrReleased))
	}
	ch.core = c
	if !ch.requested {
		ch.requested = true
		c.refs++
	}
	c.channels.put(ch.id, ch)
	c.writeRequest(ch)
	return nil
}

func (c *ClientCore) writeRequest(ch *RemoteChannel) {
	c.setOutstanding(ch, ch.ledger.initial)
	AppendPartitionRequest(c.cfg.Out.Stage(FrameHeaderLen + 88)[:0],
		&PartitionRequest{Partition: ch.partition, Range: ch.subs, Receiver: ch.id, Credit: ch.ledger.initial})
	c.cfg.Out.WantFlush()
}

// setOutstanding keeps the sum over all channels.
func (c *ClientCore) setOutstanding(ch *RemoteChannel, n int32) {
	c.outstanding += int(n - ch.outstanding)
	if ch.blocked {
		c.idle += int(n - ch.outstanding)
	}
	ch.outstanding = n
}

// setBlocked notes whether a channel's sender waits to be resumed: its credit brings nothing meanwhile.
func (c *ClientCore) setBlocked(ch *RemoteChannel, blocked bool) {
	if ch.blocked == blocked {
		return
	}
	ch.blocked = blocked
	if blocked {
		c.idle += int(ch.outstanding)
	} else {
		c.idle -= int(ch.outstanding)
	}
}

// TaskEvent sends an event to the producer of a channel's partition.
func (c *ClientCore) TaskEvent(ch *RemoteChannel, event []byte) error {
	if c.err != nil {
		return c.err
	}
	n := FrameHeaderLen + 4 + len(event) + len(ch.partition) + len(ch.id)
	AppendTaskEventRequest(c.cfg.Out.Stage(n)[:0], event, &ch.partition, ch.id)
	c.cfg.Out.WantFlush()
	return nil
}

// RequestSegment asks a tiered sender for a segment of a subpartition.
func (c *ClientCore) RequestSegment(ch *RemoteChannel, subpartition, segmentID int32) {
	if c.err == nil && !ch.released {
		c.post(intent{ch: ch, kind: intentSegment, sub: subpartition, n: segmentID})
	}
}

// cancel tells the server that a receiver is gone; at once, whether the connection is full or not.
func (c *ClientCore) cancel(id ChannelID) {
	AppendCancelPartitionRequest(c.cfg.Out.Stage(FrameHeaderLen + len(id))[:0], id)
	c.cfg.Out.WantFlush()
}

// released is called when a channel is given up.
func (c *ClientCore) released(ch *RemoteChannel) {
	c.setOutstanding(ch, 0)
	if c.last == ch {
		c.last = nil
	}
	if c.channels.get(&ch.id) == ch {
		c.channels.remove(ch.id)
	}
	if ch.requested {
		ch.requested = false
		c.refs--
	}
	if c.err == nil {
		if c.refs == 0 && !c.cfg.Reuse {
			c.closing = true
			AppendCloseRequest(c.cfg.Out.Stage(FrameHeaderLen)[:0])
			c.cfg.Out.WantFlush()
		} else {
			c.cancel(ch.id)
		}
	}
	if c.refs == 0 && c.cfg.Empty != nil {
		c.cfg.Empty(c.closing)
	}
}

// Fail ends the connection: every channel on it gets the error, what waits to be written is dropped, and what was
// arriving is given back. Only the first error counts. The caller closes the socket.
func (c *ClientCore) Fail(err error) {
	if c.err != nil {
		return
	}
	if ce, ok := err.(*ConnError); ok {
		c.err = ce
	} else {
		c.err = &ConnError{Peer: c.cfg.Peer, Err: err}
	}
	if !c.cur.buf.IsZero() {
		c.cur.buf.Release()
	}
	c.cur.ch, c.cur.buf, c.cur.event = nil, segment.Buffer{}, nil
	for ch := range c.channels.values() {
		c.channels.remove(ch.id)
		c.setOutstanding(ch, 0)
		ch.fail(c.err)
		c.touch(ch.port)
	}
	c.last = nil
	c.intents.Clear(func(i intent) { i.ch.creditPosted = i.ch.creditPosted && i.kind != intentCredit })
	c.held = c.held[:0]
	c.EndBatch()
}

// post puts an intent in the queue.
func (c *ClientCore) post(i intent) {
	if c.err != nil {
		return
	}
	if c.intents.Len() == 0 {
		c.cfg.Out.WantFlush()
	}
	if i.kind != intentCredit && i.ch.ledger.unannounced > 0 && !i.ch.creditPosted {
		c.postCredit(i.ch) // held back so far: a channel's messages keep their order
	}
	c.intents.PushBack(i)
}

func (c *ClientCore) postCredit(ch *RemoteChannel) {
	ch.creditPosted = true
	c.post(intent{ch: ch, kind: intentCredit})
}

// grant plans the telling of a channel's credit, or holds it back.
func (c *ClientCore) grant(ch *RemoteChannel) {
	switch l := &ch.ledger; {
	case c.cfg.Policy.Grant(l.unannounced, ch.outstanding, l.Window()):
		c.postCredit(ch)
	case !ch.heldListed:
		ch.heldListed = true
		c.held = append(c.held, ch)
	}
}

// regrant looks again at what the policy holds back, after the sender has used up credit.
func (c *ClientCore) regrant(ch *RemoteChannel) {
	l := &ch.ledger
	if l.unannounced > 0 && !ch.creditPosted && c.cfg.Policy.Grant(l.unannounced, ch.outstanding, l.Window()) {
		c.postCredit(ch)
	}
}

// FlushGrants plans the telling of all credit that the policy held back.
func (c *ClientCore) FlushGrants() {
	for _, ch := range c.held {
		ch.heldListed = false
		if ch.ledger.unannounced > 0 && !ch.creditPosted && ch.err == nil && !ch.released {
			c.postCredit(ch)
		}
	}
	c.held = c.held[:0]
}

// WriteIntents writes what channels have to tell, in the order in which it came up, until the connection is full. It
// reports whether everything was written. To be called at the end of a turn and when the connection can take more.
func (c *ClientCore) WriteIntents() (all bool) {
	out := c.cfg.Out
	for c.intents.Len() > 0 {
		if c.err != nil || out.Full() {
			return c.err != nil
		}
		i, _ := c.intents.PopFront()
		ch := i.ch
		if i.kind == intentCredit {
			ch.creditPosted = false
		}
		if ch.released {
			continue
		}
		const idOnly, withNumber = FrameHeaderLen + 16, FrameHeaderLen + 20
		switch i.kind {
		case intentCredit:
			if n := ch.ledger.TakeUnannounced(); n > 0 {
				c.setOutstanding(ch, ch.outstanding+n)
				AppendAddCredit(out.Stage(withNumber)[:0], ch.id, n)
				c.stats.Grants++
				c.stats.Credits += uint64(n)
			}
		case intentResume:
			c.setBlocked(ch, false)
			if ch.ledger.initial == 0 {
				c.setOutstanding(ch, 0) // the sender forgets its credit
			}
			AppendResumeConsumption(out.Stage(idOnly)[:0], ch.id)
		case intentAck:
			AppendAckAllUserRecordsProcessed(out.Stage(idOnly)[:0], ch.id)
		case intentBufferSize:
			AppendNewBufferSize(out.Stage(withNumber)[:0], ch.id, i.n)
		case intentSegment:
			AppendSegmentID(out.Stage(FrameHeaderLen + 24)[:0], ch.id, i.sub, i.n)
		}
	}
	return true
}

// touch notes that a port may have staged arrivals.
func (c *ClientCore) touch(p *GatePort) {
	if p.dirty && !p.listed {
		p.listed = true
		c.dirty = append(c.dirty, p)
	}
}

// EndBatch lets the gates see what was staged since the last call.
func (c *ClientCore) EndBatch() {
	for i, p := range c.dirty {
		p.Publish()
		c.dirty[i] = nil
	}
	c.dirty = c.dirty[:0]
}
