package credit

import (
	"sync"
	"sync/atomic"
)

// handover brings items to another goroutine, in order. Nothing is on its way but what stands beside a read or write of the disk: one
// lock for each batch costs nothing there, and it has no capacity that many views could exceed.
type handover[T any] struct {
	n     atomic.Int32
	mu    sync.Mutex
	items []T
}

func (h *handover[T]) put(x T) {
	h.mu.Lock()
	h.items = append(h.items, x)
	h.n.Store(int32(len(h.items)))
	h.mu.Unlock()
}

func (h *handover[T]) empty() bool { return h.n.Load() == 0 }

// take appends everything to dst.
func (h *handover[T]) take(dst []T) []T {
	if h.empty() {
		return dst
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	dst = append(dst, h.items...)
	clear(h.items)
	h.items = h.items[:0]
	h.n.Store(0)
	return dst
}
