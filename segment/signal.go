package segment

// Signal counts what one goroutine makes visible, for another one that looks whether there was anything since. Bump is a release: who sees its count
// sees everything before it. It is no barrier: who looks at something else afterwards, to decide whether the other one has to be woken, needs
// one in between. The zero value has counted nothing.
type Signal struct {
	m marker
	n int32
}

// Bump counts. One goroutine only.
func (s *Signal) Bump() {
	s.n++
	s.m.Store(s.n)
}

// Count is the number of Bumps; it wraps. Any goroutine.
func (s *Signal) Count() int32 { return s.m.Load() }
