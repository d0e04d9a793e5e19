package align

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/weirflow/weir/credit"
	"github.com/weirflow/weir/segment"
	"github.com/weirflow/weir/serde/event"
)

// The tests in this file are scenarios distilled from bug reports of Flink; the number is that of the case.

// only keeps the lines that begin with one of the words.
func only(lines []string, words ...string) string {
	var kept []string
	for _, l := range lines {
		for _, w := range words {
			if strings.HasPrefix(l, w) {
				if i := strings.IndexByte(l, ','); i > 0 && (w == "TRIGGER" || w == "ABORT") {
					l = l[:i] + ")"
				}
				kept = append(kept, l)
			}
		}
	}
	return strings.Join(kept, " ")
}

// ALN-01: alignment waits for a channel that has already ended (FLINK-1775).
func TestALN01EndedChannelCounts(t *testing.T) {
	h := newHarness(t, Config{}, 3, credit.GuardHold)
	h.barrier(0, 1, "al", 0)
	h.barrier(1, 1, "al", 0)
	h.event(2, event.Event{Kind: event.EndOfPartition})
	for h.poll() {
	}
	if got := only(h.out, "TRIGGER", "RESUME"); got != "TRIGGER(1) RESUME(c0) RESUME(c1)" {
		t.Errorf("got %s", got)
	}
	h.take()
	h.barrier(0, 2, "al", 0)
	h.barrier(1, 2, "al", 0)
	for h.poll() {
	}
	if got := only(h.out, "TRIGGER"); got != "TRIGGER(2)" {
		t.Errorf("got %s", got)
	}
}

// ALN-02: checkpoints with ended inputs complete, once and in order, whatever the order of arrival (FLINK-21086). An id
// that a newer one overtakes is subsumed, as in Flink: when both channels' last barriers are in, an end completes the
// newest checkpoint only.
func TestALN02EndedInputsComplete(t *testing.T) {
	left := []string{"B 0 1 alo", "B 0 2 alo", "B 0 3 alo", "E 0"}
	right := []string{"B 1 1 alo", "E 1"}
	orders := map[string]string{}
	var merge func(l, r, done []string)
	merge = func(l, r, done []string) {
		if len(l)+len(r) == 0 {
			h, rec := newRecorded(t, Config{Mode: AtLeastOnce}, 2)
			for _, op := range done {
				if err := rec.do(h, op); err != nil {
					t.Fatalf("%v: %s: %v", done, op, err)
				}
			}
			orders[strings.Join(done, ", ")] = only(rec.take(), "TRIGGER", "ABORT")
			if h.Latest() != -1 {
				t.Errorf("%v: %d is left", done, h.Latest())
			}
			return
		}
		if len(l) > 0 {
			merge(l[1:], r, append(slices.Clone(done), l[0]))
		}
		if len(r) > 0 {
			merge(l, r[1:], append(slices.Clone(done), r[0]))
		}
	}
	merge(left, right, nil)
	seen := map[string]int{}
	for order, got := range orders {
		seen[got]++
		switch got {
		case "TRIGGER(1) TRIGGER(2) TRIGGER(3)", "TRIGGER(1) TRIGGER(3)":
		default:
			t.Errorf("%s: %s", order, got)
		}
	}
	if len(orders) != 15 || len(seen) != 2 {
		t.Errorf("%d orders, outcomes %v", len(orders), seen)
	}
}

// ALN-04: interleaved cancel markers of two checkpoints do not multiply (FLINK-5285).
func TestALN04CancelStorm(t *testing.T) {
	for _, cfg := range []Config{{}, {Mode: AtLeastOnce}, {Unaligned: UnalignedOn}} {
		h, r := newRecorded(t, cfg, 4)
		for _, op := range []string{"C 0 1", "C 1 2", "C 2 1", "C 3 2", "C 0 2", "C 1 1", "C 2 2", "C 3 1"} {
			if err := r.do(h, op); err != nil {
				t.Fatal(err)
			}
		}
		if got := only(r.take(), "ABORT", "TRIGGER"); got != "ABORT(1) ABORT(2)" {
			t.Errorf("%v: got %s", cfg.Mode, got)
		}
		kind := "al"
		if cfg.Mode == AtLeastOnce {
			kind = "alo"
		}
		for _, op := range []string{"B 0 1", "B 1 1", "B 0 3", "B 1 3", "B 2 3", "B 3 3"} {
			if err := r.do(h, op+" "+kind); err != nil {
				t.Fatal(err)
			}
		}
		if got := only(r.take(), "ABORT", "TRIGGER"); got != "TRIGGER(3)" {
			t.Errorf("%v: got %s", cfg.Mode, got)
		}
	}
}

