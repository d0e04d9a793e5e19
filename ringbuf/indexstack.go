package ringbuf

import "sync/atomic"

// Memory order of IndexStack: Treiber's stack over an array, with a version in the top word.
//
// top holds the version in its upper 32 bits and index+1 of the top element in its lower ones (0: empty). next[i] is
// index+1 of the element below i while i is in the stack, and handedOut while somebody holds i.
//
// A pop reads top, then next of that element, then swaps top. In between others may pop that element and more, and push it
// again: the index in top is as before, but each swap raised the version, so this swap fails (no ABA), unless exactly a
// multiple of 2³² swaps fell in between. A pop that read an outdated next never gets to use it, for the same reason; it is
// an atomic word because it may be read while its owner writes it.
//
// The swap of top by Push is the edge that passes an index, and everything its former holder wrote, to the swap of top by
// the Pop that gets it. An operation repeats only if another one succeeded meanwhile (lock-free).

// handedOut marks an index that is not in the stack.
const handedOut = 1<<32 - 1

// IndexStack is a lock-free stack of the integers 0 to n-1: a free list whose last returned block is handed out first, so
// that it is still in the cache. All methods may be called from anywhere.
type IndexStack struct {
	_    [line]byte
	top  atomic.Uint64
	_    [line]byte
	next []atomic.Uint32
	_    [line]byte
}

// NewIndexStack returns a stack that holds 0 to n-1, with 0 on top. It panics if n is negative or above 1<<28.
func NewIndexStack(n int) *IndexStack {
	if n < 0 || n > maxCapacity {
		panic("ringbuf: IndexStack: size out of range")
	}
	s := &IndexStack{next: make([]atomic.Uint32, n)}
	for i := range n - 1 {
		s.next[i].Store(uint32(i + 2))
	}
	if n > 0 {
		s.top.Store(1)
	}
	return s
}

// Pop takes the index on top. It returns false if the stack is empty.
func (s *IndexStack) Pop() (i int, ok bool) {
	for {
		old, next, ok := s.peek()
		if !ok {
			return 0, false
		}
		perturb()
		if i, ok := s.swap(old, next); ok {
			return i, true
		}
	}
}

// peek is the first half of Pop: it reads the top word and what lies below the top element.
func (s *IndexStack) peek() (old uint64, next uint32, ok bool) {
	old = s.top.Load()
	if uint32(old) == 0 {
		return 0, 0, false
	}
	return old, s.next[uint32(old)-1].Load(), true
}

// swap is the second half of Pop: it takes the element on top of old away, if the stack did not change since.
func (s *IndexStack) swap(old uint64, next uint32) (i int, ok bool) {
	if !s.top.CompareAndSwap(old, raise(old)|uint64(next)) {
		return 0, false
	}
	i = int(uint32(old) - 1)
	s.next[i].Store(handedOut)
	return i, true
}

// raise returns the next version, in its place in the top word.
func raise(top uint64) uint64 { return (top>>32 + 1) << 32 }

// Push gives index i back. It returns false, and does nothing, if i was never handed out or was given back already.
func (s *IndexStack) Push(i int) bool {
	if uint(i) >= uint(len(s.next)) {
		return false
	}
	old := s.top.Load()
	if !s.next[i].CompareAndSwap(handedOut, uint32(old)) {
		return false
	}
	for !s.top.CompareAndSwap(old, raise(old)|uint64(i+1)) {
		perturb()
		old = s.top.Load()
		s.next[i].Store(uint32(old))
	}
	return true
}

// Cap returns n: how many indices there are, in the stack and handed out.
func (s *IndexStack) Cap() int { return len(s.next) }
