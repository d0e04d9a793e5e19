package task_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/weirflow/weir/align"
	"github.com/weirflow/weir/credit"
	"github.com/weirflow/weir/serde"
	"github.com/weirflow/weir/serde/event"
	"github.com/weirflow/weir/task"
)

func watermark(t int64) serde.Element { return serde.Element{Kind: serde.Watermark, Timestamp: t} }

// N13: what a deserializer holds of a record belongs to the unaligned checkpoint, before what the channel holds, and reading goes on.
func TestUnalignedCheckpointStoresPartOfRecord(t *testing.T) {
	r := newRig(t, task.InputConfig{Unaligned: align.UnalignedOn}, 2)
	in := r.inputs[0]
	whole := records(7)
	r.data(0, 0, whole[:7])
	must(t, r.next(in))
	r.is("NOTHING_AVAILABLE")
	r.data(0, 0, whole[7:])
	r.barrier(0, 1, 1, unalignedOptions)
	must(t, r.next(in))
	r.is("persist(1,c0,-1,7)", "persist(1,c0,1,6)", "TRIGGER(1,UNALIGNED)", "rec(7)", "NOTHING_AVAILABLE")
	if got := append(r.parts[0], r.parts[1]...); string(got) != string(whole) {
		t.Errorf("stored %x, want %x", got, whole)
	}
	// What comes before the barrier belongs to it, what comes behind it doesn't.
	r.data(0, 0, records(8))
	r.barrier(0, 0, 1, unalignedOptions)
	r.data(0, 0, records(9))
	must(t, r.next(in))
	r.is("persist(1,c0,2,13)", "COMPLETE(1)", "rec(8)", "rec(9)", "NOTHING_AVAILABLE")
}

// The metrics of an unaligned checkpoint are known when it is complete.
func TestCompletedHasMetrics(t *testing.T) {
	r := newRig(t, task.InputConfig{Unaligned: align.UnalignedOn}, 2)
	in := r.inputs[0]
	r.barrier(0, 0, 1, unalignedOptions)
	if st, err := in.Next(); st != task.Checkpoint || err != nil || in.Notice().Metrics.Known {
		t.Fatalf("%v, %v, %+v", st, err, in.Notice())
	}
	r.millis += 5
	r.barrier(0, 1, 1, unalignedOptions)
	if st, err := in.Next(); st != task.Completed || err != nil || !in.Notice().Metrics.Known || in.Notice().Metrics.AlignmentNanos != 5e6 {
		t.Fatalf("%v, %v, %+v", st, err, in.Notice())
	}
}

// Several notices at once: no record goes past any of them, also not on the short path.
func TestNoRecordPastANotice(t *testing.T) {
	r := newRig(t, task.InputConfig{Unaligned: align.UnalignedOn}, 2)
	in := r.inputs[0]
	r.data(0, 0, records(1, 2, 3))
	if st, err := in.Next(); st != task.Element || err != nil {
		t.Fatal(st, err)
	}
	r.barrier(0, 1, 1, unalignedOptions)
	r.barrier(0, 1, 2, unalignedOptions) // the first one is given up
	for _, want := range []task.Status{task.Aborted, task.Checkpoint} {
		if _, ok := in.WholeRecord(); ok {
			t.Fatalf("a record went past %v", want)
		}
		if st, err := in.Next(); st != want || err != nil {
			t.Fatalf("%v, %v, want %v", st, err, want)
		}
	}
	if v, ok := in.WholeRecord(); !ok || binary.BigEndian.Uint64(v) != 2 {
		t.Fatal("the next record is not the second")
	}
	if in.Records() != 2 {
		t.Errorf("%d records", in.Records())
	}
}

