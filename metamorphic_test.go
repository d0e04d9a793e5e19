package weir

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// stream is what one writer sends: records of all sizes, with watermarks and barriers in between, to three subpartitions.
const (
	streamChannels = 3
	streamRecords  = 1500
	streamBarriers = 100 // records between them
)

func streamRecord(r *rand.Rand, i int) []byte {
	n := 8 + r.IntN(200)
	switch r.IntN(40) {
	case 0:
		n = 8
	case 1:
		n = 8 + r.IntN(40_000)
	}
	p := make([]byte, n)
	binary.BigEndian.PutUint64(p, uint64(i))
	for j := 8; j < n; j++ {
		p[j] = byte(j * i)
	}
	return p
}

// seenStream is what must be the same, however the stream traveled: the records of each channel in order, and how many of each
// channel stand before each checkpoint and watermark.
type seenStream struct {
	hashes      [streamChannels]uint64
	counts      [streamChannels]int
	checkpoints []string
	watermarks  []int64
	ends        int
}

func (s *seenStream) record(ch int, p []byte) {
	h := fnv.New64a()
	h.Write(binary.BigEndian.AppendUint64(nil, s.hashes[ch]))
	h.Write(p)
	s.hashes[ch] = h.Sum64()
	s.counts[ch]++
}

func (s *seenStream) checkpoint(id int64) {
	s.checkpoints = append(s.checkpoints, fmt.Sprint(id, s.counts))
}

func (s *seenStream) equal(o *seenStream) bool {
	return s.hashes == o.hashes && s.counts == o.counts && slices.Equal(s.checkpoints, o.checkpoints) &&
		slices.Equal(s.watermarks, o.watermarks) && s.ends == o.ends
}

// writeStream sends it, and notes what was sent.
func writeStream(ctx context.Context, out *Output, sent *seenStream) error {
	r := rand.New(rand.NewPCG(7, 7))
	for i := range streamRecords {
		p := streamRecord(r, i)
		if err := out.Write(ctx, nil, p); err != nil {
			return err
		}
		sent.record(i%streamChannels, p)
		if n := i + 1; n%streamBarriers == 0 {
			if err := out.Barrier(AlignedBarrier(int64(n/streamBarriers), time.Now())); err != nil {
				return err
			}
			sent.checkpoint(int64(n / streamBarriers))
			if err := out.Watermark(ctx, int64(n)); err != nil { // behind the barrier
				return err
			}
			sent.watermarks = append(sent.watermarks, int64(n))
		}
	}
	sent.ends++
	return out.Finish(ctx)
}

// One stream by many ways: segments of all sizes, loops that poll, sleep or have a thread of their own, few and many credits, flushes
// after each record, one connection or three. What arrives is the same. (The portable driver runs this test, too: go test
// -tags weirportable.)
func TestTheWayChangesNothing(t *testing.T) {
	big, small := 32<<10, 4096
	for name, way := range map[string]struct {
		server, client Config
		out            OutputConfig
		in             InputConfig
		apart          bool // an input for each channel's own source entry
		local          bool // on one node: server
	}{
		"plain":              {},
		"small segments":     {server: Config{SegmentSize: small}, client: Config{SegmentSize: small}},
		"tiny segments":      {server: Config{SegmentSize: 512}, client: Config{SegmentSize: 512}},
		"no polling":         {server: Config{Poll: -1}, client: Config{Poll: -1}},
		"dedicated loops":    {server: Config{Dedicated: true}, client: Config{Dedicated: true}},
		"dedicated receiver": {client: Config{Dedicated: true, Poll: -1}},
		"each flushed":       {out: OutputConfig{FlushEach: true}},
		"never flushed":      {out: OutputConfig{BufferTimeout: -1}},
		"few credits":        {in: InputConfig{Exclusive: 1, Floating: -1}},
		"floating only":      {out: OutputConfig{ZeroExclusive: true}, in: InputConfig{Exclusive: -1, Floating: 3}},
		"few buffers":        {server: Config{SegmentSize: small}, client: Config{SegmentSize: small}, out: OutputConfig{Buffers: 8, BuffersPerSubpartition: 2}},
		"1.20":               {server: Config{Flink: Flink120}, client: Config{Flink: Flink120}},
		"local":              {local: true},
		"local, 1.20":        {local: true, server: Config{Flink: Flink120}},
		"local, tiny":        {local: true, server: Config{SegmentSize: 512}},
		"local, dedicated":   {local: true, server: Config{Dedicated: true}},
		"local, no polling":  {local: true, server: Config{Poll: -1}, out: OutputConfig{FlushEach: true}},
		"local, few buffers": {local: true, server: Config{SegmentSize: small}, out: OutputConfig{Buffers: 8, BuffersPerSubpartition: 2}},
		"sources apart":      {server: Config{SegmentSize: big}, client: Config{SegmentSize: big}, apart: true},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := limited(t)
			if !way.local {
				way.server.Listen = "127.0.0.1:0"
			}
			a := open(t, way.server)
			b, at := a, together
			if !way.local {
				b, at = open(t, way.client), apart
			}
			way.out.Name, way.out.Subpartitions, way.out.Partition = "x", streamChannels, RoundRobin
			out := newOutput(t, a, way.out)
			way.in.Sources = []Source{at.source(a, out)}
			if way.apart {
				way.in.Sources = nil
				for sub := range streamChannels {
					way.in.Sources = append(way.in.Sources, Source{Addr: a.Addr().String(), Name: "x", Subpartition: sub})
				}
			}
			in := newInput(t, b, way.in)
			var sent, got seenStream
			wait := inBackground(t, func() error { return writeStream(ctx, out, &sent) })
			read(ctx, t, in, func(e *Element) {
				switch e.Kind {
				case Record:
					got.record(e.Channel, e.Value)
				case Watermark:
					got.watermarks = append(got.watermarks, e.Timestamp)
				case Checkpoint:
					got.checkpoint(e.Checkpoint.Barrier.ID)
					e.Checkpoint.Ack()
				case EndOfData:
					got.ends++
				default:
					t.Errorf("kind %d", e.Kind)
				}
			})
			if err := errors.Join(in.Close(), wait()); err != nil {
				t.Fatal(err)
			}
			if !got.equal(&sent) {
				t.Errorf("got  %+v\nwant %+v", got, sent)
			}
			if len(got.checkpoints) != streamRecords/streamBarriers {
				t.Errorf("%d checkpoints", len(got.checkpoints))
			}
		})
	}
}
