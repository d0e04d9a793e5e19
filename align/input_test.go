package align

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/weirflow/weir/credit"
	"github.com/weirflow/weir/segment"
	"github.com/weirflow/weir/serde/event"
)

// TestInject: a barrier from the coordinator counts for the channels that have not ended, and blocks none.
func TestInject(t *testing.T) {
	h := newHarness(t, Config{}, 3, credit.GuardFail)
	h.event(1, event.Event{Kind: event.EndOfPartition})
	h.poll()
	h.take()
	b := event.Barrier{ID: 4, Options: kind("al")}
	if err := Inject(&b, harnessTask{h}, h.in); err != nil {
		t.Fatal(err)
	}
	if got := h.take(); got != "TRIGGER(4,ALIGNED)[align=0ms,bytes=0,delay=0ms]" {
		t.Errorf("got %s", got)
	}
	h.data(0, "x", 1)
	if h.poll(); h.take() != "poll:c0:x" {
		t.Error("channel 0 is blocked")
	}
	h.event(0, event.Event{Kind: event.EndOfPartition})
	h.event(2, event.Event{Kind: event.EndOfPartition})
	for h.poll() {
	}
	h.take()
	b.ID++
	if err := Inject(&b, harnessTask{h}, h.in); err != nil {
		t.Fatal(err)
	}
	if got := h.take(); got != "TRIGGER(5,ALIGNED)[align=0ms,bytes=0,delay=0ms]" {
		t.Errorf("all ended: got %s", got)
	}
}

// TestInjectSeveralInputs: one input has ended, the other has not.
func TestInjectSeveralInputs(t *testing.T) {
	var gates []*credit.Gate
	var ins []Input
	for range 2 {
		g := credit.NewGate(credit.GateConfig{Channels: 1, Upstream: harnessUpstream{&harness{}}})
		gates, ins = append(gates, g), append(ins, g)
	}
	r := &recorder{}
	h, err := New(Config{Inputs: ins, Counts: []int{1, 1}, Task: r})
	if err != nil {
		t.Fatal(err)
	}
	clock := func() Now { return Now{} }
	a, b := NewCheckpointedInput(gates[0], h, 0, clock, nil), NewCheckpointedInput(gates[1], h, 1, clock, nil)
	gates[0].Deliver(credit.Arrival{Buf: serialized(&event.Event{Kind: event.EndOfPartition})})
	for range 2 {
		if _, _, err := a.Poll(); err != nil {
			t.Fatal(err)
		}
	}
	if !a.Finished() || b.Finished() {
		t.Errorf("finished %v, %v", a.Finished(), b.Finished())
	}
	if err := Inject(&event.Barrier{ID: 1, Options: kind("al")}, r, a, b); err != nil {
		t.Fatal(err)
	}
	if got := only(r.take(), "TRIGGER", "initInputs"); got != "TRIGGER(1)" {
		t.Errorf("got %s", got)
	}
}

// TestRecovery: senders that have recovered wait until all have, then all go on; what they sent meanwhile is held.
func TestRecovery(t *testing.T) {
	h := newHarness(t, Config{}, 2, credit.GuardHold)
	tracker := NewRecoveryTracker(h.gate, 2)
	h.in.recovery = tracker
	end := event.Event{Kind: event.EndOfOutputChannelState}
	h.data(0, "old", 1)
	h.event(0, end)
	h.data(0, "new", 1)
	for h.poll() {
	}
	if got := h.take(); got != "poll:c0:old; poll:c0:EndOfOutputChannelStateEvent; poll:none" {
		t.Errorf("got %s", got)
	}
	if h.in.Recovered() {
		t.Error("recovered too early")
	}
	h.event(1, end)
	for h.poll() {
	}
	want := "RESUME(c0); RESUME(c1); poll:c1:EndOfOutputChannelStateEvent; poll:c0:new; poll:none"
	if got := h.take(); got != want {
		t.Errorf("\nwant %s\ngot  %s", want, got)
	}
	if !h.in.Recovered() {
		t.Error("not recovered")
	}
	if err := tracker.EndOfRecovery(1); err != nil { // once more, when all is over
		t.Error(err)
	}
	twice := NewRecoveryTracker(h.gate, 2)
	if err := twice.EndOfRecovery(0); err != nil {
		t.Error(err)
	}
	if err := twice.EndOfRecovery(0); !errors.Is(err, ErrState) {
		t.Errorf("twice: %v", err)
	}
	if err := twice.EndOfRecovery(2); !errors.Is(err, ErrUnknownChannel) {
		t.Errorf("unknown: %v", err)
	}
}

