package segment

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirflow/weir/internal/buildtag"
	"github.com/weirflow/weir/ringbuf"
)

// stressTime is how long a stress test runs for each number of processors.
func stressTime() time.Duration {
	if testing.Short() {
		return 20 * time.Millisecond
	}
	if buildtag.Race || buildtag.Debug {
		return 250 * time.Millisecond
	}
	return 100 * time.Millisecond
}

func atProcs(t *testing.T, f func(t *testing.T)) {
	for _, n := range []int{1, 2, 4, 16} {
		t.Run(fmt.Sprintf("procs=%d", n), func(t *testing.T) {
			defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(n))
			within(t, func() { f(t) })
		})
	}
}

// Owners take and hand over; consumers check the bytes, share, slice, and return by every way; another goroutine makes
// and closes pools, so that sizes swing. At the end everything is home (G1, L8), and nobody was left waiting (L9).
func TestStressPools(t *testing.T) {
	atProcs(t, func(t *testing.T) {
		const owners, consumers, segments = 3, 4, 64
		p := mustPool(t, Config{Segments: segments, SegmentSize: 64, SlabSegments: 16})
		q := ringbuf.NewMPMC[Buffer](1024)
		var stop atomic.Bool
		var sent, got atomic.Uint64
		var producing, consuming sync.WaitGroup
		ctx := hangContext(t)
		var pools [owners]*LocalPool
		var returned [owners]atomic.Uint64
		for i := range owners {
			c := LocalConfig{Name: fmt.Sprint("owner ", i), Required: 4, Max: 24, Subpartitions: 4, Quota: 3, Overdraft: 2,
				OnReturn: func(tag uint32) {
					if tag != uint32(i)+1 {
						t.Errorf("tag %d came home to owner %d", tag, i)
					}
					returned[i].Add(1)
				}}
			pools[i] = mustLocal(t, p, c)
		}
		for i, l := range pools {
			producing.Go(func() {
				defer l.Close()
				rng := rand.New(rand.NewPCG(uint64(i), 1))
				n := uint64(0)
				for !stop.Load() {
					var b Buffer
					var err error
					if rng.IntN(4) == 0 {
						b, _ = l.TakeFor(rng.IntN(4))
						if b.IsZero() {
							runtime.Gosched()
							continue
						}
					} else if b, err = l.TakeWait(ctx, rng.IntN(5)-1); err != nil {
						t.Error(err)
						return
					}
					b.SetTag(uint32(i) + 1)
					mem := b.Memory()
					for j := 0; j < 64; j += 8 {
						binary.LittleEndian.PutUint64(mem[j:], n<<8|uint64(i))
					}
					n++
					if rng.IntN(16) == 0 {
						l.Put(b)
						continue
					}
					sent.Add(1)
					for b = b.Resized(64); !q.Push(b); {
						runtime.Gosched()
					}
				}
			})
		}
		for i := range consumers {
			consuming.Go(func() {
				rng := rand.New(rand.NewPCG(uint64(i), 2))
				var rs [owners]*Releaser
				for j, l := range pools {
					rs[j] = l.NewReleaser()
					defer rs[j].Close()
				}
				var together []Buffer
				for {
					closed := q.Closed() // before the look: nothing is pushed after
					b, ok := q.Pop()
					if !ok {
						for _, r := range rs {
							r.Flush() // before waiting
						}
						ReleaseAll(together)
						together = together[:0]
						if closed {
							return
						}
						runtime.Gosched()
						continue
					}
					got.Add(1)
					first := binary.LittleEndian.Uint64(b.Bytes())
					for j := 8; j < 64; j += 8 {
						if binary.LittleEndian.Uint64(b.Bytes()[j:]) != first {
							t.Error("torn or foreign bytes")
						}
					}
					r := rs[first&0xff]
					switch rng.IntN(5) {
					case 0:
						b.Release()
					case 1:
						r.Release(b)
					case 4:
						if together = append(together, b); len(together) == 6 {
							ReleaseAll(together)
							together = together[:0]
						}
					case 2: // shared with another goroutine
						s := b.Slice(8, 8)
						consuming.Go(func() {
							if binary.LittleEndian.Uint64(s.Bytes()) != first {
								t.Error("a slice reads foreign bytes")
							}
							s.Release()
						})
						r.Release(b)
					default:
						c := b.Retain()
						r.Release(b)
						c.Release()
					}
				}
			})
		}
		producing.Go(func() { // churn: guarantees come and go, and unpooled segments
			rng := rand.New(rand.NewPCG(3, 3))
			for !stop.Load() {
				l, err := p.NewLocal(LocalConfig{Required: 1 + rng.IntN(20), Max: 30})
				if err == nil {
					if b, ok := l.Take(); ok {
						if rng.IntN(2) == 0 {
							l.Put(b)
						} else {
							l.Close()
							b.Release()
						}
					}
					l.Close()
				} else if !errors.Is(err, ErrTooFew) {
					t.Error(err)
				}
				short, cancel := context.WithTimeout(ctx, time.Duration(rng.IntN(1000))*time.Microsecond)
				if bs, err := p.Request(short, rng.IntN(24)); err == nil {
					p.ReleaseAll(bs)
				} else if !errors.Is(err, ErrTooFew) && !errors.Is(err, context.DeadlineExceeded) {
					t.Error(err)
				}
				cancel()
			}
		})
		time.Sleep(stressTime())
		for i := range returned { // each has had a turn, however the machine is loaded
			for returned[i].Load() < 100 && ctx.Err() == nil {
				time.Sleep(time.Millisecond)
			}
		}
		stop.Store(true)
		producing.Wait()
		q.Close()
		consuming.Wait()
		if sent.Load() == 0 || sent.Load() != got.Load() {
			t.Errorf("%d sent, %d arrived", sent.Load(), got.Load())
		}
		for i := range returned {
			if n := returned[i].Load(); n < 100 {
				t.Errorf("%d segments came home to owner %d while it was open", n, i)
			}
		}
		if u := p.Usage(); u.Free != segments || u.Guaranteed != 0 || u.Closing != 0 || u.Misuse.Total() != 0 {
			t.Errorf("%+v", u)
		}
		closeAll(t, p)
	})
}

