package segment

import (
	"context"
	"sync/atomic"

	"github.com/weirflow/weir/ringbuf"
)

// LocalPool is a share of a Pool with one owner (Flink: LocalBufferPool). The owner is a goroutine, or whoever holds a
// token that belongs to it; unless said otherwise, methods are the owner's. Other goroutines return segments through
// Buffer.Release or a Releaser of their own, and the owner takes these in with Drain.
//
// Terms: required is the guarantee, size what the pool may hold at present (the guarantee and a share of what nobody
// else is guaranteed), requested what it holds, idle or handed out. Segments beyond size are overdraft.
type LocalPool struct {
	// The owner's.
	idle       []*header // a stack: the segment that came home last is warm
	requested  int
	size       int
	over       int // subpartitions at or over their quota
	counts     []int32
	listeners  []Listener
	subscribed bool // noted with the Pool as waiting for a free segment
	isClosed   bool
	draining   bool
	pool       *Pool
	cfg        LocalConfig
	scratch    [64]uint32
	guard      guard

	_ [128]byte

	// Written by others.
	returned    atomic.Pointer[header] // a stack of segments, linked by next
	attn        atomic.Uint32
	target      atomic.Int32 // what redistribution wants size to be
	closed      atomic.Bool
	cancelled   atomic.Bool
	releasers   atomic.Pointer[[]*Releaser]
	nextWaiting *LocalPool // guarded by pool.mu
	notifier    ringbuf.Notifier
	seen        published
}

// What has changed from outside, in LocalPool.attn.
const (
	attnGlobal = 1 << iota // the pool has free segments again
	attnResize             // target has changed
	attnCancel             // Cancel was called
)