// scripted is a gate that hands out what a test wants, right or wrong.
type scripted struct {
	*credit.Gate
	items []credit.Item
	err   error
}

func (s *scripted) Poll() (credit.Item, credit.Status, error) {
	if s.err != nil {
		return credit.Item{}, credit.None, s.err
	}
	if len(s.items) == 0 {
		return credit.Item{}, credit.None, nil
	}
	it := s.items[0]
	s.items = s.items[1:]
	return it, credit.Ready, nil
}

func (s *scripted) PollPriority() (credit.Item, credit.Status, error) { return s.Poll() }

func (s *scripted) PollInto(it *credit.Item) (st credit.Status, err error) {
	*it, st, err = s.Poll()
	return st, err
}

// TestWrongItems: what a gate must not hand out is an error of the task, and never a panic.
func TestWrongItems(t *testing.T) {
	gate := &scripted{Gate: credit.NewGate(credit.GateConfig{Channels: 1, Upstream: harnessUpstream{&harness{}}})}
	h, err := New(Config{Inputs: []Input{gate}, Counts: []int{1}, Task: noTask{}})
	if err != nil {
		t.Fatal(err)
	}
	in := NewCheckpointedInput(gate, h, 0, func() Now { return Now{} }, nil)
	announcement := credit.Item{Type: segment.PrioritizedEvent, Event: &event.Event{Kind: event.Announcement,
		Announced: &event.Event{Kind: event.EndOfData}}}
	for _, it := range []credit.Item{announcement, {Type: segment.PrioritizedEvent, Event: &event.Event{Kind: event.Announcement}}} {
		gate.items = []credit.Item{it}
		if _, _, err := in.Poll(); !errors.Is(err, ErrState) {
			t.Errorf("announcement of something else: %v", err)
		}
	}
	for _, it := range []credit.Item{dataItem(0, 1, 1), barrierItem(0, 1, kind("al"))} {
		gate.items = []credit.Item{it}
		if n, err := in.ProcessPriority(); n != 0 || !errors.Is(err, ErrState) {
			t.Errorf("%v as a priority event: %d, %v", it.Type, n, err)
		}
	}
	gate.items = []credit.Item{barrierItem(7, 1, kind("al"))}
	if _, _, err := in.Poll(); !errors.Is(err, ErrUnknownChannel) {
		t.Errorf("unknown channel: %v", err)
	}
	gate.err = errors.New("connection")
	if _, _, err := in.Poll(); err != gate.err {
		t.Errorf("got %v", err)
	}
	if _, err := in.ProcessPriority(); err != gate.err {
		t.Errorf("got %v", err)
	}
}

// TestPriorityRoundIsBounded: a flood of priority events does not keep the task from coming back to its records.
func TestPriorityRoundIsBounded(t *testing.T) {
	gate := &scripted{Gate: credit.NewGate(credit.GateConfig{Channels: 1, Upstream: harnessUpstream{&harness{}}})}
	h, err := New(Config{Unaligned: UnalignedAlways, Inputs: []Input{gate}, Counts: []int{1}, Task: noTask{}})
	if err != nil {
		t.Fatal(err)
	}
	in := NewCheckpointedInput(gate, h, 0, func() Now { return Now{} }, nil)
	for i := range 3 * maxPriorityRound {
		it := barrierItem(0, int64(i), kind("un"))
		it.Type = segment.PrioritizedEvent
		gate.items = append(gate.items, it)
	}
	for range 3 {
		if n, err := in.ProcessPriority(); n != maxPriorityRound || err != nil {
			t.Fatalf("%d, %v", n, err)
		}
	}
}

