package ringbuf

// Deque is a queue of a single owner whose priority elements come before all others; each part keeps its order (Flink's
// PrioritizedDeque). It is a ring that doubles when it is full and never shrinks, so that it allocates nothing in steady
// state. The zero value is an empty deque. It is not safe for use by several goroutines at once, and has no atomics.
//
// Indices count from the front: the priority elements are [0, PriorityLen), the others [PriorityLen, Len). An index out of
// range panics, as with a slice.
type Deque[T any] struct {
	buf  []T // length a power of two, or nil
	head int // slot of element 0
	n    int // elements
	prio int // of them, priority elements
}

// NewDeque returns an empty deque with room for capacity elements before it has to grow.
func NewDeque[T any](capacity int) *Deque[T] {
	d := new(Deque[T])
	d.Reserve(capacity)
	return d
}

// Reserve makes room for at least capacity elements in all, so that nothing is allocated up to there.
func (d *Deque[T]) Reserve(capacity int) {
	if capacity <= len(d.buf) {
		return
	}
	buf := make([]T, roundUp("Deque", capacity, 4))
	for i := range d.n {
		buf[i] = *d.slot(i)
	}
	d.buf, d.head = buf, 0
}

func (d *Deque[T]) slot(i int) *T { return &d.buf[(d.head+i)&(len(d.buf)-1)] }

func (d *Deque[T]) check(i int) {
	if uint(i) >= uint(d.n) {
		panic("ringbuf: Deque index out of range")
	}
}

// Len returns the number of elements.
func (d *Deque[T]) Len() int { return d.n }

// PriorityLen returns the number of priority elements.
func (d *Deque[T]) PriorityLen() int { return d.prio }

// At returns element i in its place. The pointer is valid until the deque changes.
func (d *Deque[T]) At(i int) *T {
	d.check(i)
	return d.slot(i)
}

// Front returns the first element in its place, or nil. The pointer is valid until the deque changes.
func (d *Deque[T]) Front() *T {
	if d.n == 0 {
		return nil
	}
	return d.slot(0)
}

// Back returns the last element in its place, or nil. The pointer is valid until the deque changes.
func (d *Deque[T]) Back() *T {
	if d.n == 0 {
		return nil
	}
	return d.slot(d.n - 1)
}

// PushBack appends v behind all elements.
func (d *Deque[T]) PushBack(v T) {
	if d.n == len(d.buf) {
		d.Reserve(d.n + 1)
	}
	*d.slot(d.n) = v
	d.n++
}

// Append appends an element to be written where it lies: the zero value. The pointer is valid until the deque changes. For large
// elements it spares the copies of PushBack.
func (d *Deque[T]) Append() *T {
	if d.n == len(d.buf) {
		d.Reserve(d.n + 1)
	}
	d.n++
	return d.slot(d.n - 1)
}

// PushPriority inserts v as a priority element: behind the older ones, before all others. It tells whether v is now the
// only priority element, which is when whoever waits has to hear that priority waits.
func (d *Deque[T]) PushPriority(v T) (first bool) {
	if d.n == len(d.buf) {
		d.Reserve(d.n + 1)
	}
	// Move the priority part, which is short, one slot to the front and put v into the gap.
	d.head = (d.head - 1) & (len(d.buf) - 1)
	for i := range d.prio {
		*d.slot(i) = *d.slot(i + 1)
	}
	*d.slot(d.prio) = v
	d.n++
	d.prio++
	return d.prio == 1
}

// PopFront takes the first element: the oldest priority element if there is one. It returns false if there is none.
func (d *Deque[T]) PopFront() (v T, ok bool) {
	if d.n == 0 {
		return v, false
	}
	var zero T
	s := d.slot(0)
	v = *s
	*s = zero
	d.head = (d.head + 1) & (len(d.buf) - 1)
	d.n--
	if d.prio > 0 {
		d.prio--
	}
	return v, true
}

// DropFront takes the first element out and forgets it: PopFront for who has read it in its place. It panics if there is none.
func (d *Deque[T]) DropFront() {
	d.check(0)
	var zero T
	*d.slot(0) = zero
	d.head = (d.head + 1) & (len(d.buf) - 1)
	d.n--
	if d.prio > 0 {
		d.prio--
	}
}

// DropBack takes the last element out, which has no priority, and forgets it. It panics if there is none.
func (d *Deque[T]) DropBack() {
	if d.n == d.prio {
		panic("ringbuf: Deque has no such element")
	}
	var zero T
	d.n--
	*d.slot(d.n) = zero
}

// Remove takes out element i; the others keep their order. Its cost is the distance to the nearer end.
func (d *Deque[T]) Remove(i int) T {
	d.check(i)
	var zero T
	v := *d.slot(i)
	if i < d.n/2 {
		for j := i; j > 0; j-- {
			*d.slot(j) = *d.slot(j - 1)
		}
		*d.slot(0) = zero
		d.head = (d.head + 1) & (len(d.buf) - 1)
	} else {
		for j := i; j < d.n-1; j++ {
			*d.slot(j) = *d.slot(j + 1)
		}
		*d.slot(d.n - 1) = zero
	}
	d.n--
	if i < d.prio {
		d.prio--
	}
	return v
}

// Prioritize makes element i a priority element: it moves behind the older ones and before all others. On a priority
// element it does nothing.
func (d *Deque[T]) Prioritize(i int) {
	d.check(i)
	if i < d.prio {
		return
	}
	v := *d.slot(i)
	for j := i; j > d.prio; j-- {
		*d.slot(j) = *d.slot(j - 1)
	}
	*d.slot(d.prio) = v
	d.prio++
}

// Clear removes all elements, first to last, calling f with each (f may be nil). The room stays reserved. The deque is
// empty before the first call of f, so f may use it.
func (d *Deque[T]) Clear(f func(T)) {
	var zero T
	head, n := d.head, d.n
	if f == nil {
		for i := range n {
			d.buf[(head+i)&(len(d.buf)-1)] = zero
		}
		d.head, d.n, d.prio = 0, 0, 0
		return
	}
	buf := d.buf
	*d = Deque[T]{}
	for i := range n {
		s := &buf[(head+i)&(len(buf)-1)]
		v := *s
		*s = zero
		f(v)
	}
	if d.buf == nil {
		d.buf = buf
	}
}