func newLocal(p *Pool, cfg LocalConfig) *LocalPool {
	l := &LocalPool{pool: p, cfg: cfg, size: cfg.Required}
	l.idle = make([]*header, 0, min(p.cfg.Segments, cfg.Required))
	l.counts = make([]int32, cfg.Subpartitions)
	l.target.Store(int32(cfg.Required))
	return l
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

// settle brings a new pool to its first size and fetches its first segment.
func (l *LocalPool) settle() {
	l.attend()
	l.update()
}

// Take returns an idle segment as an empty DataBuffer, or one of the overdraft, or false. It never blocks. The caller owns its
// only reference.
func (l *LocalPool) Take() (Buffer, bool) {
	if n := len(l.idle) - 1; n > 0 && l.attn.Load() == 0 {
		h := l.idle[n]
		l.idle = l.idle[:n]
		return Buffer{h: h, gen: h.gen, typ: DataBuffer}, true
	}
	return l.take(noSub)
}

// TakeFor is Take, charged to a subpartition (0 to Subpartitions-1; a negative one is not charged). The quota refuses nothing: a
// subpartition over it is served, but makes the pool unavailable.
func (l *LocalPool) TakeFor(sub int) (Buffer, bool) {
	if sub < 0 {
		return l.Take()
	}
	if n := len(l.idle) - 1; n > 0 && l.attn.Load() == 0 && sub < len(l.counts) {
		h := l.idle[n]
		l.idle = l.idle[:n]
		l.charge(h, sub)
		return Buffer{h: h, gen: h.gen, typ: DataBuffer}, true
	}
	return l.take(sub)
}

func (l *LocalPool) charge(h *header, sub int) {
	h.sub = int32(sub)
	c := l.counts[sub] + 1
	l.counts[sub] = c
	if int(c) == l.cfg.Quota {
		l.over++
	}
}

// take is the whole rule of LocalBufferPool#requestMemorySegment.
func (l *LocalPool) take(sub int) (Buffer, bool) {
	if l.isClosed || sub >= len(l.counts) {
		return Buffer{}, false
	}
	if l.attn.Load() != 0 {
		l.attend()
	}
	if len(l.idle) == 0 {
		l.Drain()
	}
	h := l.pop()
	if h == nil && l.requested >= l.size && l.requested-l.size < l.cfg.Overdraft {
		if h = l.pool.fetch(l, false); h != nil {
			l.requested++
		}
	}
	if h == nil {
		return Buffer{}, false
	}
	if sub >= 0 {
		l.charge(h, sub)
	}
	l.update()
	return h.handle(), true
}

// handle returns the first handle of a life.
func (h *header) handle() Buffer {
	b := Buffer{h: h, gen: h.gen, typ: DataBuffer}
	b.opened()
	return b
}

func (l *LocalPool) pop() *header {
	n := len(l.idle) - 1
	if n < 0 {
		return nil
	}
	h := l.idle[n]
	l.idle = l.idle[:n]
	return h
}

// update keeps one segment idle as long as the pool may hold more (LocalBufferPool#checkAndUpdateAvailability).
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

// attend does what others have asked for.
func (l *LocalPool) attend() {
	a := l.attn.Swap(0)
	if l.isClosed {
		return
	}
	if a&attnGlobal != 0 {
		l.subscribed = false
	}
	if n := int(l.target.Load()); n != l.size {
		l.size = n
		l.shrink()
	}
	l.update()
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

// TakeWait is TakeFor that waits until a segment can be had. It returns ctx's error, or ErrClosed after Cancel or Close. A
// negative sub is not charged.
func (l *LocalPool) TakeWait(ctx context.Context, sub int) (Buffer, error) {
	for {
		if b, ok, err := l.tryWait(sub); ok || err != nil {
			return b, err
		}
		l.notifier.Prepare()
		if b, ok, err := l.tryWait(sub); ok || err != nil {
			l.notifier.Cancel()
			return b, err
		}
		if err := l.notifier.Wait(ctx); err != nil {
			return Buffer{}, err
		}
	}
}

func (l *LocalPool) tryWait(sub int) (Buffer, bool, error) {
	if l.isClosed || l.cancelled.Load() {
		return Buffer{}, false, ErrClosed
	}
	if sub >= len(l.counts) {
		return Buffer{}, false, badConfig("%q has no subpartition %d", l.cfg.Name, sub)
	}
	b, ok := l.TakeFor(sub)
	return b, ok, nil
}

// WaitAvailable waits until Available holds. Errors are as for TakeWait.
func (l *LocalPool) WaitAvailable(ctx context.Context) error {
	ready := func() (bool, error) {
		if l.isClosed || l.cancelled.Load() {
			return false, ErrClosed
		}
		return l.Available(), nil
	}
	for {
		if ok, err := ready(); ok || err != nil {
			return err
		}
		l.notifier.Prepare()
		if ok, err := ready(); ok || err != nil {
			l.notifier.Cancel()
			return err
		}
		if err := l.notifier.Wait(ctx); err != nil {
			return err
		}
	}
}

// Put releases b as the owner, without a detour through the return list. It is Release for buffers of other homes.
func (l *LocalPool) Put(b Buffer) {
	h := b.h
	if h == nil {
		return
	}
	last, err := h.dropRef(b.gen, b.ref)
	switch {
	case err != nil:
		h.misuse(overRelease, b, err)
	case !last:
	case h.home != l || l.isClosed:
		h.sendHome()
	default:
		l.takeIn(h)
	}
}

// takeIn is LocalBufferPool#recycle: a segment is home.
func (l *LocalPool) takeIn(h *header) {
	tag := h.tag
	if tag != 0 {
		h.tag = 0
	}
	if s := h.sub; s >= 0 {
		h.sub = noSub
		if int(l.counts[s]) == l.cfg.Quota {
			l.over--
		}
		l.counts[s]--
	}
	if l.requested > l.size {
		l.requested--
		l.pool.giveBack(h)
	} else {
		l.offer(h)
	}
	if f := l.cfg.OnReturn; f != nil {
		f(tag)
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

// Cancel makes the owner's present and later waits fail with ErrClosed. Any goroutine may call it. Close remains to be
// called by the owner.
func (l *LocalPool) Cancel() {
	l.cancelled.Store(true)
	l.attention(attnCancel)
}
