package segment_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/weirflow/weir/segment"
)

// A pool, a share of it, and a buffer that goes to another goroutine and comes home by itself.
func Example() {
	pool, err := segment.NewPool(segment.Config{Segments: 64, SegmentSize: 4096})
	if err != nil {
		fmt.Println(err)
		return
	}
	local, err := pool.NewLocal(segment.LocalConfig{Name: "lines", Required: 8, Max: 32})
	if err != nil {
		fmt.Println(err)
		return
	}

	b, _ := local.Take()
	n := copy(b.Memory(), "hello, world")
	b = b.Resized(n)

	done := make(chan struct{})
	go func(b segment.Buffer) { // owns the reference now
		defer close(done)
		fmt.Printf("%s\n", b.Bytes())
		b.Release()
	}(b)
	<-done

	fmt.Println("came home:", local.Drain())
	local.Close()
	fmt.Println("closed:", pool.Close())
	// Output:
	// hello, world
	// came home: 1
	// closed: <nil>
}

// A slice pins the segment; the parent may be released first.
func ExampleBuffer_Slice() {
	b := segment.Wrap([]byte("key=value"), segment.DataBuffer)
	value := b.Slice(4, 5)
	b.Release()
	fmt.Printf("%s, %d reference\n", value.Bytes(), value.Refs())
	value.Release()
	fmt.Println(value.Released(), value.TryRelease())
	// Output:
	// value, 1 reference
	// true segment: buffer was released before
}

// A broadcast: one buffer, a reader for each subpartition, and the writer goes on while they read.
func ExampleBuilder() {
	pool, _ := segment.NewPool(segment.Config{Segments: 1, SegmentSize: 64})
	local, _ := pool.NewLocal(segment.LocalConfig{Name: "out", Required: 1})
	b, _ := local.Take()

	w := segment.MakeBuilder(b)
	first := w.NewReader()
	second := first.Copy()

	w.Append([]byte("one "))
	w.Commit()
	x, finished := first.Next()
	fmt.Printf("first:  %q %v\n", x.Bytes(), finished)
	x.Release()

	w.Append([]byte("two"))
	w.Finish()
	w.Close()
	for _, r := range []*segment.Reader{&first, &second} {
		x, finished = r.NextClose()
		fmt.Printf("%q %v\n", x.Bytes(), finished)
		x.Release()
	}
	fmt.Println("came home:", local.Drain())
	// Output:
	// first:  "one " false
	// "two" true
	// "one two" true
	// came home: 1
}

// A goroutine that releases often has a Releaser, whose returns the owner sees in batches.
func ExampleReleaser() {
	pool, _ := segment.NewPool(segment.Config{Segments: 32, SegmentSize: 64})
	local, _ := pool.NewLocal(segment.LocalConfig{Name: "in", Required: 32, OnReturn: func(tag uint32) {
		fmt.Println("credit for channel", tag)
	}})
	r := local.NewReleaser() // for the other goroutine
	for ch := range uint32(3) {
		b, _ := local.Take()
		b.SetTag(ch)
		r.Release(b)
	}
	fmt.Println("staged:", r.Staged(), "home:", local.Drain())
	r.Flush() // before it waits for anything
	local.Drain()
	// Output:
	// staged: 3 home: 0
	// credit for channel 0
	// credit for channel 1
	// credit for channel 2
}

// What a pool can't guarantee is refused when the local pool is made, with the numbers.
func ExampleTooFewError() {
	pool, _ := segment.NewPool(segment.Config{Segments: 10, SegmentSize: 128})
	_, err := pool.NewLocal(segment.LocalConfig{Name: "gate 1", Required: 8})
	fmt.Println(err)
	_, err = pool.NewLocal(segment.LocalConfig{Name: "gate 2", Required: 8})
	var few *segment.TooFewError
	if errors.As(err, &few) {
		fmt.Println(few.Name, "wants", few.Wanted, "of", few.Available, "left; raise", few.Setting)
	}
	// Output:
	// <nil>
	// gate 2 wants 8 of 2 left; raise segment.Config.Segments
}

// An owner that has nothing left waits for what others release.
func ExampleLocalPool_TakeWait() {
	pool, _ := segment.NewPool(segment.Config{Segments: 1, SegmentSize: 64})
	local, _ := pool.NewLocal(segment.LocalConfig{Name: "one", Required: 1})
	b, _ := local.Take()
	go b.Release()
	b, err := local.TakeWait(context.Background(), -1)
	fmt.Println(b.Len(), err)
	local.Put(b)
	// Output: 0 <nil>
}
