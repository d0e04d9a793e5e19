package segment

import (
	"sync/atomic"

	"github.com/weirflow/weir/internal/buildtag"
	"github.com/weirflow/weir/ringbuf"
)

// LocalPool is a share of a Pool with one owner (Flink: LocalBufferPool). The owner is a goroutine, or whoever holds a
// token that belongs to it; unless said otherwise, methods are the owner's. Other goroutines return segments through
// Buffer.Release or a Releaser of their own, and the owner takes these in with Drain.
//
// Terms: required is the guarantee, size what the pool may hold at present (the guarantee and a share of what nobody
// else is guaranteed), requested what it holds, idle or handed out. Segments beyond size are overdraft.
//
// No lock guards a LocalPool. What redistribution wants of it is a word that the owner looks at when it takes, drains
// or waits. So an owner that does none of these keeps idle segments that it should give back: that is the price of a
// path without a lock.
type LocalPool struct {
	// The owner's.
	hot        *header
	plain      *LocalPool // the pool itself if a segment that the owner puts, uncharged and untagged, just becomes hot; else nobody
	idle       []*header  // a stack: the segment that came home last is warm
	requested  int
	size       int
	over       int // subpartitions at or over their quota
	counts     []int32
	listeners  []Listener
	onReturn   func(tag uint32) // cfg.OnReturn
	subscribed bool             // noted with the Pool as waiting for a free segment
	isClosed   bool
	draining   bool
	pool       *Pool
	cfg        LocalConfig // Required and Max are guarded by pool.mu, and changed by the owner only
	scratch    [64]uint32
	guard      guard

	_ [128]byte

	// Written by others, seldom; so the owner's loads find it in the cache.
	attn        atomic.Uint32
	target      atomic.Int32 // what redistribution wants size to be
	closed      atomic.Bool
	cancelled   atomic.Bool
	releasers   atomic.Pointer[[]*Releaser]
	nextWaiting *LocalPool // guarded by pool.mu, or the waker's that has detached the list

	_ [128]byte

	// Written by others with each return.
	returned atomic.Pointer[header] // a stack of segments, linked by next
	flushed  atomic.Bool            // a Releaser has published something since drain last looked at their rings
	notifier ringbuf.Notifier

	_ [128]byte

	// Written by the owner for others to read.
	seen published
}

// What has changed from outside, in LocalPool.attn.
const (
	attnGlobal   = 1 << iota // the pool has free segments again
	attnResize               // target has changed
	attnCancel               // Cancel was called
	attnReleaser             // a Releaser was closed
)

func newLocal(p *Pool, cfg LocalConfig) *LocalPool {
	l := &LocalPool{pool: p, cfg: cfg, size: cfg.Required, onReturn: cfg.OnReturn}
	l.idle = make([]*header, 0, min(p.cfg.Segments, cfg.Required))
	l.counts = make([]int32, cfg.Subpartitions)
	l.target.Store(int32(cfg.Required))
	l.replain()
	return l
}

// settle brings a new pool to its first size and fetches its first segment.
func (l *LocalPool) settle() {
	l.guard.enter()
	l.attend()
	l.update()
	l.publish()
	l.guard.leave()
}

// nobody is no segment's home.
var nobody = new(LocalPool)

// replain sets plain; to be called after each change of what it depends on.
func (l *LocalPool) replain() {
	l.plain = nobody
	if !buildtag.Debug && !l.isClosed && len(l.listeners) == 0 && l.requested <= l.size && l.onReturn == nil && len(l.idle) > 0 {
		l.plain = l
	}
}

// attention tells the owner that something changed. Any goroutine may call it, with no lock held.
func (l *LocalPool) attention(bit uint32) {
	l.attn.Or(bit)
	l.wake()
}

func (l *LocalPool) wake() {
	l.notifier.Wake()
	if f := l.cfg.Wake; f != nil {
		f()
	}
}

// attend does what others have asked for.
func (l *LocalPool) attend() {
	a := l.attn.Swap(0)
	if l.isClosed {
		return
	}
	if a&attnGlobal != 0 {
		l.subscribed = false
	}
	if a&attnReleaser != 0 {
		l.prune()
	}
	if n := int(l.target.Load()); n != l.size {
		l.size = n
		l.shrink()
	}
	l.update()
	l.replain()
	l.publish()
}

// shrink gives idle segments beyond the size back; those handed out follow when they come home.
func (l *LocalPool) shrink() {
	for l.requested > l.size {
		h := l.pop()
		if h == nil {
			return
		}
		l.requested--
		l.pool.giveBack(h)
	}
}

// update keeps one segment idle as long as the pool may hold more (LocalBufferPool#checkAndUpdateAvailability). If the Pool
// has none, it is asked to say when it has.
func (l *LocalPool) update() {
	for len(l.idle) == 0 && l.requested < l.size && !l.subscribed && !l.isClosed {
		h := l.pool.fetch(l, true)
		if h == nil {
			l.subscribed = true
			return
		}
		l.requested++
		l.offer(h)
	}
}

// Available tells whether Take would succeed without overdraft and no subpartition is at its quota. A closed pool is
// available, so that whoever waits goes on and finds it closed.
func (l *LocalPool) Available() bool {
	if l.isClosed {
		return true
	}
	if len(l.idle) == 0 || l.over > 0 || l.attn.Load() != 0 {
		l.Drain()
	}
	return len(l.idle) > 0 && l.over == 0
}

// Notifier is woken when a segment was returned, or the pool was changed, by another goroutine. The owner may sleep on it
// together with other causes.
func (l *LocalPool) Notifier() *ringbuf.Notifier { return &l.notifier }

// Name returns the name given at creation.
func (l *LocalPool) Name() string { return l.cfg.Name }

// SegmentSize returns the size of a segment in bytes.
func (l *LocalPool) SegmentSize() int { return l.pool.cfg.SegmentSize }

// SetOverdraft changes how many segments Take may borrow beyond the size. Segments borrowed already stay until they are
// released.
func (l *LocalPool) SetOverdraft(n int) { l.cfg.Overdraft = max(n, 0) }

// Cancel makes the owner's present and later waits fail with ErrClosed. Any goroutine may call it. Close remains to be
// called by the owner.
func (l *LocalPool) Cancel() {
	l.cancelled.Store(true)
	l.attention(attnCancel)
}
