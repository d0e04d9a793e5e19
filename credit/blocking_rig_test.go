package credit

import (
	"bytes"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/weirflow/weir/segment"
	"github.com/weirflow/weir/serde"
	"github.com/weirflow/weir/serde/event"
)

var blockingPartition = MakePartitionID(ID{4}, 0, ID{5}, ID{6}, 0, 0)

// blockingRig is a blocking partition, the server's end of one connection and a recorder in place of the socket. The disk works in
// the same goroutine, a step at a time.
type blockingRig struct {
	*senderRig
	bp  *BlockingPartition
	bw  *PartitionWriter
	rec *serde.RecordWriter[*PartitionWriter]
	dir string
	// sent of each channel, in order
	got map[ChannelID][]sentMessage
}

const blockingSegment = 256

func newBlockingRig(t testing.TB, cfg BlockingConfig) *blockingRig {
	t.Helper()
	r := &blockingRig{senderRig: newSenderRig(t, PartitionConfig{Profile: cfg.Profile}, 200, blockingSegment), dir: t.TempDir(), got: map[ChannelID][]sentMessage{}}
	if cfg.Subpartitions == 0 {
		cfg.Subpartitions = 1
	}
	if cfg.Buffers == 0 {
		cfg.Buffers = 8 * cfg.Subpartitions
	}
	if cfg.Dir == "" {
		cfg.Dir = r.dir
	}
	// The rig's own partition has taken all but 16 segments; a pool of its own is what a node would have had.
	pool, err := segment.NewPool(segment.Config{SegmentSize: blockingSegment, Segments: cfg.Buffers + 64})
	if err != nil {
		t.Fatal(err)
	}
	cfg.ID, cfg.Pool, cfg.Name, cfg.Overdraft = blockingPartition, pool, "blocking", 20
	if r.bp, r.bw, err = NewBlockingPartition(cfg); err != nil {
		t.Fatal(err)
	}
	if r.rec, err = serde.NewRecordWriter(r.bw, cfg.Subpartitions); err != nil {
		t.Fatal(err)
	}
	if err := r.reg.Register(r.bp); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		r.core.Disconnected()
		r.rec.Close()
		r.bp.Release()
		for r.bp.Step() || r.bp.Poll() {
		}
		if err := r.bp.Close(); err != nil {
			t.Error(err)
		}
		r.bp.Poll()
		r.bp.Pool().Close()
		if err := pool.Close(); err != nil {
			t.Error(err)
		}
		r.senderRig.close()
		if left, _ := filepath.Glob(filepath.Join(r.dir, "*")); len(left) > 0 {
			t.Errorf("left behind: %v", left)
		}
	})
	return r
}

// drive lets everybody work until nobody has anything to do.
func (r *blockingRig) drive() {
	r.t.Helper()
	for r.bp.Step() || r.bp.Poll() || r.wanted {
		r.wanted = false
		if _, err := r.core.Run(); err != nil {
			r.t.Fatal(err)
		}
	}
	for _, m := range r.sent {
		r.got[m.Receiver] = append(r.got[m.Receiver], m)
	}
	r.sent = nil
}

// write writes a record, and lets the disk work when there is no memory.
func (r *blockingRig) write(sub int, rec []byte) {
	r.t.Helper()
	r.must(func() error {
		if sub == serde.AllSubpartitions {
			return r.rec.Broadcast(rec)
		}
		return r.rec.WriteRecord(sub, rec)
	})
	if r.bp.CutWanted() {
		if err := r.rec.FinishBuffers(); err != nil {
			r.t.Fatal(err)
		}
		r.bw.Cut()
		r.drive()
	}
}

// must repeats a write until there is memory for it.
func (r *blockingRig) must(write func() error) {
	r.t.Helper()
	err := write()
	for n := 0; err == serde.ErrFull || err == serde.ErrUnfinished; n++ {
		if n > 10_000 {
			r.t.Fatalf("no memory comes back: %v", err)
		}
		r.bw.Reclaim()
		r.drive()
		if err == serde.ErrFull {
			err = write()
		} else {
			err = r.rec.Continue()
		}
	}
	if err != nil {
		r.t.Fatal(err)
	}
}

