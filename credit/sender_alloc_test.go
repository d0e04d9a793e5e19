//go:build !race && !weirdebug

package credit

import (
	"bytes"
	"testing"

	"github.com/weirflow/weir/internal/alloctest"
	"github.com/weirflow/weir/segment"
)

// TestSendAllocatesNothing: a buffer's way through the sender, for few and for very many channels.
func TestSendAllocatesNothing(t *testing.T) {
	for _, channels := range []int{1, 64, 10_000} {
		c := newSenderCycle(t, channels, 1024)
		alloctest.Zero(t, channels/16+100, 500, func() { c.turn(16) })
		if c.core.sched.stats.Data < 500*16 {
			t.Errorf("%d messages were sent", c.core.sched.stats.Data)
		}
		c.close()
	}
}

// TestPackAllocatesNothing: small buffers that share messages.
func TestPackAllocatesNothing(t *testing.T) {
	r := packRig(t, PartitionConfig{Exclusive: 2}, 64, 1024, 1)
	r.drop = true
	var d ServerDecoder
	credit := AppendAddCredit(nil, senderChannel(0), 1)
	alloctest.Zero(t, 100, 500, func() {
		for range 32 {
			b, _ := r.w.Take(0)
			r.w.Add(0, segment.ReadAll(b.Resized(20)), 0)
		}
		r.pump()
		if err := d.Feed(credit, r.core); err != nil {
			t.Fatal(err)
		}
		r.local.Drain()
	})
	if s := r.core.sched.stats; s.Packed < 500 || s.Packed != s.Data {
		t.Errorf("%+v", s)
	}
	r.close()
}

// TestFlushAllocatesNothing: partial buffers, sent by the flush timer.
func TestFlushAllocatesNothing(t *testing.T) {
	c := newSenderCycle(t, 64, 64)
	b, _ := c.w.Take(0)
	w := segment.MakeBuilder(b)
	c.w.Add(0, w.NewReader(), 0)
	alloctest.Zero(t, 10, 1000, func() {
		if w.Full() {
			finish(&w)
			b, _ := c.w.Take(0)
			w = segment.MakeBuilder(b)
			c.w.Add(0, w.NewReader(), 0)
		}
		w.Append([]byte{1, 2, 3, 4})
		w.Commit()
		c.part.Poll()
		c.part.FlushDirty()
		c.pump()
		if err := c.decoder.Feed(c.credits[0], c.core); err != nil {
			t.Fatal(err)
		}
		c.pump()
	})
	finish(&w)
	c.close()
}

// TestFramesAllocateNothing: both decoders, whole frames and in pieces, and the encoders.
func TestFramesAllocateNothing(t *testing.T) {
	g := golden(t)
	server := bytes.Join([][]byte{g["data23"], g["backlog"], g["partial23"], g["eop23"]}, nil)
	client := bytes.Join([][]byte{g["request"], g["credit"], g["newsize"], g["resume"], g["ack"], g["segmentid"], g["cancel"], g["close"]}, nil)
	for _, step := range []int{1, 7, 1000} {
		cd := NewClientDecoder(DecoderConfig{})
		cl := &countingClient{buf: make([]byte, 64)}
		var sd ServerDecoder
		sl := &countingServer{}
		alloctest.Zero(t, 10, 1000, func() {
			for b := server; len(b) > 0; b = b[min(step, len(b)):] {
				if err := cd.Feed(b[:min(step, len(b))], cl); err != nil {
					t.Fatal(err)
				}
			}
			for b := client; len(b) > 0; b = b[min(step, len(b)):] {
				if err := sd.Feed(b[:min(step, len(b))], sl); err != nil {
					t.Fatal(err)
				}
			}
		})
		if cl.done < 3000 || cl.backlog < 1000 || sl.n < 8000 {
			t.Errorf("%d, %d and %d frames", cl.done, cl.backlog, sl.n)
		}
	}
	dst := make([]byte, 0, 1024)
	h := BufferHeader{Receiver: goldenChannel, Type: segment.DataBuffer, Size: 5, Partial: 2, PartialSizes: []int32{3, 2}}
	r := PartitionRequest{Partition: goldenPartition, Receiver: goldenChannel}
	alloctest.Zero(t, 10, 1000, func() {
		dst = AppendBufferResponse(dst[:0], Flink23, &h, server[:5])
		dst = AppendBufferHeader(dst, Flink120, &h)
		dst = AppendPartitionRequest(dst, &r)
		dst = AppendAddCredit(dst, goldenChannel, 1)
		dst = AppendResumeConsumption(dst, goldenChannel)
		dst = AppendCancelPartitionRequest(dst, goldenChannel)
		dst = AppendBacklogAnnouncement(dst, goldenChannel, 1)
	})
}

// TestCompressAllocatesNothing: both codecs in steady state.
func TestCompressAllocatesNothing(t *testing.T) {
	src := compressible(32<<10, 3)
	dst := make([]byte, 32<<10)
	for _, codec := range []Codec{LZ4, ZSTD} {
		c, err := NewCompressor(codec, len(src))
		if err != nil {
			t.Fatal(err)
		}
		d, err := NewDecompressor(codec, len(src))
		if err != nil {
			t.Fatal(err)
		}
		alloctest.Zero(t, 5, 50, func() {
			block, ok := c.Compress(src)
			if !ok {
				t.Fatal("did not shrink")
			}
			if _, err := d.Decompress(dst, block); err != nil {
				t.Fatal(err)
			}
		})
		c.Close()
		d.Close()
	}
}
