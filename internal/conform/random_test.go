package conform

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/weirflow/weir/internal/modelrun"
)

// refModes are the modes of the align families, and what a long walk in each must have met.
var refModes = []struct {
	mode   string
	drops  bool // without align.Config.KeepOlder, which the runner of traces sets
	kinds  []string
	needed []string
}{
	{"exactly-once", false, []string{"aligned", "aligned", "forced"}, []string{"block", "resume", "trigger", "complete",
		"abort CHECKPOINT_DECLINED_SUBSUMED", "abort CHECKPOINT_DECLINED_ON_CANCELLATION_BARRIER",
		"abort CHECKPOINT_DECLINED_INPUT_END_OF_STREAM", "release", "ack", "status", "end", "triggered by an end", "held back", "error"}},
	{"at-least-once", false, []string{"atleastonce"}, []string{"trigger", "complete", "abort CHECKPOINT_DECLINED_ON_CANCELLATION_BARRIER",
		"abort CHECKPOINT_DECLINED_INPUT_END_OF_STREAM", "release", "ack", "status", "end", "triggered by an end", "repeated trigger",
		"error"}},
	{"at-least-once", true, []string{"atleastonce"}, []string{"trigger", "complete", "abort CHECKPOINT_DECLINED_ON_CANCELLATION_BARRIER",
		"abort CHECKPOINT_DECLINED_INPUT_END_OF_STREAM", "release", "ack", "status", "end", "triggered by an end", "repeated trigger",
		"skipped"}},
	{"unaligned", false, []string{"unaligned", "unaligned", "unaligned", "aligned", "timeout:20"}, []string{"trigger unaligned", "started", "stopped",
		"persist", "measured", "complete", "incomplete", "prioritize", "abort CHECKPOINT_DECLINED_SUBSUMED", "abort CHECKPOINT_SUBSUMED",
		"abort CHECKPOINT_DECLINED_ON_CANCELLATION_BARRIER", "abort CHECKPOINT_DECLINED_INPUT_END_OF_STREAM", "release", "end", "error"}},
	{"alternating", false, []string{"timeout:20", "timeout:20", "timeout:5", "timeout:90", "aligned", "forced", "unaligned"}, []string{
		"trigger unaligned", "trigger aligned", "trigger forced", "trigger timeout", "turned unaligned", "timer", "block", "resume", "started",
		"stopped", "persist", "measured", "complete", "incomplete", "prioritize", "announce", "abort CHECKPOINT_DECLINED_SUBSUMED",
		"abort CHECKPOINT_SUBSUMED", "abort CHECKPOINT_DECLINED_ON_CANCELLATION_BARRIER", "abort CHECKPOINT_DECLINED_INPUT_END_OF_STREAM",
		"release", "end", "triggered by an end", "error"}},
}

// TestModelOfTraces makes scenarios at random, in the words of the format, and has them run by the runner that runs the
// recorded ones. What is seen must be what the reference sees, line by line, and must keep the invariants of alignment,
// which a watcher checks without knowing either. make model STEPS=1000000 goes on for longer.
func TestModelOfTraces(t *testing.T) {
	for _, m := range refModes {
		name := m.mode
		if m.drops {
			name += " that drops"
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want := modelrun.Steps(t, 30000)
			met := modelrun.Exposure{}
			steps := 0
			for seed := modelrun.Seed(t); steps < want; seed++ {
				rng := rand.New(rand.NewPCG(seed, 7))
				text := randomScenario(rng, m.mode, m.kinds)
				if seed%8 == 0 {
					text = aloneScenario(rng, m.mode, m.kinds)
				}
				s, diff := runRandom(t, text, m.drops, met)
				if diff != nil {
					t.Fatalf("seed %d: %v\nthe shortest that fails:\n%s", seed, diff, shortest(t, text, m.drops))
				}
				steps += len(s.Steps)
				met["scenarios"]++
			}
			met.Report(t, name, steps, m.needed...)
		})
	}
}