// TestMetrics: alignment time, bytes during alignment and start delay, as an operator's gauges show them.
func TestMetrics(t *testing.T) {
	h := newHarness(t, Config{}, 2, credit.GuardHold)
	h.clock(30)
	h.data(1, "before", 100)
	h.poll()
	h.barrier(0, 1, "al", 10)
	h.poll()
	h.data(1, "a", 7)
	h.data(1, "b", 5)
	h.poll()
	h.clock(12)
	h.poll()
	if got := h.handler.AlignmentNanos(h.now); got != 12e6 {
		t.Errorf("running for %d ns", got)
	}
	h.barrier(1, 1, "al", 10)
	h.poll()
	h.data(0, "after", 100)
	h.poll()
	if got := h.take(); !strings.Contains(got, "TRIGGER(1,ALIGNED)[align=12ms,bytes=12,delay=20ms]") {
		t.Errorf("got %s", got)
	}
	if a, d := h.handler.AlignmentNanos(h.now), h.handler.StartDelayNanos(); a != 12e6 || d != 20e6 {
		t.Errorf("gauges %d, %d", a, d)
	}
}

// TestBytesOfOneAlignment: the bytes of an alignment are its own.
func TestBytesOfOneAlignment(t *testing.T) {
	var m measure
	m.init(noTask{})
	for _, n := range []int{10, 5} {
		m.AddBytes(100) // none runs
		m.begin(int64(n), 0, Now{})
		m.AddBytes(n)
		check(t, m.end(Now{Nanos: 1}))
		if m.lastBytes != int64(n) {
			t.Errorf("%d bytes, want %d", m.lastBytes, n)
		}
	}
}

// TestDelayRange: a timestamp out of all reason gives a number in range.
func TestDelayRange(t *testing.T) {
	const maxInt, minInt = 1<<63 - 1, -1 << 63
	for _, tc := range []struct{ timestamp, millis, want int64 }{
		{0, 5, 5e6}, {5, 0, 0}, {minInt, 0, maxInt}, {minInt, maxInt, maxInt}, {maxInt, minInt, 0}, {0, maxInt, maxInt}, {7, 7, 0},
	} {
		if got := delayNanos(tc.timestamp, tc.millis); got != tc.want {
			t.Errorf("delayNanos(%d, %d) = %d, want %d", tc.timestamp, tc.millis, got, tc.want)
		}
	}
}

// TestClose: the timer is taken back, nobody is told or resumed, and a timer that fires all the same does nothing.
func TestClose(t *testing.T) {
	h, r := newRecorded(t, Config{Unaligned: UnalignedOn}, 2)
	for _, op := range []string{"B 0 1 to100", "CLOSE", "CLOSE"} {
		if err := r.do(h, op); err != nil {
			t.Fatal(err)
		}
	}
	if err := h.Timeout(1, Now{Millis: 500}); err != nil {
		t.Error(err)
	}
	if got := strings.Join(r.take(), "; "); got != "timer+(100ms); block(0.0); timer-cancel" {
		t.Errorf("got %s", got)
	}
	if p, err := h.AllReceived(1); p != GivenUp || err != nil {
		t.Errorf("%v, %v", p, err)
	}
}

// TestLocationIsCopied: a barrier is valid during the call only, and what the task gets at the end is still right.
func TestLocationIsCopied(t *testing.T) {
	var got []string
	task := locationTask{&got}
	for _, mode := range []Mode{ExactlyOnce, AtLeastOnce} {
		in := still2{}
		h, err := New(Config{Mode: mode, Inputs: []Input{in}, Counts: []int{2}, Task: task})
		if err != nil {
			t.Fatal(err)
		}
		b := event.Barrier{ID: 1, Options: kind("al")}
		b.Options.Location = []byte("there")
		if err := h.Barrier(0, &b, false, Now{}); err != nil {
			t.Fatal(err)
		}
		copy(b.Options.Location, "other")
		if err := h.EndOfPartition(1, Now{}); err != nil {
			t.Fatal(err)
		}
	}
	if !slices.Equal(got, []string{"there", "there"}) {
		t.Errorf("got %v", got)
	}
}