// ALN-05: what an unaligned checkpoint records is exactly what was in flight (FLINK-20645), in random orders.
func TestALN05InFlightIsRecordedExactly(t *testing.T) {
	rounds := 10000
	if testing.Short() {
		rounds = 500
	}
	recordedBuffers := 0
	for seed := range rounds {
		rng := rand.New(rand.NewPCG(uint64(seed), 5))
		n := 1 + rng.IntN(4)
		h := newHarness(t, Config{Unaligned: UnalignedOn}, n, credit.GuardFail)
		cancelled := rng.IntN(3) == 0 // a cancelled checkpoint 1 before the one that counts
		id := int64(1)
		if cancelled {
			h.event(rng.IntN(n), event.Event{Kind: event.CancelCheckpoint, CheckpointID: 1})
			id = 2
		}
		before := make([][]string, n) // sent before the barrier
		emitted := make([][]string, n)
		triggered := false
		left := make([]int, n) // buffers still to be sent; -1: the barrier was sent
		for c := range left {
			left[c] = rng.IntN(5)
		}
		missing, name := n, 0
		watch := func() {
			if !triggered && strings.Contains(strings.Join(h.out, ";"), fmt.Sprintf("TRIGGER(%d", id)) {
				triggered = true
			}
		}
		poll := func() bool {
			more := h.poll()
			last := h.out[len(h.out)-1]
			watch()
			var c int
			var b string
			if _, err := fmt.Sscanf(last, "poll:c%d:%s", &c, &b); err == nil && b[0] == 'b' && !triggered {
				emitted[c] = append(emitted[c], b)
			}
			return more
		}
		for missing > 0 {
			c := rng.IntN(n)
			switch {
			case rng.IntN(3) == 0:
				poll()
			case left[c] > 0:
				left[c]--
				name++
				b := fmt.Sprintf("b%d", name)
				before[c] = append(before[c], b)
				h.data(c, b, 1+rng.IntN(9))
			case left[c] == 0:
				left[c] = -1
				missing--
				h.barrier(c, id, "un", 0)
				watch()
			default: // behind the barrier: never recorded
				name++
				h.data(c, fmt.Sprintf("b%d", name), 3)
			}
		}
		for poll() {
		}
		if !triggered {
			t.Fatalf("seed %d: not triggered: %v", seed, h.out)
		}
		for c := range n {
			stored := h.stored[fmt.Sprintf("%d/%d", id, c)]
			recordedBuffers += len(stored)
			if got := append(slices.Clone(emitted[c]), stored...); !slices.Equal(got, before[c]) {
				t.Fatalf("seed %d, channel %d: sent before the barrier %v; handed out before the trigger %v, stored %v",
					seed, c, before[c], emitted[c], stored)
			}
		}
	}
	if recordedBuffers < rounds/10 {
		t.Errorf("only %d buffers were in flight in %d rounds: nothing was tried", recordedBuffers, rounds)
	}
}

// ALN-05, the example of the report: both barriers, and the barrier of channel 1 that arrives before the start.
func TestALN05Example(t *testing.T) {
	h := newHarness(t, Config{Unaligned: UnalignedOn}, 2, credit.GuardFail)
	h.data(0, "a1", 1)
	h.data(1, "b1", 1)
	h.poll()
	h.poll()
	h.data(1, "b2", 1)
	h.data(1, "b3", 1)
	h.barrier(0, 1, "un", 0)
	h.data(0, "a2", 1)
	h.barrier(1, 1, "un", 0)
	h.data(1, "b4", 1)
	if got := fmt.Sprint(h.stored); got != "map[1/1:[b2 b3]]" {
		t.Errorf("stored %s", got)
	}
}

