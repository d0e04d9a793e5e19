package ringbuf

import "sync/atomic"

// Memory order of MPSC and MPMC: Dmitry Vyukov's bounded queue with a sequence number in each slot.
//
// Positions count items since construction and never wrap (63 bits); the slot of position p is p modulo the capacity.
// The sequence number of a slot says whose it is:
//
//	seq == p             free: the producer that moves tail from p to p+1 owns it
//	seq == p+1           full: the consumer that moves head from p to p+1 owns it
//	seq == p+capacity    free again, for the next lap
//
// A producer claims position p by moving tail (compare-and-swap), writes the value, then stores seq = p+1: the consumer's
// load of that number is the edge by which the value crosses. A consumer claims p by moving head, reads and clears the
// value, then stores seq = p+capacity: the next producer's load of that number is the edge by which the slot returns.
// So a slot that is claimed and not finished is refused to both sides: push says full, pop says empty for now. Nobody
// spins on another's unfinished work.
//
// Positions are not taken modulo the capacity, so a claim that was prepared before a lap fails after it: the
// compare-and-swap sees another position (no ABA). The smallest capacity is 2: with 1, "full" and "free in the next
// lap" would be the same number.
//
// Bit 63 of tail says closed: a claim happens before Close or fails, so nothing arrives once the ring is closed and all
// claimed positions were taken. An operation repeats only if another one succeeded meanwhile (lock-free).

type slot[T any] struct {
	seq atomic.Uint64
	val T
}

// multi is what MPSC and MPMC share: the slots and the side of the producers.
type multi[T any] struct {
	_ [line]byte

	tail atomic.Uint64 // producers claim here; bit 63: closed
	_    [line]byte

	head atomic.Uint64 // consumers claim here
	_    [line]byte

	// Constant after construction.
	slots []slot[T]
	mask  uint64
	clear bool

	out guard // MPSC's consumer
	_   [line]byte
}

func (q *multi[T]) init(kind string, capacity int) {
	n := roundUp(kind, capacity, 2)
	q.slots = make([]slot[T], n)
	q.mask = uint64(n - 1)
	q.clear = holdsPointers[T]()
	for i := range q.slots {
		q.slots[i].seq.Store(uint64(i))
	}
}

func (q *multi[T]) slot(p uint64) *slot[T] { return &q.slots[p&q.mask] }

// Push appends v. It returns false, and keeps nothing, if the ring is full or closed, or if the slot in turn is still
// being read. Any goroutine may call it.
func (q *multi[T]) Push(v T) bool {
	for {
		p, n := q.writable(1)
		if n == 0 {
			return false
		}
		perturb()
		if q.tail.CompareAndSwap(p, p+1) {
			q.fill(p, v)
			return true
		}
	}
}

// PushBatch appends as many leading items of src as there is room for, next to each other, and returns how many: 0 if the
// ring is full or closed. One atomic operation claims them all. Any goroutine may call it.
func (q *multi[T]) PushBatch(src []T) int {
	for {
		p, n := q.writable(len(src))
		if n == 0 {
			return 0
		}
		perturb()
		if q.tail.CompareAndSwap(p, p+uint64(n)) {
			for i, v := range src[:n] {
				q.fill(p+uint64(i), v)
			}
			return n
		}
	}
}

// writable returns the position that is next to be claimed by a producer and how many slots from it on are free, at most
// want; 0 if there is none or the ring is closed.
func (q *multi[T]) writable(want int) (p uint64, n int) {
	for {
		p = q.tail.Load()
		if p&closedBit != 0 {
			return p, 0
		}
		for n = 0; n < want && n < len(q.slots) && q.slot(p+uint64(n)).seq.Load() == p+uint64(n); n++ {
		}
		if n > 0 || want == 0 {
			return p, n
		}
		if int64(q.slot(p).seq.Load()-p) < 0 {
			return p, 0 // the last lap's item is still there
		}
		// The slot was claimed since tail was read, or has just come free: look again.
	}
}

// fill writes the claimed slot of position p and passes it to the consumers.
func (q *multi[T]) fill(p uint64, v T) {
	s := q.slot(p)
	s.val = v
	perturb()
	s.seq.Store(p + 1)
}

// readable returns the position that is next to be claimed by a consumer and how many items from it on are finished, at
// most want; 0 if there is none.
func (q *multi[T]) readable(want int) (p uint64, n int) {
	for {
		p = q.head.Load()
		for n = 0; n < want && n < len(q.slots) && q.slot(p+uint64(n)).seq.Load() == p+uint64(n)+1; n++ {
		}
		if n > 0 || want == 0 {
			return p, n
		}
		if int64(q.slot(p).seq.Load()-(p+1)) < 0 {
			return p, 0 // empty, or claimed by a producer that has not finished
		}
	}
}

// take reads the claimed slot of position p and passes it to the producers of the next lap.
func (q *multi[T]) take(p uint64) T {
	s := q.slot(p)
	v := s.val
	if q.clear {
		var zero T
		s.val = zero
	}
	perturb()
	s.seq.Store(p + uint64(len(q.slots)))
	return v
}

