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

// Grow is Resize by differences, which may be negative. An unlimited maximum stays so.
func (l *LocalPool) Grow(required, most int) error {
	m := l.cfg.Max
	if m != Unlimited {
		m += most
	}
	return l.Resize(l.cfg.Required+required, m)
}
