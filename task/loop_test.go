package task_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/weirflow/weir/align"
	"github.com/weirflow/weir/ringbuf"
	"github.com/weirflow/weir/serde/event"
	"github.com/weirflow/weir/task"
)

// loopRig is a loop whose sleeps are steps of the test: when the loop would sleep, the next step runs, which must make it ready.
type loopRig struct {
	t       *testing.T
	box     *task.Mailbox
	loop    *task.Loop
	input   []task.Status // what the action comes to
	blocked bool          // the outputs
	clock   time.Duration
	steps   []func()
	log     []string
}

func newLoopRig(t *testing.T, steps ...func(*loopRig)) *loopRig {
	r := &loopRig{t: t, box: task.NewMailbox(8, nil)}
	for _, f := range steps {
		r.steps = append(r.steps, func() { f(r) })
	}
	var err error
	r.loop, err = task.NewLoop(task.LoopConfig{
		Mailbox: r.box,
		Process: func() (task.Status, error) {
			if len(r.input) == 0 {
				r.log = append(r.log, "nothing")
				return task.Nothing, nil
			}
			st := r.input[0]
			r.input = r.input[1:]
			r.log = append(r.log, strings.ToLower(st.String()))
			return st, nil
		},
		Available: func() bool { return len(r.input) > 0 },
		Output:    func() bool { return !r.blocked },
		EndOfData: func(drain bool) error {
			r.log = append(r.log, map[bool]string{true: "drained", false: "stopped"}[drain])
			return nil
		},
		Wait: func(_ context.Context, ready func() bool) error {
			if ready() {
				return nil
			}
			if len(r.steps) == 0 {
				return errStuck
			}
			r.log = append(r.log, "sleep")
			step := r.steps[0]
			r.steps = r.steps[1:]
			step()
			if !ready() {
				t.Error("a step did not wake the loop")
				return errStuck
			}
			return nil
		},
		Now: func() time.Duration { return r.clock },
	})
	must(t, err)
	return r
}

var errStuck = errors.New("the loop sleeps")

func (r *loopRig) mail(name string) {
	must(r.t, r.box.Post(task.Mail{Name: name, Do: func() error { r.log = append(r.log, name); r.clock += time.Hour; return nil }}))
}

func (r *loopRig) is(want string) {
	r.t.Helper()
	if got := strings.Join(r.log, " "); got != want {
		r.t.Errorf("got %s\nwant %s", got, want)
	}
	r.log = nil
}

// While there is no input the loop sleeps, runs mail, and sleeps on; the action runs once for each thing that wakes it.
func TestLoopSleepsForInput(t *testing.T) {
	r := newLoopRig(t,
		func(r *loopRig) { r.clock += 2 * time.Second; r.mail("mail") },
		func(r *loopRig) { r.clock += 3 * time.Second; r.input = append(r.input, task.More, task.EndOfInput) },
	)
	must(t, r.loop.Run(context.Background()))
	r.is("nothing sleep mail nothing sleep more_available end_of_input")
	if times := r.loop.Times(); times != (task.LoopTimes{Idle: 5 * time.Second}) || !r.loop.Ended() {
		t.Errorf("%+v, ended %t", times, r.loop.Ended())
	}
}

// Without room in the outputs nothing is read, whatever there is.
func TestLoopWaitsForOutputs(t *testing.T) {
	r := newLoopRig(t,
		func(r *loopRig) { r.clock += time.Second; r.mail("mail") },
		func(r *loopRig) { r.clock += time.Second; r.blocked = false },
	)
	r.blocked = true
	r.input = []task.Status{task.More, task.EndOfInput}
	if r.loop.Batch() {
		t.Error("a batch, but the outputs are full")
	}
	must(t, r.loop.Run(context.Background()))
	r.is("sleep mail sleep more_available end_of_input")
	if times := r.loop.Times(); times != (task.LoopTimes{BackPressured: 2 * time.Second}) {
		t.Errorf("%+v", times)
	}
}

func TestLoopEndOfData(t *testing.T) {
	r := newLoopRig(t)
	r.input = []task.Status{task.EndOfData, task.More, task.EndOfInput}
	must(t, r.loop.Run(context.Background()))
	r.is("end_of_data drained more_available end_of_input")
	r = newLoopRig(t)
	r.input = []task.Status{task.Stopped, task.EndOfInput}
	must(t, r.loop.Run(context.Background()))
	r.is("stopped stopped end_of_input")
}

