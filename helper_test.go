package weir

import (
	"context"
	"io"
	"testing"
	"time"

	"github.com/weirflow/weir/internal/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// limit is how long a test may take before it counts as hanging. It says nothing about speed: under the race detector, on a machine
// with other things to do, a test of a second takes a minute.
const limit = 3 * time.Minute

func limited(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	t.Cleanup(cancel)
	return ctx
}

// open makes a node that must close without a buffer missing.
func open(t testing.TB, cfg Config) *Node {
	t.Helper()
	n, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Close(); err != nil {
			t.Errorf("closing the node: %v", err)
		}
	})
	return n
}

func server(t testing.TB) *Node { return open(t, Config{Listen: "127.0.0.1:0"}) }

func newOutput(t testing.TB, n *Node, cfg OutputConfig) *Output {
	t.Helper()
	o, err := n.NewOutput(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func newInput(t testing.TB, n *Node, cfg InputConfig) *Input {
	t.Helper()
	in, err := n.NewInput(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return in
}

// source is all subpartitions of an output of n.
func source(n *Node, o *Output) Source {
	return Source{Addr: n.Addr().String(), Name: o.cfg.Name, Last: o.cfg.Subpartitions - 1}
}

// place says where the two ends of a test are.
type place string

const (
	apart    place = "over a socket"
	together place = "on one node" // which does not listen
)

// places runs a test for each of them.
func places(t *testing.T, f func(t *testing.T, p place)) {
	for _, p := range []place{apart, together} {
		t.Run(string(p), func(t *testing.T) { f(t, p) })
	}
}

// nodes are those of the output and of the input.
func (p place) nodes(t testing.TB) (a, b *Node) {
	if p == together {
		n := open(t, Config{})
		return n, n
	}
	return server(t), open(t, Config{})
}

// source is all subpartitions of an output of n, for the input's node.
func (p place) source(n *Node, o *Output) Source {
	if p == together {
		return Source{Addr: Local, Name: o.cfg.Name, Last: o.cfg.Subpartitions - 1}
	}
	return source(n, o)
}

// inBackground runs f in a goroutine; wait returns its error. A test that fails ends after it, too, so that no node is closed under it.
func inBackground(t testing.TB, f func() error) (wait func() error) {
	done := make(chan struct{})
	var err error
	go func() {
		defer close(done)
		err = f()
	}()
	t.Cleanup(func() { <-done })
	return func() error {
		<-done
		return err
	}
}

// passOne sends one record and reads to the end: it returns how many came, and what the sender ended with.
func passOne(ctx context.Context, t testing.TB, out *Output, in *Input) (records int, err error) {
	t.Helper()
	wait := inBackground(t, func() error {
		if err := out.Write(ctx, nil, []byte("one")); err != nil {
			return err
		}
		return out.Finish(ctx)
	})
	read(ctx, t, in, func(e *Element) {
		if e.Kind == Record {
			records++
		}
	})
	if err := in.Close(); err != nil {
		t.Error(err)
	}
	return records, wait()
}

// read hands each element to f until the end.
func read(ctx context.Context, t testing.TB, in *Input, f func(*Element)) {
	t.Helper()
	for {
		e, err := in.Next(ctx)
		if err == io.EOF {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		f(e)
	}
}
