package segment

import "sync/atomic"

// header describes one segment. It lives on the Go heap, is made once with the pool, and outlives every handle, so that
// a stale handle finds a generation that is not its own instead of foreign memory.
//
// Who may touch what:
//
//	word    the life, count and identities of the references (refs.go)
//	mem     constant while the segment is handed out
//	note    the tag half by the holder of the only reference, the other by the owner of the home pool, before it hands the
//	        segment out and after it came back
//	next    whoever returned the segment, until the owner of the home pool takes it in
//	home    set when a local pool fetches the segment; constant while it is handed out
//	marker  stored by the builder, loaded by its readers
//
// The first 64 bytes are what taking and releasing need. The marker, where a writer and a loop meet, is in the next line.
type header struct {
	_     [0]atomic.Uint64 // takes no room, and aligns headers to 8 bytes on 32-bit platforms too, in slices as well
	word  uint64           // first, and hence aligned for 64-bit atomics; a plain word, since its sole owner reads it plainly
	home  *LocalPool
	note  uint64 // the subpartition that the segment is charged to, plus 1, << 32 | the tag
	mem   []byte
	next  *header
	index uint32 // in Pool.headers
	slab  int32  // in arena.slabs

	marker marker
	kind   kind
	free   bool // in the free list; guarded by pool.mu
	pool   *Pool
	file   *File
	fileAt int64
	dbg    debugHeader
	_      [32]byte
}

// kind says what stands behind a header.
type kind uint8

const (
	kindPooled  kind = iota // a segment of a pool
	kindWrapped             // bytes of somebody else's on the Go heap
	kindFile                // a region of a file
)

// noSub stands for no subpartition.
const noSub = -1

const noteShift = 32

func (h *header) tag() uint32 { return uint32(h.note) }

// sub returns the subpartition that the segment is charged to, or noSub.
func (h *header) sub() int { return int(h.note>>noteShift) - 1 }
