package weir

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/weirflow/weir/credit"
)

// localRig is an output and an input on a node that does not listen.
func localRig(t *testing.T, cfg OutputConfig) (n *Node, out *Output, in *Input) {
	t.Helper()
	n = open(t, Config{})
	out = newOutput(t, n, cfg)
	return n, out, newInput(t, n, InputConfig{Sources: []Source{together.source(n, out)}})
}

// What is written is handed out where it was written; nothing was sent, nor has the input memory of its own.
func TestLocalIsByReference(t *testing.T) {
	ctx := limited(t)
	n, out, in := localRig(t, OutputConfig{Name: "x"})
	if use := MemoryNeeded(Config{}, nil, []InputConfig{in.cfg}); use != 0 {
		t.Errorf("the input takes %d bytes", use)
	}
	for i := range 100 {
		b, err := out.ClaimBuffer(ctx, 0)
		if err != nil {
			t.Fatal(err)
		}
		size := len(b) >> (i % 2) // smaller ones are copied into a shared segment
		b[0], b[size-1] = byte(i), byte(i)
		if err := errors.Join(out.CommitBuffer(size), out.Flush()); err != nil {
			t.Fatal(err)
		}
		got, _, err := in.NextBuffer(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if len(got) != size || got[0] != byte(i) || got[size-1] != byte(i) || &got[0] != &b[0] {
			t.Fatalf("buffer %d: %d bytes at %p, written were %d at %p", i, len(got), got, size, b)
		}
	}
	if st := n.Stats(); st.Frames+st.Sent+st.Loop.Reads+st.Loop.Writes != 0 || st.Loop.Conns != 0 {
		t.Errorf("something was sent: %+v", st)
	}
	if ch := in.Stats(InputStats{}).Channels; len(ch) != 1 || ch[0].Credit != 0 || ch[0].Err != nil {
		t.Errorf("channels %+v", ch)
	}
	finishAndRead(ctx, t, out, in)
}

// The order in which the ends start does not matter, also if the output comes after its node would have refused another's request.
func TestLocalReceiverFirst(t *testing.T) {
	ctx := limited(t)
	n := open(t, Config{RequestTimeout: time.Millisecond})
	in := newInput(t, n, InputConfig{Sources: []Source{{Addr: Local, Name: "x"}}})
	got := inBackground(t, func() error {
		e, err := in.Next(ctx)
		if err == nil && string(e.Value) != "hello" {
			err = errors.New("another record")
		}
		return err
	})
	await(t, func() bool { return unopened(n) == 1 })
	out := newOutput(t, n, OutputConfig{Name: "x", FlushEach: true})
	if err := out.Write(ctx, nil, []byte("hello")); err != nil {
		t.Fatal(err)
	}
	if err := got(); err != nil {
		t.Error(err)
	}
	if unopened(n) != 0 {
		t.Error("it still waits")
	}
	finishAndRead(ctx, t, out, in)
}

// unopened is how many local channels of n wait for their partitions.
func unopened(n *Node) (all int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for c := range n.open {
		if in, ok := c.(*Input); ok {
			_ = n.do(func() error {
				for _, ch := range in.chans {
					if ch.local.Waits() {
						all++
					}
				}
				return nil
			})
		}
	}
	return all
}

// What can be wrong with a local source comes from Next, with the partition and the channel, and ends that input only.
func TestLocalErrors(t *testing.T) {
	ctx := limited(t)
	n, out, in := localRig(t, OutputConfig{Name: "x", Subpartitions: 2})
	if err := out.AwaitConsumers(ctx); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		src  Source
		wait time.Duration
		is   error
		text string
	}{
		"not there":          {src: Source{Addr: Local, Name: "nobody"}, wait: time.Millisecond, is: credit.ErrPartitionNotFound, text: "partition not found"},
		"no such":            {src: Source{Addr: Local, Name: "x", Subpartition: 2}, text: "subpartition not found"},
		"a second consumer":  {src: Source{Addr: Local, Name: "x", Subpartition: 1}, text: "consumed"},
		"of a range, partly": {src: Source{Addr: Local, Name: "x", Subpartition: 1, Last: 2, Ranged: true}, text: "subpartition not found"},
	} {
		t.Run(name, func(t *testing.T) {
			bad := newInput(t, n, InputConfig{Sources: []Source{c.src}, Wait: c.wait})
			_, err := bad.Next(ctx)
			names(t, err, NameID(c.src.Name).String(), "channel 0 (local)", c.text)
			if c.is != nil && !errors.Is(err, c.is) {
				t.Error(err)
			}
			if err := bad.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	if err := out.WriteTo(ctx, 1, []byte("hello")); err != nil {
		t.Fatal(err)
	}
	finishAndRead(ctx, t, out, in)
}

// An output that is closed before its end is an error to its local consumers, which keep what they have; one that is closed after its end is
// none, and is gone while its last record is still read.
func TestLocalOutputCloses(t *testing.T) {
	ctx := limited(t)
	n, out, in := localRig(t, OutputConfig{Name: "x", FlushEach: true})
	if err := out.Write(ctx, nil, []byte("hello")); err != nil {
		t.Fatal(err)
	}
	e, err := in.Next(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		t.Error(err)
	}
	if string(e.Value) != "hello" {
		t.Errorf("the record became %q", e.Value)
	}
	_, err = in.Next(ctx)
	names(t, err, NameID("x").String(), "channel 0 (local)", "closed before its end")
	if err := in.Close(); err != nil {
		t.Error(err)
	}
	out = newOutput(t, n, OutputConfig{Name: "y"})
	in = newInput(t, n, InputConfig{Sources: []Source{together.source(n, out)}})
	ended := inBackground(t, func() error {
		return errors.Join(out.Write(ctx, nil, []byte("last")), out.Finish(ctx), out.Close())
	})
	seen := 0
	read(ctx, t, in, func(e *Element) {
		if e.Kind == Record {
			seen++
		}
	})
	if err := errors.Join(ended(), in.Close()); err != nil || seen != 1 {
		t.Errorf("%d records, %v", seen, err)
	}
}

// A consumer that goes is lost to the writer as one elsewhere is; the other subpartition goes on.
func TestLocalConsumerLeaves(t *testing.T) {
	ctx := limited(t)
	n := open(t, Config{})
	out := newOutput(t, n, OutputConfig{Name: "x", Subpartitions: 2})
	var ins [2]*Input
	for i := range ins {
		ins[i] = newInput(t, n, InputConfig{Sources: []Source{{Addr: Local, Name: "x", Subpartition: i}}})
	}
	if err := out.AwaitConsumers(ctx); err != nil {
		t.Fatal(err)
	}
	const records = 5000
	ended := inBackground(t, func() error {
		for i := range 2 * records {
			if err := out.WriteTo(ctx, i%2, make([]byte, 1000)); err != nil {
				return err
			}
		}
		return out.Finish(ctx)
	})
	for range 10 { // it holds a buffer when it goes
		if _, err := ins[1].Next(ctx); err != nil {
			t.Fatal(err)
		}
	}
	if err := ins[1].Close(); err != nil {
		t.Error(err)
	}
	seen := 0
	read(ctx, t, ins[0], func(e *Element) {
		if e.Kind == Record {
			seen++
		}
	})
	if err := ins[0].Close(); err != nil {
		t.Error(err)
	}
	err := ended()
	names(t, err, "subpartition 1", "cancelled by the consumer")
	if !errors.Is(err, ErrNoConsumer) || seen != records {
		t.Errorf("%d records, %v", seen, err)
	}
}

// A node that is closed ends those that wait for one another in it: a reader without data, a writer without memory, and a reader whose output never comes.
func TestLocalNodeCloses(t *testing.T) {
	ctx := limited(t)
	n := open(t, Config{})
	idle := newOutput(t, n, OutputConfig{Name: "idle"})
	full := newOutput(t, n, OutputConfig{Name: "full"})
	var waits []func() error
	for _, name := range []string{"idle", "nobody"} {
		in := newInput(t, n, InputConfig{Sources: []Source{{Addr: Local, Name: name}}})
		waits = append(waits, inBackground(t, func() error {
			_, err := in.Next(ctx)
			return err
		}))
	}
	unread := newInput(t, n, InputConfig{Sources: []Source{{Addr: Local, Name: "full"}}})
	waits = append(waits, inBackground(t, func() error {
		for {
			if err := full.Write(ctx, nil, make([]byte, 1000)); err != nil {
				return err
			}
		}
	}))
	if err := errors.Join(idle.AwaitConsumers(ctx), full.AwaitConsumers(ctx)); err != nil {
		t.Fatal(err)
	}
	await(t, func() bool { return full.Stats(OutputStats{}).WaitingFor == 0 })
	if err := n.Close(); err != nil {
		t.Error(err)
	}
	for _, wait := range waits {
		if err := wait(); err == nil || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, io.EOF) {
			t.Errorf("it ended with %v", err)
		}
	}
	if _, err := unread.Next(ctx); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
}
