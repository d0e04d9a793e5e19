package netio

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/weirflow/weir/ringbuf"
)

// roster lists the notifiers of callers that sleep on them. Who adds its own before its last look is seen there by whoever brings work and looks
// after. Any goroutine.
type roster struct {
	n    atomic.Int32 // how many, for a look without the lock
	mu   sync.Mutex
	list []*ringbuf.Notifier // guarded by mu
}

func (r *roster) add(n *ringbuf.Notifier) {
	r.mu.Lock()
	r.list = append(r.list, n)
	r.mu.Unlock()
	r.n.Add(1)
}

func (r *roster) remove(n *ringbuf.Notifier) {
	r.n.Add(-1)
	r.mu.Lock()
	defer r.mu.Unlock()
	last := len(r.list) - 1
	r.list[slices.Index(r.list, n)] = r.list[last]
	r.list[last] = nil
	r.list = r.list[:last]
}

// wake lets them look again, and take the turns over. All are woken, as the first may be ready and leave without a turn; they are few, and the
// token decides.
func (r *roster) wake() {
	if r.n.Load() == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, n := range r.list {
		n.Wake()
	}
}
