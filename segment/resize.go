package segment

// Resize changes the guarantee and the maximum of the pool. Errors are *TooFewError if the Pool can't guarantee so
// much, ErrClosed, or wrap ErrConfig; then nothing was changed. A smaller guarantee gives idle segments back at once
// and those in use when they come home. (Flink's pools keep both for life.)
func (l *LocalPool) Resize(required, most int) error {
	c := l.cfg
	c.Required, c.Max = required, most
	if err := c.validate(); err != nil {
		return err
	}
	if l.isClosed {
		return ErrClosed
	}
	p := l.pool
	var w waker
	p.mu.Lock()
	switch free := p.cfg.Segments - p.required; {
	case p.closed:
		p.mu.Unlock()
		return ErrClosed
	case required-l.cfg.Required > free:
		p.mu.Unlock()
		return p.tooFew(l.cfg.Name, required, free+l.cfg.Required)
	}
	p.required += required - l.cfg.Required
	l.cfg.Required, l.cfg.Max = required, most
	l.target.Store(int32(required)) // what a pool without room to grow stays at
	p.redistribute(&w)
	p.mu.Unlock()
	w.wake()
	l.settle()
	return nil
}

// Spare returns how many segments no pool may ever hold: a pool whose maximum grows by as many takes nothing from the others.
func (l *LocalPool) Spare() int {
	p := l.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	spare := p.cfg.Segments - p.required
	for avail, i := spare, 0; i < len(p.locals); i++ {
		spare -= p.locals[i].room(avail)
	}
	return max(spare, 0)
}

// Size returns what the pool may hold now without overdraft: its maximum, or less if other pools are to have their share.
func (l *LocalPool) Size() int { return l.size }

// Grow is Resize by differences, which may be negative. An unlimited maximum stays so.
func (l *LocalPool) Grow(required, most int) error {
	m := l.cfg.Max
	if m != Unlimited {
		m += most
	}
	return l.Resize(l.cfg.Required+required, m)
}
