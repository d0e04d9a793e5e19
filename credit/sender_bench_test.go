package credit

import (
	"fmt"
	"testing"

	"github.com/weirflow/weir/segment"
)

// senderCycle is the way of a buffer through the sender in steady state: the writer takes a segment, fills it and hands it
// over; credit comes; the loop sends it and its segment comes home.
type senderCycle struct {
	*senderRig
	channels int
	size     int
	payload  []byte
	decoder  ServerDecoder
	credits  [][]byte
	next     int
}

func newSenderCycle(t testing.TB, channels, size int) *senderCycle {
	c := &senderCycle{channels: channels, size: size, payload: make([]byte, size),
		senderRig: newSenderRig(t, PartitionConfig{Exclusive: 2, Subpartitions: channels}, 256, max(size, 64))}
	c.drop = true
	for i := range channels {
		c.request(i, 1)
		c.credits = append(c.credits, AppendAddCredit(nil, senderChannel(i), 1))
	}
	return c
}

// turn lets n buffers through, each on another channel.
func (c *senderCycle) turn(n int) {
	first := c.next
	for range n {
		b, ok := c.w.Take(c.next)
		if !ok {
			c.t.Fatal("the pool is empty")
		}
		w := segment.MakeBuilder(b)
		w.Append(c.payload)
		w.Finish()
		c.w.Add(c.next, w.NewReader(), 0)
		w.Close()
		c.next = (c.next + 1) % c.channels
	}
	c.pump()
	for range n {
		if err := c.decoder.Feed(c.credits[first], c.core); err != nil {
			c.t.Fatal(err)
		}
		first = (first + 1) % c.channels
	}
	c.pump()
}

// BenchmarkSend is the way of one buffer through the sender, on one goroutine, without a socket, 16 a turn.
func BenchmarkSend(b *testing.B) {
	for _, size := range []int{1 << 10, 32 << 10} {
		for _, channels := range []int{1, 64, 10_000} {
			b.Run(fmt.Sprintf("size=%d/channels=%d", size, channels), func(b *testing.B) {
				c := newSenderCycle(b, channels, size)
				before := c.core.sched.stats.Data
				b.SetBytes(int64(size))
				b.ReportAllocs()
				for i := 0; b.Loop(); i++ {
					if i%16 == 0 {
						c.turn(16)
					}
				}
				if sent := c.core.sched.stats.Data - before; sent < uint64(b.N/2) {
					b.Fatalf("%d of %d were sent", sent, b.N)
				}
				b.StopTimer()
				c.close()
			})
		}
	}
}

// BenchmarkEncodeFrame writes one header.
func BenchmarkEncodeFrame(b *testing.B) {
	h := BufferHeader{Receiver: goldenChannel, Subpartition: 4, Seq: 7, Backlog: 11, Type: segment.DataBuffer, Size: 1024}
	dst := make([]byte, 0, 64)
	for _, p := range []Profile{Flink23, Flink120} {
		b.Run(fmt.Sprintf("profile=%s", p), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				dst = AppendBufferHeader(dst[:0], p, &h)
			}
		})
	}
}

// BenchmarkDecodeFrame reads data frames, many to a read.
func BenchmarkDecodeFrame(b *testing.B) {
	for _, size := range []int{0, 1 << 10, 32 << 10} {
		b.Run(fmt.Sprintf("size=%d", size), func(b *testing.B) {
			h := BufferHeader{Receiver: goldenChannel, Seq: 7, Type: segment.DataBuffer, Size: int32(size)}
			frame := AppendBufferResponse(nil, Flink23, &h, make([]byte, size))
			stream := make([]byte, 0, 256<<10)
			for len(stream)+len(frame) < cap(stream) && len(stream) < 1<<16 {
				stream = append(stream, frame...)
			}
			n := max(len(stream)/len(frame), 1)
			if len(stream) == 0 {
				stream = frame
			}
			d := NewClientDecoder(DecoderConfig{})
			l := &countingClient{buf: make([]byte, 32<<10)}
			b.SetBytes(int64(len(frame)))
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if i%n == 0 {
					if err := d.Feed(stream, l); err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}

// BenchmarkDecodeCredit reads what a client sends.
func BenchmarkDecodeCredit(b *testing.B) {
	stream := AppendAddCredit(nil, goldenChannel, 16)
	var d ServerDecoder
	l := &countingServer{}
	b.ReportAllocs()
	for b.Loop() {
		if err := d.Feed(stream, l); err != nil {
			b.Fatal(err)
		}
	}
}

// countingClient takes payloads and counts frames.
type countingClient struct {
	clientLog
	buf                    []byte
	headers, done, backlog int
}

func (c *countingClient) OnBufferHeader(*BufferHeader) ([]byte, bool) {
	c.headers++
	return c.buf, true
}
func (c *countingClient) OnBufferDone(*BufferHeader) error { c.done++; return nil }
func (c *countingClient) OnBacklogAnnouncement(ChannelID, int32) error {
	c.backlog++
	return nil
}

// countingServer counts frames.
type countingServer struct {
	serverLog
	n int
}

func (c *countingServer) OnPartitionRequest(*PartitionRequest) error   { c.n++; return nil }
func (c *countingServer) OnAddCredit(ChannelID, int32) error           { c.n++; return nil }
func (c *countingServer) OnResumeConsumption(ChannelID) error          { c.n++; return nil }
func (c *countingServer) OnAckAllUserRecordsProcessed(ChannelID) error { c.n++; return nil }
func (c *countingServer) OnCancelPartitionRequest(ChannelID) error     { c.n++; return nil }
func (c *countingServer) OnNewBufferSize(ChannelID, int32) error       { c.n++; return nil }
func (c *countingServer) OnSegmentID(ChannelID, int32, int32) error    { c.n++; return nil }
func (c *countingServer) OnCloseRequest() error                        { c.n++; return nil }
