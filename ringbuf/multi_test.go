package ringbuf

import (
	"runtime"
	"slices"
	"sync"
	"testing"

	"pgregory.net/rapid"
)

// ring is what MPSC and MPMC have in common.
type ring interface {
	Push(int) bool
	PushBatch([]int) int
	Claim() (Claim[int], bool)
	Pop() (int, bool)
	PopBatch([]int) int
	Len() int
	Cap() int
	Empty() bool
	Close()
	Closed() bool
	Drained() bool
}

func TestMPSCModel(t *testing.T) { modelMulti(t, func(n int) ring { return NewMPSC[int](n) }) }
func TestMPMCModel(t *testing.T) { modelMulti(t, func(n int) ring { return NewMPMC[int](n) }) }

// modelMulti compares a ring with a slice, step by step, on one goroutine. Unfinished claims are part of it: they hold back
// what was pushed later.
func modelMulti(t *testing.T, make_ func(int) ring) {
	type item struct {
		value int
		claim *Claim[int] // not yet committed
	}
	rapid.Check(t, func(t *rapid.T) {
		capacity := 1 << rapid.IntRange(1, 4).Draw(t, "log2 capacity")
		q := make_(capacity)
		var twin []item
		closed := false
		last := 0
		room := func() int {
			if closed {
				return 0
			}
			return capacity - len(twin)
		}
		finished := func() (n int) {
			for n < len(twin) && twin[n].claim == nil {
				n++
			}
			return n
		}
		pop := func(k int) (v []int) {
			k = min(k, finished())
			for _, i := range twin[:k] {
				v = append(v, i.value)
			}
			twin = twin[k:]
			return v
		}
		size := rapid.IntRange(0, capacity+2)
		t.Repeat(map[string]func(*rapid.T){
			"push": func(t *rapid.T) {
				last++
				ok := room() > 0
				if ok {
					twin = append(twin, item{value: last})
				}
				same(t, "Push", q.Push(last), ok)
			},
			"pushBatch": func(t *rapid.T) {
				v := make([]int, size.Draw(t, "n"))
				for i := range v {
					last++
					v[i] = last
				}
				k := min(len(v), room())
				for _, v := range v[:k] {
					twin = append(twin, item{value: v})
				}
				same(t, "PushBatch", q.PushBatch(v), k)
			},
			"claim": func(t *rapid.T) {
				c, ok := q.Claim()
				same(t, "Claim", ok, room() > 0)
				if ok {
					last++
					*c.Value() = last
					twin = append(twin, item{last, &c})
				}
			},
			"commit": func(t *rapid.T) {
				var open []int
				for i := range twin {
					if twin[i].claim != nil {
						open = append(open, i)
					}
				}
				if len(open) > 0 {
					i := rapid.SampledFrom(open).Draw(t, "claim")
					twin[i].claim.Commit()
					twin[i].claim = nil
				}
			},
			"pop": func(t *rapid.T) {
				want := pop(1)
				v, ok := q.Pop()
				same(t, "Pop", ok, len(want) == 1)
				if ok {
					same(t, "Pop", v, want[0])
				}
			},
			"popBatch": func(t *rapid.T) {
				dst := make([]int, size.Draw(t, "n"))
				same(t, "PopBatch", dst[:q.PopBatch(dst)], pop(len(dst)))
			},
			"close": func(t *rapid.T) {
				if rapid.IntRange(0, 9).Draw(t, "really") == 0 {
					q.Close()
					closed = true
				}
			},
			"": func(t *rapid.T) {
				same(t, "Len", q.Len(), len(twin))
				same(t, "Empty", q.Empty(), len(twin) == 0)
				same(t, "Closed", q.Closed(), closed)
				same(t, "Drained", q.Drained(), closed && len(twin) == 0)
				same(t, "Cap", q.Cap(), capacity)
			},
		})
	})
}

// TestRNG01NoElementOverwritesAnother: 4 producers, 4 consumers, a ring of 8.
func TestRNG01NoElementOverwritesAnother(t *testing.T) {
	const producers, consumers = 4, 4
	each := 100_000
	if testing.Short() || raceOrDebug {
		each = 5_000
	}
	q := NewMPMC[int](8)
	got := make([][]int, consumers)
	var push, pop sync.WaitGroup
	for p := range producers {
		push.Go(func() {
			for i := range each {
				for !q.Push(p*each + i) {
					runtime.Gosched()
				}
			}
		})
	}
	for c := range consumers {
		pop.Go(func() {
			for !q.Drained() {
				if v, ok := q.Pop(); ok {
					got[c] = append(got[c], v)
				} else {
					runtime.Gosched()
				}
			}
		})
	}
	push.Wait()
	q.Close()
	pop.Wait()

	seen := make([]bool, producers*each)
	for c, values := range got {
		last := [producers]int{-1, -1, -1, -1}
		for _, v := range values {
			if seen[v] {
				t.Fatalf("%d came out twice", v)
			}
			seen[v] = true
			if p := v / each; v <= last[p] {
				t.Fatalf("consumer %d got %d of producer %d after %d", c, v, p, last[p])
			} else {
				last[p] = v
			}
		}
	}
	if i := slices.Index(seen, false); i >= 0 {
		t.Fatalf("%d never came out", i)
	}
}

