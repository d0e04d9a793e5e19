//go:build weirdebug

package segment

import "slices"

// pick takes the segment that was returned first, so that what is used after its release is found before it is taken anew.
func pick(free *[]uint32) uint32 {
	i := (*free)[0]
	*free = slices.Delete(*free, 0, 1)
	return i
}

// pop takes the idle segment that came home first, or nil.
func (l *LocalPool) pop() *header {
	if len(l.idle) == 0 {
		return nil
	}
	h := l.idle[0]
	l.idle = slices.Delete(l.idle, 0, 1)
	return h
}
