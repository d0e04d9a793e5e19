package align

import (
	"encoding/binary"
	"strings"
	"testing"

	"github.com/weirflow/weir/credit"
	"github.com/weirflow/weir/segment"
	"github.com/weirflow/weir/serde/event"
)

// FuzzAlign lets any sequence of arrivals, well-formed or not, from senders that keep no rule, reach each kind of handler
// through a real gate. Nothing may panic; no id may be triggered twice, nor triggered after its abort, by an exactly-once
// handler; and every buffer comes out of the gate or goes back with it.
func FuzzAlign(f *testing.F) {
	f.Add([]byte{1, 0x10, 1, 0x21, 1, 0x30, 1, 0xf0})
	f.Add([]byte{2, 0x00, 0x05, 0x11, 0x32, 0x60, 0x71, 0x72, 0x40, 0x51, 0xe9})
	f.Add([]byte{3, 0x12, 0x22, 0x12, 0x34, 0x90, 0xa1, 0xb2, 0xc3, 0xd4})
	f.Add([]byte{4, 0x20, 0x10, 0x00, 0x31, 0xe0, 0xe1, 0xe2, 0x61})
	f.Add([]byte(strings.Repeat("\x21\x05\x62\x13", 20)))
	f.Fuzz(func(t *testing.T, script []byte) {
		if len(script) == 0 || len(script) > 2000 {
			return
		}
		for _, cfg := range []Config{{}, {Mode: AtLeastOnce}, {Unaligned: UnalignedOn}, {Unaligned: UnalignedAlways},
			{StopAtFirstEnd: true, StrictCancel: true, Unaligned: UnalignedOn}} {
			fuzzOne(t, cfg, script)
		}
	})
}

func fuzzOne(t *testing.T, cfg Config, script []byte) {
	channels := 1 + int(script[0]&3)
	h := newHarness(t, cfg, channels, credit.Guard(script[0]>>2%3))
	id, arrived := int64(1), 0
	over := map[int64]string{}
	look := func() {
		for _, l := range h.out {
			for _, word := range []string{"TRIGGER(", "ABORT("} {
				rest, ok := strings.CutPrefix(l, word)
				if !ok || cfg.Mode == AtLeastOnce {
					continue
				}
				num, _, _ := strings.Cut(rest, ",")
				n := int64(0)
				for _, c := range num {
					n = n*10 + int64(c-'0')
				}
				if was := over[n]; was == word || was == "ABORT(" {
					t.Fatalf("%s%d) after %s%d)", word, n, was, n)
				}
				over[n] = word
			}
		}
		h.out = h.out[:0]
	}
	deliver := func(ch int, b segment.Buffer) bool {
		h.gate.Deliver(credit.Arrival{Channel: int32(ch), Seq: h.seqs[ch], Buf: b})
		h.seqs[ch]++
		arrived++
		_, err := h.in.ProcessPriority()
		look()
		return err == nil
	}
	kinds := []string{"al", "un", "to10", "fa", "sp", "alo"}
	for i, op := range script[1:] {
		ch := int(op&3) % channels
		ok := true
		switch op >> 4 {
		case 0:
			p := []byte{op, 2, 3}
			h.names[&p[0]] = "d"
			ok = deliver(ch, segment.Wrap(p, segment.DataBuffer))
		case 1, 2, 3, 4, 5, 6:
			if op&4 != 0 {
				id++
			}
			e := barrierItem(ch, id-int64(op>>3&1), kind(kinds[op>>4-1])).Event
			ok = deliver(ch, serialized(e))
		case 7:
			ok = deliver(ch, serialized(&event.Event{Kind: event.CancelCheckpoint, CheckpointID: id + int64(op>>2&1)}))
		case 8:
			ok = deliver(ch, serialized(&event.Event{Kind: event.EndOfData, StopMode: event.StopMode(op >> 2 & 1)}))
		case 9:
			ok = deliver(ch, serialized(&event.Event{Kind: event.EndOfPartition}))
		case 10: // any bytes of the script as an event of any type
			p := append([]byte(nil), script[i:]...)
			if len(p) > 40 {
				p = p[:40]
			}
			types := []segment.DataType{segment.EventBuffer, segment.PrioritizedEvent, segment.AlignedBarrier, segment.TimeoutableAlignedBarrier}
			ok = deliver(ch, segment.Wrap(p, types[op>>2&3]))
		case 11: // a barrier cut short, or with a strange tail
			p := event.Append(nil, barrierItem(ch, id, kind("to10")).Event)
			binary.BigEndian.PutUint32(p[20:], uint32(op)<<24|uint32(len(script)))
			ok = deliver(ch, segment.Wrap(p[:len(p)-int(op&7)], segment.TimeoutableAlignedBarrier))
		case 12:
			h.now.Millis += int64(op & 15)
			h.now.Nanos += int64(op&15) * 1e6
			ok = h.in.Timeout(id) == nil
		case 13:
			id++ // the coordinator never repeats one
			b := event.Barrier{ID: id, Options: kind(kinds[op&3])}
			ok = Inject(&b, harnessTask{h}, h.in) == nil
		default:
			it, st, err := h.in.Poll()
			ok = err == nil
			if st == credit.Ready && it.Event == nil {
				it.Buf.Release()
			}
		}
		look()
		if !ok {
			break // the task failed
		}
	}
	h.in.Close()
	h.gate.Close()
	for ch := range channels {
		if n := h.gate.Queued(ch); n != 0 {
			t.Fatalf("%d items of %d are left in channel %d", n, arrived, ch)
		}
	}
}
