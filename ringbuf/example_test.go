package ringbuf_test

import (
	"context"
	"fmt"

	"github.com/weirflow/weir/ringbuf"
)

// A producer stages a batch and publishes it with one atomic operation; the consumer takes a batch out.
func Example() {
	q := ringbuf.NewSPSC[string](8)
	for _, w := range []string{"segment", "buffer", "barrier"} {
		q.Stage(w)
	}
	fmt.Println("before Publish:", q.Len())
	q.Publish()

	dst := make([]string, 8)
	n := q.PopBatch(dst)
	fmt.Println("after Publish:", dst[:n])
	// Output:
	// before Publish: 0
	// after Publish: [segment buffer barrier]
}

// Items can be written and read where they lie.
func ExampleSPSC_Claim() {
	q := ringbuf.NewSPSC[byte](8)
	a, b := q.Claim(5) // b is used where the free part wraps round the end
	n := copy(a, "hello")
	n += copy(b, "hello"[n:])
	q.Commit(n)

	a, b = q.View()
	fmt.Printf("%s%s\n", a, b)
	q.Consume(len(a) + len(b))
	// Output: hello
}

// After Close nothing comes in any more; what was published before comes out.
func ExampleSPSC_Close() {
	q := ringbuf.NewSPSC[int](8)
	q.Push(1)
	q.Close()
	fmt.Println(q.Push(2), q.Drained())
	q.Pop()
	fmt.Println(q.Drained())
	// Output:
	// false false
	// true
}

// A pipe takes the place of a buffered channel between two goroutines.
func ExamplePipe() {
	ctx := context.Background()
	p := ringbuf.NewPipe[int](64, ringbuf.Park())
	go func() {
		defer p.Close()
		for i := range 1000 {
			if p.Send(ctx, i) != nil {
				return
			}
		}
	}()
	sum := 0
	for {
		items, err := p.RecvInPlace(ctx, 16) // valid until the next call
		if err != nil {
			break // ringbuf.ErrClosed
		}
		for _, i := range items {
			sum += i
		}
	}
	fmt.Println(sum)
	// Output: 499500
}

// Any number of goroutines share a queue.
func ExampleQueue() {
	ctx := context.Background()
	q := ringbuf.NewQueue[int](16, ringbuf.Park())
	done := make(chan int)
	for range 2 {
		go func() {
			n := 0
			for {
				if _, err := q.Recv(ctx); err != nil {
					done <- n
					return
				}
				n++
			}
		}()
	}
	for i := range 100 {
		if err := q.Send(ctx, i); err != nil {
			fmt.Println(err)
		}
	}
	q.Close()
	fmt.Println(<-done + <-done)
	// Output: 100
}

// Priority elements overtake all others and keep their own order.
func ExampleDeque() {
	var d ringbuf.Deque[string]
	d.PushBack("data 1")
	d.PushBack("data 2")
	fmt.Println("first priority element:", d.PushPriority("barrier 1"))
	d.PushPriority("barrier 2")
	d.Prioritize(3) // "data 2"
	d.Clear(func(s string) { fmt.Println(s) })
	// Output:
	// first priority element: true
	// barrier 1
	// barrier 2
	// data 2
	// data 1
}

// The sleeper announces itself, looks again, and only then sleeps; whoever has work makes it visible and then wakes.
func ExampleNotifier() {
	n := ringbuf.NewNotifier()
	q := ringbuf.NewSPSC[int](1)
	go func() {
		q.Push(42)
		n.Wake() // one atomic load if nobody sleeps
	}()
	for {
		if v, ok := q.Pop(); ok {
			fmt.Println(v)
			return
		}
		n.Prepare()
		if !q.Empty() {
			n.Cancel()
			continue
		}
		if err := n.Wait(context.Background()); err != nil {
			return
		}
	}
	// Output: 42
}

// Blocks that another goroutine used come home through a ring of its own.
func ExampleOwnerStack() {
	s := ringbuf.NewOwnerStack[int](2)
	s.Put(1)
	s.Put(2)
	back := s.NewReturn() // for one other goroutine

	a, _ := s.Get()
	b, _ := s.Get()
	_, ok := s.Get()
	fmt.Println(a, b, ok)

	done := make(chan struct{})
	go func() {
		back.Put(b)
		back.Put(a)
		back.Flush() // at the latest before it waits
		close(done)
	}()
	<-done
	a, ok = s.Get()
	fmt.Println(a, ok)
	// Output:
	// 2 1 false
	// 2 true
}
