package weir

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/weirflow/weir/align"
)

// taskRig is a source and a sink, each a task on a node of its own, and their reports.
type taskRig struct {
	t            *testing.T
	a, b         *Node
	source, sink *Task
	out          *Output
	in           *Input
	reports      chan TaskReport
}

func newTaskRig(t *testing.T, source, sink TaskConfig, out OutputConfig, in InputConfig) *taskRig {
	t.Helper()
	r := &taskRig{t: t, a: server(t), b: open(t, Config{}), reports: make(chan TaskReport, 100)}
	report := func(rep TaskReport) { r.reports <- rep }
	source.Name, sink.Name, source.Report, sink.Report = "source", "sink", report, report
	var err error
	if r.source, err = r.a.NewTask(source); err != nil {
		t.Fatal(err)
	}
	if r.sink, err = r.b.NewTask(sink); err != nil {
		t.Fatal(err)
	}
	out.Name, out.Task = "x", r.source
	r.out = newOutput(t, r.a, out)
	in.Task, in.Sources = r.sink, []Source{{Addr: r.a.Addr().String(), Name: "x", Last: r.out.Subpartitions() - 1}}
	r.in = newInput(t, r.b, in)
	return r
}

// report is the next report, which must be of that task and checkpoint.
func (r *taskRig) report(task string, id int64) TaskReport {
	r.t.Helper()
	select {
	case rep := <-r.reports:
		if rep.Task != task || rep.Checkpoint != id {
			r.t.Fatalf("got %+v, want one of %s about checkpoint %d", rep, task, id)
		}
		return rep
	case <-time.After(limit):
		r.t.Fatal("no report")
		panic("unreachable")
	}
}

func (r *taskRig) next(kind Kind) *Element {
	r.t.Helper()
	e, err := r.in.Next(limited(r.t))
	if err != nil {
		r.t.Fatal(err)
	}
	if e.Kind != kind {
		r.t.Fatalf("got %+v, want kind %d", e, kind)
	}
	return e
}

func (r *taskRig) check(errs ...error) {
	r.t.Helper()
	for _, err := range errs {
		if err != nil {
			r.t.Fatal(err)
		}
	}
}

// A checkpoint is triggered, taken, reported, completed; or declined; or aborted before or after its barrier.
func TestTaskOutcomes(t *testing.T) {
	var completed []int64
	aborted := map[int64]error{}
	offset := byte(0)
	r := newTaskRig(t, TaskConfig{OnCheckpoint: func(cp *CheckpointInfo) {
		if cp.Barrier.ID == 2 {
			cp.Decline(io.ErrUnexpectedEOF)
			cp.Ack() // too late
			return
		}
		cp.Ack([]byte{offset}, []byte("of"))
	}}, TaskConfig{
		OnCompleted: func(id int64) { completed = append(completed, id) },
		OnAborted:   func(id int64, err error) { aborted[id] = err },
	}, OutputConfig{}, InputConfig{})
	ctx := limited(t)
	offset = 1
	r.check(r.out.Write(ctx, nil, []byte("before")), r.source.Trigger(AlignedBarrier(1, time.Now())))
	r.check(r.out.Write(ctx, nil, []byte("behind")), r.out.Flush())
	if rep := r.report("source", 1); rep.Snapshot == nil || string(rep.Snapshot.State) != "\x01of" || rep.Snapshot.Outputs[0] != 1 {
		t.Errorf("got %+v", rep)
	}
	if e := r.next(Record); string(e.Value) != "before" {
		t.Errorf("got %q", e.Value)
	}
	cp := r.next(Checkpoint).Checkpoint
	r.next(Record)
	cp.Ack([]byte("late")) // any time, from anywhere
	if rep := r.report("sink", 1); string(rep.Snapshot.State) != "late" || rep.Snapshot.Inputs[0] != 1 || rep.Metrics.Unaligned {
		t.Errorf("got %+v", rep)
	}
	// The second is declined at the source. Its barrier comes all the same.
	r.check(r.source.Trigger(AlignedBarrier(2, time.Now())), r.source.Poll())
	if rep := r.report("source", 2); rep.Snapshot != nil || !errors.Is(rep.Err, io.ErrUnexpectedEOF) {
		t.Errorf("got %+v", rep)
	}
	cp = r.next(Checkpoint).Checkpoint
	r.sink.Completed(1)
	r.sink.Aborted(2, io.ErrClosedPipe)
	// The third is aborted before its barrier has come to the sink, the fourth before it is triggered at the source.
	r.sink.Aborted(3, nil)
	r.check(r.source.Trigger(AlignedBarrier(3, time.Now())), r.source.Poll())
	r.report("source", 3)
	r.source.Aborted(4, nil)
	r.check(r.source.Trigger(AlignedBarrier(4, time.Now())), r.source.Poll()) // a marker goes out instead
	r.check(r.source.Trigger(AlignedBarrier(5, time.Now())), r.source.Trigger(AlignedBarrier(5, time.Now())), r.source.Poll())
	r.report("source", 5)
	if e := r.next(CheckpointAborted); e.Checkpoint.Barrier.ID != 4 || !errors.Is(e.Checkpoint.Cause, &align.CheckpointError{Reason: align.ReasonCancelled}) {
		t.Errorf("got %+v", e.Checkpoint)
	}
	r.report("sink", 4)
	if id := r.next(Checkpoint).Checkpoint.Barrier.ID; id != 5 {
		t.Errorf("checkpoint %d", id)
	}
	cp.Ack() // of the second, which is over
	if len(completed) != 1 || completed[0] != 1 || !errors.Is(aborted[2], io.ErrClosedPipe) || aborted[3] == nil {
		t.Errorf("completed %v, aborted %v", completed, aborted)
	}
	if st := r.source.Stats(); st.Taken != 4 || st.Acknowledged != 3 || st.Declined != 1 || st.Pending != 0 {
		t.Errorf("source %+v", st)
	}
	select {
	case rep := <-r.reports:
		t.Errorf("and %+v", rep)
	default:
	}
}

