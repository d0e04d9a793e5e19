package credit

import (
	"errors"
	"sync/atomic"

	"github.com/weirflow/weir/ringbuf"
	"github.com/weirflow/weir/segment"
	"github.com/weirflow/weir/serde/event"
)

// Upstream takes what a gate has to tell the sender of a channel. It does not block: for a remote channel it posts to
// the loop (GateLink), for a local one it acts on the view. All calls come from the task.
type Upstream interface {
	// Resume lets the sender go on after a blocking event (ResumeConsumption).
	Resume(ch int) error
	// AckAll tells that all records up to the end of data were processed (AckAllUserRecordsProcessed).
	AckAll(ch int)
	// ReleaseChannel gives the channel up (CancelPartitionRequest, or CloseRequest for the last one).
	ReleaseChannel(ch int)
	// AnnounceBufferSize proposes a size for the buffers that the sender opens from now on (NewBufferSize).
	AnnounceBufferSize(ch int, n int32)
}

// Guard says what a gate does with an item from a channel that is blocked, that is, with what a sender sent past its
// barrier although it had to wait. A correct sender never does.
type Guard uint8

// The guards. Flink has none (GuardOff): its snapshot is wrong if a sender misbehaves.
const (
	// GuardHold keeps the item until the channel is resumed. The default.
	GuardHold Guard = iota
	// GuardFail ends the channel with ErrBlocked.
	GuardFail
	// GuardOff hands the item out.
	GuardOff
)

// GateConfig configures a gate.
type GateConfig struct {
	// Channels is the number of channels.
	Channels int
	// Upstream serves all channels that SetUpstream does not give another one. May be nil if it gives all.
	Upstream Upstream
	// Sink takes the in-flight data of unaligned checkpoints; nil: nobody does.
	Sink InputSink
	// Guard is what happens to items that a blocked channel must not have.
	Guard Guard
	// Subpartitions is the number of subpartitions that each channel covers; nil: one each.
	Subpartitions []int
	// Decompress turns a compressed buffer into a plain one and takes over its reference; nil: a compressed buffer is an
	// error of its channel.
	Decompress func(segment.Buffer) (segment.Buffer, error)
}

// Arrival is one item that came for a channel, or the channel's error. It owns a reference on Buf.
type Arrival struct {
	// Channel is the index of the channel in its gate.
	Channel int32
	// Seq is the sequence number, already checked.
	Seq int32
	// Subpartition is the subpartition that Buf belongs to, -1 if unknown.
	Subpartition int32
	// Buf is data or a serialized event; its Type decides.
	Buf segment.Buffer
	// Err ends the channel; Buf is not set then.
	Err error

	cost  int32 // what it counts in GateLink.eventBytes
	local bool  // data of a local channel, whose window it takes up
}

// Item is what a poll hands out.
type Item struct {
	// Channel is the index of the channel in its gate (with a union: in the union).
	Channel int
	// Seq is the item's sequence number.
	Seq int32
	// Subpartition is the subpartition that the item belongs to, -1 if unknown.
	Subpartition int32
	// Type is the data type of the item.
	Type segment.DataType
	// More reports that the gate has more channels with something; MorePriority, that one of them has a priority event.
	More, MorePriority bool
	// Buf is the data; the caller owns it and releases it soon, since its release is the next credit. Zero for events.
	Buf segment.Buffer
	// Event is the event; nil for data. Valid until the next poll.
	Event *event.Event
}

// Status is the outcome of a poll.
type Status uint8

// The outcomes.
const (
	// None: nothing is here now.
	None Status = iota
	// Ready: the item is valid.
	Ready
	// End: every channel has ended; nothing will ever come.
	End
)

// String is the constant's name in lower case.
func (s Status) String() string {
	switch s {
	case None:
		return "none"
	case Ready:
		return "ready"
	case End:
		return "end"
	}
	return "invalid"
}

// EndOfDataStatus says whether all records of a gate were delivered (PullingAsyncDataInput.EndOfDataStatus).
type EndOfDataStatus uint8

// The three statuses.
const (
	// NotEndOfData: some channel may still bring records.
	NotEndOfData EndOfDataStatus = iota
	// Drained: all channels delivered their end of data, and each said drain.
	Drained
	// Stopped: all channels delivered it, and some said no drain.
	Stopped
)

// String is the name of Flink's constant.
func (s EndOfDataStatus) String() string {
	switch s {
	case Drained:
		return "DRAINED"
	case Stopped:
		return "STOPPED"
	}
	return "NOT_END_OF_DATA"
}

