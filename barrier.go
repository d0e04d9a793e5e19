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

// UnalignedBarrier is the barrier of checkpoint id that overtakes the data in front of it, at both ends: no sender waits behind it,
// and what it overtook belongs to the checkpoint. OutputConfig.State and InputConfig.State get that data. It is for inputs with
// UnalignedOn.
func UnalignedBarrier(id int64, at time.Time) Barrier {
	return Barrier{ID: id, Timestamp: at.UnixMilli(), Options: event.Options{Alignment: event.Unaligned, Timeout: event.NoTimeout}}
}

// TimedBarrier is an AlignedBarrier with a time limit: where it still waits when the checkpoint is older than the timeout, in an
// output or an input, it turns into an UnalignedBarrier. It is for inputs with UnalignedOn. The timeout counts in milliseconds.
func TimedBarrier(id int64, at time.Time, timeout time.Duration) Barrier {
	b := AlignedBarrier(id, at)
	b.Options.Timeout = timeout.Milliseconds()
	return b
}

// AtLeastOnceBarrier is a barrier that no sender waits at, for inputs in AtLeastOnce mode.
func AtLeastOnceBarrier(id int64, at time.Time) Barrier {
	return Barrier{ID: id, Timestamp: at.UnixMilli(), Options: event.Options{Alignment: event.AtLeastOnce, Timeout: event.NoTimeout}}
}
