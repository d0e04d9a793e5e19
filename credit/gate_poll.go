package credit

import (
	"fmt"

	"github.com/weirflow/weir/segment"
	"github.com/weirflow/weir/serde/event"
)

// Poll is PollInto for a caller that does not count copies of an item. The item is zero unless it is Ready.
func (g *Gate) Poll() (it Item, st Status, err error) {
	if st, err = g.PollInto(&it); st != Ready {
		it = Item{}
	}
	return it, st, err
}

// PollInto hands out the next item, which it writes to it: the first one of the first channel in the ready line, which then goes to the line's end
// if it has more. None: nothing is here. End: all channels have ended. An error is the channel's whose turn it was
// (*ChannelError; that channel is not asked again), or ErrGateClosed. The event of an earlier item is invalid from now on.
// Unless it is Ready, what the item holds means nothing. (SingleInputGate#pollNext)
func (g *Gate) PollInto(it *Item) (Status, error) {
	if g.ready.Len() == 0 || g.sig.priority.Load() {
		g.Fill()
	}
	return g.poll(it)
}

// NextIsPriority reports whether the next poll hands out a priority event.
func (g *Gate) NextIsPriority() bool {
	if g.sig.priority.Load() {
		g.Fill()
	}
	return g.ready.PriorityLen() > 0
}

// PollPriority is Poll if a priority event is next, else None.
func (g *Gate) PollPriority() (it Item, st Status, err error) {
	if !g.NextIsPriority() {
		return Item{}, None, nil
	}
	if st, err = g.poll(&it); st != Ready {
		it = Item{}
	}
	return it, st, err
}

func (g *Gate) poll(it *Item) (Status, error) {
	g.dropEvent()
	if g.closed {
		return None, ErrGateClosed
	}
	if g.ended == len(g.chans) {
		return End, nil
	}
	for {
		ch, ok := g.ready.PopFront()
		if !ok {
			return None, nil
		}
		c := &g.chans[ch]
		c.enqueued, c.enqueuedPriority = false, false
		var e queued
		ok, err := g.next(c, &e)
		if err != nil {
			return None, err
		}
		if !ok || c.subpartitions > 1 && c.swallow(&e) {
			continue
		}
		it.Channel, it.Seq, it.Subpartition, it.Type = c.index, e.seq, e.sub, e.dataType()
		g.polledBytes += int64(e.buf.Len())
		if it.Type.IsBuffer() {
			it.Event = nil
			it.Buf, err = g.plain(c, e.buf)
		} else {
			it.Buf = segment.Buffer{}
			it.Event, err = g.decode(c, &e)
		}
		if err != nil {
			return None, err
		}
		it.More, it.MorePriority = g.ready.Len() > 0, g.ready.PriorityLen() > 0
		return Ready, nil
	}
}

// next takes the first item out of a channel, into e, and puts the channel in the line again if it has more. ok is false if
// there is nothing to take.
func (g *Gate) next(c *gateChannel, e *queued) (ok bool, err error) {
	if c.err != nil {
		return false, c.err
	}
	priority := c.q.PriorityLen() > 0
	// A barrier that was made a priority event overtook data which was sent before it: that data may pass.
	if c.blocked && !priority && c.q.Len() > 0 && c.q.Front().seq-c.blockSeq > 0 {
		return false, g.guard(c)
	}
	if !c.pop(e) {
		if c.released {
			return false, c.error(fmt.Errorf("%w: channel polled after its release", ErrReleased))
		}
		return false, nil
	}
	if c.q.Len() > 0 {
		var seq int32
		more := c.q.PriorityLen() > 0
		if more {
			seq = c.q.Front().seq
		}
		// Not subject to the check for outdated ones: this is about what is in the queue.
		g.enqueue(c, more, seq, true)
	}
	if priority {
		c.lastPriority, c.readPriority = e.seq, true
	}
	c.lastSeq = e.seq
	return true, nil
}

// guard is called when the next item of a channel may not be handed out.
func (g *Gate) guard(c *gateChannel) error {
	if g.cfg.Guard == GuardFail {
		c.err = c.error(fmt.Errorf("%w: %s %d", ErrBlocked, c.q.Front().buf.Type(), c.q.Front().seq))
		return c.err
	}
	c.held = true
	return nil
}

// swallow counts the ends of a channel over several subpartitions and reports whether e is one that is not the last.
func (c *gateChannel) swallow(e *queued) bool {
	n := &c.eods
	switch e.buf.Type() {
	case segment.EndOfPartition:
		n = &c.eops
	case segment.EndOfData:
	default:
		return false
	}
	if *n++; *n >= c.subpartitions {
		return false
	}
	e.buf.Release()
	return true
}

// plain decompresses a buffer if it needs that.
func (g *Gate) plain(c *gateChannel, b segment.Buffer) (segment.Buffer, error) {
	if !b.Compressed() {
		return b, nil
	}
	err := ErrNoDecompressor
	if g.cfg.Decompress == nil {
		b.Release()
	} else if b, err = g.cfg.Decompress(b); err == nil {
		return b, nil
	}
	return segment.Buffer{}, g.refuse(c, err)
}

// decode decodes an event and does what the gate has to do about it.
func (g *Gate) decode(c *gateChannel, e *queued) (*event.Event, error) {
	g.current = e.buf
	err := g.decodeInto(e)
	if err == nil {
		switch g.event.Kind {
		case event.EndOfPartition:
			g.endOfPartition(c)
			return &g.event, nil
		case event.EndOfData:
			if !c.endedData {
				c.endedData = true
				g.endedData++
				g.noDrain = g.noDrain || g.event.StopMode != event.Drain
				return &g.event, nil
			}
			err = fmt.Errorf("%w: second %v", ErrBadEvent, g.event.Kind)
		case event.Announcement:
			if e.announcement {
				return &g.event, nil
			}
			err = fmt.Errorf("%w: %v from the sender", ErrBadEvent, g.event.Kind)
		default:
			return &g.event, nil
		}
	}
	return nil, g.refuse(c, err)
}

