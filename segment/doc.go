// Package segment holds the memory of a data plane: a fixed budget of equal blocks outside the Go heap, handed round by
// counted handles.
//
// # One idea
//
// All memory is there from the start. A Pool maps it, cuts it into segments, and guarantees shares of it to LocalPools,
// each of which has one owner: a goroutine, or whoever holds a token. The owner takes segments and hands them out as
// Buffers. A Buffer is a value of three words that owns one reference. Whoever holds the last reference releases it,
// from any goroutine, and the segment finds its way home by itself. Nothing on this way allocates or takes a lock.
//
//	           Pool            all segments, and who is guaranteed how many      lock, seldom taken
//	     fetch │  ▲ give back  what is beyond the size
//	           ▼  │
//	         LocalPool ◄─────────────────────────┐                               one owner, no lock
//	Take, TakeFor │                              │ Drain, and Put by the owner
//	           ▼                                 │
//	         Buffer ─► Retain, Slice ─► Release ─┤ list of returned segments     any goroutine
//	            │                                │
//	            └─────────────► Releaser.Release ┘ a ring, 16 at a time          one other goroutine
//
// # Invariants
//
// A segment is in one place: free in the Pool, idle in one LocalPool, or handed out. It goes home when its last
// reference is released, once. The bytes below a Builder's committed length never change while a reference exists. A
// return never fails and never blocks: the list of returned segments is linked through their headers, and a Releaser
// whose ring is full uses that list.
//
// # Who owns what, and until when
//
// A handle from Take, Wrap, Retain, Slice, Reader.Next, Reader.Take or PartsReader.Next owns a reference. It is passed on like a file descriptor: the
// last to have it calls Release, once, and then nobody uses it, or the []byte got from it. The sole holder of a segment
// may write all of it (Memory). As soon as there are two, everybody reads, except for the writer of a Builder, who goes
// on behind what he has committed.
//
// Slices are values too, and each pins the segment by a reference of its own; there is no list of slice objects that could
// run out.
//
// # Misuse
//
// A handle knows the life of its segment (generation) and its reference (identity). So a second Release, or a use of a
// handle after its segment went home, is found: it changes nothing, and is counted in PoolUsage.Misuse. A build with
// -tags weirdebug panics and prints where the buffer was taken, shared and released, fills released memory with 0xDB
// and takes all access to its pages away, and gives segments out first in, first out. Pool.Close lists what didn't come
// home, in a debug build with stacks. Pool.Guard turns the fault of touching a released page into an error that names
// the buffer.
//
// # Locks
//
// Pool.mu guards the free list and the accounting. It is taken when a local pool is made, resized or closed; when one
// fetches a segment, which happens until it has as many as it needs at a time, and with each segment of overdraft; and
// when one gives a segment back because its size fell. A pool that has what it needs never takes it. No callback runs
// under it. File has a lock that is taken per region, beside which there is a read of the disk. Nothing else here has
// one.
//
// # Builds
//
// On Linux segments are mapped memory. Race builds, -tags nounsafe and other systems use the Go heap, by the same code
// above the arena: the race detector doesn't see mapped memory, so a clean race run on it would prove nothing.
//
// # Flink
//
// The rules are those of NetworkBufferPool, LocalBufferPool, NetworkBuffer, BufferBuilder and BufferConsumer of Flink
// 2.3. What differs is said where it is done; the tests named rules_* quote Flink's steps. In short: pools have one
// owner instead of a lock, so that what redistribution takes away is given back at the owner's next call;
// redistribution goes in order of creation; blocked requests are served in order; listeners are also served by what a
// pool fetches; a refused segment is accounted once; closing twice is harmless.
//
// The package is useful alone: as a buffer pool for any program that passes blocks between goroutines.
package segment
