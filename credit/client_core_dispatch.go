package credit

import (
	"errors"
	"fmt"

	"github.com/weirflow/weir/segment"
)

// ErrRemote: the server reported an error of the whole connection (RemoteTransportException).
var ErrRemote = errors.New("error at the server")

var _ ClientHandler = (*ClientCore)(nil)

// Feed decodes bytes that came from the server and lets the gates see what they brought. p is not kept. An error ends the
// connection: the core has told all channels when Feed returns it, and the caller closes the socket.
func (c *ClientCore) Feed(p []byte) error {
	if c.err != nil {
		return c.err
	}
	if err := c.decoder.Feed(p, c); err != nil {
		c.Fail(err)
		return c.err
	}
	c.EndBatch()
	return nil
}

// EndOfStream tells the core that the server closed the connection.
func (c *ClientCore) EndOfStream() {
	err := errors.New("connection closed by the server")
	if c.decoder.InFrame() {
		err = errors.New("connection closed by the server in the middle of a message")
	}
	c.Fail(err)
}

// lookup finds the channel with an id; nil: unknown or released.
func (c *ClientCore) lookup(id *ChannelID) *RemoteChannel {
	if c.last != nil && c.last.id == *id {
		return c.last
	}
	ch := c.channels.get(id)
	if ch != nil {
		c.last = ch
	}
	return ch
}

// OnBufferHeader finds memory for the payload: for data a segment, charged to the channel, for an event some bytes of the
// heap. It is part of ClientHandler.
func (c *ClientCore) OnBufferHeader(h *BufferHeader) (dst []byte, ok bool) {
	ch := c.lookup(&h.Receiver)
	c.cur.ch = ch
	if ch == nil || ch.err != nil {
		return nil, false
	}
	if !h.Type.IsBuffer() {
		c.cur.event = c.cfg.Pool.events.take(int(h.Size))
		return c.cur.event, true
	}
	kind, ok := ch.ledger.Take()
	if !ok {
		if h.Size > 0 {
			c.cur.failed = ErrNoBuffer
		}
		return nil, false
	}
	c.setOutstanding(ch, ch.outstanding-1)
	if ch.heldListed {
		c.regrant(ch)
	}
	if h.Size == 0 {
		// It comes straight back, even if its number turns out wrong.
		ch.announce(ch.ledger.Return(kind))
		return nil, false
	}
	if b, ok := c.landing.accept(int(h.Size)); ok {
		c.cur.buf = c.cfg.Pool.charge(b, ch, kind)
	} else if c.cur.buf, c.cur.failed = c.cfg.Pool.take(ch, kind); c.cur.failed != nil {
		ch.announce(ch.ledger.Return(kind))
		return nil, false
	}
	ch.charged++
	return c.cur.buf.Memory(), true
}

// OnBufferDone hands the message to its channel. It is part of ClientHandler.
func (c *ClientCore) OnBufferDone(h *BufferHeader) error {
	if h.Type.IsBuffer() {
		c.stats.Data++
		c.stats.Bytes += uint64(h.Size)
		if c.landing.last = int(h.Size); h.Partial > 0 {
			c.landing.last = 0 // their sizes come before them: nobody knows where the next payload begins
		}
	} else {
		c.stats.Events++
	}
	cur := c.cur
	c.cur.ch, c.cur.buf, c.cur.event, c.cur.failed = nil, segment.Buffer{}, nil, nil
	ch := cur.ch
	switch {
	case ch == nil, ch.released:
		c.cancelAgain(h.Receiver)
	case ch.err != nil: // drained
	case cur.failed != nil:
		ch.fail(ch.error(fmt.Errorf("%w: sequence number %d", cur.failed, h.Seq)))
	case h.Type.IsBuffer() && h.Size == 0:
		ch.onEmpty(h)
	case h.Type.IsBuffer():
		ch.onBuffer(h, cur.buf.Resized(int(h.Size)))
		cur.buf = segment.Buffer{}
	default:
		ch.onBuffer(h, segment.Wrap(cur.event, h.Type))
	}
	if !cur.buf.IsZero() {
		cur.buf.Release()
	}
	if ch != nil {
		c.touch(ch.port)
	}
	return nil
}

// maxLateCancels bounds the cancels for late messages that wait in a connection that is full.
const maxLateCancels = 1024

// cancelAgain tells the server once more that nobody has this channel, whether the connection is full or not. A server that
// sends on and does not read gets no more of these than maxLateCancels. (Flink knows no bound.)
func (c *ClientCore) cancelAgain(id ChannelID) {
	if !c.cfg.Out.Full() {
		c.lateCancels = 0
	} else if c.lateCancels++; c.lateCancels > maxLateCancels {
		return
	}
	c.cancel(id)
}

// OnBacklogAnnouncement is part of ClientHandler.
func (c *ClientCore) OnBacklogAnnouncement(receiver ChannelID, backlog int32) error {
	ch := c.lookup(&receiver)
	if ch == nil {
		c.cancelAgain(receiver)
		return nil
	}
	ch.onBacklog(backlog)
	return nil
}

// OnErrorResponse is part of ClientHandler.
func (c *ClientCore) OnErrorResponse(e *ErrorResponse) error {
	if e.Fatal {
		return &ConnError{Peer: c.cfg.Peer, Err: fmt.Errorf("%w: %w", ErrRemote, e.Cause)}
	}
	ch := c.lookup(&e.Receiver)
	switch {
	case ch == nil:
	case !errors.Is(e.Cause, ErrPartitionNotFound):
		ch.fail(ch.error(fmt.Errorf("%w: %w", ErrRemote, e.Cause)))
	case c.cfg.NotFound != nil:
		c.cfg.NotFound(ch)
	default:
		c.Retrigger(ch)
	}
	if ch != nil {
		c.touch(ch.port)
	}
	return nil
}

// Retrigger sends a channel's partition request again, after its partition was not found, unless that has been tried for
// long enough: then the channel fails with ErrPartitionNotFound. (RemoteInputChannel#retriggerSubpartitionRequest)
func (c *ClientCore) Retrigger(ch *RemoteChannel) {
	if c.err != nil || ch.released || ch.err != nil {
		return
	}
	if !ch.backoff.again(c.cfg.ListenerTimeout, c.cfg.MaxBackoff) {
		ch.fail(ch.error(ErrPartitionNotFound))
		ch.port.Publish()
		return
	}
	c.writeRequest(ch)
}

// ProducerState is what is known of a channel's producer (ExecutionState, and how it was found out).
type ProducerState uint8

// The states that make a difference.
const (
	// ProducerRunning: it is scheduled, deploying, initializing, running or finished; or nobody could tell in time.
	ProducerRunning ProducerState = iota
	// ProducerGone: it is canceling, canceled or failed, or was disposed: the consumer has nothing to wait for.
	ProducerGone
	// ProducerUnknown: nobody knows of it.
	ProducerUnknown
)

// ProducerState answers ClientConfig.NotFound: with a running producer the request is sent again, otherwise the channel
// fails: with ErrProducerFailed if the producer is gone, else ErrPartitionNotFound. (RemoteChannelStateChecker)
func (c *ClientCore) ProducerState(ch *RemoteChannel, s ProducerState) {
	switch s {
	case ProducerRunning:
		c.Retrigger(ch)
		return
	case ProducerGone:
		ch.fail(ch.error(fmt.Errorf("%w: gone before its partition was there", ErrProducerFailed)))
	default:
		ch.fail(ch.error(ErrPartitionNotFound))
	}
	ch.port.Publish()
}
