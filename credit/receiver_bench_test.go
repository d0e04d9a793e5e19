package credit

import (
	"fmt"
	"testing"

	"github.com/weirflow/weir/segment"
)

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
