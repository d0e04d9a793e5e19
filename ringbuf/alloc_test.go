//go:build !race

package ringbuf

import (
	"context"
	"testing"
	"time"

	"github.com/weirflow/weir/internal/alloctest"
)

// TestNothingAllocates: no operation of this package allocates after construction, in bytes or in counts.
func TestNothingAllocates(t *testing.T) {
	type item struct {
		p *int
		n int
	}
	p := new(int)
	src, dst := make([]item, 16), make([]item, 16)
	s := NewSPSC[item](64)
	m := NewMPSC[item](64)
	q := NewMPMC[item](64)
	x := NewIndexStack(8)
	o := NewOwnerStack[item](64)
	r := o.NewReturn()
	var d Deque[item]
	o.Put(item{p, 1})
	for name, f := range map[string]func(){
		"SPSC": func() {
			s.Push(item{p, 1})
			s.Stage(item{p, 2})
			s.StageSlot().p = p
			s.Publish()
			s.PushBatch(src)
			a, _ := s.Claim(4)
			a[0].p = p
			s.Commit(1)
			s.Pop()
			s.PopBatch(dst)
			a, b := s.View()
			s.Consume(len(a) + len(b))
			s.Stage(item{p, 3})
			s.Unstage(func(i item) { dst[0] = i })
		},
		"MPSC": func() {
			m.Push(item{p, 1})
			m.PushBatch(src)
			if c, ok := m.Claim(); ok {
				c.Value().n = 2
				c.Commit()
			}
			m.Pop()
			for m.PopBatch(dst) > 0 {
			}
		},
		"MPMC": func() {
			q.Push(item{p, 1})
			q.PushBatch(src)
			q.Pop()
			for q.PopBatch(dst) > 0 {
			}
		},
		"IndexStack": func() {
			i, _ := x.Pop()
			x.Push(i)
		},
		"OwnerStack": func() {
			v, _ := o.Get()
			o.Release(v)
			v, _ = o.Get()
			r.Put(v)
			r.Flush()
			v, _ = o.Get()
			o.Put(v)
		},
		"Deque": func() {
			for range 20 {
				d.PushBack(item{p, 1})
				d.PushPriority(item{p, 2})
				d.Append().p = p
			}
			d.DropFront()
			d.DropBack()
			d.Prioritize(d.Len() - 1)
			d.Remove(3)
			d.PopFront()
			d.Clear(func(i item) { dst[0] = i })
		},
	} {
		t.Run(name, func(t *testing.T) { alloctest.Zero(t, 100, 10_000, f) })
	}
}

// runtimeRecords bounds what the runtime itself allocates while goroutines sleep and wake: it keeps a record for each sleep
// (a sudog, 112 bytes) in lists per processor, and makes some more when a list runs empty.
const runtimeRecords = 100

// TestHandOverAllocatesNothing: neither does handing over between goroutines that sleep and wake.
func TestHandOverAllocatesNothing(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	for name, w := range map[string]Waiting{"at once": {}, "park": Park(), "yield": Yield()} {
		t.Run("Pipe/"+name, func(t *testing.T) {
			there, back := NewPipe[*int](2, w), NewPipe[*int](2, w)
			done := make(chan struct{})
			go func() {
				defer close(done)
				for {
					v, err := there.Recv(ctx)
					if err != nil || back.Send(ctx, v) != nil {
						return
					}
				}
			}()
			p := new(int)
			alloctest.AtMost(t, 1000, 5_000, runtimeRecords, 112*runtimeRecords, func() {
				_ = there.Send(ctx, p)
				_, _ = back.Recv(ctx)
			})
			there.Close()
			<-done
		})
		t.Run("Queue/"+name, func(t *testing.T) {
			there, back := NewQueue[*int](2, w), NewQueue[*int](2, w)
			done := make(chan struct{})
			go func() {
				defer close(done)
				for {
					v, err := there.Recv(ctx)
					if err != nil || back.Send(ctx, v) != nil {
						return
					}
				}
			}()
			p := new(int)
			alloctest.AtMost(t, 1000, 5_000, runtimeRecords, 112*runtimeRecords, func() {
				_ = there.Send(ctx, p)
				_, _ = back.Recv(ctx)
			})
			there.Close()
			<-done
		})
	}
	t.Run("Notifier/timeout", func(t *testing.T) {
		n := NewNotifier()
		alloctest.Zero(t, 10, 200, func() {
			n.Prepare()
			n.WaitTimeout(time.Microsecond)
			n.Wake()
		})
	})
}
