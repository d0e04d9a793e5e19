package main

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// double is a mutant of the fixture that its test sees.
func double() Mutant {
	return Mutant{Name: "double", What: "doubles one too many", File: "fixture.go", Old: "2 * n", New: "2*n + 1",
		Tests: []string{"weir.TestDouble"}}
}

func newFixture(t *testing.T) *runner {
	t.Helper()
	t.Setenv("GOFLAGS", "")
	r, err := newRunner("testdata/fixture", 2)
	if err != nil {
		t.Fatal(err)
	}
	r.hang = 2 * time.Second
	t.Cleanup(func() {
		if err := r.close(); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(r.tmp); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s was left behind, %v", r.tmp, err)
		}
	})
	return r
}

// TestVerdicts: what becomes of mutants of each kind.
func TestVerdicts(t *testing.T) {
	r := newFixture(t)
	before, err := os.ReadFile("testdata/fixture/fixture.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name   string
		change func(*Mutant)
		want   verdict
		how    string
	}{
		{"an assertion fails", func(*Mutant) {}, killed, "double 3 is not 6"},
		{"a panic", func(m *Mutant) { m.New = "n / (n - 3)" }, killed, "panics: runtime error: integer divide by zero"},
		{"nobody looks", func(m *Mutant) { m.Old, m.New = "return 1", "return 2" }, survived, "TestDouble: PASS"},
		{"one of two looks", func(m *Mutant) { m.Tests = append(m.Tests, "weir.TestSum") }, survived, "TestSum: PASS"},
		{"a crash leaves a test out", func(m *Mutant) {
			m.New, m.Tests = "n / (n - 3)", append(m.Tests, "weir.TestSum")
		}, survived, "TestSum: PASS"},
		{"it doesn't compile", func(m *Mutant) { m.New = "two" }, unfit, "does not compile"},
		{"it hangs and says so", func(m *Mutant) {
			m.Old, m.New, m.Tests, m.Hangs = "i++", "", []string{"weir.TestSum"}, true
		}, killed, "hangs"},
		{"its text is gone", func(m *Mutant) { m.Old = "3 * n" }, unfit, "double: the text to break is not in fixture.go any more"},
		{"its text is there twice", func(m *Mutant) { m.Old = "return sum" }, unfit, "double: the text to break is in fixture.go"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := double()
			c.change(&m)
			res := r.kill(t.Context(), &m)
			if res.verdict != c.want || !strings.HasPrefix(res.how, c.how) {
				t.Errorf("%v, %q, want %v, %q\n%s", res.verdict, res.how, c.want, c.how, res.output)
			}
		})
	}
	if after, err := os.ReadFile("testdata/fixture/fixture.go"); err != nil || string(after) != string(before) {
		t.Errorf("the source was touched, %v", err)
	}
}

// TestHangsMustBeMarked: a test that hangs is a fault of its own.
func TestHangsMustBeMarked(t *testing.T) {
	r := newFixture(t)
	r.timeout = 2 * time.Second
	m := double()
	m.Old, m.New, m.Tests = "i++", "", []string{"weir.TestSum"}
	if res := r.kill(t.Context(), &m); res.verdict != unfit || !strings.HasPrefix(res.how, "hangs") {
		t.Errorf("%v, %q", res.verdict, res.how)
	}
}

// TestBaseline: tests that could not show anything are told before.
func TestBaseline(t *testing.T) {
	r := newFixture(t)
	for test, want := range map[string]string{
		"TestDouble":  "",
		"TestNowhere": "is not there, or was not run",
		"TestSkipped": "SKIP",
		"TestWrong":   "FAIL",
	} {
		m := double()
		m.Tests = []string{"weir." + test}
		err := r.prepare(t.Context(), []Mutant{m})
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", test, err, want)
		}
	}
}

// TestTable runs the whole: table, summary, and what it returns.
func TestTable(t *testing.T) {
	r := newFixture(t)
	unseen := double()
	unseen.Name, unseen.Old, unseen.New = "unseen", "return 1", "return 2"
	var out strings.Builder
	if err := r.all(t.Context(), []Mutant{double()}, &out); err != nil {
		t.Errorf("%v\n%s", err, &out)
	}
	for _, want := range []string{"doubles one too many", "weir.TestDouble", "killed", "1 mutants, 1 killed, 0 survived"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the table has no %q:\n%s", want, &out)
		}
	}
	out.Reset()
	if err := r.all(t.Context(), []Mutant{double(), unseen}, &out); err != errSurvived {
		t.Errorf("%v, want %v", err, errSurvived)
	}
	if want := "2 mutants, 1 killed, 1 survived"; !strings.Contains(out.String(), want) {
		t.Errorf("the table has no %q:\n%s", want, &out)
	}
}

// TestInterrupted: an interrupt ends everything, and nothing is left.
func TestInterrupted(t *testing.T) {
	r := newFixture(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := r.all(ctx, []Mutant{double()}, new(strings.Builder)); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

func TestCommand(t *testing.T) {
	var out strings.Builder
	if err := command(t.Context(), []string{"-list", "-run", "^credit-"}, &out); err != nil || !strings.Contains(out.String(), "credit-doubled") {
		t.Errorf("%v\n%s", err, &out)
	}
	if err := command(t.Context(), []string{"-run", "^no such$"}, &out); err == nil {
		t.Error("a name that nothing has was taken")
	}
	at, err := moduleRoot()
	if err != nil || filepath.Base(at) == "mutants" {
		t.Errorf("the root is %q, %v", at, err)
	}
}

// TestJudge: what is read out of a test's output.
func TestJudge(t *testing.T) {
	failed := errors.New("exit status 1")
	for _, c := range []struct{ text, how string }{
		{"    x_test.go:3: [rapid] draw n: 4\n    x_test.go:9: 4 is odd\n--- FAIL: TestX (0.00s)\nFAIL\n", "4 is odd"},
		{"==================\nWARNING: DATA RACE\n--- FAIL: TestX (0.00s)\n", "data race"},
		{"--- PASS: TestX (0.00s)\nPASS\n2 goroutines are left\n", "2 goroutines are left"},
		{"panic: test timed out after 1s\n", "hangs"},
		{"fatal error: all goroutines are asleep - deadlock!\n", "panics: fatal error: all goroutines are asleep - deadlock!"},
	} {
		if o := judge(c.text, failed); o.how != c.how || !o.failed {
			t.Errorf("%q, want %q", o.how, c.how)
		}
	}
	if o := judge("--- PASS: TestX (0.00s)\n--- SKIP: TestY (0.00s)\nPASS\n", nil); o.failed || o.tests["TestX"] != "PASS" || o.tests["TestY"] != "SKIP" {
		t.Errorf("%+v", o)
	}
}