// A timer that turns a checkpoint unaligned between two records of a buffer comes before the second.
func TestTimeoutBetweenRecords(t *testing.T) {
	r := newRig(t, task.InputConfig{Unaligned: align.UnalignedOn}, 2)
	in := r.inputs[0]
	r.barrier(0, 1, 1, timedOptions(10))
	r.data(0, 0, records(1, 2, 3))
	r.data(0, 0, records(4))
	for r.said == nil || r.said[len(r.said)-1] != "rec(1)" {
		st, err := in.Next()
		must(t, err)
		if st != task.Element {
			t.Fatal(st)
		}
		r.sayElement(in.Element())
	}
	r.take()
	if len(r.timer) != 1 {
		t.Fatal("no timer was set")
	}
	r.millis += 10
	must(t, in.Timeout(1))
	if _, ok := in.WholeRecord(); ok {
		t.Error("a record went past the checkpoint")
	}
	must(t, r.next(in))
	r.is("persist(1,c0,-1,26)", "persist(1,c0,1,13)", "TRIGGER(1,UNALIGNED)", "rec(2)", "rec(3)", "rec(4)", "NOTHING_AVAILABLE")
}

// The same when the barrier was taken already, so that no priority event stands in the way of the short path.
func TestTimeoutAfterTheBarrier(t *testing.T) {
	r := newRig(t, task.InputConfig{Unaligned: align.UnalignedOn}, 2)
	in := r.inputs[0]
	r.barrier(0, 1, 1, timedOptions(10))
	must(t, r.next(in))
	r.data(0, 0, records(1, 2, 3))
	if st, err := in.Next(); st != task.Element || err != nil {
		t.Fatal(st, err)
	}
	r.millis += 10
	r.take()
	must(t, in.Timeout(1))
	if v, ok := in.WholeRecord(); ok {
		t.Errorf("record %x went past the checkpoint", v)
	}
	must(t, r.next(in))
	r.is("persist(1,c0,-1,26)", "TRIGGER(1,UNALIGNED)", "rec(2)", "rec(3)", "NOTHING_AVAILABLE")
}

// A sender that is blocked at a barrier with a time limit lets a newer unaligned one through. When the limit of the first is over,
// the newer one has taken its place: there is nothing to promote.
func TestTimeoutBehindNewerBarrier(t *testing.T) {
	r := newRig(t, task.InputConfig{Unaligned: align.UnalignedOn}, 2)
	in := r.inputs[0]
	r.barrier(0, 1, 1, timedOptions(10))
	must(t, r.next(in))
	r.data(0, 0, records(1))
	r.barrier(0, 0, 1, timedOptions(10))
	if st, err := in.Next(); st != task.Element || err != nil { // behind the announcement
		t.Fatal(st, err)
	}
	r.barrier(0, 0, 2, unalignedOptions)
	r.take()
	r.millis += 10
	must(t, in.Timeout(1))
	must(t, r.next(in))
	r.is("RESUME(c1)", "ABORT(1,CHECKPOINT_DECLINED_SUBSUMED)", "TRIGGER(2,UNALIGNED)", "RESUME(c0)", "NOTHING_AVAILABLE")
}

// The same when the barrier is announced only after the checkpoint turned unaligned: it gives way, the task goes on.
func TestAnnouncementBehindNewerBarrier(t *testing.T) {
	r := newRig(t, task.InputConfig{Unaligned: align.UnalignedOn}, 2)
	in := r.inputs[0]
	r.barrier(0, 1, 1, unalignedOptions)
	must(t, r.next(in))
	r.is("TRIGGER(1,UNALIGNED)", "NOTHING_AVAILABLE")
	r.data(0, 0, records(1))
	r.barrier(0, 0, 1, timedOptions(10))
	r.barrier(0, 0, 2, unalignedOptions)
	must(t, r.next(in))
	got := r.take()
	for _, want := range []string{"ABORT(1,CHECKPOINT_SUBSUMED)", "TRIGGER(2,UNALIGNED)", "rec(1)", "RESUME(c0)"} {
		if strings.Count(got, want) != 1 {
			t.Errorf("%s: not once in %s", want, got)
		}
	}
}

// stateCalls is a StateWriter that says what it hears, and fails when told to.
type stateCalls struct {
	r    *rig
	fail error
}

func (s *stateCalls) Start(id int64, o event.Options) error {
	s.r.say("start(%d,%v)", id, o.Alignment)
	return s.fail
}
func (s *stateCalls) FinishInput(id int64) error { s.r.say("finish(%d)", id); return nil }
func (s *stateCalls) Abort(id int64, _ error, forget bool) error {
	s.r.say("abort(%d,%t)", id, forget)
	return nil
}