// ALN-07: a channel that was told of an abort while it recovered stores nothing for that checkpoint afterwards
// (FLINK-21104).
func TestALN07AbortDuringRecovery(t *testing.T) {
	for _, started := range []bool{false, true} {
		h := newHarness(t, Config{Unaligned: UnalignedAlways}, 1, credit.GuardHold)
		if err := h.gate.CheckpointStopped(0, 3); err != nil {
			t.Fatal(err)
		}
		h.gate.Deliver(credit.Arrival{Channel: 0, Seq: 0, Buf: serialized(barrierItem(0, 3, kind("un")).Event)})
		h.seqs[0] = 1
		if started {
			if err := h.gate.CheckpointStarted(0, &event.Barrier{ID: 4}); err != nil {
				t.Fatal(err)
			}
		}
		h.names = map[*byte]string{}
		p := []byte{0}
		h.names[&p[0]] = "x"
		h.gate.Deliver(credit.Arrival{Channel: 0, Seq: 1, Buf: segment.Wrap(p, segment.DataBuffer)})
		h.gate.Deliver(credit.Arrival{Channel: 0, Seq: 2, Buf: serialized(barrierItem(0, 4, kind("un")).Event)})
		q := []byte{0}
		h.names[&q[0]] = "y"
		h.gate.Deliver(credit.Arrival{Channel: 0, Seq: 3, Buf: segment.Wrap(q, segment.DataBuffer)})
		want := "map[]"
		if started {
			want = "map[4/0:[x]]"
		}
		if got := fmt.Sprint(h.stored); got != want {
			t.Errorf("started %v: stored %s, want %s", started, got, want)
		}
	}
}

// ALN-08: with several gates the in-flight data of all of them is recorded (FLINK-18139).
func TestALN08AllGatesAreRecorded(t *testing.T) {
	counts := []int{2, 3}
	for _, everywhere := range []bool{false, true} {
		channels, err := NewChannels(counts...)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		var gates []*credit.Gate
		var inputs []Input
		for g, n := range counts {
			gate := credit.NewGate(credit.GateConfig{Channels: n, Upstream: harnessUpstream{&harness{}}, Sink: sinkFunc(
				func(id int64, ch int, b segment.Buffer) { got = append(got, fmt.Sprintf("%d.%d", g, ch)) })})
			gates = append(gates, gate)
			inputs = append(inputs, gate)
		}
		h, err := New(Config{Unaligned: UnalignedAlways, Inputs: inputs, Counts: counts, Task: noTask{}})
		if err != nil {
			t.Fatal(err)
		}
		var want []string
		for g, n := range counts {
			for c := range n {
				if everywhere || g == 1 && c == 2 {
					want = append(want, fmt.Sprintf("%d.%d", g, c))
					gates[g].Deliver(credit.Arrival{Channel: int32(c), Buf: segment.Wrap([]byte{1}, segment.DataBuffer)})
				}
			}
		}
		first, _ := channels.Flat(1, 0)
		in := NewCheckpointedInput(gates[1], h, first, func() Now { return Now{} }, nil)
		seq := int32(0)
		if everywhere {
			seq = 1
		}
		gates[1].Deliver(credit.Arrival{Channel: 0, Seq: seq, Buf: serialized(barrierItem(0, 1, kind("un")).Event)})
		if n, err := in.ProcessPriority(); n != 1 || err != nil {
			t.Fatalf("%d priority events, %v", n, err)
		}
		if !slices.Equal(got, want) {
			t.Errorf("recorded %v, want %v", got, want)
		}
	}
}

type sinkFunc func(id int64, ch int, b segment.Buffer)

func (f sinkFunc) InputData(id int64, ch int, _ int32, b segment.Buffer) { f(id, ch, b) }