// A task that waits for something of its own hears that there is something to do.
func TestTaskPosted(t *testing.T) {
	r := newTaskRig(t, TaskConfig{}, TaskConfig{}, OutputConfig{Subpartitions: 3}, InputConfig{})
	select {
	case <-r.source.Posted():
		t.Fatal("before anything was posted")
	default:
	}
	go func() { _ = r.source.Trigger(AlignedBarrier(1, time.Now())) }()
	select {
	case <-r.source.Posted():
	case <-time.After(limit):
		t.Fatal("not told")
	}
	r.check(r.source.Poll())
	r.report("source", 1)
	r.next(Checkpoint).Checkpoint.Ack()
	r.report("sink", 1)
}

// At the end a last checkpoint is waited for, at every task, and Finish takes what is triggered meanwhile.
func TestTaskLastCheckpoint(t *testing.T) {
	r := newTaskRig(t, TaskConfig{LastCheckpoint: true}, TaskConfig{LastCheckpoint: true}, OutputConfig{}, InputConfig{})
	ctx := limited(t)
	r.check(r.out.Write(ctx, nil, []byte("x")))
	finished := inBackground(t, func() error { return r.out.Finish(ctx) })
	r.next(Record)
	r.next(EndOfData)
	r.check(r.source.Trigger(AlignedBarrier(1, time.Now())), r.sink.Trigger(AlignedBarrier(1, time.Now())))
	r.next(Checkpoint).Checkpoint.Ack([]byte("state"))
	for range 2 {
		<-r.reports
	}
	short, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
	defer cancel()
	if _, err := r.in.Next(short); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("it ended before the checkpoint was completed: %v", err)
	}
	r.source.Completed(1)
	r.sink.Completed(1)
	if _, err := r.in.Next(ctx); err != io.EOF {
		t.Fatal(err)
	}
	r.check(r.sink.Finish(ctx), finished())
	for range 2 {
		if rep := <-r.reports; !rep.Finished || rep.Snapshot == nil || rep.Task == "sink" && string(rep.Snapshot.State) != "state" {
			t.Errorf("got %+v", rep)
		}
	}
	if err := r.source.Trigger(AlignedBarrier(2, time.Now())); !errors.Is(err, ErrFinished) {
		t.Errorf("a checkpoint after the end: %v", err)
	}
}

