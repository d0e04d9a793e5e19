package serde

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
)

func selectN[S Selector[int]](s S, n int) []int {
	var got []int
	for i := range n {
		got = append(got, s.Select(i))
	}
	return got
}

func TestSimplePartitioners(t *testing.T) {
	rescale, err := NewRescalePartitioner[int](3)
	must(t, err)
	rebalance, err := NewRebalancePartitioner[int](3, func(n int) int { return n - 1 })
	must(t, err)
	middle, err := NewRebalancePartitioner[int](3, func(int) int { return 0 })
	must(t, err)
	one, err := NewRebalancePartitioner[int](1, nil)
	must(t, err)
	custom := CustomPartitioner[int, string]{N: 3, Key: func(rec int) string { return fmt.Sprint(rec * 10) },
		Partition: func(key string, n int) int { return len(key) % n }}
	for _, tc := range []struct {
		name string
		got  []int
		want string
	}{
		{"forward", selectN(ForwardPartitioner[int]{}, 3), "[0 0 0]"},
		{"global", selectN(GlobalPartitioner[int]{}, 3), "[0 0 0]"},
		{"broadcast", selectN(BroadcastPartitioner[int]{}, 2), "[-1 -1]"},
		{"rescale", selectN(&rescale, 7), "[0 1 2 0 1 2 0]"},
		{"rebalance", selectN(&rebalance, 4), "[0 1 2 0]"}, // random 2, first record to (2 + 1) mod 3
		{"rebalance from 0", selectN(&middle, 4), "[1 2 0 1]"},
		{"rebalance of one", selectN(&one, 3), "[0 0 0]"},
		{"custom", selectN(custom, 12), "[1 2 2 2 2 2 2 2 2 2 0 0]"},
	} {
		if fmt.Sprint(tc.got) != tc.want {
			t.Errorf("%s: %v, want %s", tc.name, tc.got, tc.want)
		}
	}
}

func TestRebalanceStartsAnywhere(t *testing.T) {
	first := map[int]bool{}
	for range 1000 {
		p, err := NewRebalancePartitioner[int](4, nil)
		must(t, err)
		first[p.Select(0)] = true
	}
	if len(first) != 4 {
		t.Errorf("started only at %v", first)
	}
}

func TestShuffleReachesAll(t *testing.T) {
	for _, r := range []*rand.Rand{nil, rand.New(rand.NewPCG(1, 2))} {
		p, err := NewShufflePartitioner[int](5, r)
		must(t, err)
		var n [5]int
		for i := range 5000 {
			n[p.Select(i)]++
		}
		for i, k := range n {
			if k < 500 {
				t.Errorf("subpartition %d got %d of 5000", i, k)
			}
		}
	}
}

func TestPartitionerBounds(t *testing.T) {
	for _, n := range []int{-1, 0, MaxParallelism + 1} {
		_, err1 := NewRescalePartitioner[int](n)
		_, err2 := NewRebalancePartitioner[int](n, nil)
		_, err3 := NewShufflePartitioner[int](n, nil)
		_, err4 := NewKeyGroupPartitioner[int](KeyHashFunc[int](func(k int) int32 { return int32(k) }), MaxParallelism, n)
		for i, err := range []error{err1, err2, err3, err4} {
			if !errors.Is(err, ErrParallelism) {
				t.Errorf("constructor %d of %d: %v", i, n, err)
			}
		}
	}
}

type intHash struct{}

func (intHash) KeyHash(k int) int32 { return int32(k) }

// TestKeyGroupPartitioner has Flink's assignments of integers to 4 and 3
// subtasks of 128 key groups.
func TestKeyGroupPartitioner(t *testing.T) {
	p4, err := NewKeyGroupPartitioner[int](intHash{}, 128, 4)
	must(t, err)
	p3, err := NewKeyGroupPartitioner[int](KeyHashFunc[int](func(k int) int32 { return int32(k) }), 128, 3)
	must(t, err)
	for key, want := range map[int][2]int{0: {2, 2}, 1: {2, 2}, -1: {2, 1}, 42: {0, 0}, 2147483647: {1, 1}, -2147483648: {3, 2},
		99162322: {1, 0}, 1231: {2, 1}, -2089875627: {0, 0}} {
		if got := [2]int{p4.Select(key), p3.Select(key)}; got != want {
			t.Errorf("key %d: %v, want %v", key, got, want)
		}
	}
}

// TestKeyGroupPartitionerAgrees compares the table with the formula.
func TestKeyGroupPartitionerAgrees(t *testing.T) {
	for _, tc := range [][2]int{{1, 1}, {2, 1}, {128, 128}, {128, 5}, {100, 7}, {1000, 999}, {MaxParallelism, 3}, {MaxParallelism, MaxParallelism}} {
		p, err := NewKeyGroupPartitioner[int](intHash{}, tc[0], tc[1])
		must(t, err)
		for i := range 2000 {
			key := i*i*i*7919 - i
			if got, want := p.Select(key), ChannelOf(int32(key), tc[0], tc[1]); got != want {
				t.Fatalf("%v: key %d: %d, want %d", tc, key, got, want)
			}
		}
	}
	if got := (KeyGroupPartitioner[int, intHash]{}).Select(5); got != 0 {
		t.Errorf("zero value: %d", got)
	}
}
