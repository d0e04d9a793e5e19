package align

import (
	"errors"
	"strings"
	"testing"

	"github.com/weirflow/weir/credit"
	"github.com/weirflow/weir/serde/event"
)

// script runs ops on a fresh handler and compares what is said in all of them together.
func script(t *testing.T, cfg Config, channels int, want string, ops ...string) (Handler, *recorder) {
	t.Helper()
	h, r := newRecorded(t, cfg, channels)
	for _, op := range ops {
		if err := r.do(h, op); err != nil {
			t.Fatalf("%s: %v", op, err)
		}
	}
	if got := strings.Join(r.take(), "; "); got != want {
		t.Errorf("\nwant %s\ngot  %s", want, got)
	}
	return h, r
}

func TestQuirk1InfiniteTimeoutIsUnaligned(t *testing.T) {
	o := event.ForConfig(event.Checkpoint, 0, nil, true, true, event.NoTimeout)
	if !o.IsUnaligned() {
		t.Errorf("got %v", o.Alignment)
	}
}

func TestQuirk2LastChannelTriggersOldIDs(t *testing.T) {
	script(t, Config{Mode: AtLeastOnce}, 1, "TRIGGER(5,AT_LEAST_ONCE)[align=0ms,bytes=0,delay=0ms]; complete(5); "+
		"TRIGGER(4,AT_LEAST_ONCE)[align=0ms,bytes=0,delay=0ms]; complete(4)", "B 0 5 alo", "B 0 4 alo")
}

func TestQuirk3NewerCancelDropsThePendingOne(t *testing.T) {
	script(t, Config{}, 2, "block(0.0); resume(0.0); ABORT(2,CHECKPOINT_DECLINED_ON_CANCELLATION_BARRIER); resume(0.1)",
		"B 0 1 al", "C 1 2", "B 1 1 al")
}

func TestQuirk4CancelAfterAnnouncementsOnly(t *testing.T) {
	h, _ := script(t, Config{Unaligned: UnalignedOn}, 2, "timer+(100ms)", "A 0 1 5 to100", "C 1 1")
	if !h.Pending() {
		t.Error("not pending any more")
	}
	h, _ = script(t, Config{Unaligned: UnalignedOn, StrictCancel: true}, 2,
		"timer+(100ms); timer-cancel; ABORT(1,CHECKPOINT_DECLINED_ON_CANCELLATION_BARRIER)", "A 0 1 5 to100", "C 1 1")
	if h.Pending() {
		t.Error("still pending")
	}
	// What is complete stays so, strict or not.
	script(t, Config{Unaligned: UnalignedAlways, StrictCancel: true}, 1, "initInputs(1,UNALIGNED); started(g0,1); "+
		"TRIGGER(1,UNALIGNED)[align=0ms,bytes=0,delay=0ms]; stopped(g0,1); complete(1)", "B 0 1 un", "C 0 1")
}

func TestQuirk5AllEndAfterAnnouncementsOnly(t *testing.T) {
	h, _ := script(t, Config{Unaligned: UnalignedOn}, 2, "timer+(100ms); timer-cancel", "A 0 1 5 to100", "E 0", "E 1")
	if p, err := h.AllReceived(1); p != Done || err != nil || h.Pending() {
		t.Errorf("%v, %v", p, err)
	}
}

// A barrier that was promoted here is taken as aligned by the table, so its channel is blocked and resumed: its sender
// did block itself. The data that it overtook was sent before it and must not be held back meanwhile.
func TestQuirk6PromotedBarrierBlocksAndOvertakenDataPasses(t *testing.T) {
	h := newHarness(t, Config{Unaligned: UnalignedOn}, 2, credit.GuardHold)
	h.data(0, "a", 8)
	h.data(0, "b", 8)
	h.barrier(0, 1, "to100", 0)
	h.clock(100)
	for h.poll() {
	}
	h.barrier(1, 1, "to100", 0)
	want := "<mail>; timer+; timer-fire; <mail>; csw.start(1,UNALIGNED); csw.addInput(1,c0,[a,b]); " +
		"TRIGGER(1,UNALIGNED)[align=open,bytes=open,delay=100ms]; poll:c0:a; poll:c0:b; poll:none; " +
		"<mail>; RESUME(c0); RESUME(c1); csw.finishInput(1)"
	if got := h.take(); got != strings.Replace(want, "timer+; ", "", 1) {
		t.Errorf("\nwant %s\ngot  %s", want, got)
	}
}

