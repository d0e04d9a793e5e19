package serde

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/weirflow/weir/internal/buildtag"
	"github.com/weirflow/weir/segment"
)

func TestDeserializerEveryCut(t *testing.T) {
	recs := [][]byte{pattern(0, 3), {}, pattern(1, 9), pattern(2, 1), {}, {}, pattern(3, 5)}
	stream := framed(recs...)
	for i := range len(stream) + 1 {
		for j := i; j <= len(stream); j++ {
			d := NewDeserializer(DeserializerConfig{})
			sameRecords(t, readAll(t, d, stream[:i], stream[i:j], stream[j:]), recs)
			if d.Count() != uint64(len(recs)) {
				t.Fatalf("counted %d", d.Count())
			}
			if !d.NeedsBuffer() {
				t.Fatal("still has a buffer")
			}
			if u := unconsumed(t, d); len(u) != 0 {
				t.Fatalf("left over: %x", u)
			}
		}
	}
}

func TestDeserializerResults(t *testing.T) {
	type step struct {
		res Result
		rec string
	}
	for _, tc := range []struct {
		name  string
		parts []string
		want  [][]step
	}{
		{"whole", []string{"\x00\x00\x00\x02ab"}, [][]step{{{Last, "ab"}}}},
		{"two", []string{"\x00\x00\x00\x01a\x00\x00\x00\x01b"}, [][]step{{{Intermediate, "a"}, {Last, "b"}}}},
		{"empty last", []string{"\x00\x00\x00\x01a\x00\x00\x00\x00"}, [][]step{{{Intermediate, "a"}, {Last, ""}}}},
		{"length at the end", []string{"\x00\x00\x00\x01a\x00\x00\x00\x02", "bc"}, [][]step{{{Intermediate, "a"}, {Partial, ""}}, {{Last, "bc"}}}},
		{"length cut", []string{"\x00", "\x00\x00", "\x02bc\x00"}, [][]step{{{Partial, ""}}, {{Partial, ""}}, {{Intermediate, "bc"}, {Partial, ""}}}},
		{"empty buffers", []string{"", "\x00\x00\x00\x02b", "", "c", ""}, [][]step{{{Partial, ""}}, {{Partial, ""}}, {{Partial, ""}}, {{Last, "bc"}}, {{Partial, ""}}}},
		{"empty record over buffers", []string{"\x00\x00", "\x00\x00"}, [][]step{{{Partial, ""}}, {{Last, ""}}}},
		{"empty record over buffers and more", []string{"\x00\x00", "\x00\x00\x00\x00\x00\x01a"}, [][]step{{{Partial, ""}}, {{Intermediate, ""}, {Last, "a"}}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			d := NewDeserializer(DeserializerConfig{})
			for i, p := range tc.parts {
				b, w := watch([]byte(p))
				if err := d.SetBuffer(b); err != nil {
					t.Fatal(err)
				}
				for j, want := range tc.want[i] {
					rec, res, err := d.Next()
					if err != nil || res != want.res || string(rec) != want.rec {
						t.Fatalf("buffer %d step %d: %q %v %v, want %q %v", i, j, rec, res, err, want.rec, want.res)
					}
				}
				d.Done()
				w.end(t)
			}
		})
	}
}

// TestRecordStaysValid checks that a record that came with Last can be read
// until the next call although its buffer is used up.
func TestRecordStaysValid(t *testing.T) {
	for _, release := range []struct {
		name string
		call func(d *Deserializer)
	}{
		{"Done", func(d *Deserializer) { d.Done() }},
		{"Next", func(d *Deserializer) {
			if _, _, err := d.Next(); !errors.Is(err, ErrNoBuffer) {
				t.Errorf("got %v", err)
			}
		}},
		{"SetBuffer", func(d *Deserializer) {
			if err := d.SetBuffer(segment.Wrap(nil, segment.DataBuffer)); err != nil {
				t.Error(err)
			}
		}},
		{"Clear", func(d *Deserializer) { d.Clear() }},
		{"Close", func(d *Deserializer) { d.Close() }},
	} {
		t.Run(release.name, func(t *testing.T) {
			d := NewDeserializer(DeserializerConfig{})
			b, w := watch(framed([]byte("last")))
			if err := d.SetBuffer(b); err != nil {
				t.Fatal(err)
			}
			rec, res, err := d.Next()
			if err != nil || res != Last || w.released() {
				t.Fatalf("%v %v, released %v", res, err, w.released())
			}
			if string(rec) != "last" {
				t.Fatalf("got %q", rec)
			}
			release.call(d)
			w.end(t)
		})
	}
}

