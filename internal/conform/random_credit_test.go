package conform

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/weirflow/weir/internal/modelrun"
)

// creditReference is refReceiver or refSender. err is errSenseless for a step that the format does not allow.
type creditReference interface {
	setup() []string
	step(st *Step) (out []string, over bool, err error)
}

func newCreditReference(s *Scenario) (creditReference, func(*Scenario, *Out) error) {
	if s.Has("subpartitions") {
		return newRefSender(s), runCreditSender
	}
	return newRefReceiver(s), runCreditReceiver
}

// TestCreditReferenceIsFlink holds the references of the credit families against everything that was recorded.
func TestCreditReferenceIsFlink(t *testing.T) {
	for _, name := range []string{"receiver", "sender"} {
		all := recordedTrace(t, "credit-"+name)
		if len(all) < 200 {
			t.Errorf("%s: %d scenarios, want at least 200", name, len(all))
		}
		failed := 0
	scenarios:
		for _, s := range all {
			w, _ := newCreditReference(s)
			if out := w.setup(); !slices.Equal(out, s.Setup) {
				t.Errorf("%s, line %d:\n\tFlink: %s\n\tgot:   %s", s.Name, s.Line, showLines(s.Setup), showLines(out))
			}
			for i := range s.Steps {
				out, over, err := w.step(&s.Steps[i])
				if want := s.Steps[i].Outs; err != nil || !slices.Equal(want, out) || over != (i == len(s.Steps)-1 && endsInError(want)) {
					if failed++; failed <= 3 {
						t.Errorf("%s, line %d: %s, %v\n\tFlink: %s\n\tgot:   %s", s.Name, s.Steps[i].Line, &s.Steps[i], err, showLines(want), showLines(out))
					}
					continue scenarios
				}
			}
		}
		if failed > 0 {
			t.Errorf("%s: %d of %d differ", name, failed, len(all))
		}
	}
}

func endsInError(lines []string) bool {
	return len(lines) > 0 && strings.HasPrefix(lines[len(lines)-1], "error ")
}

// TestModelOfCreditTraces makes scenarios of the credit families at random and has them run by the runner that runs the
// recorded ones: what is seen must be what the reference sees, line by line. make model STEPS=1000000 goes on for longer.
func TestModelOfCreditTraces(t *testing.T) {
	for _, f := range []struct {
		name   string
		make   func(*rand.Rand) string
		needed []string
	}{
		{"receiver", randomReceiver, []string{"credit", "resume", "cancel", "failed", "st", "pool", "data", "barrier", "eod", "eop",
			"none", "end", "error BufferReorderingException", "error IllegalStateException", "error IllegalArgumentException",
			"error CancelTaskException", "waits", "cancel while full", "waits and is served"}},
		{"sender", randomSender, []string{"rejected", "persist", "promise", "kept", "broken", "data", "event", "backlog", "failed -",
			"acknowledged", "st", "gone", "empty", "failed of a reader"}},
	} {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			want := modelrun.Steps(t, 40000)
			met := modelrun.Exposure{}
			steps := 0
			for seed := modelrun.Seed(t); steps < want; seed++ {
				text := f.make(rand.New(rand.NewPCG(seed, 11)))
				s, diff := runRandomCredit(t, text, met)
				if diff != nil {
					t.Fatalf("seed %d: %v\nthe shortest that fails:\n%s", seed, diff, shortestCredit(t, text))
				}
				steps += len(s.Steps)
				met["scenarios"]++
			}
			met.Report(t, f.name, steps, f.needed...)
		})
	}
}

