package credit_test

import (
	"fmt"

	"github.com/weirflow/weir/credit"
	"github.com/weirflow/weir/segment"
	"github.com/weirflow/weir/serde/event"
)

// upstream stands in for a connection.
type upstream struct{}

func (upstream) Resume(ch int) error                { fmt.Println("resume", ch); return nil }
func (upstream) AckAll(ch int)                      { fmt.Println("ack", ch) }
func (upstream) ReleaseChannel(ch int)              { fmt.Println("release", ch) }
func (upstream) AnnounceBufferSize(ch int, n int32) {}

// A gate without sockets: what arrives is delivered by hand. A priority event overtakes data, and channels take turns.
func ExampleGate() {
	g := credit.NewGate(credit.GateConfig{Channels: 2, Upstream: upstream{}})
	deliver := func(ch, seq int32, t segment.DataType, p []byte) {
		g.Deliver(credit.Arrival{Channel: ch, Seq: seq, Buf: segment.Wrap(p, t)})
	}
	barrier := event.Event{Kind: event.CheckpointBarrier, Barrier: event.Barrier{ID: 7,
		Options: event.Options{Alignment: event.Unaligned, Timeout: event.NoTimeout}}}

	deliver(0, 0, segment.DataBuffer, []byte("a"))
	deliver(0, 1, segment.DataBuffer, []byte("b"))
	deliver(1, 0, segment.DataBuffer, []byte("c"))
	deliver(0, 2, segment.PrioritizedEvent, event.Append(nil, &barrier))
	deliver(0, 3, segment.EndOfPartition, event.Append(nil, &event.Event{Kind: event.EndOfPartition}))
	deliver(1, 1, segment.EndOfPartition, event.Append(nil, &event.Event{Kind: event.EndOfPartition}))

	for {
		it, status, err := g.Poll()
		if status != credit.Ready {
			fmt.Println(status, err)
			return
		}
		if it.Event != nil {
			fmt.Println(it.Channel, it.Event.Kind)
			continue
		}
		fmt.Printf("%d %s\n", it.Channel, it.Buf.Bytes())
		g.Recycle(it.Channel, it.Buf) // its release is the next credit
	}
	// Output:
	// 0 CheckpointBarrier
	// 1 c
	// 0 a
	// release 1
	// 1 EndOfPartitionEvent
	// 0 b
	// release 0
	// 0 EndOfPartitionEvent
	// end <nil>
}