func TestDeserializerProtocolErrors(t *testing.T) {
	d := NewDeserializer(DeserializerConfig{})
	if _, _, err := d.Next(); !errors.Is(err, ErrNoBuffer) {
		t.Errorf("Next without a buffer: %v", err)
	}
	first, w1 := watch(framed([]byte("a"), []byte("b")))
	if err := d.SetBuffer(first); err != nil {
		t.Fatal(err)
	}
	second, w2 := watch(framed([]byte("c")))
	if err := d.SetBuffer(second); !errors.Is(err, ErrBufferPending) {
		t.Errorf("second SetBuffer: %v", err)
	}
	w2.end(t)
	for _, want := range []string{"a", "b"} { // the first one is not hurt
		if rec, _, err := d.Next(); err != nil || string(rec) != want {
			t.Errorf("got %q, %v", rec, err)
		}
	}
	d.Done()
	w1.end(t)
	d.Close()
	d.Close()
	third, w3 := watch(nil)
	if err := d.SetBuffer(third); !errors.Is(err, ErrClosed) {
		t.Errorf("SetBuffer after Close: %v", err)
	}
	w3.end(t)
	if _, _, err := d.Next(); !errors.Is(err, ErrClosed) {
		t.Errorf("Next after Close: %v", err)
	}
	compressed := segment.Wrap(framed([]byte("a")), segment.DataBuffer).WithCompressed(true)
	d = NewDeserializer(DeserializerConfig{})
	if err := d.SetBuffer(compressed); !errors.Is(err, ErrUnreadable) {
		t.Errorf("compressed buffer: %v", err)
	}
	d.Clear()
}

func TestBadLengths(t *testing.T) {
	length := func(n int32) []byte { return binary.BigEndian.AppendUint32(nil, uint32(n)) }
	for _, tc := range []struct {
		name   string
		length int32
		limit  int
		noFile bool
		want   error
	}{
		{"negative", -1, 0, false, ErrNegativeLength},
		{"most negative", -1 << 31, 0, false, ErrNegativeLength},
		{"over the limit", 11, 10, false, ErrTooLarge},
		{"over Java's arrays", 1<<31 - 1, 0, false, ErrTooLarge},
		{"needs a file", DefaultSpillThreshold + 1, 0, true, ErrTooLarge},
	} {
		bad := append(length(tc.length), "xyz"...)
		if tc.limit > 0 {
			bad = append(length(tc.length), pattern(1, int(tc.length)+1)...)
		}
		for k := 0; k <= lengthSize; k++ {
			t.Run(fmt.Sprintf("%s/%d", tc.name, k), func(t *testing.T) {
				d := NewDeserializer(DeserializerConfig{Channel: "7 of gate 2", MaxRecord: tc.limit, NoSpill: tc.noFile})
				sameRecords(t, readAll(t, d, framed([]byte("good"), nil)), [][]byte{[]byte("good"), {}})
				err := error(nil)
				var w watched
				for _, p := range [][]byte{bad[:k], bad[k:]} {
					var b segment.Buffer
					b, w = watch(p)
					if err = d.SetBuffer(b); err == nil {
						_, _, err = d.Next()
					}
					if err != nil {
						break
					}
					w.end(t)
				}
				if !errors.Is(err, tc.want) {
					t.Fatalf("got %v, want %v", err, tc.want)
				}
				var re *RecordError
				if !errors.As(err, &re) || re.Record != 2 || re.Channel != "7 of gate 2" {
					t.Fatalf("got %#v", re)
				}
				if _, _, again := d.Next(); again != err {
					t.Fatalf("the error went away: %v", again)
				}
				if _, uerr := d.Unconsumed(); uerr != err {
					t.Fatalf("unconsumed after an error: %v", uerr)
				}
				if w.released() {
					t.Fatal("released before Clear")
				}
				d.Clear()
				w.end(t)
				sameRecords(t, readAll(t, d, framed([]byte("afterwards"))[:8], []byte("erwards")[1:]), [][]byte{[]byte("afterwards")})
			})
		}
	}
}