// ALN-09: flat numbers of channels are a bijection, with an empty gate among them (FLINK-17663).
func TestALN09FlatNumbers(t *testing.T) {
	c, err := NewChannels(1, 0, 3, 1)
	if err != nil {
		t.Fatal(err)
	}
	flat := 0
	for g := range 4 {
		for ch := range c.In(g) {
			n, err := c.Flat(g, ch)
			if err != nil || n != flat {
				t.Errorf("Flat(%d, %d) = %d, %v, want %d", g, ch, n, err, flat)
			}
			g2, ch2, err := c.Split(n)
			if err != nil || g2 != g || ch2 != ch {
				t.Errorf("Split(%d) = %d, %d, %v, want %d, %d", n, g2, ch2, err, g, ch)
			}
			flat++
		}
	}
	if flat != 5 || c.Len() != 5 {
		t.Errorf("%d channels, Len %d, want 5", flat, c.Len())
	}
	for _, p := range [][2]int{{-1, 0}, {0, 1}, {1, 0}, {2, 3}, {4, 0}, {0, -1}} {
		if _, err := c.Flat(p[0], p[1]); !errors.Is(err, ErrUnknownChannel) {
			t.Errorf("Flat%v: %v", p, err)
		}
	}
	for _, n := range []int{-1, 5} {
		if _, _, err := c.Split(n); !errors.Is(err, ErrUnknownChannel) {
			t.Errorf("Split(%d): %v", n, err)
		}
	}
	if _, _, err := (Channels{}).Split(0); !errors.Is(err, ErrUnknownChannel) {
		t.Errorf("zero value: %v", err)
	}
}

// ALN-10: buffers are recorded in order while more arrive (FLINK-17564). Arrivals cross to the task in a ring, so "at
// the same moment" is any split between what is queued and what is still in the ring when the checkpoint starts.
func TestALN10OrderOfRecording(t *testing.T) {
	for queued := range 7 {
		h := newHarness(t, Config{Unaligned: UnalignedOn}, 2, credit.GuardFail)
		for i := range queued {
			h.data(0, fmt.Sprint(i+1), 1)
		}
		h.barrier(1, 1, "un", 0)
		for i := queued; i < 6; i++ {
			h.data(0, fmt.Sprint(i+1), 1)
		}
		h.barrier(0, 1, "un", 0)
		h.data(0, "7", 1)
		if got := fmt.Sprint(h.stored["1/0"]); got != "[1 2 3 4 5 6]" {
			t.Errorf("%d queued: recorded %s", queued, got)
		}
	}
}

// ALN-16: the time limit counts from the beginning of the checkpoint, and no clock that is set back makes a checkpoint
// late (FLINK-19681, FLINK-23041).
func TestALN16LimitCountsFromTheBeginning(t *testing.T) {
	const T = 1_000_000
	h, r := newRecorded(t, Config{Unaligned: UnalignedOn}, 2)
	step := func(want string, ms int64, ops ...string) {
		t.Helper()
		if err := r.clock(h, ms, true); err != nil {
			t.Fatal(err)
		}
		for _, op := range ops {
			if err := r.do(h, op); err != nil {
				t.Fatal(err)
			}
		}
		if got := strings.Join(r.take(), "; "); got != want {
			t.Errorf("\nwant %s\ngot  %s", want, got)
		}
	}
	at := fmt.Sprintf("to100 %d", T)
	step("timer+(20ms); block(0.0)", T+80, "B 0 1 "+at)
	step("", 19)
	step("timer-fire; initInputs(1,UNALIGNED); started(g0,1); TRIGGER(1,UNALIGNED)[align=open,bytes=open,delay=80ms]", 1)
	step("measured(1,50000000,0); block(0.1); stopped(g0,1); resume(0.0); resume(0.1); complete(1)", 30, "B 1 1 "+at)

	// The first barrier comes after the limit: unaligned at once.
	h, r = newRecorded(t, Config{Unaligned: UnalignedOn}, 2)
	step("timer+(0ms); block(0.0); initInputs(1,UNALIGNED); started(g0,1); TRIGGER(1,UNALIGNED)[align=open,bytes=open,delay=150ms]",
		T+150, "B 0 1 "+at)

	// The wall clock is set back by an hour: neither the timer (which runs on) nor the barrier finds it late.
	h, r = newRecorded(t, Config{Unaligned: UnalignedOn}, 3)
	step("timer+(20ms); block(0.0)", T+80, "B 0 1 "+at)
	r.now.Millis -= 3_600_000
	step("block(0.1)", 1, "B 1 1 "+at)
	step("block(0.2); initInputs(1,ALIGNED,timeoutable); TRIGGER(1,ALIGNED)[align=2ms,bytes=0,delay=80ms]; "+
		"resume(0.0); resume(0.1); resume(0.2); timer-cancel; complete(1)", 1, "B 2 1 "+at)
}

