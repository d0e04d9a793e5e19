//go:build !race && !weirdebug

package serde

import (
	"testing"

	"github.com/weirflow/weir/internal/alloctest"
	"github.com/weirflow/weir/segment"
)

// drainOutput is an output whose queues are read at once, from fixed memory.
type drainOutput struct {
	pool  *segment.LocalPool
	queue [][64]segment.Reader
	n     []int
	bytes int
}

func (o *drainOutput) Available(int) bool                  { return o.pool.Available() }
func (o *drainOutput) Take(sub int) (segment.Buffer, bool) { return o.pool.TakeFor(sub) }
func (o *drainOutput) Flush(int)                           {}

func (o *drainOutput) Add(sub int, r segment.Reader, partial int) (int, bool) {
	o.queue[sub][o.n[sub]] = r
	o.n[sub]++
	return 0, true
}

func (o *drainOutput) AddEvent(_ int, b segment.Buffer) bool {
	b.Release()
	return true
}

// drain reads everything that is committed.
func (o *drainOutput) drain() {
	for sub := range o.queue {
		q := o.queue[sub][:o.n[sub]]
		done := 0
		for i := range q {
			b, finished := q[i].Next()
			o.bytes += b.Len()
			b.Release()
			if !finished {
				break
			}
			q[i].Close()
			done++
		}
		copy(q, q[done:])
		o.n[sub] -= done
	}
	o.pool.Drain()
}

func newDrain(t testing.TB, subs, size int) (*RecordWriter[*drainOutput], *drainOutput) {
	global, err := segment.NewPool(segment.Config{SegmentSize: size, Segments: 60})
	must(t, err)
	pool, err := global.NewLocal(segment.LocalConfig{Name: "alloc", Required: 60, Subpartitions: subs})
	must(t, err)
	o := &drainOutput{pool: pool, queue: make([][64]segment.Reader, subs), n: make([]int, subs)}
	w, err := NewRecordWriter(o, subs)
	must(t, err)
	t.Cleanup(func() {
		must(t, w.FinishBuffers())
		w.Close()
		o.drain()
		pool.Close()
		must(t, global.Close())
	})
	return w, o
}

type bytesAppender struct{}

func (bytesAppender) Append(dst, v []byte) []byte { return append(dst, v...) }

// TestRecordWriterAllocates checks every way to write, into buffers with room
// and over their ends, with and without switching between the ways.
func TestRecordWriterAllocates(t *testing.T) {
	rec := pattern(1, 100)
	ev := segment.Wrap([]byte("event"), segment.EventBuffer)
	defer ev.Release()
	for name, write := range map[string]func(w *RecordWriter[*drainOutput], i int) error{
		"record":    func(w *RecordWriter[*drainOutput], i int) error { return w.WriteRecord(i&3, rec) },
		"element":   func(w *RecordWriter[*drainOutput], i int) error { return w.WriteElement(i&3, rec) },
		"elementAt": func(w *RecordWriter[*drainOutput], i int) error { return w.WriteElementAt(i&3, int64(i), rec) },
		"value": func(w *RecordWriter[*drainOutput], i int) error {
			return WriteValue(w, bytesAppender{}, i&3, rec[:50+i%50])
		},
		"all":       func(w *RecordWriter[*drainOutput], i int) error { return w.WriteAll(rec) },
		"broadcast": func(w *RecordWriter[*drainOutput], i int) error { return w.Broadcast(rec) },
		"mixed": func(w *RecordWriter[*drainOutput], i int) error {
			switch i & 7 {
			case 3:
				return w.BroadcastElementAt(1, rec)
			case 6:
				return w.BroadcastEvent(ev.Retain())
			}
			return w.WriteRecord(i&3, rec)
		},
	} {
		for _, size := range []int{250, 4096} {
			t.Run(name, func(t *testing.T) {
				w, o := newDrain(t, 4, size)
				alloctest.Zero(t, 100, 200, func() {
					for i := range 20 {
						if err := write(w, i); err != nil {
							t.Fatal(err)
						}
						o.drain()
					}
				})
				if o.bytes == 0 {
					t.Fatal("nothing was read")
				}
			})
		}
	}
}

// TestRefusalAllocates: being told to wait costs nothing.
func TestRefusalAllocates(t *testing.T) {
	w, o := newDrain(t, 1, 256)
	for w.WriteRecord(0, pattern(1, 100)) == nil {
	}
	alloctest.Zero(t, 10, 1000, func() {
		if err := w.WriteRecord(0, pattern100[:]); err != ErrFull {
			t.Fatal(err)
		}
	})
	o.drain()
}

var pattern100 [100]byte

func TestPartitionersAllocate(t *testing.T) {
	keys, err := NewKeyGroupPartitioner[int](intHash{}, 128, 4)
	must(t, err)
	turn, err := NewRebalancePartitioner[int](4, nil)
	must(t, err)
	shuffle, err := NewShufflePartitioner[int](4, nil)
	must(t, err)
	sum := 0
	alloctest.Zero(t, 1, 1000, func() {
		sum += selectOne(keys, sum) + selectOne(&turn, sum) + selectOne(shuffle, sum) + selectOne(BroadcastPartitioner[int]{}, sum)
	})
	if sum == 0 {
		t.Fatal("nothing chosen")
	}
}

func selectOne[S Selector[int]](s S, rec int) int { return s.Select(rec) }

// TestSmallBuffersAllocateNothing: whole buffers that share segments, and are read.
func TestSmallBuffersAllocateNothing(t *testing.T) {
	o, w, done := newSmallOutput(t, 8)
	defer done()
	alloctest.Zero(t, 20, 200, func() {
		for range 16 {
			b, err := w.Lend(0)
			if err != nil {
				t.Fatal(err)
			}
			if err := w.WriteBuffer(0, b, 30); err != nil {
				t.Fatal(err)
			}
		}
		for i := range o.queues[0] {
			b, _ := o.queues[0][i].NextClose()
			b.Release()
		}
		o.queues[0] = o.queues[0][:0]
		o.pool.Drain()
	})
}