func TestLimitIsInclusive(t *testing.T) {
	d := NewDeserializer(DeserializerConfig{MaxRecord: 10})
	stream := framed(pattern(1, 10), pattern(2, 10), pattern(3, 10))
	sameRecords(t, readAll(t, d, stream[:20], stream[20:]), [][]byte{pattern(1, 10), pattern(2, 10), pattern(3, 10)})
}

// TestUnconsumedExamples has the examples of Flink's behaviour: stream
// 0000 | 0003aabb | cc00000001dd.
func TestUnconsumedExamples(t *testing.T) {
	d := NewDeserializer(DeserializerConfig{})
	want := func(what string, pieces ...string) {
		t.Helper()
		got := unconsumed(t, d)
		if len(got) != len(pieces) {
			t.Fatalf("%s: %d pieces, want %d", what, len(got), len(pieces))
		}
		for i := range got {
			if fmt.Sprintf("%x", got[i]) != pieces[i] {
				t.Fatalf("%s: %x, want %s", what, got[i], pieces[i])
			}
		}
	}
	set := func(p string) {
		t.Helper()
		if err := d.SetBuffer(segment.Wrap([]byte(p), segment.DataBuffer)); err != nil {
			t.Fatal(err)
		}
	}
	next := func(res Result) {
		t.Helper()
		if _, got, err := d.Next(); err != nil || got != res {
			t.Fatalf("%v %v, want %v", got, err, res)
		}
	}
	want("nothing yet")
	set("\x00\x00")
	want("buffer 1", "0000")
	next(Partial)
	want("buffer 1 used up", "0000")
	set("\x00\x03\xaa\xbb")
	want("buffer 2", "00000003aabb")
	next(Partial)
	set("\xcc\x00\x00\x00\x01\xdd")
	want("buffer 3", "00000003aabbcc00000001dd")
	next(Intermediate)
	want("first record", "00000001dd")
	next(Last)
	want("second record")
}

// TestUnconsumedOutlives checks that a snapshot is not touched by what the
// deserializer does afterwards.
func TestUnconsumedOutlives(t *testing.T) {
	d := NewDeserializer(DeserializerConfig{})
	b, w := watch(framed([]byte("one"), []byte("two")))
	if err := d.SetBuffer(b); err != nil {
		t.Fatal(err)
	}
	u, err := d.Unconsumed()
	if err != nil {
		t.Fatal(err)
	}
	d.Close()
	w.end(t)
	p, ok, err := u.Next()
	if !ok || err != nil || !bytes.Equal(p.Bytes(), framed([]byte("one"), []byte("two"))) {
		t.Fatalf("%v %v %q", ok, err, p.Bytes())
	}
	p.Release()
	u.Close()
	u.Close()
	if _, ok, _ := u.Next(); ok || u.Len() != 0 {
		t.Fatal("a piece after Close")
	}
}

// TestUnconsumedLengthOutlives is the same for a part of a length.
func TestUnconsumedLengthOutlives(t *testing.T) {
	d := NewDeserializer(DeserializerConfig{})
	must(t, d.SetBuffer(segment.Wrap([]byte{0, 0, 1}, segment.DataBuffer)))
	if _, res, err := d.Next(); res != Partial || err != nil {
		t.Fatal(res, err)
	}
	u, err := d.Unconsumed()
	must(t, err)
	d.Clear()
	must(t, d.SetBuffer(segment.Wrap([]byte{9, 9}, segment.DataBuffer)))
	if _, res, err := d.Next(); res != Partial || err != nil {
		t.Fatal(res, err)
	}
	p, ok, err := u.Next()
	if !ok || err != nil || !bytes.Equal(p.Bytes(), []byte{0, 0, 1}) {
		t.Fatalf("%v %v %x", ok, err, p.Bytes())
	}
	p.Release()
	u.Close()
	d.Close()
}

