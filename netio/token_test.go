package netio

import (
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirflow/weir/ringbuf"
)

// A Kick that finds the token held is carried out by the holder, before it gives the token up for good.
func TestKickWhileHeld(t *testing.T) {
	l := newLoop(t, LoopConfig{Standby: -1})
	s := &ringSource{ring: ringbuf.NewSPSC[int](4)}
	l.AddSource(s)
	l.acquire()
	s.ring.Push(1)
	l.Kick()
	if s.got.Load() != 0 {
		t.Fatal("a turn ran within a turn")
	}
	l.Release()
	if s.got.Load() != 1 {
		t.Fatal("the published item was left")
	}
}

// Who arms a timer while others sleep in the kernel without one sees to it that they wake in time.
func TestTimerArmedWhileAsleep(t *testing.T) {
	arm := func(t *testing.T, l *Loop, asleep uint32, f func()) {
		t.Helper()
		for end := time.Now().Add(hang); l.state.Load()&asleep == 0; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatal("nobody falls asleep")
			}
		}
		time.Sleep(5 * time.Millisecond) // it has announced the sleep; let it begin
		l.acquire()
		l.After(5*time.Millisecond, f)
		l.Release()
	}
	t.Run("consumer", func(t *testing.T) {
		l := newLoop(t, LoopConfig{Standby: -1})
		var fired atomic.Bool
		done := make(chan struct{})
		go func() {
			defer close(done)
			if err := l.RunUntil(t.Context(), fired.Load, ringbuf.NewNotifier()); err != nil {
				t.Error(err)
			}
		}()
		arm(t, l, asleep, func() { fired.Store(true) })
		wait(t, done, "timer")
	})
	t.Run("standby", func(t *testing.T) {
		l := newLoop(t, LoopConfig{})
		done := make(chan struct{})
		arm(t, l, watch, func() { close(done) })
		wait(t, done, "timer")
	})
}

// abandoned has a goroutine drive the loop and another one follow it until ready, and returns when the first one has left: where the second
// says how it ended, and its notifier.
func abandoned(t *testing.T, l *Loop, ready func() bool) (done <-chan error, n *ringbuf.Notifier) {
	t.Helper()
	var first atomic.Bool
	n1, n2 := ringbuf.NewNotifier(), ringbuf.NewNotifier()
	done1, done2 := make(chan error, 1), make(chan error, 1)
	go func() { done1 <- l.RunUntil(t.Context(), first.Load, n1) }()
	for l.state.Load()&asleep == 0 {
		time.Sleep(time.Millisecond)
	}
	go func() { done2 <- l.RunUntil(t.Context(), ready, n2) }()
	for l.followers.n.Load() == 0 {
		time.Sleep(time.Millisecond)
	}
	first.Store(true)
	n1.Wake()
	if err := <-done1; err != nil {
		t.Fatal(err)
	}
	return done2, n2
}

// awakes waits for the end of what a follower waits for.
func awakes(t *testing.T, done <-chan error) {
	t.Helper()
	select {
	case err := <-done:
		if err != nil {
			t.Fatal(err)
		}
	case <-time.After(hang):
		t.Fatal("the follower sleeps on")
	}
}

// A consumer that follows another one takes the turns over when that one stays away.
func TestFollowerTakesOver(t *testing.T) {
	for name, standby := range map[string]time.Duration{"standby": 0, "none": -1} {
		t.Run(name, func(t *testing.T) {
			l := newLoop(t, LoopConfig{Standby: standby})
			var ready atomic.Bool
			done, n := abandoned(t, l, ready.Load)
			// Nobody else runs turns now, so that only the follower can run this.
			l.Post(func() { ready.Store(true); n.Wake() })
			awakes(t, done)
		})
	}
}

// A follower whose driver went away takes the turns over although a writer keeps running some by kicks, which ask the kernel now and then
// only.
func TestFollowerBesideKicks(t *testing.T) {
	l := newLoop(t, LoopConfig{})
	var before atomic.Uint64 // how often turns were taken until the first one left
	before.Store(1 << 62)
	done, _ := abandoned(t, l, func() bool { return l.drives.Load() > before.Load() })
	before.Store(l.drives.Load())
	for end := time.Now().Add(hang); ; l.Kick() {
		runtime.Gosched() // with one P nobody else would run but within a kick
		select {
		case err := <-done:
			if err != nil {
				t.Fatal(err)
			}
			return
		default:
		}
		if time.Now().After(end) {
			t.Fatal("the follower sleeps on")
		}
	}
}

