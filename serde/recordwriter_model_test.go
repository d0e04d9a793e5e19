package serde

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"

	"pgregory.net/rapid"
)

// twin is what a subpartition should bring.
type twin struct {
	stream []byte // all records, framed
	events []int  // positions of events in the stream
	read   int    // bytes read so far
	seen   int    // events read so far
	need   int    // bytes that are missing of the body that is being read
	head   []byte // a part of its length

	partials int // buffers that continue a record
}

func TestRecordWriterModel(t *testing.T) {
	seen := map[string]int{"full": 0, "unfinished": 0, "shared": 0, "partial": 0, "hint": 0, "event": 0}
	defer func() {
		for what, n := range seen {
			if n == 0 && !t.Failed() {
				t.Errorf("the model never met: %s", what)
			}
		}
	}()
	rapid.Check(t, func(rt *rapid.T) {
		subs := rapid.IntRange(1, 4).Draw(rt, "subpartitions")
		size := rapid.SampledFrom([]int{1, 3, 4, 5, 16, 33, 128}).Draw(rt, "segment")
		spare := rapid.IntRange(1, 4).Draw(rt, "spare")
		b := newWriterBench(rt, subs, size, subs+spare, rapid.IntRange(0, 2).Draw(rt, "overdraft"))
		twins := make([]twin, subs)
		n := 0
		record := func(rt *rapid.T) []byte {
			n++
			return pattern(n, rapid.OneOf(rapid.IntRange(0, 8), rapid.IntRange(0, 3*size), rapid.IntRange(0, 100)).Draw(rt, "length"))
		}
		readAll := func(rt *rapid.T) {
			for sub := range twins {
				b.check(rt, sub, &twins[sub], size)
			}
		}
		// done notes a record if it was written or begun, and finishes it.
		done := func(rt *rapid.T, err error, rec []byte, to ...int) {
			if errors.Is(err, ErrFull) {
				if b.w.Pending() {
					rt.Fatal("ErrFull within a record")
				}
				seen["full"]++
				readAll(rt)
				return
			}
			for _, sub := range to {
				twins[sub].stream = appendFramed(twins[sub].stream, rec)
			}
			for tries := 0; errors.Is(err, ErrUnfinished); tries++ {
				if tries > 1000 {
					rt.Fatal("no progress")
				}
				seen["unfinished"]++
				readAll(rt)
				err = b.w.Continue()
			}
			if err != nil || b.w.Pending() {
				rt.Fatalf("%v, pending %v", err, b.w.Pending())
			}
		}
		every := make([]int, subs)
		for i := range every {
			every[i] = i
		}
		sub := func(rt *rapid.T) int { return rapid.IntRange(0, subs-1).Draw(rt, "sub") }
		rt.Repeat(map[string]func(*rapid.T){
			"write": func(rt *rapid.T) {
				i, rec := sub(rt), record(rt)
				done(rt, b.w.WriteRecord(i, rec), rec, i)
			},
			"element": func(rt *rapid.T) {
				i, rec := sub(rt), record(rt)
				done(rt, b.w.WriteElement(i, rec), append([]byte{1}, rec...), i)
			},
			"elementAt": func(rt *rapid.T) {
				i, rec := sub(rt), record(rt)
				done(rt, b.w.WriteElementAt(i, 7, rec), append([]byte{0, 0, 0, 0, 0, 0, 0, 0, 7}, rec...), i)
			},
			"value": func(rt *rapid.T) {
				i, rec := sub(rt), record(rt)
				done(rt, WriteValue(b.w, stringAppender{}, i, string(rec)), rec, i)
			},
			"all": func(rt *rapid.T) {
				rec := record(rt)
				done(rt, b.w.WriteAll(rec), rec, every...)
			},
			"broadcast": func(rt *rapid.T) {
				rec := record(rt)
				done(rt, b.w.Broadcast(rec), rec, every...)
			},
			"event": func(rt *rapid.T) {
				must(rt, b.w.BroadcastEvent(event("event")))
				for i := range twins {
					twins[i].events = append(twins[i].events, len(twins[i].stream))
				}
			},
			"one event": func(rt *rapid.T) {
				i := sub(rt)
				must(rt, b.w.WriteEvent(i, event("event")))
				twins[i].events = append(twins[i].events, len(twins[i].stream))
			},
			"hint": func(rt *rapid.T) {
				b.hints[sub(rt)] = rapid.IntRange(-1, size+3).Draw(rt, "hint")
			},
			"read": func(rt *rapid.T) {
				i := sub(rt)
				b.check(rt, i, &twins[i], size)
			},
			"finish": func(rt *rapid.T) { must(rt, b.w.FinishBuffers()) },
			"": func(rt *rapid.T) {
				for i := range b.w.slots {
					if isOpen(&b.w.slots[i]) && isOpen(&b.w.shared) {
						rt.Fatal("both kinds of buffers are open")
					}
				}
				if isOpen(&b.w.shared) != b.w.broadcast {
					rt.Fatal("broadcast flag is wrong")
				}
				for _, slot := range append(b.w.slots[:subs:subs], b.w.shared) {
					if isOpen(&slot) && slot.Cap() < size {
						seen["hint"]++
					}
				}
				if b.w.broadcast {
					seen["shared"]++
				}
			},
		})
		must(rt, b.w.FinishBuffers())
		readAll(rt)
		for i := range twins {
			seen["event"] += len(twins[i].events)
			seen["partial"] += twins[i].partials
			if tw := &twins[i]; tw.read != len(tw.stream) || tw.seen != len(tw.events) || len(b.queues[i]) != 0 {
				rt.Fatalf("subpartition %d: read %d of %d bytes, %d of %d events", i, tw.read, len(tw.stream), tw.seen, len(tw.events))
			}
		}
		b.end(rt)
	})
}

