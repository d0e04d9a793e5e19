package segment

import (
	"runtime"
	"sync"
	"testing"

	"github.com/valyala/bytebufferpool"

	"github.com/weirflow/weir/internal/measure"
	"github.com/weirflow/weir/ringbuf"
)

// The benchmarks name the contender impl=…, so that `benchstat -col /impl` puts weir beside its rivals of the same run.
// Compare ratios within a run, never times between machines.

// withCPU reports, beside the time by the clock, what the process used of its processors, which a busy machine disturbs
// less.
func withCPU(b *testing.B, f func()) {
	b.ReportAllocs()
	before := measure.CPUSeconds()
	f()
	b.ReportMetric((measure.CPUSeconds()-before)*1e9/float64(b.N), "cpu-ns/op")
}

type block struct{ mem [DefaultSize]byte }

// mutexPool is the plain rival: a stack under a lock.
type mutexPool struct {
	mu   sync.Mutex
	free []*block
}

func (p *mutexPool) Get() *block {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := len(p.free) - 1
	if n < 0 {
		return new(block)
	}
	b := p.free[n]
	p.free = p.free[:n]
	return b
}

func (p *mutexPool) Put(b *block) {
	p.mu.Lock()
	p.free = append(p.free, b)
	p.mu.Unlock()
}

func benchLocal(b *testing.B, segments int) (*LocalPool, func()) {
	p := mustPool(b, Config{Segments: segments})
	l := mustLocal(b, p, LocalConfig{Name: "bench", Required: segments})
	return l, func() {
		l.Close()
		if err := p.Close(); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkTakeRelease is one take and one release of a 32 KiB block by the same goroutine. Its user touches it.
// (b.Loop would send each block's handle through memory to keep it alive, which for some contenders costs more than all
// the rest.)
func BenchmarkTakeRelease(b *testing.B) {
	b.Run("refs=sole/touch=no/impl=weir", func(b *testing.B) {
		l, done := benchLocal(b, 8)
		defer done()
		withCPU(b, func() {
			for range b.N {
				x, _ := l.Take()
				l.Put(x)
			}
		})
	})
	b.Run("refs=sole/touch=no/impl=sync.Pool", func(b *testing.B) {
		p := sync.Pool{New: func() any { return new(block) }}
		withCPU(b, func() {
			for range b.N {
				x := p.Get().(*block)
				p.Put(x)
			}
		})
	})
	b.Run("refs=sole/touch=yes/impl=weir", func(b *testing.B) {
		l, done := benchLocal(b, 8)
		defer done()
		withCPU(b, func() {
			for range b.N {
				x, _ := l.Take()
				x.Memory()[0]++
				l.Put(x)
			}
		})
	})
	b.Run("refs=shared/touch=yes/impl=weir", func(b *testing.B) { // retained once, released twice
		l, done := benchLocal(b, 8)
		defer done()
		withCPU(b, func() {
			for range b.N {
				x, _ := l.Take()
				x.Memory()[0]++
				y := x.Retain()
				l.Put(x)
				l.Put(y)
			}
		})
	})
	b.Run("refs=sole/touch=yes/impl=weir-anywhere", func(b *testing.B) { // by Release and Drain, as others do it
		l, done := benchLocal(b, 8)
		defer done()
		withCPU(b, func() {
			for range b.N {
				x, _ := l.Take()
				x.Memory()[0]++
				x.Release()
				l.Drain()
			}
		})
	})
	for _, refs := range []string{"sole", "shared"} { // the rivals don't count: the same work for both
		b.Run("refs="+refs+"/touch=yes/impl=sync.Pool", func(b *testing.B) {
			p := sync.Pool{New: func() any { return new(block) }}
			withCPU(b, func() {
				for range b.N {
					x := p.Get().(*block)
					x.mem[0]++
					p.Put(x)
				}
			})
		})
	}
	b.Run("refs=sole/touch=yes/impl=bytebufferpool", func(b *testing.B) {
		var p bytebufferpool.Pool
		x := p.Get()
		x.B = make([]byte, DefaultSize)
		p.Put(x)
		withCPU(b, func() {
			for range b.N {
				x := p.Get()
				x.B = x.B[:1]
				x.B[0]++
				p.Put(x)
			}
		})
	})
	b.Run("refs=sole/touch=yes/impl=mutex", func(b *testing.B) {
		var p mutexPool
		withCPU(b, func() {
			for range b.N {
				x := p.Get()
				x.mem[0]++
				p.Put(x)
			}
		})
	})
}

const handOverBatch = 16

// handOver moves b.N items from take, in this goroutine, to give, in another, through a ring that both sides work in
// batches of 16. flush follows each batch of the receiver.
func handOver[T any](b *testing.B, take func() T, give func(T), flush func()) {
	q := ringbuf.NewSPSC[T](128)
	done := make(chan struct{})
	n := b.N
	b.ReportAllocs()
	b.ResetTimer()
	before := measure.CPUSeconds()
	go func() {
		defer close(done)
		var batch [handOverBatch]T
		for got, spins := 0, 0; got < n; {
			k := q.PopBatch(batch[:])
			for _, x := range batch[:k] {
				give(x)
			}
			got += k
			if k > 0 {
				flush()
				spins = 0
			} else if spins++; spins > 64 {
				runtime.Gosched()
			}
		}
	}()
	for i := range n {
		x := take()
		for spins := 0; !q.Stage(x); spins++ {
			q.Publish()
			if spins > 64 {
				runtime.Gosched()
			}
		}
		if i%handOverBatch == handOverBatch-1 {
			q.Publish()
		}
	}
	q.Publish()
	<-done
	b.StopTimer()
	b.ReportMetric((measure.CPUSeconds()-before)*1e9/float64(b.N), "cpu-ns/op")
}

// BenchmarkAcross takes in one goroutine and releases in another, the hand-over of the buffer included. impl=none is
// that hand-over alone.
func BenchmarkAcross(b *testing.B) {
	const segments = 256
	nothing := func() {}
	weir := func(b *testing.B, releaser bool) {
		l, done := benchLocal(b, segments)
		defer done()
		take := func() Buffer {
			for {
				if x, ok := l.Take(); ok {
					x.Memory()[0]++
					return x
				}
				runtime.Gosched()
			}
		}
		if !releaser {
			handOver(b, take, Buffer.Release, nothing)
			return
		}
		r := l.NewReleaser()
		defer r.Close()
		handOver(b, take, r.Release, nothing)
	}
	b.Run("impl=weir", func(b *testing.B) { weir(b, true) })
	b.Run("impl=weir-anywhere", func(b *testing.B) { weir(b, false) })
	b.Run("impl=sync.Pool", func(b *testing.B) {
		p := sync.Pool{New: func() any { return new(block) }}
		handOver(b, func() *block {
			x := p.Get().(*block)
			x.mem[0]++
			return x
		}, func(x *block) { p.Put(x) }, nothing)
	})
	b.Run("impl=bytebufferpool", func(b *testing.B) {
		var p bytebufferpool.Pool
		handOver(b, func() *bytebufferpool.ByteBuffer {
			x := p.Get()
			if cap(x.B) == 0 {
				x.B = make([]byte, DefaultSize)
			}
			x.B = x.B[:1]
			x.B[0]++
			return x
		}, func(x *bytebufferpool.ByteBuffer) { p.Put(x) }, nothing)
	})
	b.Run("impl=mutex", func(b *testing.B) {
		p := &mutexPool{}
		for range segments {
			p.Put(new(block))
		}
		handOver(b, func() *block {
			x := p.Get()
			x.mem[0]++
			return x
		}, p.Put, nothing)
	})
	b.Run("impl=none", func(b *testing.B) {
		x := new(block)
		handOver(b, func() *block { return x }, func(*block) {}, nothing)
	})
}

// BenchmarkBuilder fills a segment with records, committing each, and follows it with a reader; per record.
func BenchmarkBuilder(b *testing.B) {
	record := make([]byte, 100)
	l, done := benchLocal(b, 4)
	defer done()
	start := func() Builder {
		x, _ := l.Take()
		return MakeBuilder(x)
	}
	for _, commit := range []string{"record", "buffer"} {
		b.Run("commit="+commit, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(record)))
			w := start()
			r := w.NewReader()
			for b.Loop() {
				w.Append(record)
				if commit == "record" {
					w.Commit()
				}
				if w.Full() {
					w.Finish()
					w.Close()
					x, _ := r.NextClose()
					l.Put(x)
					w = start()
					r = w.NewReader()
				}
			}
			w.Close()
			r.Close()
			l.Drain()
		})
	}
}

