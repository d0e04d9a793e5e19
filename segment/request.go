package segment

import (
	"context"
	"fmt"
)

// request is a blocked Request.
type request struct {
	want int
	got  []*header
	err  error
	done chan struct{}
}

// Request takes n segments out of the pool that belong to no local pool (Flink: requestUnpooledMemorySegments). They
// count as guaranteed, so that it fails with *TooFewError at once if the pool can't spare them, and otherwise waits
// until others have given enough back, ctx is done, or the pool is closed. Requests are served in order, one after the
// other, so that two of them never hold each other's segments. On an error nothing was taken. The buffers are released
// one by one from anywhere, or together by ReleaseAll.
func (p *Pool) Request(ctx context.Context, n int) ([]Buffer, error) {
	if n < 0 {
		return nil, badConfig("number of buffers to request must not be negative: %d", n)
	}
	var w waker
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return nil, ErrClosed
	}
	if n == 0 {
		p.mu.Unlock()
		return nil, nil
	}
	if free := p.cfg.Segments - p.required; n > free {
		p.mu.Unlock()
		return nil, p.tooFew("", n, free)
	}
	p.required += n
	p.unpooled += n
	p.redistribute(&w)
	r := &request{want: n, got: make([]*header, 0, n), done: make(chan struct{})}
	if len(p.requests) == 0 {
		for len(r.got) < n {
			h := p.mem.take()
			if h == nil {
				break
			}
			r.got = append(r.got, h)
		}
	}
	wait := len(r.got) < n
	if wait {
		p.requests = append(p.requests, r)
	}
	p.mu.Unlock()
	w.wake()
	if wait {
		var cancelled <-chan struct{}
		if ctx != nil {
			cancelled = ctx.Done()
		}
		select {
		case <-r.done:
		case <-cancelled:
			if p.withdraw(r) {
				r.err = fmt.Errorf("segment: gave up waiting for %d network buffers, having %d: %w", n, len(r.got), context.Cause(ctx))
			}
		}
	}
	if r.err != nil {
		p.recycle(r.got, n)
		return nil, r.err
	}
	out := make([]Buffer, n)
	for i, h := range r.got {
		out[i] = h.handle()
	}
	return out, nil
}

// withdraw takes r out of the queue. It returns false if r has been served or failed meanwhile.
func (p *Pool) withdraw(r *request) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, x := range p.requests {
		if x == r {
			p.requests = append(p.requests[:i], p.requests[i+1:]...)
			return true
		}
	}
	return false
}

// recycle returns unpooled segments, and the guarantee of n.
func (p *Pool) recycle(hs []*header, n int) {
	var w waker
	p.mu.Lock()
	for _, h := range hs {
		p.put(h, &w)
	}
	p.required -= n
	p.unpooled -= n
	p.redistribute(&w)
	p.mu.Unlock()
	w.wake()
}

// ReleaseAll releases buffers that came from Request. Those that are the last references go back together, with one
// redistribution.
func (p *Pool) ReleaseAll(bs []Buffer) {
	hs := make([]*header, 0, len(bs))
	for _, b := range bs {
		if h := b.h; h != nil {
			last, err := b.dropRef()
			switch {
			case err != nil:
				h.misuse(overRelease, err)
			case !last:
			case h.pool == p && h.home == nil && h.kind == kindPooled:
				h.note = 0
				hs = append(hs, h)
			default:
				h.sendHome()
			}
		}
	}
	if len(hs) > 0 {
		p.recycle(hs, len(hs))
	}
}