// check reads what sub has and compares it with its twin.
func (b *writerBench) check(rt *rapid.T, sub int, tw *twin, size int) {
	for len(b.queues[sub]) > 0 {
		it := &b.queues[sub][0]
		if !it.event.IsZero() {
			if tw.seen >= len(tw.events) || tw.events[tw.seen] != tw.read {
				rt.Fatalf("event at %d of the stream", tw.read)
			}
			if tw.need != 0 || len(tw.head) != 0 {
				rt.Fatal("an event splits a record")
			}
			tw.seen++
			it.event.Release()
			b.queues[sub] = b.queues[sub][1:]
			continue
		}
		first := it.r.Pos() == 0
		p, finished := it.r.Next()
		if !p.IsZero() {
			q := p.Bytes()
			if it.r.Pos() > size {
				rt.Fatalf("%d bytes in a segment of %d", it.r.Pos(), size)
			}
			if tw.read+len(q) > len(tw.stream) || !bytes.Equal(q, tw.stream[tw.read:tw.read+len(q)]) {
				rt.Fatalf("subpartition %d: wrong bytes at %d", sub, tw.read)
			}
			if first {
				if it.partial > 0 {
					tw.partials++
				}
				if want := tw.owed(len(q)); it.partial != want {
					rt.Fatalf("partial length %d, want %d of %d bytes", it.partial, want, len(q))
				}
			}
			tw.advance(q)
			p.Release()
		} else if first && it.partial != 0 {
			rt.Fatalf("partial length %d of an empty buffer", it.partial)
		}
		if !finished {
			break
		}
		it.r.Close()
		b.queues[sub] = b.queues[sub][1:]
	}
	b.pool.Drain()
}

// owed is how many of the next n bytes belong to the record that was begun.
func (tw *twin) owed(n int) int {
	switch {
	case len(tw.head) > 0:
		head := append(bytes.Clone(tw.head), tw.stream[tw.read:]...)
		return min(n, lengthSize-len(tw.head)+int(binary.BigEndian.Uint32(head)))
	default:
		return min(n, tw.need)
	}
}

func (tw *twin) advance(p []byte) {
	tw.read += len(p)
	for len(p) > 0 {
		if tw.need > 0 {
			k := min(tw.need, len(p))
			tw.need -= k
			p = p[k:]
			continue
		}
		k := min(lengthSize-len(tw.head), len(p))
		tw.head = append(tw.head, p[:k]...)
		p = p[k:]
		if len(tw.head) == lengthSize {
			tw.need = int(binary.BigEndian.Uint32(tw.head))
			tw.head = tw.head[:0]
		}
	}
}
