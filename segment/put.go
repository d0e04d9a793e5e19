package segment

import "sync/atomic"

// Put releases b as the owner, without a detour through the return list. It is Release for buffers of other homes.
// OnReturn is called as for any segment that comes home.
func (l *LocalPool) Put(b Buffer) {
	h := b.h
	if h == nil {
		return
	}
	if w := b.meta>>genShift<<genShift | sole; l.plain && l.attn.Load() == 0 && h.home == l && h.note == 0 && atomic.LoadUint64(&h.word) == w {
		h.word = w + genOne
		if l.hot == nil && len(l.idle) > 0 {
			l.hot = h
		} else {
			l.idle = append(l.idle, h)
		}
		return
	}
	l.put(b)
}

// put is Put with everything else that can happen.
func (l *LocalPool) put(b Buffer) {
	h := b.h
	if l.attn.Load() != 0 && !l.isClosed {
		l.guard.enter()
		l.attend()
		l.guard.leave()
	}
	last, err := b.dropRef()
	switch {
	case err != nil:
		h.misuse(overRelease, err)
	case !last:
	case h.home != l:
		h.sendHome()
	default:
		l.guard.enter()
		l.takeIn(h)
		l.guard.leave()
	}
}

// takeIn is LocalBufferPool#recycle: a segment is home. The charge is taken back once, whatever listeners say after.
func (l *LocalPool) takeIn(h *header) {
	if l.isClosed { // by a callback, in the middle of a drain
		l.giveReturned(h)
		return
	}
	tag := h.tag()
	if s := h.sub(); s >= 0 {
		l.uncharge(s)
	}
	if h.note != 0 {
		h.note = 0
	}
	if l.requested > l.size {
		l.requested--
		l.replain()
		l.pool.giveBack(h)
	} else {
		l.offer(h)
	}
	if f := l.onReturn; f != nil {
		l.guard.leave()
		f(tag)
		l.guard.enter()
	}
}
