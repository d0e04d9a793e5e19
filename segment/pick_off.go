//go:build !weirdebug

package segment

// pick takes the segment that was returned last: its memory is warm.
func pick(free *[]uint32) uint32 {
	n := len(*free) - 1
	i := (*free)[n]
	*free = (*free)[:n]
	return i
}
