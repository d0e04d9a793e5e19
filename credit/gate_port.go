package credit

import (
	"fmt"

	"github.com/weirflow/weir/ringbuf"
	"github.com/weirflow/weir/segment"
)

// GatePort is the loop half of a gate: its channels on one loop, the floating credit that they share, and the loop's end
// of the link to the task. It belongs to the loop and is one of its sources: Poll at the start of each turn.
type GatePort struct {
	link     *GateLink
	pool     *ReceivePool
	budget   FloatBudget
	locals   []*LocalChannel  // by index in the gate
	pumps    []*LocalChannel  // local channels to look at
	channels []*RemoteChannel // by index in the gate; nil: none, not here, or gone
	live     int              // channels whose segments may not all be home
	late     ringbuf.Deque[Arrival]

	maxEventBytes int64

	dirty    bool // staged since the last publish
	listed   bool // a ClientCore will publish it
	priority bool // and a priority event among it
	closed   bool
}

// DefaultMaxEventBytes limits the events of a gate that wait on their way to the task.
const DefaultMaxEventBytes = 16 << 20

// eventCost is what an event counts beyond its bytes.
const eventCost = 64

// GatePortConfig configures the loop half of a gate.
type GatePortConfig struct {
	// Link belongs to the gate; Pool to the loop.
	Link *GateLink
	Pool *ReceivePool
	// Floating is the number of buffers that the gate's channels on this loop share. As many segments are reserved.
	Floating int
	// MaxEventBytes limits the events that the task has not taken. Events need no credit, so that nothing else holds back a
	// peer that sends nothing but events; the channel that exceeds the limit fails. 0: DefaultMaxEventBytes.
	MaxEventBytes int
}

// NewGatePort makes the loop half of a gate. To be called before the gate is used. A *segment.TooFewError says that there
// are not enough segments.
func NewGatePort(cfg GatePortConfig) (*GatePort, error) {
	if cfg.Floating < 0 {
		return nil, fmt.Errorf("credit: %d floating buffers", cfg.Floating)
	}
	if err := cfg.Pool.reserve(cfg.Floating); err != nil {
		return nil, err
	}
	p := &GatePort{link: cfg.Link, pool: cfg.Pool, maxEventBytes: int64(cfg.MaxEventBytes)}
	if p.maxEventBytes <= 0 {
		p.maxEventBytes = DefaultMaxEventBytes
	}
	p.budget.Init(int32(cfg.Floating), func(l *Ledger, n int32) { l.owner.announce(n) })
	cfg.Link.releaser = cfg.Pool.local.NewReleaser()
	return p, nil
}

// NewChannel makes a channel and reserves its exclusive segments. ClientCore.Request then opens it.
func (p *GatePort) NewChannel(cfg RemoteConfig) (*RemoteChannel, error) {
	if cfg.Index < 0 || cfg.Exclusive < 0 || !cfg.Range.Valid() {
		return nil, fmt.Errorf("credit: channel %d over subpartitions %s with %d exclusive buffers", cfg.Index, cfg.Range, cfg.Exclusive)
	}
	for len(p.channels) <= cfg.Index {
		p.channels = append(p.channels, nil)
	}
	if p.closed || p.channels[cfg.Index] != nil || cfg.Index < len(p.locals) && p.locals[cfg.Index] != nil {
		return nil, fmt.Errorf("credit: channel %d exists", cfg.Index)
	}
	if err := p.pool.reserve(cfg.Exclusive); err != nil {
		return nil, err
	}
	c := &RemoteChannel{port: p, id: cfg.ID, partition: cfg.Partition, subs: cfg.Range, index: int32(cfg.Index)}
	c.ledger.owner = c
	c.ledger.Init(int32(cfg.Exclusive), &p.budget)
	p.pool.add(c)
	if c.id.IsZero() {
		c.id = NewChannelID()
		setChannelNumber(&c.id, c.slot) // see channelTable
	}
	p.channels[cfg.Index] = c
	p.live++
	return c, nil
}

// Channel is the channel with an index in the gate; nil if it is not on this loop, or gone.
func (p *GatePort) Channel(index int) *RemoteChannel {
	if index < 0 || index >= len(p.channels) {
		return nil
	}
	return p.channels[index]
}

// Budget is the floating credit of the gate's channels.
func (p *GatePort) Budget() *FloatBudget { return &p.budget }

// Poll does what the task asked for and takes in the buffers that came back. It reports whether there was anything.
// It is a netio.Source.
func (p *GatePort) Poll() bool {
	worked := false
	// Commands first: a release must be known before the buffers that come back because of it.
	for {
		c, ok := p.link.commands.Pop()
		if !ok {
			break
		}
		worked = true
		p.do(c)
	}
	if p.link.closed.Load() {
		p.closeAll()
		p.drop()
	}
	if p.pool.Poll() {
		worked = true
	}
	if len(p.pumps) > 0 {
		worked = true
		p.pump()
	}
	switch {
	case p.late.Len() > 0 || p.dirty:
		p.Publish()
	case worked:
		p.link.wanted.Store(p.budget.wanted)
	}
	return worked
}

