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