// runRandom fills in what the reference sees, runs the scenario, and watches what the library says.
func runRandom(t *testing.T, text string, drops bool, met modelrun.Exposure) (*Scenario, error) {
	t.Helper()
	all, err := ParseTrace(strings.NewReader(text))
	if err != nil || len(all) != 1 {
		t.Fatalf("%v\n%s", err, text)
	}
	s := all[0]
	w := newRefWorld(s)
	tracker, _ := w.h.(*refTracker)
	if tracker != nil {
		tracker.drops = drops
	}
	for i := range s.Steps {
		out, over := w.step(&s.Steps[i])
		s.Steps[i].Outs = out
		if over {
			s.Steps = s.Steps[:i+1]
			break
		}
	}
	var out Out
	if err := guard(func() error { return runAlignWith(s, &out, !drops) }); err != nil {
		return s, err
	}
	if err := out.compare(s); err != nil {
		return s, err
	}
	if tracker != nil {
		met["skipped"] += tracker.skipped
	}
	v := newWatcher(s)
	for i := range s.Steps {
		if err := v.step(&s.Steps[i], out.at(i+1), met); err != nil {
			return s, fmt.Errorf("step %d, %s: %w\n\tseen: %s", i, &s.Steps[i], err, showLines(out.at(i+1)))
		}
	}
	return s, nil
}

// shortest takes steps out of a failing scenario as long as it fails.
func shortest(t *testing.T, text string, drops bool) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	fails := func(lines []string) bool {
		_, err := runRandom(t, strings.Join(lines, "\n")+"\n", drops, modelrun.Exposure{})
		return err != nil
	}
	for again := true; again; {
		again = false
		for i := len(lines) - 1; i > 1; i-- {
			fewer := slices.Delete(slices.Clone(lines), i, i+1)
			if fails(fewer) {
				lines, again = fewer, true
			}
		}
	}
	s, err := runRandom(t, strings.Join(lines, "\n")+"\n", drops, modelrun.Exposure{})
	var b strings.Builder
	b.WriteString(strings.Join(lines[:2], "\n"))
	for i := range s.Steps {
		fmt.Fprintf(&b, "\n%s", &s.Steps[i])
		for _, o := range s.Steps[i].Outs {
			fmt.Fprintf(&b, "\nout %s", o)
		}
	}
	return fmt.Sprintf("%s\n%v", b.String(), err)
}

