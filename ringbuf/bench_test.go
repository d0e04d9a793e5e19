package ringbuf

import (
	"container/list"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
)

// Names are key=value, and impl comes last: `benchstat -col /impl` puts ours beside what a user would take instead.
//
//	impl=weir   the type of this package that the benchmark is about
//	impl=chan   a buffered channel
//	impl=mutex  a ring under sync.Mutex (and sync.Cond where an end sleeps)
//
// ns/op is per item, whatever the number of goroutines.

const (
	benchCapacity = 128
	benchBatch    = 64
)

var sinkInt atomic.Int64

// handOver moves b.N items from one goroutine to another: send gives the numbers below n, recv takes n of them and returns
// their sum.
func handOver(b *testing.B, send func(n int), recv func(n int) int) {
	b.ReportAllocs()
	done := make(chan struct{})
	start := make(chan struct{})
	go func() {
		<-start
		send(b.N)
		close(done)
	}()
	b.ResetTimer()
	close(start)
	sum := recv(b.N)
	<-done
	b.StopTimer()
	if want := b.N * (b.N - 1) / 2; sum != want {
		b.Fatalf("sum %d, want %d", sum, want)
	}
}

// mutexRing is the plain alternative: a ring under a lock.
type mutexRing struct {
	mu         sync.Mutex
	filled     sync.Cond
	freed      sync.Cond
	buf        [benchCapacity]int
	head, size int
}

func newMutexRing() *mutexRing {
	r := new(mutexRing)
	r.filled.L, r.freed.L = &r.mu, &r.mu
	return r
}

func (r *mutexRing) tryPush(v int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.size == len(r.buf) {
		return false
	}
	r.buf[(r.head+r.size)%len(r.buf)] = v
	r.size++
	return true
}

func (r *mutexRing) tryPop() (v int, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.size == 0 {
		return 0, false
	}
	v = r.buf[r.head]
	r.head = (r.head + 1) % len(r.buf)
	r.size--
	return v, true
}

func (r *mutexRing) push(v int) {
	r.mu.Lock()
	for r.size == len(r.buf) {
		r.freed.Wait()
	}
	r.buf[(r.head+r.size)%len(r.buf)] = v
	r.size++
	r.mu.Unlock()
	r.filled.Signal()
}

func (r *mutexRing) pop() int {
	r.mu.Lock()
	for r.size == 0 {
		r.filled.Wait()
	}
	v := r.buf[r.head]
	r.head = (r.head + 1) % len(r.buf)
	r.size--
	r.mu.Unlock()
	r.freed.Signal()
	return v
}

func sendChan(c chan int) func(int) {
	return func(n int) {
		for i := range n {
			c <- i
		}
	}
}

func recvChan(c chan int) func(int) int {
	return func(n int) (sum int) {
		for range n {
			sum += <-c
		}
		return sum
	}
}

