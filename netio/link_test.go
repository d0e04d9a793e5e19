package netio

import (
	"context"
	"encoding/binary"
	"net"
	"sync/atomic"
	"testing"

	"github.com/weirflow/weir/ringbuf"
	"github.com/weirflow/weir/segment"
)

const (
	linkHeader  = 47
	linkPayload = 32 << 10
)

// frames queues frames of a header and a payload by reference, for as long as it may, and has its segments back at once.
type frames struct {
	funcs
	local   *segment.LocalPool
	size    int
	allowed atomic.Int64 // frames that may be sent
	sent    int64
	written atomic.Int64
	n       *ringbuf.Notifier
}

func (f *frames) OnFlush(c *Conn) {
	for !c.Full() && f.sent < f.allowed.Load() {
		b, ok := f.local.Take()
		if !ok {
			return // a write gives some back
		}
		binary.BigEndian.PutUint32(c.Stage(linkHeader), uint32(f.size))
		c.AppendBuffer(b.Resized(f.size))
		f.sent++
	}
	if f.sent < f.allowed.Load() {
		c.WantFlush()
	}
}

// Release and Flush make it a Releaser: the loop's holder owns the pool.
func (f *frames) Release(b segment.Buffer) {
	f.local.Put(b)
	f.written.Add(1)
}

func (f *frames) Flush() {
	if f.ready() {
		f.n.Wake()
	}
}

func (f *frames) ready() bool { return f.written.Load() >= f.allowed.Load() }

// sink counts bytes and wakes its consumer.
type sink struct {
	funcs
	got    atomic.Int64
	wanted atomic.Int64
	n      *ringbuf.Notifier
	credit int
}

func (s *sink) OnRead(c *Conn, p []byte) error {
	c.SetCredit(s.credit)
	if s.got.Add(int64(len(p))) >= s.wanted.Load() {
		s.n.Wake()
	}
	return nil
}

func (s *sink) ready() bool { return s.got.Load() >= s.wanted.Load() }

// link is a connection between two loops over the loopback.
type link struct {
	a, b   *Loop
	sender *Conn
	frames *frames
	sink   *sink
	kick   func() // in a turn of a: there is more to send
}

func newLink(t testing.TB, cfg LoopConfig, size, credit int) *link {
	t.Helper()
	pool, err := segment.NewPool(segment.Config{SegmentSize: linkPayload, Segments: 128})
	if err != nil {
		t.Fatal(err)
	}
	local, err := pool.NewLocal(segment.LocalConfig{Name: "link", Required: 64, Max: 128})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // after the loops are closed
		local.Close()
		if err := pool.Close(); err != nil {
			t.Error(err)
		}
	})
	k := &link{a: newLoop(t, cfg), b: newLoop(t, cfg)}
	k.frames = &frames{local: local, size: size, n: ringbuf.NewNotifier()}
	k.sink = &sink{n: ringbuf.NewNotifier(), credit: credit}
	addr := listen(t, k.b, func(*Conn) Handler { return k.sink })
	if k.sender, err = k.a.Dial(t.Context(), "tcp", addr.String(), k.frames); err != nil {
		t.Fatal(err)
	}
	k.kick = k.sender.WantFlush
	k.sender.SetReleaser(k.frames) // not registered yet, so nobody uses it
	return k
}

// allow lets n more frames go.
func (k *link) allow(n int64) {
	k.sink.wanted.Add(n * int64(linkHeader+k.frames.size))
	k.frames.allowed.Add(n)
	k.a.Post(k.kick)
}

// send has n more frames sent, driving both loops with two goroutines, and returns when they have arrived.
func (k *link) send(ctx context.Context, t testing.TB, n int64) {
	k.allow(n)
	done := make(chan error, 1)
	go func() { done <- k.a.RunUntil(ctx, k.frames.ready, k.frames.n) }()
	if err := k.b.RunUntil(ctx, k.sink.ready, k.sink.n); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

// netPair returns both ends of a TCP connection of package net over the loopback.
func netPair(t testing.TB) (a, b net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if a, err = net.Dial("tcp", l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if b, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.Close(); _ = b.Close() })
	return a, b
}

// pingPong is a round trip between two loops that are driven by RunUntil.
type pingPong struct {
	l     *Loop
	c     *Conn
	n     *ringbuf.Notifier
	sent  int
	got   int
	ready func() bool
}

func newPingPong(t testing.TB, cfg LoopConfig) *pingPong {
	server := newLoop(t, cfg)
	addr := listen(t, server, echo)
	stop := make(chan struct{})
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		_ = server.RunUntil(ctx, func() bool { return false }, ringbuf.NewNotifier())
		close(stop)
	}()
	t.Cleanup(func() { cancel(); <-stop })
	p := &pingPong{l: newLoop(t, cfg), n: ringbuf.NewNotifier()}
	var err error
	if p.c, err = p.l.Dial(t.Context(), "tcp", addr.String(), &funcs{read: func(_ *Conn, b []byte) error {
		p.got += len(b)
		return nil
	}}); err != nil {
		t.Fatal(err)
	}
	p.ready = func() bool { return p.got == p.sent }
	return p
}

func (p *pingPong) round(ctx context.Context, t testing.TB, size int) {
	p.l.acquire()
	p.sent += size
	p.c.Stage(size)
	p.l.Turn(NoWait)
	p.l.Release()
	if err := p.l.RunUntil(ctx, p.ready, p.n); err != nil {
		t.Fatal(err)
	}
}