// gateSignal is what loops tell the task without a message: on a cache line of its own, since the task reads it at
// every record and loops seldom write it.
type gateSignal struct {
	_        [64]byte
	priority atomic.Bool // a link may hold a priority event
	_        [63]byte
	notifier ringbuf.Notifier // wakes the task
}

// Gate is the task half of an input gate: it holds what arrived for its channels, in order, and hands it out channel by
// channel (SingleInputGate, and of RemoteInputChannel what the task needs). What decides about credit and sequence
// numbers is the loop half (RemoteChannel); a ring (GateLink) carries the items over.
//
// All methods belong to one goroutine, the task's, except those that say otherwise. Nothing allocates in steady state.
type Gate struct {
	cfg   GateConfig
	chans []gateChannel
	ready ringbuf.Deque[int32] // channels that have something, each at most once, those with priority events first
	links []*GateLink
	sig   *gateSignal

	ended       int // channels that delivered their end of partition
	endedData   int // channels that delivered their end of data
	noDrain     bool
	closed      bool
	current     segment.Buffer // bytes of the event handed out last
	event       event.Event
	announced   event.Event
	polledBytes int64
	onReady     func(priority bool) // union: the ready line got its first (priority) member
}

// NewGate makes a gate whose channels are all live and empty.
func NewGate(cfg GateConfig) *Gate {
	g := &Gate{cfg: cfg, chans: make([]gateChannel, cfg.Channels), sig: new(gateSignal)}
	for i := range g.chans {
		c := &g.chans[i]
		c.index, c.up, c.persister = i, cfg.Upstream, newPersister()
		c.subpartitions = 1
		if cfg.Subpartitions != nil {
			c.subpartitions = max(1, cfg.Subpartitions[i])
		}
		c.info.Index = i
		c.forgetBarrier()
	}
	return g
}

// Channels is the number of channels.
func (g *Gate) Channels() int { return len(g.chans) }

// SetUpstream sets who takes what the gate has to tell the sender of channel ch.
func (g *Gate) SetUpstream(ch int, u Upstream) {
	c := &g.chans[ch]
	c.up = u
	c.link, _ = u.(*GateLink)
}

// Recycle releases the buffer of an item of channel ch: what Buffer.Release does, but in batches. A task that releases
// often calls this; the buffers are on their way at the latest with the next Fill or Flush, or a poll that finds nothing.
func (g *Gate) Recycle(ch int, b segment.Buffer) {
	if l := g.chans[ch].link; l != nil && l.releaser != nil {
		l.releaser.Release(b)
		return
	}
	b.Release()
}

// Flush sends on what Recycle gathered. To be called before the task waits for anything.
func (g *Gate) Flush() {
	for _, l := range g.links {
		if l.releaser != nil {
			l.releaser.Flush()
		}
	}
}

// Describe sets the peer, partition and id that errors of channel ch name.
func (g *Gate) Describe(ch int, peer string, partition PartitionID, id ChannelID) {
	g.chans[ch].info = ChannelError{Peer: peer, Partition: partition, Channel: id, Index: ch}
}

// Notifier is what the task sleeps on when a poll says None; loops wake it when they bring something.
func (g *Gate) Notifier() *ringbuf.Notifier { return &g.sig.notifier }

// Queued is the number of items that wait in channel ch.
func (g *Gate) Queued(ch int) int { return g.chans[ch].q.Len() }

// QueuedBytes is the sum of the sizes of what waits in channel ch.
func (g *Gate) QueuedBytes(ch int) int { return g.chans[ch].bytes }

// PolledBytes is the sum of the sizes of all data and events handed out (for throughput).
func (g *Gate) PolledBytes() int64 { return g.polledBytes }

// Available reports whether the gate's own queues hold something, or nothing more will come. Items that still are in
// a link are not counted: see Fill.
func (g *Gate) Available() bool { return g.ready.Len() > 0 || g.ended == len(g.chans) || g.closed }

// HasPriority reports whether a priority event waits, or may wait in a link: one atomic load, meant to be asked before
// each record.
func (g *Gate) HasPriority() bool { return g.sig.priority.Load() }

// Alert makes HasPriority true until the task has looked, and wakes it: something other than a priority event is to come
// before the next record, for instance a timer. Any goroutine.
func (g *Gate) Alert() {
	g.sig.priority.Store(true)
	g.sig.notifier.Wake()
}

// fillBatch is how many arrivals are taken over before their places go back to the loop.
const fillBatch = 32

