package ringbuf

import "sync/atomic"

// Memory order of SPSC.
//
// Positions count items since construction and never wrap (63 bits); the slot of position p is p modulo the capacity.
// With head ≤ tail ≤ head+capacity:
//
//	positions [head, tail)            belong to the consumer: published, not yet taken
//	positions [tail, head+capacity)   belong to the producer: free, or staged (tail ≤ p < next)
//
// The producer writes slots, then publishes them by a compare-and-swap of tail. A consumer that loads a tail beyond p
// therefore sees the contents of slot p. This is the only edge by which values cross.
// The consumer reads (and clears) slots, then stores head. A producer that loads a head beyond p-capacity therefore
// knows that the old contents of the slot were read before it overwrites them. This is the only edge by which slots return.
//
// Each side keeps the last value of the other's position that it saw. A stale one only hides items or room: both
// positions only grow.
//
// Bit 63 of tail says closed. Since publication is a compare-and-swap, it either happens before Close or fails: nothing
// can arrive after a consumer has seen the ring closed and empty. Publication fails for no other reason, as only the
// producer moves tail; so every operation takes a bounded number of steps (wait-free).

// closedBit marks a closed ring in the position of its producers.
const closedBit = 1 << 63

// SPSC is a bounded ring between one producer goroutine and one consumer goroutine, first in first out.
//
// Stage, StageSlot, Room, Push, PushBatch, Claim, Commit, Publish and Unstage belong to the producer; Pop, PopBatch, Peek, View and Consume
// to the consumer. A side may pass to another goroutine if a happens-before edge lies between. Len, Cap, Empty, Close,
// Closed and Drained may be called from anywhere. Debug builds panic when two goroutines use one side at the same time;
// other builds then lose or repeat items but stay in bounds.
type SPSC[T any] struct {
	_ [line]byte

	// The producer's.
	tail  atomic.Uint64 // published up to here; bit 63: closed
	pub   uint64        // tail without the bit, as the producer last set it
	next  uint64        // staged up to here
	limit uint64        // slots are known to be free up to here: the last head seen, plus the capacity
	_     [line]byte

	// The consumer's.
	head     atomic.Uint64 // taken up to here
	taken    uint64        // the same, for the consumer to read without an atomic
	seenTail uint64
	_        [line]byte

	// Constant after construction.
	buf   []T
	mask  uint64
	clear bool // T holds pointers: forget what was handed on

	in, out guard
	_       [line]byte
}

// NewSPSC returns an empty ring for at least capacity items, rounded up to a power of two (at least 1). It panics if
// capacity is above 1<<28.
func NewSPSC[T any](capacity int) *SPSC[T] {
	n := roundUp("SPSC", capacity, 1)
	return &SPSC[T]{limit: uint64(n), buf: make([]T, n), mask: uint64(n - 1), clear: holdsPointers[T]()}
}

const (
	spscProducer = "SPSC: only one goroutine may push (the producer)"
	spscConsumer = "SPSC: only one goroutine may pop (the consumer)"
)

// room returns how many free slots the producer has, asking the consumer's position only if fewer than want are known.
func (q *SPSC[T]) room(want uint64) uint64 {
	size := uint64(len(q.buf))
	free := q.limit - q.next
	if free < want || free > size {
		q.limit = q.head.Load() + size
		if free = q.limit - q.next; free > size {
			return 0 // two producers at once
		}
	}
	return free
}

// ready returns how many published items the consumer has, asking the producer's position only if fewer than want are
// known.
func (q *SPSC[T]) ready(want uint64) uint64 {
	n := q.seenTail - q.taken
	if n < want || n > uint64(len(q.buf)) {
		q.seenTail = q.tail.Load() &^ closedBit
		if n = q.seenTail - q.taken; n > uint64(len(q.buf)) {
			return 0 // two producers or two consumers at once
		}
	}
	return n
}

// Push stages v and publishes all that is staged. It returns false, and does not keep v, if the ring is full or closed;
// what was staged before is published even if v finds no room.
func (q *SPSC[T]) Push(v T) bool {
	q.in.enter(spscProducer)
	staged := q.stage(v)
	published := q.publish()
	if staged && !published {
		q.unstageLast()
	}
	q.in.leave()
	return staged && published
}

