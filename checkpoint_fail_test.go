package weir

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/weirflow/weir/align"
)

// ALN-22: a task whose snapshot fails before its barrier is sent tells so on all outputs, and those behind them, which hold back
// another channel for that barrier, go on at once (FLINK-18238).
func TestALN22FailureBeforeTheBarrier(t *testing.T) {
	ctx := limited(t)
	a, b := server(t), open(t, Config{})
	declined := map[string][]TaskReport{}
	task := func(n *Node, cfg TaskConfig) *Task {
		cfg.Report = func(rep TaskReport) { // all of them within calls of this goroutine
			if rep.Snapshot == nil {
				declined[rep.Task] = append(declined[rep.Task], rep)
			}
		}
		made, err := n.NewTask(cfg)
		if err != nil {
			t.Fatal(err)
		}
		return made
	}
	healthy := task(a, TaskConfig{Name: "healthy"})
	failing := task(a, TaskConfig{Name: "failing", BeforeBarrier: func(Barrier) error { return io.ErrUnexpectedEOF }})
	both := newOutput(t, a, OutputConfig{Name: "both", Subpartitions: 2, Task: healthy})
	var ins [2]*Input
	for i, name := range []string{"left", "right"} {
		newOutput(t, a, OutputConfig{Name: name, Task: failing})
		ins[i] = newInput(t, b, InputConfig{Task: task(b, TaskConfig{Name: name}), Sources: []Source{
			{Addr: a.Addr().String(), Name: "both", Subpartition: i, Last: i},
			{Addr: a.Addr().String(), Name: name},
		}})
	}

	barrier := AlignedBarrier(9, time.Now())
	err := errors.Join(healthy.Trigger(barrier), both.Broadcast(ctx, []byte("behind")), both.Flush())
	if err != nil {
		t.Fatal(err)
	}
	for _, in := range ins {
		for !in.task.Handler().Pending() {
			if ctx.Err() != nil {
				t.Fatal("the barrier does not come")
			}
			short, cancel := context.WithTimeout(ctx, 5*time.Millisecond)
			e, err := in.Next(short)
			cancel()
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Fatalf("before the alignment: %+v, %v", e, err)
			}
		}
	}
	if err := errors.Join(failing.Trigger(barrier), failing.Poll()); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Fatalf("got %v", err)
	}
	for i, in := range ins {
		e, err := in.Next(ctx)
		if err != nil || e.Kind != CheckpointAborted || e.Checkpoint.Barrier.ID != 9 {
			t.Fatalf("input %d: %+v, %v", i, e, err)
		}
		if e, err = in.Next(ctx); err != nil || e.Kind != Record || string(e.Value) != "behind" {
			t.Fatalf("input %d: %+v, %v", i, e, err)
		}
	}
	for name, cause := range map[string]error{"failing": io.ErrUnexpectedEOF, "left": &align.CheckpointError{Reason: align.ReasonCancelled},
		"right": &align.CheckpointError{Reason: align.ReasonCancelled}} {
		if got := declined[name]; len(got) != 1 || got[0].Checkpoint != 9 || !errors.Is(got[0].Err, cause) {
			t.Errorf("%s reported %+v", name, got)
		}
	}
	if st := failing.Stats(); st.Taken != 0 || st.Declined != 1 || st.Pending != 0 {
		t.Errorf("got %+v", st)
	}
}
