package credit

import (
	"errors"
	"fmt"

	"github.com/weirflow/weir/segment"
)

// ReceivePool is a loop's stack of segments for what arrives, and the table that tells whose credit comes back with a
// segment. All channels of all gates on the loop share it: empty segments belong to nobody, and the one that came home
// last is filled next. It belongs to the loop.
//
// Invariant: the segments that are free here are at least as many as all ledgers have free units. So a message whose
// credit the ledger finds always finds a segment.
type ReceivePool struct {
	local    *segment.LocalPool
	slots    []*RemoteChannel // by the slot in a tag; slot 0 is nobody
	free     []uint32         // slots without a channel
	capacity int              // segments
	reserved int              // of them, promised to channels and gates
	name     string
	events   eventArena
}

// Tag of a segment: slot of the channel and kind of credit.
func makeTag(slot uint32, kind CreditKind) uint32 { return slot<<1 | uint32(kind) }

// ReceivePoolConfig configures the receive pool of a loop.
type ReceivePoolConfig struct {
	// Name names the pool in errors and reports.
	Name string
	// Segments is the sum of what all gates and channels on the loop can reserve: GatePorts their floating buffers, channels
	// their exclusive ones.
	Segments int
	// Wake wakes the loop when a segment was returned by another goroutine; it must be cheap if the loop is awake. nil: the
	// loop looks by itself.
	Wake func()
}

// NewReceivePool makes the pool of a loop. Its segments are taken out of pool at once. The error is a
// *segment.TooFewError if it does not have them.
func NewReceivePool(pool *segment.Pool, cfg ReceivePoolConfig) (*ReceivePool, error) {
	n := max(cfg.Segments, 1) // a local pool has at least one
	p := &ReceivePool{slots: make([]*RemoteChannel, 1), capacity: n, name: cfg.Name}
	local, err := pool.NewLocal(segment.LocalConfig{
		Name: cfg.Name, Purpose: segment.Receive, Required: n, OnReturn: p.onReturn, Wake: cfg.Wake})
	if err != nil {
		return nil, err
	}
	p.local = local
	// What is guaranteed may still be lent to other pools. Credit must stand for segments that are here.
	bufs := make([]segment.Buffer, 0, n)
	for len(bufs) < n {
		b, ok := local.Take()
		if !ok {
			err = &segment.TooFewError{Name: cfg.Name, Wanted: n, Available: len(bufs), Total: pool.Segments(),
				SegmentSize: pool.SegmentSize(), Setting: "segment.Config.Segments"}
			break
		}
		bufs = append(bufs, b)
	}
	for _, b := range bufs {
		local.Put(b)
	}
	if err != nil {
		local.Close()
		return nil, err
	}
	return p, nil
}

// Local is the pool of segments, for its Releasers and statistics.
func (p *ReceivePool) Local() *segment.LocalPool { return p.local }

// Reserved is the number of segments promised to channels and gates; Capacity, how many can be.
func (p *ReceivePool) Reserved() int { return p.reserved }

// Capacity is the number of segments of the pool.
func (p *ReceivePool) Capacity() int { return p.capacity }

// Provide sees to it that n segments more can be reserved, and takes what is missing out of the global pool. The error is a
// *segment.TooFewError if it does not have them now: others may hold more than their guarantee and give it back soon.
func (p *ReceivePool) Provide(n int) error {
	more := p.reserved + n - p.capacity
	if more <= 0 {
		return nil
	}
	if err := p.local.Grow(more, more); err != nil {
		return err
	}
	if err := p.fetch(p.capacity + more); err != nil {
		_ = p.local.Grow(-more, -more) // giving up never fails
		return err
	}
	p.capacity += more
	return nil
}

// Trim gives back what nobody has reserved.
func (p *ReceivePool) Trim() {
	if less := p.capacity - max(p.reserved, 1); less > 0 {
		p.capacity -= less
		_ = p.local.Grow(-less, -less) // giving up never fails
	}
}

// fetch takes segments out of the global pool until n are here. What is guaranteed may still be lent to other pools, and
// credit must stand for segments that are here.
func (p *ReceivePool) fetch(n int) (err error) {
	var bufs []segment.Buffer
	for p.local.Stats().Requested < n {
		b, ok := p.local.Take()
		if !ok {
			u := p.local.Stats()
			err = &segment.TooFewError{Name: p.name, Wanted: n, Available: u.Requested, Total: u.Max, Setting: "segment.Config.Segments"}
			break
		}
		bufs = append(bufs, b)
	}
	for _, b := range bufs {
		p.local.Put(b)
	}
	return err
}

// reserve promises n segments more (or fewer, if negative, which never fails).
func (p *ReceivePool) reserve(n int) error {
	if p.reserved+n > p.capacity {
		return &segment.TooFewError{Name: p.name, Wanted: n, Available: p.capacity - p.reserved, Total: p.capacity,
			SegmentSize: p.local.SegmentSize(), Setting: "credit.ReceivePoolConfig.Segments"}
	}
	p.reserved += n
	return nil
}

// Poll takes in the segments that came home, and the credit with them. It reports whether there were any.
func (p *ReceivePool) Poll() bool { return p.local.Drain() > 0 }

// Close gives the segments up; those underway go home when they are released.
func (p *ReceivePool) Close() { p.local.Close() }

// add gives a channel a slot.
func (p *ReceivePool) add(c *RemoteChannel) {
	if n := len(p.free); n > 0 {
		c.slot = p.free[n-1]
		p.free = p.free[:n-1]
	} else {
		c.slot = uint32(len(p.slots))
		p.slots = append(p.slots, nil)
	}
	p.slots[c.slot] = c
}

// remove takes a channel's slot back. None of its segments may be underway.
func (p *ReceivePool) remove(c *RemoteChannel) {
	p.slots[c.slot] = nil
	p.free = append(p.free, c.slot)
	c.slot = 0
}

// errNoSegment: the pool is empty although the ledger says otherwise.
var errNoSegment = errors.New("credit without a segment")

// take takes a segment for a message of channel c, charged as kind.
func (p *ReceivePool) take(c *RemoteChannel, kind CreditKind) (segment.Buffer, error) {
	b, ok := p.local.Take()
	if !ok {
		return b, fmt.Errorf("%w: %d reserved", errNoSegment, p.reserved)
	}
	return p.charge(b, c, kind), nil
}

// charge makes a segment that was taken the one of a message of channel c.
func (p *ReceivePool) charge(b segment.Buffer, c *RemoteChannel, kind CreditKind) segment.Buffer {
	b.SetTag(makeTag(c.slot, kind))
	return b
}

// lend gives a segment for the time of a read: it is charged, or given back, before anything else is taken that a ledger has
// credit for.
func (p *ReceivePool) lend() (segment.Buffer, bool) { return p.local.Take() }

// giveBack ends the loan of a segment that no message got.
func (p *ReceivePool) giveBack(b segment.Buffer) { p.local.Put(b) }

// onReturn is called for each segment that came home, with its tag.
func (p *ReceivePool) onReturn(tag uint32) {
	if c := p.slots[tag>>1]; c != nil {
		c.returned(CreditKind(tag & 1))
	}
}

// eventArena gives memory for events: small ones are cut from larger blocks, so that an event seldom costs an allocation.
// The collector frees a block when the last event in it is gone.
type eventArena struct{ block []byte }

const eventBlock = 32 << 10

func (a *eventArena) take(n int) []byte {
	if n > eventBlock/8 {
		return make([]byte, n)
	}
	if n > len(a.block) {
		a.block = make([]byte, eventBlock)
	}
	p := a.block[:n:n]
	a.block = a.block[n:]
	return p
}