// finish ends the file.
func (r *blockingRig) finish() {
	r.t.Helper()
	eod := event.Event{Kind: event.EndOfData, StopMode: event.Drain}
	if err := r.rec.BroadcastEvent(segment.Wrap(event.Append(nil, &eod), segment.EndOfData)); err != nil {
		r.t.Fatal(err)
	}
	r.bw.FinishAll()
	r.bw.Close()
	for !r.bp.Finished() && r.bp.Failed() == nil {
		r.bw.Publish()
		r.drive()
	}
}

func blockingChannel(n int) ChannelID { return ChannelID{0: 9, 1: byte(n), 2: byte(n >> 8)} }

func (r *blockingRig) ask(subs SubpartitionRange, id ChannelID, credit int32) {
	r.t.Helper()
	r.requestOf(blockingPartition, subs, id, credit)
	r.drive()
}

// records takes the messages of a channel apart: numbers without a gap, sizes that sum up, the records, then the ends.
func (r *blockingRig) records(id ChannelID, subs int, codec Codec) (recs []string) {
	r.t.Helper()
	var data []byte
	seq, ends := int32(0), map[segment.DataType]int{}
	dec, err := NewDecompressor(max(codec, LZ4), blockingSegment)
	if err != nil {
		r.t.Fatal(err)
	}
	defer dec.Close()
	for _, m := range r.got[id] {
		if m.Seq != seq {
			r.t.Fatalf("number %d, want %d", m.Seq, seq)
		}
		sizes := m.PartialSizes
		if sizes == nil {
			sizes = []int32{m.Size}
		}
		if len(m.payload) > blockingSegment {
			r.t.Fatalf("a message of %d bytes", len(m.payload))
		}
		p := m.payload
		for _, n := range sizes {
			seq++
			block := p[:n]
			p = p[n:]
			switch {
			case !m.Type.IsBuffer():
				ends[m.Type]++
				continue
			case m.Compressed:
				out := make([]byte, blockingSegment)
				k, err := dec.Decompress(out, block)
				if err != nil {
					r.t.Fatal(err)
				}
				block = out[:k]
			}
			if ends[segment.EndOfData] > 0 && subs == 1 {
				r.t.Fatal("data behind the end")
			}
			data = append(data, block...)
		}
		if len(p) != 0 {
			r.t.Fatalf("%d bytes more than the sizes say", len(p))
		}
	}
	if ends[segment.EndOfData] != subs || ends[segment.EndOfPartition] != subs {
		r.t.Fatalf("ends of %d subpartitions: %v", subs, ends)
	}
	for len(data) > 0 {
		n := int(be32(data))
		recs = append(recs, string(data[4:4+n]))
		data = data[4+n:]
	}
	return recs
}

func be32(p []byte) uint32 {
	return uint32(p[0])<<24 | uint32(p[1])<<16 | uint32(p[2])<<8 | uint32(p[3])
}

// someRecord is a record that compresses well if even, and not at all if odd.
func someRecord(sub, i, n int) []byte {
	p := make([]byte, n)
	x := uint32(i*7919 + sub*104729 + 1)
	for j := range p {
		if i%2 == 1 {
			x = x*1664525 + 1013904223
		}
		p[j] = byte(x >> 24)
	}
	return append(p, fmt.Sprintf("-%02d-%06d", sub, i)...)
}

// subOf is the subpartition that someRecord made a record for.
func subOf(rec string) (sub int) {
	_, _ = fmt.Sscanf(rec[len(rec)-9:], "%02d", &sub)
	return sub
}

func sameRecords(t *testing.T, what string, got []string, want [][]byte) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d records, want %d", what, len(got), len(want))
	}
	for i := range got {
		if !bytes.Equal([]byte(got[i]), want[i]) {
			t.Fatalf("%s: record %d has %d bytes, or others, want %d", what, i, len(got[i]), len(want[i]))
		}
	}
}
