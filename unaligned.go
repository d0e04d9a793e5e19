package weir

import (
	"math"
	"sync/atomic"
	"time"

	"github.com/weirflow/weir/netio"
)

// alignTimer is the one timer that an input's aligner needs (align.Timers). The task sets it, the loop lets it run, and the
// task serves it between two elements: what is due makes the gate alert the task, so that the fast way to a record costs
// no more for it.
type alignTimer struct {
	in    *Input
	timer *netio.Timer // the loop's
	id    int64        // what timer was set for; the loop's
	due   atomic.Int64 // the checkpoint whose time is up, noneDue if none
}

const noneDue = math.MinInt64

func (t *alignTimer) init(in *Input) {
	t.in = in
	t.due.Store(noneDue)
	t.timer = in.node.loop.NewTimer(func() {
		t.due.Store(t.id)
		in.gate.Alert()
	})
}

// Set is part of align.Timers. On the task.
func (t *alignTimer) Set(id, delay int64) {
	t.in.node.loop.Post(func() {
		t.id = id
		t.timer.Reset(millis(delay))
	})
}

// Cancel is part of align.Timers. On the task.
func (t *alignTimer) Cancel(id int64) {
	t.due.CompareAndSwap(id, noneDue)
	t.in.node.loop.Post(func() {
		if t.id == id {
			t.timer.Stop()
		}
	})
}

func (t *alignTimer) isDue() bool { return t.due.Load() != noneDue }

// serve hands the aligner what is due. On the task, between two elements.
func (t *alignTimer) serve() error {
	if !t.isDue() {
		return nil
	}
	return t.in.task.Timeout(t.due.Swap(noneDue))
}

// stop ends the timer for good. On the loop.
func (t *alignTimer) stop() { t.timer.Stop() }

// limitAlignment sees to it that a barrier with a time limit turns unaligned where it is still queued then. (Flink:
// SubtaskCheckpointCoordinatorImpl#registerAlignmentTimer)
func (o *Output) limitAlignment(b *Barrier) {
	if !b.Options.IsTimeoutable() {
		return
	}
	id, age := b.ID, time.Now().UnixMilli()-b.Timestamp
	left := millis(b.Options.Timeout - max(age, 0))
	o.node.loop.Post(func() {
		o.node.loop.After(left, func() {
			if !o.closed.Load() {
				o.part.AlignedBarrierTimeout(id)
			}
		})
	})
}

// millis is a time in milliseconds, cut to what a Duration holds.
func millis(ms int64) time.Duration {
	return time.Duration(min(max(ms, 0), math.MaxInt64/int64(time.Millisecond))) * time.Millisecond
}
