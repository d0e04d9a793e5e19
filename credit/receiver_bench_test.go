package credit

import (
	"fmt"
	"testing"

	"github.com/weirflow/weir/segment"
)

// cycle is one buffer's way through a receiver in steady state: its message comes in, the task polls and gives it back, and
// its credit goes out.
type cycle struct {
	*rig
	frame []byte
}

func newCycle(t testing.TB, channels, size int, typ segment.DataType, payload []byte, cfg rigConfig) *cycle {
	cfg.channels, cfg.segment = channels, max(size, 64)
	cfg.exclusive, cfg.floating = 2, 8
	c := &cycle{rig: newRig(t, cfg)}
	if payload == nil {
		payload = make([]byte, size)
	}
	h := BufferHeader{Type: typ, Size: int32(len(payload))}
	c.frame = AppendBufferResponse(nil, Flink23, &h, payload)
	c.wire.buf = make([]byte, 0, 1<<16)
	return c
}

// run lets one message for a channel through.
func (c *cycle) run(ch int) {
	id := rigID(ch)
	copy(c.frame[9:], id[:])
	seq := c.next(ch)
	p := c.frame[33:37]
	p[0], p[1], p[2], p[3] = byte(seq>>24), byte(seq>>16), byte(seq>>8), byte(seq)
	if err := c.core.Feed(c.frame); err != nil {
		c.t.Fatal(err)
	}
	it, st, err := c.gate.Poll()
	if st != Ready {
		c.t.Fatalf("nothing came: %v %v", st, err)
	}
	if it.Event == nil {
		c.gate.Recycle(it.Channel, it.Buf)
	}
	c.gate.Flush()
	c.port.Poll()
	c.core.WriteIntents()
	c.wire.buf = c.wire.buf[:0]
}

// BenchmarkReceive is the way of one buffer through the receiver, on one goroutine: decode and copy the payload, ledger,
// link, poll, recycle, credit message.
func BenchmarkReceive(b *testing.B) {
	for _, size := range []int{1 << 10, 32 << 10} {
		for _, channels := range []int{1, 10, 10_000} {
			b.Run(fmt.Sprintf("size=%d/channels=%d", size, channels), func(b *testing.B) {
				c := newCycle(b, channels, size, segment.DataBuffer, nil, rigConfig{})
				b.SetBytes(int64(size))
				b.ReportAllocs()
				ch := 0
				for b.Loop() {
					c.run(ch)
					if ch += 997; ch >= channels {
						ch %= channels
					}
				}
			})
		}
	}
}

// BenchmarkLedger is the credit arithmetic alone: take, backlog, return.
func BenchmarkLedger(b *testing.B) {
	var budget FloatBudget
	budget.Init(8, nil)
	var l Ledger
	l.Init(2, &budget)
	b.ReportAllocs()
	for b.Loop() {
		kind, _ := l.Take()
		l.Announce(l.OnBacklog(1))
		l.Announce(l.Return(kind))
		l.TakeUnannounced()
	}
}
