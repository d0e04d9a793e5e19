package netio_test

import (
	"context"
	"fmt"

	"github.com/weirflow/weir/netio"
	"github.com/weirflow/weir/ringbuf"
)

// echo sends back what it gets.
type echo struct{}

func (echo) OnRead(c *netio.Conn, p []byte) error {
	copy(c.Stage(len(p)), p) // written at the end of this turn
	return nil
}
func (echo) OnFlush(*netio.Conn)        {}
func (echo) OnClose(*netio.Conn, error) {}

// client says hello and keeps the answer.
type client struct {
	answer []byte
	n      *ringbuf.Notifier
}

func (k *client) OnOpen(c *netio.Conn) { copy(c.Stage(5), "hello") }
func (k *client) OnRead(c *netio.Conn, p []byte) error {
	k.answer = append(k.answer, p...) // p is valid during the call only
	k.n.Wake()
	return nil
}
func (k *client) OnFlush(*netio.Conn)        {}
func (k *client) OnClose(*netio.Conn, error) {}

// A server whose handler does the work, so that nobody drives its loop, and a client that drives its own.
func Example() {
	ctx := context.Background()
	server, err := netio.NewLoop(netio.LoopConfig{})
	if err != nil {
		panic(err)
	}
	defer server.Close(ctx)
	addr, err := server.Listen("tcp", "127.0.0.1:0", func(*netio.Conn) netio.Handler { return echo{} })
	if err != nil {
		panic(err)
	}

	// Without a standby only RunUntil runs turns, so the handler's state can be read between them.
	loop, err := netio.NewLoop(netio.LoopConfig{Standby: -1})
	if err != nil {
		panic(err)
	}
	defer loop.Close(ctx)
	k := &client{n: ringbuf.NewNotifier()}
	if _, err := loop.Dial(ctx, "tcp", addr.String(), k); err != nil {
		panic(err)
	}
	if err := loop.RunUntil(ctx, func() bool { return len(k.answer) == 5 }, k.n); err != nil {
		panic(err)
	}
	fmt.Printf("%s\n", k.answer)
	// Output: hello
}

// counter is a Source: the loop's end of a ring.
type counter struct {
	ring *ringbuf.SPSC[int]
	sum  int
}

func (s *counter) Poll() (worked bool) {
	for v, ok := s.ring.Pop(); ok; v, ok = s.ring.Pop() {
		s.sum += v
		worked = true
	}
	return worked
}

// A writer publishes into a ring and kicks the loop.
func ExampleLoop_AddSource() {
	loop, err := netio.NewLoop(netio.LoopConfig{})
	if err != nil {
		panic(err)
	}
	defer loop.Close(context.Background())
	s := &counter{ring: ringbuf.NewSPSC[int](8)}
	loop.AddSource(s)

	for i := range 5 {
		s.ring.Push(i)
	}
	loop.Kick() // runs a turn here, unless somebody else runs turns

	done := make(chan struct{})
	loop.Post(func() { // runs in a turn, where s.sum belongs to
		s.Poll() // a turn runs what was posted before it polls the sources
		fmt.Println(s.sum)
		close(done)
	})
	<-done
	// Output: 10
}
