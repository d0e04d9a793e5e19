package modelrun

import (
	"fmt"
	"testing"
)

// failures counts what a test would have failed with.
type failures struct {
	testing.TB
	fatal, errs int
	log         string
}

func (f *failures) Helper()               {}
func (f *failures) Fatalf(string, ...any) { f.fatal++; panic(f) }
func (f *failures) Errorf(string, ...any) { f.errs++ }
func (f *failures) Log(args ...any)       { f.log += fmt.Sprint(args...) }
func (f *failures) Logf(string, ...any)   {}
func (f *failures) Failed() bool          { return f.errs+f.fatal > 0 }

func failed(f *failures, do func()) (fatal bool) {
	defer func() {
		if p := recover(); p != nil && p != any(f) {
			panic(p)
		}
		fatal = f.fatal > 0
	}()
	do()
	return false
}

// TestSteps: the variables count, and nonsense in them fails.
func TestSteps(t *testing.T) {
	for value, want := range map[string]int{"": 500, "7": 7, "1000000": 1000000} {
		if value == "" && testing.Short() {
			want = 250
		}
		t.Setenv("STEPS", value)
		if got := Steps(t, 500); got != want {
			t.Errorf("STEPS=%q: %d steps, want %d", value, got, want)
		}
	}
	t.Setenv("SEED", "")
	if Seed(t) != 1 {
		t.Error("the first seed is not 1")
	}
	t.Setenv("SEED", "42")
	if Seed(t) != 42 {
		t.Error("SEED does not count")
	}
	for _, value := range []string{"x", "0", "-3"} {
		t.Setenv("STEPS", value)
		f := &failures{TB: t}
		if !failed(f, func() { Steps(f, 5) }) {
			t.Errorf("STEPS=%q is taken", value)
		}
	}
	t.Setenv("SEED", "-1")
	f := &failures{TB: t}
	if !failed(f, func() { Seed(f) }) {
		t.Error("SEED=-1 is taken")
	}
}

// TestReport: what is needed and missing fails; what is there is printed.
func TestReport(t *testing.T) {
	f := &failures{TB: t}
	Exposure{"triggers": 3, "late ends": 1}.Report(f, "aligned", 100, "triggers", "aborts", "time-outs")
	if f.errs != 2 {
		t.Errorf("%d errors, want 2", f.errs)
	}
	if want := "mode=aligned steps=100 late-ends=1 triggers=3"; f.log != want {
		t.Errorf("printed %q, want %q", f.log, want)
	}
}

// TestRounds: the first exposed round ends them, a failure ends them at once, and without exposure they fail.
func TestRounds(t *testing.T) {
	for _, c := range []struct{ exposedAt, failsAt, rounds, errs int }{{0, -1, 1, 0}, {3, -1, 4, 0}, {-1, 2, 3, 1}, {2, 2, 3, 1}, {-1, -1, mostRounds, 1}} {
		f := &failures{TB: t}
		rounds := 0
		Rounds(f, func(i int) bool {
			if i != rounds {
				t.Errorf("round %d is number %d", rounds, i)
			}
			rounds++
			if i == c.failsAt {
				f.Errorf("wrong")
			}
			return i == c.exposedAt
		})
		if rounds != c.rounds || f.errs != c.errs {
			t.Errorf("%+v: %d rounds and %d errors", c, rounds, f.errs)
		}
	}
}
