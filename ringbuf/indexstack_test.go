package ringbuf

import (
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestIndexStackModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 6).Draw(t, "n")
		s := NewIndexStack(n)
		var twin []int // top last
		for i := n - 1; i >= 0; i-- {
			twin = append(twin, i)
		}
		t.Repeat(map[string]func(*rapid.T){
			"pop": func(t *rapid.T) {
				i, ok := s.Pop()
				same(t, "Pop", ok, len(twin) > 0)
				if ok {
					same(t, "Pop", i, twin[len(twin)-1])
					twin = twin[:len(twin)-1]
				}
			},
			"push": func(t *rapid.T) {
				i := rapid.IntRange(-1, n).Draw(t, "i")
				ok := i >= 0 && i < n && !slices.Contains(twin, i)
				same(t, "Push", s.Push(i), ok)
				if ok {
					twin = append(twin, i)
				}
			},
		})
	})
}

// TestRNG07PausedPop: a pop that was paused between reading the next block and its swap doesn't hand out a block twice,
// also where the version tag is about to wrap.
func TestRNG07PausedPop(t *testing.T) {
	for _, tag := range []uint64{0, 1<<32 - 1, 1<<32 - 2, 1<<32 - 3} {
		s := NewIndexStack(3)
		const a, b = 0, 1
		s.top.Store(tag<<32 | uint64(uint32(s.top.Load())))

		old, next, ok := s.peek() // goroutine 1 is about to pop A and is paused
		if !ok {
			t.Fatal("the stack is empty")
		}
		for _, want := range []int{a, b} { // goroutine 2
			if i, ok := s.Pop(); !ok || i != want {
				t.Fatalf("popped %d, %t; want %d", i, ok, want)
			}
		}
		if !s.Push(a) {
			t.Fatal("A was refused")
		}
		if i, ok := s.swap(old, next); ok { // goroutine 1 goes on
			t.Fatalf("tag %#x: the outdated swap took %d", tag, i)
		}
		got := []int{b} // goroutine 2 holds B
		for i, ok := s.Pop(); ok; i, ok = s.Pop() {
			got = append(got, i)
		}
		if !slices.Equal(got, []int{1, 0, 2}) {
			t.Fatalf("tag %#x: handed out %v, want each of 1, 0, 2 once", tag, got)
		}
	}
}

// TestRNG08NoIndexTwice: 4 goroutines take indices, mark them busy, unmark them and give them back.
func TestRNG08NoIndexTwice(t *testing.T) {
	perturbFor(t, 5)
	const n = 4
	s := NewIndexStack(n)
	var busy [n]atomic.Bool
	var rounds [4]int
	var all sync.WaitGroup
	limit := time.Now().Add(500 * time.Millisecond)
	hang := time.Now().Add(30 * time.Second)
	for g := range rounds {
		all.Go(func() {
			for time.Now().Before(limit) || (rounds[g] < 1000 && time.Now().Before(hang)) {
				i, ok := s.Pop()
				if !ok {
					runtime.Gosched()
					continue
				}
				if !busy[i].CompareAndSwap(false, true) {
					t.Errorf("%d was handed out twice", i)
					return
				}
				if rounds[g]%8 == 0 {
					runtime.Gosched()
				}
				busy[i].Store(false)
				if !s.Push(i) {
					t.Errorf("%d was refused", i)
					return
				}
				rounds[g]++
			}
		})
	}
	all.Wait()
	for g, r := range rounds {
		if r < 1000 {
			t.Errorf("goroutine %d made %d rounds, want at least 1000", g, r)
		}
	}
	var left []int
	for i, ok := s.Pop(); ok; i, ok = s.Pop() {
		left = append(left, i)
	}
	slices.Sort(left)
	if !slices.Equal(left, []int{0, 1, 2, 3}) {
		t.Errorf("at the end the stack holds %v", left)
	}
}

func TestIndexStackRefusesItsMisuse(t *testing.T) {
	s := NewIndexStack(2)
	if s.Push(0) || s.Push(2) || s.Push(-1) {
		t.Fatal("an index was taken that was not handed out")
	}
	i, _ := s.Pop()
	if !s.Push(i) || s.Push(i) {
		t.Fatal("given back twice")
	}
	if s.Cap() != 2 {
		t.Fatalf("Cap is %d", s.Cap())
	}
	mustPanic(t, "size", func() { NewIndexStack(-1) })
}
