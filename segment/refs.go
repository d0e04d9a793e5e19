package segment

import "sync/atomic"

// The word of a header says which life its segment is in, counts the references, and tells them apart:
//
//	bits  0..16  count of live references; 1 while the segment is in a pool
//	bits 17..21  how many identities were handed out in this life, at most refIDs
//	bits 22..37  dead: bit n is set once the reference with identity n was released
//	bits 38..63  generation, which grows by one with each life and wraps
//
// A handle carries a generation and an identity. The first refIDs references of a life have an identity each, so that
// releasing one of them twice is found and never takes another's share. Those after it are counted only: releasing such
// a one twice is found when the count reaches zero, that is by the generation. A handle that is kept for 1<<26 lives of
// its segment is taken for a live one again.
//
// Memory order. Whoever sees count 1 while holding a live reference is the sole owner: nobody else has a reference to
// change the word with, and nobody can get one except from him. So he may store the word plainly. With a higher count every
// change is a compare-and-swap. A holder's accesses to the segment come before his compare-and-swap, and the last
// holder's load of count 1 comes after it: that edge gives the last holder, and through the return list the next taker,
// everything that was done with the segment before. Between sole owners the hand-over itself (a ring, a channel, a lock)
// is the edge.
const (
	countMask = 1<<17 - 1
	idShift   = 17
	idMask    = 1<<5 - 1
	deadShift = 22
	genShift  = 38
	genOne    = 1 << genShift
	genMask   = ^uint64(genOne - 1)

	// refIDs is how many references of a life have an identity.
	refIDs = 16
	// anonymous is the identity of the others.
	anonymous = refIDs

	// sole is the word of a segment in a pool, and of one just taken, but for the generation: one reference, identity 0.
	sole uint64 = 1 | 1<<idShift
)

// MaxRefs is how many references a buffer can have at a time. Flink's widest broadcast has 1<<15 subpartitions, with a
// reader and a slice for each.
const MaxRefs = countMask

// live tells whether b's segment is in b's life.
func (b Buffer) live() bool { return (atomic.LoadUint64(&b.h.word)^b.meta)&genMask == 0 }

// refs returns the count of live references: a snapshot.
func (h *header) refs() int { return int(atomic.LoadUint64(&h.word) & countMask) }
