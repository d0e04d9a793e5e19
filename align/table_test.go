package align

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/weirflow/weir/serde/event"
)

var update = flag.Bool("update", false, "write the table into doc.go")

// TestDocTable compares the table in doc.go with the code; with -update it writes it.
func TestDocTable(t *testing.T) {
	doc, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	const begin, end = "// [begin table]\n", "// [end table]\n"
	head, rest, ok1 := strings.Cut(string(doc), begin)
	_, tail, ok2 := strings.Cut(rest, end)
	if !ok1 || !ok2 {
		t.Fatal("doc.go has no place for the table")
	}
	var b strings.Builder
	b.WriteString("//\n")
	for _, line := range strings.Split(strings.Trim(describeTable(), "\n"), "\n") {
		if line == "" {
			b.WriteString("//\n")
		} else {
			b.WriteString("//\t" + line + "\n")
		}
	}
	b.WriteString("//\n")
	want := head + begin + b.String() + end + tail
	if want == string(doc) {
		return
	}
	if !*update {
		t.Fatal("the table in doc.go is not that of the code: run go generate")
	}
	if err := os.WriteFile("doc.go", []byte(want), 0o644); err != nil {
		t.Fatal(err)
	}
}

// setUp brings a fresh handler with three channels into a state by the shortest way, with checkpoint 5 pending on
// channel 0 where the state has one.
func setUp(t *testing.T, s state) (*Aligner, *recorder) {
	t.Helper()
	cfg := Config{}
	var ops []string
	switch s {
	case waiting:
	case collecting:
		ops = []string{"B 0 5 al"}
	case mayWaiting:
		cfg.Unaligned = UnalignedOn
		ops = []string{"A 0 5 7 to100"}
	case mayCollecting:
		cfg.Unaligned = UnalignedOn
		ops = []string{"B 0 5 to100", "A 1 5 8 to100"}
	case unalignedWaiting:
		cfg.Unaligned = UnalignedOn
		ops = []string{"A 0 5 7 to100", "T 100"}
	case unalignedCollecting:
		cfg.Unaligned = UnalignedOn
		ops = []string{"B 0 5 to100", "T 100"}
	}
	h, r := newRecorded(t, cfg, 3)
	for _, op := range ops {
		if err := r.do(h, op); err != nil {
			t.Fatal(err)
		}
	}
	r.take()
	a := h.(*Aligner)
	if a.state != s {
		t.Fatalf("got to %v instead of %v", a.state, s)
	}
	return a, r
}

// cellWant is what each cell does to the recorders and where it leads, for the set-ups above: written down from the
// behaviour that Flink's classes specify, not from the table. The barrier at hand is of checkpoint 5, on channel 1; the
// announcement has sequence number 9.
var cellWant = map[state][stimuli]string{
	waiting: {
		alignedLast: "block(0.1); TRIGGER; resume(0.1) W", alignedLate: "block(0.1) C", aligned: "block(0.1) C",
		unalignedLast: "ERROR W", unaligned: "ERROR W", announced: "- W", timedOut: "ERROR W", aborted: "- W",
		endLast: "- W", endLate: "- W", end: "- W",
	},
	collecting: {
		alignedLast: "block(0.1); TRIGGER; resume(0.0); resume(0.1) W", alignedLate: "block(0.1) C", aligned: "block(0.1) C",
		unalignedLast: "ERROR C", unaligned: "ERROR C", announced: "- C", timedOut: "ERROR C", aborted: "resume(0.0) W",
		endLast: "TRIGGER; resume(0.0) W", endLate: "- C", end: "- C",
	},
	mayWaiting: { // channel 0 is announced
		alignedLast:   "block(0.1); init; TRIGGER; resume(0.1) AW",
		alignedLate:   "block(0.1); prioritize(0.0,seq=7); init UN; start; TRIGGER UN UC",
		aligned:       "block(0.1) AC",
		unalignedLast: "prioritize(0.0,seq=7); init UN; start; TRIGGER UN; stop AW",
		unaligned:     "prioritize(0.0,seq=7); init UN; start; TRIGGER UN UC",
		announced:     "- AW", timedOut: "prioritize(0.0,seq=7) UW", aborted: "- AW", endLast: "- AW", endLate: "- AW", end: "- AW",
	},
	mayCollecting: { // channel 0 is blocked, channel 1 announced
		alignedLast:   "block(0.1); init; TRIGGER; resume(0.0); resume(0.1) AW",
		alignedLate:   "block(0.1); init UN; start; TRIGGER UN UC",
		aligned:       "block(0.1) AC",
		unalignedLast: "prioritize(0.1,seq=8); init UN; start; TRIGGER UN; stop; resume(0.0) AW",
		unaligned:     "prioritize(0.1,seq=8); init UN; start; TRIGGER UN UC",
		announced:     "- AC",
		timedOut:      "prioritize(0.1,seq=8); init UN; start; TRIGGER UN UC",
		aborted:       "resume(0.0) AW",
		endLast:       "init; TRIGGER; resume(0.0) AW",
		endLate:       "init UN; start; TRIGGER UN UC",
		end:           "- AC",
	},
	unalignedWaiting: {
		alignedLast:   "block(0.1); init UN; start; TRIGGER UN; stop; resume(0.1) AW",
		alignedLate:   "block(0.1); init UN; start; TRIGGER UN UC",
		aligned:       "block(0.1); init UN; start; TRIGGER UN UC",
		unalignedLast: "init UN; start; TRIGGER UN; stop AW",
		unaligned:     "init UN; start; TRIGGER UN UC",
		announced:     "prioritize(0.1,seq=9) UW", timedOut: "- UW", aborted: "- AW", endLast: "- UW", endLate: "- UW", end: "- UW",
	},
	unalignedCollecting: { // channel 0 is blocked
		alignedLast: "block(0.1); stop; resume(0.0); resume(0.1) AW", alignedLate: "block(0.1) UC", aligned: "block(0.1) UC",
		unalignedLast: "stop; resume(0.0) AW", unaligned: "- UC", announced: "prioritize(0.1,seq=9) UC", timedOut: "- UC",
		aborted: "stop; resume(0.0) AW", endLast: "stop; resume(0.0) AW", endLate: "- UC", end: "- UC",
	},
}