// Tasks whose senders have ended take a checkpoint when they are told.
func TestTaskAfterItsSenders(t *testing.T) {
	for _, unaligned := range []Unaligned{UnalignedOff, UnalignedOn} {
		r := newTaskRig(t, TaskConfig{}, TaskConfig{LastCheckpoint: true}, OutputConfig{}, InputConfig{Unaligned: unaligned})
		ctx := limited(t)
		finished := inBackground(t, func() error { return r.out.Finish(ctx) })
		r.check(r.sink.Trigger(AlignedBarrier(1, time.Now()))) // while the sender lives
		r.next(EndOfData)
		cp := r.next(Checkpoint).Checkpoint
		if cp.Barrier.ID != 1 {
			t.Errorf("checkpoint %d", cp.Barrier.ID)
		}
		cp.Ack()
		r.check(r.sink.Trigger(UnalignedBarrier(2, time.Now()))) // and when it does not
		r.next(Checkpoint).Checkpoint.Ack()
		r.sink.Completed(2)
		if _, err := r.in.Next(ctx); err != io.EOF {
			t.Fatal(err)
		}
		r.check(finished())
	}
}

// A task takes a checkpoint whose data in flight its input has begun to gather, also if the input has begun the next one since; and one that it
// has not begun.
func TestTaskGathersEachOnce(t *testing.T) {
	r := newTaskRig(t, TaskConfig{}, TaskConfig{}, OutputConfig{}, InputConfig{Unaligned: UnalignedOn})
	for id := int64(1); id <= 2; id++ {
		r.check((stateOf{r.sink}).Start(id, UnalignedBarrier(id, time.Now()).Options))
	}
	for id := int64(1); id <= 3; id++ {
		b := UnalignedBarrier(id, time.Now())
		if _, err := r.sink.gather(&b); err != nil {
			t.Errorf("checkpoint %d: %v", id, err)
		}
		if _, err := r.sink.state.Result(id); !errors.Is(err, align.ErrState) {
			t.Errorf("checkpoint %d was begun again: %v", id, err)
		}
	}
}

// Too much in flight declines the checkpoint, and nothing else.
func TestTaskMaxInFlight(t *testing.T) {
	r := newTaskRig(t, TaskConfig{MaxInFlight: 1000}, TaskConfig{}, OutputConfig{}, InputConfig{Unaligned: UnalignedOn})
	ctx := limited(t)
	r.check(r.out.Write(ctx, nil, make([]byte, 100)), r.source.Trigger(UnalignedBarrier(1, time.Now())), r.out.Flush())
	if rep := r.report("source", 1); rep.Snapshot == nil {
		t.Errorf("got %+v", rep)
	}
	for range 40 {
		r.check(r.out.Write(ctx, nil, make([]byte, 30_000)))
	}
	r.check(r.source.Trigger(UnalignedBarrier(2, time.Now())), r.out.Flush())
	if rep := r.report("source", 2); !errors.Is(rep.Err, ErrTooMuchInFlight) || !strings.Contains(rep.Err.Error(), "more than 1000 bytes") {
		t.Errorf("got %+v", rep)
	}
	for records := 0; records < 41; { // the data has come through
		e, err := r.in.Next(ctx)
		r.check(err)
		if e.Kind == Record {
			records++
		}
	}
}

func TestTaskMisuse(t *testing.T) {
	a, b := server(t), open(t, Config{})
	want := func(err error, what string) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("got %v, want %q", err, what)
		}
	}
	task, err := a.NewTask(TaskConfig{Name: "one", Attempt: 3})
	if err != nil {
		t.Fatal(err)
	}
	want(task.Trigger(AlignedBarrier(1, time.Now())), "neither an input nor outputs")
	_, err = b.NewOutput(OutputConfig{Name: "x", Task: task})
	want(err, "of another node")
	_, err = a.NewOutput(OutputConfig{Name: "x", Task: task, State: newInFlight()})
	want(err, "the task's affair")
	sources := []Source{{Addr: a.Addr().String(), Name: "y"}}
	_, err = a.NewInput(InputConfig{Task: task, Sources: sources, State: newInFlight()})
	want(err, "the task's affair")
	_, err = a.NewInput(InputConfig{Task: task, Sources: sources, Mode: AtLeastOnce, Unaligned: UnalignedOn})
	want(err, "AT_LEAST_ONCE")
	newInput(t, a, InputConfig{Task: task, Sources: sources}) // the one before is forgotten
	_, err = a.NewInput(InputConfig{Task: task, Sources: sources})
	want(err, "has an input already")
	out := newOutput(t, a, OutputConfig{Name: "x", Task: task})
	if id := out.ID(); id != NameAttempt("x", 3) || id == NameID("x") || id.Attempt() != 3 {
		t.Errorf("partition %s", id)
	}
	_, err = a.NewOutput(OutputConfig{Name: "x", Attempt: 2})
	want(err, "a newer attempt")
	_, err = a.NewTask(TaskConfig{Name: "two", Restore: &Snapshot{Task: "one"}})
	want(err, `one of task "one"`)
	_, err = a.NewTask(TaskConfig{Attempt: -1})
	want(err, "attempt -1")
	if err := task.Close(); err != nil {
		t.Error(err)
	}
	want(task.Trigger(AlignedBarrier(1, time.Now())), "closed")
}

