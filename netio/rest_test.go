package netio

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirflow/weir/ringbuf"
)

// restLoop is a loop without connections, whose standby does nothing by itself.
func restLoop(t *testing.T) *Loop {
	l := newLoop(t, LoopConfig{Standby: time.Hour, Poll: -1})
	l.open.Store(0)
	return l
}

// dismiss has the standby leave the kernel, as it does when it takes a caller for one that drives.
func dismiss(t *testing.T, l *Loop) {
	t.Helper()
	until(t, "the standby rests", func() bool {
		l.drives.Add(1)
		l.Wake()
		return l.state.Load()&(watch|held) == 0 && len(l.poke) == 0
	})
}

// rester is a caller of RunUntil.
type rester struct {
	n     *ringbuf.Notifier
	ready atomic.Bool
	done  chan error
}

func newRester(ctx context.Context, l *Loop) *rester {
	r := &rester{n: ringbuf.NewNotifier(), done: make(chan error, 1)}
	go func() { r.done <- l.RunUntil(ctx, r.ready.Load, r.n) }()
	return r
}

// untilRest waits until n callers rest, and nobody sleeps in the kernel as the loop's driver.
func untilRest(t *testing.T, l *Loop, n int32) {
	t.Helper()
	until(t, "they rest", func() bool { return l.resters.n.Load() == n && l.state.Load()&(held|asleep) == 0 })
}

// handing is a source that makes a rester ready when something was published.
type handing struct {
	published atomic.Bool
	to        *rester
}

func (h *handing) Poll() bool {
	if !h.published.Swap(false) {
		return false
	}
	h.to.ready.Store(true)
	h.to.n.Wake()
	return true
}

// Who waits for a goroutine of this process is woken by the turn of that one's Kick; what was published before without one is found by the turn
// before the rest, and a Wake is heard at once.
func TestRestIsWoken(t *testing.T) {
	for name, wake := range map[string]func(*Loop, *handing){
		"by a kick":    func(l *Loop, h *handing) { h.published.Store(true); l.Kick() },
		"by Wake":      func(l *Loop, h *handing) { h.published.Store(true); l.Wake() },
		"by a post":    func(l *Loop, h *handing) { l.Post(func() { h.published.Store(true); h.Poll() }) },
		"by its owner": func(_ *Loop, h *handing) { h.to.ready.Store(true); h.to.n.Wake() },
	} {
		t.Run(name, func(t *testing.T) {
			l := restLoop(t)
			h := &handing{}
			l.AddSource(h)
			for range 20 {
				dismiss(t, l)
				h.to = newRester(t.Context(), l)
				untilRest(t, l, 1)
				wake(l, h)
				awakes(t, h.to.done)
			}
		})
	}
	t.Run("before it rests", func(t *testing.T) {
		l := restLoop(t)
		dismiss(t, l)
		r := &rester{n: ringbuf.NewNotifier()}
		h := &handing{to: r}
		l.AddSource(h)
		before := l.drives.Load()
		for range 100 {
			r.ready.Store(false)
			h.published.Store(true)
			if err := l.RunUntil(t.Context(), r.ready.Load, r.n); err != nil {
				t.Fatal(err)
			}
		}
		if n := l.drives.Load(); n != before {
			t.Errorf("it drove %d times", n-before)
		}
	})
}

// What a source gives in portions is taken to its end.
func TestRestTakesAll(t *testing.T) {
	l := restLoop(t)
	dismiss(t, l)
	var left atomic.Int32
	n := ringbuf.NewNotifier()
	l.AddSource(sourceFunc(func() bool {
		if left.Load() == 0 {
			return false
		}
		if left.Add(-1) == 0 {
			n.Wake()
		}
		return true
	}))
	for range 20 {
		left.Store(10 * restRounds)
		if err := l.RunUntil(t.Context(), func() bool { return left.Load() == 0 }, n); err != nil {
			t.Fatal(err)
		}
	}
}

// A Wake between the turn before the rest and the rest is heard, as is one in the middle of that turn, behind what it is for.
func TestRestHearsWakeAtOnce(t *testing.T) {
	l := restLoop(t)
	h := &handing{to: &rester{n: ringbuf.NewNotifier()}}
	wakes := false
	l.AddSource(h)
	l.AddSource(sourceFunc(func() bool {
		if wakes {
			wakes = false
			h.published.Store(true)
			l.Wake()
		}
		return false
	}))
	for range 20 {
		dismiss(t, l)
		h.to.ready.Store(false)
		looks := 0
		if err := l.RunUntil(t.Context(), func() bool {
			if looks++; looks == 2 { // with the turn done
				h.published.Store(true)
				l.Wake()
			}
			return h.to.ready.Load()
		}, h.to.n); err != nil {
			t.Fatal(err)
		}
		h.to.ready.Store(false)
		l.acquire()
		wakes = true
		l.Release()
		if err := l.RunUntil(t.Context(), h.to.ready.Load, h.to.n); err != nil {
			t.Fatal(err)
		}
	}
}

