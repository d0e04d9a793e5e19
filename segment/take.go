package segment

import (
	"context"

	"github.com/weirflow/weir/internal/buildtag"
)

// Take returns an idle segment as an empty DataBuffer, or one of the overdraft, or false. It never blocks. The caller owns
// its only reference.
func (l *LocalPool) Take() (Buffer, bool) {
	if l.attn.Load() == 0 && !buildtag.Debug {
		if h := l.hot; h != nil {
			l.hot = nil
			return h.fresh(), true
		}
		if n := len(l.idle) - 1; n > 0 {
			h := l.idle[n]
			l.idle = l.idle[:n]
			return h.fresh(), true
		}
	}
	return l.take(noSub)
}

// TakeFor is Take, charged to a subpartition (0 to Subpartitions-1; a negative one is not charged, a larger one gets
// nothing). The quota refuses nothing: a subpartition over it is served, but makes the pool unavailable.
func (l *LocalPool) TakeFor(sub int) (Buffer, bool) {
	if n := len(l.idle) - 1; n > 0 && uint(sub) < uint(len(l.counts)) && l.attn.Load() == 0 && !buildtag.Debug {
		h := l.hot
		if h != nil {
			l.hot = nil
		} else {
			h = l.idle[n]
			l.idle = l.idle[:n]
		}
		l.charge(h, sub)
		return h.fresh(), true
	}
	return l.take(max(sub, noSub))
}

// charge counts h for a subpartition.
func (l *LocalPool) charge(h *header, sub int) {
	h.note = uint64(sub+1) << noteShift
	c := l.counts[sub] + 1
	l.counts[sub] = c
	if int(c) == l.cfg.Quota {
		l.over++
	}
}

// uncharge takes charge back.
func (l *LocalPool) uncharge(sub int) {
	if int(l.counts[sub]) == l.cfg.Quota {
		l.over--
	}
	l.counts[sub]--
}

// take is the whole rule (LocalBufferPool#requestMemorySegment). Unlike Flink's it looks at what came back first, so that
// overdraft is not touched while an ordinary segment can be had.
func (l *LocalPool) take(sub int) (Buffer, bool) {
	if l.isClosed || sub >= len(l.counts) {
		return Buffer{}, false
	}
	l.guard.enter()
	if l.attn.Load() != 0 {
		l.attend()
	}
	if len(l.idle) == 0 {
		l.drain()
	}
	h := l.pop()
	if h == nil && l.requested >= l.size && l.requested-l.size < l.cfg.Overdraft {
		if h = l.pool.fetch(l, false); h != nil {
			l.requested++
		}
	}
	if h == nil {
		l.guard.leave()
		return Buffer{}, false
	}
	if sub >= 0 {
		l.charge(h, sub)
	}
	l.update()
	l.replain()
	l.guard.leave()
	return h.handle(), true
}

// handle is fresh, noted in debug builds.
func (h *header) handle() Buffer {
	b := h.fresh()
	b.opened()
	return b
}

// TakeWait is TakeFor that waits until a segment can be had. It returns ctx's error, or ErrClosed after Cancel or Close. A
// negative sub is not charged.
//
// Every return and every change wakes it, so that it also gets an overdraft segment that has become free (in Flink a
// blocked request sleeps on until the pool is available).
func (l *LocalPool) TakeWait(ctx context.Context, sub int) (Buffer, error) {
	for {
		if b, ok, err := l.tryTake(sub); ok || err != nil {
			return b, err
		}
		l.notifier.Prepare()
		if b, ok, err := l.tryTake(sub); ok || err != nil {
			l.notifier.Cancel()
			return b, err
		}
		if err := l.notifier.Wait(ctx); err != nil {
			return Buffer{}, err
		}
	}
}

func (l *LocalPool) tryTake(sub int) (Buffer, bool, error) {
	if l.isClosed || l.cancelled.Load() {
		return Buffer{}, false, ErrClosed
	}
	if sub >= len(l.counts) {
		return Buffer{}, false, badConfig("%q has no subpartition %d", l.cfg.Name, sub)
	}
	b, ok := l.TakeFor(sub)
	return b, ok, nil
}

// WaitAvailable waits until Available holds. Errors are as for TakeWait.
func (l *LocalPool) WaitAvailable(ctx context.Context) error {
	for {
		if ok, err := l.tryAvailable(); ok || err != nil {
			return err
		}
		l.notifier.Prepare()
		if ok, err := l.tryAvailable(); ok || err != nil {
			l.notifier.Cancel()
			return err
		}
		if err := l.notifier.Wait(ctx); err != nil {
			return err
		}
	}
}

func (l *LocalPool) tryAvailable() (bool, error) {
	if l.isClosed || l.cancelled.Load() {
		return false, ErrClosed
	}
	return l.Available(), nil
}

// Reserve waits until the pool holds at least n segments, idle or handed out. n must not be above what is required. Errors
// are as for TakeWait. A gate whose buffers all float reserves one, so that something is in circulation
// (LocalBufferPool#reserveSegments; here what is obtained is counted, and nobody is locked out meanwhile).
//
// What is reserved is not lent. What a pool is guaranteed and has not fetched may be, to another pool as overdraft, as in Flink:
// users of the two who wait for each other then wait for good.
func (l *LocalPool) Reserve(ctx context.Context, n int) error {
	if n > l.cfg.Required {
		return badConfig("%q: can't reserve more segments (%d) than are required (%d)", l.cfg.Name, n, l.cfg.Required)
	}
	for {
		if ok, err := l.tryReserve(n); ok || err != nil {
			return err
		}
		l.notifier.Prepare()
		if ok, err := l.tryReserve(n); ok || err != nil {
			l.notifier.Cancel()
			return err
		}
		if err := l.notifier.Wait(ctx); err != nil {
			return err
		}
	}
}

func (l *LocalPool) tryReserve(n int) (bool, error) {
	if l.isClosed || l.cancelled.Load() {
		return false, ErrClosed
	}
	l.guard.enter()
	defer l.guard.leave()
	l.drain()
	for l.requested < n && !l.subscribed {
		h := l.pool.fetch(l, true)
		if h == nil {
			l.subscribed = true
			break
		}
		l.requested++
		l.offer(h)
	}
	l.replain()
	l.publish()
	return l.requested >= n, nil
}