// Fill takes everything over that the links brought, and returns how many items that were.
func (g *Gate) Fill() int {
	if g.closed {
		return 0 // the loops have taken the links over
	}
	// The flag is cleared first: a loop sets it after it published, so what is published later sets it again.
	if g.sig.priority.Load() {
		g.sig.priority.Store(false)
	}
	n := 0
	for _, l := range g.links {
		l.flushCommands()
		if l.releaser != nil {
			l.releaser.Flush()
		}
		for limit := l.arrivals.Cap(); limit > 0; {
			some, _ := l.arrivals.View()
			if some = some[:min(len(some), fillBatch)]; len(some) == 0 {
				break
			}
			for i := range some {
				g.deliver(&some[i])
			}
			l.arrivals.Consume(len(some))
			n += len(some)
			limit -= len(some)
		}
		if l.full.Load() {
			l.full.Store(false)
			if l.wake != nil {
				l.wake()
			}
		}
	}
	g.keepPriority()
	return n
}

// keepPriority keeps the flag up as long as the ready line has a priority event, so that HasPriority need not look there.
func (g *Gate) keepPriority() {
	if g.ready.PriorityLen() > 0 {
		g.sig.priority.Store(true)
	}
}

// DrainRing is Fill, by the name that checkpoints use: afterwards everything that arrived before the call is in the
// channels' queues, and so in the checkpoint that starts.
func (g *Gate) DrainRing() { g.Fill() }

// Deliver takes over one arrival: it puts the item in its channel's queue, makes an announcement if its type needs one,
// notes barriers, hands data to the checkpoint that waits for the channel's barrier, and puts the channel in the ready
// line. (RemoteInputChannel#onBuffer, without what the loop did.)
func (g *Gate) Deliver(a Arrival) { g.deliver(&a) }

func (g *Gate) deliver(a *Arrival) {
	c := &g.chans[a.Channel]
	if a.Err != nil {
		g.fail(c, a.Err)
		return
	}
	if c.released {
		c.uncount(a.cost)
		a.Buf.Release()
		return
	}
	wasEmpty := c.q.Len() == 0
	t := a.Buf.Type()
	first := false
	if t.HasPriority() {
		first = c.pushPriority(queued{buf: a.Buf, seq: a.Seq, sub: a.Subpartition, cost: a.cost, local: a.local})
	} else {
		c.push(a)
		if t.RequiresAnnouncement() {
			first = c.pushPriority(queued{buf: a.Buf.Retain(), seq: a.Seq, sub: a.Subpartition, announcement: true})
		}
	}
	if t.IsBuffer() {
		g.persistArrived(c, a)
	} else {
		c.checkForBarrier(a.Buf.Bytes(), a.Seq)
	}
	if first {
		g.enqueue(c, true, a.Seq, false)
	}
	if wasEmpty {
		g.enqueue(c, false, 0, false)
	}
}

// fail records the error of a channel: the first one counts. The poll that reaches the channel returns it, with the channel's
// name: one connection's error is that of many channels.
func (g *Gate) fail(c *gateChannel, err error) {
	if c.released || c.err != nil {
		return
	}
	var named *ChannelError
	if !errors.As(err, &named) {
		err = c.error(err)
	}
	c.err = err
	g.enqueue(c, false, 0, false)
}

// enqueue puts a channel in the ready line (SingleInputGate#queueChannel). seq is that of the priority event which is
// the reason; force skips the check whether it was read already.
func (g *Gate) enqueue(c *gateChannel, priority bool, seq int32, force bool) {
	if priority && !force && c.readPriority && outdated(seq, c.lastPriority) {
		return
	}
	if c.ended || c.enqueued && (!priority || c.enqueuedPriority) {
		return
	}
	ch := int32(c.index)
	switch {
	case !priority:
		g.ready.PushBack(ch)
	case c.enqueued:
		g.ready.Prioritize(g.position(ch))
	default:
		g.ready.PushPriority(ch)
	}
	c.enqueued, c.enqueuedPriority = true, priority
	g.keepPriority()
	if g.onReady != nil {
		if priority && g.ready.PriorityLen() == 1 {
			g.onReady(true)
		} else if g.ready.Len() == 1 {
			g.onReady(false)
		}
	}
}

// position is the index of a channel in the ready line, -1 if it is not there.
func (g *Gate) position(ch int32) int {
	for i := range g.ready.Len() {
		if *g.ready.At(i) == ch {
			return i
		}
	}
	return -1
}

// outdated reports whether a priority event with sequence number seq is not newer than the last one that was read
// (SingleInputGate#isOutdated). It is wrap-safe.
func outdated(seq, last int32) bool {
	const half = (1<<31 - 1) / 2
	if (last < 0) != (seq < 0) && max(last, seq) > half {
		return last < 0
	}
	return last >= seq
}
