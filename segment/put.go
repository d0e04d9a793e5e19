package segment

import (
	"sync/atomic"

	"github.com/weirflow/weir/internal/buildtag"
)

// Put releases b as the owner, without a detour through the return list. It is Release for buffers of other homes.
// OnReturn is called as for any segment that comes home.
func (l *LocalPool) Put(b Buffer) {
	h := b.h
	if h == nil {
		return
	}
	if s := atomic.LoadUint64(&h.word); s == b.meta&genMask|sole && h.home == l.plain && h.note == 0 {
		h.word = s + genOne // not from b.meta, which would take a detour through the handle
		if l.hot == nil {
			l.hot = h
		} else {
			l.idle = append(l.idle, h)
		}
		return
	}
	l.put(b)
}

// put is Put with everything else that can happen. The common cases of counted buffers come first: dropRef written out.
func (l *LocalPool) put(b Buffer) {
	h := b.h
	if s := atomic.LoadUint64(&h.word); !buildtag.Debug && (s^b.meta)&genMask|s&deadBit(b.ref()) == 0 {
		if s&countMask > 1 {
			if atomic.CompareAndSwapUint64(&h.word, s, s-1|deadBit(b.ref())) {
				return
			}
		} else if h.home == l.plain && h.note == 0 && l.hot == nil {
			h.word = s&genMask + genOne | sole
			l.hot = h
			return
		}
	}
	last, err := b.dropRef()
	switch {
	case !last:
		if err != nil {
			h.misuse(overRelease, err)
		}
	case h.home != l:
		h.sendHome()
	default:
		l.guard.enter()
		if l.attn.Load() != 0 {
			l.attend()
		}
		l.takeIn(h)
		l.guard.leave()
	}
}

// takeIn is LocalBufferPool#recycle: a segment is home. The charge is taken back once, whatever listeners say after.
func (l *LocalPool) takeIn(h *header) {
	tag := h.tag()
	if len(l.listeners) == 0 && l.requested <= l.size && !l.isClosed {
		l.idle = append(l.idle, h) // the usual case
		if h.note != 0 {
			if s := h.sub(); s >= 0 {
				l.uncharge(s)
			}
			h.note = 0
		}
	} else if !l.takeInSlow(h) {
		return
	}
	if f := l.onReturn; f != nil {
		l.guard.leave()
		f(tag)
		l.guard.enter()
	} else if l.plain != l {
		l.replain()
	}
}

// takeInSlow is takeIn with everything else that can happen, but for OnReturn, which is called if it returns true.
func (l *LocalPool) takeInSlow(h *header) bool {
	if l.isClosed { // by a callback, in the middle of a drain
		l.giveReturned(h)
		return false
	}
	if s := h.sub(); s >= 0 {
		l.uncharge(s)
	}
	h.note = 0
	if l.requested > l.size {
		l.requested--
		l.pool.giveBack(h)
	} else {
		l.offer(h)
	}
	l.replain()
	return true
}
