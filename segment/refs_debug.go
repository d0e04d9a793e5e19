//go:build weirdebug

package segment

import "sync/atomic"

// In debug builds every reference has an identity, and the header knows where each was made and where it ended. The
// word holds generation and count as in other builds; its dead bits are not used.

// addRef adds a reference on behalf of the holder of b and returns its identity.
func (b Buffer) addRef() (refID, error) {
	h := b.h
	h.dbg.mu.Lock()
	defer h.dbg.mu.Unlock()
	s := atomic.LoadUint64(&h.word)
	switch {
	case !b.validLocked(s):
		return 0, ErrReleased
	case s&countMask >= MaxRefs:
		return 0, ErrTooManyRefs
	}
	id := h.dbg.newID()
	h.dbg.live[id] = struct{}{}
	h.dbg.note(opRetain, b.ref(), id)
	atomic.StoreUint64(&h.word, s+1)
	return id, nil
}

// dropRef gives up the reference of b, and tells whether it was the last.
func (b Buffer) dropRef() (last bool, err error) {
	h := b.h
	h.dbg.mu.Lock()
	defer h.dbg.mu.Unlock()
	s := atomic.LoadUint64(&h.word)
	if !b.validLocked(s) {
		return false, ErrReleased
	}
	delete(h.dbg.live, b.ref())
	if s&countMask > 1 {
		h.dbg.note(opRelease, b.ref(), b.ref())
		atomic.StoreUint64(&h.word, s-1)
		return false, nil
	}
	h.dbg.note(opLast, b.ref(), b.ref())
	h.poison()
	atomic.StoreUint64(&h.word, s&genMask+genOne|sole)
	return true, nil
}

func (b Buffer) validLocked(s uint64) bool {
	_, ok := b.h.dbg.live[b.ref()]
	return (s^b.meta)&genMask == 0 && ok
}

// valid tells whether b's own reference is live.
func (b Buffer) valid() bool {
	b.h.dbg.mu.Lock()
	defer b.h.dbg.mu.Unlock()
	return b.validLocked(atomic.LoadUint64(&b.h.word))
}

// newID returns an identity that no live reference has.
func (d *debugHeader) newID() refID {
	for {
		d.lastID++
		if _, used := d.live[d.lastID]; !used && d.lastID != 0 {
			return d.lastID
		}
	}
}

// deadBit is not used in debug builds.
func deadBit(refID) uint64 { return 0 }
