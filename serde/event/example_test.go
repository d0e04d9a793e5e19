package event_test

import (
	"fmt"

	"github.com/weirflow/weir/serde/event"
)

// A barrier goes out as a pipelined partition sends it, with four zero bytes at the end, and is read again.
func Example() {
	out := event.Event{Kind: event.CheckpointBarrier, Barrier: event.Barrier{
		ID:        5,
		Timestamp: 1700000000000,
		Options:   event.Options{Alignment: event.Aligned, Timeout: event.NoTimeout},
	}}
	p := event.AppendPadded(nil, &out)

	var in event.Event
	if err := event.Decode(p, &in); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(len(p), in.String(), event.DataTypeOf(&in, false))
	// Output: 38 CheckpointBarrier(5 @ 1700000000000, CHECKPOINT ALIGNED) ALIGNED_CHECKPOINT_BARRIER
}
