package serde

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/weirflow/weir/internal/alloctest"
	"github.com/weirflow/weir/internal/buildtag"
	"github.com/weirflow/weir/internal/modelrun"
)

// batchHead is what stands before a value.
const batchHead = lengthSize + bytesHead

// tryEach is what TryWriteBatch is short for.
func tryEach(w *RecordWriter[*memOutput], sub int, values [][]byte) (n int) {
	for n < len(values) && w.TryWriteBytes(sub, values[n]) {
		n++
	}
	return n
}

// compareWriters fails if what was written by two writers is not the same.
func compareWriters(t tb, what string, a, b *writerBench, subs int) {
	t.Helper()
	for sub := range subs {
		if x, y := len(a.w.slots[sub].Spare()), len(b.w.slots[sub].Spare()); x != y {
			t.Fatalf("%s: subpartition %d: %d bytes to spare, want %d", what, sub, x, y)
		}
		if x, y := fmt.Sprint(a.take(sub)), fmt.Sprint(b.take(sub)); x != y {
			t.Fatalf("%s: subpartition %d: %s, want %s", what, sub, x, y)
		}
	}
	if a.w.Stats() != b.w.Stats() {
		t.Fatalf("%s: %+v, want %+v", what, a.w.Stats(), b.w.Stats())
	}
}

// TestTryWriteBatchRoom: for every room that is left, what fits with a byte to spare is written, and no more.
func TestTryWriteBatchRoom(t *testing.T) {
	const size = 80
	for room := range size - lengthSize {
		for n := range 30 {
			for _, sizes := range [][]int{{n}, {n, n}, {0, n}, {n, 0, 0, 0}, {3, n, 1}} {
				values := make([][]byte, len(sizes))
				want, left := 0, room
				for i, k := range sizes {
					values[i] = pattern(i+n, k)
				}
				for want < len(sizes) && left > batchHead+sizes[want] {
					left -= batchHead + sizes[want]
					want++
				}
				what := fmt.Sprintf("room %d, values of %v", room, sizes)
				a, b := newWriterBench(t, 1, size, 4, 0), newWriterBench(t, 1, size, 4, 0)
				for _, w := range []*writerBench{a, b} {
					must(t, w.w.WriteRecord(0, make([]byte, size-lengthSize-room)))
				}
				room := len(a.w.slots[0].Spare()) // a full buffer is closed
				if room == 0 {
					want = 0
				}
				if got, one := a.w.TryWriteBatch(0, values), tryEach(b.w, 0, values); got != want || one != want {
					t.Fatalf("%s: %d written, %d one by one, want %d", what, got, one, want)
				}
				compareWriters(t, what, a, b, 1)
				a.end(t)
				b.end(t)
			}
		}
	}
}

// TestTryWriteBatchBytes: what is written, in bytes, and that the values are free again.
func TestTryWriteBatchBytes(t *testing.T) {
	b := newWriterBench(t, 2, 64, 4, 0)
	defer b.end(t)
	must(t, b.w.WriteBytes(1, []byte("a")))
	values := [][]byte{{}, []byte("bc"), nil}
	if n := b.w.TryWriteBatch(1, values); n != 3 {
		t.Fatalf("%d written", n)
	}
	clear(values[1])
	wantTaken(t, b, 1, "00000006010000000161"+"000000050100000000"+"0000000701000000026263"+"000000050100000000")
	wantTaken(t, b, 0)
	if n := b.w.TryWriteBatch(1, nil); n != 0 {
		t.Fatalf("%d of none written", n)
	}
	wantTaken(t, b, 1)
}

// TestTryWriteBatchModel: random batches, with what does not fit written by WriteBytes, come to the same as records one by one.
func TestTryWriteBatchModel(t *testing.T) {
	seen := modelrun.Exposure{}
	steps := modelrun.Steps(t, 20_000)
	rng := rand.New(rand.NewPCG(modelrun.Seed(t), 5))
	for done := 0; done < steps; {
		size, subs := []int{20, 64, 1000}[rng.IntN(3)], 1+rng.IntN(3)
		a, b := newWriterBench(t, subs, size, subs+3, 0), newWriterBench(t, subs, size, subs+3, 0)
		for range 50 {
			done++
			sub := rng.IntN(subs)
			values := make([][]byte, rng.IntN(8))
			for i := range values {
				n := rng.IntN([]int{1, 10, size, 6 * size}[rng.IntN(4)])
				if room := len(a.w.slots[sub].Spare()); rng.IntN(4) == 0 && room > batchHead { // to the end, or to a byte of it
					n = room - batchHead - rng.IntN(2)
				}
				values[i] = pattern(done+i, n)
			}
			for n := 0; ; {
				room := len(a.w.slots[sub].Spare())
				k := a.w.TryWriteBatch(sub, values[n:])
				if one := tryEach(b.w, sub, values[n:]); k != one {
					t.Fatalf("%d written, %d one by one", k, one)
				}
				if n += k; k > 0 && len(a.w.slots[sub].Spare()) == 1 {
					seen["a byte to spare"]++
				}
				compareWriters(t, "batch", a, b, subs)
				if k > 1 {
					seen["several"]++
				}
				if n == len(values) {
					seen["all"]++
					break
				}
				seen["some"]++
				if k == 0 && room == batchHead+len(values[n]) {
					seen["fits without a byte to spare"]++
				}
				if len(values[n]) > size {
					seen["larger than a buffer"]++
				}
				for _, w := range []*writerBench{a, b} {
					err := w.w.WriteBytes(sub, values[n])
					for tries := 0; err != nil && tries < 100; tries++ {
						if !w.w.Pending() { // no memory for its beginning
							w.take(sub)
							err = w.w.WriteBytes(sub, values[n])
							continue
						}
						seen["half written"]++
						if k := w.w.TryWriteBatch(sub, values[n:]); k != 0 {
							t.Fatalf("%d written within a record", k)
						}
						w.take(sub)
						err = w.w.Continue()
					}
					must(t, err)
				}
				n++
			}
		}
		a.end(t)
		b.end(t)
	}
	seen.Report(t, "batches", steps, "all", "some", "several", "a byte to spare", "fits without a byte to spare", "larger than a buffer", "half written")
}

