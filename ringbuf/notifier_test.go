package ringbuf

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirflow/weir/internal/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// hang is how long a test waits for what must happen before it says that it never will.
const hang = time.Minute

func withHangLimit(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), hang)
	t.Cleanup(cancel)
	return ctx
}

func TestNotifierWakeBetweenPrepareAndWait(t *testing.T) {
	var n Notifier
	for range 3 {
		n.Prepare()
		n.Wake()
		if err := n.Wait(withHangLimit(t)); err != nil {
			t.Fatal(err)
		}
	}
	n.Wake() // nobody sleeps: not remembered
	n.Prepare()
	if n.WaitTimeout(time.Millisecond) {
		t.Fatal("woken by a Wake from before Prepare")
	}
	if n.Sleeping() {
		t.Fatal("still announced after the time-out")
	}
}

func TestNotifierCancelLeavesNoToken(t *testing.T) {
	var n Notifier
	for i := range 100 {
		n.Prepare()
		if i%2 == 0 {
			n.Wake()
		}
		n.Cancel()
		n.Prepare()
		if n.WaitTimeout(10 * time.Microsecond) {
			t.Fatal("a token was left over")
		}
	}
}

func TestNotifierContext(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	n := NewNotifier()
	n.Prepare()
	done := make(chan error)
	go func() { done <- n.Wait(ctx) }()
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v", err)
	}
	if n.Sleeping() {
		t.Fatal("still announced after the context ended")
	}
	n.Prepare()
	n.Wake()
	if err := n.Wait(context.Background()); err != nil {
		t.Fatal(err)
	}
	n.Prepare()
	n.Wake()
	if err := n.Wait(nil); err != nil {
		t.Fatal(err)
	}
}

// TestNotifierCancelAgainstWake lets a time-out, a Cancel and a Wake meet at the same moment, many times.
func TestNotifierCancelAgainstWake(t *testing.T) {
	perturbFor(t, 3)
	rounds := 3000
	if testing.Short() {
		rounds = 300
	}
	var n Notifier
	var stop atomic.Bool
	var wakers sync.WaitGroup
	for range 2 {
		wakers.Go(func() {
			for !stop.Load() {
				n.Wake()
				runtime.Gosched()
			}
		})
	}
	woken := 0
	for i := range rounds {
		n.Prepare()
		switch i % 3 {
		case 0:
			n.Cancel()
		case 1:
			if n.WaitTimeout(time.Microsecond) {
				woken++
			}
		case 2:
			if err := n.Wait(withHangLimit(t)); err != nil {
				t.Fatalf("round %d: %v", i, err)
			}
			woken++
		}
		if n.Sleeping() || len(n.token) != 0 {
			t.Fatalf("round %d: announced %t, %d tokens left", i, n.Sleeping(), len(n.token))
		}
	}
	stop.Store(true)
	wakers.Wait()
	if woken == 0 {
		t.Fatal("nobody was ever woken")
	}
}

func TestSleepersWakePicksOneAndCancelLeavesNoToken(t *testing.T) {
	s := NewSleepers()
	s.Wake() // nobody sleeps: not remembered
	s.Prepare()
	s.Wake()
	s.Cancel()
	if s.Sleeping() != 0 || len(s.tokens) != 0 {
		t.Fatalf("%d announced, %d tokens left", s.Sleeping(), len(s.tokens))
	}
	s.Prepare()
	s.Prepare()
	s.Wake()
	if s.Sleeping() != 1 {
		t.Fatalf("one Wake left %d of 2 asleep", s.Sleeping())
	}
	s.WakeAll()
	for range 2 {
		if err := s.Wait(withHangLimit(t)); err != nil {
			t.Fatal(err)
		}
	}
	s.Prepare()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := s.Wait(ctx); !errors.Is(err, context.Canceled) || s.Sleeping() != 0 {
		t.Fatalf("got %v, %d still announced", err, s.Sleeping())
	}
}