// Claim is a slot that a producer claimed and fills in place.
type Claim[T any] struct {
	q *multi[T]
	p uint64
}

// Claim claims the next slot, to be filled through Value and passed on by Commit. It returns false if the ring is full or
// closed. Until Commit the consumers get nothing that was pushed later: a claim is kept for moments and never abandoned.
// Any goroutine may call it.
func (q *multi[T]) Claim() (c Claim[T], ok bool) {
	for {
		p, n := q.writable(1)
		if n == 0 {
			return c, false
		}
		perturb()
		if q.tail.CompareAndSwap(p, p+1) {
			return Claim[T]{q, p}, true
		}
	}
}

// Value is the claimed slot; its old content is undefined. It is valid until Commit.
func (c Claim[T]) Value() *T { return &c.q.slot(c.p).val }

// Commit passes the slot to the consumers. It is called once.
func (c Claim[T]) Commit() { c.q.slot(c.p).seq.Store(c.p + 1) }

// Len returns how many items are in the ring, counting those being written and not those being read: a snapshot.
func (q *multi[T]) Len() int {
	h := q.head.Load() // first: a later tail is never below an earlier head
	n := q.tail.Load()&^closedBit - h
	return int(min(n, uint64(len(q.slots))))
}

// Cap returns the capacity in items.
func (q *multi[T]) Cap() int { return len(q.slots) }

// Empty tells whether no item is in the ring, finished or not.
func (q *multi[T]) Empty() bool { return q.Len() == 0 }

// Close refuses all later pushes. What was pushed before stays to be popped. It may be called from anywhere, and again. It
// wakes nobody: whoever closes also wakes those who sleep.
func (q *multi[T]) Close() { q.tail.Or(closedBit) }

// Closed tells whether Close was called. Items may still wait.
func (q *multi[T]) Closed() bool { return q.tail.Load()&closedBit != 0 }

// Drained tells whether the ring is closed and every item pushed before was claimed by a consumer. It stays true once it
// is. A closed ring from which nothing can be popped is not drained while a push that began before Close is unfinished.
func (q *multi[T]) Drained() bool {
	t := q.tail.Load()
	return t&closedBit != 0 && t&^closedBit == q.head.Load()
}

// MPSC is a bounded ring between many producer goroutines and one consumer goroutine. The items of one producer keep their
// order. Pop and PopBatch belong to the consumer, which may change if a happens-before edge lies between; everything else
// may be called from anywhere.
type MPSC[T any] struct{ multi[T] }

// NewMPSC returns an empty ring for at least capacity items, rounded up to a power of two (at least 2). It panics if
// capacity is above 1<<28.
func NewMPSC[T any](capacity int) *MPSC[T] {
	q := new(MPSC[T])
	q.init("MPSC", capacity)
	return q
}

const mpscConsumer = "MPSC: only one goroutine may pop (the consumer)"

// Pop takes the oldest item. It returns false if there is none, or if its producer has not finished writing it.
func (q *MPSC[T]) Pop() (v T, ok bool) {
	q.out.enter(mpscConsumer)
	p := q.head.Load()
	if q.slot(p).seq.Load() == p+1 {
		v, ok = q.take(p), true
		q.head.Store(p + 1) // alone on this side: a store will do
	}
	q.out.leave()
	return v, ok
}

// PopBatch takes up to len(dst) of the oldest items into dst and returns how many; it stops before one whose producer has
// not finished writing it.
func (q *MPSC[T]) PopBatch(dst []T) (n int) {
	q.out.enter(mpscConsumer)
	p := q.head.Load()
	for n < len(dst) && q.slot(p+uint64(n)).seq.Load() == p+uint64(n)+1 {
		dst[n] = q.take(p + uint64(n))
		n++
	}
	if n > 0 {
		q.head.Store(p + uint64(n))
	}
	q.out.leave()
	return n
}

// MPMC is a bounded ring between many producer and many consumer goroutines. The items of one producer reach each single
// consumer in their order. All methods may be called from anywhere.
type MPMC[T any] struct{ multi[T] }

// NewMPMC returns an empty ring for at least capacity items, rounded up to a power of two (at least 2). It panics if
// capacity is above 1<<28.
func NewMPMC[T any](capacity int) *MPMC[T] {
	q := new(MPMC[T])
	q.init("MPMC", capacity)
	return q
}

// Pop takes the oldest item. It returns false if there is none, or if its producer has not finished writing it.
func (q *MPMC[T]) Pop() (v T, ok bool) {
	for {
		p, n := q.readable(1)
		if n == 0 {
			return v, false
		}
		perturb()
		if q.head.CompareAndSwap(p, p+1) {
			return q.take(p), true
		}
	}
}

// PopBatch takes up to len(dst) of the oldest items, which follow each other in the ring, into dst and returns how many.
// One atomic operation claims them all.
func (q *MPMC[T]) PopBatch(dst []T) int {
	for {
		p, n := q.readable(len(dst))
		if n == 0 {
			return 0
		}
		perturb()
		if q.head.CompareAndSwap(p, p+uint64(n)) {
			for i := range dst[:n] {
				dst[i] = q.take(p + uint64(i))
			}
			return n
		}
	}
}