// refuse ends a channel because of the item just taken from it; the caller reports it, so the line need not again.
func (g *Gate) refuse(c *gateChannel, err error) error {
	c.err = c.error(err)
	g.leave(c)
	return c.err
}

// leave takes a channel out of the ready line.
func (g *Gate) leave(c *gateChannel) {
	if c.enqueued {
		g.ready.Remove(g.position(int32(c.index)))
		c.enqueued, c.enqueuedPriority = false, false
	}
}

func (g *Gate) decodeInto(e *queued) error {
	if !e.announcement {
		return event.Decode(e.buf.Bytes(), &g.event)
	}
	g.event = event.Event{Kind: event.Announcement, Seq: e.seq, Announced: &g.announced}
	if err := event.Decode(e.buf.Bytes(), &g.announced); err != nil {
		return err
	}
	if g.announced.Kind != event.CheckpointBarrier {
		return fmt.Errorf("%w: %v where a barrier is announced", ErrBadEvent, g.announced.Kind)
	}
	return nil
}

// dropEvent gives back the bytes of the event handed out last.
func (g *Gate) dropEvent() {
	if !g.current.IsZero() {
		g.current.Release()
		g.current = segment.Buffer{}
	}
}

// endOfPartition ends a channel: it leaves the line for good and is released.
func (g *Gate) endOfPartition(c *gateChannel) {
	c.ended = true
	g.ended++
	g.leave(c)
	g.Release(c.index)
}

// EndOfData tells whether all channels delivered their end of data, and how.
func (g *Gate) EndOfData() EndOfDataStatus {
	switch {
	case g.endedData < len(g.chans):
		return NotEndOfData
	case g.noDrain:
		return Stopped
	}
	return Drained
}

// Ended reports whether channel ch delivered its end of partition.
func (g *Gate) Ended(ch int) bool { return g.chans[ch].ended }

// Finished reports whether every channel did.
func (g *Gate) Finished() bool { return g.ended == len(g.chans) }

// Release gives up channel ch: what it holds goes back, and its sender is told. A channel that is in the ready line stays
// there, and the poll that reaches it returns ErrReleased. Calls after the first do nothing.
// (RemoteInputChannel#releaseAllResources)
func (g *Gate) Release(ch int) {
	c := &g.chans[ch]
	if c.released {
		return
	}
	if c.up != nil {
		c.up.ReleaseChannel(ch) // before its buffers go back, so that they bring no more credit
	}
	c.release()
}

// usable returns why the sender of a channel cannot be told something, or nil.
func (c *gateChannel) usable() error {
	switch {
	case c.released:
		return c.error(ErrReleased)
	case c.err != nil:
		return c.err
	case c.up == nil:
		return c.error(fmt.Errorf("%w: not requested", ErrReleased))
	}
	return nil
}

// Block marks channel ch as blocked: nothing behind the barrier that was just taken from it may be handed out before
// Resume (see Guard). The sender blocked itself already.
func (g *Gate) Block(ch int) error {
	g.SetBlocked(ch, true)
	return nil
}

// SetBlocked sets or clears the mark of Block alone.
func (g *Gate) SetBlocked(ch int, blocked bool) {
	c := &g.chans[ch]
	c.blocked = blocked && g.cfg.Guard != GuardOff
	c.blockSeq = c.lastSeq
	if c.held && !c.blocked {
		c.held = false
		if c.q.Len() > 0 {
			g.enqueue(c, false, 0, false)
		}
	}
}

// Resume clears the mark of Block and lets the sender of channel ch go on. It must be called exactly once for each
// blocking event taken: one too few stalls the channel, one too many ends the connection. ErrReleased for a channel
// that has been released. (RemoteInputChannel#resumeConsumption)
func (g *Gate) Resume(ch int) error {
	c := &g.chans[ch]
	if err := c.usable(); err != nil {
		return err
	}
	g.SetBlocked(ch, false)
	return c.up.Resume(ch)
}

// ResumeAll resumes every channel that has not ended (SingleInputGate#resumeGateConsumption).
func (g *Gate) ResumeAll() error {
	for i := range g.chans {
		if c := &g.chans[i]; c.ended {
			continue
		}
		if err := g.Resume(i); err != nil {
			return err
		}
	}
	return nil
}

// AckAll tells the sender of channel ch that all its records were processed. (acknowledgeAllRecordsProcessed)
func (g *Gate) AckAll(ch int) error {
	c := &g.chans[ch]
	if err := c.usable(); err != nil {
		return err
	}
	c.up.AckAll(ch)
	return nil
}

// AnnounceBufferSize proposes a buffer size to the senders of all channels that are not released.
func (g *Gate) AnnounceBufferSize(n int32) {
	for i := range g.chans {
		if c := &g.chans[i]; c.usable() == nil {
			c.up.AnnounceBufferSize(i, n)
		}
	}
}

// Close releases all channels. Polls return ErrGateClosed from then on. (SingleInputGate#close)
func (g *Gate) Close() {
	if g.closed {
		return
	}
	g.dropEvent()
	for i := range g.chans {
		g.Release(i)
	}
	g.Fill() // what the links hold goes back, too
	g.closed = true
	for _, l := range g.links {
		if l.releaser != nil {
			l.releaser.Close()
			l.releaser = nil
		}
		// From here on the link is the loop's alone: it drops what still arrives.
		l.closed.Store(true)
		if l.wake != nil {
			l.wake()
		}
	}
	if g.onReady != nil {
		g.onReady(false)
	}
}
