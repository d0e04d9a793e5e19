package segment

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// The tests in rules_*_test.go follow the rules of Flink's NetworkBufferPool and LocalBufferPool step by step. Where a
// test names a step, it is that of the method named, counted as in Flink's source.

// Redistribution (NetworkBufferPool#redistributeBuffers), steps 1 to 8.
func TestRedistributeSteps(t *testing.T) {
	type pool struct{ required, most int }
	for _, c := range []struct {
		step     string
		total    int
		pools    []pool
		unpooled int
		want     []int
	}{
		{"1: without a resizable pool nothing is changed", 10, []pool{{3, 3}, {2, 2}}, 0, []int{3, 2}},
		{"2, 3: with nothing to share every resizable pool is at its guarantee", 10, []pool{{4, 8}, {6, 6}}, 0, []int{4, 6}},
		{"2, 3: the same after unpooled segments took the rest", 10, []pool{{4, 8}, {2, 9}}, 4, []int{4, 2}},
		{"4: a capacity is no more than there is to share", 10, []pool{{2, Unlimited}}, 0, []int{10}},
		{"4: nor than the pool can take", 10, []pool{{2, 5}}, 0, []int{5}},
		{"6: no more than all capacities together is given", 20, []pool{{2, 4}, {3, 5}}, 0, []int{4, 5}},
		{"7.1: pools at their maximum are passed over", 10, []pool{{2, 2}, {2, Unlimited}}, 0, []int{2, 8}},
		{"7.2 to 7.5: worked example", 20, []pool{{1, 4}, {2, 10}, {2, Unlimited}}, 0, []int{2, 7, 11}},
		{"7.2 to 7.5: worked example with 5 unpooled segments", 20, []pool{{1, 4}, {2, 10}, {2, Unlimited}}, 5, []int{2, 6, 7}},
		{"7.3: cumulative rounding gives out everything", 10, []pool{{1, Unlimited}, {1, Unlimited}, {1, Unlimited}}, 0, []int{3, 3, 4}},
		{"7.3: 64-bit arithmetic", 3, []pool{{1, Unlimited}, {1, Unlimited}}, 0, []int{1, 2}},
	} {
		t.Run(c.step, func(t *testing.T) {
			p := mustPool(t, Config{Segments: c.total, SegmentSize: 32})
			var ls []*LocalPool
			for _, x := range c.pools {
				ls = append(ls, mustLocal(t, p, LocalConfig{Required: x.required, Max: x.most}))
			}
			bs, err := p.Request(hangContext(t), 0)
			if err != nil || bs != nil {
				t.Fatal(bs, err)
			}
			for _, l := range ls {
				l.Drain()
			}
			if c.unpooled > 0 {
				if bs, err = p.Request(hangContext(t), c.unpooled); err != nil {
					t.Fatal(err)
				}
			}
			var got []int
			sum, shared, capacity := 0, 0, 0
			avail := c.total - p.Usage().Guaranteed
			for i, l := range ls {
				l.Drain()
				got = append(got, l.Stats().Size)
				sum += l.Stats().Size
				if x := c.pools[i]; x.most > x.required {
					shared += l.Stats().Size - x.required
					capacity += min(avail, x.most-x.required)
				}
			}
			if !slices.Equal(got, c.want) {
				t.Fatalf("sizes %v, want %v", got, c.want)
			}
			// 8: what was to be given was given (G3), and not more than there is (G4).
			if shared != min(avail, capacity) || sum+c.unpooled > c.total {
				t.Fatalf("%d of min(%d, %d) given, sum %d", shared, avail, capacity, sum)
			}
			p.ReleaseAll(bs)
			closeAll(t, p, ls...)
		})
	}
}