// TestReadValue: a record that ends too early for its serializer is broken
// serialization, by a type parameter as by a function; one that is too long is
// an underread. Both leave the stream in step.
func TestReadValue(t *testing.T) {
	d := NewDeserializer(DeserializerConfig{Channel: "2"})
	must(t, d.SetBuffer(segment.Wrap(framed([]byte{0, 0, 0, 0, 0, 0, 0, 5}, []byte{1, 2, 3}, make([]byte, 9), []byte{0, 0, 0, 0, 0, 0, 0, 6}), segment.DataBuffer)))
	for i, want := range []struct {
		v   int64
		err error
	}{{5, nil}, {0, ErrBrokenSerialization}, {0, ErrUnderread}, {6, nil}} {
		v, res, err := ReadValue(d, LongSerializer{})
		if v != want.v || !res.Record() || !errors.Is(err, want.err) {
			t.Errorf("record %d: %d %v %v", i, v, res, err)
		}
		var re *RecordError
		if want.err != nil && (!errors.As(err, &re) || re.Record != uint64(i) || re.Channel != "2") {
			t.Errorf("record %d: %v", i, err)
		}
	}
	d.Close()
}

// TestReleaser: used up buffers go through the releaser and are home after a flush.
func TestReleaser(t *testing.T) {
	global, err := segment.NewPool(segment.Config{SegmentSize: 16, Segments: 3})
	must(t, err)
	home := 0
	pool, err := global.NewLocal(segment.LocalConfig{Name: "releaser", Required: 3, OnReturn: func(uint32) { home++ }})
	must(t, err)
	r := pool.NewReleaser()
	d := NewDeserializer(DeserializerConfig{Releaser: r})
	for i, p := range []string{"\x00\x00\x00\x01a", "\x00\x00\x00\x02b", "c\x00\x00\x00\x00"} {
		b, ok := pool.Take()
		if !ok {
			t.Fatal("no segment")
		}
		must(t, d.SetBuffer(b.Resized(copy(b.Memory(), p))))
		for {
			_, res, err := d.Next()
			must(t, err)
			if res.Consumed() {
				break
			}
		}
		d.Done()
		pool.Drain()
		if r.Staged() != i+1 || home != 0 {
			t.Fatalf("%d staged, %d home", r.Staged(), home)
		}
	}
	r.Flush()
	pool.Drain()
	if home != 3 {
		t.Fatalf("%d home", home)
	}
	d.Close()
	r.Close()
	pool.Close()
	must(t, global.Close())
}

// TestWholeElement: it takes exactly what Next would hand out as an
// intermediate record with the tag of a record without timestamp.
func TestWholeElement(t *testing.T) {
	stream := framed([]byte("\x01a"), []byte{1}, []byte("\x00........t"), nil, []byte("\x01bc"), []byte("\x02......wm"), []byte("\x01last"))
	d := NewDeserializer(DeserializerConfig{})
	var got []string
	must(t, d.SetBuffer(segment.Wrap(stream, segment.DataBuffer)))
	for {
		if v, ok := d.WholeElement(); ok {
			if cap(v) != len(v) {
				t.Fatal("the value can be appended to")
			}
			got = append(got, "whole "+string(v))
			continue
		}
		rec, res, err := d.Next()
		must(t, err)
		got = append(got, fmt.Sprintf("%d %q", res, rec))
		if res.Consumed() {
			break
		}
	}
	want := []string{"whole a", "whole ", `1 "\x00........t"`, `1 ""`, "whole bc", `1 "\x02......wm"`, `2 "\x01last"`}
	if fmt.Sprint(got) != fmt.Sprint(want) || d.Count() != 7 {
		t.Fatalf("%q, %d records", got, d.Count())
	}
	// An empty record before a length that begins with the tag's byte.
	d = NewDeserializer(DeserializerConfig{})
	must(t, d.SetBuffer(segment.Wrap([]byte("\x00\x00\x00\x00\x01\x00\x00\x00abc"), segment.DataBuffer)))
	if v, ok := d.WholeElement(); ok {
		t.Fatalf("no tag: %q", v)
	}
	if rec, res, err := d.Next(); res != Intermediate || len(rec) != 0 || err != nil {
		t.Fatal(rec, res, err)
	}
	d.Clear()
	d = NewDeserializer(DeserializerConfig{MaxRecord: 3})
	must(t, d.SetBuffer(segment.Wrap(framed([]byte("\x01ab"), []byte("\x01abc"), nil), segment.DataBuffer)))
	if v, ok := d.WholeElement(); !ok || string(v) != "ab" {
		t.Fatalf("%q %v", v, ok)
	}
	if v, ok := d.WholeElement(); ok {
		t.Fatalf("above the limit: %q", v)
	}
	if _, _, err := d.Next(); !errors.Is(err, ErrTooLarge) {
		t.Fatalf("got %v", err)
	}
	d.Clear()
}