// After the end of the input the loop runs mails, the last checkpoint, until it is suspended; then it can be finished.
func TestLoopAfterTheEnd(t *testing.T) {
	r := newLoopRig(t,
		func(r *loopRig) { r.mail("checkpoint") },
		func(r *loopRig) { must(t, r.loop.Suspend()) },
	)
	r.input = []task.Status{task.EndOfInput}
	must(t, r.loop.Run(context.Background()))
	must(t, r.loop.Run(context.Background()))
	r.is("end_of_input sleep checkpoint sleep")
	r.mail("last")
	must(t, r.loop.Finish())
	r.is("last")
	if err := r.loop.Run(context.Background()); !errors.Is(err, task.ErrLoopFinished) {
		t.Error(err)
	}
	if err := r.box.PostUrgent(task.Mail{Name: "late"}); !errors.Is(err, task.ErrMailboxClosed) {
		t.Error(err)
	}
}

// Suspend is seen before the next action, and the loop can go on.
func TestLoopSuspend(t *testing.T) {
	r := newLoopRig(t)
	r.input = []task.Status{task.More, task.EndOfInput}
	must(t, r.loop.Suspend())
	must(t, r.loop.Run(context.Background()))
	r.is("")
	if r.loop.Ended() {
		t.Error("ended")
	}
	must(t, r.loop.Run(context.Background()))
	r.is("more_available end_of_input")
}

func TestLoopErrors(t *testing.T) {
	if _, err := task.NewLoop(task.LoopConfig{}); !errors.Is(err, align.ErrConfig) {
		t.Error(err)
	}
	r := newLoopRig(t)
	r.input = []task.Status{task.EndOfRecovery} // a processor never lets it through
	if err := r.loop.Run(context.Background()); !errors.Is(err, align.ErrState) {
		t.Error(err)
	}
	broken := errors.New("broken")
	must(t, r.box.Post(task.Mail{Name: "bad", Do: func() error { return broken }}))
	if err := r.loop.Run(context.Background()); !errors.Is(err, broken) || !strings.Contains(err.Error(), "bad") {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := r.loop.Run(ctx); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	must(t, r.box.Post(task.Mail{Name: "bad", Do: func() error { return broken }}))
	if err := r.loop.Finish(); !errors.Is(err, broken) {
		t.Error(err)
	}
}

// A task of two gates and a mailbox sleeps in one goroutine, and each of the three wakes it. It does not turn idly: the number of
// actions is bounded by what there was to do.
func TestLoopSleepsOnAllGates(t *testing.T) {
	r := newRig(t, task.InputConfig{}, 1, 1)
	own := ringbuf.NewNotifier()
	box := task.NewMailbox(8, own)
	sleeper := task.NewSleeper(own, r.gates[0].Notifier(), r.gates[1].Notifier())
	m := newMulti(r, task.SelectorConfig{})
	calls := 0
	hand := make(chan func()) // what a loop's ring would bring: run by the task when it looks
	loop, err := task.NewLoop(task.LoopConfig{
		Mailbox: box,
		Process: func() (task.Status, error) { calls++; return m.Process() },
		Available: func() bool {
			select {
			case f := <-hand:
				f()
			default:
			}
			return m.Available()
		},
		Wait: sleeper.Until,
	})
	must(t, err)
	done := make(chan error, 1)
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute) // the limit only says that it hangs
	defer cancel()
	go func() { done <- loop.Run(ctx) }()
	bring := func(gate int, f func()) {
		for {
			r.gates[gate].Notifier().Wake()
			select {
			case hand <- f:
				return
			case <-time.After(time.Millisecond): // the task was not looking at that moment
			}
		}
	}
	bring(0, func() { r.data(0, 0, records(1)) })
	bring(1, func() { r.data(1, 0, records(2)) })
	ran := make(chan struct{})
	must(t, box.Post(task.Mail{Name: "mail", Do: func() error { r.say("mail"); close(ran); return nil }}))
	<-ran
	bring(1, func() { r.event(1, 0, event.Event{Kind: event.EndOfPartition}) })
	bring(0, func() { r.event(0, 0, event.Event{Kind: event.EndOfPartition}) })
	must(t, <-done)
	if !loop.Ended() || len(r.said) != 3 {
		t.Errorf("ended %t, %q", loop.Ended(), r.said)
	}
	if calls > 40 {
		t.Errorf("%d actions for two records and two ends", calls)
	}
}
