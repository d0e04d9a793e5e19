//go:build !weirdebug

package segment

// parked follows the entry of a segment into the free list.
func (h *header) parked(*system) {}

// unparked precedes its leaving.
func (h *header) unparked(*system) {}
