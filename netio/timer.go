package netio

import "time"

// Timer calls a function in a turn of its loop, once each time it was set. It belongs to the loop: the holder of the token uses
// it. Setting and stopping allocates nothing.
type Timer struct {
	l  *Loop
	f  func()
	at time.Duration // loop clock
	i  int           // place in the heap, -1: not set
}

// NewTimer returns a timer that is not set. Any goroutine.
func (l *Loop) NewTimer(f func()) *Timer { return &Timer{l: l, f: f, i: -1} }

// After has f called d from now. The timer can be stopped and set again. Holder of the token.
func (l *Loop) After(d time.Duration, f func()) *Timer {
	t := l.NewTimer(f)
	t.Reset(d)
	return t
}

// Reset sets t to d from now, whether or not it was set. Holder of the token.
func (t *Timer) Reset(d time.Duration) {
	t.l.check.assertHeld()
	t.at = t.l.clock() + max(d, 0)
	h := &t.l.timers
	if t.i < 0 {
		t.i = len(*h)
		*h = append(*h, t)
		h.up(t.i)
		return
	}
	if !h.up(t.i) {
		h.down(t.i)
	}
}

// Stop unsets t and reports whether it was set. Holder of the token.
func (t *Timer) Stop() bool {
	t.l.check.assertHeld()
	if t.i < 0 {
		return false
	}
	t.l.timers.remove(t.i)
	return true
}

// Armed tells whether t is set. Holder of the token.
func (t *Timer) Armed() bool { return t.i >= 0 }

// runTimers calls what is due, a bounded number. A timer that is set again to now waits for the next turn.
func (l *Loop) runTimers() (worked bool) {
	now := l.clock()
	for range timersPerTurn {
		if len(l.timers) == 0 || l.timers[0].at > now {
			break
		}
		t := l.timers[0]
		l.timers.remove(0)
		t.f()
		worked = true
	}
	return worked
}

// timerHeap is a binary heap by time whose elements know their place.
type timerHeap []*Timer

func (h timerHeap) swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].i, h[j].i = i, j
}

func (h timerHeap) up(i int) (moved bool) {
	for i > 0 {
		parent := (i - 1) / 2
		if h[parent].at <= h[i].at {
			break
		}
		h.swap(i, parent)
		i = parent
		moved = true
	}
	return moved
}

func (h timerHeap) down(i int) {
	for {
		child := 2*i + 1
		if child >= len(h) {
			return
		}
		if r := child + 1; r < len(h) && h[r].at < h[child].at {
			child = r
		}
		if h[i].at <= h[child].at {
			return
		}
		h.swap(i, child)
		i = child
	}
}

func (h *timerHeap) remove(i int) {
	last := len(*h) - 1
	t := (*h)[i]
	if i != last {
		h.swap(i, last)
	}
	(*h)[last] = nil
	*h = (*h)[:last]
	if i != last && !h.up(i) {
		h.down(i)
	}
	t.i = -1
}