// runRandomCredit fills in what the reference sees, and runs the scenario.
func runRandomCredit(t *testing.T, text string, met modelrun.Exposure) (*Scenario, error) {
	t.Helper()
	all, err := ParseTrace(strings.NewReader(text))
	if err != nil || len(all) != 1 {
		t.Fatalf("%v\n%s", err, text)
	}
	s := all[0]
	w, run := newCreditReference(s)
	s.Setup = slices.Clone(w.setup())
	full := false
	for i := range s.Steps {
		st := &s.Steps[i]
		out, over, err := w.step(st)
		if errors.Is(err, errSenseless) {
			s.Steps = s.Steps[:i] // only the shortening makes such
			break
		}
		st.Outs = slices.Clone(out)
		full = st.Op == "notwritable" || full && st.Op != "writable"
		expose(met, st, full)
		if over {
			s.Steps = s.Steps[:i+1]
			break
		}
	}
	var out Out
	if err := guard(func() error { return run(s, &out) }); err != nil {
		return s, err
	}
	if s.Has("channels") {
		return s, out.compare(withoutFailed(s))
	}
	return s, out.compare(s)
}

// expose takes down what was met in a step.
func expose(met modelrun.Exposure, st *Step, full bool) {
	for _, line := range st.Outs {
		word, rest, _ := strings.Cut(line, " ")
		met[word]++
		switch {
		case word == "error":
			met[line]++
		case word == "failed" && rest[0] == '-':
			met["failed -"]++
		case word == "failed" && strings.HasSuffix(rest, "ProducerFailedException"):
			met["failed of a reader"]++
		case word == "st" && strings.Contains(rest, "w=1"):
			met["waits"]++
			if st.Op == "recycle" {
				met["waits and is served"]++
			}
		case word == "st" && strings.HasSuffix(rest, "gone"):
			met["gone"]++
		case word == "data" && strings.Count(rest, " ") == 3 && strings.HasSuffix(rest, " 0"):
			met["empty"]++
		case word == "cancel" && full && st.Op != "poll":
			met["cancel while full"]++
		}
	}
}

// shortestCredit takes steps out of a failing scenario as long as it fails.
func shortestCredit(t *testing.T, text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	run := func(lines []string) (*Scenario, error) {
		return runRandomCredit(t, strings.Join(lines, "\n")+"\n", modelrun.Exposure{})
	}
	for again := true; again; {
		again = false
		for i := len(lines) - 1; i > 1; i-- {
			fewer := slices.Delete(slices.Clone(lines), i, i+1)
			if _, err := run(fewer); err != nil {
				lines, again = fewer, true
			}
		}
	}
	s, err := run(lines)
	var b strings.Builder
	b.WriteString(strings.Join(lines[:2], "\n"))
	for i := range s.Steps {
		fmt.Fprintf(&b, "\n%s\n\t%s", &s.Steps[i], strings.Join(s.Steps[i].Outs, "\n\t"))
	}
	return fmt.Sprintf("%s\n%v", b.String(), err)
}

