package weir

import (
	"time"

	"github.com/weirflow/weir/serde/event"
)

// Barrier is a checkpoint barrier.
type Barrier = event.Barrier

// AlignedBarrier is the barrier of checkpoint id, which began at the given time: aligned, without a time limit. It is for
// inputs in ExactlyOnce mode: each sender waits behind it until the checkpoint is taken.
func AlignedBarrier(id int64, at time.Time) Barrier {
	return Barrier{ID: id, Timestamp: at.UnixMilli(), Options: event.Options{Alignment: event.Aligned, Timeout: event.NoTimeout}}
}

// AtLeastOnceBarrier is a barrier that no sender waits at, for inputs in AtLeastOnce mode.
func AtLeastOnceBarrier(id int64, at time.Time) Barrier {
	return Barrier{ID: id, Timestamp: at.UnixMilli(), Options: event.Options{Alignment: event.AtLeastOnce, Timeout: event.NoTimeout}}
}
