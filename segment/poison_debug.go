//go:build weirdebug

package segment

import "bytes"

// poisonByte fills segments that nobody holds.
const poisonByte = 0xDB

var poisonPattern = bytes.Repeat([]byte{poisonByte}, 4096)

// mapped poisons the memory of a new segment.
func (h *header) mapped() {
	h.dbg.mu.Lock()
	defer h.dbg.mu.Unlock()
	h.dbg.poisoned = false
	h.poison()
}

// poison fills the memory and, where it consists of whole mapped pages, takes all access away. The caller holds dbg.mu.
// Wrapped bytes are not ours to fill.
func (h *header) poison() {
	if h.kind != kindPooled || h.mem == nil || h.dbg.poisoned {
		return
	}
	for m := h.mem; len(m) > 0; {
		m = m[copy(m, poisonPattern):]
	}
	h.dbg.poisoned = true
	h.protect(false)
}

// unpoison gives access back, and tells whether nobody has written meanwhile. The caller holds dbg.mu.
func (h *header) unpoison() bool {
	if !h.dbg.poisoned {
		return true
	}
	h.dbg.poisoned = false
	h.protect(true)
	for m := h.mem; len(m) > 0; {
		n := min(len(m), len(poisonPattern))
		if !bytes.Equal(m[:n], poisonPattern[:n]) {
			return false
		}
		m = m[n:]
	}
	return true
}

// protect is a help, not a promise: the system may refuse (each change can cost a mapping), and poison remains.
func (h *header) protect(usable bool) {
	if sys := h.pool.mem.sys; sys.mapped && len(h.mem)%sys.page == 0 {
		_ = sys.protect(h.mem, usable)
	}
}