// A consumer of an attempt that is over hears it at once.
func TestOldAttemptOfAnOutput(t *testing.T) {
	a, b := server(t), open(t, Config{})
	newOutput(t, a, OutputConfig{Name: "x", Attempt: 2})
	in := newInput(t, b, InputConfig{Attempt: 1, Sources: []Source{{Addr: a.Addr().String(), Name: "x"}}})
	_, err := in.Next(limited(t))
	names(t, err, a.Addr().String(), NameAttempt("x", 1).String(), "a newer attempt has taken its place: attempt 2")
}

// What was in flight is restored to as many channels as it was in; nothing in flight fits everywhere.
func TestRestoreNeedsTheSameChannels(t *testing.T) {
	a := server(t)
	task := func(s *Snapshot) *Task {
		t.Helper()
		s.Task = "t"
		task, err := a.NewTask(TaskConfig{Name: "t", Restore: s})
		if err != nil {
			t.Fatal(err)
		}
		return task
	}
	sources := []Source{{Addr: a.Addr().String(), Name: "y", Last: 3}}
	_, err := a.NewInput(InputConfig{Task: task(someSnapshot()), Sources: sources})
	if !errors.Is(err, ErrRescaled) || !strings.Contains(err.Error(), "input 0 had 3, and has 4") {
		t.Errorf("input: %v", err)
	}
	_, err = a.NewOutput(OutputConfig{Name: "x", Subpartitions: 5, Task: task(someSnapshot())})
	if !errors.Is(err, ErrRescaled) || !strings.Contains(err.Error(), "output 0 had 2, and has 5") {
		t.Errorf("output: %v", err)
	}
	s := someSnapshot()
	s.In, s.Out = nil, nil
	newInput(t, a, InputConfig{Task: task(s), Sources: sources})
	bad := someSnapshot()
	bad.In[1].Channel.Index = 3
	if _, err := a.NewInput(InputConfig{Task: task(bad), Sources: sources}); !errors.Is(err, ErrSnapshot) {
		t.Errorf("a channel that is none: %v", err)
	}
	cut := someSnapshot()
	cut.Out[0].Stream.Data = cut.Out[0].Stream.Data[:9]
	if _, err := a.NewOutput(OutputConfig{Name: "x", Subpartitions: 2, Task: task(cut)}); !errors.Is(err, align.ErrStateFile) {
		t.Errorf("state that is cut short: %v", err)
	}
}

// Data in flight can also be kept in files of a store, that the snapshot then only names.
func TestTaskStore(t *testing.T) {
	store := &align.DirStore{Dir: t.TempDir()}
	r := newTaskRig(t, TaskConfig{Store: store}, TaskConfig{}, OutputConfig{BufferTimeout: -1}, InputConfig{Unaligned: UnalignedOn})
	ctx := limited(t)
	// A record fills a buffer, so that what is in flight here begins with one: the rest of a record would belong to what the consumer has.
	const size = 32<<10 - 9
	for range 40 {
		r.check(r.out.Write(ctx, nil, make([]byte, size)))
	}
	r.check(r.source.Trigger(UnalignedBarrier(1, time.Now())), r.out.Flush())
	s := r.report("source", 1).Snapshot
	if _, out := s.InFlight(); out < size || s.Out[0].Stream.Path == "" {
		t.Fatalf("%d bytes in flight, in %+v", out, s.Out)
	}
	b := server(t)
	again, err := b.NewTask(TaskConfig{Name: "source", Attempt: 1, Restore: s, Store: store})
	r.check(err)
	newOutput(t, b, OutputConfig{Name: "x", Task: again})
	in := newInput(t, open(t, Config{}), InputConfig{Attempt: 1, Sources: []Source{{Addr: b.Addr().String(), Name: "x"}}})
	whole, kinds := 0, map[Kind]int{}
	for kinds[EndOfRecovery] == 0 {
		e, err := in.Next(ctx)
		r.check(err)
		if kinds[e.Kind]++; e.Kind == Record && len(e.Value) == size {
			whole++
		}
	}
	if whole == 0 || whole != kinds[Record] {
		t.Errorf("%d of %d records are whole", whole, kinds[Record])
	}
}
