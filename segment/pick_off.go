//go:build !weirdebug

package segment

// pick takes the segment that was returned last: its memory is warm.
func pick(free *[]uint32) uint32 {
	n := len(*free) - 1
	i := (*free)[n]
	*free = (*free)[:n]
	return i
}

// pop takes the idle segment that came home last, or nil.
func (l *LocalPool) pop() *header {
	if h := l.hot; h != nil {
		l.hot = nil
		return h
	}
	n := len(l.idle) - 1
	if n < 0 {
		return nil
	}
	h := l.idle[n]
	l.idle = l.idle[:n]
	return h
}
