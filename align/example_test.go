package align_test

import (
	"fmt"

	"github.com/weirflow/weir/align"
	"github.com/weirflow/weir/credit"
	"github.com/weirflow/weir/segment"
	"github.com/weirflow/weir/serde/event"
)

// printer is a task that prints what it is told.
type printer struct{}

func (printer) Init(*event.Barrier) error { return nil }
func (printer) Trigger(b *event.Barrier, m align.Metrics) error {
	fmt.Printf("take checkpoint %d (%v)\n", b.ID, b.Options.Alignment)
	return nil
}
func (printer) Abort(id int64, cause *align.CheckpointError) error {
	fmt.Printf("checkpoint %d: %v\n", id, cause.Reason)
	return nil
}
func (printer) Measured(int64, align.Metrics)            {}
func (printer) Complete(int64)                           {}
func (printer) Incomplete(int64, *align.CheckpointError) {}

// senders prints what the gate tells the senders.
type senders struct{}

func (senders) Resume(ch int) error           { fmt.Printf("channel %d goes on\n", ch); return nil }
func (senders) AckAll(int)                    {}
func (senders) ReleaseChannel(int)            {}
func (senders) AnnounceBufferSize(int, int32) {}

func barrier(id int64) segment.Buffer {
	e := event.Event{Kind: event.CheckpointBarrier, Barrier: event.Barrier{ID: id,
		Options: event.Options{Alignment: event.Aligned, Timeout: event.NoTimeout}}}
	return segment.Wrap(event.Append(nil, &e), event.DataTypeOf(&e, false))
}

// Two channels, and a barrier on each: the task takes the checkpoint when the second one is taken from the gate, and only
// then do the channels go on.
func Example() {
	gate := credit.NewGate(credit.GateConfig{Channels: 2, Upstream: senders{}})
	handler, err := align.New(align.Config{Inputs: []align.Input{gate}, Counts: []int{2}, Task: printer{}})
	if err != nil {
		fmt.Println(err)
		return
	}
	in := align.NewCheckpointedInput(gate, handler, 0, func() align.Now { return align.Now{} }, nil)

	gate.Deliver(credit.Arrival{Channel: 0, Seq: 0, Buf: barrier(1)})
	gate.Deliver(credit.Arrival{Channel: 1, Seq: 0, Buf: segment.Wrap([]byte("record"), segment.DataBuffer)})
	gate.Deliver(credit.Arrival{Channel: 1, Seq: 1, Buf: barrier(1)})
	for {
		it, status, err := in.Poll()
		if err != nil || status != credit.Ready {
			fmt.Println(status, err)
			return
		}
		if it.Event == nil {
			fmt.Printf("%s from channel %d\n", it.Buf.Bytes(), it.Channel)
			it.Buf.Release()
		}
	}
	// Output:
	// record from channel 1
	// take checkpoint 1 (ALIGNED)
	// channel 0 goes on
	// channel 1 goes on
	// none <nil>
}

// list is a gate whose senders do not stop at a barrier.
type list []credit.Item

func (l *list) Channels() int    { return 2 }
func (l *list) Resume(int) error { return nil }
func (l *list) AckAll(int) error { return nil }
func (l *list) Poll() (credit.Item, credit.Status, error) {
	if len(*l) == 0 {
		return credit.Item{}, credit.End, nil
	}
	it := (*l)[0]
	*l = (*l)[1:]
	return it, credit.Ready, nil
}

// Senders that do not stop at a barrier are aligned by storing what they send until the checkpoint is taken.
func ExampleNewStoring() {
	data := func(ch int, s string) credit.Item {
		return credit.Item{Channel: ch, Type: segment.DataBuffer, Buf: segment.Wrap([]byte(s), segment.DataBuffer)}
	}
	mark := func(ch int) credit.Item {
		return credit.Item{Channel: ch, Type: segment.EventBuffer, Event: &event.Event{Kind: event.CheckpointBarrier,
			Barrier: event.Barrier{ID: 1, Options: event.Options{Alignment: event.Aligned, Timeout: event.NoTimeout}}}}
	}
	gate := &list{mark(0), data(0, "behind the barrier"), data(1, "before the barrier"), mark(1)}
	in, err := align.NewStoring(align.StoringConfig{Limit: -1, Bounded: true, PageSize: 32 << 10, Gate: gate,
		Clock: func() align.Now { return align.Now{} }})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer in.Close()
	if err := in.Register(printer{}); err != nil {
		fmt.Println(err)
		return
	}
	for {
		it, status, err := in.Poll()
		if err != nil || status != credit.Ready {
			fmt.Println(status, err)
			return
		}
		fmt.Printf("%s\n", it.Buf.Bytes())
		it.Buf.Release()
	}
	// Output:
	// before the barrier
	// take checkpoint 1 (ALIGNED)
	// behind the barrier
	// end <nil>
}
