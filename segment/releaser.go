package segment

import (
	"sync/atomic"

	"github.com/weirflow/weir/internal/buildtag"
	"github.com/weirflow/weir/ringbuf"
)

const (
	// releaseBatch is how many returns a Releaser publishes at once. One by one, each would cost an atomic operation on
	// a line that the owner reads; and the owner would look at the ring for each.
	releaseBatch = 16
	// releaserRing bounds the ring of a Releaser. It is no limit to returns: one that finds the ring full goes to the
	// list of returned segments.
	releaserRing = 4096
)

// Releaser returns segments of one LocalPool from one other goroutine, in batches, through a ring of its own. It belongs to
// that goroutine. What was released is seen by the pool's owner after 16 releases or Flush; so Flush before you wait for
// anything, lest the owner waits for what is staged here.
type Releaser struct {
	home  *LocalPool
	ring  *ringbuf.SPSC[uint32]
	n     int
	batch [releaseBatch]uint32 // staged
}

// NewReleaser returns a Releaser for one other goroutine. Any goroutine may call it.
func (l *LocalPool) NewReleaser() *Releaser {
	r := &Releaser{home: l, ring: ringbuf.NewSPSC[uint32](min(l.pool.cfg.Segments, releaserRing))}
	for {
		old := l.releasers.Load()
		var list []*Releaser
		if old != nil {
			list = append(list, *old...)
		}
		list = append(list, r)
		if l.releasers.CompareAndSwap(old, &list) {
			return r
		}
	}
}

// Release is Buffer.Release. If it was the last reference of a segment of this pool, the segment is staged.
func (r *Releaser) Release(b Buffer) {
	h := b.h
	if h == nil {
		return
	}
	if s := atomic.LoadUint64(&h.word); s == b.meta&genMask|sole && h.home == r.home && !buildtag.Debug {
		h.word = s + genOne
		r.stage(h)
		return
	}
	r.release(b)
}

// release is Release with everything else that can happen.
func (r *Releaser) release(b Buffer) {
	h := b.h
	last, err := b.dropRef()
	switch {
	case err != nil:
		h.misuse(overRelease, err)
	case !last:
	case h.home != r.home:
		h.sendHome()
	default:
		r.stage(h)
	}
}

func (r *Releaser) stage(h *header) {
	r.batch[r.n&(releaseBatch-1)] = h.index
	if r.n++; r.n == releaseBatch {
		r.Flush()
	}
}

// Flush makes everything released so far visible to the owner, and wakes it if it sleeps.
func (r *Releaser) Flush() {
	if r.n == 0 {
		return
	}
	staged := r.batch[:r.n]
	r.n = 0
	for _, i := range staged[r.ring.PushBatch(staged):] { // no room: more segments are on their way than the ring holds
		r.home.pool.headers[i].sendHome()
	}
	if !r.home.flushed.Load() {
		r.home.flushed.Store(true)
	}
	r.home.afterReturn()
}

// Staged returns how many returns are not yet visible to the owner.
func (r *Releaser) Staged() int { return r.n }

// Close flushes and ends the Releaser. It must not be used after.
func (r *Releaser) Close() {
	r.Flush()
	r.ring.Close()
	r.home.attention(attnReleaser)
}

// prune forgets releasers that are closed and empty.
func (l *LocalPool) prune() {
	for {
		old := l.releasers.Load()
		if old == nil {
			return
		}
		var list []*Releaser
		for _, r := range *old {
			if !r.ring.Drained() {
				list = append(list, r)
			}
		}
		if l.releasers.CompareAndSwap(old, &list) {
			return
		}
	}
}
