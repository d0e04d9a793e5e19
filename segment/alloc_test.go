//go:build !race && !weirdebug

package segment

import (
	"context"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/weirflow/weir/internal/alloctest"
	"github.com/weirflow/weir/ringbuf"
)

// Nothing on the way of a buffer allocates, in bytes or in counts.
func TestNoAllocations(t *testing.T) {
	p := mustPool(t, Config{Segments: 64, SegmentSize: 4096})
	returned := 0
	l := mustLocal(t, p, LocalConfig{Name: "a", Required: 16, Max: 32, Subpartitions: 4, Quota: 2, Overdraft: 4,
		OnReturn: func(uint32) { returned++ }})
	plain := mustLocal(t, p, LocalConfig{Required: 4})
	r := l.NewReleaser()
	text := []byte("hello")
	var c Composite
	usage := make([]Usage, 0, 8)
	w := &wantListener{want: 1, got: make([]Buffer, 0, 1)}
	for name, f := range map[string]func(){
		"take, put": func() {
			b, _ := plain.Take()
			b.Memory()[0]++
			plain.Put(b)
		},
		"take, put, many": func() {
			var bs [4]Buffer
			for i := range bs {
				bs[i], _ = plain.Take()
			}
			for _, b := range bs {
				plain.Put(b)
			}
		},
		"take for, tag, put": func() {
			b, _ := l.TakeFor(2)
			b.SetTag(7)
			l.Put(b)
		},
		"release from anywhere": func() {
			b, _ := l.Take()
			b.Release()
			l.Drain()
		},
		"release all": func() {
			var bs [12]Buffer
			for i := range 4 {
				bs[3*i], _ = l.Take()
				bs[3*i+1], _ = plain.Take()
				bs[3*i+2] = Wrap(text, EventBuffer)
			}
			ReleaseAll(bs[:])
			l.Drain()
			plain.Drain()
		},
		"releaser": func() {
			for range 20 {
				b, _ := l.Take()
				r.Release(b)
			}
			r.Flush()
			l.Drain()
		},
		"retain, slice, release": func() {
			b, _ := l.Take()
			b = b.Resized(100)
			s := b.Slice(10, 20)
			u := s.Slice(1, 2).WithType(EventBuffer)
			k := u.Retain()
			b.Release()
			s.Release()
			u.Release()
			k.Release()
			l.Drain()
		},
		"builder, reader": func() {
			b, _ := l.Take()
			w := MakeBuilder(b)
			r := w.NewReader()
			w.Append(text)
			w.Commit()
			x, _ := r.Next()
			k := r.Copy()
			w.Advance(copy(w.Spare(), text))
			w.Finish()
			w.Close()
			y, _ := r.NextClose()
			x.Release()
			y.Release()
			k.Close()
			l.Drain()
		},
		"overdraft, shrinking": func() {
			var bs [36]Buffer
			for i := range bs {
				bs[i], _ = l.Take()
			}
			for _, b := range bs {
				l.Put(b)
			}
		},
		"wrap": func() {
			b := Wrap(text, EventBuffer)
			b.Retain().Release()
			b.Release()
		},
		"composite": func() {
			b, _ := l.Take()
			b = b.Resized(100)
			c.Reset(DataBuffer, false, 100)
			_ = c.Add(b.Slice(0, 50))
			_ = c.Add(b.Slice(50, 50))
			target, _ := l.Take()
			x, _, _ := c.Whole(target)
			l.Put(b)
			l.Put(x)
		},
		"listener": func() {
			var bs [40]Buffer
			n := 0
			for ; n < len(bs); n++ {
				b, ok := l.Take()
				if !ok {
					break
				}
				bs[n] = b
			}
			w.got = w.got[:0]
			l.AddListener(w)
			for _, b := range bs[:n] {
				b.Release()
			}
			l.Drain()
			l.Put(w.got[0])
		},
		"usage": func() {
			usage = p.AppendUsage(usage[:0])
			_ = p.Usage()
			_ = l.Stats()
			l.Available()
		},
	} {
		t.Run(name, func(t *testing.T) { alloctest.Zero(t, 100, 2000, f) })
	}
	if returned == 0 {
		t.Fatal("nothing came home")
	}
	r.Close()
	closeAll(t, p, l, plain)
}

// The same across goroutines: taken here, released there, and the owner sleeps in between.
func TestNoAllocationsAcrossGoroutines(t *testing.T) {
	p := mustPool(t, Config{Segments: 32, SegmentSize: 64})
	l := mustLocal(t, p, LocalConfig{Required: 32})
	q := ringbuf.NewSPSC[Buffer](64)
	n := ringbuf.NewNotifier()
	var stop atomic.Bool
	done := make(chan struct{})
	go func() {
		defer close(done)
		r := l.NewReleaser()
		for {
			b, ok := q.Pop()
			switch {
			case ok && b.Tag() == 1:
				b.Release()
			case ok:
				r.Release(b)
			case stop.Load():
				r.Close()
				return
			default:
				r.Flush()
				n.Prepare()
				if !q.Empty() || stop.Load() {
					n.Cancel()
				} else if err := n.Wait(nil); err != nil {
					t.Error(err)
				}
			}
		}
	}()
	ctx := context.Background()
	i := 0
	alloctest.AtMost(t, 2000, 20000, 2, 512, func() { // the runtime's own: a sleeping goroutine's bookkeeping
		b, err := l.TakeWait(ctx, noSub)
		if err != nil {
			t.Fatal(err)
		}
		if i++; i%7 == 0 {
			b.SetTag(1)
		}
		for !q.Push(b) {
			runtime.Gosched()
		}
		n.Wake()
	})
	stop.Store(true)
	n.Wake()
	<-done
	closeAll(t, p, l)
}

func TestPartsAllocateNothing(t *testing.T) {
	p := mustPool(t, Config{SegmentSize: 4 << 10, Segments: 1})
	l := mustLocal(t, p, LocalConfig{Name: "parts", Required: 1})
	part := make([]byte, 100)
	alloctest.Zero(t, 100, 2000, func() {
		w := MakePartsBuilder(mustTake(t, l))
		r := ReadParts(w.NewReader())
		for w.Append(part) {
			b, _, _, _ := r.Next()
			b.Release()
		}
		w.Close()
		r.Close()
		l.Drain()
	})
	closeAll(t, p, l)
}