// randomScenario makes one: a coordinator that begins checkpoints, and senders that mostly send each of them on, now and
// then skip, repeat or cancel one, and end. Each sender says for itself when a checkpoint began, and now and then of what
// kind it is.
func randomScenario(rng *rand.Rand, mode string, kinds []string) string {
	n := 1 + rng.IntN(6)
	var b strings.Builder
	fmt.Fprintf(&b, "--- random\ncfg mode=%s channels=%d finished=%t\n", mode, n, rng.IntN(4) > 0)
	var checkpoints []string // the kinds; id is the index, plus one, plus base
	var began []int64
	base := []int64{0, 0, 20, 1e12, math.MaxInt64 - 8}[rng.IntN(5)] // the last one runs out of ids
	last := make([]int, n)                                          // newest id that a sender sent
	saidEnd := make([]bool, n)                                      // end of data
	ended := make([]bool, n)
	now, payload := int64(0), 0
	wild := rng.IntN(10) == 0 // input that no job produces
	polls := 1 + rng.IntN(4)
	ends, lost := 1+rng.IntN(3), []int{3, 16, 16}[rng.IntN(3)]
	step := func(format string, args ...any) { fmt.Fprintf(&b, "in "+format+"\n", args...) }
	anyKind := func() string {
		if wild && rng.IntN(4) == 0 {
			return []string{"aligned", "forced", "unaligned", "timeout:20"}[rng.IntN(4)]
		}
		return kinds[rng.IntN(len(kinds))]
	}
	begin := func() {
		checkpoints = append(checkpoints, anyKind())
		began = append(began, now-int64(rng.IntN(3)*rng.IntN(40)))
	}
	begin()
	for range 10 + rng.IntN(90) {
		ch := rng.IntN(n)
		switch what := rng.IntN(20); {
		case what < polls:
			if rng.IntN(6) > 0 {
				step("poll")
			} else {
				step([]string{"drain", "mail"}[rng.IntN(2)])
			}
		case what == 19:
			ms := []int{0, 1, 4, 5, 15, 20, 21, 60}[rng.IntN(8)]
			now += int64(ms)
			step("clock %d", ms)
		case ended[ch]:
		case what == 18 && rng.IntN(3) < ends:
			if !saidEnd[ch] && rng.IntN(5) > 0 {
				saidEnd[ch] = true
				step("eod %d %s", ch, []string{"drain", "drain", "nodrain"}[rng.IntN(3)])
			}
			if rng.IntN(2) == 0 {
				ended[ch] = true
				step("eop %d", ch)
			}
		case what == 17 && rng.IntN(3) == 0:
			id := max(1, last[ch]+rng.IntN(3)-rng.IntN(2))
			if base > math.MaxInt64-int64(id) {
				continue
			}
			last[ch] = id
			for len(checkpoints) < id {
				begin()
			}
			step("cancel %d %d", ch, base+int64(id))
		case what >= 12:
			id := last[ch] + 1
			switch rng.IntN(lost) {
			case 0:
				id++ // lost
			case 1:
				id = max(1, id-1-rng.IntN(2)) // repeated
			}
			if base > math.MaxInt64-int64(id) {
				continue
			}
			for len(checkpoints) < id {
				begin()
			}
			last[ch] = max(last[ch], id)
			kind, ts := checkpoints[id-1], began[id-1]
			if rng.IntN(10) == 0 {
				kind = anyKind()
			}
			if strings.HasPrefix(kind, "timeout") && rng.IntN(5) == 0 {
				kind = "unaligned" // the time was over at the sender
			}
			if rng.IntN(3) == 0 {
				ts = now + int64(rng.IntN(30)-rng.IntN(60))
			}
			step("barrier %d %d %s %d", ch, base+int64(id), kind, ts)
		case saidEnd[ch]:
		default:
			payload++
			step("buf %d %d %d", ch, payload, rng.IntN(40))
		}
	}
	step("drain")
	return b.String()
}

// aloneScenario makes one in which all channels end but one, whose barriers and markers then come in any order: it lacks
// some of what the others sent, and is the only one left to say so.
func aloneScenario(rng *rand.Rand, mode string, kinds []string) string {
	n := 2 + rng.IntN(3)
	var b strings.Builder
	fmt.Fprintf(&b, "--- alone\ncfg mode=%s channels=%d finished=%t\n", mode, n, rng.IntN(8) > 0)
	step := func(format string, args ...any) { fmt.Fprintf(&b, "in "+format+"\n", args...) }
	some := func(ch, count, most int) {
		for i := range count {
			id := 1 + rng.IntN(most)
			if rng.IntN(5) == 0 {
				step("cancel %d %d", ch, id)
			} else {
				step("barrier %d %d %s %d", ch, id, kinds[rng.IntN(len(kinds))], rng.IntN(20))
			}
			if rng.IntN(3) == 0 {
				step("buf %d %d %d", ch, 100*ch+i, rng.IntN(40))
			}
			if rng.IntN(3) == 0 {
				step([]string{"poll", "poll", "drain", "clock 7", "mail"}[rng.IntN(5)])
			}
		}
	}
	most := 2 + rng.IntN(4)
	some(0, rng.IntN(2), most)
	for ch := 1; ch < n; ch++ {
		some(ch, 1+rng.IntN(3), most)
	}
	for ch := 1; ch < n; ch++ {
		step("eop %d", ch)
	}
	step("drain")
	some(0, 1+rng.IntN(5), most+2)
	step("eop 0")
	step("drain")
	return b.String()
}
