package weir

import (
	"context"
	"errors"
	"testing"
)

// waiter is a call that waits, and how a test knows that it does.
type waiter struct {
	call  func() error
	waits func() bool
	close func() error // what it waits in
}

// atRest tells whether the user of something waits.
func atRest(c *occupancy) func() bool { return func() bool { return c.state.Load() == waiting } }

// unreadOutput is an output with a consumer that never reads.
func unreadOutput(t *testing.T, a, b *Node, cfg OutputConfig, source func(*Node, *Output) Source) *Output {
	t.Helper()
	out := newOutput(t, a, cfg)
	newInput(t, b, InputConfig{Sources: []Source{source(a, out)}})
	return out
}

// waiters makes the calls that wait, each in an output or an input of its own, at one node or between two.
var waiters = map[string]func(ctx context.Context, t *testing.T, a, b *Node, source func(*Node, *Output) Source) waiter{
	"Write": func(ctx context.Context, t *testing.T, a, b *Node, source func(*Node, *Output) Source) waiter {
		out := unreadOutput(t, a, b, OutputConfig{Name: "full"}, source)
		return waiter{
			call: func() (err error) {
				for err == nil {
					err = out.Write(ctx, nil, make([]byte, 1000))
				}
				return err
			},
			waits: atRest(out.busy),
			close: out.Close,
		}
	},
	"ClaimBuffer": func(ctx context.Context, t *testing.T, a, b *Node, source func(*Node, *Output) Source) waiter {
		out := unreadOutput(t, a, b, OutputConfig{Name: "claimed"}, source)
		return waiter{
			call: func() (err error) {
				for p := []byte(nil); err == nil; {
					if p, err = out.ClaimBuffer(ctx, 0); err == nil {
						err = out.CommitBuffer(len(p))
					}
				}
				return err
			},
			waits: atRest(out.busy),
			close: out.Close,
		}
	},
	"Finish": func(ctx context.Context, t *testing.T, a, b *Node, source func(*Node, *Output) Source) waiter {
		out := unreadOutput(t, a, b, OutputConfig{Name: "unread"}, source)
		return waiter{call: func() error { return out.Finish(ctx) }, waits: atRest(out.busy), close: out.Close}
	},
	"Next": func(ctx context.Context, t *testing.T, a, b *Node, source func(*Node, *Output) Source) waiter {
		out := newOutput(t, a, OutputConfig{Name: "idle"})
		in := newInput(t, b, InputConfig{Sources: []Source{source(a, out)}})
		return waiter{call: func() error {
			_, err := in.Next(ctx)
			return err
		}, waits: atRest(in.busy), close: in.Close}
	},
	"NextBuffer": func(ctx context.Context, t *testing.T, a, b *Node, source func(*Node, *Output) Source) waiter {
		out := newOutput(t, a, OutputConfig{Name: "idle too"})
		in := newInput(t, b, InputConfig{Sources: []Source{source(a, out)}})
		return waiter{call: func() error {
			_, _, err := in.NextBuffer(ctx)
			return err
		}, waits: atRest(in.busy), close: in.Close}
	},
	"Next of a task": func(ctx context.Context, t *testing.T, a, b *Node, source func(*Node, *Output) Source) waiter {
		from := newOutput(t, a, OutputConfig{Name: "to the task"})
		task, err := b.NewTask(TaskConfig{Name: "task"})
		if err != nil {
			t.Fatal(err)
		}
		in := newInput(t, b, InputConfig{Sources: []Source{source(a, from)}, Task: task})
		out := newOutput(t, b, OutputConfig{Name: "full too", Task: task})
		for ok := true; ok; {
			if ok, err = out.TryWrite(nil, make([]byte, 1000)); err != nil {
				t.Fatal(err)
			}
		}
		return waiter{call: func() error { // for room in the output
			_, err := in.Next(ctx)
			return err
		}, waits: atRest(in.busy), close: func() error { return errors.Join(in.Close(), out.Close(), task.Close()) }}
	},
	"Finish of a task whose output closes": func(ctx context.Context, t *testing.T, a, b *Node, source func(*Node, *Output) Source) waiter {
		task, err := a.NewTask(TaskConfig{Name: "goes on"})
		if err != nil {
			t.Fatal(err)
		}
		out := unreadOutput(t, a, b, OutputConfig{Name: "unread as well", Task: task}, source)
		return waiter{call: func() error { return task.Finish(ctx) }, waits: atRest(&task.busy), close: out.Close}
	},
	"Finish of a task": func(ctx context.Context, t *testing.T, a, b *Node, source func(*Node, *Output) Source) waiter {
		task, err := a.NewTask(TaskConfig{Name: "finishes", LastCheckpoint: true})
		if err != nil {
			t.Fatal(err)
		}
		out := unreadOutput(t, a, b, OutputConfig{Name: "unread too", Task: task}, source)
		return waiter{call: func() error { return task.Finish(ctx) }, waits: atRest(&task.busy),
			close: func() error { return errors.Join(task.Close(), out.Close()) }}
	},
}