// BenchmarkHandOver is one producer and one consumer.
func BenchmarkHandOver(b *testing.B) {
	b.Run("by=one/wait=yield/impl=weir", func(b *testing.B) {
		p := NewPipe[int](benchCapacity, Yield())
		handOver(b, func(n int) {
			for i := range n {
				if err := p.Send(nil, i); err != nil {
					b.Error(err)
					return
				}
			}
		}, func(n int) (sum int) {
			for range n {
				v, err := p.Recv(nil)
				if err != nil {
					b.Error(err)
				}
				sum += v
			}
			return sum
		})
	})
	b.Run("by=one/wait=yield/impl=chan", func(b *testing.B) {
		c := make(chan int, benchCapacity)
		handOver(b, sendChan(c), recvChan(c))
	})
	b.Run("by=one/wait=yield/impl=mutex", func(b *testing.B) {
		r := newMutexRing()
		handOver(b, func(n int) {
			for i := range n {
				for !r.tryPush(i) {
					runtime.Gosched()
				}
			}
		}, func(n int) (sum int) {
			for n > 0 {
				if v, ok := r.tryPop(); ok {
					sum += v
					n--
				} else {
					runtime.Gosched()
				}
			}
			return sum
		})
	})

	b.Run("by=one/wait=park/impl=weir", func(b *testing.B) {
		p := NewPipe[int](benchCapacity, Park())
		handOver(b, func(n int) {
			for i := range n {
				if err := p.Send(nil, i); err != nil {
					b.Error(err)
					return
				}
			}
		}, func(n int) (sum int) {
			for range n {
				v, err := p.Recv(nil)
				if err != nil {
					b.Error(err)
				}
				sum += v
			}
			return sum
		})
	})
	b.Run("by=one/wait=park/impl=chan", func(b *testing.B) {
		c := make(chan int, benchCapacity)
		handOver(b, sendChan(c), recvChan(c))
	})
	b.Run("by=one/wait=park/impl=mutex", func(b *testing.B) {
		r := newMutexRing()
		handOver(b, func(n int) {
			for i := range n {
				r.push(i)
			}
		}, func(n int) (sum int) {
			for range n {
				sum += r.pop()
			}
			return sum
		})
	})

	for _, wait := range []string{"yield", "park"} {
		w := Yield()
		if wait == "park" {
			w = Park()
		}
		b.Run("by=64/wait="+wait+"/impl=weir", func(b *testing.B) {
			p := NewPipe[int](16*benchBatch, w)
			handOver(b, func(n int) {
				src := make([]int, 0, benchBatch)
				for i := range n {
					if src = append(src, i); len(src) == benchBatch {
						_, _ = p.SendBatch(nil, src)
						src = src[:0]
					}
				}
				_, _ = p.SendBatch(nil, src)
			}, func(n int) (sum int) {
				for n > 0 {
					s, err := p.RecvInPlace(nil, benchBatch)
					if err != nil {
						b.Error(err)
					}
					for _, v := range s {
						sum += v
					}
					n -= len(s)
				}
				return sum
			})
		})
		b.Run("by=64/wait="+wait+"/impl=chan", func(b *testing.B) {
			full, empty := make(chan []int, 16), make(chan []int, 16)
			for range 16 {
				empty <- make([]int, 0, benchBatch)
			}
			handOver(b, func(n int) {
				s := <-empty
				for i := range n {
					if s = append(s, i); len(s) == benchBatch {
						full <- s
						s = <-empty
					}
				}
				full <- s
			}, func(n int) (sum int) {
				for n > 0 {
					s := <-full
					for _, v := range s {
						sum += v
					}
					n -= len(s)
					empty <- s[:0]
				}
				return sum
			})
		})
	}
}

// BenchmarkRoundTrip sends one item there and back: both ends sleep in between.
func BenchmarkRoundTrip(b *testing.B) {
	for _, wait := range []string{"park", "yield"} {
		w := Waiting{}
		if wait == "yield" {
			w = Yield()
		}
		b.Run("wait="+wait+"/impl=weir", func(b *testing.B) {
			there, back := NewPipe[int](1, w), NewPipe[int](1, w)
			go func() {
				for {
					v, err := there.Recv(nil)
					if err != nil {
						back.Close()
						return
					}
					_ = back.Send(nil, v)
				}
			}()
			b.ReportAllocs()
			for b.Loop() {
				_ = there.Send(nil, 1)
				_, _ = back.Recv(nil)
			}
			there.Close()
		})
		b.Run("wait="+wait+"/impl=chan", func(b *testing.B) {
			there, back := make(chan int, 1), make(chan int, 1)
			go func() {
				for v := range there {
					back <- v
				}
				close(back)
			}()
			b.ReportAllocs()
			for b.Loop() {
				there <- 1
				<-back
			}
			close(there)
		})
	}
}

// many moves b.N items from producers to consumers. push and pop must not block for ever.
func many(b *testing.B, producers, consumers int, push func(int), pop func() int) {
	b.ReportAllocs()
	var all sync.WaitGroup
	share := func(i, of int) int { return b.N/of + (min(i+1, b.N%of) - min(i, b.N%of)) }
	b.ResetTimer()
	for i := range producers {
		all.Go(func() {
			for range share(i, producers) {
				push(1)
			}
		})
	}
	var total atomic.Int64
	for i := range consumers {
		all.Go(func() {
			sum := 0
			for range share(i, consumers) {
				sum += pop()
			}
			total.Add(int64(sum))
		})
	}
	all.Wait()
	b.StopTimer()
	if total.Load() != int64(b.N) {
		b.Fatalf("%d items came out of %d", total.Load(), b.N)
	}
}

