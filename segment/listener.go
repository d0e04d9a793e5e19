package segment

import "slices"

// Answer is what a Listener does with a segment.
type Answer uint8

// The answers of a listener.
const (
	Refused  Answer = iota // not wanted (any more): it is offered to the next listener
	Taken                  // taken, and enough
	TakeMore               // taken, and the listener keeps its place in the queue for another one
)

// Listener waits for a segment of a LocalPool. It is called by the pool's owner, with no lock held, and may take and put.
type Listener interface {
	// OnBuffer offers a segment. Unless it is refused, its only reference is the listener's. A refused one must not be
	// released.
	OnBuffer(b Buffer) Answer
	// OnClose says that the pool is closed and no segment will come.
	OnClose()
}

// AddListener queues f for the next segment that comes home or is fetched, and returns true; or returns false if a
// segment is idle, to be had by Take, or the pool is closed. A registration ends with an answer other than TakeMore.
//
// Flink serves listeners from recycling only; here also from what the pool fetches, so that a listener never waits beside
// an idle segment.
func (l *LocalPool) AddListener(f Listener) bool {
	if l.isClosed {
		return false
	}
	l.Drain()
	if len(l.idle) > 0 || l.isClosed {
		return false
	}
	l.listeners = append(l.listeners, f)
	l.replain()
	return true
}

// RemoveListener takes f out of the queue, and tells whether it was there.
func (l *LocalPool) RemoveListener(f Listener) bool {
	i := slices.Index(l.listeners, f)
	if i < 0 {
		return false
	}
	l.listeners = slices.Delete(l.listeners, i, i+1)
	l.replain()
	return true
}

// offer gives a segment to the first listener that wants it, or makes it idle.
func (l *LocalPool) offer(h *header) {
	for len(l.listeners) > 0 {
		f := l.listeners[0]
		life := h.word
		l.guard.leave()
		a := f.OnBuffer(h.handle())
		l.guard.enter()
		switch {
		case a == TakeMore:
			return
		case len(l.listeners) > 0 && l.listeners[0] == f:
			l.listeners = slices.Delete(l.listeners, 0, 1)
			l.replain()
			fallthrough
		default:
			if a == Taken || (h.word^life)&genMask != 0 { // a refused segment that was released all the same is on its way home
				return
			}
		}
		if l.isClosed {
			l.giveReturned(h)
			return
		}
		h.unhandled()
	}
	l.idle = append(l.idle, h)
}
