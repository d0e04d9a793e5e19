package weir

import (
	"sync"
	"time"
)

// OutputStats is what an output did so far.
type OutputStats struct {
	// Waits is how often the writer had to wait for memory, Waited how long in all, and WaitedFor how long because of each
	// subpartition: the one that held most buffers when the wait began.
	Waits     int64
	Waited    time.Duration
	WaitedFor []time.Duration
	// WaitingFor is the subpartition that the writer waits for right now, -1 if it does not wait.
	WaitingFor int
	// Subpartitions, in order.
	Subpartitions []SubpartitionStats
}

// SubpartitionStats is a subpartition's state at the moment.
type SubpartitionStats struct {
	// Queued buffers and events, Backlog as the consumer is told.
	Queued, Backlog int
	// Blocked: a barrier was sent, and the consumer has not resumed yet.
	Blocked bool
	// Consumer: one has come, and has not gone.
	Consumer bool
}

// Stats returns what the output did so far, reusing the slices of dst. Any goroutine.
func (o *Output) Stats(dst OutputStats) OutputStats {
	o.waits.read(&dst)
	dst.Subpartitions = dst.Subpartitions[:0]
	_ = o.node.do(func() error {
		if o.block != nil {
			dst.Subpartitions = o.blockingStats(dst.Subpartitions)
			return nil
		}
		for i := range o.part.Subpartitions() {
			s := o.part.Subpartition(i)
			dst.Subpartitions = append(dst.Subpartitions, SubpartitionStats{
				Queued: s.Queued(), Backlog: int(s.Backlog()), Blocked: s.Blocked(), Consumer: s.HadView() && !s.Released(),
			})
		}
		return nil
	})
	return dst
}

// Written returns the buffers that the writer finished and their bytes, once for each subpartition that got them. The writing
// goroutine.
func (o *Output) Written() (buffers, bytes uint64) {
	s := o.w.Stats()
	return s.Buffers, s.Bytes
}

// waitStats keeps account of the writer's waits. The writer writes, anybody reads.
type waitStats struct {
	mu      sync.Mutex // a wait is long; nothing here is on the hot path
	since   time.Time
	sub     int
	waiting bool
	n       int64
	total   time.Duration
	by      []time.Duration
}

func (w *waitStats) begin(sub int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.waiting, w.sub, w.since = true, sub, time.Now()
	w.n++
}

func (w *waitStats) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.waiting {
		return
	}
	d := time.Since(w.since)
	w.waiting = false
	w.total += d
	for len(w.by) <= w.sub {
		w.by = append(w.by, 0)
	}
	w.by[w.sub] += d
}

func (w *waitStats) read(st *OutputStats) {
	w.mu.Lock()
	defer w.mu.Unlock()
	st.Waits, st.Waited, st.WaitingFor = w.n, w.total, -1
	st.WaitedFor = append(st.WaitedFor[:0], w.by...)
	if w.waiting {
		st.WaitingFor = w.sub
		st.Waited += time.Since(w.since)
	}
}