// TestRNG10SlotBeingReadIsRefused: a producer doesn't overwrite a slot that a consumer still reads, and nobody spins on
// another's unfinished work.
func TestRNG10SlotBeingReadIsRefused(t *testing.T) {
	q := NewMPMC[int](4)
	for v := 1; v <= 4; v++ {
		q.Push(v)
	}
	// C1 claims the slot of 1 and is paused before it reads.
	p, n := q.readable(1)
	if n != 1 || !q.head.CompareAndSwap(p, p+1) {
		t.Fatal("C1 could not claim")
	}
	for _, want := range []int{2, 3} {
		if v, ok := q.Pop(); !ok || v != want {
			t.Fatalf("popped %d, %t; want %d", v, ok, want)
		}
	}
	if q.Push(5) {
		t.Fatal("5 was accepted in the slot that C1 still reads")
	}
	if v := q.take(p); v != 1 {
		t.Fatalf("C1 read %d, want 1", v)
	}
	for _, v := range []int{5, 6, 7} {
		if !q.Push(v) {
			t.Fatalf("%d was refused", v)
		}
	}
	for _, want := range []int{4, 5, 6, 7} {
		if v, ok := q.Pop(); !ok || v != want {
			t.Fatalf("popped %d, %t; want %d", v, ok, want)
		}
	}

	// A consumer that meets a claimed but unfinished slot gets nothing for now, at once.
	for _, q := range []ring{NewMPMC[int](4), NewMPSC[int](4)} {
		c, ok := q.Claim()
		if !ok || !q.Push(9) {
			t.Fatal("no room in an empty ring")
		}
		if _, ok := q.Pop(); ok {
			t.Fatal("popped past a claim that was not finished")
		}
		if n := q.PopBatch(make([]int, 4)); n != 0 {
			t.Fatalf("popped %d past a claim that was not finished", n)
		}
		*c.Value() = 8
		c.Commit()
		for _, want := range []int{8, 9} {
			if v, ok := q.Pop(); !ok || v != want {
				t.Fatalf("popped %d, %t; want %d", v, ok, want)
			}
		}
	}
}

// TestRNG12OneLapLater: a claim that was prepared before a lap fails after it, in the smallest ring.
func TestRNG12OneLapLater(t *testing.T) {
	for _, others := range []int{2, 4} {
		q := NewMPMC[int](2)
		q.Push(1)
		// C1 has looked and is paused before its swap.
		p, n := q.readable(1)
		if n != 1 {
			t.Fatal("C1 sees nothing")
		}
		var got []int
		next := 2
		for range others { // pop and push: the cursors come round to the same slot
			v, ok := q.Pop()
			if !ok || !q.Push(next) {
				t.Fatal("pop or push failed")
			}
			got = append(got, v)
			next++
		}
		if q.head.CompareAndSwap(p, p+1) {
			t.Fatalf("after %d others C1's outdated swap succeeded", others)
		}
		for v, ok := q.Pop(); ok; v, ok = q.Pop() {
			got = append(got, v)
		}
		want := make([]int, others+1)
		for i := range want {
			want[i] = i + 1
		}
		if !slices.Equal(got, want) {
			t.Fatalf("got %v, want %v", got, want)
		}
	}
}

// TestRNG12SmallCapacities: 1, 2 and 3 work; they are rounded up, to 2 at least.
func TestRNG12SmallCapacities(t *testing.T) {
	for _, c := range []struct{ ask, want int }{{0, 2}, {1, 2}, {2, 2}, {3, 4}, {5, 8}} {
		for name, q := range map[string]ring{"MPMC": NewMPMC[int](c.ask), "MPSC": NewMPSC[int](c.ask)} {
			if q.Cap() != c.want {
				t.Fatalf("%s of %d has capacity %d, want %d", name, c.ask, q.Cap(), c.want)
			}
			for lap := range 5 {
				for i := range c.want {
					if !q.Push(10*lap + i) {
						t.Fatalf("%s of %d: push %d refused", name, c.want, i)
					}
				}
				if q.Push(99) {
					t.Fatalf("%s of %d took one too many", name, c.want)
				}
				for i := range c.want {
					if v, ok := q.Pop(); !ok || v != 10*lap+i {
						t.Fatalf("%s of %d: popped %d, %t", name, c.want, v, ok)
					}
				}
				if _, ok := q.Pop(); ok {
					t.Fatalf("%s of %d: popped from nothing", name, c.want)
				}
			}
		}
	}
}

// TestCloseHappensBeforeOrAfterEachPush: with pushes and Close at the same time, what was accepted comes out and nothing
// else, and nothing comes after the ring was seen drained.
func TestCloseHappensBeforeOrAfterEachPush(t *testing.T) {
	rings := map[string]struct {
		producers int
		make      func() ring
	}{
		"SPSC": {1, func() ring { return spscRing{NewSPSC[int](8)} }},
		"MPSC": {3, func() ring { return NewMPSC[int](8) }},
		"MPMC": {3, func() ring { return NewMPMC[int](8) }},
	}
	for name, c := range rings {
		t.Run(name, func(t *testing.T) {
			rounds := 300
			if testing.Short() {
				rounds = 30
			}
			for round := range rounds {
				q := c.make()
				accepted := make([]int, c.producers)
				var pushers sync.WaitGroup
				for p := range c.producers {
					pushers.Go(func() {
						for {
							if q.Push(p) {
								accepted[p]++
							} else if q.Closed() {
								return
							} else {
								runtime.Gosched()
							}
						}
					})
				}
				got := make([]int, c.producers)
				for n := 0; !q.Drained(); {
					if v, ok := q.Pop(); ok {
						got[v]++
						if n++; n == round {
							q.Close()
						}
					} else if n >= round {
						q.Close()
					} else {
						runtime.Gosched()
					}
				}
				pushers.Wait()
				if v, ok := q.Pop(); ok {
					t.Fatalf("%d came out after the ring was drained", v)
				}
				if !slices.Equal(got, accepted) {
					t.Fatalf("accepted %v, came out %v", accepted, got)
				}
			}
		})
	}
}

// spscRing makes an SPSC ring look like the others.
type spscRing struct{ *SPSC[int] }

func (spscRing) Claim() (c Claim[int], ok bool) { return c, false }
