//go:build !race && linux && !weirportable && !nounsafe && !weirdebug

package netio

import (
	"context"
	"testing"
	"time"

	"github.com/weirflow/weir/internal/alloctest"
	"github.com/weirflow/weir/internal/modelrun"
	"github.com/weirflow/weir/ringbuf"
	"github.com/weirflow/weir/segment"
	"golang.org/x/sys/unix"
)

// Turns that write and read allocate nothing, with payloads by reference and with copied ones.
func TestAllocTurns(t *testing.T) {
	for name, size := range map[string]int{"reference": linkPayload, "copy": 1 << 10} {
		t.Run(name, func(t *testing.T) {
			k := newLink(t, LoopConfig{Standby: -1}, size, 32)
			if !k.a.TryAcquire() || !k.b.TryAcquire() {
				t.Fatal("token")
			}
			defer k.a.Release()
			defer k.b.Release()
			round := func() {
				k.allow(20)
				for !k.sink.ready() {
					k.a.Turn(NoWait)
					k.b.Turn(NoWait)
				}
			}
			alloctest.Zero(t, 500, 2000, round)
			if k.b.stats.Lowats == 0 && size == linkPayload {
				t.Error("the rule of SO_RCVLOWAT never fired")
			}
		})
	}
}

// Neither does copying several buffers at once.
func TestAllocCopies(t *testing.T) {
	pool, err := segment.NewPool(segment.Config{SegmentSize: 256, Segments: 8})
	if err != nil {
		t.Fatal(err)
	}
	local, err := pool.NewLocal(segment.LocalConfig{Required: 8})
	if err != nil {
		t.Fatal(err)
	}
	l := manual(t, nil)
	c, peer := pair(t, l, &funcs{})
	defer unix.Close(peer)
	var bufs [8]segment.Buffer
	got := make([]byte, 8*200)
	alloctest.Zero(t, 100, 2000, func() {
		for i := range bufs {
			b, _ := local.Take()
			bufs[i] = b.Resized(200)
		}
		c.AppendCopies(bufs[:])
		local.Drain()
		l.Turn(NoWait)
		if n, err := unix.Read(peer, got); n != len(got) {
			t.Fatalf("%d bytes came, %v", n, err)
		}
	})
	c.Close(nil)
	local.Close()
	if err := pool.Close(); err != nil {
		t.Fatal(err)
	}
}

// Round trips, polling and sleeping, with a context that can be cancelled.
func TestAllocRunUntil(t *testing.T) {
	for name, cfg := range map[string]LoopConfig{"poll": {}, "sleep": {Poll: -1}} {
		t.Run(name, func(t *testing.T) {
			p := newPingPong(t, cfg)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			// A loop that has not slept yet has not seen the context, and with polling its first sleep may come at any time.
			p.l.cancels.watch(ctx, p.l.wakeFn)
			modelrun.Rounds(t, func(int) bool { // an answer may be there before the loop sleeps
				alloctest.Zero(t, 300, 2000, func() { p.round(ctx, t, 64) })
				return name == "poll" || stats(t, p.l).Sleeps >= 500
			})
		})
	}
}

func TestAllocSmallThings(t *testing.T) {
	l := newLoop(t, LoopConfig{})
	s := &ringSource{ring: ringbuf.NewSPSC[int](16)}
	l.AddSource(s)
	f := func() {}
	alloctest.Zero(t, 100, 1000, func() {
		s.ring.Push(1)
		l.Kick()
		l.Wake()
		l.Post(f)
	})
	l.acquire()
	defer l.Release()
	tm := l.NewTimer(f)
	alloctest.Zero(t, 100, 1000, func() {
		tm.Reset(time.Hour)
		tm.Reset(time.Minute)
		l.Turn(NoWait)
		tm.Stop()
	})
	c, peer := pair(t, l, &funcs{})
	defer unix.Close(peer)
	alloctest.Zero(t, 100, 1000, func() {
		c.PauseRead()
		c.ResumeRead()
		c.sysLowat(lowatBytes)
		c.sysLowat(1)
	})
	c.Close(nil)
}

// NET-19: looking at a message that arrives in pieces must not allocate each time. The loop keeps nothing and hands nothing
// out, so a handler that needs contiguous bytes gathers them in memory of its own, once.
func TestNET19MessageInPieces(t *testing.T) {
	const message, pieces = 1000, 10
	l := manual(t, nil)
	scratch, messages := make([]byte, 0, message), 0
	c, peer := pair(t, l, &funcs{read: func(_ *Conn, p []byte) error {
		for len(p) > 0 {
			n := min(len(p), message-len(scratch))
			scratch = append(scratch, p[:n]...)
			p = p[n:]
			if len(scratch) >= 4 && scratch[3] != 3 { // peek at the header
				t.Error("wrong header")
			}
			if len(scratch) == message {
				messages++
				scratch = scratch[:0]
			}
		}
		return nil
	}})
	defer unix.Close(peer)
	p := make([]byte, message)
	for i := range p {
		p[i] = byte(i)
	}
	n := rounds(2000)
	alloctest.Zero(t, 10, n, func() {
		for i := range pieces {
			if _, errno := sysWriteFD(peer, p[i*message/pieces:(i+1)*message/pieces]); errno != 0 {
				t.Fatal(errno)
			}
			l.Turn(NoWait)
		}
	})
	if messages < n+10 || cap(scratch) != message {
		t.Fatalf("%d messages, scratch of %d bytes", messages, cap(scratch))
	}
	c.Close(nil)
}
