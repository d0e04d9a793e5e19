package spool

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"

	"github.com/weirflow/weir/internal/leaktest"
	"github.com/weirflow/weir/segment"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// stored is a buffer as a test wrote it.
type stored struct {
	p          string
	typ        segment.DataType
	compressed bool
}

const testBuffer = 64

// build writes a file of random buffers and returns what each region has for each subpartition.
func build(t testing.TB, seed uint64, subs, regions int) (file []byte, want [][][]stored) {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 1))
	var out bytes.Buffer
	h := Header{Subpartitions: int32(subs), BufferSize: testBuffer, Codec: 3}
	copy(h.Partition[:], "sixty bytes of an id")
	w, err := NewWriter(&out, h)
	if err != nil {
		t.Fatal(err)
	}
	for range regions {
		region := make([][]stored, subs)
		for range 1 + rng.IntN(40) {
			sub := rng.IntN(subs)
			s := stored{typ: segment.DataBuffer, compressed: rng.IntN(2) == 0, p: fmt.Sprintf("%0*d", 1+rng.IntN(testBuffer), rng.Uint32())}
			if len(s.p) > testBuffer {
				s.p = s.p[:testBuffer]
			}
			if rng.IntN(8) == 0 {
				s.typ, s.compressed = segment.EndOfData, false
			}
			e, err := w.Append(sub, []byte(s.p), s.typ, s.compressed)
			if err != nil {
				t.Fatal(err)
			}
			region[sub] = append(region[sub], s)
			if other := rng.IntN(subs); rng.IntN(4) == 0 { // one payload, several subpartitions
				w.Repeat(other, e)
				region[other] = append(region[other], s)
			}
		}
		if err := w.EndRegion(); err != nil {
			t.Fatal(err)
		}
		want = append(want, region)
	}
	if err := w.Finish(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes(), want
}

// layoutOf reads the ends of a file.
func layoutOf(file []byte) (Layout, error) {
	return readLayout(bytes.NewReader(file), int64(len(file)))
}

// readAll reads subpartitions first to last of a file. It stops at the first error.
func readAll(file []byte, first, last int32, merge int, group func([]Entry, []byte)) error {
	l, err := layoutOf(file)
	if err != nil {
		return err
	}
	c, err := NewCursor(CursorConfig{Layout: l, First: first, Last: last, Merge: merge})
	if err != nil {
		return err
	}
	r := bytes.NewReader(file)
	for {
		for {
			span, need := c.Need()
			if !need {
				break
			}
			if span.Len > MaxSpan {
				return fmt.Errorf("a span of %d bytes", span.Len)
			}
			p := make([]byte, span.Len)
			if err := ReadFull(r, p, span.At); err != nil {
				return err
			}
			if err := c.Feed(p); err != nil {
				return err
			}
		}
		g := c.Group()
		if len(g) == 0 {
			return nil
		}
		n := 0
		for i := range g {
			n += int(g[i].Len)
		}
		p := make([]byte, n)
		if err := ReadFull(r, p, g[0].At); err != nil {
			return err
		}
		if err := Check(g, p); err != nil {
			return err
		}
		group(g, p)
		c.Advance()
	}
}

func TestReadsWhatWasWritten(t *testing.T) {
	groups := 0
	for seed := range uint64(60) {
		subs, regions := 1+int(seed%5), int(seed%4)
		file, want := build(t, seed, subs, regions)
		for first := range subs {
			for last := first; last < subs; last++ {
				for _, merge := range []int{0, 1, testBuffer, 10 * testBuffer} {
					var wanted, got []stored
					for _, region := range want {
						for s := first; s <= last; s++ {
							wanted = append(wanted, region[s]...)
						}
					}
					err := readAll(file, int32(first), int32(last), merge, func(g []Entry, p []byte) {
						if merge == 0 && len(g) != 1 || len(g) > 1 && len(p) > merge {
							t.Fatalf("a group of %d buffers and %d bytes, at most %d", len(g), len(p), merge)
						}
						if len(g) > 1 {
							groups++
						}
						for i := range g {
							if g[i].Type != g[0].Type || g[i].Compressed != g[0].Compressed {
								t.Fatal("a group of different things")
							}
							got = append(got, stored{string(p[:g[i].Len]), g[i].Type, g[i].Compressed})
							p = p[g[i].Len:]
						}
					})
					if err != nil {
						t.Fatal(err)
					}
					if fmt.Sprint(got) != fmt.Sprint(wanted) {
						t.Fatalf("seed %d, subpartitions %d to %d, merge %d: got %d buffers, want %d, or others", seed, first, last, merge, len(got), len(wanted))
					}
				}
			}
		}
	}
	if groups == 0 {
		t.Error("nothing was merged")
	}
}

