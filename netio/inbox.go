package netio

import (
	"sync"
	"sync/atomic"
)

// inbox holds what wants the loop's attention and came from other goroutines: connections and listeners to register, aborts,
// news from the goroutines of portable connections. Everything is in it at most once, so it is bounded by their number.
// A lock is good enough: nothing of it is on the path of a native connection's data.
type inbox struct {
	count atomic.Int32
	mu    sync.Mutex
	list  []attender // guarded by mu
	work  []attender // the token holder's
	shut  bool       // guarded by mu: the loop is gone
}

type attender interface {
	attend() // holder of the token
}

// put adds a, which is not in the inbox. False: the loop is closed.
func (b *inbox) put(a attender) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.shut {
		return false
	}
	b.list = append(b.list, a)
	b.count.Add(1)
	return true
}

// attend handles what is in the inbox now.
func (l *Loop) attend() {
	b := &l.inbox
	b.mu.Lock()
	b.list, b.work = b.work[:0], b.list
	b.count.Store(0)
	b.mu.Unlock()
	for i, a := range b.work {
		b.work[i] = nil
		a.attend()
	}
}