// pump looks at the local channels that have something, or may have.
func (p *GatePort) pump() {
	for i := 0; i < len(p.pumps); i++ { // it may grow meanwhile
		l := p.pumps[i]
		p.pumps[i] = nil
		l.listed = false
		l.pump()
	}
	p.pumps = p.pumps[:0]
}

// do carries one command out. Commands for a channel that is released or was never requested are dropped.
func (p *GatePort) do(c command) {
	if i := int(c.channel); i < len(p.locals) && p.locals[i] != nil {
		p.locals[i].do(c)
		return
	}
	ch := p.Channel(int(c.channel))
	if ch == nil || ch.released {
		return
	}
	if c.kind == cmdRelease {
		p.release(ch)
		return
	}
	if ch.core == nil || ch.err != nil {
		return
	}
	switch c.kind {
	case cmdResume:
		ch.ledger.OnResume()
		ch.core.post(intent{ch: ch, kind: intentResume})
	case cmdAck:
		ch.core.post(intent{ch: ch, kind: intentAck})
	case cmdBufferSize:
		ch.core.post(intent{ch: ch, kind: intentBufferSize, n: c.n})
	}
}

// release gives a channel up: its free credit, its place at the connection, and its sender is told.
func (p *GatePort) release(c *RemoteChannel) {
	c.released = true
	if c.core != nil {
		c.core.released(c)
	}
	c.ledger.Release()
	if c.charged == 0 {
		p.forget(c)
	}
}

// forget drops a released channel whose segments are all home.
func (p *GatePort) forget(c *RemoteChannel) {
	p.channels[c.index] = nil
	p.pool.remove(c)
	p.live--
	_ = p.pool.reserve(-int(c.ledger.initial)) // giving up never fails
	p.maybeGone()
}

// Close ends the port: channels that the task did not release are released. The floating segments are given up once all
// segments are home. A port whose gate was closed closes itself in Poll.
func (p *GatePort) Close() {
	if !p.closed {
		p.Poll()
		p.closeAll()
	}
}

func (p *GatePort) closeAll() {
	if p.closed {
		return
	}
	p.closed = true
	for _, c := range p.channels {
		if c != nil && !c.released {
			p.release(c)
		}
	}
	for _, l := range p.locals {
		if l != nil {
			l.release()
		}
	}
	if p.live == 0 {
		p.maybeGone()
	}
}

// drop gives back what is on its way to a gate that was closed.
func (p *GatePort) drop() {
	p.link.arrivals.Publish()
	for {
		p.pushLate()
		a, ok := p.link.arrivals.Pop()
		if !ok {
			return
		}
		if a.cost > 0 {
			p.link.eventBytes.Add(-int64(a.cost))
		}
		a.Buf.Release()
	}
}

// maybeGone gives up the floating segments of a closed port.
func (p *GatePort) maybeGone() {
	if p.closed && p.live == 0 && p.budget.limit > 0 {
		_ = p.pool.reserve(-int(p.budget.limit))
		p.budget.limit = 0
	}
}

// admit reports whether another event of n bytes may go to the task, and counts it.
func (p *GatePort) admit(n int) bool {
	cost := int64(n) + eventCost
	if p.link.eventBytes.Add(cost) > p.maxEventBytes {
		p.link.eventBytes.Add(-cost)
		return false
	}
	return true
}

// stage puts an arrival of type t on its way to the task, for the caller to write where it lies, at once: it is the zero value.
// Publish lets the task see it.
func (p *GatePort) stage(t segment.DataType) *Arrival {
	if t.HasPriority() || t.RequiresAnnouncement() {
		p.priority = true
	}
	p.dirty = true
	if p.late.Len() == 0 {
		if a := p.link.arrivals.StageSlot(); a != nil {
			return a
		}
	}
	return p.late.Append()
}

// Publish lets the task see everything that was staged, and wakes it if it sleeps.
func (p *GatePort) Publish() {
	l := p.link
	l.arrivals.Publish()
	p.pushLate()
	if p.late.Len() > 0 {
		l.full.Store(true)
		p.pushLate() // the task may have made room just before it could see the flag
	}
	l.wanted.Store(p.budget.wanted)
	if p.priority {
		// After the items themselves: who sees the flag finds them. See Gate.Fill.
		l.sig.priority.Store(true)
		p.priority = p.late.Len() > 0
	}
	p.dirty, p.listed = false, false
	l.sig.notifier.Wake()
}

// pushLate moves arrivals that found no room to the ring, and lets the task see them, all at once.
func (p *GatePort) pushLate() {
	if p.late.Len() == 0 {
		return
	}
	for p.late.Len() > 0 {
		slot := p.link.arrivals.StageSlot()
		if slot == nil {
			break
		}
		*slot, _ = p.late.PopFront()
	}
	p.link.arrivals.Publish() // the ring is never closed
}