func TestRecordsIterator(t *testing.T) {
	d := NewDeserializer(DeserializerConfig{})
	stream := framed([]byte("a"), []byte("bc"), []byte("def"))
	var got []string
	for _, p := range [][]byte{stream[:8], stream[8:]} {
		b, w := watch(p)
		for rec, err := range d.Records(b) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, string(rec))
		}
		w.end(t)
	}
	if fmt.Sprint(got) != "[a bc def]" {
		t.Fatalf("got %v", got)
	}
	// The body of the loop may use the deserializer.
	var body string
	for rec, err := range d.Records(segment.Wrap(stream, segment.DataBuffer)) {
		must(t, err)
		body += string(rec)
		if body == "a" {
			if rec, _, err := d.Next(); err != nil || string(rec) != "bc" {
				t.Fatalf("%q %v", rec, err)
			}
			if p, err := d.AppendUnconsumed(nil); err != nil || !bytes.Equal(p, framed([]byte("def"))) {
				t.Fatalf("%q %v", p, err)
			}
		}
	}
	if body != "adef" {
		t.Fatalf("got %q", body)
	}
	var cleared error
	for _, err := range d.Records(segment.Wrap(stream, segment.DataBuffer)) {
		cleared = err
		d.Clear()
	}
	if !errors.Is(cleared, ErrNoBuffer) {
		t.Fatalf("got %v", cleared)
	}
	// Breaking off leaves the rest to Next.
	b, w := watch(stream)
	for range d.Records(b) {
		break
	}
	if rec, _, err := d.Next(); err != nil || string(rec) != "bc" {
		t.Fatalf("%q %v", rec, err)
	}
	var last error
	for _, err := range d.Records(segment.Wrap(stream, segment.DataBuffer)) {
		last = err
	}
	if !errors.Is(last, ErrBufferPending) {
		t.Fatalf("got %v", last)
	}
	d.Clear()
	w.end(t)
	last = nil
	for _, err := range d.Records(segment.Wrap([]byte("\xff\xff\xff\xff\x00"), segment.DataBuffer)) {
		last = err
	}
	if !errors.Is(last, ErrNegativeLength) {
		t.Fatalf("got %v", last)
	}
	d.Clear()
}

