package ringbuf

import (
	"context"
	"sync/atomic"
)

// Memory order of Sleepers.
//
// As with Notifier, a sleeper announces itself (count+1) and then looks once more; a waker makes work visible and then
// loads count. Go's atomics are sequentially consistent, so one of the two sees the other.
//
// count is the number of announced sleepers that no waker has picked yet. A waker picks one by count-1 and owes one token;
// a sleeper leaves either by count-1 (nobody picked it) or by taking a token. So tokens in flight and sleepers that must
// still take one are always equally many. Which of them takes which token doesn't matter. A sleeper that takes a token and
// leaves without work loses nothing: at that moment count was 0, so nobody else was asleep unpicked, and whoever announces
// itself later looks first and sees the work.

// Sleepers lets many goroutines sleep until others have work for them: a Notifier for many sleepers. Wake costs one
// atomic load while nobody sleeps. Make one with NewSleepers. The loop of a sleeper is the one shown at Notifier.
type Sleepers struct {
	_      [line]byte
	count  atomic.Int32
	_      [line]byte
	tokens chan struct{}
	_      [line]byte
}

// NewSleepers returns a Sleepers on which nobody sleeps.
func NewSleepers() *Sleepers { return &Sleepers{tokens: make(chan struct{}, 64)} }

// Prepare announces that the caller is about to sleep. It is followed by Cancel or Wait.
func (s *Sleepers) Prepare() { s.count.Add(1) }

// leave takes an unpicked sleeper out of the count. It returns false if every announced sleeper has been picked.
func (s *Sleepers) leave() bool {
	for n := s.count.Load(); n > 0; n = s.count.Load() {
		if s.count.CompareAndSwap(n, n-1) {
			return true
		}
	}
	return false
}

// Cancel takes Prepare back: there is work after all.
func (s *Sleepers) Cancel() {
	if !s.leave() {
		<-s.tokens
	}
}

// Wait sleeps until a Wake picks the caller or ctx is done, and then returns nil or the context's error. A nil ctx means
// no limit. Prepare must precede it.
func (s *Sleepers) Wait(ctx context.Context) error {
	var done <-chan struct{}
	if ctx != nil {
		done = ctx.Done()
	}
	if done == nil {
		<-s.tokens
		return nil
	}
	select {
	case <-s.tokens:
		return nil
	case <-done:
		s.Cancel()
		return ctx.Err()
	}
}

// Wake ends the sleep of one sleeper if there is any. Any goroutine may call it, after it made its work visible.
func (s *Sleepers) Wake() {
	if s.count.Load() > 0 {
		s.wake() // apart, so that the load is inlined
	}
}

//go:noinline
func (s *Sleepers) wake() {
	if s.leave() {
		s.tokens <- struct{}{}
	}
}

// WakeAll ends the sleep of everybody who sleeps now.
func (s *Sleepers) WakeAll() {
	for n := s.count.Load(); n > 0 && s.leave(); n-- {
		s.tokens <- struct{}{}
	}
}

// Sleeping returns how many sleepers wait to be picked: a snapshot.
func (s *Sleepers) Sleeping() int { return int(s.count.Load()) }
