package ringbuf

// Memory order of OwnerStack: the stack itself is plain memory of its owner. What others give back crosses by the SPSC
// ring of their Return, or by the shared MPSC ring, whose files state the edges.

// returnBatch is how many items a Return stages before it publishes them with one atomic operation.
const returnBatch = 16

// OwnerStack is a stack of one owner, last in first out, to which other goroutines give items back through rings. Taking
// and giving back by the owner costs no atomic operation. Get, Put, Drain, Len and NewReturn belong to the owner; Release
// may be called from anywhere.
//
// The caller promises that at most capacity items exist, in the stack and outside; so no ring is ever full.
type OwnerStack[T any] struct {
	items   []T
	clear   bool
	returns []*Return[T]
	shared  *MPSC[T]
	wake    *Notifier
	scratch [returnBatch]T
}

// NewOwnerStack returns an empty stack for capacity items in all.
func NewOwnerStack[T any](capacity int) *OwnerStack[T] {
	return &OwnerStack[T]{
		items:  make([]T, 0, max(capacity, 1)),
		clear:  holdsPointers[T](),
		shared: NewMPSC[T](capacity),
		wake:   NewNotifier(),
	}
}

// Get takes the item that was put last. If there is none it first takes in what others gave back. It returns false if
// nothing is here.
func (s *OwnerStack[T]) Get() (v T, ok bool) {
	if len(s.items) == 0 && s.Drain() == 0 {
		return v, false
	}
	last := len(s.items) - 1
	v = s.items[last]
	if s.clear {
		var zero T
		s.items[last] = zero
	}
	s.items = s.items[:last]
	return v, true
}

// Put gives v back by the owner. It returns false, and keeps nothing, if that would make more items than the capacity.
func (s *OwnerStack[T]) Put(v T) bool {
	if len(s.items) == cap(s.items) {
		return false
	}
	s.items = append(s.items, v)
	return true
}

// Drain takes in what others gave back and returns how many items that were. A Return that was closed and is empty is
// forgotten.
func (s *OwnerStack[T]) Drain() (n int) {
	for i := 0; i < len(s.returns); {
		r := s.returns[i]
		for k := -1; k != 0; n += k {
			k = r.ring.PopBatch(s.scratch[:min(returnBatch, cap(s.items)-len(s.items))])
			s.items = append(s.items, s.scratch[:k]...)
		}
		if r.ring.Drained() {
			last := len(s.returns) - 1
			s.returns[i], s.returns[last] = s.returns[last], nil
			s.returns = s.returns[:last]
			continue
		}
		i++
	}
	for k := -1; k != 0; n += k {
		k = s.shared.PopBatch(s.scratch[:min(returnBatch, cap(s.items)-len(s.items))])
		s.items = append(s.items, s.scratch[:k]...)
	}
	if s.clear && n > 0 {
		clear(s.scratch[:])
	}
	return n
}

// Len returns how many items are here, not counting those on their way back.
func (s *OwnerStack[T]) Len() int { return len(s.items) }

// Notifier is where the owner sleeps when it waits for items to come back.
func (s *OwnerStack[T]) Notifier() *Notifier { return s.wake }

// Release gives v back from any goroutine. It returns false, and keeps nothing, if more than capacity items are under way.
// A goroutine that gives back often holds a Return of its own, which costs less.
func (s *OwnerStack[T]) Release(v T) bool {
	if !s.shared.Push(v) {
		return false
	}
	s.wake.Wake()
	return true
}

// NewReturn returns a way back for one other goroutine. It is called by the owner.
func (s *OwnerStack[T]) NewReturn() *Return[T] {
	r := &Return[T]{ring: NewSPSC[T](cap(s.items)), wake: s.wake}
	s.returns = append(s.returns, r)
	return r
}

// Return is the way back into an OwnerStack for one goroutine that is not its owner.
type Return[T any] struct {
	ring *SPSC[T]
	wake *Notifier
}

// Put gives v back. The owner sees it once 16 items are staged, or at Flush. It returns false, and keeps nothing, if more
// than the stack's capacity is under way.
func (r *Return[T]) Put(v T) bool {
	if !r.ring.Stage(v) {
		return false
	}
	if r.ring.Staged() >= returnBatch {
		r.Flush()
	}
	return true
}

// Flush lets the owner see all items given back, and wakes it if it sleeps. Call it at the latest before waiting.
func (r *Return[T]) Flush() {
	r.ring.Publish()
	r.wake.Wake()
}

// Close flushes and ends the way back; the owner forgets it once it has taken in everything.
func (r *Return[T]) Close() {
	r.Flush()
	r.ring.Close()
}
