package segment

import (
	"errors"
	"slices"
	"sync"
	"time"
)

// closeRetries bounds how often Close tries again to unmap what the system refuses, with doubling pauses from 1 ms.
const closeRetries = 5

// Pool holds all segments of a process. Local pools take guaranteed shares of it and divide the rest (Flink:
// NetworkBufferPool). All methods may be called from any goroutine.
//
// A lock guards it: mu, for the free list, the accounting of guarantees and the list of local pools. It is taken when a
// local pool is made, resized or closed, and when a segment moves between a local pool and the free list. In steady state
// segments go round between a local pool and its users, so the lock isn't on their way. No callback runs under it.
type Pool struct {
	cfg     Config
	headers []header
	misused misuseCounters

	mu        sync.Mutex
	mem       arena
	locals    []*LocalPool // in order of creation, which is the order of redistribution
	closing   []*LocalPool // closed, with segments still out
	required  int          // guaranteed to local pools and unpooled requests
	unpooled  int          // handed out by Request
	requests  []*request   // blocked, first come first served
	waitHead  *LocalPool   // local pools that wait for a free segment, in order of arrival
	waitTail  *LocalPool
	nextLocal int
	closed    bool
}

// NewPool makes a pool. Errors wrap ErrConfig, or are *MemoryError.
func NewPool(cfg Config) (*Pool, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	return newPool(cfg.withDefaults(), nil)
}

// newPool makes a pool on sys; nil for the one that cfg asks for.
func newPool(cfg Config, sys *system) (*Pool, error) {
	p := &Pool{cfg: cfg, mem: arena{sys: sys}, headers: make([]header, cfg.Segments)}
	for i := range p.headers {
		h := &p.headers[i]
		h.word, h.index, h.pool = sole, uint32(i), p
	}
	if err := p.mem.init(cfg, p.headers); err != nil {
		return nil, err
	}
	return p, nil
}

// SegmentSize returns the size of a segment in bytes.
func (p *Pool) SegmentSize() int { return p.cfg.SegmentSize }

// Segments returns the budget.
func (p *Pool) Segments() int { return p.cfg.Segments }

// waker collects who has to be told something once the lock is free.
type waker struct {
	first *LocalPool // waiting for free segments, linked by nextWaiting
	more  []*LocalPool
}

func (w *waker) wake() {
	for l := w.first; l != nil; {
		next := l.nextWaiting // before the owner can see the attention and wait again
		l.nextWaiting = nil
		l.attention(attnGlobal)
		l = next
	}
	for _, l := range w.more {
		l.attention(attnResize)
	}
}

// fetch takes a free segment for l. If there is none, l is noted and gets attention once there is one.
func (p *Pool) fetch(l *LocalPool, note bool) *header {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil
	}
	var h *header
	if len(p.requests) == 0 {
		h = p.mem.take()
	}
	if h == nil {
		if note {
			if p.waitTail == nil {
				p.waitHead = l
			} else {
				p.waitTail.nextWaiting = l
			}
			p.waitTail = l
		}
		return nil
	}
	h.home = l
	return h
}

// put returns segments to the free list, or to the first blocked request. The caller holds mu, and wakes after it.
func (p *Pool) put(h *header, w *waker) {
	h.home = nil
	if len(p.requests) > 0 {
		r := p.requests[0]
		r.got = append(r.got, h)
		if len(r.got) == r.want {
			p.requests = p.requests[1:]
			close(r.done)
		}
		return
	}
	p.mem.put(h)
	if p.waitHead != nil {
		w.first, p.waitHead, p.waitTail = p.waitHead, nil, nil
	}
}

// giveBack returns one segment of a local pool.
func (p *Pool) giveBack(h *header) {
	var w waker
	p.mu.Lock()
	p.put(h, &w)
	p.mu.Unlock()
	w.wake()
}

// NewLocal makes a local pool that is guaranteed cfg.Required segments. Errors are *TooFewError if they can't be,
// ErrClosed, or wrap ErrConfig; then nothing was changed. Guaranteed is a right, not a transfer: segments may still be
// with other pools that have to give them back.
func (p *Pool) NewLocal(cfg LocalConfig) (*LocalPool, error) {
	if err := cfg.validate2(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return nil, ErrClosed
	}
	if free := p.cfg.Segments - p.required; cfg.Required > free {
		p.mu.Unlock()
		return nil, p.tooFew(cfg.Name, cfg.Required, free)
	}
	p.required += cfg.Required
	l := newLocal(p, cfg)
	p.locals = append(p.locals, l)
	var w waker
	p.redistribute(&w)
	p.mu.Unlock()
	w.wake()
	l.settle()
	return l, nil
}

func (c LocalConfig) validate2() error { return c.withDefaults().validate() }

func (p *Pool) tooFew(name string, wanted, available int) error {
	return &TooFewError{Name: name, Wanted: wanted, Available: available, Total: p.cfg.Segments,
		SegmentSize: p.cfg.SegmentSize, Setting: "segment.Config.Segments"}
}

// redistribute divides the segments that are not guaranteed among the local pools that can take more than their
// guarantee, in proportion to how much more they can take. The caller holds mu, and wakes after it.
func (p *Pool) redistribute(w *waker) {
	avail := p.cfg.Segments - p.required
	shares(avail, p.locals, func(l *LocalPool, size int) {
		if int(l.target.Load()) != size {
			l.target.Store(int32(size))
			w.more = append(w.more, l)
		}
	})
}

// remove ends the guarantee of a local pool that is being closed.
func (p *Pool) remove(l *LocalPool) {
	var w waker
	p.mu.Lock()
	if i := slices.Index(p.locals, l); i >= 0 {
		p.locals = slices.Delete(p.locals, i, i+1)
		p.required -= l.cfg.Required
		p.closing = append(p.closing, l)
		p.forget(l)
		p.redistribute(&w)
	}
	p.mu.Unlock()
	w.wake()
}

// forget takes l out of the list of those who wait for a free segment. The caller holds mu.
func (p *Pool) forget(l *LocalPool) {
	var last *LocalPool
	for at := &p.waitHead; *at != nil; {
		x := *at
		if x == l {
			*at, x.nextWaiting = x.nextWaiting, nil
			continue
		}
		last, at = x, &x.nextWaiting
	}
	p.waitTail = last
}

// Close ends the pool: blocked requests fail with ErrClosed, and the memory is given back. If buffers are still out, or
// local pools open, it returns a *LeakError that names them; their memory is given back when they come home. Close may be
// called again, and then reports what is still out.
func (p *Pool) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed {
		p.closed = true
		for _, r := range p.requests {
			r.err = ErrClosed
			close(r.done)
		}
		p.requests = nil
	}
	p.mem.close()
	for i := 0; i < closeRetries && p.mem.stats.Stuck > 0; i++ {
		p.mem.sys.sleep(time.Millisecond << i)
		p.mem.retry(true)
	}
	err := p.leaks()
	if n := p.mem.stats.Stuck; n > 0 {
		kind, limit := p.mem.sys.explainMap(p.mem.unmapErr)
		err = errors.Join(err, &MemoryError{Op: "unmap", Bytes: p.mem.stats.Mapped, Limit: limit, Kind: kind, Err: p.mem.unmapErr})
	}
	return err
}

// Trim gives back all slabs that are idle now, but as many as are needed to keep keep segments free without mapping
// anew, and tries again to unmap what the system refused before.
func (p *Pool) Trim(keep int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mem.trim(keep)
}
