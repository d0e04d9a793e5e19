package segment

import "sync/atomic"

// header describes one segment. It lives on the Go heap, is made once with the pool, and outlives every handle, so that
// a stale handle finds a generation that is not its own instead of foreign memory.
//
// Who may touch what:
//
//	state   the count and identities of the references (refs.go)
//	gen     written by whoever releases the last reference; read by holders of a reference
//	mem     constant while the segment is handed out
//	tag     the holder of the only reference
//	sub     the owner of the home pool, before it hands the segment out and after it came back
//	next    whoever returned the segment, until the owner of the home pool takes it in
//	home    set when a local pool fetches the segment; constant while it is handed out
//	marker  stored by the builder, loaded by its readers
//
// The first 64 bytes are what taking and releasing need. The marker, where a writer and a loop meet, is in the next line.
type header struct {
	state uint64 // first, so that it is aligned for 64-bit atomics on every platform
	gen   uint32
	sub   int32
	mem   []byte
	tag   uint32
	index uint32 // in Pool.headers
	home  *LocalPool
	next  *header

	marker atomic.Int32
	slab   int32
	kind   kind
	free   bool // in the free list; guarded by pool.mu
	pool   *Pool
	file   *File
	fileAt int64
	dbg    debugHeader
	_      [16]byte
}

// kind says what stands behind a header.
type kind uint8

const (
	kindPooled  kind = iota // a segment of a pool
	kindWrapped             // bytes of somebody else's on the Go heap
	kindFile                // a region of a file
)

// noSub is header.sub of a segment that is charged to no subpartition.
const noSub = -1