// TestSleepersCancelAgainstWake: tokens and sleepers stay equally many, whatever meets.
func TestSleepersCancelAgainstWake(t *testing.T) {
	perturbFor(t, 3)
	rounds := 2000
	if testing.Short() {
		rounds = 200
	}
	s := NewSleepers()
	var stop atomic.Bool
	var sleepers, wakers sync.WaitGroup
	for range 2 {
		wakers.Go(func() {
			for !stop.Load() {
				s.Wake()
				runtime.Gosched()
				s.WakeAll()
			}
		})
	}
	for g := range 4 {
		sleepers.Go(func() {
			for i := range rounds {
				s.Prepare()
				switch (i + g) % 3 {
				case 0:
					s.Cancel()
				case 1:
					ctx, cancel := context.WithTimeout(context.Background(), time.Microsecond)
					_ = s.Wait(ctx)
					cancel()
				case 2:
					if err := s.Wait(nil); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	sleepers.Wait()
	stop.Store(true)
	wakers.Wait()
	if s.Sleeping() != 0 || len(s.tokens) != 0 {
		t.Fatalf("%d still announced, %d tokens left", s.Sleeping(), len(s.tokens))
	}
}

// TestRNG13NoLostWakeUpOneByOne: each item is sent only when the one before was received, so that the receiver sleeps again
// and again, and a lost wake-up stops everything.
func TestRNG13NoLostWakeUpOneByOne(t *testing.T) {
	perturbFor(t, 3)
	rounds := 5000
	if testing.Short() {
		rounds = 500
	}
	ctx := withHangLimit(t)
	var parkAtOnce Waiting
	there, back := NewPipe[int](1, parkAtOnce), NewPipe[int](1, parkAtOnce)
	var echo sync.WaitGroup
	echo.Go(func() {
		for {
			v, err := there.Recv(ctx)
			if err != nil {
				if !errors.Is(err, ErrClosed) {
					t.Error(err)
				}
				back.Close()
				return
			}
			if err := back.Send(ctx, v); err != nil {
				t.Error(err)
			}
		}
	})
	for i := range rounds {
		if err := there.Send(ctx, i); err != nil {
			t.Fatal(err)
		}
		if v, err := back.Recv(ctx); err != nil || v != i {
			t.Fatalf("round %d: got %d, %v", i, v, err)
		}
	}
	there.Close()
	echo.Wait()
	if _, err := back.Recv(ctx); !errors.Is(err, ErrClosed) {
		t.Fatalf("after Close: %v", err)
	}
}

// TestRNG13ConsumersWakeWhileItemsWait: 5 producers that push now and then; 1 consumer, then 4. No item waits while all
// consumers sleep, nothing is lost, and a cancelled consumer wakes.
func TestRNG13ConsumersWakeWhileItemsWait(t *testing.T) {
	const limit = hang / 2 // 50 ms in the scenario; on a loaded machine only what hangs counts
	for _, consumers := range []int{1, 4} {
		q := NewQueue[time.Time](4096, Waiting{})
		ctx, cancel := context.WithCancel(context.Background())
		var pushed, popped, slowest atomic.Int64
		var push, pop sync.WaitGroup
		until := time.Now().Add(500 * time.Millisecond)
		for range 5 {
			push.Go(func() {
				pause := time.NewTicker(100 * time.Microsecond)
				defer pause.Stop()
				for n := 0; n == 0 || time.Now().Before(until); n++ {
					if err := q.Send(withHangLimit(t), time.Now()); err != nil {
						t.Error(err)
						return
					}
					pushed.Add(1)
					<-pause.C
				}
			})
		}
		slept := 0
		for range consumers {
			pop.Go(func() {
				for {
					sent, err := q.Recv(ctx)
					if errors.Is(err, context.Canceled) {
						return
					}
					if err != nil {
						t.Error(err)
						return
					}
					popped.Add(1)
					for d, old := int64(time.Since(sent)), slowest.Load(); d > old && !slowest.CompareAndSwap(old, d); old = slowest.Load() {
					}
				}
			})
		}
		for time.Now().Before(until) || slept == 0 && time.Now().Before(until.Add(hang)) {
			if q.items.Sleeping() > 0 {
				slept++
			}
			time.Sleep(time.Millisecond)
		}
		push.Wait()
		for end := time.Now().Add(hang); q.Len() > 0; runtime.Gosched() {
			if time.Now().After(end) {
				t.Fatalf("%d consumers: %d items wait while %d consumers sleep", consumers, q.Len(), q.items.Sleeping())
			}
		}
		start := time.Now()
		cancel()
		pop.Wait()
		if d := time.Since(start); d > limit {
			t.Errorf("%d consumers: cancelling took %v", consumers, d)
		}
		if pushed.Load() != popped.Load()+int64(q.Len()) || pushed.Load() == 0 || slept == 0 {
			t.Errorf("%d consumers: pushed %d, popped %d, left %d, seen asleep %d times", consumers, pushed.Load(), popped.Load(), q.Len(), slept)
		}
		if d := time.Duration(slowest.Load()); d > limit {
			t.Errorf("%d consumers: an item waited %v", consumers, d)
		}
	}
}

func TestWaitingUntil(t *testing.T) {
	for name, w := range map[string]Waiting{"zero": {}, "spin": Spin(), "yield": Yield(), "park": Park()} {
		t.Run(name, func(t *testing.T) {
			var ready atomic.Bool
			n := NewNotifier()
			go func() {
				ready.Store(true)
				n.Wake()
			}()
			if err := w.Until(withHangLimit(t), n, ready.Load); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(context.Background())
			cancel()
			if err := w.Until(ctx, n, func() bool { return false }); !errors.Is(err, context.Canceled) {
				t.Fatalf("with a context that is done: %v", err)
			}
			if err := w.Until(ctx, n, func() bool { return true }); err != nil {
				t.Fatalf("ready, and yet: %v", err)
			}
			if err := w.Until(ctx, nil, func() bool { return false }); !errors.Is(err, context.Canceled) {
				t.Fatalf("without a sleeper: %v", err)
			}
		})
	}
}
