package main

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"slices"
)

// report is what one end saw. Report.java is the same in Java.
type report struct {
	Records     []int64      `json:"records"` // by channel
	Sums        []uint32     `json:"sums"`    // CRC-32C by channel, over the lengths and bytes of its records in order
	Bytes       int64        `json:"bytes"`
	Watermarks  int          `json:"watermarks"`
	EndOfData   bool         `json:"endOfData"`
	Missing     int          `json:"missing"` // buffers that did not come home
	Checkpoints []checkpoint `json:"checkpoints"`
	Wire        int64        `json:"-"` // bytes that weir's end read or wrote
}

// checkpoint is a checkpoint at one end.
type checkpoint struct {
	ID        int64 `json:"id"`
	Timestamp int64 `json:"timestamp"`
	Unaligned bool  `json:"unaligned"`
	// Low and High, by channel: between which positions it cuts the channel's bytes. They differ where a watermark may or may not
	// have been read.
	Low  []int64 `json:"low"`
	High []int64 `json:"high"`
	// State, by channel: how many bytes were in flight here, that is, belong to the checkpoint.
	State []int64 `json:"state"`
}

func newReport(channels int) *report {
	return &report{Records: make([]int64, channels), Sums: make([]uint32, channels)}
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func (r *report) record(c int, value []byte) {
	r.Records[c]++
	r.Bytes += int64(len(value))
	var head [4]byte
	binary.BigEndian.PutUint32(head[:], uint32(len(value)))
	r.Sums[c] = crc32.Update(crc32.Update(r.Sums[c], castagnoli, head[:]), castagnoli, value)
}

// result is a row of the table.
type result struct {
	records, bytes  int64
	sum             uint32
	watermarks      int
	aligned, turned int // checkpoints that stayed aligned, aligned ones that turned unaligned
	unaligned       int
	inFlight        int64 // bytes, at both ends
	wire            int64 // bytes on the wire, of blocking partitions
}

// compare checks that both ends saw the same, and that there was something to see.
func compare(s *script, sent, got *report) (res result, err error) {
	for c := range s.channels {
		records := int64(0)
		for e := range s.elements[c] {
			if s.isRecord(c, e) {
				records++
			}
		}
		if sent.Records[c] != records || got.Records[c] != records {
			return res, fmt.Errorf("channel %d: %d records were sent, %d came, want %d", c, sent.Records[c], got.Records[c], records)
		}
		if sent.Sums[c] != got.Sums[c] {
			return res, fmt.Errorf("channel %d: sums differ: %08x sent, %08x received", c, sent.Sums[c], got.Sums[c])
		}
		res.records += records
		res.sum = crc32.Update(res.sum, castagnoli, binary.BigEndian.AppendUint32(nil, got.Sums[c]))
	}
	res.bytes, res.watermarks = got.Bytes, got.Watermarks
	switch {
	case res.records == 0 || res.bytes == 0:
		return res, fmt.Errorf("no data, no proof")
	case got.Watermarks != sent.Watermarks || got.Watermarks == 0:
		return res, fmt.Errorf("%d watermarks were sent, %d came", sent.Watermarks, got.Watermarks)
	case !sent.EndOfData || !got.EndOfData:
		return res, fmt.Errorf("end of data: sent %v, received %v", sent.EndOfData, got.EndOfData)
	case sent.Missing != 0 || got.Missing != 0:
		return res, fmt.Errorf("%d buffers of the sender and %d of the receiver did not come home", sent.Missing, got.Missing)
	case s.kind.isBlocking(): // no checkpoints there
		res.wire = max(sent.Wire, got.Wire)
		if compressed := s.kind == lz4 || s.kind == zstd; compressed != (res.wire < res.bytes*9/10) {
			return res, fmt.Errorf("%d bytes of records took %d on the wire", res.bytes, res.wire)
		}
		return res, nil
	case len(sent.Checkpoints) != barriers || len(got.Checkpoints) != barriers:
		return res, fmt.Errorf("%d checkpoints were begun, %d completed, want %d", len(sent.Checkpoints), len(got.Checkpoints), barriers)
	}
	var in, out int64
	for b := range barriers {
		from, to := &sent.Checkpoints[b], &got.Checkpoints[b]
		if err := compareCheckpoint(s, b, from, to); err != nil {
			return res, fmt.Errorf("checkpoint %d: %w", b+1, err)
		}
		for c := range s.channels {
			out += from.State[c]
			in += to.State[c]
		}
		switch kind := b % 4; {
		case kind == unaligned:
			res.unaligned++
		case to.Unaligned:
			res.turned++
		default:
			res.aligned++
		}
	}
	res.inFlight = in + out
	switch {
	case in == 0 || out == 0:
		return res, fmt.Errorf("in flight were %d bytes at the sender and %d at the receiver: that proves nothing of unaligned checkpoints", out, in)
	case res.turned == 0:
		return res, fmt.Errorf("no checkpoint turned unaligned")
	}
	return res, nil
}

// compareCheckpoint checks that what was read, what was in flight at either end and what was written before the barrier fit
// without a gap, for every channel. That the bytes in flight are the right ones, each end has checked.
func compareCheckpoint(s *script, b int, from, to *checkpoint) error {
	if from.ID != int64(b+1) || to.ID != from.ID || to.Timestamp != from.Timestamp {
		return fmt.Errorf("%d of %d came as %d of %d", from.ID, from.Timestamp, to.ID, to.Timestamp)
	}
	switch kind := b % 4; {
	case kind == unaligned && !to.Unaligned, kind < timedShort && (to.Unaligned || from.Unaligned):
		return fmt.Errorf("unaligned: %v at the sender, %v at the receiver", from.Unaligned, to.Unaligned)
	}
	for c := range s.channels {
		cut := from.Low[c] - from.State[c] - to.State[c]
		if want := s.offsets[c][s.before[b][c]]; from.Low[c] != want {
			return fmt.Errorf("channel %d: the barrier was sent at byte %d, want %d", c, from.Low[c], want)
		}
		if cut != to.Low[c] && cut != to.High[c] {
			return fmt.Errorf("channel %d: %d bytes were written, %d of them in flight at the sender, %d at the receiver, %d to %d read",
				c, from.Low[c], from.State[c], to.State[c], to.Low[c], to.High[c])
		}
		if !to.Unaligned && to.State[c]+from.State[c] != 0 {
			return fmt.Errorf("channel %d: an aligned checkpoint with bytes in flight", c)
		}
	}
	return nil
}

func sortCheckpoints(cps []checkpoint) {
	slices.SortFunc(cps, func(a, b checkpoint) int { return int(a.ID - b.ID) })
}
