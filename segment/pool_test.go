package segment

import (
	"context"
	"errors"
	"testing"
	"time"
)

func TestRoundTrip(t *testing.T) {
	p := mustPool(t, Config{Segments: 8, SegmentSize: 4096})
	var tags []uint32
	l := mustLocal(t, p, LocalConfig{Name: "a", Required: 2, Max: 8, OnReturn: func(tag uint32) { tags = append(tags, tag) }})
	b := mustTake(t, l)
	copy(b.Memory(), "hello")
	b = b.Resized(5)
	b.SetTag(7)
	s := b.Slice(1, 3)
	b.Release()
	if got := string(s.Bytes()); got != "ell" {
		t.Fatalf("slice is %q after its parent's release", got)
	}
	if n := l.Drain(); n != 0 {
		t.Fatalf("%d segments came home while a slice lives", n)
	}
	s.Release()
	if n := l.Drain(); n != 1 || len(tags) != 1 || tags[0] != 7 {
		t.Fatalf("%d segments came home with tags %v", n, tags)
	}
	r := l.NewReleaser()
	var bs []Buffer
	for range 8 {
		bs = append(bs, mustTake(t, l))
	}
	if _, ok := l.Take(); ok {
		t.Fatal("took more than there are")
	}
	done := make(chan error)
	go func() {
		for _, b := range bs {
			r.Release(b)
		}
		time.Sleep(time.Millisecond)
		r.Flush()
		done <- nil
	}()
	ctx, cancel := context.WithTimeout(context.Background(), hang)
	defer cancel()
	b, err := l.TakeWait(ctx, -1)
	if err != nil {
		t.Fatal(err)
	}
	<-done
	l.Put(b)
	closeAll(t, p, l)
}

func TestTooFew(t *testing.T) {
	p := mustPool(t, Config{Segments: 10, SegmentSize: 128})
	_, err := p.NewLocal(LocalConfig{Name: "a", Required: 11})
	var few *TooFewError
	if !errors.As(err, &few) || few.Wanted != 11 || few.Available != 10 || !errors.Is(err, ErrTooFew) {
		t.Fatalf("%v", err)
	}
	closeAll(t, p)
}

func TestBuilderReader(t *testing.T) {
	p := mustPool(t, Config{Segments: 2, SegmentSize: 16})
	l := mustLocal(t, p, LocalConfig{Required: 2})
	w := MakeBuilder(mustTake(t, l))
	r := w.NewReader()
	w.Append([]byte("abc"))
	if b, fin := r.Next(); !b.IsZero() || fin {
		t.Fatal("saw what was not committed")
	}
	w.Commit()
	b, fin := r.Next()
	if string(b.Bytes()) != "abc" || fin {
		t.Fatalf("%q %v", b.Bytes(), fin)
	}
	if w.Append([]byte("0123456789abcdef")) != 13 || !w.Full() || w.Finish() != 16 {
		t.Fatal("append or finish")
	}
	w.Close()
	c, fin := r.NextClose()
	if string(c.Bytes()) != "0123456789abc" || !fin {
		t.Fatalf("%q %v", c.Bytes(), fin)
	}
	b.Release()
	c.Release()
	if l.Drain() != 1 {
		t.Fatal("did not come home")
	}
	closeAll(t, p, l)
}
