package segment

// sendHome passes a segment on whose last reference was released, from any goroutine. It cannot fail: the list of returned
// segments is linked through their headers.
func (h *header) sendHome() {
	switch {
	case h.kind != kindPooled:
		h.unwrap()
	case h.home == nil:
		h.tag = 0
		h.pool.recycle([]*header{h}, 1)
	default:
		h.home.giveReturned(h)
	}
}

// giveReturned puts h on the list of returned segments. Any goroutine.
func (l *LocalPool) giveReturned(h *header) {
	for {
		top := l.returned.Load()
		h.next = top
		if l.returned.CompareAndSwap(top, h) {
			break
		}
	}
	l.afterReturn()
}

// afterReturn follows a visible return: either the owner is there to take it in, or the pool is closed and the returner
// does it.
//
// The closing owner stores closed before it empties the lists, the returner loads it after it published: at least one of them
// sees the other.
func (l *LocalPool) afterReturn() {
	if l.closed.Load() {
		l.reap()
		return
	}
	l.wake()
}

// Drain takes in every segment that was returned by other goroutines, and does what redistribution has asked for. For each
// segment OnReturn is called with its tag. It returns how many came home.
func (l *LocalPool) Drain() int {
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
	if rs := l.releasers.Load(); rs != nil {
		for _, r := range *rs {
			for {
				c := r.ring.PopBatch(l.scratch[:])
				for _, i := range l.scratch[:c] {
					l.takeIn(&l.pool.headers[i])
				}
				n += c
				if c < len(l.scratch) {
					break
				}
			}
		}
	}
	if l.attn.Load() != 0 {
		l.attend()
	}
	l.draining = false
	l.publish()
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
	l.Drain()
	for h := l.pop(); h != nil; h = l.pop() {
		l.requested--
		l.pool.giveBack(h)
	}
	l.isClosed = true
	l.listen0()
	l.pool.mu.Lock()
	if l.requested > 0 {
		l.pool.closing = append(l.pool.closing, l)
	}
	l.pool.mu.Unlock()
	l.closed.Store(true)
	l.reap()
	l.pool.remove(l)
}

func (l *LocalPool) listen0() {
	ls := l.listeners
	l.listeners = nil
	for _, f := range ls {
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
	h.tag, h.sub = 0, noSub
	l.requested--
	l.pool.put(h, w)
}
