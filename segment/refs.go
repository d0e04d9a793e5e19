package segment

import "sync/atomic"

// The state word of a header counts references and tells them apart:
//
//	bits  0..17  count of live references; 1 while the segment is in a pool
//	bits 18..23  how many identities were handed out in this life of the segment, at most refIDs
//	bits 24..63  dead: bit n is set once the reference with identity n was released
//
// The first refIDs references of a life have an identity each, so that releasing one of them twice is found and never
// takes another's share. Those after it are counted only: releasing such a one twice is found when the count reaches
// zero, or by the generation after that.
//
// Memory order. Whoever sees count 1 while holding a live reference is the sole owner: nobody else has a reference to
// change the word with, and nobody can get one except from him. So he reads and writes the word plainly, and bumps the
// generation plainly. With a higher count every change is a compare-and-swap. A holder's accesses to the segment come before
// his compare-and-swap, and the last holder's load of count 1 comes after it: that edge gives the last holder, and through
// the return list the next taker, everything that was done with the segment before. Between sole owners the hand-over
// itself (a ring, a channel, a lock) is the edge.
const (
	countBits = 18
	countMask = 1<<countBits - 1
	idShift   = countBits
	idMask    = 1<<6 - 1
	deadShift = 24
	refIDs    = 40

	// stateSole is one live reference with identity 0: the state of a segment in a pool and of one just taken.
	stateSole uint64 = 1 | 1<<idShift

	// anonymous is the identity of a reference beyond the first refIDs.
	anonymous = refIDs
)

// MaxRefs is how many references a buffer can have at a time. Flink's widest broadcast has 1<<15 subpartitions, with a
// reader and a slice for each.
const MaxRefs = countMask

// deadBit is the bit of the reference ref in a state word; 0 for anonymous ones.
func deadBit(ref uint8) uint64 {
	if ref >= refIDs {
		return 0
	}
	return 1 << (deadShift + ref)
}

// addRef adds a reference on behalf of the holder of (gen, ref) and returns its identity.
func (h *header) addRef(gen uint32, ref uint8) (uint8, error) {
	if h.gen != gen {
		return 0, ErrReleased
	}
	for {
		s := atomic.LoadUint64(&h.state)
		count := s & countMask
		switch {
		case s&deadBit(ref) != 0:
			return 0, ErrReleased
		case count >= MaxRefs:
			return 0, ErrTooManyRefs
		}
		id := uint8(s >> idShift & idMask)
		n := s + 1
		if id < refIDs {
			n += 1 << idShift
		}
		if count == 1 {
			h.state = n
			return id, nil
		}
		if atomic.CompareAndSwapUint64(&h.state, s, n) {
			return id, nil
		}
	}
}

// dropRef gives up the reference (gen, ref). It tells whether it was the last: then the generation is bumped and the
// caller alone knows of the segment, and has to send it home.
func (h *header) dropRef(gen uint32, ref uint8) (last bool, err error) {
	if h.gen != gen {
		return false, ErrReleased
	}
	for {
		s := atomic.LoadUint64(&h.state)
		if s&deadBit(ref) != 0 {
			return false, ErrReleased
		}
		if s&countMask == 1 {
			if s != stateSole {
				h.state = stateSole
			}
			h.gen++
			return true, nil
		}
		if atomic.CompareAndSwapUint64(&h.state, s, s-1|deadBit(ref)) {
			return false, nil
		}
	}
}

// refs returns the count of live references: a snapshot.
func (h *header) refs() int { return int(atomic.LoadUint64(&h.state) & countMask) }
