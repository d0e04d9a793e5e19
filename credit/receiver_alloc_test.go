//go:build !race && !weirdebug

package credit

import (
	"testing"

	"github.com/weirflow/weir/internal/alloctest"
	"github.com/weirflow/weir/segment"
	"github.com/weirflow/weir/serde/event"
)

func TestReceiveAllocatesNothing(t *testing.T) {
	c := newCycle(t, 100, 1024, segment.DataBuffer, nil, rigConfig{})
	ch := 0
	alloctest.Zero(t, 1000, 10_000, func() {
		c.run(ch)
		ch = (ch + 7) % 100
	})
	if n := c.recv.Local().Stats().InUse; n != 0 {
		t.Errorf("%d segments in use", n)
	}
}

func TestReceiveBatchedAllocatesNothing(t *testing.T) {
	c := newCycle(t, 4, 1024, segment.DataBuffer, nil, rigConfig{client: ClientConfig{Policy: Batched{}}})
	ch := 0
	alloctest.Zero(t, 1000, 10_000, func() {
		c.run(ch)
		ch = (ch + 1) % 4
		c.core.FlushGrants()
	})
}

// Partial buffers are views, which cost nothing either.
func TestReceivePartialAllocatesNothing(t *testing.T) {
	c := newCycle(t, 1, 1024, segment.DataBuffer, nil, rigConfig{})
	f := c.partial(0, 0, segment.DataBuffer, "abc", "defgh", "i")
	c.seq[0] = 0
	alloctest.Zero(t, 1000, 10_000, func() {
		p := f[33:37]
		seq := c.seq[0]
		c.seq[0] += 3
		p[0], p[1], p[2], p[3] = byte(seq>>24), byte(seq>>16), byte(seq>>8), byte(seq)
		if err := c.core.Feed(f); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			it, _, _ := c.gate.Poll()
			it.Buf.Release()
		}
		c.port.Poll()
		c.core.WriteIntents()
		c.wire.buf = c.wire.buf[:0]
	})
}

// An event's bytes are cut from blocks: far less than one allocation for each.
func TestReceiveEventsAllocateBlocks(t *testing.T) {
	e := barrier(1, event.AtLeastOnce, event.NoTimeout)
	c := newCycle(t, 1, 1024, segment.EventBuffer, event.AppendPadded(nil, &e), rigConfig{})
	const events = eventBlock / 38
	for range 2 {
		c.run(0)
	}
	n := testing.AllocsPerRun(3, func() {
		for range events {
			c.run(0)
		}
	})
	if n > 4 {
		t.Errorf("%v allocations for %d events", n, events)
	}
}

// Decoding at the poll allocates nothing.
func TestPollEventAllocatesNothing(t *testing.T) {
	g := NewGate(GateConfig{Channels: 1, Upstream: new(noted)})
	e := timeoutable(7)
	p := event.AppendPadded(nil, &e)
	seq := int32(0)
	alloctest.Zero(t, 1000, 10_000, func() {
		g.Deliver(Arrival{Seq: seq, Buf: segment.Wrap(p, segment.TimeoutableAlignedBarrier)})
		seq++
		for range 2 {
			if it, st, err := g.Poll(); st != Ready || it.Event == nil {
				t.Fatal(st, err)
			}
		}
		g.Poll()
	})
}
