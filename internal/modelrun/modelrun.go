package modelrun

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Steps is how many steps a model test takes in each mode: what the variable STEPS says (make model STEPS=1000000), else
// share, and half of it in short tests. A STEPS that is no positive number fails the test.
func Steps(t testing.TB, share int) int {
	t.Helper()
	v := os.Getenv("STEPS")
	if v == "" {
		if testing.Short() {
			return max(1, share/2)
		}
		return share
	}
	n, err := strconv.Atoi(v)
	if err != nil || n <= 0 {
		t.Fatalf("STEPS=%q is no number of steps", v)
	}
	return n
}

// Seed is the seed to begin at: what the variable SEED says, else 1. One that is no number fails the test.
func Seed(t testing.TB) uint64 {
	t.Helper()
	v := os.Getenv("SEED")
	if v == "" {
		return 1
	}
	n, err := strconv.ParseUint(v, 10, 64)
	if err != nil {
		t.Fatalf("SEED=%q is no seed", v)
	}
	return n
}

// Exposure counts what a walk came to.
type Exposure map[string]int

// Report prints the counts in one line, with steps first, and fails the test for each needed one that is nil.
func (e Exposure) Report(t testing.TB, mode string, steps int, needed ...string) {
	t.Helper()
	t.Log(e.String(mode, steps))
	for _, what := range needed {
		if e[what] == 0 {
			t.Errorf("%s: no %s in %d steps: the walk proves nothing about it", mode, what, steps)
		}
	}
}

// String is the line that Report prints: key=value, in the order of the keys.
func (e Exposure) String(mode string, steps int) string {
	keys := make([]string, 0, len(e))
	for k := range e {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	var b strings.Builder
	fmt.Fprintf(&b, "mode=%s steps=%d", mode, steps)
	for _, k := range keys {
		fmt.Fprintf(&b, " %s=%d", strings.ReplaceAll(k, " ", "-"), e[k])
	}
	return b.String()
}
