package segment

import (
	"bytes"
	"math/rand/v2"
	"testing"
)

// partOf is a part whose bytes tell which one it is.
func partOf(i, n int) []byte {
	p := make([]byte, n)
	for k := range p {
		p[k] = byte(i + k)
	}
	return p
}

// split takes what a reader of parts has and checks it against the lengths from number first on.
func split(t *testing.T, r *PartsReader, sizes []int, from int) (next int, closed bool) {
	t.Helper()
	b, first, n, closed := r.Next()
	if first != from {
		t.Fatalf("the first one is number %d, want %d", first, from)
	}
	rest := b.Bytes()
	for i := range n {
		size := b.PartLen(first + i)
		if size != sizes[first+i] || !bytes.Equal(rest[:size], partOf(first+i, size)) {
			t.Fatalf("part %d of %d bytes, want %d", first+i, size, sizes[first+i])
		}
		rest = rest[size:]
	}
	if len(rest) != 0 {
		t.Fatalf("%d bytes behind the last part", len(rest))
	}
	b.Release()
	return from + n, closed
}

// TestParts: parts of any length that fits come as they were added, by however many at a time their reader looks, and each segment has room
// for all but what its table takes.
func TestParts(t *testing.T) {
	for _, size := range []int{64, 1000, 4 << 10, 32 << 10} {
		p := mustPool(t, Config{SegmentSize: size, Segments: 2})
		l := mustLocal(t, p, LocalConfig{Name: "parts", Required: 2})
		rnd := rand.New(rand.NewPCG(1, uint64(size)))
		for round := range 60 {
			w := MakePartsBuilder(mustTake(t, l))
			r := ReadParts(w.NewReader())
			var sizes []int
			total, seen := 0, 0
			most := size / (1 + round%20)
			for {
				n := 1 + rnd.IntN(max(most, 1))
				if !w.Append(partOf(len(sizes), n)) {
					if len(sizes) < MostParts && len(sizes) < size/32 && total+n <= size-partTable(size) {
						t.Fatalf("%d: no room for %d bytes behind %d in %d parts", size, n, total, len(sizes))
					}
					break
				}
				total += n
				if sizes = append(sizes, n); rnd.IntN(4) == 0 {
					seen, _ = split(t, &r, sizes, seen)
				}
			}
			w.Close()
			if got, closed := split(t, &r, sizes, seen); got != len(sizes) || !closed {
				t.Fatalf("%d: %d parts of %d, closed %v", size, got, len(sizes), closed)
			}
			r.Close()
			if r.Open() || w.Open() || w.Append([]byte("x")) {
				t.Fatal("closed, and takes parts")
			}
		}
		closeAll(t, p, l)
	}
}

// TestPartsRefused: empty ones, those longer than a length can say, more than a table holds, and all of a segment that is too small for a table.
func TestPartsRefused(t *testing.T) {
	p := mustPool(t, Config{SegmentSize: 128 << 10, Segments: 1})
	l := mustLocal(t, p, LocalConfig{Name: "parts", Required: 1})
	w := MakePartsBuilder(mustTake(t, l))
	r := w.NewReader()
	if w.Append(nil) || w.Append(make([]byte, 1<<16)) || !w.Append(make([]byte, 1<<16-1)) {
		t.Error("lengths from 1 to 65535 are right")
	}
	for i := 1; i < MostParts; i++ {
		if !w.Append([]byte("x")) {
			t.Fatalf("no room for part %d", i)
		}
	}
	if w.Append([]byte("x")) {
		t.Errorf("more than %d", MostParts)
	}
	w.Close()
	w.Close()
	r.Close()
	closeAll(t, p, l)

	p = mustPool(t, Config{SegmentSize: 16, Segments: 1})
	l = mustLocal(t, p, LocalConfig{Name: "parts", Required: 1})
	w = MakePartsBuilder(mustTake(t, l))
	if w.Append([]byte("x")) {
		t.Error("a part in a segment without a table")
	}
	w.Close()
	closeAll(t, p, l)
	var zero PartsBuilder
	zero.Close()
	if zero.Append([]byte("x")) || zero.Open() {
		t.Error("the zero value is closed")
	}
}

// TestPartsOutliveTheirEnds: what was taken is valid after both ends were closed, and the segment is home once it is released.
func TestPartsOutliveTheirEnds(t *testing.T) {
	p := mustPool(t, Config{SegmentSize: 256, Segments: 1})
	l := mustLocal(t, p, LocalConfig{Name: "parts", Required: 1})
	w := MakePartsBuilder(mustTake(t, l))
	r := ReadParts(w.NewReader())
	w.Append(partOf(0, 5))
	w.Append(partOf(1, 7))
	b, _, n, _ := r.Next()
	w.Append(partOf(2, 1)) // nobody asks for it
	w.Close()
	r.Close()
	all := ReadAll(b)
	if first := all.Take(all.PartLen(0)); n != 2 || !bytes.Equal(first.Bytes(), partOf(0, 5)) {
		t.Errorf("%d parts, the first one %v", n, first.Bytes())
	} else {
		first.Release()
	}
	last, finished := all.NextClose()
	if !finished || !bytes.Equal(last.Bytes(), partOf(1, 7)) {
		t.Errorf("the rest: %v, %v", last.Bytes(), finished)
	}
	mustNotTake(t, l)
	last.Release()
	l.Drain()
	mustTake(t, l).Release()
	closeAll(t, p, l)
}

// TestPartsAcross: a reader on another goroutine sees whole parts only.
func TestPartsAcross(t *testing.T) {
	p := mustPool(t, Config{SegmentSize: 8 << 10, Segments: 1})
	l := mustLocal(t, p, LocalConfig{Name: "parts", Required: 1})
	for range 50 {
		w := MakePartsBuilder(mustTake(t, l))
		r := w.NewReader()
		var sizes []int
		for i := range MostParts {
			sizes = append(sizes, 1+i%50)
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			r := ReadParts(r)
			defer r.Close()
			for seen, closed := 0, false; !closed; {
				seen, closed = split(t, &r, sizes, seen)
				if closed && seen != MostParts {
					t.Errorf("%d parts", seen)
				}
			}
		}()
		for i, n := range sizes {
			if !w.Append(partOf(i, n)) {
				t.Errorf("no room for part %d", i)
			}
		}
		w.Close()
		within(t, func() { <-done })
		l.Drain()
	}
	closeAll(t, p, l)
}

// TestTakeStaysInside: Take leaves the last byte to NextClose, which passes the reference on.
func TestTakeStaysInside(t *testing.T) {
	r := ReadAll(Wrap([]byte("abc"), DataBuffer))
	for _, n := range []int{0, -1, 3, 4} {
		if err := misuseOfWrapped(func() { r.Take(n) }); err == nil {
			t.Errorf("took %d of 3 bytes", n)
		}
	}
	if b := r.Take(2); string(b.Bytes()) != "ab" {
		t.Errorf("%q", b.Bytes())
	} else {
		b.Release()
	}
	if b, _ := r.NextClose(); string(b.Bytes()) != "c" {
		t.Errorf("%q", b.Bytes())
	} else {
		b.Release()
	}
}