func TestQuirk8ResumeAscends(t *testing.T) {
	var ops []string
	want := ""
	for _, ch := range []string{"3", "0", "2", "1"} {
		ops = append(ops, "B "+ch+" 1 al")
		want += "block(0." + ch + "); "
	}
	script(t, Config{}, 4, want+"TRIGGER(1,ALIGNED)[align=0ms,bytes=0,delay=0ms]; resume(0.0); resume(0.1); resume(0.2); resume(0.3); complete(1)",
		ops...)
}

func TestQuirk9ObsoleteInjectedBarrierResumesNobody(t *testing.T) {
	script(t, Config{}, 2, "block(0.0)", "B 0 2 al", "RPC 1 1 al")
}

// The channels that were told to start before one refused go on storing until a newer checkpoint; the task is told to
// abort, so it drops what comes for that id.
func TestQuirk10RefusedStart(t *testing.T) {
	h := newHarness(t, Config{Unaligned: UnalignedAlways}, 2, credit.GuardHold)
	// Channel 1 has seen the barrier of 2, which waits behind data; the handler has not.
	h.data(1, "x", 8)
	h.gate.Deliver(credit.Arrival{Channel: 1, Seq: 1, Buf: serialized(barrierItem(1, 2, kind("al")).Event)})
	h.seqs[1] = 2
	h.data(0, "a", 8)
	h.barrier(0, 1, "un", 0)
	h.data(0, "b", 8)
	want := "<mail>; csw.start(1,UNALIGNED); csw.addInput(1,c0,[a]); ABORT(1,CHECKPOINT_SUBSUMED); csw.abort(1)"
	if got := h.take(); got != want {
		t.Errorf("\nwant %s\ngot  %s", want, got)
	}
	if h.handler.Pending() {
		t.Error("still pending")
	}
}

func TestQuirk12NothingIsLeftBehind(t *testing.T) {
	h, _ := script(t, Config{Mode: AtLeastOnce}, 2, "TRIGGER(2,AT_LEAST_ONCE)[align=0ms,bytes=0,delay=0ms]; complete(2)",
		"B 0 1 alo", "E 0", "B 1 2 alo", "E 1")
	if h.Latest() != -1 {
		t.Errorf("%d is left", h.Latest())
	}
	h, _ = script(t, Config{Mode: AtLeastOnce}, 2, "ABORT(2,CHECKPOINT_DECLINED_ON_CANCELLATION_BARRIER)",
		"B 0 1 alo", "E 0", "C 1 2", "E 1")
	if h.Latest() != -1 {
		t.Errorf("%d is left", h.Latest())
	}
	// As Flink: the one left behind is taken late, given up late, or fails the task when the channel ends.
	keep := Config{Mode: AtLeastOnce, KeepOlder: true}
	script(t, keep, 2, "TRIGGER(3,AT_LEAST_ONCE)[align=0ms,bytes=0,delay=0ms]; complete(3); "+
		"TRIGGER(1,AT_LEAST_ONCE)[align=0ms,bytes=0,delay=0ms]; complete(1)", "B 0 1 alo", "B 0 2 alo", "E 0", "B 1 3 alo", "B 1 1 alo")
	script(t, keep, 2, "TRIGGER(3,AT_LEAST_ONCE)[align=0ms,bytes=0,delay=0ms]; complete(3); "+
		"ABORT(1,CHECKPOINT_DECLINED_ON_CANCELLATION_BARRIER)", "B 0 1 alo", "E 0", "B 1 3 alo", "C 1 1")
	for _, newer := range []string{"B 1 2 alo", "C 1 2"} {
		h, r := newRecorded(t, keep, 2)
		for _, op := range []string{"B 0 1 alo", "E 0", newer} {
			check(t, r.do(h, op))
		}
		if err := r.do(h, "E 1"); !errors.Is(err, ErrState) {
			t.Errorf("after %s: %v", newer, err)
		}
	}
}