// Who waits gets an error when what it waits in is closed, or its node, by whatever goroutine; and nothing goes away under it (the race detector says so).
func TestCloseEndsThoseThatWait(t *testing.T) { places(t, closeEndsThoseThatWait) }

func closeEndsThoseThatWait(t *testing.T, p place) {
	for _, node := range []bool{false, true} {
		for name, waiter := range waiters {
			for range 5 { // they are met at work on waking, asleep, and as the loop's driver
				ctx := limited(t)
				a, b := p.nodes(t)
				w := waiter(ctx, t, a, b, p.source)
				ended := inBackground(t, w.call)
				await(t, w.waits)
				end := w.close
				if node {
					end = func() error { return errors.Join(a.Close(), b.Close()) }
				}
				if err := end(); err != nil {
					t.Errorf("%s, its node %t: closing: %v", name, node, err)
				}
				// Where all closes the one may hear first that the other has gone.
				if err := ended(); err == nil || errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, ErrClosed) && !node {
					t.Errorf("%s, its node %t: it ended with %v", name, node, err)
				}
				if err := errors.Join(a.Close(), b.Close()); err != nil { // 32 bits have no room for all of them
					t.Error(err)
				}
			}
		}
	}
}

// All kinds at once, that wait for one another's node.
func TestNodeCloseEndsAll(t *testing.T) { places(t, nodeCloseEndsAll) }

func nodeCloseEndsAll(t *testing.T, p place) {
	ctx := limited(t)
	for range 5 {
		a, b := p.nodes(t)
		var ends []func() error
		for _, waiter := range waiters {
			w := waiter(ctx, t, a, b, p.source)
			ends = append(ends, inBackground(t, w.call))
			await(t, w.waits)
		}
		if err := errors.Join(b.Close(), a.Close()); err != nil {
			t.Error(err)
		}
		for _, end := range ends {
			if err := end(); err == nil || errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("it ended with %v", err)
			}
		}
	}
}

// What is called after Close gets an error, and touches nothing.
func TestCallsAfterClose(t *testing.T) { places(t, callsAfterClose) }

func callsAfterClose(t *testing.T, p place) {
	ctx := limited(t)
	a, b := p.nodes(t)
	out := newOutput(t, a, OutputConfig{Name: "x"})
	in := newInput(t, b, InputConfig{Sources: []Source{p.source(a, out)}})
	if err := out.Write(ctx, nil, []byte("one")); err != nil {
		t.Fatal(err)
	}
	if _, err := out.ClaimBuffer(ctx, 0); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(out.Close(), in.Close(), out.Close(), in.Close()); err != nil {
		t.Fatal(err)
	}
	for name, call := range map[string]func() error{
		"Write":      func() error { return out.Write(ctx, nil, []byte("two")) },
		"WriteTo":    func() error { return out.WriteTo(ctx, 0, []byte("two")) },
		"Broadcast":  func() error { return out.Broadcast(ctx, []byte("two")) },
		"Watermark":  func() error { return out.Watermark(ctx, 1) },
		"Flush":      out.Flush,
		"Finish":     func() error { return out.Finish(ctx) },
		"Barrier":    func() error { return out.Barrier(Barrier{}) },
		"TryWrite":   func() error { _, err := out.TryWrite(nil, []byte("two")); return err },
		"WriteBatch": func() error { _, err := out.WriteBatch(ctx, 0, [][]byte{{1}}); return err },
		"Claim":      func() error { _, err := out.ClaimBuffer(ctx, 0); return err },
		"Commit":     func() error { return out.CommitBuffer(3) },
		"Next":       func() error { _, err := in.Next(ctx); return err },
		"NextBuffer": func() error { _, _, err := in.NextBuffer(ctx); return err },
	} {
		if err := call(); !errors.Is(err, ErrClosed) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
