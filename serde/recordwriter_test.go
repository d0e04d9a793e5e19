package serde

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"testing"

	"github.com/weirflow/weir/segment"
)

// memOutput is an output that keeps its queues in memory.
type memOutput struct {
	pool    *segment.LocalPool
	queues  [][]memItem
	hints   []int
	gone    []bool // finished or released subpartitions
	flushed []int
	charged []int
	dry     bool // Take fails
}

type memItem struct {
	r       segment.Reader
	partial int
	event   segment.Buffer
}

func (o *memOutput) Available(int) bool { return !o.dry && o.pool.Available() }

func (o *memOutput) Take(sub int) (segment.Buffer, bool) {
	if o.dry {
		return segment.Buffer{}, false
	}
	b, ok := o.pool.Take()
	if ok {
		o.charged[sub]++
	}
	return b, ok
}

func (o *memOutput) Add(sub int, r segment.Reader, partial int) (int, bool) {
	if o.gone[sub] {
		r.Close()
		return 1, false // the size must be ignored
	}
	o.queues[sub] = append(o.queues[sub], memItem{r: r, partial: partial})
	return o.hints[sub], true
}

func (o *memOutput) AddEvent(sub int, b segment.Buffer) bool {
	if o.gone[sub] {
		b.Release()
		return false
	}
	o.queues[sub] = append(o.queues[sub], memItem{event: b})
	return true
}

func (o *memOutput) Flush(sub int) { o.flushed[sub]++ }

// bench is a writer on a memOutput, and what was read of its queues.
type writerBench struct {
	*memOutput
	w      *RecordWriter[*memOutput]
	global *segment.Pool
}

func newWriterBench(t tb, subs, size, segments, overdraft int) *writerBench {
	t.Helper()
	global, err := segment.NewPool(segment.Config{SegmentSize: size, Segments: segments + overdraft})
	if err != nil {
		t.Fatal(err)
	}
	pool, err := global.NewLocal(segment.LocalConfig{Name: "test", Required: segments, Max: segments, Subpartitions: subs, Overdraft: overdraft})
	if err != nil {
		t.Fatal(err)
	}
	o := &memOutput{pool: pool, queues: make([][]memItem, subs), hints: make([]int, subs), gone: make([]bool, subs),
		flushed: make([]int, subs), charged: make([]int, subs)}
	w, err := NewRecordWriter(o, subs)
	if err != nil {
		t.Fatal(err)
	}
	return &writerBench{memOutput: o, w: w, global: global}
}

// take reads what sub has, as text: buffers in hex with their partial length if
// there is one, events by their content.
func (o *memOutput) take(sub int) []string {
	var got []string
	for len(o.queues[sub]) > 0 {
		it := &o.queues[sub][0]
		if !it.event.IsZero() {
			got = append(got, string(it.event.Bytes()))
			it.event.Release()
			o.queues[sub] = o.queues[sub][1:]
			continue
		}
		b, finished := it.r.Next()
		if !b.IsZero() {
			text := fmt.Sprintf("%x", b.Bytes())
			if it.partial != 0 {
				text = fmt.Sprintf("%d:%s", it.partial, text)
			}
			got = append(got, text)
			b.Release()
		}
		if !finished {
			break
		}
		it.r.Close()
		o.queues[sub] = o.queues[sub][1:]
	}
	o.pool.Drain()
	return got
}

// end closes everything and fails if a segment did not come home.
func (b *writerBench) end(t tb) {
	t.Helper()
	b.w.Close()
	b.w.Close()
	for sub := range b.queues {
		b.take(sub)
		for i := range b.queues[sub] {
			b.queues[sub][i].r.Close()
		}
	}
	b.pool.Close()
	if err := b.global.Close(); err != nil {
		t.Fatal(err)
	}
}

func event(name string) segment.Buffer {
	return segment.Wrap([]byte(name), segment.EventBuffer)
}

func wantTaken(t tb, b *writerBench, sub int, want ...string) {
	t.Helper()
	got := b.take(sub)
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Fatalf("subpartition %d: %q, want %q", sub, got, want)
	}
}

