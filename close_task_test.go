package weir

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"
)

// closeRig is a task with an input that nothing comes to, and outputs that nobody reads, all on one node.
type closeRig struct {
	n    *Node
	from *Output // to the task
	task *Task
	in   *Input
	outs []*Output
}

func newCloseRig(t *testing.T, outputs int, withInput bool, cfg TaskConfig) *closeRig {
	t.Helper()
	r := &closeRig{n: open(t, Config{SegmentSize: 4096, Memory: 4 << 20})}
	cfg.Name = "task"
	var err error
	if r.task, err = r.n.NewTask(cfg); err != nil {
		t.Fatal(err)
	}
	if withInput {
		r.from = newOutput(t, r.n, OutputConfig{Name: "from", FlushEach: true})
		r.in = newInput(t, r.n, InputConfig{Sources: []Source{{Addr: Local, Name: "from"}}, Task: r.task})
	}
	for i := range outputs {
		name := string(rune('a' + i))
		r.outs = append(r.outs, newOutput(t, r.n, OutputConfig{Name: name, Task: r.task}))
		newInput(t, r.n, InputConfig{Sources: []Source{{Addr: Local, Name: name}}, Unaligned: UnalignedOn})
	}
	return r
}

// An output of a task closes although the task waits for something else, and the task goes on with the rest.
func TestOutputOfATaskThatWaitsCloses(t *testing.T) {
	ctx := limited(t)
	r := newCloseRig(t, 2, true, TaskConfig{})
	next := inBackground(t, func() error {
		e, err := r.in.Next(ctx)
		if err == nil && string(e.Value) != "hello" {
			err = errors.New("another record")
		}
		return err
	})
	await(t, atRest(&r.task.busy))
	if err := r.outs[0].Close(); err != nil {
		t.Fatal(err)
	}
	if err := r.from.Write(ctx, nil, []byte("hello")); err != nil {
		t.Fatal(err)
	}
	if err := next(); err != nil {
		t.Error(err)
	}
	if err := r.outs[1].WriteTo(ctx, 0, []byte("on")); err != nil {
		t.Error(err)
	}
	if err := r.outs[0].WriteTo(ctx, 0, []byte("on")); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
}

// Finish of a task that waits for consumers of several outputs ends with the error of the one that is closed, and is not reported as the end.
func TestFinishOfATaskWithAClosedOutput(t *testing.T) {
	ctx := limited(t)
	reports := make(chan TaskReport, 10)
	r := newCloseRig(t, 1, false, TaskConfig{Report: func(rep TaskReport) { reports <- rep }})
	end := inBackground(t, func() error { return r.task.Finish(ctx) })
	await(t, atRest(&r.task.busy))
	if err := r.outs[0].Close(); err != nil {
		t.Fatal(err)
	}
	if err := end(); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
	select {
	case rep := <-reports:
		t.Errorf("reported %+v", rep)
	default:
	}
}

// What the task's own functions close is closed at once, though they are called within a call that waited.
func TestCloseWithinOnCheckpoint(t *testing.T) {
	for name, do := range map[string]func(r *closeRig) error{
		"input":  func(r *closeRig) error { return r.in.Close() },
		"output": func(r *closeRig) error { return r.outs[0].Close() },
		"task":   func(r *closeRig) error { return r.task.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			ctx := limited(t)
			var r *closeRig
			closed := make(chan error, 1)
			r = newCloseRig(t, 1, true, TaskConfig{OnCheckpoint: func(*CheckpointInfo) { closed <- do(r) }})
			next := inBackground(t, func() error {
				for {
					if _, err := r.in.Next(ctx); err != nil {
						return err
					}
				}
			})
			await(t, atRest(&r.task.busy))
			if err := errors.Join(r.from.Barrier(AlignedBarrier(1, time.Now())), r.from.Flush()); err != nil {
				t.Fatal(err)
			}
			if err := <-closed; err != nil {
				t.Error(err)
			}
			if err := r.in.Close(); err != nil {
				t.Error(err)
			}
			if err := next(); !errors.Is(err, ErrClosed) {
				t.Error(err)
			}
		})
	}
}

