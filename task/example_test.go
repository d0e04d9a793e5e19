package task_test

import (
	"context"
	"encoding/binary"
	"fmt"

	"github.com/weirflow/weir/align"
	"github.com/weirflow/weir/credit"
	"github.com/weirflow/weir/ringbuf"
	"github.com/weirflow/weir/segment"
	"github.com/weirflow/weir/serde"
	"github.com/weirflow/weir/serde/event"
	"github.com/weirflow/weir/task"
)

// Two channels: the watermark that goes out is the lesser one, until one of them is idle.
func ExampleValve() {
	v := task.NewValve(2)
	print := func(o task.ValveOutput, err error) {
		switch {
		case err != nil:
			fmt.Println(err)
		case o.HasWatermark:
			fmt.Println("watermark", o.Watermark)
		default:
			fmt.Println("nothing")
		}
	}
	print(v.InputWatermark(0, 10))
	print(v.InputWatermark(1, 4))
	print(v.InputStatus(1, true))
	// Output:
	// nothing
	// watermark 4
	// watermark 10
}

// A mail that another goroutine posts is done by the task, when it asks for mail between two records.
func ExampleMailbox() {
	m := task.NewMailbox(16, nil)
	done := make(chan error)
	go func() {
		done <- m.Post(task.Mail{Name: "timer", Do: func() error { fmt.Println("the timer fired"); return nil }})
	}()
	fmt.Println("posted:", <-done)

	for record := range 3 {
		if m.HasMail() {
			if _, err := m.Process(); err != nil {
				fmt.Println(err)
			}
		}
		fmt.Println("record", record)
	}
	// Output:
	// posted: <nil>
	// the timer fired
	// record 0
	// record 1
	// record 2
}

// What a gate brought, as an operator sees it: records, and the notice of a checkpoint once its barriers are here.
func ExampleInput() {
	gate := credit.NewGate(credit.GateConfig{Channels: 2, Upstream: nobody{}})
	in, err := task.NewInput(task.InputConfig{Gate: gate, Clock: func() align.Now { return align.Now{} }})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer in.Close()
	record := func(ch int32, text string) {
		e := serde.AppendElement(nil, &serde.Element{Kind: serde.Record, Value: []byte(text)})
		p := append(binary.BigEndian.AppendUint32(nil, uint32(len(e))), e...)
		gate.Deliver(credit.Arrival{Channel: ch, Buf: segment.Wrap(p, segment.DataBuffer)})
	}
	barrier := func(ch int32) {
		e := event.Event{Kind: event.CheckpointBarrier, Barrier: event.Barrier{ID: 1, Options: event.Options{Alignment: event.Aligned, Timeout: event.NoTimeout}}}
		gate.Deliver(credit.Arrival{Channel: ch, Seq: 1, Buf: segment.Wrap(event.Append(nil, &e), event.DataTypeOf(&e, false))})
	}
	record(0, "before")
	barrier(0)
	record(1, "also before")
	barrier(1)
	for {
		switch st, err := in.Next(); {
		case err != nil:
			fmt.Println(err)
			return
		case st == task.Element:
			fmt.Printf("channel %d: %s\n", in.Channel(), in.Element().Value)
		case st == task.Checkpoint:
			fmt.Println("checkpoint", in.Notice().Barrier.ID)
		case st == task.Nothing:
			return
		}
	}
	// Output:
	// channel 0: before
	// channel 1: also before
	// checkpoint 1
}

// An input is an iterator, too: it waits by itself, here for nothing any more, and ends with its senders.
func ExampleInput_All() {
	gate := credit.NewGate(credit.GateConfig{Channels: 1, Upstream: nobody{}})
	in, err := task.NewInput(task.InputConfig{Gate: gate, Clock: func() align.Now { return align.Now{} }})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer in.Close()
	sleeper := task.NewSleeper(ringbuf.NewNotifier(), gate.Notifier())
	e := serde.AppendElement(nil, &serde.Element{Kind: serde.Record, Value: []byte("hello")})
	gate.Deliver(credit.Arrival{Buf: segment.Wrap(append(binary.BigEndian.AppendUint32(nil, uint32(len(e))), e...), segment.DataBuffer)})
	for i, kind := range []event.Kind{event.EndOfData, event.EndOfPartition} {
		e := event.Event{Kind: kind}
		gate.Deliver(credit.Arrival{Seq: int32(i + 1), Buf: segment.Wrap(event.Append(nil, &e), event.DataTypeOf(&e, false))})
	}
	for st, err := range in.All(context.Background(), sleeper.Until) {
		switch {
		case err != nil:
			fmt.Println(err)
		case st == task.Element:
			fmt.Printf("%s\n", in.Element().Value)
		default:
			fmt.Println(st)
		}
	}
	// Output:
	// hello
	// END_OF_DATA
}

// nobody is the senders' side of a gate that is fed by hand.
type nobody struct{}

func (nobody) Resume(int) error              { return nil }
func (nobody) AckAll(int)                    {}
func (nobody) ReleaseChannel(int)            {}
func (nobody) AnnounceBufferSize(int, int32) {}

// An operator that reads its second input to the end before the first one, a hash join's build side, say.
func ExampleSelector() {
	build := task.Selection(0b10)
	s, err := task.NewSelector(task.SelectorConfig{Inputs: 2, Next: func() task.Selection { return build }})
	if err != nil {
		fmt.Println(err)
		return
	}
	s.Next()
	fmt.Println("read input", s.Select(1))
	build = 0b01 // the operator has seen the end of the build side
	st, err := s.Update(task.EndOfData, 1)
	fmt.Println(st, err)
	fmt.Println("read input", s.Select(1))
	// Output:
	// read input 1
	// MORE_AVAILABLE <nil>
	// read input 0
}

// A loop runs mails between two actions, and ends with its input.
func ExampleLoop() {
	box := task.NewMailbox(16, nil)
	left := 2
	loop, err := task.NewLoop(task.LoopConfig{
		Mailbox: box,
		Process: func() (task.Status, error) {
			if left == 0 {
				return task.EndOfInput, nil
			}
			fmt.Println("record", left)
			left--
			return task.More, nil
		},
		Available: func() bool { return true },
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := box.Post(task.Mail{Name: "timer", Do: func() error { fmt.Println("timer"); return nil }}); err != nil {
		fmt.Println(err)
	}
	fmt.Println(loop.Run(context.Background()), loop.Ended())
	// Output:
	// timer
	// record 2
	// record 1
	// <nil> true
}
