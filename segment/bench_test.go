package segment

import (
	"sync"
	"testing"

	"github.com/valyala/bytebufferpool"
)

type block struct{ mem [DefaultSize]byte }

// mutexPool is the plain rival: a stack under a lock.
type mutexPool struct {
	mu   sync.Mutex
	free []*block
}

func (p *mutexPool) get() *block {
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

func (p *mutexPool) put(b *block) {
	p.mu.Lock()
	p.free = append(p.free, b)
	p.mu.Unlock()
}

// BenchmarkTakeRelease is one take and one release of a 32 KiB block by the same goroutine. The block's first byte is written
// and read, so that nobody gets away without touching it.
func BenchmarkTakeRelease(b *testing.B) {
	pool, err := NewPool(Config{Segments: 64})
	if err != nil {
		b.Fatal(err)
	}
	defer pool.Close()
	b.Run("refs=sole/impl=weir", func(b *testing.B) {
		l := mustLocal(b, pool, LocalConfig{Required: 8})
		defer l.Close()
		b.ReportAllocs()
		for b.Loop() {
			x, _ := l.Take()
			x.Memory()[0]++
			l.Put(x)
		}
	})
	b.Run("refs=shared/impl=weir", func(b *testing.B) {
		l := mustLocal(b, pool, LocalConfig{Required: 8})
		defer l.Close()
		b.ReportAllocs()
		for b.Loop() {
			x, _ := l.Take()
			x.Memory()[0]++
			y := x.Retain()
			l.Put(x)
			l.Put(y)
		}
	})
	b.Run("refs=sole/impl=sync.Pool", func(b *testing.B) {
		p := sync.Pool{New: func() any { return new(block) }}
		b.ReportAllocs()
		for b.Loop() {
			x := p.Get().(*block)
			x.mem[0]++
			p.Put(x)
		}
	})
	b.Run("refs=sole/impl=bytebufferpool", func(b *testing.B) {
		var p bytebufferpool.Pool
		x := p.Get()
		x.B = make([]byte, DefaultSize)
		p.Put(x)
		b.ReportAllocs()
		for b.Loop() {
			x := p.Get()
			x.B = x.B[:1]
			x.B[0]++
			p.Put(x)
		}
	})
	b.Run("refs=sole/impl=mutex", func(b *testing.B) {
		var p mutexPool
		b.ReportAllocs()
		for b.Loop() {
			x := p.get()
			x.mem[0]++
			p.put(x)
		}
	})
}