// failing is an input that fails in one method, and a task that does.
type failing struct {
	recorderGate
	method string
	err    error
}

func (f failing) fail(method string) error {
	if f.method == method {
		return f.err
	}
	return nil
}
func (f failing) Block(int) error                                  { return f.fail("block") }
func (f failing) Resume(int) error                                 { return f.fail("resume") }
func (f failing) Prioritize(int, int32) error                      { return f.fail("prioritize") }
func (f failing) CheckpointStarted(ch int, b *event.Barrier) error { return f.fail("start") }
func (f failing) CheckpointStopped(ch int, checkpoint int64) error { return f.fail("stop") }
func (f failing) Init(*event.Barrier) error                        { return f.fail("init") }
func (f failing) Trigger(*event.Barrier, Metrics) error            { return f.fail("trigger") }
func (f failing) Abort(int64, *CheckpointError) error              { return f.fail("abort") }
func (f failing) Measured(int64, Metrics)                          {}
func (f failing) Complete(int64)                                   {}
func (f failing) Incomplete(int64, *CheckpointError)               {}
func (f failing) Set(int64, int64)                                 {}
func (f failing) Cancel(int64)                                     {}

// TestErrorsReachTheCaller: whatever fails, the call that led to it says so, and nothing panics.
func TestErrorsReachTheCaller(t *testing.T) {
	boom := errors.New("boom")
	for _, tc := range []struct{ method, ops string }{
		{"block", "B 0 1 to100"},
		{"resume", "B 0 1 to100/B 1 1 to100"},
		{"resume", "B 0 2 to100/B 1 1 to100"},
		{"prioritize", "A 0 1 3 to100/T 100"},
		{"prioritize", "B 0 1 un/A 1 1 3 to100"},
		{"start", "B 0 1 un"},
		{"stop", "B 0 1 un/B 1 1 un"},
		{"stop", "B 0 1 un/C 1 1"},
		{"init", "B 0 1 un"},
		{"init", "B 0 1 to100/T 100"},
		{"trigger", "B 0 1 un"},
		{"trigger", "B 0 1 to100/E 1"},
		{"abort", "C 0 1"},
		{"abort", "B 0 1 un/B 0 2 un"},
		{"abort", "A 0 1 3 to100/A 0 2 4 to100"},
	} {
		t.Run(tc.method+" "+tc.ops, func(t *testing.T) {
			f := failing{method: tc.method, err: boom}
			h, err := New(Config{Unaligned: UnalignedOn, Inputs: []Input{f}, Counts: []int{2}, Task: f, Timers: f})
			if err != nil {
				t.Fatal(err)
			}
			r := &recorder{}
			r.channels, _ = NewChannels(2)
			ops := strings.Split(tc.ops, "/")
			for i, op := range ops {
				if op == "T 100" {
					r.now.Millis += 100
					err = h.Timeout(1, r.now)
				} else {
					err = r.do(h, op)
				}
				if i < len(ops)-1 && err != nil {
					t.Fatalf("%s: %v", op, err)
				}
			}
			if !errors.Is(err, boom) {
				t.Errorf("got %v", err)
			}
			h.Close()
		})
	}
}

// A start or an init that refuses the checkpoint aborts it instead, with the reason it gives.
func TestRefusalAborts(t *testing.T) {
	for _, method := range []string{"init", "start"} {
		f := failing{method: method, err: &CheckpointError{Reason: ReasonIO, Err: errors.New("disk")}}
		r := &recorder{}
		h, err := New(Config{Unaligned: UnalignedOn, Inputs: []Input{f}, Counts: []int{2}, Task: struct {
			Task
		}{refusing{f, r}}, Timers: f})
		if err != nil {
			t.Fatal(err)
		}
		b := event.Barrier{ID: 1, Options: kind("un")}
		if err := h.Barrier(0, &b, false, Now{}); err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(r.take(), "; "); got != "ABORT(1,IO_EXCEPTION)" {
			t.Errorf("%s: got %s", method, got)
		}
		if p, err := h.AllReceived(1); p != GivenUp || err != nil {
			t.Errorf("%v, %v", p, err)
		}
	}
}