// yielding makes push and pop of a ring wait.
func yielding(tryPush func(int) bool, tryPop func() (int, bool)) (push func(int), pop func() int) {
	push = func(v int) {
		for !tryPush(v) {
			runtime.Gosched()
		}
	}
	pop = func() int {
		for {
			if v, ok := tryPop(); ok {
				return v
			}
			runtime.Gosched()
		}
	}
	return push, pop
}

// BenchmarkMany is many producers, and one or many consumers.
func BenchmarkMany(b *testing.B) {
	for _, c := range []struct {
		name                 string
		producers, consumers int
	}{{"producers=4/consumers=1", 4, 1}, {"producers=4/consumers=4", 4, 4}} {
		b.Run(c.name+"/impl=weir", func(b *testing.B) {
			if c.consumers == 1 {
				q := NewMPSC[int](benchCapacity)
				push, pop := yielding(q.Push, q.Pop)
				many(b, c.producers, c.consumers, push, pop)
				return
			}
			q := NewMPMC[int](benchCapacity)
			push, pop := yielding(q.Push, q.Pop)
			many(b, c.producers, c.consumers, push, pop)
		})
		b.Run(c.name+"/impl=chan", func(b *testing.B) {
			ch := make(chan int, benchCapacity)
			many(b, c.producers, c.consumers, func(v int) { ch <- v }, func() int { return <-ch })
		})
		b.Run(c.name+"/impl=mutex", func(b *testing.B) {
			r := newMutexRing()
			push, pop := yielding(r.tryPush, r.tryPop)
			many(b, c.producers, c.consumers, push, pop)
		})
	}
}

// BenchmarkWake is a waker while nobody sleeps: what every publication pays.
func BenchmarkWake(b *testing.B) {
	b.Run("sleepers=0/impl=weir", func(b *testing.B) {
		n := NewNotifier()
		b.ReportAllocs()
		for b.Loop() {
			n.Wake()
		}
	})
	b.Run("sleepers=0/impl=chan", func(b *testing.B) {
		c := make(chan struct{}, 1)
		b.ReportAllocs()
		for b.Loop() {
			select {
			case c <- struct{}{}:
			default:
			}
		}
	})
	b.Run("sleepers=0/impl=mutex", func(b *testing.B) {
		c := sync.NewCond(new(sync.Mutex))
		b.ReportAllocs()
		for b.Loop() {
			c.L.Lock()
			c.Signal()
			c.L.Unlock()
		}
	})
}