// Each byte of a file that is changed, and each place where it is cut, is found by the readers that need it.
func TestEveryByteCounts(t *testing.T) {
	const subs = 3
	file, _ := build(t, 4, subs, 2)
	found := 0
	for i := range file {
		for _, bit := range []byte{1, 0x80} {
			bad := bytes.Clone(file)
			bad[i] ^= bit
			var failed bool
			for s := range int32(subs) {
				switch err := readAll(bad, s, s, testBuffer, func([]Entry, []byte) {}); {
				case err == nil:
				case errors.Is(err, ErrCorrupt):
					failed = true
				default:
					t.Fatalf("byte %d: %v", i, err)
				}
			}
			if !failed {
				t.Fatalf("byte %d of %d was changed, and nobody saw it", i, len(file))
			}
			found++
		}
	}
	for n := range file {
		if err := readAll(file[:n], 0, subs-1, 0, func([]Entry, []byte) {}); !errors.Is(err, ErrCorrupt) {
			t.Fatalf("cut to %d of %d bytes: %v", n, len(file), err)
		}
	}
	if found != 2*len(file) {
		t.Errorf("%d changes of %d bytes", found, len(file))
	}
}

// What is wrong with one subpartition's part of the file is not wrong with another's.
func TestOthersCanBeRead(t *testing.T) {
	file, want := build(t, 9, 2, 1)
	at := bytes.Index(file, []byte(want[0][0][0].p))
	file[at] ^= 4
	if err := readAll(file, 0, 0, 0, func([]Entry, []byte) {}); !errors.Is(err, ErrCorrupt) {
		t.Errorf("subpartition 0: %v", err)
	}
	n := 0
	if err := readAll(file, 1, 1, 0, func([]Entry, []byte) { n++ }); err != nil || n != len(want[0][1]) {
		t.Errorf("subpartition 1: %d buffers of %d, %v", n, len(want[0][1]), err)
	}
}

// fullDisk takes so many bytes.
type fullDisk struct {
	left int
	err  error
}

func (d *fullDisk) Write(p []byte) (int, error) {
	if len(p) > d.left {
		n := d.left
		d.left = 0
		return n, d.err
	}
	d.left -= len(p)
	return len(p), nil
}

// A disk that fills up, at any byte, and one that takes less than it was given without a word.
func TestWriterFails(t *testing.T) {
	errFull := errors.New("no space left on device")
	whole, _ := build(t, 3, 2, 2)
	for left := range whole {
		for _, c := range []struct{ err, want error }{{errFull, errFull}, {nil, io.ErrShortWrite}} {
			d := &fullDisk{left, c.err}
			w, err := NewWriter(d, Header{Subpartitions: 2, BufferSize: testBuffer})
			for i := 0; err == nil && i < 1000; i++ {
				if _, err = w.Append(i%2, []byte("something to be stored"), segment.DataBuffer, false); err == nil && i%7 == 0 {
					err = w.EndRegion()
				}
			}
			if !errors.Is(err, c.want) {
				t.Fatalf("room for %d bytes: %v, want %v", left, err, c.want)
			}
			if again := w.Finish(); !errors.Is(again, c.want) {
				t.Fatalf("the error is forgotten: %v", again)
			}
		}
	}
}

func TestWriterRefuses(t *testing.T) {
	for _, h := range []Header{{}, {Subpartitions: 1}, {Subpartitions: MaxSubpartitions + 1, BufferSize: 1}, {Subpartitions: -1, BufferSize: 1}} {
		if _, err := NewWriter(io.Discard, h); err == nil {
			t.Errorf("%+v is taken", h)
		}
	}
	w, err := NewWriter(io.Discard, Header{Subpartitions: 1, BufferSize: 10})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Append(0, make([]byte, 11), segment.DataBuffer, false); err == nil {
		t.Error("a buffer that is too large is taken")
	}
	if _, err := w.Append(0, make([]byte, 11), segment.EndOfData, false); err != nil {
		t.Errorf("an event: %v", err)
	}
	if err := w.Finish(); err != nil {
		t.Error(err)
	}
	if err := w.Finish(); err == nil {
		t.Error("a file that ends twice")
	}
	if _, err := NewCursor(CursorConfig{Layout: w.layout, First: 0, Last: 1}); err == nil {
		t.Error("a subpartition that is not there")
	}
}

func TestCursorAllocatesNothing(t *testing.T) {
	file, _ := build(t, 5, 1, 3)
	l, err := layoutOf(file)
	if err != nil {
		t.Fatal(err)
	}
	c, err := NewCursor(CursorConfig{Layout: l, Merge: testBuffer})
	if err != nil {
		t.Fatal(err)
	}
	begin := *c
	entries := 0
	n := testing.AllocsPerRun(20, func() {
		*c = begin
		for {
			if span, need := c.Need(); need {
				if err := c.Feed(file[span.At : span.At+int64(span.Len)]); err != nil {
					panic(err)
				}
				continue
			}
			if len(c.Group()) == 0 {
				break
			}
			entries += len(c.Group())
			c.Advance()
		}
	})
	if n != 0 || entries == 0 {
		t.Errorf("%g allocations for %d entries", n, entries)
	}
}
