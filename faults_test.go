package weir

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/weirflow/weir/credit"
	"github.com/weirflow/weir/internal/modelrun"
	"github.com/weirflow/weir/segment"
	"github.com/weirflow/weir/serde"
)

// names fails unless err names all of what.
func names(t *testing.T, err error, what ...string) {
	t.Helper()
	if err == nil {
		t.Fatal("no error")
	}
	for _, w := range what {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("the error does not name %q: %v", w, err)
		}
	}
}

// deadAddr is an address that nobody listens at. Where all of 127/8 is the machine's own, it is on a host that is this process's alone:
// another one's test could be given the port otherwise, and a connection that is made to it might be its own other end.
func deadAddr(t *testing.T) string {
	t.Helper()
	pid := os.Getpid()
	l, err := net.Listen("tcp", fmt.Sprintf("127.%d.%d.%d:0", 64+pid>>16&63, pid>>8&255, pid&255))
	if err != nil {
		l, err = net.Listen("tcp", "127.0.0.1:0")
	}
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func TestNobodyListens(t *testing.T) {
	addr := deadAddr(t)
	in := newInput(t, open(t, Config{}), InputConfig{Sources: []Source{{Addr: addr, Name: "x"}}, Wait: 300 * time.Millisecond})
	_, err := in.Next(limited(t)) // if the input waited for longer, this would end with the context's error
	names(t, err, addr, NameID("x").String(), "channel 0", "could not connect")
}

func TestPartitionDoesNotExist(t *testing.T) {
	a := open(t, Config{Listen: "127.0.0.1:0", RequestTimeout: 100 * time.Millisecond})
	modelrun.Rounds(t, func(i int) bool {
		b := open(t, Config{RequestTimeout: 100 * time.Millisecond})
		in := newInput(t, b, InputConfig{Sources: []Source{{Addr: a.Addr().String(), Name: "nobody"}}, Wait: 300 * time.Millisecond << min(i, 6)})
		_, err := in.Next(limited(t))
		names(t, err, a.Addr().String(), NameID("nobody").String(), "channel 0")
		if strings.Contains(err.Error(), "could not connect") {
			return false // the wait was over before the server could be asked
		}
		if !errors.Is(err, credit.ErrPartitionNotFound) {
			t.Error(err)
		}
		return true
	})
}

func TestSubpartitionOutOfRange(t *testing.T) {
	ctx := limited(t)
	a, b := server(t), open(t, Config{})
	out := newOutput(t, a, OutputConfig{Name: "x", Subpartitions: 2})
	in := newInput(t, b, InputConfig{Sources: []Source{{Addr: a.Addr().String(), Name: "x", Subpartition: 7}}})
	_, err := in.Next(ctx)
	names(t, err, a.Addr().String(), NameID("x").String(), "channel 0", "subpartition not found")
	// Others are served all the same.
	good := newInput(t, open(t, Config{}), InputConfig{Sources: []Source{source(a, out)}})
	wait := inBackground(t, func() error {
		if err := out.WriteTo(ctx, 1, []byte("hello")); err != nil {
			return err
		}
		return out.Finish(ctx)
	})
	n := 0
	read(ctx, t, good, func(e *Element) {
		if e.Kind == Record {
			n++
		}
	})
	if err := good.Close(); err != nil {
		t.Error(err)
	}
	if err := wait(); err != nil || n != 1 {
		t.Errorf("%d records, %v", n, err)
	}
}

// The order in which the ends start does not matter.
func TestReceiverFirst(t *testing.T) {
	ctx := limited(t)
	addr := deadAddr(t)
	in := newInput(t, open(t, Config{}), InputConfig{Sources: []Source{{Addr: addr, Name: "x"}}})
	got := inBackground(t, func() error {
		e, err := in.Next(ctx)
		if err == nil && string(e.Value) != "hello" {
			err = errors.New("other record")
		}
		return err
	})
	time.Sleep(50 * time.Millisecond) // let it fail to connect once; the test holds also if it did not
	a := open(t, Config{Listen: addr})
	time.Sleep(20 * time.Millisecond) // and let its request come before the partition exists
	out := newOutput(t, a, OutputConfig{Name: "x", FlushEach: true})
	if err := out.Write(ctx, nil, []byte("hello")); err != nil {
		t.Fatal(err)
	}
	if err := got(); err != nil {
		t.Error(err)
	}
}

func TestNoConsumerComes(t *testing.T) {
	a, b := server(t), open(t, Config{})
	out := newOutput(t, a, OutputConfig{Name: "x", Subpartitions: 3})
	newInput(t, b, InputConfig{Sources: []Source{{Addr: a.Addr().String(), Name: "x", Subpartition: 1}}})
	await(t, func() bool { return out.Stats(OutputStats{}).Subpartitions[1].Consumer })
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	err := out.AwaitConsumers(ctx)
	names(t, err, "[0 2] of 3", NameID("x").String())
	if !errors.Is(err, ErrNoConsumer) || !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
}

func TestSenderVanishes(t *testing.T) {
	ctx := limited(t)
	a, b := server(t), open(t, Config{})
	out := newOutput(t, a, OutputConfig{Name: "x", FlushEach: true})
	in := newInput(t, b, InputConfig{Sources: []Source{source(a, out)}})
	if err := out.Write(ctx, nil, []byte("hello")); err != nil {
		t.Fatal(err)
	}
	if _, err := in.Next(ctx); err != nil {
		t.Fatal(err)
	}
	addr := a.Addr().String()
	if err := a.Close(); err != nil {
		t.Error(err)
	}
	e, err := in.Next(ctx)
	if err == nil {
		t.Fatalf("an element of kind %d: %q", e.Kind, e.Value)
	}
	names(t, err, addr, NameID("x").String(), "channel 0")
}

func TestReceiverVanishes(t *testing.T) {
	ctx := limited(t)
	a, b := server(t), open(t, Config{})
	out := newOutput(t, a, OutputConfig{Name: "x", FlushEach: true})
	in := newInput(t, b, InputConfig{Sources: []Source{source(a, out)}})
	if err := out.Write(ctx, nil, []byte("hello")); err != nil {
		t.Fatal(err)
	}
	if _, err := in.Next(ctx); err != nil {
		t.Fatal(err)
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	var err error
	for err == nil {
		err = out.Write(ctx, nil, make([]byte, 1000))
	}
	if !errors.Is(err, ErrNoConsumer) {
		t.Error(err)
	}
	names(t, err, "subpartition 0", NameID("x").String())
}

// One consumer goes; the others get everything, and Finish says who went.
func TestOneOfSeveralReceiversVanishes(t *testing.T) {
	ctx := limited(t)
	a, b, c := server(t), open(t, Config{}), open(t, Config{})
	out := newOutput(t, a, OutputConfig{Name: "x", Subpartitions: 2, Partition: RoundRobin})
	stay := newInput(t, b, InputConfig{Sources: []Source{{Addr: a.Addr().String(), Name: "x", Subpartition: 0}}})
	newInput(t, c, InputConfig{Sources: []Source{{Addr: a.Addr().String(), Name: "x", Subpartition: 1}}})
	if err := out.AwaitConsumers(ctx); err != nil {
		t.Fatal(err)
	}
	const n = 20_000
	wait := inBackground(t, func() error {
		for i := range n {
			if i == n/4 {
				if err := c.Close(); err != nil {
					return err
				}
			}
			if err := out.Write(ctx, nil, make([]byte, 500)); err != nil {
				return err
			}
		}
		return out.Finish(ctx)
	})
	got := 0
	read(ctx, t, stay, func(e *Element) {
		if e.Kind == Record {
			got++
		}
	})
	if err := stay.Close(); err != nil {
		t.Error(err)
	}
	err := wait()
	names(t, err, "subpartition 1")
	if !errors.Is(err, ErrNoConsumer) || strings.Contains(err.Error(), "subpartition 0") {
		t.Error(err)
	}
	if got != n/2 {
		t.Errorf("the one that stayed got %d of %d", got, n/2)
	}
}

func TestTooLittleMemory(t *testing.T) {
	small := Config{Memory: 1 << 20, Listen: "127.0.0.1:0"} // 32 segments
	n := open(t, small)
	in := InputConfig{Sources: []Source{{Addr: "127.0.0.1:1", Name: "x", Last: 99}}}
	_, err := n.NewInput(in)
	names(t, err, "100 channels", "MemoryNeeded", "1048576")
	_, err = n.NewOutput(OutputConfig{Name: "y", Subpartitions: 100})
	names(t, err, "MemoryNeeded", `"y"`)
	// With what it asks for it opens.
	enough := open(t, Config{Memory: MemoryNeeded(Config{}, []OutputConfig{{Name: "y", Subpartitions: 100}}, []InputConfig{in}), Listen: "127.0.0.1:0"})
	newOutput(t, enough, OutputConfig{Name: "y", Subpartitions: 100})
	newInput(t, enough, in)
	// An input alone opens with exactly its price.
	cfg := Config{Memory: MemoryNeeded(Config{}, nil, []InputConfig{in})}
	newInput(t, open(t, cfg), in)
	cfg.Memory -= segment.DefaultSize
	_, err = open(t, cfg).NewInput(in)
	names(t, err, "MemoryNeeded")
}

func TestRecordAboveTheLimit(t *testing.T) {
	ctx := limited(t)
	a, b := server(t), open(t, Config{MaxRecord: 1000})
	out := newOutput(t, a, OutputConfig{Name: "x", FlushEach: true})
	in := newInput(t, b, InputConfig{Sources: []Source{source(a, out)}})
	if err := out.Write(ctx, nil, make([]byte, 2000)); err != nil {
		t.Fatal(err)
	}
	_, err := in.Next(ctx)
	names(t, err, a.Addr().String(), NameID("x").String(), "channel 0")
	if !errors.Is(err, serde.ErrTooLarge) {
		t.Error(err)
	}
}

// A peer that speaks something else gets an error, and the partition goes on for the others.
func TestGarbageFromAClient(t *testing.T) {
	ctx := limited(t)
	a, b := server(t), open(t, Config{})
	out := newOutput(t, a, OutputConfig{Name: "x"})
	in := newInput(t, b, InputConfig{Sources: []Source{source(a, out)}})
	for _, garbage := range []string{"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "\x00\x00\x00\x09\xba\xdc\x0f\xfe\x63", "\xff\xff\xff\xff\xba\xdc\x0f\xfe\x02"} {
		c, err := net.Dial("tcp", a.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		_ = c.SetDeadline(time.Now().Add(limit))
		if _, err := io.WriteString(c, garbage); err != nil {
			t.Fatal(err)
		}
		answer, err := io.ReadAll(c)
		if err != nil && !errors.Is(err, net.ErrClosed) && !strings.Contains(err.Error(), "reset") {
			t.Errorf("%q: the connection did not end: %v", garbage, err)
		}
		if len(answer) < 10 || answer[8] != 1 {
			t.Errorf("%q: the answer is no error response: %q", garbage, answer)
		}
		_ = c.Close()
	}
	wait := inBackground(t, func() error {
		if err := out.Write(ctx, nil, []byte("hello")); err != nil {
			return err
		}
		return out.Finish(ctx)
	})
	n := 0
	read(ctx, t, in, func(*Element) { n++ })
	if err := in.Close(); err != nil {
		t.Error(err)
	}
	if err := wait(); err != nil || n < 1 {
		t.Errorf("%d elements, %v", n, err)
	}
}

func TestGarbageFromAServer(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(c, "220 mail.example.org ESMTP\r\n")
			_, _ = io.Copy(io.Discard, c)
			_ = c.Close()
		}
	}()
	in := newInput(t, open(t, Config{}), InputConfig{Sources: []Source{{Addr: l.Addr().String(), Name: "x"}}})
	_, err = in.Next(limited(t))
	names(t, err, l.Addr().String(), NameID("x").String(), "channel 0")
	if !errors.Is(err, credit.ErrBadMagic) {
		t.Error(err)
	}
}

func TestCloseEndsWaiting(t *testing.T) {
	ctx := limited(t)
	a, b := server(t), open(t, Config{})
	out := newOutput(t, a, OutputConfig{Name: "x"})
	in := newInput(t, b, InputConfig{Sources: []Source{source(a, out)}})
	cctx, cancel := context.WithCancel(ctx)
	got := inBackground(t, func() error {
		_, err := in.Next(cctx)
		return err
	})
	cancel()
	if err := got(); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if err := in.Close(); err != nil {
		t.Error(err)
	}
	if _, err := in.Next(ctx); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
	if err := out.Close(); err != nil {
		t.Error(err)
	}
	if err := out.Write(ctx, nil, nil); err == nil {
		t.Error("a closed output takes a record")
	}
	if err := out.Barrier(AlignedBarrier(1, time.Now())); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
}

func TestSameNameTwice(t *testing.T) {
	a := server(t)
	newOutput(t, a, OutputConfig{Name: "x"})
	_, err := a.NewOutput(OutputConfig{Name: "x"})
	names(t, err, `"x"`, "already registered")
}

// A server that soon says that a partition is not there is asked again until the input's wait is over.
func TestPartitionAppearsLate(t *testing.T) {
	ctx := limited(t)
	a, b := open(t, Config{Listen: "127.0.0.1:0", RequestTimeout: 10 * time.Millisecond}), open(t, Config{})
	in := newInput(t, b, InputConfig{Sources: []Source{{Addr: a.Addr().String(), Name: "late"}}})
	got := inBackground(t, func() error {
		e, err := in.Next(ctx)
		if err == nil && string(e.Value) != "hello" {
			err = errors.New("other record")
		}
		return err
	})
	time.Sleep(400 * time.Millisecond) // long enough for several refusals; the test holds also if there was none
	out := newOutput(t, a, OutputConfig{Name: "late", FlushEach: true})
	if err := out.Write(ctx, nil, []byte("hello")); err != nil {
		t.Fatal(err)
	}
	if err := got(); err != nil {
		t.Error(err)
	}
}

// An output that is closed before its end, on a node that lives on, is an error to its consumers, not silence.
func TestOutputClosedEarly(t *testing.T) {
	ctx := limited(t)
	a, b := server(t), open(t, Config{})
	out := newOutput(t, a, OutputConfig{Name: "x", FlushEach: true})
	in := newInput(t, b, InputConfig{Sources: []Source{source(a, out)}})
	if err := out.Write(ctx, nil, []byte("hello")); err != nil {
		t.Fatal(err)
	}
	if _, err := in.Next(ctx); err != nil {
		t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		t.Error(err)
	}
	_, err := in.Next(ctx)
	names(t, err, a.Addr().String(), NameID("x").String(), "channel 0", "closed before its end")
	if errors.Is(err, context.DeadlineExceeded) {
		t.Error("the consumer heard nothing")
	}
}