// Turns of a kick leave those that followed before to the driver that is away for the moment, and wake those that came meanwhile and took
// them for a driver's. The standby sleeps for longer than the test.
func TestKickAndFollowers(t *testing.T) {
	t.Run("before", func(t *testing.T) {
		l := newLoop(t, LoopConfig{Standby: time.Hour})
		var ready atomic.Bool
		done, n := abandoned(t, l, ready.Load)
		l.Kick()
		if !n.Sleeping() {
			t.Error("it was woken")
		}
		ready.Store(true)
		n.Wake()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	t.Run("meanwhile", func(t *testing.T) {
		l := newLoop(t, LoopConfig{Standby: time.Hour})
		done := make(chan error, 1)
		l.acquire()
		l.Post(func() { // in the kick's turn
			before := l.drives.Load()
			go func() {
				done <- l.RunUntil(t.Context(), func() bool { return l.drives.Load() != before }, ringbuf.NewNotifier())
			}()
			for l.followers.n.Load() == 0 {
				time.Sleep(time.Millisecond)
			}
		})
		l.state.And(^uint32(held)) // as if it was given up, without the turn that Release runs for what was posted
		l.check.released()
		l.Kick()
		awakes(t, done)
	})
}

// What the standby does after an interval: turns are a sign of life, but those of a kick are none to who follows.
func TestStandbyDuty(t *testing.T) {
	l := newLoop(t, LoopConfig{Standby: -1})
	for _, c := range []struct {
		name           string
		turns, drives  uint64 // since an interval ago
		state, waiting uint32
		want           int
	}{
		{"others run turns", 1, 0, 0, 0, toRest},
		{"a consumer drives", 1, 1, 0, 1, toRest},
		{"kicks beside a follower", 1, 0, 0, 1, toRouse},
		{"somebody holds the token beside a follower", 1, 0, held, 1, toRest},
		{"a driver that is here for long", 1, 0, asleep & oneSleep, 1, toRest},
		{"a turn that lasts", 0, 0, held, 1, toPark},
		{"the driver sleeps", 0, 0, asleep & oneSleep, 0, toPark},
		{"the driver is away", 0, 0, 0, 1, toRouse},
		{"nobody is there", 0, 0, 0, 0, toServe},
	} {
		turns, drives := l.turns.Load()-c.turns, l.drives.Load()-c.drives
		l.state.Store(c.state)
		l.followers.n.Store(int32(c.waiting))
		if got := l.duty(turns, drives); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
	l.state.Store(0)
	l.followers.n.Store(0)
}

// Followers that sleep are not given way to; those that were woken and have not run are.
func TestWokenWait(t *testing.T) {
	l := newLoop(t, LoopConfig{Standby: -1})
	n := ringbuf.NewNotifier()
	n.Prepare()
	l.followers.add(n)
	if l.wokenWait() {
		t.Error("it sleeps")
	}
	n.Wake()
	if !l.wokenWait() {
		t.Error("it was woken")
	}
	n.Cancel()
	l.followers.remove(n)
	if l.wokenWait() {
		t.Error("it is gone")
	}
	n.Prepare()
	for i := range mostLooks + 1 {
		if l.wokenWait() {
			t.Fatalf("%d sleep", i)
		}
		l.followers.add(n)
	}
	if !l.wokenWait() {
		t.Error("more than are looked at")
	}
	for range mostLooks + 1 {
		l.followers.remove(n)
	}
	n.Cancel()
}

// TestKickHearsThePeer: a goroutine that only kicks, and never waits, gets what arrives (a writer its credit), as each few turns of
// Kick ask the kernel.
func TestKickHearsThePeer(t *testing.T) {
	l := newLoop(t, LoopConfig{Standby: -1})
	opened, got := false, 0
	addr := listen(t, l, func(*Conn) Handler {
		return &funcs{open: func(*Conn) { opened = true }, read: func(_ *Conn, p []byte) error { got += len(p); return nil }}
	})
	nc := dialNet(t, addr)
	kickUntil := func(what string, done func() bool) {
		t.Helper()
		for end := time.Now().Add(hang); !done(); l.Kick() {
			if time.Now().After(end) {
				t.Fatalf("%s: did not happen by kicks alone", what)
			}
		}
	}
	kickUntil("the connection", func() bool { return opened })
	if _, err := nc.Write(make([]byte, 100)); err != nil {
		t.Fatal(err)
	}
	kickUntil("the data", func() bool { return got == 100 })
}