// BenchmarkFreeList takes a block and gives it back, by its owner or (from=other) through another goroutine.
func BenchmarkFreeList(b *testing.B) {
	const blocks = 256
	type block struct{ n int }
	b.Run("from=owner/impl=weir", func(b *testing.B) {
		s := NewOwnerStack[*block](blocks)
		s.Put(new(block))
		b.ReportAllocs()
		for b.Loop() {
			p, _ := s.Get()
			p.n++
			s.Put(p)
		}
	})
	b.Run("from=owner/impl=indexstack", func(b *testing.B) {
		s := NewIndexStack(blocks)
		var all [blocks]block
		b.ReportAllocs()
		for b.Loop() {
			i, _ := s.Pop()
			all[i].n++
			s.Push(i)
		}
	})
	b.Run("from=owner/impl=chan", func(b *testing.B) {
		c := make(chan *block, blocks)
		c <- new(block)
		b.ReportAllocs()
		for b.Loop() {
			p := <-c
			p.n++
			c <- p
		}
	})
	b.Run("from=owner/impl=mutex", func(b *testing.B) {
		var mu sync.Mutex
		free := append(make([]*block, 0, blocks), new(block))
		b.ReportAllocs()
		for b.Loop() {
			mu.Lock()
			p := free[len(free)-1]
			free = free[:len(free)-1]
			mu.Unlock()
			p.n++
			mu.Lock()
			free = append(free, p)
			mu.Unlock()
		}
	})
	b.Run("from=owner/impl=syncpool", func(b *testing.B) {
		p := sync.Pool{New: func() any { return new(block) }}
		b.ReportAllocs()
		for b.Loop() {
			x := p.Get().(*block)
			x.n++
			p.Put(x)
		}
	})

	// The hand-over to the other goroutine is the same ring for all.
	through := func(b *testing.B, get func() (*block, bool), put func(*block), flush func()) {
		b.ReportAllocs()
		q := NewSPSC[*block](blocks)
		done := make(chan struct{})
		b.ResetTimer()
		go func() {
			for !q.Drained() {
				if p, ok := q.Pop(); ok {
					p.n++
					put(p)
				} else {
					flush()
					runtime.Gosched()
				}
			}
			flush()
			close(done)
		}()
		for range b.N {
			p, ok := get()
			for !ok {
				q.Publish()
				runtime.Gosched()
				p, ok = get()
			}
			for !q.Stage(p) {
				q.Publish()
				runtime.Gosched()
			}
			if q.Staged() >= returnBatch {
				q.Publish()
			}
		}
		q.Publish()
		q.Close()
		<-done
	}
	b.Run("from=other/impl=weir", func(b *testing.B) {
		s := NewOwnerStack[*block](blocks)
		for range blocks {
			s.Put(new(block))
		}
		r := s.NewReturn()
		through(b, s.Get, func(p *block) { r.Put(p) }, r.Flush)
	})
	b.Run("from=other/impl=chan", func(b *testing.B) {
		c := make(chan *block, blocks)
		for range blocks {
			c <- new(block)
		}
		through(b, func() (*block, bool) {
			select {
			case p := <-c:
				return p, true
			default:
				return nil, false
			}
		}, func(p *block) { c <- p }, func() {})
	})
	b.Run("from=other/impl=mutex", func(b *testing.B) {
		var mu sync.Mutex
		free := make([]*block, 0, blocks)
		for range blocks {
			free = append(free, new(block))
		}
		through(b, func() (*block, bool) {
			mu.Lock()
			defer mu.Unlock()
			if len(free) == 0 {
				return nil, false
			}
			p := free[len(free)-1]
			free = free[:len(free)-1]
			return p, true
		}, func(p *block) {
			mu.Lock()
			free = append(free, p)
			mu.Unlock()
		}, func() {})
	})
}

// BenchmarkDeque keeps a queue of 32 and passes items through it, every 16th with priority.
func BenchmarkDeque(b *testing.B) {
	const kept = 32
	b.Run("kept=32/impl=weir", func(b *testing.B) {
		d := NewDeque[int](2 * kept)
		for range kept {
			d.PushBack(1)
		}
		sum, i := 0, 0
		b.ReportAllocs()
		for b.Loop() {
			if i++; i%16 == 0 {
				d.PushPriority(i)
			} else {
				d.PushBack(i)
			}
			v, _ := d.PopFront()
			sum += v
		}
		sinkInt.Store(int64(sum))
	})
	b.Run("kept=32/impl=slice", func(b *testing.B) {
		d := make([]int, kept)
		sum, i := 0, 0
		b.ReportAllocs()
		for b.Loop() {
			if i++; i%16 == 0 {
				d = append(d, 0)
				copy(d[1:], d)
				d[0] = i
			} else {
				d = append(d, i)
			}
			sum += d[0]
			d = d[1:]
		}
		sinkInt.Store(int64(sum))
	})
	b.Run("kept=32/impl=list", func(b *testing.B) {
		d := list.New()
		for range kept {
			d.PushBack(1)
		}
		sum, i := 0, 0
		b.ReportAllocs()
		for b.Loop() {
			if i++; i%16 == 0 {
				d.PushFront(i)
			} else {
				d.PushBack(i)
			}
			sum += d.Remove(d.Front()).(int)
		}
		sinkInt.Store(int64(sum))
	})
}