// A function of the user's that has waited in a call of its own may close what the call around it waits in; that call is there again afterwards.
func TestOccupancyOfCallsWithinCalls(t *testing.T) {
	var c occupancy
	steps := []uint32{}
	note := func() { steps = append(steps, c.state.Load()) }
	c.begin()
	c.enter()
	c.call(func() {
		note()
		c.begin()
		if c.looks(func() bool { note(); return false })() {
			t.Error("ready")
		}
		note()
		c.enter()
		c.end()
		note()
		if err := c.vacate(); err != nil {
			t.Error(err)
		}
	})
	note()
	c.end()
	note()
	if want := []uint32{away, here, waiting, away, here, away}; !slices.Equal(steps, want) {
		t.Errorf("states %v, want %v", steps, want)
	}
}

// Close meets a task that is woken at that moment, by a checkpoint or by memory (the race detector says what it touches).
func TestCloseMeetsATaskThatWakes(t *testing.T) {
	rounds := 60
	if testing.Short() {
		rounds = 10
	}
	trigger := func(r *closeRig, b func(int64, time.Time) Barrier) func() error {
		return func() error {
			for k := range 10 {
				if r.task.Trigger(b(int64(k+1), time.Now())) != nil {
					break
				}
				time.Sleep(10 * time.Microsecond)
			}
			return nil
		}
	}
	ack := TaskConfig{OnCheckpoint: func(cp *CheckpointInfo) { cp.Ack() }}
	for name, round := range map[string]func(ctx context.Context, t *testing.T, i int){
		"a sibling that writes": func(ctx context.Context, t *testing.T, i int) {
			r := newCloseRig(t, 2, false, ack)
			end := inBackground(t, func() (err error) {
				for err == nil {
					err = r.outs[1].WriteTo(ctx, 0, make([]byte, 1000))
				}
				return err
			})
			await(t, atRest(&r.task.busy))
			triggered := inBackground(t, trigger(r, AlignedBarrier))
			time.Sleep(time.Duration(i) * time.Microsecond)
			if err := errors.Join(r.outs[0].Close(), triggered(), r.outs[1].Close()); err != nil {
				t.Error(err)
			}
			if err := end(); !errors.Is(err, ErrClosed) {
				t.Error(err)
			}
			if err := r.n.Close(); err != nil {
				t.Error(err)
			}
		},
		"Finish": func(ctx context.Context, t *testing.T, i int) {
			r := newCloseRig(t, 1, false, ack)
			end := inBackground(t, func() error { return r.task.Finish(ctx) })
			await(t, atRest(&r.task.busy))
			triggered := inBackground(t, trigger(r, UnalignedBarrier))
			time.Sleep(time.Duration(i) * time.Microsecond)
			if i%2 == 0 {
				if err := r.task.Close(); err != nil {
					t.Error(err)
				}
			}
			if err := errors.Join(r.n.Close(), triggered()); err != nil {
				t.Error(err)
			}
			if err := end(); err == nil || errors.Is(err, context.DeadlineExceeded) {
				t.Error(err)
			}
		},
		"its own writer": func(ctx context.Context, t *testing.T, i int) {
			r := newCloseRig(t, 1, false, ack)
			end := inBackground(t, func() (err error) {
				for err == nil {
					err = r.outs[0].WriteTo(ctx, 0, make([]byte, 1000))
				}
				return errors.Join(err, r.outs[0].Close())
			})
			await(t, atRest(&r.task.busy))
			if err := r.n.Close(); err != nil {
				t.Error(err)
			}
			if err := end(); !errors.Is(err, ErrClosed) {
				t.Error(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := limited(t)
			for i := range rounds {
				round(ctx, t, i)
			}
		})
	}
}

// Those that wait for consumers hear that there will be none.
func TestAwaitConsumersOfAClosedOutput(t *testing.T) {
	ctx := limited(t)
	n := open(t, Config{})
	out := newOutput(t, n, OutputConfig{Name: "x"})
	file := newOutput(t, n, OutputConfig{Name: "file", Blocking: &Blocking{Dir: t.TempDir()}})
	if err := file.Finish(ctx); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		out  *Output
		wait func() error
	}{
		"AwaitConsumers": {out, func() error { return out.AwaitConsumers(ctx) }},
		"AwaitRead":      {file, func() error { return file.AwaitRead(ctx, 1) }},
	} {
		wait := inBackground(t, c.wait)
		if err := c.out.Close(); err != nil {
			t.Error(err)
		}
		if err := wait(); !errors.Is(err, ErrClosed) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
