package conform

import (
	"os"
	"slices"
	"testing"
)

// recordedTrace is one of the committed traces.
func recordedTrace(t *testing.T, name string) []*Scenario {
	t.Helper()
	f, err := os.Open("testdata/traces/" + name + ".txt")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	all, err := ParseTrace(f)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestReferenceIsFlink holds the reference against everything that was recorded from Flink in the align families. What
// it says about other scenarios has this to stand on.
func TestReferenceIsFlink(t *testing.T) {
	scenarios := 0
	for _, name := range []string{"exactly-once", "at-least-once", "unaligned", "timeout"} {
		all := recordedTrace(t, "align-"+name)
		failed := 0
		for _, s := range all {
			w := newRefWorld(s)
			for i := range s.Steps {
				out, over := w.step(&s.Steps[i])
				if want := s.Steps[i].Outs; !sameOuts(want, out, over) {
					if failed++; failed <= 3 {
						t.Errorf("%s, line %d: %s\n\tFlink: %s\n\tgot:   %s", s.Name, s.Steps[i].Line, &s.Steps[i], showLines(want), showLines(out))
					}
					break
				}
			}
			scenarios++
		}
		if failed > 0 {
			t.Errorf("%s: %d of %d differ", name, failed, len(all))
		}
	}
	if scenarios < 800 {
		t.Errorf("%d scenarios, want at least 800", scenarios)
	}
}

// sameOuts compares lines; where a scenario is over both end in an error, whatever its name.
func sameOuts(want, got []string, over bool) bool {
	if over && len(want) > 0 && len(want) == len(got) {
		n := len(want) - 1
		return len(want[n]) > 6 && want[n][:6] == "error " && slices.Equal(want[:n], got[:n])
	}
	return slices.Equal(want, got)
}