// refusing writes aborts down, the rest is failing's.
type refusing struct {
	failing
	r *recorder
}

func (f refusing) Abort(id int64, cause *CheckpointError) error { return f.r.Abort(id, cause) }

// TestMisuse: numbers that do not exist, and ends after the last, are errors and change nothing.
func TestMisuse(t *testing.T) {
	for _, cfg := range []Config{{}, {Mode: AtLeastOnce}, {Unaligned: UnalignedOn}} {
		h, r := newRecorded(t, cfg, 1)
		b := event.Barrier{ID: 1, Options: kind("al")}
		for _, ch := range []int{-1, 1, 1 << 30} {
			for _, err := range []error{h.Barrier(ch, &b, false, Now{}), h.Cancel(ch, 1, Now{}), h.EndOfPartition(ch, Now{})} {
				if !errors.Is(err, ErrUnknownChannel) {
					t.Errorf("channel %d: %v", ch, err)
				}
			}
		}
		if _, ok := h.(*Aligner); ok {
			if err := h.Announcement(1, &b, 0, Now{}); !errors.Is(err, ErrUnknownChannel) {
				t.Error(err)
			}
		}
		if err := h.EndOfPartition(0, Now{}); err != nil {
			t.Error(err)
		}
		if err := h.EndOfPartition(0, Now{}); !errors.Is(err, ErrState) {
			t.Errorf("second end: %v", err)
		}
		if out := r.take(); len(out) != 0 {
			t.Errorf("said %v", out)
		}
	}
}

// TestBackwardsMonotonicClock: the monotonic clock must not run backwards; that is an error, not a negative duration.
func TestBackwardsMonotonicClock(t *testing.T) {
	h, r := newRecorded(t, Config{}, 2)
	r.now.Nanos = 100
	if err := r.do(h, "B 0 1 al"); err != nil {
		t.Fatal(err)
	}
	r.now.Nanos = 99
	if err := r.do(h, "B 1 1 al"); !errors.Is(err, ErrState) {
		t.Errorf("got %v", err)
	}
}

// TestConfig: what contradicts itself is refused.
func TestConfig(t *testing.T) {
	r := &recorder{}
	in := recorderGate{r, 0}
	for name, cfg := range map[string]Config{
		"mode":              {Mode: 9, Inputs: []Input{in}, Counts: []int{1}, Task: r},
		"unaligned":         {Unaligned: 9, Inputs: []Input{in}, Counts: []int{1}, Task: r},
		"at least once":     {Mode: AtLeastOnce, Unaligned: UnalignedOn, Inputs: []Input{in}, Counts: []int{1}, Task: r, Timers: r},
		"no timers":         {Unaligned: UnalignedOn, Inputs: []Input{in}, Counts: []int{1}, Task: r},
		"no task":           {Inputs: []Input{in}, Counts: []int{1}},
		"no input":          {Inputs: []Input{nil}, Counts: []int{1}, Task: r},
		"counts":            {Inputs: []Input{in}, Task: r},
		"negative channels": {Inputs: []Input{in}, Counts: []int{-1}, Task: r},
	} {
		if h, err := New(cfg); !errors.Is(err, ErrConfig) || h != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A blocked channel that ends although its sender had to wait is not resumed, whatever becomes of the checkpoint.
func TestEndedChannelIsNeverResumed(t *testing.T) {
	script(t, Config{StopAtFirstEnd: true}, 3,
		"block(0.0); block(0.1); resume(0.1); ABORT(1,CHECKPOINT_DECLINED_INPUT_END_OF_STREAM)", "B 0 1 al", "B 1 1 al", "E 0")
	script(t, Config{}, 3, "block(0.0); block(0.1); block(0.2); TRIGGER(1,ALIGNED)[align=0ms,bytes=0,delay=0ms]; "+
		"resume(0.1); resume(0.2); complete(1)", "B 0 1 al", "B 1 1 al", "E 0", "B 2 1 al")
}