// Owners wait while others close their pools and cancel: nobody sleeps for ever.
func TestStressWakeUps(t *testing.T) {
	atProcs(t, func(t *testing.T) {
		end := time.Now().Add(stressTime())
		n := 0
		for ; n == 0 || time.Now().Before(end); n++ {
			p := mustPool(t, Config{Segments: 2, SegmentSize: 16, Backing: BackingHeap})
			a := mustLocal(t, p, LocalConfig{Required: 1, Max: 2})
			x, y := mustTake(t, a), mustTake(t, a)
			b := mustLocal(t, p, LocalConfig{Required: 1})
			var all sync.WaitGroup
			all.Go(func() { // gets what a gives back as excess
				z, err := b.TakeWait(hangContext(t), noSub)
				if err != nil {
					t.Error(err)
				}
				z.Release()
				b.Close()
			})
			all.Go(func() { x.Release() })
			all.Go(func() {
				if n%2 == 0 {
					runtime.Gosched()
				}
				y.Release()
			})
			all.Go(func() { // a's owner sleeps until there is something for it
				if _, err := a.TakeWait(hangContext(t), noSub); n%3 != 0 && err != nil {
					t.Error(err)
				} else if n%3 == 0 && err != nil && !errors.Is(err, ErrClosed) {
					t.Error(err)
				}
				a.Close()
			})
			if n%3 == 0 {
				all.Go(a.Cancel)
			}
			all.Wait()
			for i := range p.headers { // what a took and never released
				if h := &p.headers[i]; !h.free {
					h.fresh().Release()
				}
			}
			closeAll(t, p)
		}
	})
}

// A builder publishes, several readers in other goroutines follow; every byte arrives once and in order.
func TestStressBuilder(t *testing.T) {
	atProcs(t, func(t *testing.T) {
		const readers, size = 3, 4096
		p := mustPool(t, Config{Segments: 8, SegmentSize: size})
		l := mustLocal(t, p, LocalConfig{Required: 8})
		end := time.Now().Add(stressTime())
		total := 0
		for total == 0 || time.Now().Before(end) {
			b, err := l.TakeWait(hangContext(t), noSub)
			if err != nil {
				t.Fatal(err)
			}
			w := MakeBuilder(b)
			first := w.NewReader()
			rs := []Reader{first}
			for range readers - 1 {
				rs = append(rs, rs[0].Copy())
			}
			var all sync.WaitGroup
			for i := range rs {
				all.Go(func() {
					r := &rs[i]
					at := 0
					for {
						x, fin := r.Next()
						for _, c := range x.Bytes() {
							if c != byte(at*7) {
								t.Errorf("byte %d is %d", at, c)
							}
							at++
						}
						x.Release()
						if fin {
							break
						}
						runtime.Gosched()
					}
					if at != size {
						t.Errorf("read %d bytes", at)
					}
					r.Close()
				})
			}
			for n := 0; n < size; {
				s := w.Spare()
				k := min(1+n%97, len(s))
				for j := range s[:k] {
					s[j] = byte((n + j) * 7)
				}
				w.Advance(k)
				w.Commit()
				n += k
			}
			w.Finish()
			w.Close()
			all.Wait()
			total++
		}
		l.Drain()
		closeAll(t, p, l)
	})
}