func must(t tb, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestWriterExamples are the examples of Flink's behaviour, segment 16.
func TestWriterExamples(t *testing.T) {
	t.Run("spanning", func(t *testing.T) {
		b := newWriterBench(t, 1, 16, 4, 0)
		defer b.end(t)
		must(t, b.w.WriteRecord(0, []byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20}))
		must(t, b.w.WriteRecord(0, []byte{0x40, 0x41, 0x42, 0x43}))
		wantTaken(t, b, 0, "000000140102030405060708090a0b0c", "8:0d0e0f1011121314"+"0000000440414243")
	})
	t.Run("length cut", func(t *testing.T) {
		b := newWriterBench(t, 1, 16, 4, 0)
		defer b.end(t)
		must(t, b.w.WriteRecord(0, pattern(0, 10)))
		must(t, b.w.WriteRecord(0, []byte{0x60, 0x61, 0x62}))
		wantTaken(t, b, 0, fmt.Sprintf("0000000a%x0000", pattern(0, 10)), "5:0003606162")
	})
	t.Run("broadcast, unicast, event", func(t *testing.T) {
		b := newWriterBench(t, 2, 16, 4, 0)
		defer b.end(t)
		must(t, b.w.Broadcast([]byte{0x80, 0x81}))
		must(t, b.w.WriteRecord(0, []byte{0x90}))
		must(t, b.w.BroadcastEvent(event("event")))
		wantTaken(t, b, 0, "000000028081", "0000000190", "event")
		wantTaken(t, b, 1, "000000028081", "event")
		if b.charged[0] != 2 || b.charged[1] != 0 {
			t.Errorf("charged %v", b.charged)
		}
		if s := b.w.Stats(); s.Buffers != 3 || s.Bytes != 6+6+5 {
			t.Errorf("stats %+v", s)
		}
	})
	t.Run("hint below a record", func(t *testing.T) {
		b := newWriterBench(t, 1, 16, 4, 0)
		defer b.end(t)
		b.hints[0] = 5
		must(t, b.w.WriteRecord(0, pattern(0, 8)))
		must(t, b.w.WriteRecord(0, pattern(1, 8)))
		wantTaken(t, b, 0, fmt.Sprintf("00000008%x", pattern(0, 8)), fmt.Sprintf("00000008%x", pattern(1, 8)))
	})
	t.Run("hint and a spanning record", func(t *testing.T) {
		b := newWriterBench(t, 1, 16, 4, 0)
		defer b.end(t)
		b.hints[0] = 5
		must(t, b.w.WriteRecord(0, pattern(0, 20)))
		must(t, b.w.WriteRecord(0, pattern(1, 2)))
		got := b.take(0)
		sizes := []int{16, 8, 6}
		for i, g := range got {
			if n := len(g[bytes.IndexByte([]byte(g), ':')+1:]) / 2; n != sizes[i] {
				t.Errorf("buffer %d has %d bytes, want %d", i, n, sizes[i])
			}
		}
		if len(got) != 3 {
			t.Errorf("%d buffers", len(got))
		}
	})
	t.Run("pool exhausted", func(t *testing.T) {
		b := newWriterBench(t, 1, 16, 1, 0)
		defer b.end(t)
		b.hints[0] = 8
		must(t, b.w.WriteRecord(0, []byte{1, 2}))
		must(t, b.w.WriteRecord(0, []byte{3})) // 11 bytes in a buffer of 8: its cap was raised
		must(t, b.w.FinishBuffers())
		wantTaken(t, b, 0, "0000000201020000000103")
	})
	t.Run("record ends with the buffer", func(t *testing.T) {
		b := newWriterBench(t, 1, 16, 4, 0)
		defer b.end(t)
		must(t, b.w.WriteRecord(0, pattern(0, 12)))
		wantTaken(t, b, 0, fmt.Sprintf("0000000c%x", pattern(0, 12)))
		if len(b.queues[0]) != 0 {
			t.Error("a full buffer is not finished")
		}
		must(t, b.w.WriteRecord(0, pattern(1, 1)))
		wantTaken(t, b, 0, "000000011f")
	})
}

