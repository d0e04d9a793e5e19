package segment

import (
	"runtime"
	"sync/atomic"
	"testing"
)

// A builder that finishes in the middle of a reader's NextClose: the reader is closed whenever it says finished, so every
// segment comes home. (Two ends of an exchange that was killed over and over lost one in some hundred rounds.)
func TestNextCloseWhileTheBuilderFinishes(t *testing.T) {
	const rounds = 8000
	p, err := NewPool(Config{Segments: 1, SegmentSize: 64})
	if err != nil {
		t.Fatal(err)
	}
	l, err := p.NewLocal(LocalConfig{Name: "local", Required: 1})
	if err != nil {
		t.Fatal(err)
	}
	var reader Reader
	var turn, polled atomic.Int64 // the round that the reader may begin; the one that it is in
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := int64(1); i <= rounds; i++ {
			for turn.Load() < i {
				runtime.Gosched()
			}
			polled.Store(i)
			for finished := false; !finished; {
				var b Buffer
				b, finished = reader.NextClose()
				b.Release()
			}
			turn.Store(-i)
		}
	}()
	for i := int64(1); i <= rounds; i++ {
		l.Drain()
		b, ok := l.Take()
		if !ok {
			t.Fatalf("round %d: the segment did not come home", i)
		}
		w := MakeBuilder(b)
		reader = w.NewReader()
		turn.Store(i)
		for polled.Load() < i {
			runtime.Gosched()
		}
		w.Append([]byte("x"))
		w.Finish()
		w.Close()
		for turn.Load() != -i {
			runtime.Gosched()
		}
	}
	<-done
	l.Close()
	if err := p.Close(); err != nil {
		t.Error(err)
	}
}