// BenchmarkSlice makes and releases a view of a buffer.
func BenchmarkSlice(b *testing.B) {
	l, done := benchLocal(b, 2)
	defer done()
	x, _ := l.Take()
	x = x.Resized(1000)
	b.ReportAllocs()
	for b.Loop() {
		s := x.Slice(10, 20)
		s.Release()
	}
	l.Put(x)
}

// BenchmarkUsage takes a snapshot of a pool with 16 local pools.
func BenchmarkUsage(b *testing.B) {
	p := mustPool(b, Config{Segments: 64, SegmentSize: 64})
	for range 16 {
		l := mustLocal(b, p, LocalConfig{Required: 2})
		defer l.Close()
	}
	dst := make([]Usage, 0, 16)
	b.Run("of=pool", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_ = p.Usage()
		}
	})
	b.Run("of=locals", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			dst = p.AppendUsage(dst[:0])
		}
	})
}

// BenchmarkRedistribute makes and closes a local pool beside n others, which are all resized twice.
func BenchmarkRedistribute(b *testing.B) {
	for _, n := range []int{1, 100} {
		b.Run("pools="+map[int]string{1: "1", 100: "100"}[n], func(b *testing.B) {
			p := mustPool(b, Config{Segments: 1000, SegmentSize: 64})
			for range n {
				l := mustLocal(b, p, LocalConfig{Required: 2, Max: Unlimited})
				defer l.Close()
			}
			for b.Loop() {
				l := mustLocal(b, p, LocalConfig{Required: 5})
				l.Close()
			}
		})
	}
}
