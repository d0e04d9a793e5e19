// Package ringbuf hands values from one owner to another without locks.
//
// Its one idea: a ring carries, a deque holds. What crosses between two goroutines goes through a bounded ring whose
// positions are the only words both sides touch. What an owner keeps, and has to reorder, sits in a deque that belongs to
// it alone.
//
//	SPSC[T]        one producer, one consumer; staged and published in batches; claimed and committed in place
//	MPSC[T]        many producers, one consumer
//	MPMC[T]        many producers, many consumers
//	Pipe[T]        an SPSC ring whose ends can wait: in place of a buffered channel between two goroutines
//	Queue[T]       an MPMC ring whose ends can wait
//	OwnerStack[T]  a last-in-first-out stack of one owner, with rings that bring back what others release
//	IndexStack     a lock-free stack of small integers, for a free list that many share
//	Deque[T]       single owner: priority elements first, order kept within each part
//	Notifier       one sleeper, many wakers; waking costs one atomic load while nobody sleeps
//	Sleepers       the same for many sleepers
//	Waiting        spin, yield, park: how an end waits
//
// Invariant: at each moment every slot of a ring belongs to exactly one side, and only the atomic operation that the file
// names passes it to the other. Each file begins with that argument: who owns a slot before and after, which store
// publishes what, what happens when positions wrap, and who may have to wait for whom.
//
// # Closing and draining
//
// Close may be called from either side or anywhere else. It takes effect at one moment: a push happens before it, and
// comes out, or after it, and is refused. A consumer that finds Drained true has seen everything there will ever be. A
// producer that finds the ring closed takes back what it had staged (SPSC.Unstage) and releases it.
//
// # Waiting
//
// No function here blocks, except those that take a context, and Notifier.WaitTimeout. A nil context means no limit. Rings
// wake nobody by themselves; Pipe and Queue do. Nothing here starts a goroutine. Nothing allocates after construction,
// except a Deque that outgrows its room.
//
// # Misuse
//
// Two goroutines on one side of an SPSC ring are a bug of the caller. Debug builds (-tags weirdebug) panic and name the
// ring and the rule; other builds may lose or repeat items, but stay in bounds.
package ringbuf