// TestWriterHintOfGone: a subpartition that is finished has no say in the size
// of buffers; among the others the smallest wish holds.
func TestWriterHintOfGone(t *testing.T) {
	for _, hints := range [][]int{{30, 20, 0, 40}, {40, 20, 0, 30}, {0, 20, 30, -1}} {
		b := newWriterBench(t, 4, 64, 8, 0)
		b.hints = hints
		b.gone[1] = true
		for i := range 4 {
			must(t, b.w.Broadcast(pattern(i, 11)))
		}
		must(t, b.w.FinishBuffers())
		for _, sub := range []int{0, 2, 3} {
			if got := b.take(sub); len(got) != 2 || len(got[0]) != 2*30 || len(got[1]) != 2*30 {
				t.Errorf("hints %v, subpartition %d: %q", hints, sub, got)
			}
		}
		if got := b.take(1); len(got) != 0 {
			t.Errorf("finished subpartition got %q", got)
		}
		b.charged[1] = 0
		for i := range 4 {
			must(t, b.w.WriteRecord(1, pattern(i, 11)))
		}
		if b.charged[1] != 1 {
			t.Errorf("%d buffers for 60 bytes into the void", b.charged[1])
		}
		b.end(t)
	}
}

// TestWriterNeverBlocks: without memory a record does not begin; one that has
// begun says so and goes on later.
func TestWriterNeverBlocks(t *testing.T) {
	b := newWriterBench(t, 2, 16, 2, 1)
	defer b.end(t)
	must(t, b.w.WriteRecord(0, pattern(0, 4)))
	must(t, b.w.WriteRecord(1, pattern(1, 4)))
	// Both are taken. What fits into an open buffer goes on; another record does not begin, although there is overdraft.
	must(t, b.w.WriteRecord(0, pattern(2, 3)))
	if err := b.w.WriteRecord(0, pattern(3, 30)); !errors.Is(err, ErrFull) || b.w.Pending() {
		t.Fatalf("got %v, pending %v", err, b.w.Pending())
	}
	if err := b.w.Broadcast(pattern(3, 30)); !errors.Is(err, ErrFull) || b.w.Pending() {
		t.Fatalf("got %v, pending %v", err, b.w.Pending())
	}
	wantTaken(t, b, 0, fmt.Sprintf("00000004%x00000003%x", pattern(0, 4), pattern(2, 3)))
	must(t, b.w.FinishBuffers())
	b.take(0)
	b.take(1)
	// A record of five buffers: two, one of overdraft, then no more.
	big := pattern(4, 70)
	if err := b.w.WriteRecord(1, big); !errors.Is(err, ErrUnfinished) || !b.w.Pending() {
		t.Fatalf("got %v, pending %v", err, b.w.Pending())
	}
	ev := event("e")
	for name, err := range map[string]error{
		"WriteRecord":    b.w.WriteRecord(0, nil),
		"WriteElement":   b.w.WriteElement(0, nil),
		"WriteElementAt": b.w.WriteElementAt(0, 1, nil),
		"WriteAll":       b.w.WriteAll(nil),
		"Broadcast":      b.w.Broadcast(nil),
		"WriteValue":     WriteValue(b.w, stringAppender{}, 0, "x"),
		"BroadcastValue": BroadcastValue(b.w, stringAppender{}, "x"),
		"BroadcastEvent": b.w.BroadcastEvent(ev),
		"WriteEvent":     b.w.WriteEvent(0, ev),
		"Finish":         b.w.Finish(ev),
		"FinishBuffers":  b.w.FinishBuffers(),
		"Continue":       b.w.Continue(),
	} {
		if !errors.Is(err, ErrUnfinished) {
			t.Errorf("%s within a record: %v", name, err)
		}
	}
	got := b.take(1)
	for b.w.Pending() {
		if err := b.w.Continue(); err != nil && !errors.Is(err, ErrUnfinished) {
			t.Fatal(err)
		}
		got = append(got, b.take(1)...)
	}
	must(t, b.w.Continue())
	must(t, b.w.WriteEvent(1, ev))
	got = append(got, b.take(1)...)
	stream := fmt.Sprintf("%x", framed(big))
	want := []string{stream[:32], "16:" + stream[32:64], "16:" + stream[64:96], "16:" + stream[96:128], "10:" + stream[128:], "e"}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Fatalf("got %q", got)
	}
}

