package netio

import (
	"context"
	"errors"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirflow/weir/internal/modelrun"
	"github.com/weirflow/weir/ringbuf"
)

// feeder is a source that has something for a follower whenever that one took the last.
type feeder struct {
	n     *ringbuf.Notifier
	given atomic.Int64
	taken atomic.Int64
	late  int // takes that came after the next turn
	asked bool
}

func (f *feeder) Poll() bool {
	if f.given.Load() > f.taken.Load() {
		if !f.asked {
			f.late++
		}
		f.asked = true
		return true // there is always something to do for the driver, who never waits
	}
	f.asked = false
	f.given.Add(1)
	f.n.Wake()
	return true
}

// TestDriverGivesWay: a follower that a turn woke runs before the driver's next turns, even on the driver's own thread.
func TestDriverGivesWay(t *testing.T) {
	if newLoop(t, LoopConfig{Standby: -1}).oneP {
		t.Skip("with one P from the start the loop has other rules")
	}
	modelrun.Rounds(t, func(int) bool { return givesWay(t) })
}

// givesWay tells whether followers ran in time in most turns. On a machine that is busy with other things the driver does not always give
// way: it takes a late return for goroutines that compute.
func givesWay(t *testing.T) bool {
	l := newLoop(t, LoopConfig{Standby: -1})
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	const rounds = 200
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	f := &feeder{n: ringbuf.NewNotifier()}
	f.given.Store(1) // nothing to do before the follower follows
	driver, bystander := ringbuf.NewNotifier(), ringbuf.NewNotifier()
	idle := make(chan error, 1)
	ended := make(chan error, 1)
	follow := func() {
		for range rounds {
			if err := l.RunUntil(ctx, func() bool { return f.given.Load() > f.taken.Load() }, f.n); err != nil {
				ended <- err
				return
			}
			f.taken.Add(1)
		}
		driver.Wake()
		bystander.Wake()
		ended <- nil
	}
	started := false
	l.AddSource(f)
	err := l.RunUntil(ctx, func() bool {
		if !started && l.state.Load()&held != 0 { // we drive
			started = true
			go func() { // another one, as there is when the driver gives way
				idle <- l.RunUntil(ctx, func() bool { return f.taken.Load() >= rounds }, bystander)
			}()
			go follow()
		}
		return f.taken.Load() >= rounds
	}, driver)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []chan error{ended, idle} {
		if err := <-c; err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("a follower that was woken ran after the next turn %d times of %d", f.late, rounds)
	return f.late <= rounds/4 // at first the driver is interrupted by nobody but the scheduler, until the two follow it
}

// patient is a feeder that gives only to who follows, and lets others run until then, as there may be one P only.
type patient struct {
	feeder
	l *Loop
}

func (p *patient) Poll() bool {
	runtime.Gosched()
	return p.l.followers.n.Load() == 0 || p.feeder.Poll()
}

// vain has a goroutine drive the loop for something that never comes, until stop, while another one is served, in steps that the caller makes.
func vain(t *testing.T, l *Loop) (step func(), stop func()) {
	t.Helper()
	f := &patient{feeder{n: ringbuf.NewNotifier()}, l}
	f.given.Store(1) // nothing to do before both are there
	var over atomic.Bool
	driver, ended := ringbuf.NewNotifier(), make(chan error, 1)
	l.AddSource(f)
	go func() { ended <- l.RunUntil(t.Context(), over.Load, driver) }()
	until(t, "the driver drives", func() bool { return l.state.Load()&held != 0 })
	step = func() {
		t.Helper()
		f.taken.Add(1)
		if err := l.RunUntil(t.Context(), func() bool { return f.given.Load() > f.taken.Load() }, f.n); err != nil {
			t.Fatal(err)
		}
	}
	stop = func() {
		t.Helper()
		over.Store(true)
		driver.Wake()
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
	}
	return step, stop
}

// left tells whether somebody follows although nobody drives.
func left(l *Loop) bool { return l.followers.n.Load() == 1 && l.state.Load()&(held|asleep) == 0 }

func untilLeft(t *testing.T, l *Loop, step func()) {
	t.Helper()
	for n := 0; !left(l); step() {
		if n++; n > 100*vainTurns {
			t.Fatal("the driver stays, for others only")
		}
	}
}

// A driver whose turns serve another one, and not itself, leaves the drive to that one, which then runs them itself. Called back by the standby
// it drives again when the other one stays away. Without a standby it stays.
func TestVainDriverLeaves(t *testing.T) {
	t.Run("leaves", func(t *testing.T) {
		l := newLoop(t, LoopConfig{Standby: time.Hour})
		step, stop := vain(t, l)
		untilLeft(t, l, step)
		for range 2 * vainTurns { // who was just about to come back does so, and leaves again
			step()
		}
		const steps = 100
		drives := l.drives.Load()
		for range steps {
			step()
		}
		if n := l.drives.Load() - drives; n < steps*9/10 { // it may be a moment too early
			t.Errorf("the one that it was left to drove %d times of %d", n, steps)
		}
		if !left(l) {
			t.Error("who had left the drive does not follow any more")
		}
		stop()
	})
	t.Run("comes back", func(t *testing.T) {
		l := newLoop(t, LoopConfig{})
		step, stop := vain(t, l)
		untilLeft(t, l, step)
		until(t, "it drives again, with the other one away", func() bool { return l.state.Load()&held != 0 && l.followers.n.Load() == 0 })
		stop()
	})
	t.Run("stays", func(t *testing.T) {
		l := newLoop(t, LoopConfig{Standby: -1})
		step, stop := vain(t, l)
		for range 20 * vainTurns {
			step()
			if left(l) {
				t.Fatal("it left, and nobody could call it back")
			}
		}
		stop()
	})
}

// TestCloseEndsSleepers: consumers that sleep get ErrClosed, as many as there are, whether Close takes the token before them or not: in the kernel, and
// on a loop without connections at rest.
func TestCloseEndsSleepers(t *testing.T) {
	for name, cfg := range map[string]LoopConfig{"polling": {}, "no polling": {Poll: -1}, "no standby": {Standby: -1}, "dedicated": {Dedicated: true}, "resting": {}} {
		t.Run(name, func(t *testing.T) {
			rests := name == "resting"
			for consumers := range 3 {
				for range 30 {
					l, err := NewLoop(cfg)
					if err != nil {
						t.Fatal(err)
					}
					if !rests {
						l.open.Store(1)
					}
					ended := make(chan error, consumers)
					for range consumers {
						go func() { ended <- l.RunUntil(t.Context(), func() bool { return false }, ringbuf.NewNotifier()) }()
					}
					if consumers > 0 && !cfg.Dedicated {
						until(t, "somebody sleeps", func() bool { return !rests && l.state.Load()&asleep != 0 || rests && l.resters.n.Load() != 0 })
					}
					if err := l.Close(t.Context()); err != nil {
						t.Fatal(err)
					}
					for range consumers {
						select {
						case err := <-ended:
							if !errors.Is(err, ErrClosed) {
								t.Error(err)
							}
						case <-time.After(hang):
							t.Fatal("RunUntil does not return after Close")
						}
					}
				}
			}
		})
	}
}