// randomReceiver makes a scenario of credit-receiver. The reference goes along, so that the sender mostly keeps to what
// it may do: it counts its credit and its numbers.
func randomReceiver(rng *rand.Rand) string {
	n, exclusive := 1+rng.IntN(4), rng.IntN(4)
	var b strings.Builder
	fmt.Fprintf(&b, "--- random\ncfg channels=%d exclusive=%d floating=%d segment=32\n", n, exclusive, 1+rng.IntN(7))
	all, _ := ParseTrace(strings.NewReader(b.String()))
	w := newRefReceiver(all[0])
	credit, seq, over := make([]int, n), make([]int, n), make([]bool, n)
	for i := range credit {
		credit[i] = exclusive
	}
	wild := rng.IntN(5) == 0 // a sender that does what it may not
	id, dead := 0, false
	step := func(format string, args ...any) {
		line := fmt.Sprintf(format, args...)
		fmt.Fprintf(&b, "in %s\n", line)
		words := strings.Split(line, " ")
		out, end, _ := w.step(&Step{Op: words[0], Args: words[1:]})
		dead = end
		for _, o := range out {
			var ch, more int
			if k, _ := fmt.Sscanf(o, "credit %d %d", &ch, &more); k == 2 {
				credit[ch] += more
			}
			if k, _ := fmt.Sscanf(o, "resume %d", &ch); k == 1 && exclusive == 0 {
				credit[ch] = 0
			}
		}
	}
	pollMore, full := rng.IntN(6), rng.IntN(3)
	for range 10 + rng.IntN(70) {
		if dead {
			break
		}
		ch := rng.IntN(n)
		c := w.channels[ch]
		backlog := rng.IntN(3) * rng.IntN(5)
		number := seq[ch]
		if wild && rng.IntN(12) == 0 {
			number += rng.IntN(3) - 1
		}
		// After its error a channel is no more than what the poll throws.
		silent := c.err != "" || over[ch] && rng.IntN(4) > 0
		switch what := rng.IntN(24 + pollMore); {
		case what >= 20:
			step("poll")
		case what >= 15:
			if len(w.held) == 0 {
				break
			}
			k := 0
			if rng.IntN(3) == 0 {
				k = rng.IntN(len(w.held))
			}
			step("recycle %d", k)
		case what == 14:
			if rng.IntN(3) < full {
				step("notwritable")
			} else {
				step("writable")
			}
		case what == 13:
			if rng.IntN(10) == 0 {
				step("release %d", ch)
				over[ch] = true
			}
		case what == 12:
			if c.err == "" && (!c.released || wild && rng.IntN(10) == 0) {
				step("resume %d", ch)
			}
		case silent:
		case what >= 10:
			if backlog > 0 || wild && rng.IntN(20) == 0 {
				step("backlog %d %d", ch, backlog)
			}
		case what == 9:
			id++
			ev := []string{"aligned:%d", "aligned:%d", "aligned:%d", "unaligned:%d", "unaligned:%d", "cancel:%d"}[rng.IntN(6)]
			if ev[0] == 'a' && !(wild && rng.IntN(6) == 0) {
				backlog = 0
			}
			step("event %d %d %d "+ev, ch, number, backlog, id)
			seq[ch]++
		case what == 8:
			if rng.IntN(3) > 0 {
				break
			}
			if rng.IntN(2) == 0 {
				step("event %d %d %d eod:%s", ch, number, backlog, []string{"drain", "nodrain"}[rng.IntN(2)])
				seq[ch]++
			}
			if !dead {
				step("event %d %d %d eop", ch, seq[ch], backlog)
				seq[ch]++
				over[ch] = true
			}
		default:
			if credit[ch] <= 0 && !over[ch] && !(wild && rng.IntN(12) == 0) {
				break
			}
			credit[ch]--
			step("data %d %d %d %d", ch, number, backlog, max(0, rng.IntN(36)-3))
			seq[ch]++
		}
		if c.err != "" {
			wild = false
		}
	}
	return b.String()
}

