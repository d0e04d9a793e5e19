package segment

// sendHome passes a segment on whose last reference was released, from any goroutine. It cannot fail: the list of returned
// segments is linked through their headers.
func (h *header) sendHome() {
	switch {
	case h.kind != kindPooled:
		h.unwrap()
	case h.home == nil:
		h.note = 0
		h.pool.recycle([]*header{h}, 1)
	default:
		h.home.giveReturned(h)
	}
}

// giveReturned puts h on the list of returned segments. Any goroutine.
func (l *LocalPool) giveReturned(h *header) { l.giveAll(h, h) }

// giveAll is giveReturned for those that are linked from first to last; none if first is nil.
func (l *LocalPool) giveAll(first, last *header) {
	if first == nil {
		return
	}
	for {
		top := l.returned.Load()
		last.next = top
		if l.returned.CompareAndSwap(top, first) {
			break
		}
	}
	l.afterReturn()
}

// afterReturn follows a visible return: either the owner is there to take it in, or the pool is closed and the returner
// does it.
//
// The closing owner stores closed before it empties the lists, the returner loads it after it published: at least one
// of them sees the other.
func (l *LocalPool) afterReturn() {
	if l.closed.Load() {
		l.reap()
		return
	}
	l.wake()
}

// Drain takes in every segment that was returned by other goroutines, and does what redistribution has asked for. For each
// segment OnReturn is called with its tag. It returns how many came home.
//
// It costs three loads if there is nothing to do, however many Releasers there are.
func (l *LocalPool) Drain() int {
	l.guard.enter()
	n := l.drain()
	l.guard.leave()
	return n
}

func (l *LocalPool) drain() int {
	if l.draining || l.isClosed {
		return 0
	}
	l.draining = true
	n := 0
	if l.returned.Load() != nil {
		for h := l.returned.Swap(nil); h != nil; n++ {
			next := h.next
			h.next = nil
			l.takeIn(h)
			h = next
		}
	}
	if l.flushed.Load() {
		l.flushed.Store(false) // before the rings are looked at: who publishes later sets it again
		for _, r := range *l.releasers.Load() {
			n += l.drainRing(r)
		}
	}
	if l.attn.Load() != 0 {
		l.attend()
	}
	l.draining = false
	if n > 0 {
		l.replain()
		l.publish()
	}
	return n
}

// drainRing takes in what one Releaser has published. A callback may close the pool meanwhile: then takeIn passes on
// what was popped already, and the ring is no longer ours to pop.
func (l *LocalPool) drainRing(r *Releaser) (n int) {
	for !l.isClosed {
		c := r.ring.PopBatch(l.scratch[:])
		// Without callbacks nothing that a return could change: the usual case is decided once a batch.
		plain := l.onReturn == nil && len(l.listeners) == 0 && l.requested <= l.size
		for _, i := range l.scratch[:c] {
			h := &l.pool.headers[i]
			if plain && h.note == 0 {
				l.idle = append(l.idle, h)
			} else {
				l.takeIn(h)
			}
		}
		n += c
		if c < len(l.scratch) {
			break
		}
	}
	return n
}

// Close ends the pool: idle segments and the guarantee go back to the Pool, listeners are told. Segments that are handed
// out go back to the Pool as they are released, without OnReturn. Close may be called again.
//
// Flink: LocalBufferPool#lazyDestroy.
func (l *LocalPool) Close() {
	if l.isClosed {
		return
	}
	l.guard.enter()
	l.drain()
	if l.isClosed { // by OnReturn
		l.guard.leave()
		return
	}
	listeners := l.listeners
	l.listeners = nil
	for h := l.pop(); h != nil; h = l.pop() {
		l.requested--
		l.pool.giveBack(h)
	}
	l.isClosed = true
	l.replain()
	l.publish()
	l.pool.remove(l) // with it l.requested becomes the pool lock's
	l.closed.Store(true)
	l.reap()
	l.guard.leave()
	for _, f := range listeners {
		f.OnClose()
	}
}

// reap returns what came home to a closed pool. The lock makes its callers take turns as the consumer of the lists.
func (l *LocalPool) reap() {
	var w waker
	p := l.pool
	p.mu.Lock()
	for h := l.returned.Swap(nil); h != nil; {
		next := h.next
		h.next = nil
		l.bury(h, &w)
		h = next
	}
	if rs := l.releasers.Load(); rs != nil {
		for _, r := range *rs {
			for {
				i, ok := r.ring.Pop()
				if !ok {
					break
				}
				l.bury(&p.headers[i], &w)
			}
		}
	}
	if l.requested == 0 {
		for i, x := range p.closing {
			if x == l {
				p.closing = append(p.closing[:i], p.closing[i+1:]...)
				break
			}
		}
	}
	p.mu.Unlock()
	w.wake()
}

func (l *LocalPool) bury(h *header, w *waker) {
	h.note = 0
	l.requested--
	l.pool.put(h, w)
}
