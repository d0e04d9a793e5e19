package weir_test

import (
	"context"
	"fmt"
	"time"

	"github.com/weirflow/weir"
)

// A node that writes, a node that reads; in real life in two processes.
func Example() {
	ctx := context.Background()
	producer, _ := weir.Open(weir.Config{Listen: "127.0.0.1:0"})
	defer producer.Close()
	consumer, _ := weir.Open(weir.Config{})
	defer consumer.Close()

	out, _ := producer.NewOutput(weir.OutputConfig{Name: "words"})
	in, _ := consumer.NewInput(weir.InputConfig{Sources: []weir.Source{{Addr: producer.Addr().String(), Name: "words"}}})
	written := make(chan error, 1)
	go func() {
		for _, w := range []string{"to", "be", "or", "not", "to", "be"} {
			_ = out.Write(ctx, nil, []byte(w))
		}
		written <- out.Finish(ctx) // waits until the reader has everything
	}()

	count := map[string]int{}
	for el, err := range in.All(ctx) { // el.Value is a view, valid until the next turn
		if err != nil {
			fmt.Println(err)
			return
		}
		if el.Kind == weir.Record {
			count[string(el.Value)]++
		}
	}
	fmt.Println(count, <-written)
	// Output: map[be:2 not:1 or:1 to:2] <nil>
}

// Two stages of a pipeline on one node: the second reads the first one's output where it lies, without a connection, and sees all else that an input
// of another node sees.
func ExampleSource_local() {
	ctx := context.Background()
	node, _ := weir.Open(weir.Config{})
	defer node.Close()

	out, _ := node.NewOutput(weir.OutputConfig{Name: "numbers"})
	in, _ := node.NewInput(weir.InputConfig{Sources: []weir.Source{{Addr: weir.Local, Name: "numbers"}}})
	written := make(chan error, 1)
	go func() {
		for i := range 10 {
			_ = out.Write(ctx, nil, []byte{byte(i)})
		}
		_ = out.Watermark(ctx, 1000)
		written <- out.Finish(ctx)
	}()

	sum := 0
	for el, err := range in.All(ctx) {
		if err != nil {
			fmt.Println(err)
			return
		}
		switch el.Kind {
		case weir.Record:
			sum += int(el.Value[0])
		case weir.Watermark:
			fmt.Println("the sum up to", el.Timestamp, "is", sum)
		}
	}
	fmt.Println(<-written)
	// Output:
	// the sum up to 1000 is 45
	// <nil>
}

// A checkpoint goes through the stream as a barrier; an input with several channels waits until it came through all of them.
func ExampleInput_checkpoint() {
	ctx := context.Background()
	producer, _ := weir.Open(weir.Config{Listen: "127.0.0.1:0"})
	defer producer.Close()
	consumer, _ := weir.Open(weir.Config{})
	defer consumer.Close()

	out, _ := producer.NewOutput(weir.OutputConfig{Name: "numbers", Subpartitions: 2, Partition: weir.RoundRobin})
	in, _ := consumer.NewInput(weir.InputConfig{Sources: []weir.Source{{Addr: producer.Addr().String(), Name: "numbers", Last: 1}}})
	written := make(chan error, 1)
	go func() {
		for i := range 10 {
			_ = out.Write(ctx, nil, []byte{byte(i)})
			if i == 5 {
				_ = out.Barrier(weir.AlignedBarrier(1, time.Now())) // behind the sixth number, on both channels
			}
		}
		written <- out.Finish(ctx)
	}()

	sum := 0
	for el, err := range in.All(ctx) {
		if err != nil {
			fmt.Println(err)
			return
		}
		switch el.Kind {
		case weir.Record:
			sum += int(el.Value[0])
		case weir.Checkpoint:
			fmt.Println("checkpoint", el.Checkpoint.Barrier.ID, "with the sum", sum)
			el.Checkpoint.Ack()
		}
	}
	fmt.Println("in the end", sum, <-written)
	// Output:
	// checkpoint 1 with the sum 15
	// in the end 45 <nil>
}

// A task in the middle of a pipeline: it adds up what comes in and passes it on. Its checkpoint is taken, the task is lost, and another
// attempt of it goes on from there.
func ExampleTask() {
	ctx := context.Background()
	begin := func(attempt int, from *weir.Snapshot, numbers ...byte) (last *weir.Snapshot, sum byte) {
		reports := make(chan weir.TaskReport, 1)
		node, _ := weir.Open(weir.Config{Listen: "127.0.0.1:0"})
		defer node.Close()
		mid, err := node.NewTask(weir.TaskConfig{Name: "adder", Attempt: attempt, Restore: from,
			Report: func(r weir.TaskReport) { reports <- r }}) // a coordinator would store the snapshot
		if err != nil {
			fmt.Println(err)
			return nil, 0
		}
		addr := node.Addr().String()
		source, _ := node.NewOutput(weir.OutputConfig{Name: "numbers", Attempt: attempt})
		in, _ := node.NewInput(weir.InputConfig{Task: mid, Sources: []weir.Source{{Addr: addr, Name: "numbers"}}})
		out, _ := node.NewOutput(weir.OutputConfig{Name: "sums", Task: mid})
		sink, _ := node.NewInput(weir.InputConfig{Attempt: attempt, Sources: []weir.Source{{Addr: addr, Name: "sums"}}})
		for _, n := range numbers {
			_ = source.Write(ctx, nil, []byte{n})
		}
		_ = source.Barrier(weir.AlignedBarrier(int64(attempt), time.Now()))
		_ = source.Flush()

		if from != nil {
			sum = from.State[0]
		}
		for taken := false; !taken; { // the task
			el, err := in.Next(ctx)
			if err != nil {
				fmt.Println(err)
				return nil, 0
			}
			switch el.Kind {
			case weir.Record:
				sum += el.Value[0]
				_ = out.Write(ctx, nil, []byte{sum})
			case weir.Checkpoint: // its barrier is in the output already
				el.Checkpoint.Ack([]byte{sum})
				taken = true
			}
		}
		for el, err := range sink.All(ctx) {
			if err != nil || el.Kind == weir.Checkpoint {
				break
			}
			if el.Kind == weir.Record {
				fmt.Println("attempt", attempt, "sum", el.Value[0])
			}
		}
		return (<-reports).Snapshot, sum
	}
	first, _ := begin(1, nil, 1, 2, 3)
	_, sum := begin(2, first, 10)
	fmt.Println("in the end", sum)
	// Output:
	// attempt 1 sum 1
	// attempt 1 sum 3
	// attempt 1 sum 6
	// attempt 2 sum 16
	// in the end 16
}
