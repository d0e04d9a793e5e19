package ringbuf

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
)

// atProcessors runs f at several GOMAXPROCS, with yields injected between the steps of the rings in race and debug builds.
func atProcessors(t *testing.T, f func(t *testing.T, items int)) {
	items := 20_000
	if testing.Short() || raceOrDebug {
		items = 2_000
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	for _, procs := range []int{1, 2, 4, 16} {
		t.Run(fmt.Sprintf("procs=%d", procs), func(t *testing.T) {
			runtime.GOMAXPROCS(procs)
			perturbFor(t, 5)
			f(t, items)
		})
	}
}

// payload is wide enough that a torn hand-over shows.
type payload struct {
	from, n, check int
	p              *int
}

func makePayload(from, n int) payload { return payload{from, n, from ^ n, new(int)} }

// sequence checks that what one consumer gets of each producer comes in order, and counts it.
type sequence struct {
	t     *testing.T
	last  []int
	total int
	gaps  bool // several consumers share the items
}

func newSequence(t *testing.T, producers int, gaps bool) *sequence {
	return &sequence{t: t, last: make([]int, producers), gaps: gaps}
}

func (s *sequence) see(v payload) {
	if v.check != v.from^v.n || v.p == nil {
		s.t.Errorf("torn: %+v", v)
	}
	*v.p++ // the race detector sees whether the hand-over orders this
	if v.n <= s.last[v.from] || (!s.gaps && v.n != s.last[v.from]+1) {
		s.t.Errorf("producer %d: %d after %d", v.from, v.n, s.last[v.from])
	}
	s.last[v.from] = v.n
	s.total++
}

func TestStressSPSC(t *testing.T) {
	atProcessors(t, func(t *testing.T, items int) {
		for _, capacity := range []int{1, 8, 64} {
			q := NewSPSC[payload](capacity)
			var producer sync.WaitGroup
			producer.Go(func() {
				defer q.Close()
				for n := 1; n <= items; {
					switch n % 5 {
					case 0: // one by one
						if q.Push(makePayload(0, n)) {
							n++
						}
					case 1: // staged
						k := 0
						for ; k < 5 && n+k <= items && q.Stage(makePayload(0, n+k)); k++ {
						}
						q.Publish()
						n += k
					case 2: // batch
						src := make([]payload, min(7, items+1-n))
						for i := range src {
							src[i] = makePayload(0, n+i)
						}
						n += q.PushBatch(src)
					case 3: // in slots, one behind the other
						k := 0
						for ; k < 3 && n+k <= items; k++ {
							slot := q.StageSlot()
							if slot == nil {
								break
							}
							*slot = makePayload(0, n+k)
						}
						q.Publish()
						n += k
					case 4: // in place
						a, b := q.Claim(min(3, items+1-n))
						for i := range a {
							a[i] = makePayload(0, n+i)
						}
						for i := range b {
							b[i] = makePayload(0, n+len(a)+i)
						}
						q.Commit(len(a) + len(b))
						n += len(a) + len(b)
					}
					if q.Len() == q.Cap() {
						runtime.Gosched()
					}
				}
			})
			seen := newSequence(t, 1, false)
			dst := make([]payload, 6)
			for round := 0; !q.Drained(); round++ {
				switch round % 3 {
				case 0:
					if v, ok := q.Pop(); ok {
						seen.see(v)
					}
				case 1:
					for _, v := range dst[:q.PopBatch(dst)] {
						seen.see(v)
					}
				case 2:
					a, b := q.View()
					for _, v := range a {
						seen.see(v)
					}
					for _, v := range b {
						seen.see(v)
					}
					q.Consume(len(a) + len(b))
				}
				if q.Empty() {
					runtime.Gosched()
				}
			}
			producer.Wait()
			if seen.total != items {
				t.Errorf("capacity %d: %d items came out of %d", capacity, seen.total, items)
			}
		}
	})
}

func TestStressMPSC(t *testing.T) {
	atProcessors(t, func(t *testing.T, items int) {
		q := NewMPSC[payload](8)
		seen := newSequence(t, 3, false)
		stressMulti(items, 3, q.Push, q.PushBatch, q.Claim, q.Close, []func(){func() {
			dst := make([]payload, 5)
			for !q.Drained() {
				v, ok := q.Pop()
				if ok {
					seen.see(v)
				}
				n := q.PopBatch(dst)
				for _, v := range dst[:n] {
					seen.see(v)
				}
				if !ok && n == 0 {
					runtime.Gosched() // empty, or a claim is not finished
				}
			}
		}})
		if seen.total != 3*items {
			t.Errorf("%d items came out of %d", seen.total, 3*items)
		}
	})
}

func TestStressMPMC(t *testing.T) {
	atProcessors(t, func(t *testing.T, items int) {
		q := NewMPMC[payload](8)
		total := make([]int, 3)
		var consumers []func()
		for c := range total {
			consumers = append(consumers, func() {
				seen := newSequence(t, 3, true)
				dst := make([]payload, 5)
				for !q.Drained() {
					if v, ok := q.Pop(); ok {
						seen.see(v)
					}
					for _, v := range dst[:q.PopBatch(dst)] {
						seen.see(v)
					}
					runtime.Gosched()
				}
				total[c] = seen.total
			})
		}
		stressMulti(items, 3, q.Push, q.PushBatch, q.Claim, q.Close, consumers)
		if sum := total[0] + total[1] + total[2]; sum != 3*items {
			t.Errorf("%d items came out of %d", sum, 3*items)
		}
	})
}

// stressMulti runs producers, which push in all ways, against consumers, which return once the ring is drained.
func stressMulti(items, producers int, push func(payload) bool, pushBatch func([]payload) int,
	claim func() (Claim[payload], bool), closeRing func(), consumers []func(),
) {
	var pushers, poppers sync.WaitGroup
	for p := range producers {
		pushers.Go(func() {
			for n := 1; n <= items; {
				before := n
				switch n % 3 {
				case 0:
					if push(makePayload(p, n)) {
						n++
					}
				case 1:
					src := make([]payload, min(4, items+1-n))
					for i := range src {
						src[i] = makePayload(p, n+i)
					}
					n += pushBatch(src)
				case 2:
					if c, ok := claim(); ok {
						*c.Value() = makePayload(p, n)
						c.Commit()
						n++
					}
				}
				if n == before {
					runtime.Gosched()
				}
			}
		})
	}
	for _, c := range consumers {
		poppers.Go(c)
	}
	pushers.Wait()
	closeRing()
	poppers.Wait()
}

func TestStressIndexStack(t *testing.T) {
	atProcessors(t, func(t *testing.T, items int) {
		s := NewIndexStack(3)
		held := make([]int, 3) // plain on purpose: whoever holds an index owns its word
		var all sync.WaitGroup
		for range 5 {
			all.Go(func() {
				for n := 0; n < items; {
					i, ok := s.Pop()
					if !ok {
						runtime.Gosched()
						continue
					}
					held[i]++
					n++
					if !s.Push(i) {
						t.Errorf("%d was refused", i)
					}
				}
			})
		}
		all.Wait()
		if sum := held[0] + held[1] + held[2]; sum != 5*items {
			t.Errorf("%d holds were counted, want %d: two held one index at once", sum, 5*items)
		}
	})
}

func TestStressOwnerStack(t *testing.T) {
	atProcessors(t, func(t *testing.T, items int) {
		const blocks = 40
		s := NewOwnerStack[*int](blocks)
		for range blocks {
			s.Put(new(int))
		}
		ways := []*Return[*int]{s.NewReturn(), s.NewReturn()}
		var work [3]chan *int
		var all sync.WaitGroup
		for i := range work {
			work[i] = make(chan *int, blocks)
			all.Go(func() {
				for p := range work[i] {
					*p++
					switch {
					case i == 2:
						s.Release(p)
					default:
						ways[i].Put(p)
						if len(work[i]) == 0 {
							ways[i].Flush()
						}
					}
				}
				if i < 2 {
					ways[i].Close()
				}
			})
		}
		for n := 0; n < items; n++ {
			p, ok := s.Get()
			for !ok {
				s.Notifier().Prepare()
				if p, ok = s.Get(); ok {
					s.Notifier().Cancel()
				} else if err := s.Notifier().Wait(withHangLimit(t)); err != nil {
					t.Fatal(err)
				} else {
					p, ok = s.Get()
				}
			}
			work[n%3] <- p
		}
		for i := range work {
			close(work[i])
		}
		all.Wait()
		s.Drain()
		sum := 0
		for p, ok := s.Get(); ok; p, ok = s.Get() {
			sum += *p
		}
		if sum != items || len(s.returns) != 0 {
			t.Errorf("%d uses were counted, want %d; %d ways back are left", sum, items, len(s.returns))
		}
	})
}

func TestStressPipe(t *testing.T) {
	atProcessors(t, func(t *testing.T, items int) {
		for _, w := range []Waiting{{}, Park(), Yield()} {
			ctx := withHangLimit(t)
			p := NewPipe[payload](4, w)
			var sender sync.WaitGroup
			sender.Go(func() {
				defer p.Close()
				for n := 1; n <= items; {
					var err error
					switch n % 3 {
					case 0:
						src := make([]payload, min(9, items+1-n))
						for i := range src {
							src[i] = makePayload(0, n+i)
						}
						_, err = p.SendBatch(ctx, src)
						n += len(src)
					case 1:
						if p.Stage(makePayload(0, n)) {
							n++
						} else {
							err = p.Send(ctx, makePayload(0, n))
							n++
						}
					default:
						err = p.Send(ctx, makePayload(0, n))
						n++
					}
					if err != nil {
						t.Error(err)
						return
					}
				}
				if err := p.Flush(); err != nil {
					t.Error(err)
				}
			})
			seen := newSequence(t, 1, false)
			dst := make([]payload, 3)
			for {
				v, err := p.Recv(ctx)
				if err != nil {
					break
				}
				seen.see(v)
				n, err := p.RecvBatch(ctx, dst)
				if err != nil {
					break
				}
				for _, v := range dst[:n] {
					seen.see(v)
				}
				lent, err := p.RecvInPlace(ctx, 3)
				if err != nil {
					break
				}
				for _, v := range lent {
					seen.see(v)
				}
			}
			sender.Wait()
			if _, err := p.Recv(ctx); !errors.Is(err, ErrClosed) || seen.total != items {
				t.Errorf("%d items came out of %d, then %v", seen.total, items, err)
			}
		}
	})
}

func TestStressQueue(t *testing.T) {
	atProcessors(t, func(t *testing.T, items int) {
		items /= 2
		ctx := withHangLimit(t)
		q := NewQueue[payload](4, Waiting{})
		var senders, receivers sync.WaitGroup
		total := make([]int, 3)
		for p := range 3 {
			senders.Go(func() {
				for n := 1; n <= items; n++ {
					if err := q.Send(ctx, makePayload(p, n)); err != nil {
						t.Error(err)
						return
					}
				}
			})
			receivers.Go(func() {
				seen := newSequence(t, 3, true)
				for {
					v, err := q.Recv(ctx)
					if err != nil {
						if !errors.Is(err, ErrClosed) {
							t.Error(err)
						}
						total[p] = seen.total
						return
					}
					seen.see(v)
				}
			})
		}
		senders.Wait()
		q.Close()
		receivers.Wait()
		if sum := total[0] + total[1] + total[2]; sum != 3*items {
			t.Errorf("%d items came out of %d", sum, 3*items)
		}
	})
}
