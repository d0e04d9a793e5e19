package align

import (
	"strconv"
	"strings"
	"testing"
)

// fixed lists the recorded steps that weir answers differently, on purpose, with its answer: see the table of deviations
// in doc.go.
var fixed = map[string]string{
	// Flink forgets older entries on the fast path, and an end of partition then fails.
	"TR21/B 1 2 alo": "TRIGGER(2,AT_LEAST_ONCE)[align=0ms,bytes=0,delay=0ms]   {pending=[] open=1}",
	"TR21/E 1":       "-   {pending=[] open=0}",
	"TR22/C 1 2":     "ABORT(2,CHECKPOINT_DECLINED_ON_CANCELLATION_BARRIER)   {pending=[] open=1}",
	"TR22/B 1 3 alo": "TRIGGER(3,AT_LEAST_ONCE)[align=0ms,bytes=0,delay=0ms]   {pending=[] open=1}",
	"TR22/E 1":       "-   {pending=[] open=0}",
	// Flink resumes a sender that is not blocked.
	"AT42/RPC 1 1 to100": "-   {AlternatingCollectingBarriers cur=2 pend=true}",
}

// TestRecorded compares the handlers, step by step, with what Flink's classes did.
func TestRecorded(t *testing.T) {
	used := map[string]bool{}
	for _, file := range []string{"tracker.txt", "aligned.txt", "unaligned.txt", "alternating.txt"} {
		for _, s := range readRecorded(t, file) {
			t.Run(strings.ReplaceAll(s.name, " ", "_"), func(t *testing.T) {
				id, _, _ := strings.Cut(s.name, " ")
				var counts []int
				for _, c := range strings.Split(s.cfg["channels"], "+") {
					n, err := strconv.Atoi(c)
					if err != nil {
						t.Fatal(err)
					}
					counts = append(counts, n)
				}
				cfg := Config{StopAtFirstEnd: s.cfg["checkpointsAfterTasksFinish"] != "true"}
				switch s.cfg["mode"] {
				case "tracker":
					cfg.Mode = AtLeastOnce
				case "unaligned":
					cfg.Unaligned = UnalignedAlways
				case "alternating":
					cfg.Unaligned = UnalignedOn
				case "aligned":
				default:
					t.Fatalf("mode %q", s.cfg["mode"])
				}
				h, r := newRecorded(t, cfg, counts...)
				for _, step := range s.steps {
					err := r.do(h, step.op)
					var seen []string
					for _, line := range r.take() {
						// The recordings have no futures; the trace files of package conform do.
						if !strings.HasPrefix(line, "measured") && !strings.HasPrefix(line, "complete") &&
							!strings.HasPrefix(line, "incomplete") {
							seen = append(seen, line)
						}
					}
					got := strings.Join(seen, "; ")
					if got == "" && err == nil {
						got = "-"
					}
					want := step.out
					if before, _, ok := strings.Cut(want, "ERROR"); ok {
						want = strings.TrimSpace(before)
						if err == nil && fixed[id+"/"+step.op] == "" {
							t.Errorf("line %d: %s: no error", step.line, step.op)
						}
					} else if err != nil {
						t.Errorf("line %d: %s: %v", step.line, step.op, err)
					}
					got, want = asSet(got), asSet(want)
					if step.state != "" {
						got, want = got+"   "+describe(h), want+"   "+step.state
					}
					if f := fixed[id+"/"+step.op]; f != "" {
						used[id+"/"+step.op] = true
						if f == want {
							t.Errorf("line %d: %s: nothing to fix", step.line, step.op)
						}
						want = f
					}
					if got != want {
						t.Errorf("line %d: %s\nwant %s\ngot  %s", step.line, step.op, want, got)
					}
				}
			})
		}
	}
	if len(used) != len(fixed) {
		t.Errorf("of %d deviations only %d were met: %v", len(fixed), len(used), used)
	}
}