// Stage puts v into the ring without letting the consumer see it before Publish. It returns false, and keeps nothing, if
// the ring is full of staged and published items. Producers that stage batches publish at the latest before they wait.
func (q *SPSC[T]) Stage(v T) bool {
	q.in.enter(spscProducer)
	ok := q.stage(v)
	q.in.leave()
	return ok
}

func (q *SPSC[T]) stage(v T) bool {
	if q.next >= q.limit && q.room(1) == 0 {
		return false
	}
	q.buf[q.next&q.mask] = v
	q.next++
	return true
}

// StageSlot is Stage for an item that the producer writes in its slot, after the call and before Publish or any other call of
// its: it spares the copies of a large one. The slot holds the zero value if T holds pointers and Claim was
// never used, else anything. nil: there is no room.
func (q *SPSC[T]) StageSlot() *T {
	q.in.enter(spscProducer)
	var slot *T
	if q.next < q.limit || q.room(1) != 0 {
		slot = &q.buf[q.next&q.mask]
		q.next++
	}
	q.in.leave()
	return slot
}

// Publish lets the consumer see everything staged, with one atomic operation. It returns false if the ring was closed
// before: then what is staged stays the producer's, to be taken back by Unstage. With nothing staged it does nothing and
// returns true.
func (q *SPSC[T]) Publish() bool {
	q.in.enter(spscProducer)
	ok := q.publish()
	q.in.leave()
	return ok
}

func (q *SPSC[T]) publish() bool {
	if q.next == q.pub {
		return true
	}
	perturb()
	if !q.tail.CompareAndSwap(q.pub, q.next) {
		return q.publishFailed()
	}
	q.pub = q.next
	return true
}

// publishFailed is reached when the ring is closed; or else when two producers broke the rule: then it takes the position
// that it finds, so that later calls stay in bounds.
func (q *SPSC[T]) publishFailed() bool {
	if t := q.tail.Load(); t&closedBit == 0 {
		q.pub, q.next = t, t
	}
	return false
}

// unstageLast takes back the item that was staged last.
func (q *SPSC[T]) unstageLast() {
	if q.next == q.pub {
		return
	}
	q.next--
	if q.clear {
		var zero T
		q.buf[q.next&q.mask] = zero
	}
}

// Staged returns how many items are staged and not yet published. Producer only.
func (q *SPSC[T]) Staged() int { return int(q.next - q.pub) }

// Unstage takes back what was staged and not published, oldest first, and calls f with each (f may be nil). It is for a
// producer that finds the ring closed and has to release what it staged. It returns how many there were.
func (q *SPSC[T]) Unstage(f func(T)) int {
	q.in.enter(spscProducer)
	defer q.in.leave()
	var zero T
	n := int(q.next - q.pub)
	last := q.next
	q.next = q.pub
	for p := q.pub; p != last; p++ {
		s := &q.buf[p&q.mask]
		v := *s
		*s = zero
		if f != nil {
			f(v)
		}
	}
	return n
}

// PushBatch pushes as many leading items of src as there is room for and publishes them, and what was staged before, with
// one atomic operation. It returns how many it took: 0 if the ring is full or closed.
func (q *SPSC[T]) PushBatch(src []T) int {
	q.in.enter(spscProducer)
	n := int(min(q.room(uint64(len(src))), uint64(len(src))))
	a, b := q.window(q.next, uint64(n))
	copy(a, src)
	copy(b, src[len(a):])
	q.next += uint64(n)
	if !q.publish() {
		for range n {
			q.unstageLast()
		}
		n = 0
	}
	q.in.leave()
	return n
}

// Claim returns up to n free slots, in order, as two slices (the second is empty unless the free part wraps round the end
// of the ring). The producer writes them and passes some or all on by Commit. The slices are valid until Commit or any
// other call by the producer. Fewer than n slots, down to none, are returned if there is no more room.
func (q *SPSC[T]) Claim(n int) (a, b []T) {
	if n <= 0 {
		return nil, nil
	}
	return q.window(q.next, min(uint64(n), q.room(uint64(n))))
}

