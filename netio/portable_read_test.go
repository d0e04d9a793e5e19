package netio

import (
	"context"
	"errors"
	"io"
	"net"
	"runtime"
	"testing"
	"time"
)

// Bytes come out as they went in, whatever the sizes of reads and turns, with the reader ahead and with a full ring.
func TestAheadCarriesEveryByte(t *testing.T) {
	const total = 4 << 20
	for name, size := range map[string]int{"small": 1 << 10, "usual": aheadSize} {
		t.Run(name, func(t *testing.T) {
			a := &ahead{ring: make([]byte, size), room: make(chan struct{}, 1)}
			stop := make(chan struct{})
			go func() {
				for off, i := 0, 1; off < total; i++ {
					b := a.next(stop)
					n := min(1+i*7919%20000, len(b), total-off)
					pattern(b[:n], off)
					a.add(n)
					off += n
				}
				a.end(io.EOF)
			}()
			got, end := 0, time.Now().Add(hang)
			for i := 1; ; i++ {
				b, ended := a.front(1 + i*104729%50000)
				if ended {
					break
				}
				if at := checkPattern(b, got); at >= 0 {
					t.Fatalf("byte %d is wrong", at)
				}
				got += len(b)
				a.take(len(b))
				if len(b) == 0 {
					runtime.Gosched()
				}
				if len(b) == 0 && time.Now().After(end) {
					t.Fatal("the reader waits for room that there is")
				}
			}
			if got != total || a.err != io.EOF {
				t.Errorf("%d of %d bytes, %v", got, total, a.err)
			}
		})
	}
}

// A reader that waits for room is told to stop.
func TestAheadStops(t *testing.T) {
	a := &ahead{ring: make([]byte, 64), room: make(chan struct{}, 1)}
	stop := make(chan struct{})
	a.add(len(a.next(stop)))
	done := newOnce()
	go func() {
		if b := a.next(stop); b != nil {
			t.Errorf("room for %d bytes in a full ring", len(b))
		}
		done.done()
	}()
	until(t, "waits", a.full.Load)
	close(stop)
	wait(t, done.c, "stop")
}

// A paused connection reads ahead by one ring and no further. A handler that pauses and resumes within its call gets nothing twice.
func TestPortablePause(t *testing.T) {
	l := newLoop(t, LoopConfig{})
	here, there := net.Pipe()
	const total = 1 << 20
	got := 0
	ended := newOnce()
	c, err := l.Adopt(there, &funcs{
		open: func(c *Conn) { c.PauseRead() },
		read: func(c *Conn, p []byte) error {
			if at := checkPattern(p, got); at >= 0 {
				t.Errorf("byte %d is wrong", at)
			}
			got += len(p)
			c.PauseRead()
			c.ResumeRead()
			return nil
		},
		close: func(*Conn, error) { ended.done() },
	})
	if err != nil {
		t.Fatal(err)
	}
	p := make([]byte, total)
	pattern(p, 0)
	go func() {
		defer func() { _ = here.SetWriteDeadline(time.Unix(1, 0)) }()
		for end := time.Now().Add(hang); !c.p.in.full.Load() && time.Now().Before(end); time.Sleep(time.Millisecond) {
		}
	}()
	n, err := here.Write(p)
	if err == nil || n == 0 || n > aheadSize {
		t.Fatalf("a paused connection took %d bytes, %v", n, err)
	}
	inTurn(t, l, func() {
		if got != 0 {
			t.Errorf("%d bytes in spite of the pause", got)
		}
		c.ResumeRead()
	})
	_ = here.SetWriteDeadline(time.Now().Add(hang))
	if _, err := here.Write(p[n:]); err != nil {
		t.Fatal(err)
	}
	_ = here.Close()
	wait(t, ended.c, "end")
	if err := l.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	if got != total {
		t.Errorf("%d of %d bytes", got, total)
	}
}

// brokenOut is a connection that has something to read but takes nothing.
type brokenOut struct {
	net.Conn
	data []byte
}

func (b *brokenOut) Read(p []byte) (int, error) {
	if len(b.data) == 0 {
		return b.Conn.Read(p)
	}
	n := copy(p, b.data)
	b.data = b.data[n:]
	return n, nil
}

func (b *brokenOut) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

// What arrived before a write failed is passed on.
func TestPortableDataBeforeFailedWrite(t *testing.T) {
	l := newLoop(t, LoopConfig{Standby: -1})
	here, there := net.Pipe()
	defer here.Close()
	p := make([]byte, 50_000)
	pattern(p, 0)
	got := 0
	var ended error
	l.acquire()
	defer l.Release()
	c, err := l.Adopt(&brokenOut{Conn: there, data: p}, &funcs{
		open: func(c *Conn) { c.Stage(1) },
		read: func(_ *Conn, p []byte) error {
			if at := checkPattern(p, got); at >= 0 {
				t.Errorf("byte %d is wrong", at)
			}
			got += len(p)
			return nil
		},
		close: func(_ *Conn, err error) { ended = err },
	})
	if err != nil {
		t.Fatal(err)
	}
	l.Turn(NoWait)
	until(t, "read and write", func() bool { return c.attention.Load() == attnReadable|attnWritten && c.p.in.read.Load() == 50_000 })
	until(t, "closed", func() bool { l.Turn(NoWait); return ended != nil })
	if !errors.Is(ended, io.ErrClosedPipe) || got != len(p) {
		t.Errorf("closed with %v after %d bytes", ended, got)
	}
}