// TestTryWriteBatchRefuses: where no record can be written, none is.
func TestTryWriteBatchRefuses(t *testing.T) {
	values := [][]byte{[]byte("v"), {}}
	b := newWriterBench(t, 2, 64, 4, 0)
	defer b.end(t)
	none := func(what string, subs ...int) {
		t.Helper()
		for _, sub := range subs {
			if n := b.w.TryWriteBatch(sub, values); n != 0 {
				t.Fatalf("%s: %d written into %d", what, n, sub)
			}
		}
	}
	none("nothing open", 0, 1)
	must(t, b.w.WriteBytes(0, nil))
	none("no such subpartition", -1, 2, 1<<40>>20)
	must(t, b.w.BroadcastBytes(nil))
	none("the shared buffer is open", 0, 1)
	must(t, b.w.WriteBytes(0, nil))
	if n := b.w.TryWriteBatch(0, values); n != 2 {
		t.Fatalf("%d written", n)
	}
	must(t, b.w.Finish(event("end")))
	none("finished", 0, 1)
}

// TestTryWriteBatchAtOnce: a reader on another goroutine sees whole batches only.
func TestTryWriteBatchAtOnce(t *testing.T) {
	const batches, records, size = 1000, 100, 1
	const batch = records * (batchHead + size)
	values := make([][]byte, records)
	for i := range values {
		values[i] = pattern(i, size)
	}
	modelrun.Rounds(t, func(int) bool { // the scheduler decides how often the reader looks while something is written
		b := newWriterBench(t, 1, 1<<20, 2, 0)
		defer b.end(t)
		must(t, b.w.WriteBytes(0, nil))
		r := &b.queues[0][0].r
		var looks, caughtUp atomic.Int64
		var err error
		ready, done := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(done)
			defer caughtUp.Store(math.MaxInt64)
			first, _ := r.Next()
			seen := first.Len() - batchHead
			first.Release()
			close(ready)
			for seen < batches*batch && err == nil {
				p, _ := r.Next()
				if p.IsZero() {
					continue
				}
				looks.Add(1)
				if seen += p.Len(); seen%batch != 0 {
					err = fmt.Errorf("%d bytes are seen, of batches of %d", seen, batch)
				}
				p.Release()
				caughtUp.Store(int64(seen))
			}
		}()
		<-ready
		for i := range batches {
			for i%10 == 9 && caughtUp.Load() < int64(i*batch) {
				runtime.Gosched() // so that the reader runs, too
			}
			if n := b.w.TryWriteBatch(0, values); n != records {
				t.Errorf("%d written", n)
				for n < records {
					n += b.w.TryWriteBatch(0, values[n:])
				}
			}
		}
		<-done
		must(t, err)
		return looks.Load() > 50
	})
}

func TestTryWriteBatchAllocatesNothing(t *testing.T) {
	if buildtag.Race || buildtag.Debug {
		t.Skip("these builds allocate by themselves")
	}
	b := newWriterBench(t, 1, 1<<20, 2, 0)
	defer b.end(t)
	values := [][]byte{pattern(1, 20), {}, pattern(2, 3)}
	must(t, b.w.WriteBytes(0, nil))
	calls := 0
	alloctest.Zero(t, 100, 1000, func() {
		if n := b.w.TryWriteBatch(0, values); n != 3 {
			t.Fatalf("%d written", n)
		}
		calls++
	})
	p, _ := b.queues[0][0].r.Next()
	defer p.Release()
	if calls < 1000 || !bytes.Equal(p.Bytes()[batchHead:], bytes.Repeat(framed(
		append([]byte{1, 0, 0, 0, 20}, values[0]...), []byte{1, 0, 0, 0, 0}, append([]byte{1, 0, 0, 0, 3}, values[2]...)), calls)) {
		t.Fatalf("%d bytes after %d calls", p.Len(), calls)
	}
}
