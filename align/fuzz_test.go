package align

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/weirflow/weir/credit"
	"github.com/weirflow/weir/internal/modelrun"
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
		for _, m := range fuzzModes {
			fuzzOne(t, m.cfg, script, modelrun.Exposure{})
		}
	})
}

// fuzzModes are the handlers that each script reaches, and what the committed scripts together must make of them.
var fuzzModes = []struct {
	name   string
	cfg    Config
	needed []string
}{
	{"aligned", Config{}, []string{"TRIGGER", "ABORT", "RESUME", "poll", "failed", "injected", "fills up"}},
	{"at-least-once", Config{Mode: AtLeastOnce}, []string{"TRIGGER", "ABORT", "poll", "injected", "fills up"}},
	{"alternating", Config{Unaligned: UnalignedOn}, []string{"TRIGGER", "ABORT", "RESUME", "poll", "csw.addInput", "csw.finishInput",
		"timer+", "failed", "injected", "fills up"}},
	{"unaligned", Config{Unaligned: UnalignedAlways}, []string{"TRIGGER", "ABORT", "poll", "csw.addInput", "csw.finishInput", "csw.abort",
		"failed", "injected", "fills up"}},
	{"alternating-strict", Config{StopAtFirstEnd: true, StrictCancel: true, Unaligned: UnalignedOn}, []string{"TRIGGER", "ABORT", "RESUME",
		"poll", "csw.addInput", "timer+", "failed", "fills up"}},
}

// TestFuzzCorpus runs the committed scripts of FuzzAlign: together they come to whatever matters in each mode.
func TestFuzzCorpus(t *testing.T) {
	paths, err := filepath.Glob("testdata/fuzz/FuzzAlign/*")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no corpus, %v", err)
	}
	for _, m := range fuzzModes {
		met := modelrun.Exposure{}
		steps := 0
		for _, path := range paths {
			script := corpusEntry(t, path)
			steps += len(script)
			fuzzOne(t, m.cfg, script, met)
		}
		met.Report(t, m.name, steps, m.needed...)
	}
	paths, err = filepath.Glob("testdata/fuzz/FuzzStoring/*")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no corpus, %v", err)
	}
	met := modelrun.Exposure{}
	for _, path := range paths {
		storeScript(t, t.TempDir(), corpusEntry(t, path), met)
	}
	met.Report(t, "storing", len(paths), "completed", "aborted SUBSUMED", "aborted ON_CANCELLATION_BARRIER", "aborted INPUT_END_OF_STREAM",
		"aborted ALIGNMENT_LIMIT_EXCEEDED", "stored bytes", "nested replays", "ends")
}

// corpusEntry is the one value of a committed input.
func corpusEntry(t *testing.T, path string) []byte {
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	_, line, _ := strings.Cut(string(text), "[]byte(")
	s, err := strconv.Unquote(strings.TrimSuffix(strings.TrimSpace(line), ")"))
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return []byte(s)
}

// FuzzStoring lets any sequence of items reach both stores, beside their naive twin.
func FuzzStoring(f *testing.F) {
	f.Add([]byte{2, 0x80, 0x00, 0x01, 0x81, 0x10, 0x11})
	f.Add([]byte{0x13, 0x80, 0x00, 0x10, 0x20, 0x30, 0x40, 0x81, 0x82, 0xd1})
	f.Add([]byte{0x24, 0x80, 0x81, 0x80, 0x01, 0x00, 0xd2, 0x02, 0xf3, 0x83, 0xc0})
	f.Add([]byte(strings.Repeat("\x32\x80\x01\x90\x02\xb1\x00", 12)))
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, script []byte) {
		if len(script) < 2 || len(script) > 250 { // a buffer's number is one byte
			return
		}
		storeScript(t, dir, script, modelrun.Exposure{})
	})
}

// storeScript runs a script on both stores; the first byte says the number of channels and the limit.
func storeScript(t *testing.T, dir string, script []byte, met modelrun.Exposure) {
	t.Helper()
	limit := []int64{-1, 57, 133, 1}[script[0]>>4&3]
	for _, bounded := range []bool{true, false} {
		storeOne(t, bounded, dir, limit, storedScript(script), met)
	}
}

// storedScript makes items of bytes.
func storedScript(script []byte) []oldItem {
	n := 1 + int(script[0]&7)%5
	items := []oldItem{{'b', n - 1, 0}}
	ids := make([]int, n)
	ended := make([]bool, n)
	for i, op := range script[1:] {
		ch := int(op&15) % n
		if ended[ch] {
			continue
		}
		what := op >> 4
		if what >= 8 && what < 15 {
			ids[ch] += []int{1, 1, 1, 0, 2, 1, 0}[what-8]
		}
		switch {
		case what < 8:
			items = append(items, oldItem{'b', ch, i + 1})
		case what < 13:
			items = append(items, oldItem{'B', ch, ids[ch]})
		case what < 15:
			items = append(items, oldItem{'C', ch, ids[ch]})
		default:
			ended[ch] = true
			items = append(items, oldItem{'E', ch, 0})
		}
	}
	return items
}

func fuzzOne(t *testing.T, cfg Config, script []byte, met modelrun.Exposure) {
	t.Helper()
	channels := 1 + int(script[0]&3)
	h := newHarness(t, cfg, channels, credit.Guard(script[0]>>2%3))
	id, arrived := int64(1), 0
	over := map[int64]string{}
	last := make([]int, channels) // number of each channel's last buffer
	look := func() {
		for _, l := range h.timers.take() {
			word, _, _ := strings.Cut(l, "(")
			met[word]++
		}
		for _, l := range h.out {
			word, _, _ := strings.Cut(l, "(")
			met[word]++
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
			p := []byte{op, byte(i >> 8), byte(i)}
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
			met["injected"]++
			ok = Inject(&b, harnessTask{h}, h.in) == nil
		default:
			it, st, err := h.in.Poll()
			ok = err == nil
			if st == credit.Ready {
				met["poll"]++
			}
			if st == credit.Ready && it.Event == nil {
				p := it.Buf.Bytes()
				if n := int(p[1])<<8 | int(p[2]) + 1; n <= last[it.Channel] {
					t.Fatalf("channel %d: buffer %d after %d", it.Channel, n, last[it.Channel])
				} else {
					last[it.Channel] = n
				}
				it.Buf.Release()
			}
		}
		look()
		if !ok {
			met["failed"]++
			break // the task failed
		}
	}
	if h.gate.Queued(0) > 3 {
		met["fills up"]++
	}
	h.in.Close()
	h.gate.Close()
	for ch := range channels {
		if n := h.gate.Queued(ch); n != 0 {
			t.Fatalf("%d items of %d are left in channel %d", n, arrived, ch)
		}
	}
}