// randomSender makes a scenario of credit-sender.
func randomSender(rng *rand.Rand) string {
	n, exclusive := 1+rng.IntN(4), max(0, rng.IntN(5)-1)
	var b strings.Builder
	fmt.Fprintf(&b, "--- random\ncfg subpartitions=%d exclusive=%d segment=64\n", n, exclusive)
	all, _ := ParseTrace(strings.NewReader(b.String()))
	w := newRefSender(all[0])
	step := func(format string, args ...any) {
		line := fmt.Sprintf(format, args...)
		fmt.Fprintf(&b, "in %s\n", line)
		words := strings.Split(line, " ")
		_, _, _ = w.step(&Step{Op: words[0], Args: words[1:]})
	}
	gone := make([]bool, n) // its receiver has cancelled
	saidEnd := make([]bool, n)
	ids := 0
	early := rng.IntN(2) == 0
	wild := rng.IntN(4) == 0
	more := 1 + rng.IntN(4)
	for range 10 + rng.IntN(80) {
		sub := rng.IntN(n)
		s := w.subs[sub]
		if gone[sub] && rng.IntN(2) == 0 {
			if wild && rng.IntN(4) == 0 {
				step([]string{"credit %d 1", "resume %d", "ack %d", "cancel %d", "request %d"}[rng.IntN(5)], sub)
			}
			continue
		}
		open := s.open != nil && !s.open.closed
		if !s.viewed && early && rng.IntN(3) == 0 {
			step("request %d", sub)
			continue
		}
		shut := func() {
			if open {
				step("close %d", sub)
			}
		}
		switch what := rng.IntN(26); {
		case what < 5:
			shut()
			step("add %d %d", sub, rng.IntN(6)*rng.IntN(12))
		case what < 8:
			shut()
			step("start %d %d", sub, rng.IntN(4)*rng.IntN(8))
		case what == 8:
			if open && s.open.size < 40 {
				step("write %d %d", sub, rng.IntN(20))
			}
		case what == 9:
			shut()
		case what < 13:
			ids++
			ev := []string{"aligned:%d", "forced:%d", "unaligned:%d", "unaligned:%d", "timeout:%d", "timeout:%d", "cancel:%d"}[rng.IntN(7)]
			if ev[0] != 'u' {
				shut()
			}
			if ids > 1 && rng.IntN(8) == 0 {
				step("event %d "+ev, sub, ids-1) // one that there may be already
				break
			}
			step("event %d "+ev, sub, ids)
		case what == 13:
			if rng.IntN(6) == 0 && !saidEnd[sub] {
				shut()
				saidEnd[sub] = true
				step("event %d eod:%s", sub, []string{"drain", "nodrain"}[rng.IntN(2)])
			}
		case what == 14:
			if rng.IntN(6) == 0 {
				shut()
				step("finish %d", sub)
			}
		case what < 17:
			step("flush %d", sub)
		case what == 17:
			if s.promised != 0 {
				step([]string{"timeout %d %d", "timeout %d %d", "abort %d %d"}[rng.IntN(3)], sub, s.promised)
			} else if ids > 0 {
				step([]string{"timeout %d %d", "abort %d %d"}[rng.IntN(2)], sub, 1+rng.IntN(ids))
			}
		case what == 18:
			if s.blocked || wild && rng.IntN(10) == 0 {
				step("resume %d", sub)
			}
		case what == 19:
			if saidEnd[sub] || wild && rng.IntN(10) == 0 {
				step("ack %d", sub)
			}
		case what == 20:
			if !s.viewed || wild && rng.IntN(10) == 0 {
				step("request %d", sub)
			}
		case what == 21:
			if s.reader && rng.IntN(12) == 0 {
				step("cancel %d", sub)
				gone[sub] = true
			}
		case what == 22:
			if rng.IntN(2) == 0 {
				step("notwritable")
			} else {
				step("writable")
			}
		case what == 23 && wild:
			if rng.IntN(15) == 0 {
				step("fail")
			}
		default:
			if s.reader || wild && rng.IntN(10) == 0 {
				step("credit %d %d", sub, 1+rng.IntN(more))
			}
		}
	}
	return b.String()
}

// TestWithoutFailed: what a channel's state is after its failure is left open; the step of the failure itself, other
// channels and the pool are not.
func TestWithoutFailed(t *testing.T) {
	s := &Scenario{Setup: []string{"st 0 q=0"}, Steps: []Step{
		{Op: "data", Outs: []string{"failed 0 BufferReorderingException", "st 0 q=1", "st 1 q=1"}},
		{Op: "data", Outs: []string{"st 0 q=2", "st 1 q=2", "pool 1"}},
	}}
	c := withoutFailed(s)
	if got := c.Steps[0].Outs; !slices.Equal(got, s.Steps[0].Outs) {
		t.Errorf("in the step: %q", got)
	}
	if got := c.Steps[1].Outs; !slices.Equal(got, []string{"st 1 q=2", "pool 1"}) {
		t.Errorf("after it: %q", got)
	}
	if len(s.Steps[1].Outs) != 3 {
		t.Error("the scenario itself was changed")
	}
}