// Commit publishes the first n slots that Claim returned, and what was staged before. It returns false if the ring was
// closed before: then the slots stay the producer's. It panics if there are not n free slots, which Claim rules out.
func (q *SPSC[T]) Commit(n int) bool {
	q.in.enter(spscProducer)
	if n < 0 || uint64(n) > q.room(uint64(n)) {
		panic("ringbuf: SPSC.Commit of more slots than are free")
	}
	q.next += uint64(n)
	ok := q.publish()
	if !ok {
		q.next -= min(uint64(n), q.next-q.pub)
	}
	q.in.leave()
	return ok
}

// window returns the n slots from position p on as one or two slices.
func (q *SPSC[T]) window(p, n uint64) (a, b []T) {
	at := p & q.mask
	first := min(n, uint64(len(q.buf))-at)
	return q.buf[at : at+first : at+first], q.buf[: n-first : n-first]
}

// Pop takes the oldest published item. It returns false if there is none.
func (q *SPSC[T]) Pop() (v T, ok bool) {
	q.out.enter(spscConsumer)
	if q.taken != q.seenTail || q.ready(1) > 0 {
		s := &q.buf[q.taken&q.mask]
		v, ok = *s, true
		if q.clear {
			var zero T
			*s = zero
		}
		q.taken++
		q.head.Store(q.taken)
	}
	q.out.leave()
	return v, ok
}

// PopBatch takes up to len(dst) of the oldest published items into dst and returns how many. The slots go back to the
// producer with one atomic operation.
func (q *SPSC[T]) PopBatch(dst []T) int {
	q.out.enter(spscConsumer)
	n := int(min(q.ready(uint64(len(dst))), uint64(len(dst))))
	if n > 0 {
		a, b := q.window(q.taken, uint64(n))
		c := copy(dst, a)
		copy(dst[c:], b)
		q.consume(a, b)
	}
	q.out.leave()
	return n
}

// consume forgets the slots a and b, which start at the consumer's position, and gives them back.
func (q *SPSC[T]) consume(a, b []T) {
	if q.clear {
		clear(a)
		clear(b)
	}
	q.taken += uint64(len(a) + len(b))
	perturb()
	q.head.Store(q.taken)
}

// Peek returns the oldest published item in its slot, or nil. The consumer may change it there; it is valid until Pop,
// PopBatch or Consume.
func (q *SPSC[T]) Peek() *T {
	if q.ready(1) == 0 {
		return nil
	}
	return &q.buf[q.taken&q.mask]
}

// View returns all published items in place, oldest first, as two slices (the second is empty unless they wrap round the
// end of the ring). They stay the consumer's until it passes them back by Pop, PopBatch or Consume.
func (q *SPSC[T]) View() (a, b []T) {
	return q.window(q.taken, q.ready(uint64(len(q.buf))))
}

// Consume gives the oldest n items' slots back to the producer. It panics if fewer than n are published, which View
// rules out.
func (q *SPSC[T]) Consume(n int) {
	q.out.enter(spscConsumer)
	if n < 0 || uint64(n) > q.ready(uint64(n)) {
		panic("ringbuf: SPSC.Consume of more items than are published")
	}
	q.consume(q.window(q.taken, uint64(n)))
	q.out.leave()
}

// Len returns how many items are published and not yet taken. For the two owners it is a bound (the consumer sees no more
// than it can take, the producer no less than what may still be there); for others a snapshot.
func (q *SPSC[T]) Len() int {
	h := q.head.Load() // first: a later tail is never below an earlier head
	n := q.tail.Load()&^closedBit - h
	return int(min(n, uint64(len(q.buf))))
}

// Cap returns the capacity in items.
func (q *SPSC[T]) Cap() int { return len(q.buf) }

// Empty tells whether no published item waits.
func (q *SPSC[T]) Empty() bool {
	h := q.head.Load()
	return q.tail.Load()&^closedBit == h
}

// Close refuses all later publication. Items published before stay to be popped; items staged stay with the producer
// (Unstage). Close may be called by either side or anyone else, and again. It wakes nobody: whoever closes also wakes the
// Notifier that the other side sleeps on.
func (q *SPSC[T]) Close() { q.tail.Or(closedBit) }

// Closed tells whether Close was called. Items may still wait.
func (q *SPSC[T]) Closed() bool { return q.tail.Load()&closedBit != 0 }

// Drained tells whether the ring is closed and every item published before was taken. It stays true once it is.
func (q *SPSC[T]) Drained() bool {
	t := q.tail.Load()
	return t&closedBit != 0 && t&^closedBit == q.head.Load()
}