// TestEveryCell visits each cell of the table, the impossible ones included, and checks what it does.
func TestEveryCell(t *testing.T) {
	visited := 0
	for s := range states {
		for what := range stimuli {
			t.Run(fmt.Sprintf("%v/%v", s, what), func(t *testing.T) {
				a, r := setUp(t, s)
				b := event.Barrier{ID: 5, Options: kind("to100")}
				if what == unaligned || what == unalignedLast {
					b.Options = kind("un")
				}
				st := step{channel: 1, barrier: &b, id: 5, seq: 9, block: true}
				switch what {
				case alignedLast, unalignedLast:
					st.last = true
				case endLast:
					st.end, st.last = true, true
				case end, endLate:
					st.end = true
				}
				err := a.run(what, &st)
				out := strings.Join(r.take(), "; ")
				for old, new := range map[string]string{
					"TRIGGER(5,ALIGNED)": "TRIGGER", "TRIGGER(5,UNALIGNED)": "TRIGGER UN", "initInputs(5,ALIGNED,timeoutable)": "init",
					"initInputs(5,UNALIGNED)": "init UN", "started(g0,5)": "start", "stopped(g0,5)": "stop",
				} {
					out = strings.ReplaceAll(out, old, new)
				}
				for { // numbers of the trigger are of no interest here
					i := strings.Index(out, "[")
					if i < 0 {
						break
					}
					out = out[:i] + out[i+strings.Index(out[i:], "]")+1:]
				}
				if err != nil {
					if !errors.Is(err, ErrState) {
						t.Errorf("error %v", err)
					}
					out = "ERROR"
				} else if out == "" {
					out = "-"
				}
				if got := fmt.Sprintf("%s %v", out, a.state); got != cellWant[s][what] {
					t.Errorf("\nwant %s\ngot  %s", cellWant[s][what], got)
				}
				visited++
			})
		}
	}
	if visited != int(states)*int(stimuli) {
		t.Errorf("%d cells visited of %d", visited, int(states)*int(stimuli))
	}
}

