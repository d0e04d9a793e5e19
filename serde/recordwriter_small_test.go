package serde

import (
	"errors"
	"testing"

	"github.com/weirflow/weir/segment"
)

// smallOutput is an output whose queues the test reads.
type smallOutput struct {
	pool   *segment.LocalPool
	queues [2][]segment.Reader
	shared [2]struct {
		w segment.PartsBuilder
		r segment.PartsReader
	}
	alone bool // nothing is shared
}

func (o *smallOutput) Available(int) bool                  { return o.pool.Available() }
func (o *smallOutput) Take(sub int) (segment.Buffer, bool) { return o.pool.TakeFor(sub) }
func (o *smallOutput) Add(sub int, r segment.Reader, _ int) (int, bool) {
	o.queues[sub] = append(o.queues[sub], r)
	return 0, true
}

func (o *smallOutput) AddEvent(sub int, b segment.Buffer) bool {
	o.queues[sub] = append(o.queues[sub], segment.ReadAll(b))
	return true
}
func (o *smallOutput) Flush(int) {}

// Share is part of sharer.
func (o *smallOutput) Share(sub int, p []byte) bool {
	s := &o.shared[sub]
	if o.alone {
		return false
	}
	if !s.w.Append(p) {
		o.end(sub)
		if !o.pool.Available() {
			return false
		}
		b, ok := o.pool.TakeFor(sub)
		if !ok {
			return false
		}
		s.w = segment.MakePartsBuilder(b)
		s.r = segment.ReadParts(s.w.NewReader())
		if !s.w.Append(p) {
			o.end(sub)
			return false
		}
	}
	part, _, _, _ := s.r.Next()
	o.queues[sub] = append(o.queues[sub], segment.ReadAll(part))
	return true
}

// Unshare is part of sharer.
func (o *smallOutput) Unshare() {
	for sub := range o.shared {
		o.end(sub)
	}
}

func (o *smallOutput) end(sub int) {
	o.shared[sub].w.Close()
	o.shared[sub].r.Close()
}

// read takes everything out of a queue and returns its texts.
func (o *smallOutput) read(sub int) (texts []string) {
	kept := o.queues[sub][:0]
	for i := range o.queues[sub] {
		r := &o.queues[sub][i]
		b, finished := r.NextClose()
		if !b.IsZero() {
			texts = append(texts, string(b.Bytes()))
			b.Release()
		}
		if !finished {
			kept = append(kept, *r)
		}
	}
	o.queues[sub] = kept
	return texts
}

func newSmallOutput(t *testing.T, segments int) (*smallOutput, *RecordWriter[*smallOutput], func()) {
	t.Helper()
	pool, err := segment.NewPool(segment.Config{SegmentSize: 1024, Segments: segments})
	if err != nil {
		t.Fatal(err)
	}
	o := &smallOutput{}
	if o.pool, err = pool.NewLocal(segment.LocalConfig{Name: "small", Required: segments, Subpartitions: 2}); err != nil {
		t.Fatal(err)
	}
	w, err := NewRecordWriter(o, 2)
	if err != nil {
		t.Fatal(err)
	}
	return o, w, func() {
		t.Helper()
		w.Close()
		for sub := range o.queues {
			o.read(sub)
			for i := range o.queues[sub] {
				o.queues[sub][i].Close()
			}
		}
		o.pool.Close()
		if err := pool.Close(); err != nil {
			t.Error(err) // what did not come home
		}
	}
}

func (o *smallOutput) put(t *testing.T, w *RecordWriter[*smallOutput], sub int, text string) error {
	t.Helper()
	b, err := w.Lend(sub)
	if err != nil {
		return err
	}
	copy(b.Memory(), text)
	return w.WriteBuffer(sub, b, len(text))
}