// The result of redistribution does not differ from run to run (in Flink it does, with the iteration order of a hash set).
func TestRedistributeIsDeterministic(t *testing.T) {
	for range 50 {
		p := mustPool(t, Config{Segments: 20, SegmentSize: 32})
		a := mustLocal(t, p, LocalConfig{Required: 1, Max: 4})
		b := mustLocal(t, p, LocalConfig{Required: 2, Max: 10})
		c := mustLocal(t, p, LocalConfig{Required: 2, Max: Unlimited})
		for _, l := range []*LocalPool{a, b, c} {
			l.Drain()
		}
		if a.size != 2 || b.size != 7 || c.size != 11 {
			t.Fatal(a.size, b.size, c.size)
		}
		closeAll(t, p, a, b, c)
	}
}

// Creating a pool (NetworkBufferPool#internalCreateBufferPool): the text, and that a failure leaves no trace. In Flink
// a maximum below the guarantee is found after the guarantee was counted (step 4 after step 3).
func TestCreateFailsWithoutTrace(t *testing.T) {
	p := mustPool(t, Config{Segments: 10, SegmentSize: 128})
	_, err := p.NewLocal(LocalConfig{Required: 11})
	want := "insufficient number of network buffers: required 11, but only 10 available. " +
		"The total number of network buffers is currently set to 10 of 128 bytes each. " +
		"You can increase this number by raising segment.Config.Segments"
	if err == nil || err.Error() != want {
		t.Fatalf("%v\nwant %s", err, want)
	}
	for _, bad := range []LocalConfig{{}, {Required: -1}, {Required: 3, Max: 2}, {Required: 1, Quota: -1}, {Required: 1, Overdraft: -1},
		{Required: 1, Subpartitions: -1}} {
		if _, err := p.NewLocal(bad); !errors.Is(err, ErrConfig) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
	if u := p.Usage(); u.Guaranteed != 0 || u.LocalPools != 0 || u.Free != 10 {
		t.Fatalf("%+v", u)
	}
	if _, err := p.NewLocal(LocalConfig{Name: "gate 3", Required: 11}); !strings.Contains(err.Error(), "for gate 3:") {
		t.Fatal(err)
	}
	closeAll(t, p)
	if _, err := p.NewLocal(LocalConfig{Required: 1}); !errors.Is(err, ErrClosed) {
		t.Fatal(err)
	}
}

// Destroying a pool takes its guarantee back, and shares what is free among the others (destroyBufferPool). A second
// time does nothing.
func TestCloseRedistributes(t *testing.T) {
	p := mustPool(t, Config{Segments: 10, SegmentSize: 32})
	a := mustLocal(t, p, LocalConfig{Required: 4, Max: Unlimited})
	b := mustLocal(t, p, LocalConfig{Required: 2, Max: Unlimited})
	if a.Drain(); a.Stats().Size != 6 || b.Stats().Size != 4 {
		t.Fatal(a.Stats(), b.Stats())
	}
	a.Close()
	a.Close()
	if b.Drain(); b.Stats().Size != 10 || p.Usage().Guaranteed != 2 {
		t.Fatal(b.Stats())
	}
	closeAll(t, p, b)
}

// Unpooled segments (requestUnpooledMemorySegments), steps 1 to 3.
func TestRequestSteps(t *testing.T) {
	ctx := context.Background()
	p := mustPool(t, Config{Segments: 10, SegmentSize: 32})
	l := mustLocal(t, p, LocalConfig{Required: 4, Max: Unlimited})
	if _, err := p.Request(ctx, -1); !errors.Is(err, ErrConfig) { // 1
		t.Fatal(err)
	}
	if bs, err := p.Request(ctx, 0); err != nil || len(bs) != 0 || p.Usage().Free != 9 { // 2; and 3.3 would take one
		t.Fatal(bs, err, p.Usage())
	}
	var few *TooFewError
	if _, err := p.Request(ctx, 7); !errors.As(err, &few) || few.Wanted != 7 || few.Available != 6 { // 2.1
		t.Fatal(err)
	}
	bs, err := p.Request(ctx, 6) // 2.2, 2.3
	if err != nil {
		t.Fatal(err)
	}
	if l.Drain(); l.Stats().Size != 4 || p.Usage().Guaranteed != 10 {
		t.Fatal(l.Stats(), p.Usage())
	}
	for _, b := range bs {
		b.Memory()[0] = 1
		if b.Len() != 0 || b.Type() != DataBuffer || b.Tag() != 0 {
			t.Fatal("not an empty data buffer")
		}
	}
	bs[0].Release()      // one by one: guarantee and redistribution follow at once
	p.ReleaseAll(bs[1:]) // or together
	if l.Drain(); l.Stats().Size != 10 {
		t.Fatal(l.Stats())
	}
	p.ReleaseAll([]Buffer{{}}) // no buffer: nothing
	closeAll(t, p, l)
	if _, err := p.Request(ctx, 0); !errors.Is(err, ErrClosed) { // closed before n == 0
		t.Fatal(err)
	}
}

// A blocked request gets its segments as soon as they come home, not at the next of Flink's polls, and a deadline is a
// deadline (a timeout of 300 ms takes 2 s in Flink). What was gathered goes back, with the guarantee.
func TestRequestWaits(t *testing.T) {
	p := mustPool(t, Config{Segments: 4, SegmentSize: 32})
	l := mustLocal(t, p, LocalConfig{Required: 1, Max: 4})
	var held []Buffer
	for range 4 {
		held = append(held, mustTake(t, l))
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	if _, err := p.Request(ctx, 3); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "3 network buffers, having 0") {
		t.Fatal(err)
	}
	if u := p.Usage(); u.Guaranteed != 1 || u.Unpooled != 0 || u.Blocked != 0 {
		t.Fatalf("%+v", u)
	}
	got := make(chan []Buffer, 1)
	go func() {
		bs, err := p.Request(hangContext(t), 3)
		if err != nil {
			t.Error(err)
		}
		got <- bs
	}()
	for p.Usage().Blocked == 0 {
		time.Sleep(50 * time.Microsecond)
	}
	for _, b := range held[:3] { // the size has fallen to 1: they are excess and go to the request
		l.Put(b)
	}
	bs := <-got
	if len(bs) != 3 {
		t.Fatal(len(bs))
	}
	// Closing wakes a blocked request (in Flink it notices within 2 s).
	p.ReleaseAll(bs[1:])
	l2 := mustLocal(t, p, LocalConfig{Required: 2})
	x, y := mustTake(t, l2), mustTake(t, l2)
	l2.Close()
	failed := make(chan error, 1)
	go func() {
		_, err := p.Request(hangContext(t), 2)
		failed <- err
	}()
	for p.Usage().Blocked == 0 {
		time.Sleep(50 * time.Microsecond)
	}
	if err := p.Close(); !errors.Is(err, ErrLeak) {
		t.Fatal(err)
	}
	if err := <-failed; !errors.Is(err, ErrClosed) {
		t.Fatal(err)
	}
	for _, b := range []Buffer{x, y, bs[0], held[3]} {
		b.Release()
	}
	closeAll(t, p, l)
}

// Two blocked requests don't hold each other's segments: the first is served in full before the second gets any. In
// Flink each may hold a part of what the other needs until both time out.
func TestRequestsAreServedInOrder(t *testing.T) {
	p := mustPool(t, Config{Segments: 4, SegmentSize: 32})
	l := mustLocal(t, p, LocalConfig{Required: 2, Max: 4})
	var held []Buffer
	for range 4 {
		held = append(held, mustTake(t, l))
	}
	l.Close() // all four are on loan, none guaranteed
	var order [2]atomic.Int32
	var turn atomic.Int32
	done := make(chan []Buffer, 2)
	for i := range 2 {
		go func() {
			bs, err := p.Request(hangContext(t), 2)
			if err != nil {
				t.Error(err)
			}
			order[i].Store(turn.Add(1))
			done <- bs
		}()
		for p.Usage().Blocked != i+1 {
			time.Sleep(50 * time.Microsecond)
		}
	}
	held[0].Release()
	held[1].Release()
	first := <-done
	if order[0].Load() != 1 || order[1].Load() != 0 {
		t.Fatal("the second request was served first, or both in part")
	}
	held[2].Release()
	held[3].Release()
	p.ReleaseAll(append(first, <-done...))
	closeAll(t, p)
}

// A request that gives up passes on what it had gathered to the next.
func TestWithdrawnRequestPassesOn(t *testing.T) {
	p := mustPool(t, Config{Segments: 3, SegmentSize: 32})
	l := mustLocal(t, p, LocalConfig{Required: 3})
	var held []Buffer
	for range 3 {
		held = append(held, mustTake(t, l))
	}
	l.Close()
	ctx, giveUp := context.WithCancel(context.Background())
	first, second := make(chan error, 1), make(chan []Buffer, 1)
	go func() {
		_, err := p.Request(ctx, 2)
		first <- err
	}()
	for p.Usage().Blocked != 1 {
		time.Sleep(50 * time.Microsecond)
	}
	go func() {
		bs, err := p.Request(hangContext(t), 1)
		if err != nil {
			t.Error(err)
		}
		second <- bs
	}()
	for p.Usage().Blocked != 2 {
		time.Sleep(50 * time.Microsecond)
	}
	held[0].Release() // to the first
	giveUp()
	if err := <-first; !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "having 1") {
		t.Fatal(err)
	}
	p.ReleaseAll(<-second)
	held[1].Release()
	held[2].Release()
	closeAll(t, p)
}