// TestNothingBetween: while a record is half written, another subpartition's
// open buffer takes nothing either.
func TestNothingBetween(t *testing.T) {
	b := newWriterBench(t, 2, 32, 2, 0)
	defer b.end(t)
	must(t, b.w.WriteRecord(0, []byte("a")))
	if err := b.w.WriteRecord(1, pattern(1, 100)); !errors.Is(err, ErrUnfinished) {
		t.Fatalf("got %v", err)
	}
	for name, err := range map[string]error{
		"WriteRecord":    b.w.WriteRecord(0, nil),
		"WriteElement":   b.w.WriteElement(0, nil),
		"WriteElementAt": b.w.WriteElementAt(0, 1, nil),
		"WriteBytes":     b.w.WriteBytes(0, nil),
		"WriteValue":     WriteValue(b.w, stringAppender{}, 0, "x"),
	} {
		if !errors.Is(err, ErrUnfinished) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for b.w.Pending() {
		b.take(1)
		if err := b.w.Continue(); err != nil && !errors.Is(err, ErrUnfinished) {
			t.Fatal(err)
		}
	}
	must(t, b.w.WriteRecord(0, []byte("b")))
	wantTaken(t, b, 0, "00000001610000000162")
}

// TestWriteAllResumes: a record for all subpartitions goes on where it stopped.
func TestWriteAllResumes(t *testing.T) {
	b := newWriterBench(t, 3, 16, 4, 0)
	defer b.end(t)
	rec := pattern(1, 20) // two buffers each, so 4 do for all but one half
	if err := b.w.WriteAll(rec); !errors.Is(err, ErrUnfinished) {
		t.Fatalf("got %v", err)
	}
	got := make([]string, 3)
	for {
		for sub := range got {
			for _, g := range b.take(sub) {
				got[sub] += g + " "
			}
		}
		if !b.w.Pending() {
			break
		}
		if err := b.w.Continue(); err != nil && !errors.Is(err, ErrUnfinished) {
			t.Fatal(err)
		}
	}
	stream := fmt.Sprintf("%x", framed(rec))
	for sub := range got {
		if want := stream[:32] + " 8:" + stream[32:] + " "; got[sub] != want {
			t.Errorf("subpartition %d: %q, want %q", sub, got[sub], want)
		}
	}
}

func TestWriterMisuse(t *testing.T) {
	if _, err := NewRecordWriter(&memOutput{}, 0); !errors.Is(err, ErrSubpartition) {
		t.Errorf("no subpartition: %v", err)
	}
	b := newWriterBench(t, 2, 16, 4, 0)
	ev := event("e")
	for _, sub := range []int{-2, 2, math.MaxInt} {
		for name, err := range map[string]error{
			"WriteRecord":    b.w.WriteRecord(sub, nil),
			"WriteElement":   b.w.WriteElement(sub, nil),
			"WriteElementAt": b.w.WriteElementAt(sub, 1, nil),
			"WriteValue":     WriteValue(b.w, stringAppender{}, sub, "x"),
			"WriteEvent":     b.w.WriteEvent(sub, ev),
		} {
			if !errors.Is(err, ErrSubpartition) {
				t.Errorf("%s to %d: %v", name, sub, err)
			}
		}
		b.w.Flush(sub)
	}
	b.w.Flush(1)
	b.w.FlushAll()
	if fmt.Sprint(b.flushed) != "[1 2]" {
		t.Errorf("flushed %v", b.flushed)
	}
	must(t, b.w.WriteRecord(1, []byte("x")))
	must(t, b.w.Finish(ev.Retain()))
	wantTaken(t, b, 0, "e")
	wantTaken(t, b, 1, "0000000178", "e")
	for name, err := range map[string]error{
		"WriteRecord":    b.w.WriteRecord(0, nil),
		"WriteAll":       b.w.WriteAll(nil),
		"Broadcast":      b.w.Broadcast(nil),
		"BroadcastEvent": b.w.BroadcastEvent(ev),
		"WriteEvent":     b.w.WriteEvent(0, ev),
		"Finish":         b.w.Finish(ev),
	} {
		if !errors.Is(err, ErrFinished) {
			t.Errorf("%s after Finish: %v", name, err)
		}
	}
	if ev.Refs() != 1 {
		t.Errorf("event has %d references", ev.Refs())
	}
	ev.Release()
	b.end(t)

	// An output that gives something that is no buffer.
	bad, err := NewRecordWriter(zeroOutput{}, 1)
	must(t, err)
	if err := bad.WriteRecord(0, []byte("x")); !errors.Is(err, ErrFull) {
		t.Errorf("zero buffer: %v", err)
	}
}

type zeroOutput struct{ memOutput }

func (zeroOutput) Available(int) bool                       { return true }
func (zeroOutput) Take(int) (segment.Buffer, bool)          { return segment.Buffer{}, true }
func (zeroOutput) Add(int, segment.Reader, int) (int, bool) { return 0, false }
func (zeroOutput) AddEvent(int, segment.Buffer) bool        { return false }
func (zeroOutput) Flush(int)                                {}

// TestWriterTooLarge: head and body together must fit the length field.
func TestWriterTooLarge(t *testing.T) {
	for _, tc := range []struct {
		head, body int
		ok         bool
	}{
		{0, 0, true}, {0, MaxRecordLength, true}, {0, MaxRecordLength + 1, false},
		{9, MaxRecordLength - 9, true}, {9, MaxRecordLength - 8, false}, {9, math.MaxInt, false},
	} {
		if err := checkWritten(tc.head, tc.body); (err == nil) != tc.ok || !tc.ok && !errors.Is(err, ErrTooLarge) {
			t.Errorf("%+v: %v", tc, err)
		}
	}
}

// stringAppender encodes a string as its bytes.
type stringAppender struct{}

func (stringAppender) Append(dst []byte, s string) []byte { return append(dst, s...) }

// TestEmptyValueIsNotKept: an empty value encoded in place once became the
// writer's scratch array, which so lay in a segment.
func TestEmptyValueIsNotKept(t *testing.T) {
	b := newWriterBench(t, 1, 16, 4, 0)
	defer b.end(t)
	must(t, b.w.WriteRecord(0, nil))
	must(t, b.w.WriteRecord(0, nil))
	must(t, WriteValue(b.w, stringAppender{}, 0, ""))
	must(t, WriteValue(b.w, stringAppender{}, 0, "x"))
	must(t, b.w.FinishBuffers())
	wantTaken(t, b, 0, "00000000000000000000000000000001", "1:78")
}

// TestWriteForms: the forms without copying write what the plain one does, for
// every room that is left in the buffer.
func TestWriteForms(t *testing.T) {
	for room := range 40 {
		for n := range 24 {
			value := pattern(room, n)
			plain := map[string][]byte{
				"element": append([]byte{1}, value...),
				"at":      append(append([]byte{0}, 0, 0, 0, 0, 0, 0, 3, 0xe8), value...),
				"value":   value,
			}
			forms := map[string]func(w *RecordWriter[*memOutput]) error{
				"element": func(w *RecordWriter[*memOutput]) error { return w.WriteElement(0, value) },
				"at":      func(w *RecordWriter[*memOutput]) error { return w.WriteElementAt(0, 1000, value) },
				"value":   func(w *RecordWriter[*memOutput]) error { return WriteValue(w, stringAppender{}, 0, string(value)) },
			}
			for form, rec := range plain {
				var got [2]string
				for i, f := range []func(w *RecordWriter[*memOutput]) error{
					forms[form],
					func(w *RecordWriter[*memOutput]) error { return w.WriteRecord(0, rec) },
				} {
					b := newWriterBench(t, 1, 64, 4, 0)
					must(t, b.w.WriteRecord(0, make([]byte, 60-room)))
					must(t, f(b.w))
					must(t, f(b.w)) // for values: once with a guess
					got[i] = fmt.Sprint(b.take(0), " and open: ", len(b.queues[0]))
					b.end(t)
				}
				if got[0] != got[1] {
					t.Fatalf("%s, room %d, %d bytes: %s, want %s", form, room, n, got[0], got[1])
				}
			}
		}
	}
	// Broadcast forms, and stream records by a serializer.
	b := newWriterBench(t, 2, 64, 4, 0)
	defer b.end(t)
	must(t, b.w.BroadcastElement([]byte("v")))
	must(t, b.w.BroadcastElementAt(1, []byte("v")))
	must(t, BroadcastValue(b.w, stringAppender{}, "v"))
	must(t, b.w.WriteRecord(AllSubpartitions, []byte("v")))
	s := StreamRecordAppender[string, stringAppender]{}
	must(t, BroadcastValue(b.w, s, StreamRecord[string]{Value: "v"}))
	must(t, BroadcastValue(b.w, s, StreamRecord[string]{Value: "v", Timestamp: 1, HasTimestamp: true}))
	want := "000000020176" + "0000000a00000000000000000176" + "0000000176" + "0000000176" + "000000020176" + "0000000a00000000000000000176"
	wantTaken(t, b, 0, want)
	wantTaken(t, b, 1, want)
}