func TestStateWriterHearsOfCheckpoints(t *testing.T) {
	st := &stateCalls{}
	r := newRig(t, task.InputConfig{Unaligned: align.UnalignedOn, State: st}, 2)
	st.r = r
	in := r.inputs[0]
	// Unaligned: finished once the last barrier is here.
	r.barrier(0, 0, 1, unalignedOptions)
	must(t, r.next(in))
	r.is("start(1,UNALIGNED)", "TRIGGER(1,UNALIGNED)", "NOTHING_AVAILABLE")
	r.barrier(0, 1, 1, unalignedOptions)
	must(t, r.next(in))
	r.is("finish(1)", "COMPLETE(1)", "NOTHING_AVAILABLE")
	// Aligned within its time: begun and finished at once.
	r.barrier(0, 0, 2, timedOptions(1000))
	r.barrier(0, 1, 2, timedOptions(1000))
	must(t, r.next(in))
	if got := r.take(); !strings.Contains(got, "start(2,ALIGNED); finish(2)") || !strings.Contains(got, "TRIGGER(2,ALIGNED)") || strings.Count(got, "finish") != 1 {
		t.Errorf("got %s", got)
	}
	// Given up.
	r.barrier(0, 0, 3, unalignedOptions)
	r.event(0, 1, event.Event{Kind: event.CancelCheckpoint, CheckpointID: 3})
	must(t, r.next(in))
	if got := r.take(); !strings.Contains(got, "abort(3,true)") || !strings.Contains(got, "ABORT(3") {
		t.Errorf("got %s", got)
	}
	// A writer that fails costs the checkpoint, not the task.
	st.fail = errors.New("no disk")
	r.barrier(0, 0, 4, unalignedOptions)
	r.data(0, 0, records(1))
	must(t, r.next(in))
	if got := r.take(); strings.Contains(got, "TRIGGER(4") || !strings.Contains(got, "ABORT(4,IO_EXCEPTION)") || !strings.Contains(got, "rec(1)") {
		t.Errorf("got %s", got)
	}
}

// What the valve lets out of one element comes before the next record, in order.
func TestValveOutputKeepsItsPlace(t *testing.T) {
	r := newRig(t, task.InputConfig{}, 2)
	in := r.inputs[0]
	idle := serde.Element{Kind: serde.WatermarkStatus, Idle: true}
	r.data(0, 0, framed(watermark(5)))
	r.data(0, 1, framed(watermark(9), idle))
	r.data(0, 0, framed(idle, rec(1), rec(2)))
	for {
		if v, ok := in.WholeRecord(); ok {
			r.say("whole(%d)", binary.BigEndian.Uint64(v))
			continue
		}
		st, err := in.Next()
		must(t, err)
		if st == task.Nothing {
			break
		}
		r.sayElement(in.Element())
	}
	r.is("WM(5)", "WM(9)", "IDLE", "whole(1)", "rec(2)")
}

// A broken channel is named, the error comes again, and the buffers go home (see newRig).
func TestErrorsNameTheChannel(t *testing.T) {
	big := binary.BigEndian.AppendUint32(nil, 1<<20)
	for name, c := range map[string]struct {
		p    []byte
		want error
	}{
		"negative length":   {[]byte{0xff, 0, 0, 0, 1}, serde.ErrNegativeLength},
		"too large":         {append(big, 1), serde.ErrTooLarge},
		"unknown element":   {[]byte{0, 0, 0, 1, 99}, serde.ErrElement},
		"empty element":     {[]byte{0, 0, 0, 0}, serde.ErrElement},
		"length cut in two": {append([]byte{0, 0, 0, 9, 2, 0, 0, 0, 0, 0, 0, 0, 1}, 0xff, 0, 0), serde.ErrNegativeLength},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, task.InputConfig{Deserializer: serde.DeserializerConfig{MaxRecord: 1 << 16}}, 3)
			in := r.inputs[0]
			r.data(0, 0, records(1)[:5])
			r.data(0, 2, c.p)
			r.data(0, 2, []byte{0, 0, 0})
			r.data(0, 1, records(1))
			var err error
			for err == nil {
				var st task.Status
				if st, err = in.Next(); st == task.Nothing && err == nil {
					t.Fatal("no error")
				}
			}
			var ce *credit.ChannelError
			if !errors.As(err, &ce) || ce.Index != 2 || !errors.Is(err, c.want) {
				t.Fatalf("got %v", err)
			}
			var re *serde.RecordError
			if !errors.As(err, &re) {
				t.Errorf("not about a record: %v", err)
			}
			if _, again := in.Next(); !errors.Is(again, c.want) {
				t.Errorf("then %v", again)
			}
			if _, ok := in.WholeRecord(); ok {
				t.Error("then a record")
			}
			if _, _, again := in.NextBuffer(); !errors.Is(again, c.want) {
				t.Errorf("then %v", again)
			}
		})
	}
}

