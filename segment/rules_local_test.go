package segment

import (
	"context"
	"errors"
	"testing"
	"time"
)

// state is what the rules speak of.
type state struct {
	requested, idle int
	available       bool
}

func stateOf(l *LocalPool) state {
	l.Drain()
	s := l.Stats()
	return state{s.Requested, s.Idle, l.Available()}
}

func wantState(t *testing.T, what string, l *LocalPool, requested, idle int, available bool) {
	t.Helper()
	if got, want := stateOf(l), (state{requested, idle, available}); got != want {
		t.Fatalf("%s: %+v, want %+v", what, got, want)
	}
	if l.isClosed {
		return
	}
	if err := l.pool.check(); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// The worked trace of quota and overdraft, as observed in Flink: global pool of 10; required 3, max 3, 2 subpartitions,
// quota 2, overdraft 1.
func TestLocalTraceQuotaAndOverdraft(t *testing.T) {
	p := mustPool(t, Config{Segments: 10, SegmentSize: 32})
	l := mustLocal(t, p, LocalConfig{Required: 3, Max: 3, Subpartitions: 2, Quota: 2, Overdraft: 1})
	wantState(t, "constructed", l, 1, 1, true)
	a := mustTakeFor(t, l, 0)
	wantState(t, "request ch0", l, 2, 1, true)
	b := mustTakeFor(t, l, 0)
	wantState(t, "request ch0 (quota reached)", l, 3, 1, false)
	c := mustTakeFor(t, l, 0)
	wantState(t, "request ch0 (still served)", l, 3, 0, false)
	d := mustTakeFor(t, l, 1)
	wantState(t, "request ch1 (overdraft)", l, 4, 0, false)
	if _, ok := l.TakeFor(1); ok {
		t.Fatal("request ch1: got one beyond the overdraft")
	}
	d.Release()
	wantState(t, "recycle the ch1 buffer", l, 3, 0, false)
	c.Release()
	wantState(t, "recycle a ch0 buffer", l, 3, 1, false)
	b.Release()
	wantState(t, "recycle a ch0 buffer", l, 3, 2, true)
	a.Release()
	wantState(t, "recycle the last", l, 3, 3, true)
	closeAll(t, p, l)
}

// Requesting (LocalBufferPool#requestMemorySegment), steps 1 to 7.
func TestLocalTakeSteps(t *testing.T) {
	p := mustPool(t, Config{Segments: 4, SegmentSize: 32})
	l := mustLocal(t, p, LocalConfig{Required: 2, Subpartitions: 1, Overdraft: 1})
	// 2: from the idle list, and 7: another is fetched as long as the size allows.
	a := mustTake(t, l)
	wantState(t, "2, 7", l, 2, 1, true)
	b := mustTake(t, l)
	wantState(t, "2, size reached", l, 2, 0, false)
	// 3: overdraft, at most Overdraft beyond the size.
	c := mustTake(t, l)
	wantState(t, "3", l, 3, 0, false)
	// 5: nothing changes if nothing was obtained.
	mustNotTake(t, l)
	wantState(t, "5", l, 3, 0, false)
	// 3: more overdraft by setting.
	l.SetOverdraft(2)
	d := mustTake(t, l)
	wantState(t, "3, setMaxOverdraftBuffersPerGate", l, 4, 0, false)
	l.SetOverdraft(5)
	mustNotTake(t, l) // the global pool is empty
	l.SetOverdraft(0)
	for _, x := range []Buffer{a, b, c, d} {
		l.Put(x)
	}
	wantState(t, "overdraft went back", l, 2, 2, true)
	// 4: idle list empty and the size not reached: nothing, and the pool waits for the global one.
	rest, err := p.Request(context.Background(), 2)
	if err != nil {
		t.Fatal(err)
	}
	m := mustPool(t, Config{Segments: 1, SegmentSize: 32})
	one := mustLocal(t, m, LocalConfig{Required: 1})
	x := mustTake(t, one)
	one.Close()
	two := mustLocal(t, m, LocalConfig{Required: 1, Overdraft: 1})
	mustNotTake(t, two)
	if two.requested != 0 || !two.subscribed { // L3
		t.Fatal("overdraft was used below the size, or the pool doesn't wait")
	}
	x.Release()
	wantState(t, "4, and then available", two, 1, 1, true)
	closeAll(t, m, two)
	// A subpartition that doesn't exist gets nothing.
	if _, ok := l.TakeFor(1); ok {
		t.Fatal("took for a subpartition that does not exist")
	}
	if _, err := l.TakeWait(context.Background(), 1); !errors.Is(err, ErrConfig) {
		t.Fatal(err)
	}
	p.ReleaseAll(rest)
	// 1: destroyed.
	l.Close()
	mustNotTake(t, l)
	if _, err := l.TakeWait(context.Background(), noSub); !errors.Is(err, ErrClosed) {
		t.Fatal(err)
	}
	if !l.Available() || l.WaitAvailable(context.Background()) != ErrClosed {
		t.Fatal("a closed pool should be available, so that nobody waits for it")
	}
	closeAll(t, p)
}

// The quota counts with equality at both edges (steps 6 of the request and 2 of recycling), by one at a time, so that a
// subpartition counts as unavailable exactly while it has at least its quota (L6).
func TestLocalQuotaEdges(t *testing.T) {
	p := mustPool(t, Config{Segments: 8, SegmentSize: 32})
	l := mustLocal(t, p, LocalConfig{Required: 8, Subpartitions: 2, Quota: 2})
	var bs []Buffer
	for i, over := range []int{0, 1, 1, 1} {
		bs = append(bs, mustTakeFor(t, l, 0))
		if l.over != over || l.Available() != (over == 0) {
			t.Fatalf("after %d: %d over", i+1, l.over)
		}
	}
	bs = append(bs, mustTakeFor(t, l, 1), mustTakeFor(t, l, 1))
	if l.over != 2 {
		t.Fatal(l.over)
	}
	for i, over := range []int{2, 2, 1, 1, 0, 0} {
		l.Put(bs[i])
		if l.over != over || l.Available() != (over == 0) {
			t.Fatalf("after %d home: %d over", i+1, l.over)
		}
	}
	closeAll(t, p, l)
}

// Shrinking (LocalBufferPool#setNumBuffers, and step 3 of recycling), as observed: size 6, all handed out, shrunk to 3.
func TestLocalShrinkTrace(t *testing.T) {
	p := mustPool(t, Config{Segments: 6, SegmentSize: 32})
	l := mustLocal(t, p, LocalConfig{Required: 3, Max: 6})
	var bs []Buffer
	for range 6 {
		bs = append(bs, mustTake(t, l))
	}
	wantState(t, "full", l, 6, 0, false)
	rest := mustLocal(t, p, LocalConfig{Required: 3})
	wantState(t, "shrunk", l, 6, 0, false)
	for i, want := range []int{5, 4, 3} {
		l.Put(bs[i])
		wantState(t, "excess goes back", l, want, 0, false)
	}
	l.Put(bs[3])
	wantState(t, "the fourth stays", l, 3, 1, true)
	l.Put(bs[4])
	l.Put(bs[5])
	wantState(t, "all home", l, 3, 3, true)
	// Step 3 of setNumBuffers: idle segments beyond the size go back at once, that is at the owner's next call.
	rest.Close()
	for i := range 6 {
		bs[i] = mustTake(t, l)
	}
	for i := range 6 {
		l.Put(bs[i])
	}
	wantState(t, "grown again, all idle", l, 6, 6, true)
	rest = mustLocal(t, p, LocalConfig{Required: 2})
	wantState(t, "3: idle ones go back", l, 4, 4, true)
	if rest.Drain(); !rest.Available() {
		t.Fatal("what was given back did not reach the pool that it is guaranteed to")
	}
	closeAll(t, p, l, rest)
}

// Growing fetches one segment at once, not up to the new size; and turns overdraft into ordinary segments.
func TestLocalGrow(t *testing.T) {
	p := mustPool(t, Config{Segments: 8, SegmentSize: 32})
	rest := mustLocal(t, p, LocalConfig{Required: 6})
	l := mustLocal(t, p, LocalConfig{Required: 2, Max: 8, Overdraft: 1})
	a, b, c := mustTake(t, l), mustTake(t, l), mustTake(t, l)
	wantState(t, "overdraft", l, 3, 0, false)
	rest.Close()
	wantState(t, "grown: overdraft is ordinary, one is fetched", l, 4, 1, true)
	for _, x := range []Buffer{a, b, c} {
		l.Put(x)
	}
	wantState(t, "all home", l, 4, 4, true)
	closeAll(t, p, l)
}

// A released overdraft segment wakes a blocked owner here, who can borrow it again. (In Flink he sleeps on.)
func TestLocalFreedOverdraftWakes(t *testing.T) {
	p := mustPool(t, Config{Segments: 2, SegmentSize: 32})
	l := mustLocal(t, p, LocalConfig{Required: 1, Overdraft: 1})
	a, b := mustTake(t, l), mustTake(t, l)
	go func() {
		time.Sleep(time.Millisecond)
		b.Release()
	}()
	c, err := l.TakeWait(hangContext(t), noSub)
	if err != nil {
		t.Fatal(err)
	}
	l.Put(a)
	l.Put(c)
	closeAll(t, p, l)
}

// Recycling (LocalBufferPool#recycle), step 2 is done once, however many listeners refuse. In Flink each refusal
// decrements the subpartition's count again.
func TestLocalRefusalCountsOnce(t *testing.T) {
	p := mustPool(t, Config{Segments: 2, SegmentSize: 32})
	l := mustLocal(t, p, LocalConfig{Required: 2, Subpartitions: 1, Quota: 2})
	a, b := mustTakeFor(t, l, 0), mustTakeFor(t, l, 0)
	no := []*wantListener{{want: 0}, {want: 0}}
	for _, x := range no {
		if !l.AddListener(x) {
			t.Fatal("idle segment")
		}
	}
	l.Put(a)
	if l.counts[0] != 1 || no[0].calls != 1 || no[1].calls != 1 || l.idleCount() != 1 {
		t.Fatalf("count %d, calls %d and %d, %d idle", l.counts[0], no[0].calls, no[1].calls, l.idleCount())
	}
	l.Put(b)
	if l.counts[0] != 0 {
		t.Fatal(l.counts[0])
	}
	closeAll(t, p, l)
}

// Recycling, step 4: listeners are served in order, each registration once; a refused segment moves on.
func TestLocalListenerOrder(t *testing.T) {
	p := mustPool(t, Config{Segments: 3, SegmentSize: 32})
	l := mustLocal(t, p, LocalConfig{Required: 3})
	a, b, c := mustTake(t, l), mustTake(t, l), mustTake(t, l)
	first, refusing, second := &wantListener{want: 1}, &wantListener{}, &wantListener{want: 1}
	for _, x := range []*wantListener{first, refusing, second} {
		l.AddListener(x)
	}
	l.Put(a)
	if len(first.got) != 1 || refusing.calls != 0 {
		t.Fatal("the first in line was not served first")
	}
	l.Put(b)
	if refusing.calls != 1 || len(second.got) != 1 {
		t.Fatal("a refused segment did not move on")
	}
	l.Put(c)
	if first.calls != 1 || second.calls != 1 || l.idleCount() != 1 {
		t.Fatal("a registration was used twice")
	}
	// addBufferListener refuses while a segment is idle, and on a closed pool.
	if l.AddListener(first) {
		t.Fatal("registered beside an idle segment")
	}
	l.Put(first.got[0])
	l.Put(second.got[0])
	x, y, z := mustTake(t, l), mustTake(t, l), mustTake(t, l)
	ended := &wantListener{}
	l.AddListener(ended)
	if !l.AddListener(second) || !l.RemoveListener(second) || l.RemoveListener(second) {
		t.Fatal("RemoveListener")
	}
	l.Close()
	if ended.ended != 1 || second.ended != 0 || l.AddListener(ended) {
		t.Fatal("listeners of a closed pool")
	}
	for _, b := range []Buffer{x, y, z} {
		b.Release()
	}
	closeAll(t, p)
}

// A listener is also served by what the pool fetches, not by recycling alone: it never waits beside an idle segment
// (L7). In Flink it stays registered until some buffer of the pool is recycled.
func TestLocalListenerServedByFetch(t *testing.T) {
	p := mustPool(t, Config{Segments: 2, SegmentSize: 32})
	a := mustLocal(t, p, LocalConfig{Required: 1, Max: 2})
	x, y := mustTake(t, a), mustTake(t, a)
	b := mustLocal(t, p, LocalConfig{Required: 1})
	w := &wantListener{want: 1}
	if !b.AddListener(w) {
		t.Fatal("idle segment")
	}
	a.Put(x) // excess: to the global pool, which b waits for
	if b.Drain(); len(w.got) != 1 || b.idleCount() != 0 {
		t.Fatalf("served %d, idle %d", len(w.got), b.idleCount())
	}
	b.Put(w.got[0])
	a.Put(y)
	closeAll(t, p, a, b)
}

// Reserving (LocalBufferPool#reserveSegments): what is obtained counts as requested. In Flink it doesn't, and after
// destruction the pool has requested -1.
func TestLocalReserveCounts(t *testing.T) {
	p := mustPool(t, Config{Segments: 2, SegmentSize: 32})
	old := mustLocal(t, p, LocalConfig{Required: 2})
	x, y := mustTake(t, old), mustTake(t, old)
	old.Close()
	l := mustLocal(t, p, LocalConfig{Required: 2}) // while the global pool is empty
	if err := l.Reserve(context.Background(), 3); !errors.Is(err, ErrConfig) {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	if err := l.Reserve(ctx, 1); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	go func() {
		x.Release()
		time.Sleep(time.Millisecond)
		y.Release()
	}()
	if err := l.Reserve(hangContext(t), 2); err != nil {
		t.Fatal(err)
	}
	wantState(t, "reserved", l, 2, 2, true)
	l.Close()
	if l.Stats().Requested != 0 || l.Reserve(context.Background(), 1) != ErrClosed {
		t.Fatal(l.Stats())
	}
	closeAll(t, p)
}

// Destruction (LocalBufferPool#lazyDestroy): idle segments go at once, the others as they are released, from anywhere
// and by any way.
func TestLocalLazyDestroy(t *testing.T) {
	p := mustPool(t, Config{Segments: 4, SegmentSize: 32})
	home := 0
	l := mustLocal(t, p, LocalConfig{Name: "old", Required: 4, Subpartitions: 1, Quota: 1, OnReturn: func(uint32) { home++ }})
	r := l.NewReleaser()
	bs := []Buffer{mustTakeFor(t, l, 0), mustTake(t, l), mustTake(t, l)}
	bs[1].SetTag(7)
	r.Release(bs[2]) // staged
	l.Close()
	if u := p.Usage(); u.Free != 1 || u.Guaranteed != 0 || u.Closing != 1 || u.LocalPools != 0 {
		t.Fatalf("%+v", u)
	}
	r.Flush()
	bs[0].Release()
	if s := l.Stats(); s.Requested != 1 || home != 0 {
		t.Fatalf("%+v, OnReturn called %d times", s, home)
	}
	l.Put(bs[1])
	if u := p.Usage(); u.Free != 4 || u.Closing != 0 || l.Stats().Requested != 0 { // L8
		t.Fatalf("%+v", u)
	}
	// What it left is clean: no charge, no tag.
	n := mustLocal(t, p, LocalConfig{Required: 4})
	for range 4 {
		b := mustTake(t, n)
		if b.Tag() != 0 || b.h.note != 0 {
			t.Fatal("a segment came with an old tag or charge")
		}
		defer n.Close()
		defer n.Put(b)
	}
	r.Release(Buffer{})
	r.Close()
}

// Two pools closed one after the other while both hold segments: redistribution must not make a closed one fetch
// (FLINK-19964, H4).
func TestLocalClosedPoolDoesNotFetch(t *testing.T) {
	p := mustPool(t, Config{Segments: 4, SegmentSize: 32})
	a := mustLocal(t, p, LocalConfig{Required: 1, Max: 4})
	b := mustLocal(t, p, LocalConfig{Required: 1, Max: 4})
	x := mustTake(t, a)
	a.Close()
	b.Close()
	a.Drain()
	b.Drain()
	if a.requested != 1 || b.requested != 0 {
		t.Fatal(a.requested, b.requested)
	}
	x.Release()
	closeAll(t, p)
}

// Cancel ends the owner's wait from another goroutine, and so does Close of the owner's context.
func TestLocalCancel(t *testing.T) {
	p := mustPool(t, Config{Segments: 1, SegmentSize: 32})
	l := mustLocal(t, p, LocalConfig{Required: 1})
	b := mustTake(t, l)
	for _, wait := range []func() error{
		func() error { _, err := l.TakeWait(hangContext(t), noSub); return err },
		func() error { return l.WaitAvailable(hangContext(t)) },
	} {
		l.cancelled.Store(false)
		go func() {
			time.Sleep(time.Millisecond)
			l.Cancel()
		}()
		if err := wait(); !errors.Is(err, ErrClosed) {
			t.Fatal(err)
		}
	}
	l.cancelled.Store(false)
	ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	if _, err := l.TakeWait(ctx, noSub); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	if err := l.WaitAvailable(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	l.Put(b)
	if err := l.WaitAvailable(ctx); err != nil {
		t.Fatal(err)
	}
	closeAll(t, p, l)
}

// Resizing a pool in use: guarantees are checked, sizes follow, what is too much goes home as it comes.
func TestLocalResize(t *testing.T) {
	p := mustPool(t, Config{Segments: 10, SegmentSize: 32})
	l := mustLocal(t, p, LocalConfig{Name: "r", Required: 2, Max: 4})
	other := mustLocal(t, p, LocalConfig{Required: 3})
	if err := l.Grow(5, 5); err != nil { // 7 and 9
		t.Fatal(err)
	}
	if s := l.Stats(); s.Required != 7 || s.Max != 9 || s.Size != 7 {
		t.Fatalf("%+v", s)
	}
	var few *TooFewError
	if err := l.Resize(8, 9); !errors.As(err, &few) || few.Wanted != 8 || few.Available != 7 {
		t.Fatal(err)
	}
	if err := l.Resize(3, 2); !errors.Is(err, ErrConfig) {
		t.Fatal(err)
	}
	var bs []Buffer
	for range 7 {
		bs = append(bs, mustTake(t, l))
	}
	if err := l.Resize(2, 2); err != nil {
		t.Fatal(err)
	}
	wantState(t, "shrunk while in use", l, 7, 0, false)
	for _, b := range bs {
		b.Release()
	}
	wantState(t, "home", l, 2, 2, true)
	if err := l.Grow(0, Unlimited-2); err != nil || l.Stats().Size != 7 {
		t.Fatal(err, l.Stats())
	}
	if err := l.Grow(1, 5); err != nil || l.Stats().Max != Unlimited {
		t.Fatal(err, l.Stats())
	}
	closeAll(t, p, l, other)
	if err := l.Resize(1, 1); !errors.Is(err, ErrClosed) {
		t.Fatal(err)
	}
}

// OnReturn may take, put and even close.
func TestLocalCallbackMayUseThePool(t *testing.T) {
	p := mustPool(t, Config{Segments: 40, SegmentSize: 32})
	var l *LocalPool
	calls, again := 0, true
	l = mustLocal(t, p, LocalConfig{Required: 40, OnReturn: func(tag uint32) {
		calls++
		if again {
			again = false
			b := mustTake(t, l)
			l.Put(b)
			l.Drain()
			again = true
		}
		if tag == 5 {
			l.Close()
		}
	}})
	r := l.NewReleaser()
	var bs []Buffer
	for range 40 {
		bs = append(bs, mustTake(t, l))
	}
	bs[3].SetTag(5)
	for i, b := range bs {
		if i < 20 {
			r.Release(b)
		} else {
			b.Release()
		}
	}
	r.Flush()
	l.Drain()
	if u := p.Usage(); u.Free != 40 || u.Closing != 0 {
		t.Fatalf("%+v", u)
	}
	if calls == 0 || calls >= 80 {
		t.Fatalf("%d calls", calls)
	}
	closeAll(t, p)
}