// Local pools that wait for a free segment are all woken by one that comes home, and find out who was first (H9, G5).
func TestFreeSegmentWakesAllWaiting(t *testing.T) {
	p := mustPool(t, Config{Segments: 3, SegmentSize: 32})
	a := mustLocal(t, p, LocalConfig{Name: "a", Required: 1, Max: 3})
	var held []Buffer
	for range 3 {
		held = append(held, mustTake(t, a))
	}
	b := mustLocal(t, p, LocalConfig{Name: "b", Required: 1})
	c := mustLocal(t, p, LocalConfig{Name: "c", Required: 1})
	if !b.subscribed || !c.subscribed || b.Available() || c.Available() {
		t.Fatal("b and c should wait")
	}
	a.Put(held[0])
	if b.Drain(); !b.Available() {
		t.Fatal("b was not woken")
	}
	if c.Drain(); c.Available() || !c.subscribed {
		t.Fatal("c found something, or does not wait again")
	}
	a.Put(held[1])
	if c.Drain(); !c.Available() {
		t.Fatal("c was not woken again")
	}
	// One that is closed while it waits is forgotten.
	d := mustPool(t, Config{Segments: 1, SegmentSize: 32})
	x := mustLocal(t, d, LocalConfig{Required: 1})
	lent := mustTake(t, x)
	x.Close()
	var waiting []*LocalPool
	for range 1 {
		waiting = append(waiting, mustLocal(t, d, LocalConfig{Required: 1}))
	}
	waiting[0].Close()
	if d.waitHead != nil || d.waitTail != nil {
		t.Fatal("a closed pool waits")
	}
	lent.Release()
	closeAll(t, d)
	a.Put(held[2])
	closeAll(t, p, a, b, c)
}

// A slab that waits to be unmapped doesn't keep the pool from growing: when nothing else is left, it is tried again at
// once.
func TestGrowTriesStuckSlabs(t *testing.T) {
	sys := fakeSystem()
	refuse := true
	sys.unmap = func([]byte) error {
		if refuse {
			return errors.ErrUnsupported
		}
		return nil
	}
	p, err := newPool(Config{Segments: 4, SegmentSize: 16, SlabSegments: 2}.withDefaults(), sys)
	if err != nil {
		t.Fatal(err)
	}
	bs, err := p.Request(hangContext(t), 4)
	if err != nil {
		t.Fatal(err)
	}
	p.ReleaseAll(bs)
	if p.Usage().Memory.Stuck != 1 {
		t.Fatalf("%+v", p.Usage())
	}
	refuse = false
	if bs, err = p.Request(hangContext(t), 4); err != nil || p.Usage().Memory.Stuck != 0 {
		t.Fatalf("%v %+v", err, p.Usage())
	}
	p.ReleaseAll(bs)
	closeAll(t, p)
}
