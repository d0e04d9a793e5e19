// Package ringbuf hands values from one owner to another without locks.
//
// Its one idea: a ring carries, a deque holds. What crosses between two goroutines goes through a bounded ring whose
// positions are the only words both sides touch. What an owner keeps, and has to reorder, sits in a deque that belongs to
// it alone.
//
//	SPSC[T]        one producer, one consumer; staged and published in batches; claimed and committed in place
//	MPSC[T]        many producers, one consumer
//	MPMC[T]        many producers, many consumers
//	OwnerStack[T]  a last-in-first-out stack of one owner, with rings that bring back what others release
//	IndexStack     a lock-free stack of small integers, for the shared free list of a pool
//	Deque[T]       single owner: priority elements first, order kept within each part
//	Notifier       one sleeper, many wakers; waking costs one atomic load while nobody sleeps
//
// Invariant: at each moment every slot of a ring belongs to exactly one side, and only the atomic store that the file
// names passes it to the other. Each file states that argument in full.
//
// No function here blocks, except those whose names say Wait. Nothing here starts a goroutine. Nothing allocates after
// construction, except a Deque that outgrows its capacity.
package ringbuf
