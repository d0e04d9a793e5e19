//go:build linux && !weirportable

package netio

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirflow/weir/ringbuf"
)

// napLink is a link whose receiver can nap.
func napLink(t *testing.T, cfg LoopConfig) *link {
	t.Helper()
	k := newLink(t, cfg, linkPayload, 32)
	if !k.b.sysCanNap() || k.b.oneP {
		t.Skip("nothing naps with one P, without epoll_pwait2 or in a build without package unsafe")
	}
	return k
}

// idleLink is one whose receiver is idle, and whose token we hold.
func idleLink(t *testing.T, cfg LoopConfig) *link {
	t.Helper()
	k := napLink(t, cfg)
	k.send(t.Context(), t, 1)
	k.b.acquire()
	t.Cleanup(k.b.Release)
	return k
}

// While bulk flows a loop that polls takes naps, and everything arrives.
func TestNapsInBulk(t *testing.T) {
	k := napLink(t, LoopConfig{Standby: -1})
	for end := time.Now().Add(hang); k.b.stats.Naps == 0; {
		if k.send(t.Context(), t, 500); time.Now().After(end) {
			t.Fatalf("no nap; SO_RCVLOWAT was changed %d times", k.b.stats.Lowats)
		}
	}
}

// A nap that brings nothing is over by itself, and the kernel reports everything from then on.
func TestNapEnds(t *testing.T) {
	k := idleLink(t, LoopConfig{Standby: -1})
	b := k.b
	b.conns[0].setLowat(true)
	for b.nap(t.Context(), nil, ringbuf.NewNotifier()) { // the end of what the link began with
	}
	if b.stats.Naps == 0 || len(b.raised) != 0 {
		t.Errorf("%d naps, %d connections raised", b.stats.Naps, len(b.raised))
	}
}

// A nap ends for what wakes any sleep: a wake-up of the loop, and one of its consumer.
func TestNapIsWoken(t *testing.T) {
	for name, wake := range map[string]func(*Loop, *ringbuf.Notifier){
		"loop":     func(l *Loop, _ *ringbuf.Notifier) { l.Wake() },
		"consumer": func(_ *Loop, n *ringbuf.Notifier) { n.Wake() },
	} {
		t.Run(name, func(t *testing.T) {
			k := idleLink(t, LoopConfig{Standby: -1})
			b, n := k.b, ringbuf.NewNotifier()
			var stop atomic.Bool
			done := make(chan struct{})
			go func() {
				defer close(done)
				for !stop.Load() {
					if b.state.Load()&asleep != 0 {
						wake(b, n)
					}
				}
			}()
			for end := time.Now().Add(hang); b.stats.Wakeups == 0; {
				b.conns[0].setLowat(true)
				if b.nap(t.Context(), nil, n); time.Now().After(end) {
					t.Errorf("none of %d naps was ended", b.stats.Naps)
					break
				}
			}
			stop.Store(true)
			wait(t, done, "the other goroutine")
		})
	}
}

// Where a nap would cost others, or is not wanted, there is none.
func TestNoNap(t *testing.T) {
	woken := ringbuf.NewNotifier()
	for name, c := range map[string]struct {
		cfg   LoopConfig
		first func(*Loop)
	}{
		"nothing raised":   {LoopConfig{Standby: -1}, func(l *Loop) { l.lowerAll() }},
		"no polling":       {LoopConfig{Standby: -1, Poll: -1}, nil},
		"another sleeper":  {LoopConfig{Standby: -1}, func(l *Loop) { l.state.Add(oneSleep) }},
		"a woken follower": {LoopConfig{Standby: -1}, func(l *Loop) { l.followers.add(woken) }},
	} {
		t.Run(name, func(t *testing.T) {
			k := idleLink(t, c.cfg)
			b := k.b
			b.conns[0].setLowat(true)
			before := b.stats.Naps
			if c.first != nil {
				c.first(b)
			}
			b.nap(t.Context(), nil, ringbuf.NewNotifier())
			if n := b.stats.Naps - before; n != 0 {
				t.Errorf("%d naps", n)
			}
			b.state.And(^asleep)
			if name == "a woken follower" {
				b.followers.remove(woken)
			}
		})
	}
	t.Run("a dedicated loop", func(t *testing.T) {
		k := napLink(t, LoopConfig{Dedicated: true})
		k.send(t.Context(), t, 1)
		inTurn(t, k.b, func() {
			before := k.b.stats.Naps
			k.b.conns[0].setLowat(true)
			if k.b.nap(t.Context(), nil, ringbuf.NewNotifier()); k.b.stats.Naps != before {
				t.Error("it naps")
			}
		})
	})
}