func TestClosedInput(t *testing.T) {
	r := newRig(t, task.InputConfig{}, 1)
	in := r.inputs[0]
	r.data(0, 0, records(1, 2, 3))
	if st, err := in.Next(); st != task.Element || err != nil {
		t.Fatal(st, err)
	}
	in.Close()
	if _, err := in.Next(); !errors.Is(err, task.ErrInputClosed) {
		t.Error(err)
	}
	if err := in.ProcessPriority(); !errors.Is(err, task.ErrInputClosed) {
		t.Error(err)
	}
	if _, ok := in.WholeRecord(); ok {
		t.Error("a record of a closed input")
	}
}

func TestConfigOfInput(t *testing.T) {
	gate := credit.NewGate(credit.GateConfig{Channels: 1})
	clock := func() align.Now { return align.Now{} }
	twice := []task.WatermarkDeclaration{{Identifier: "x"}, {Identifier: "x"}}
	for name, c := range map[string]struct {
		cfg  task.InputConfig
		want error
	}{
		"no clock":    {task.InputConfig{Gate: gate}, align.ErrConfig},
		"no timer":    {task.InputConfig{Gate: gate, Clock: clock, Unaligned: align.UnalignedOn}, align.ErrConfig},
		"declaration": {task.InputConfig{Gate: gate, Clock: clock, Watermarks: twice}, task.ErrValve},
	} {
		if _, err := task.NewInput(c.cfg); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// In at-least-once mode the last open channel repeats a checkpoint; the task takes it once.
func TestTriggersOnce(t *testing.T) {
	r := newRig(t, task.InputConfig{Mode: align.AtLeastOnce}, 2)
	in := r.inputs[0]
	r.event(0, 1, event.Event{Kind: event.EndOfPartition})
	for _, id := range []int64{3, 3, 2, 4} {
		r.barrier(0, 0, id, countedOptions)
	}
	must(t, r.next(in))
	r.is("TRIGGER(3,AT_LEAST_ONCE)", "TRIGGER(4,AT_LEAST_ONCE)", "NOTHING_AVAILABLE")
}

// A barrier that had to align on its edge is free again behind the task: it is taken, and sent on, as what it was meant to be,
// and its channel state begins and ends. In a task that knows aligned checkpoints only it stays what it is.
func TestForcedAlignedIsFreeAgain(t *testing.T) {
	for _, c := range []struct {
		unaligned align.Unaligned
		timeout   int64
		want      []string
		state     string
	}{
		{align.UnalignedOn, event.NoTimeout, []string{"RESUME(c0)", "RESUME(c1)", "TRIGGER(5,UNALIGNED)", "COMPLETE(5)", "NOTHING_AVAILABLE"},
			"start 5 UNALIGNED; finish 5"},
		{align.UnalignedOn, 100, []string{"RESUME(c0)", "RESUME(c1)", "TRIGGER(5,ALIGNED)", "COMPLETE(5)", "NOTHING_AVAILABLE"},
			"start 5 ALIGNED; finish 5"},
		{align.UnalignedOff, event.NoTimeout, []string{"RESUME(c0)", "RESUME(c1)", "TRIGGER(5,FORCED_ALIGNED)", "NOTHING_AVAILABLE"}, ""},
	} {
		w := &stateLog{}
		r := newRig(t, task.InputConfig{Unaligned: c.unaligned, State: w}, 2)
		o := event.Options{Alignment: event.ForcedAligned, Timeout: c.timeout}
		r.barrier(0, 0, 5, o)
		r.barrier(0, 1, 5, o)
		must(t, r.next(r.inputs[0]))
		r.is(c.want...)
		if got := strings.Join(w.said, "; "); got != c.state {
			t.Errorf("%v, timeout %d: the writer heard %q, want %q", c.unaligned, c.timeout, got, c.state)
		}
	}
}

// stateLog is a StateWriter that says what it hears.
type stateLog struct{ said []string }

func (w *stateLog) Start(id int64, o event.Options) error {
	w.said = append(w.said, fmt.Sprintf("start %d %v", id, o.Alignment))
	return nil
}
func (w *stateLog) FinishInput(id int64) error {
	w.said = append(w.said, fmt.Sprintf("finish %d", id))
	return nil
}
func (w *stateLog) Abort(id int64, _ error, _ bool) error {
	w.said = append(w.said, fmt.Sprintf("abort %d", id))
	return nil
}

// A checkpoint that the coordinator gave up ahead of its barriers is aborted when they come, and no other is.
func TestCheckpointAbortedAhead(t *testing.T) {
	for _, mode := range []align.Mode{align.ExactlyOnce, align.AtLeastOnce} {
		r := newRig(t, task.InputConfig{Mode: mode}, 1)
		in := r.inputs[0]
		if !in.CheckpointAborted(2) {
			t.Error("2 is not ahead")
		}
		for id := int64(1); id <= 3; id++ {
			o := countedOptions
			if mode == align.ExactlyOnce {
				o = alignedOptions
			}
			r.barrier(0, 0, id, o)
		}
		must(t, r.next(in))
		var got []string
		for _, l := range r.said {
			if strings.HasPrefix(l, "TRIGGER") || strings.HasPrefix(l, "ABORT") {
				got = append(got, l[:strings.IndexByte(l, ',')])
			}
		}
		r.take()
		if s := strings.Join(got, " "); s != "TRIGGER(1 ABORT(2 TRIGGER(3" {
			t.Errorf("%v: got %s", mode, s)
		}
		if in.CheckpointAborted(3) {
			t.Error("3 is ahead, although it was taken")
		}
	}
}

func TestWatermarkEvents(t *testing.T) {
	send := func(r *rig, ch int, id string, aligned bool, v int64) {
		r.event(0, ch, event.Event{Kind: event.Watermark, Watermark: event.WatermarkEvent{Identifier: id, Aligned: aligned, Value: v}})
	}
	cfg := task.InputConfig{Watermarks: []task.WatermarkDeclaration{
		{Identifier: "min", WaitForAll: true}, {Identifier: "all", Aligned: true},
	}}
	cfg.EventTime.Time, cfg.EventTime.Idle = "time", "idle"
	r := newRig(t, cfg, 2)
	in := r.inputs[0]
	send(r, 0, "min", false, 7)
	send(r, 1, "min", false, 5)
	send(r, 0, "time", false, 3)
	send(r, 1, "time", false, 2)
	must(t, r.next(in))
	r.is("mark(min,5)", "mark(time,2)", "NOTHING_AVAILABLE")
	// An aligned one: its senders wait, and go on together. What one sends all the same is held back.
	send(r, 0, "all", true, 1)
	r.data(0, 0, records(1))
	must(t, r.next(in))
	r.is("NOTHING_AVAILABLE")
	send(r, 1, "all", true, 1)
	must(t, r.next(in))
	r.is("RESUME(c0)", "RESUME(c1)", "mark(all,1)", "rec(1)", "NOTHING_AVAILABLE")
	for name, broken := range map[string]func(r *rig){
		"unknown":              func(r *rig) { send(r, 1, "who", false, 1) },
		"aligned, not so":      func(r *rig) { send(r, 1, "min", true, 1) },
		"not aligned, but all": func(r *rig) { send(r, 1, "all", false, 1) },
	} {
		r := newRig(t, cfg, 2)
		broken(r)
		_, err := r.inputs[0].Next()
		var ce *credit.ChannelError
		if !errors.As(err, &ce) || ce.Index != 1 || !errors.Is(err, task.ErrValve) && !errors.Is(err, task.ErrUnknownWatermark) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestNextBuffer(t *testing.T) {
	r := newRig(t, task.InputConfig{}, 2)
	in := r.inputs[0]
	r.data(0, 0, []byte("one"))
	r.barrier(0, 0, 1, alignedOptions)
	r.data(0, 1, []byte("two"))
	r.barrier(0, 1, 1, alignedOptions)
	r.data(0, 0, []byte("three"))
	r.event(0, 0, event.Event{Kind: event.EndOfData})
	r.event(0, 1, event.Event{Kind: event.EndOfData})
	r.event(0, 0, event.Event{Kind: event.EndOfPartition})
	r.event(0, 1, event.Event{Kind: event.EndOfPartition})
	for st := task.Nothing; st != task.EndOfInput; {
		b, got, err := in.NextBuffer()
		must(t, err)
		if got == task.Nothing {
			t.Fatalf("nothing after %q", r.said)
		}
		if st = got; st == task.Element {
			r.say("%s", b.Bytes())
		} else {
			r.say("%v", st)
		}
	}
	r.is("one", "two", "RESUME(c0)", "RESUME(c1)", "CHECKPOINT", "three", "ACKALL(c1)", "ACKALL(c0)", "END_OF_DATA", "END_OF_INPUT")
}

// The coordinator's barrier counts for all channels of all gates.
func TestInject(t *testing.T) {
	r := newRig(t, task.InputConfig{}, 1, 2)
	r.event(1, 0, event.Event{Kind: event.EndOfPartition})
	must(t, r.next(r.inputs[1]))
	r.take()
	must(t, r.inputs[0].Inject(&event.Barrier{ID: 5, Options: alignedOptions}))
	if !r.inputs[0].Available() || !r.inputs[1].Available() {
		t.Error("a notice waits, but no input says so")
	}
	must(t, r.next(r.inputs[1]))
	r.is("TRIGGER(5,ALIGNED)", "NOTHING_AVAILABLE")
}

// A gate's barriers hold back the channels of the other gates, too.
func TestAlignmentOverGates(t *testing.T) {
	r := newRig(t, task.InputConfig{}, 1, 1)
	a, b := r.inputs[0], r.inputs[1]
	r.barrier(0, 0, 1, alignedOptions)
	r.data(0, 0, records(1))
	must(t, r.next(a))
	r.is("NOTHING_AVAILABLE")
	r.data(1, 0, records(2))
	r.barrier(1, 0, 1, alignedOptions)
	must(t, r.next(b))
	r.is("rec(2)", "RESUME(g0c0)", "RESUME(g1c0)", "TRIGGER(1,ALIGNED)", "NOTHING_AVAILABLE")
	must(t, r.next(a))
	r.is("rec(1)", "NOTHING_AVAILABLE")
}

// The end of recovery is told once, whatever comes later.
func TestEndOfRecoveryOnce(t *testing.T) {
	r := newRig(t, task.InputConfig{}, 2)
	for _, ch := range []int{0, 1, 1} {
		r.event(0, ch, event.Event{Kind: event.EndOfOutputChannelState})
	}
	must(t, r.next(r.inputs[0]))
	r.is("RESUME(c0)", "RESUME(c1)", "END_OF_RECOVERY", "NOTHING_AVAILABLE")
}

// However the bytes are cut into buffers, the batch ends and the short path is taken: each channel's elements come in order, each once.
func TestSplitsAndBatchesChangeNothing(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		const channels = 3
		r := newRig(t, task.InputConfig{}, channels)
		defer func() { // the buffers of this round
			for _, in := range r.inputs {
				in.Close()
			}
		}()
		var streams [channels][]byte
		sent := rapid.IntRange(1, 60).Draw(rt, "records")
		for n := range sent {
			ch := n % channels
			switch rapid.IntRange(0, 3).Draw(rt, "kind") {
			case 0:
				streams[ch] = append(streams[ch], framed(watermark(int64(n)))...)
			default:
				e := rec(uint64(n))
				e.Value = append(e.Value, make([]byte, rapid.SampledFrom([]int{0, 1, 100, 2000}).Draw(rt, "size"))...)
				e.HasTimestamp = rapid.Bool().Draw(rt, "timestamp")
				streams[ch] = append(streams[ch], framed(e)...)
			}
		}
		var got [channels][]byte
		op := collector{add: func(ch int, e *serde.Element) {
			if e.Kind == serde.Record {
				got[ch] = append(got[ch], framed(*e)...)
			}
		}}
		p := task.NewProcessor(r.inputs[0], op, 0, func() bool { return rapid.Bool().Draw(rt, "batch") })
		want := streams
		for left := true; left; {
			left = false
			for ch := range streams {
				n := min(len(streams[ch]), rapid.IntRange(1, 1000).Draw(rt, "cut"))
				if n == 0 {
					continue
				}
				r.data(0, ch, streams[ch][:n])
				streams[ch] = streams[ch][n:]
				left = true
			}
			for st := task.More; st != task.Nothing; {
				var err error
				if st, err = p.Process(); err != nil {
					rt.Fatal(err)
				}
			}
		}
		for ch := range want {
			if w := onlyRecords(rt, want[ch]); string(got[ch]) != string(w) {
				rt.Fatalf("channel %d: %d bytes, want %d", ch, len(got[ch]), len(w))
			}
		}
	})
}

// onlyRecords leaves out everything else.
func onlyRecords(t *rapid.T, p []byte) (out []byte) {
	for len(p) > 0 {
		n := 4 + int(binary.BigEndian.Uint32(p))
		var e serde.Element
		if err := serde.DecodeElement(p[4:n], &e); err != nil {
			t.Fatal(err)
		}
		if e.Kind == serde.Record {
			out = append(out, p[:n]...)
		}
		p = p[n:]
	}
	return out
}

// collector is an operator that takes elements only.
type collector struct {
	add func(ch int, e *serde.Element)
}

func (c collector) Element(_, ch int, e *serde.Element) error {
	c.add(ch, e)
	return nil
}
func (collector) WatermarkEvent(int, *event.WatermarkEvent) error { return nil }
func (collector) Notice(*task.Notice) error                       { return nil }
func (collector) EndInput(int) error                              { return nil }

// The operator's error ends the processor's call; the record it came from is not read again.
func TestOperatorError(t *testing.T) {
	r := newRig(t, task.InputConfig{}, 1)
	p := task.NewProcessor(r.inputs[0], rigOperator{r}, 0, func() bool { return true })
	r.data(0, 0, records(1, 2))
	r.fail = errors.New("broken")
	if _, err := p.Process(); !errors.Is(err, r.fail) {
		t.Fatal(err)
	}
	r.fail = nil
	if st, err := p.Process(); st != task.Nothing || err != nil {
		t.Fatal(st, err)
	}
	r.is("rec(1)", "rec(2)")
}

func TestStatusNames(t *testing.T) {
	for st, want := range map[task.Status]string{
		task.Nothing: "NOTHING_AVAILABLE", task.More: "MORE_AVAILABLE", task.EndOfInput: "END_OF_INPUT", 99: "Status(99)",
		task.Aborted: "CHECKPOINT_ABORTED", task.Stopped: "STOPPED",
	} {
		if st.String() != want {
			t.Errorf("%d: %s, want %s", st, st, want)
		}
	}
}

// What a sender sends behind the end of its channel goes home unread, and so does what was left of a record.
func TestDataAfterEndOfPartition(t *testing.T) {
	r := newRig(t, task.InputConfig{}, 2)
	in := r.inputs[0]
	r.data(0, 0, records(1)[:7])
	must(t, r.next(in))
	r.event(0, 0, event.Event{Kind: event.EndOfPartition})
	r.data(0, 0, records(1)[7:])
	must(t, r.next(in))
	r.data(0, 0, records(2))
	r.data(0, 1, records(3))
	must(t, r.next(in))
	r.is("NOTHING_AVAILABLE", "NOTHING_AVAILABLE", "rec(3)", "NOTHING_AVAILABLE")
	r.local.Drain()
	if n := r.local.Stats().InUse; n > 1 { // the last record's, until the next call
		t.Errorf("%d segments are in use", n)
	}
}
