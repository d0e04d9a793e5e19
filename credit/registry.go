package credit

import (
	"errors"
	"fmt"
	"time"
)

// DefaultRequestTimeout is how long a request waits for its partition (taskmanager.network.partition-request-timeout).
const DefaultRequestTimeout = 10 * time.Second

// RegistryConfig configures a Registry.
type RegistryConfig struct {
	// Timeout is how long a request waits for a partition that is not registered; 0 means DefaultRequestTimeout, negative
	// for ever.
	Timeout time.Duration
	// Clock tells the time, from any origin. Nil: it is always 0, and nothing ever expires.
	Clock func() time.Duration
	// MaxWaiting bounds the requests that wait, of all connections; 0 means DefaultMaxWaiting. Further ones are answered with an
	// error.
	MaxWaiting int
}

// DefaultMaxWaiting is the default of RegistryConfig.MaxWaiting. A waiting request costs some 400 bytes, so that all of
// them together cost 50 MB.
const DefaultMaxWaiting = 1 << 17

// Served is a partition that consumers can ask for: a Partition or a BlockingPartition.
type Served interface {
	// ID is how they ask for it.
	ID() PartitionID
	// CreateView opens a view of a range of its subpartitions.
	CreateView(r SubpartitionRange, l ViewListener) (View, error)
	// Released reports whether it was released.
	Released() bool

	release(cause error)
	entered(g *Registry) // where it is registered; nil: nowhere
}

// Registry knows the partitions of a process by their id, and the requests that wait for one (ResultPartitionManager).
// It belongs to the owner of the partitions' loop halves.
type Registry struct {
	cfg        RegistryConfig
	partitions map[PartitionID]Served
	waiting    map[PartitionID]*waitList
	// All waiting requests that have a deadline, the oldest first: their deadlines are in this order.
	first, last *waiter
	count       int // of them
	attempts    attempts
	closed      bool
}

// waiter is a request for a partition that is not registered yet.
type waiter struct {
	partition  PartitionID
	deadline   time.Duration
	patient    bool // it has no deadline, and does not count
	list       *waitList
	prev, next *waiter
	// The neighbours in list.
	older, newer *waiter
	// found is called once when the partition was registered, gone once when it was not in time. The waiter is forgotten
	// before.
	found func(p Served)
	gone  func(err error)
}

// waitList holds the waiters for one partition, in order.
type waitList struct{ first, last *waiter }

var (
	errRegistered     = errors.New("already registered")
	errRegistryClosed = errors.New("registry closed")
)

// NewRegistry returns an empty registry.
func NewRegistry(cfg RegistryConfig) *Registry {
	if cfg.Timeout == 0 {
		cfg.Timeout = DefaultRequestTimeout
	}
	if cfg.MaxWaiting == 0 {
		cfg.MaxWaiting = DefaultMaxWaiting
	}
	if cfg.Clock == nil {
		cfg.Clock = func() time.Duration { return 0 }
	}
	return &Registry{cfg: cfg, partitions: map[PartitionID]Served{}, waiting: map[PartitionID]*waitList{}}
}

// Register makes a partition known, and opens the views of the requests that wait for it. An error of one of them (a
// bad index, say) is that request's, not the producer's. ErrOldAttempt: a newer attempt of it was registered before.
func (g *Registry) Register(p Served) error {
	id := p.ID()
	switch {
	case g.closed:
		return fmt.Errorf("credit: %w", errRegistryClosed)
	case g.partitions[id] != nil:
		return fmt.Errorf("credit: partition %s: %w", id, errRegistered)
	case p.Released():
		return fmt.Errorf("credit: partition %s: %w", id, ErrReleased)
	}
	if err := g.attempts.outdated(id); err != nil {
		return fmt.Errorf("credit: %w", err)
	}
	g.attempts.add(id)
	g.partitions[id] = p
	p.entered(g)
	for _, w := range g.takeAll(id) {
		w.found(p)
	}
	return nil
}

// Lookup returns a registered partition, nil if there is none.
func (g *Registry) Lookup(id PartitionID) Served { return g.partitions[id] }

// Len returns the number of registered partitions, and of requests that wait and have a deadline.
func (g *Registry) Len() (partitions, waiting int) {
	return len(g.partitions), g.count
}

// Release releases a partition and ends the requests that wait for it. cause nil: nothing failed.
func (g *Registry) Release(id PartitionID, cause error) {
	if p := g.partitions[id]; p != nil {
		p.release(cause)
	}
	for _, w := range g.takeAll(id) {
		w.gone(notFound(id))
	}
}

// Expire ends the requests that have waited for too long. It returns when to call it again; ok is false if nothing waits.
func (g *Registry) Expire() (next time.Duration, ok bool) {
	if g.cfg.Timeout < 0 {
		return 0, false
	}
	now := g.cfg.Clock()
	for g.first != nil && g.first.deadline <= now {
		w := g.first
		g.drop(w)
		w.gone(notFound(w.partition))
	}
	if g.first == nil {
		return 0, false
	}
	return g.first.deadline, true
}

// Close releases all partitions and ends all requests that wait.
func (g *Registry) Close() {
	g.closed = true
	for _, p := range g.partitions {
		p.release(nil)
	}
	for g.first != nil {
		w := g.first
		g.drop(w)
		w.gone(notFound(w.partition))
	}
	for id := range g.waiting { // those without a deadline
		for _, w := range g.takeAll(id) {
			w.gone(notFound(id))
		}
	}
}

func notFound(id PartitionID) error { return fmt.Errorf("Partition %s not found.", id) }

// wait adds a waiter.
func (g *Registry) wait(w *waiter) {
	l := g.waiting[w.partition]
	if l == nil {
		l = &waitList{}
		g.waiting[w.partition] = l
	}
	w.older = l.last
	if l.last != nil {
		l.last.newer = w
	} else {
		l.first = w
	}
	l.last = w
	w.list = l
	if w.patient {
		return
	}
	w.deadline = g.cfg.Clock() + g.cfg.Timeout
	g.count++
	w.prev = g.last
	if g.last != nil {
		g.last.next = w
	} else {
		g.first = w
	}
	g.last = w
}

// drop forgets a waiter.
func (g *Registry) drop(w *waiter) {
	if w.list == nil {
		return
	}
	l := w.list
	if w.older != nil {
		w.older.newer = w.newer
	} else {
		l.first = w.newer
	}
	if w.newer != nil {
		w.newer.older = w.older
	} else {
		l.last = w.older
	}
	if l.first == nil {
		delete(g.waiting, w.partition)
	}
	g.unlink(w)
}

func (g *Registry) unlink(w *waiter) {
	if !w.patient {
		if w.prev != nil {
			w.prev.next = w.next
		} else {
			g.first = w.next
		}
		if w.next != nil {
			w.next.prev = w.prev
		} else {
			g.last = w.prev
		}
		g.count--
	}
	w.list, w.prev, w.next, w.older, w.newer = nil, nil, nil, nil, nil
}

// takeAll forgets all waiters for a partition and returns them, in order.
func (g *Registry) takeAll(id PartitionID) (all []*waiter) {
	l := g.waiting[id]
	if l == nil {
		return nil
	}
	delete(g.waiting, id)
	for w := l.first; w != nil; {
		next := w.newer
		g.unlink(w)
		all = append(all, w)
		w = next
	}
	return all
}

// forget removes a partition that was released.
func (g *Registry) forget(p Served) {
	if id := p.ID(); g.partitions[id] == p {
		delete(g.partitions, id)
		g.attempts.remove(id)
	}
	p.entered(nil)
}