type locationTask struct{ got *[]string }

func (l locationTask) Trigger(b *event.Barrier, _ Metrics) error {
	*l.got = append(*l.got, string(b.Options.Location))
	return nil
}
func (locationTask) Init(*event.Barrier) error           { return nil }
func (locationTask) Abort(int64, *CheckpointError) error { return nil }
func (locationTask) Measured(int64, Metrics)             {}
func (locationTask) Complete(int64)                      {}
func (locationTask) Incomplete(int64, *CheckpointError)  {}

// still2 is an input that does nothing.
type still2 struct{}

func (still2) Block(int) error                             { return nil }
func (still2) Resume(int) error                            { return nil }
func (still2) Prioritize(int, int32) error                 { return nil }
func (still2) CheckpointStarted(int, *event.Barrier) error { return nil }
func (still2) CheckpointStopped(int, int64) error          { return nil }

// TestUnion: a union of gates is one input; its channels are numbered through, and each call reaches the right gate.
func TestUnion(t *testing.T) {
	var told [2][]string
	var gates []*credit.Gate
	for g := range 2 {
		h := &harness{}
		gates = append(gates, credit.NewGate(credit.GateConfig{Channels: g + 1, Upstream: unionUpstream{harnessUpstream{h}, &told[g]},
			Sink: sinkFunc(func(id int64, ch int, _ segment.Buffer) { told[g] = append(told[g], "store") })}))
	}
	u, err := credit.NewUnionGate(gates...)
	check(t, err)
	union := Union{u}
	r := &recorder{}
	h, err := New(Config{Unaligned: UnalignedOn, Inputs: []Input{union}, Counts: []int{3}, Task: r, Timers: r})
	check(t, err)
	in := NewCheckpointedInput(union, h, 0, func() Now { return r.now }, nil)
	arrive := func(g int, ch, seq int32, b segment.Buffer) {
		gates[g].Deliver(credit.Arrival{Channel: ch, Seq: seq, Buf: b})
	}
	arrive(1, 1, 0, dataBuf(1))
	arrive(1, 1, 1, serialized(barrierItem(0, 1, kind("to100")).Event))
	if n, err := in.ProcessPriority(); n != 1 || err != nil { // the announcement
		t.Fatalf("%d, %v", n, err)
	}
	arrive(0, 0, 0, serialized(barrierItem(0, 1, kind("to100")).Event))
	for range 2 {
		if _, err := in.ProcessPriority(); err != nil {
			t.Fatal(err)
		}
	}
	it, st, err := in.Poll()
	for st == credit.Ready && it.Event == nil {
		check(t, err)
		it, st, err = in.Poll()
	}
	check(t, err, r.clock(h, 100, true))
	if _, err := in.ProcessPriority(); err != nil {
		t.Fatal(err)
	}
	arrive(1, 0, 0, serialized(&event.Event{Kind: event.EndOfPartition}))
	for st != credit.None {
		_, st, err = in.Poll()
		check(t, err)
	}
	if got := only(r.take(), "TRIGGER", "complete"); got != "TRIGGER(1) complete(1)" {
		t.Errorf("got %s", got)
	}
	if !slices.Equal(told[0], []string{"resume 0"}) || told[1][len(told[1])-1] != "resume 1" {
		t.Errorf("told %v", told)
	}
	if !union.Ended(1) || union.Ended(0) || union.Ended(2) {
		t.Error("the wrong channel has ended")
	}
	check(t, union.AckAll(2))
	if err := union.Resume(1); err == nil {
		t.Error("a channel that has ended was resumed")
	}
}

type unionUpstream struct {
	harnessUpstream
	told *[]string
}

func (u unionUpstream) Resume(ch int) error {
	*u.told = append(*u.told, "resume "+string(rune('0'+ch)))
	return nil
}