// TestReadNextSER01 is SER-01: a reader that takes 9 or 11 bytes of records of
// 10 is found out at the first record, inside a buffer and over two.
func TestReadNextSER01(t *testing.T) {
	stream := framed(pattern(0, 10), pattern(1, 10), pattern(2, 10), pattern(3, 10), pattern(4, 10))
	for _, consumed := range []int{9, 11} {
		for first := range 2 { // the first record read is inside the buffer, or spans
			d := NewDeserializer(DeserializerConfig{Channel: "3"})
			other := NewDeserializer(DeserializerConfig{Channel: "4"})
			parts := cut(stream, 64)
			if first == 1 {
				parts = [][]byte{stream[:6], stream[6:]}
			}
			i, failed := 0, 0
			for _, p := range parts {
				if err := d.SetBuffer(segment.Wrap(p, segment.DataBuffer)); err != nil {
					t.Fatal(err)
				}
				for {
					v, res, err := ReadNext(d, func(rec []byte) (byte, int, error) {
						if len(rec) != 10 || cap(rec) != 10 {
							t.Fatalf("reader sees %d of %d bytes", len(rec), cap(rec))
						}
						if i == 0 {
							return 0, consumed, nil
						}
						return rec[0], 10, nil
					})
					switch {
					case res == Partial:
					case i == 0:
						var re *RecordError
						var le *LengthError
						if !errors.As(err, &re) || re.Channel != "3" || re.Record != 0 || !errors.As(err, &le) || le.Length != 10 || le.Consumed != consumed {
							t.Fatalf("got %v", err)
						}
						if errors.Is(err, ErrBrokenSerialization) != (consumed > 10) || errors.Is(err, ErrUnderread) != (consumed < 10) {
							t.Fatalf("got %v", err)
						}
						failed++
					case err != nil || v != pattern(i, 1)[0]:
						t.Fatalf("record %d: %v %v", i, v, err) // the stream is still in step
					}
					if res.Record() {
						i++
					}
					if res.Consumed() {
						break
					}
				}
			}
			if i != 5 || failed != 1 {
				t.Fatalf("%d records, %d failed", i, failed)
			}
			sameRecords(t, readAll(t, other, stream), naive(stream))
		}
	}
}

func TestReadNextSkipUnread(t *testing.T) {
	d := NewDeserializer(DeserializerConfig{SkipUnread: true})
	if err := d.SetBuffer(segment.Wrap(framed([]byte("abc"), []byte("def")), segment.DataBuffer)); err != nil {
		t.Fatal(err)
	}
	var got string
	for {
		s, res, err := ReadNext(d, func(rec []byte) (string, int, error) { return string(rec[:1]), 1, nil })
		if err != nil {
			t.Fatal(err)
		}
		got += s
		if res.Consumed() {
			break
		}
	}
	if got != "ad" {
		t.Fatalf("got %q", got)
	}
	d.Done()
	if err := d.SetBuffer(segment.Wrap(framed([]byte("abc")), segment.DataBuffer)); err != nil {
		t.Fatal(err)
	}
	_, res, err := ReadNext(d, func(rec []byte) (int, int, error) { return 0, 0, io.ErrUnexpectedEOF })
	if !errors.Is(err, io.ErrUnexpectedEOF) || res != Last {
		t.Fatalf("%v %v", res, err)
	}
}

// TestEmptySER04 is SER-04.
func TestEmptySER04(t *testing.T) {
	d := NewDeserializer(DeserializerConfig{})
	got := readAll(t, d, []byte("\x00\x00"), nil, []byte("\x00\x03ab"), nil, []byte("c"), framed(nil))
	sameRecords(t, got, [][]byte{[]byte("abc"), {}})
}

// TestSpanningSER15 is SER-15: all orders of three of the awkward lengths,
// for buffer sizes 1 to 40.
func TestSpanningSER15(t *testing.T) {
	lengths := []int{0, 1, 3, 4, 5, 27, 28, 29, 60, 64, 200}
	all := make([][]byte, len(lengths))
	for i, n := range lengths {
		all[i] = pattern(i, n)
	}
	d := NewDeserializer(DeserializerConfig{})
	check := func(size int, recs ...[]byte) {
		sameRecords(t, readAll(t, d, cut(framed(recs...), size)...), recs)
		if len(unconsumed(t, d)) != 0 {
			t.Fatal("something is left")
		}
	}
	check(32, all...)
	full := !testing.Short() && !buildtag.Race // else a seventh of them
	for size := 1; size <= 40; size++ {
		for i := range all {
			for j := range all {
				for k := range all {
					if i != j && j != k && i != k && (full || (i+j+k+size)%7 == 0) {
						check(size, all[i], all[j], all[k])
					}
				}
			}
		}
	}
}

func TestResultString(t *testing.T) {
	for r, want := range map[Result]string{Partial: "PARTIAL_RECORD", Intermediate: "INTERMEDIATE_RECORD_FROM_BUFFER",
		Last: "LAST_RECORD_FROM_BUFFER", 9: "UNKNOWN_RESULT"} {
		if r.String() != want {
			t.Errorf("%d: %s", r, r)
		}
	}
}