// scripts are random ops for a handler of a mode.
func scripts(rng *rand.Rand, mode Unaligned, n int) [][]string {
	kinds := []string{"al", "fa", "sp", "un"}
	switch mode {
	case UnalignedOn:
		kinds = []string{"al", "fa", "un", "to20", "to20", "to20", "to5"}
	case UnalignedAlways:
		kinds = []string{"un", "un", "to20", "al"}
	}
	all := make([][]string, n)
	for i := range all {
		channels := 1 + rng.IntN(3)
		ops := []string{fmt.Sprint(channels)}
		ended := make([]bool, channels)
		id := int64(1)
		for range 4 + rng.IntN(30) {
			ch := rng.IntN(channels)
			if rng.IntN(4) == 0 {
				id = max(1, id+rng.Int64N(3)-1)
			}
			switch what := rng.IntN(12); {
			case what < 2:
				ops = append(ops, fmt.Sprintf("T %d", rng.IntN(15)))
			case ended[ch]:
			case what == 2:
				ops = append(ops, fmt.Sprintf("C %d %d", ch, id))
			case what == 3:
				ended[ch] = true
				ops = append(ops, fmt.Sprintf("E %d", ch))
			case what < 6 && mode != UnalignedOff || what == 4 && mode == UnalignedOff:
				ops = append(ops, fmt.Sprintf("A %d %d %d to20", ch, id, len(ops)))
			case what == 6:
				ops = append(ops, fmt.Sprintf("RPC %d %d %s", ch, id, kinds[rng.IntN(len(kinds))]))
			default:
				ops = append(ops, fmt.Sprintf("B %d %d %s", ch, id, kinds[rng.IntN(len(kinds))]))
			}
		}
		all[i] = ops
	}
	return all
}

// play says what a handler of a mode makes of a script.
func play(mode Unaligned, script []string) string {
	h, r := newRecorded(noFatal{}, Config{Unaligned: mode}, int(script[0][0]-'0'))
	for _, op := range script[1:] {
		if err := r.do(h, op); err != nil {
			r.say("error: %v", err)
			break
		}
	}
	return strings.Join(append(r.take(), describe(h)), "; ")
}

// TestReachableCells breaks one cell of the table after the other. Random scripts must notice each one, except those that
// the table says are never reached: these may be broken without anybody ever noticing.
func TestReachableCells(t *testing.T) {
	whole := table
	defer func() { table = whole }()
	type played struct {
		script []string
		want   string
	}
	modes := map[Unaligned][]played{}
	for _, mode := range []Unaligned{UnalignedOff, UnalignedOn, UnalignedAlways} {
		for _, s := range scripts(rand.New(rand.NewPCG(1, uint64(mode))), mode, 1000) {
			modes[mode] = append(modes[mode], played{s, play(mode, s)})
		}
	}
	found, never := 0, 0
	for s := range states {
		for what := range stimuli {
			table = whole
			broken := cell{do: []action{actFail}, next: s}
			if slices.Contains(whole[s][what].do, actFail) {
				broken = cell{next: s}
			}
			table[s][what] = broken
			noticed := ""
			for mode, all := range modes {
				for _, p := range all {
					if got := play(mode, p.script); got != p.want && noticed == "" {
						noticed = fmt.Sprintf("%v: %v", mode, p.script)
					}
					if noticed != "" {
						break
					}
				}
			}
			switch {
			case reachable(s, what) && noticed == "":
				t.Errorf("%v, %v: broken, and no script notices", s, what)
			case !reachable(s, what) && noticed != "":
				t.Errorf("%v, %v: is never reached, but by %s", s, what, noticed)
			case noticed != "":
				found++
			default:
				never++
			}
		}
	}
	t.Logf("%d cells are reached, %d are not", found, never)
}

// TestTableIsWhole checks what must hold for each cell, whatever it says.
func TestTableIsWhole(t *testing.T) {
	alternatingStates := map[state]bool{mayWaiting: true, mayCollecting: true, unalignedWaiting: true, unalignedCollecting: true, home: true}
	for s := range states {
		for what := range stimuli {
			c := table[s][what]
			if alternatingStates[s] != alternatingStates[c.next] {
				t.Errorf("%v, %v: leads to %v, of another mode", s, what, c.next)
			}
			count := map[action]int{}
			at := map[action]int{}
			for i, act := range c.do {
				count[act]++
				at[act] = i
			}
			for act, n := range count {
				if n > 1 {
					t.Errorf("%v, %v: %v twice", s, what, act)
				}
			}
			has := func(act action) bool { return count[act] > 0 }
			// A trigger goes before any channel is let go; the start of storing, before the trigger; the end, after it.
			if has(actTrigger) && has(actRelease) && at[actRelease] < at[actTrigger] ||
				has(actStart) && at[actStart] > at[actTrigger] || has(actStop) && has(actTrigger) && at[actStop] < at[actTrigger] {
				t.Errorf("%v, %v: wrong order %v", s, what, c.do)
			}
			// Who waits again has released all, and forgotten all announcements.
			waits := c.next == waiting || c.next == home || c.next == mayWaiting
			if waits && s != c.next && !has(actRelease) {
				t.Errorf("%v, %v: ends without releasing", s, what)
			}
			if c.again && (table[c.next][unaligned].again || table[c.next][unalignedLast].again || table[c.next][end].again) {
				t.Errorf("%v, %v: may be looked up for ever", s, what)
			}
		}
	}
}
