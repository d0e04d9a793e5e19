package main

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/weirflow/weir/internal/modelrun"
)

// number finds the number that pattern's group matches in a text.
func number(t *testing.T, text, pattern string) float64 {
	t.Helper()
	m := regexp.MustCompile(pattern).FindStringSubmatch(text)
	if m == nil {
		t.Fatalf("nothing like %q in\n%s", pattern, text)
	}
	n, err := strconv.ParseFloat(m[1], 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// The demo proves what it says, with few lines. What it proves of rates is left to the demo itself: here the machine may be busy
// with other tests, and a rate says nothing.
func TestDemo(t *testing.T) {
	t.Parallel()
	in := file(t, lines(5000, func(i int) string { return fmt.Sprintf("word-%d of line %d,\tand so on", i%701, i) }))
	modelrun.Rounds(t, func(i int) bool { return demonstrate(t, in, 1<<min(i, 3)) })
}

// demonstrate runs the demo, for the longer the larger times is, and tells whether it met what it is about.
func demonstrate(t *testing.T, in string, times int) (met bool) {
	n := 60_000 * times
	p := start(t, "demo", "--lines", strconv.Itoa(n), "--seconds", strconv.Itoa(2*times), "--input", in)
	<-p.done
	text, errs := strings.Join(p.stdout, "\n"), strings.Join(p.stderr, "\n")
	if p.err != nil && (!strings.Contains(errs, "kept only") || strings.Contains(errs, "\n")) {
		t.Fatalf("%v\n%s\n%s", p.err, text, errs)
	}
	for pattern, want := range map[string]float64{
		`lines in +(\d+)`: float64(n), `lines out +(\d+)`: float64(n), `(?s)Stage 1.*?  lost (\d+)`: 0, `duplicated (\d+)`: 0, `out of order (\d+)`: 0,
		`(?s)Stage 3.*?lines in +(\d+)`: float64(n), `(?s)Stage 3.*?lines out +(\d+)`: float64(n),
		`(?s)Stage 3.*?out of order (\d+)`: 0, `(?s)Stage 3.*?lost (\d+)`: 0, `(?s)Stage 3.*?duplicated (\d+)`: 0,
		`(?s)Stage 2.*?  lost (\d+)`: 0, `\s(\d+) while reader 1 slept: slept`: 0,
	} {
		if got := number(t, text, pattern); got != want {
			t.Errorf("%s: %.0f, want %.0f\n%s", pattern, got, want, text)
		}
	}
	if used, budget := number(t, text, `memory +at most ([0-9.]+) of`), number(t, text, `at most [0-9.]+ of ([0-9.]+) MiB`); used <= 0 || used > budget {
		t.Errorf("%.1f of %.1f MiB in use", used, budget)
	}
	// How often there were checkpoints, how far the others got while a reader slept, whether processes were killed in the middle.
	return number(t, text, `checkpoints +(\d+) aligned`) >= 2 && number(t, text, `slowest of the others kept ([0-9.]+)`) > 0 &&
		number(t, text, `in (\d+) epochs`) >= 3
}

func TestDemoWantsEnough(t *testing.T) {
	for _, args := range [][]string{{"--lines", "10"}, {"--seconds", "1"}, {"--input", "missing"}, {"more"}} {
		if _, err := execute(append([]string{"demo"}, args...)...); err == nil {
			t.Errorf("demo %v goes on", args)
		}
	}
}