// TestSmallBuffersShare: many whole buffers of few bytes take few segments, come as they were, and in order with everything else.
func TestSmallBuffersShare(t *testing.T) {
	o, w, done := newSmallOutput(t, 4)
	defer done()
	for i := range 60 { // 30 bytes each
		if err := o.put(t, w, i%2, "a buffer with a number of bytes"[:30]); err != nil {
			t.Fatalf("buffer %d: %v", i, err)
		}
	}
	o.pool.Drain()
	if n := o.pool.Stats().InUse; n != 3 { // one for each subpartition, and the one that is lent
		t.Errorf("%d segments in use for 60 buffers of 30 bytes", n)
	}
	for sub := range 2 {
		if got := o.read(sub); len(got) != 30 || got[0] != "a buffer with a number of bytes"[:30] {
			t.Errorf("subpartition %d: %d buffers: %q", sub, len(got), got)
		}
	}
	if err := o.put(t, w, 0, "one"); err != nil {
		t.Fatal(err)
	}
	if err := w.WriteRecord(0, []byte("record")); err != nil {
		t.Fatal(err)
	}
	if err := o.put(t, w, 0, "two"); err != nil {
		t.Fatal(err)
	}
	if got := o.read(0); len(got) != 3 || got[0] != "one" || got[1] != "\x00\x00\x00\x06record" || got[2] != "two" {
		t.Errorf("%q", got)
	}
}

// TestSharedMemoryIsGivenUp: what is kept for small buffers is nobody's to wait for.
func TestSharedMemoryIsGivenUp(t *testing.T) {
	o, w, done := newSmallOutput(t, 2)
	defer done()
	long := make([]byte, 900)
	for range 200 {
		for sub := range 2 {
			if err := o.put(t, w, sub, "x"); err != nil {
				t.Fatal(err)
			}
			o.read(sub)
		}
		// Now one is shared, and one is kept: a record needs one.
		err := w.WriteRecord(0, long)
		if errors.Is(err, ErrFull) {
			o.pool.Drain()
			err = w.WriteRecord(0, long)
		}
		if err != nil {
			t.Fatalf("a record: %v, %+v", err, o.pool.Stats())
		}
		for sub := range 2 {
			o.read(sub)
		}
	}
	for range 3 { // and a buffer that is full
		b, err := w.Lend(1)
		if errors.Is(err, ErrFull) {
			b, err = w.Lend(1)
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := w.WriteBuffer(1, b, 1024); err != nil {
			t.Fatal(err)
		}
		o.read(1)
	}
}

// TestFullBuffersDoNotShare: nor do empty ones, or those that find no memory for it.
func TestFullBuffersDoNotShare(t *testing.T) {
	o, w, done := newSmallOutput(t, 2)
	defer done()
	for _, n := range []int{1024, 0} {
		b, err := w.Lend(0)
		if err != nil {
			t.Fatal(err)
		}
		if err := w.WriteBuffer(0, b, n); err != nil {
			t.Fatal(err)
		}
	}
	if n := o.pool.Stats().InUse; n != 2 {
		t.Errorf("%d segments in use", n)
	}
	o.read(0)
	o.pool.Drain()
	a, err := w.Lend(0)
	if err != nil {
		t.Fatal(err)
	}
	b, err := w.Lend(0)
	if err != nil {
		t.Fatal(err)
	}
	a.Memory()[0], b.Memory()[0] = 'a', 'b'
	if err := errors.Join(w.WriteBuffer(0, a, 1), w.WriteBuffer(0, b, 1)); err != nil {
		t.Fatal(err)
	}
	if got := o.read(0); len(got) != 2 || got[0] != "a" || got[1] != "b" {
		t.Errorf("%q", got)
	}
}

// TestAnOutputMayShareNothing: then each buffer has a segment of its own; and of very many short ones some share one.
func TestAnOutputMayShareNothing(t *testing.T) {
	o, w, done := newSmallOutput(t, 4)
	defer done()
	o.alone = true
	n := 0
	for ; n < 10; n++ {
		if err := o.put(t, w, 0, "x"); err != nil {
			if !errors.Is(err, ErrFull) {
				t.Fatal(err)
			}
			break
		}
	}
	if n != 4 {
		t.Errorf("%d buffers in 4 segments", n)
	}
	o.read(0)
	o.alone = false
	const most = 32 // parts of so small a segment
	for range 2*most + 1 {
		if err := o.put(t, w, 0, "x"); err != nil {
			t.Fatal(err)
		}
	}
	o.pool.Drain()
	if n := o.pool.Stats().InUse; n != 4 { // three that are shared, and the one that is lent
		t.Errorf("%d segments in use for %d buffers of a byte", n, 2*most+1)
	}
}