// Timers run although the standby was away, those too that a turn sets while callers rest, and whoever of them goes.
func TestRestKeepsTime(t *testing.T) {
	l := restLoop(t)
	dismiss(t, l)
	first, second := newOnce(), newOnce()
	l.acquire()
	l.NewTimer(first.done).Reset(20 * time.Millisecond)
	l.Release()
	a, b := newRester(t.Context(), l), newRester(t.Context(), l)
	untilRest(t, l, 2)
	l.acquire()
	l.NewTimer(second.done).Reset(time.Millisecond)
	l.Release()
	a.ready.Store(true)
	a.n.Wake()
	awakes(t, a.done)
	wait(t, second.c, "the timer of a turn")
	wait(t, first.c, "the timer of before")
	b.ready.Store(true)
	b.n.Wake()
	awakes(t, b.done)
}

// The first connection has one of those that rest drive the loop; when it is gone, who waits next rests again.
func TestRestEndsWithAConnection(t *testing.T) {
	l := restLoop(t)
	r := newRester(t.Context(), l)
	untilRest(t, l, 1)
	closed := newOnce()
	addr := listen(t, l, func(*Conn) Handler {
		return &funcs{close: func(*Conn, error) { closed.done() }}
	})
	nc := dialNet(t, addr)
	until(t, "it drives", func() bool { return l.resters.n.Load() == 0 && l.state.Load()&(held|asleep) != 0 })
	if err := nc.Close(); err != nil {
		t.Fatal(err)
	}
	wait(t, closed.c, "the end of the connection")
	for range 2 {
		r.ready.Store(true)
		r.n.Wake()
		awakes(t, r.done)
		r = newRester(t.Context(), l)
		untilRest(t, l, 1)
	}
	r.ready.Store(true)
	r.n.Wake()
	awakes(t, r.done)
}

// A context ends the rest, with a timer due and without, and a caller without a notifier looks again and again.
func TestRestEndsWithItsContext(t *testing.T) {
	for _, timer := range []bool{false, true} {
		l := restLoop(t)
		if timer {
			inTurn(t, l, func() { l.After(time.Hour, func() {}) })
		}
		ctx, cancel := context.WithCancel(context.Background())
		r := newRester(ctx, l)
		untilRest(t, l, 1)
		cancel()
		select {
		case err := <-r.done:
			if !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		case <-time.After(hang):
			t.Fatal("it rests on")
		}
		looks := 0
		if err := l.RunUntil(context.Background(), func() bool { looks++; return looks > 20 }, nil); err != nil {
			t.Error(err)
		}
	}
}

// TestRestLosesNoWakeUp: two that hand one another one thing after the other, each kick just when the other one comes to rest.
func TestRestLosesNoWakeUp(t *testing.T) {
	rounds := 20_000
	if testing.Short() {
		rounds = 2000
	}
	l := restLoop(t)
	var turn atomic.Int64 // of the two in turn; each makes the other one ready
	n := [2]*ringbuf.Notifier{ringbuf.NewNotifier(), ringbuf.NewNotifier()}
	var published [2]atomic.Bool
	l.AddSource(sourceFunc(func() bool {
		worked := false
		for i := range published {
			if published[i].Swap(false) {
				turn.Add(1)
				n[1-i].Wake()
				worked = true
			}
		}
		return worked
	}))
	side := func(i int64) error {
		for k := range int64(rounds) {
			if err := l.RunUntil(t.Context(), func() bool { return turn.Load() >= 2*k+i }, n[i]); err != nil {
				return err
			}
			published[i].Store(true)
			l.Kick()
		}
		return nil
	}
	ended := make(chan error, 2)
	for i := range int64(2) {
		go func() { ended <- side(i) }()
	}
	for range 2 {
		select {
		case err := <-ended:
			if err != nil {
				t.Fatal(err)
			}
		case <-time.After(hang):
			t.Fatalf("both rest, after %d of %d", turn.Load(), 2*rounds)
		}
	}
}

type sourceFunc func() bool

func (f sourceFunc) Poll() bool { return f() }
