//go:build !weirdebug

package segment

import "sync/atomic"

// deadBit is the bit of the reference ref in a word; 0 for anonymous ones.
func deadBit(ref refID) uint64 { return (1 << (deadShift + ref&31)) & (genOne - 1<<deadShift) }

// addRef adds a reference on behalf of the holder of b and returns its identity.
func (b Buffer) addRef() (refID, error) {
	h := b.h
	for {
		s := atomic.LoadUint64(&h.word)
		switch {
		case (s^b.meta)&genMask != 0, s&deadBit(b.ref()) != 0:
			return 0, ErrReleased
		case s&countMask >= MaxRefs:
			return 0, ErrTooManyRefs
		}
		id := refID(s >> idShift & idMask)
		n := s + 1
		if id < refIDs {
			n += 1 << idShift
		}
		if s&countMask == 1 {
			h.word = n
		} else if !atomic.CompareAndSwapUint64(&h.word, s, n) {
			continue
		}
		return id, nil
	}
}

// dropRef gives up the reference of b. It tells whether it was the last: then the next life has begun, and the caller alone
// knows of the segment and has to send it home.
func (b Buffer) dropRef() (last bool, err error) {
	h := b.h
	for {
		s := atomic.LoadUint64(&h.word)
		dead := deadBit(b.ref())
		if (s^b.meta)&genMask != 0 || s&dead != 0 {
			return false, ErrReleased
		}
		if s&countMask == 1 {
			h.word = s&genMask + genOne | sole
			return true, nil
		}
		if atomic.CompareAndSwapUint64(&h.word, s, s-1|dead) {
			return false, nil
		}
	}
}

// valid tells whether b's own reference is live, as far as that is known.
func (b Buffer) valid() bool {
	s := atomic.LoadUint64(&b.h.word)
	return (s^b.meta)&genMask == 0 && s&deadBit(b.ref()) == 0
}