// ALN-22: a cancel marker ends the alignment and is reported once (FLINK-18238).
func TestALN22CancelEndsAlignment(t *testing.T) {
	h := newHarness(t, Config{}, 2, credit.GuardHold)
	h.barrier(0, 9, "al", 0)
	h.data(1, "x", 1)
	for h.poll() {
	}
	h.take()
	h.event(1, event.Event{Kind: event.CancelCheckpoint, CheckpointID: 9})
	h.event(1, event.Event{Kind: event.CancelCheckpoint, CheckpointID: 9})
	for h.poll() {
	}
	if got := only(h.out, "RESUME", "ABORT", "TRIGGER"); got != "RESUME(c0) ABORT(9)" {
		t.Errorf("got %s", got)
	}
}

// ALN-24: at least once blocks nothing, and a checkpoint that cannot complete is dropped (FLINK-2406).
func TestALN24LostBarrier(t *testing.T) {
	h, r := newRecorded(t, Config{Mode: AtLeastOnce}, 3)
	for _, op := range []string{"B 0 1", "B 1 1", "B 2 1", "B 0 2", "B 1 3", "B 2 2", "B 0 3", "B 2 3"} {
		if err := r.do(h, op+" alo"); err != nil {
			t.Fatal(err)
		}
	}
	out := r.take()
	if got := only(out, "TRIGGER", "ABORT", "block", "resume"); got != "TRIGGER(1) TRIGGER(3)" {
		t.Errorf("got %s", got)
	}
	if h.Pending() || h.Latest() != -1 {
		t.Error("something is left")
	}
}

// ALN-26, the receiver's part: each blocking item is answered by exactly one resume, and what a sender sends past its
// barrier all the same is not handed out (FLINK-16404).
func TestALN26OneResumePerBarrier(t *testing.T) {
	h := newHarness(t, Config{}, 2, credit.GuardHold)
	h.barrier(0, 1, "al", 0)
	for i := range 3 {
		h.data(0, fmt.Sprintf("late%d", i), 1)
	}
	for h.poll() {
	}
	if got := only(h.out, "poll:c0:late", "RESUME"); got != "" {
		t.Errorf("before the release: %s", got)
	}
	h.take()
	h.barrier(1, 1, "al", 0)
	for h.poll() {
	}
	want := "TRIGGER(1) RESUME(c0) RESUME(c1) poll:c0:late0 poll:c0:late1 poll:c0:late2"
	if got := only(h.out, "poll:c0:late", "RESUME", "TRIGGER"); got != want {
		t.Errorf("\nwant %s\ngot  %s", want, got)
	}
}

// ALN-19: a union says that it has something as long as a member does (FLINK-21992).
func TestALN19UnionAvailability(t *testing.T) {
	var gates []*credit.Gate
	for range 2 {
		gates = append(gates, credit.NewGate(credit.GateConfig{Channels: 1, Upstream: harnessUpstream{&harness{}}}))
	}
	u, err := credit.NewUnionGate(gates...)
	check(t, err)
	h, err := New(Config{Inputs: []Input{Union{u}}, Counts: []int{2}, Task: noTask{}})
	check(t, err)
	in := NewCheckpointedInput(Union{u}, h, 0, func() Now { return Now{} }, nil)
	for round := range 2 {
		for i := range 3 {
			gates[1].Deliver(credit.Arrival{Seq: int32(3*round + i), Buf: dataBuf(1)})
		}
		for i := range 3 {
			if !u.Available() {
				t.Errorf("round %d: nothing available before poll %d", round, i)
			}
			if _, st, err := in.Poll(); st != credit.Ready || err != nil {
				t.Errorf("round %d, poll %d: %v, %v", round, i, st, err)
			}
		}
		if u.Available() {
			t.Errorf("round %d: available when all is polled", round)
		}
	}
}
