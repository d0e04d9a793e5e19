package netio

import (
	"context"
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
