package main

import (
	"go/parser"
	"go/token"
	"strings"
	"testing"
)

// TestCombined: many mutants in one binary, and each of them is itself.
func TestCombined(t *testing.T) {
	r := newFixture(t)
	var ms []Mutant
	for name, c := range map[string]struct{ old, new, test, how string }{
		"more":     {"2 * n", "2*n + 1", "TestDouble", "double 3 is not 6"},
		"panics":   {"2 * n", "n / (n - 3)", "TestDouble", "panics: runtime error: integer divide by zero"},
		"unnamed":  {"return -1", "return 1", "TestKinds", "sign: 1"},
		"generic":  {"return a, b", "return b, a", "TestKinds", "pair: 2 1"},
		"variadic": {"range all[1:]", "range all", "TestKinds", "rest: 6"},
		"method":   {"*c += step(n)", "*c -= step(n)", "TestKinds", "count: -3"},
		"variable": {"factor = 3", "factor = 4", "TestKinds", "factor: 4"},
		"constant": {"limit = 5", "limit = 6", "TestKinds", "limit: 6"}, // compiled by itself
	} {
		ms = append(ms, Mutant{Name: name, What: c.how, File: "fixture.go", Old: c.old, New: c.new, Tests: []string{"weir." + c.test}})
	}
	if err := r.prepare(t.Context(), ms); err != nil {
		t.Fatal(err)
	}
	if len(r.shared) != 1 || len(r.number) != len(ms)-1 {
		t.Errorf("%d binaries with %d of %d mutants", len(r.shared), len(r.number), len(ms))
	}
	for i := range ms {
		if res := r.kill(t.Context(), &ms[i]); res.verdict != killed || !strings.HasPrefix(res.how, ms[i].What) {
			t.Errorf("%s: %v, %q, want %q\n%s", ms[i].Name, res.verdict, res.how, ms[i].What, res.output)
		}
	}
}

// TestOneDoesNotCompile: it doesn't spoil the others, and is found.
func TestOneDoesNotCompile(t *testing.T) {
	r := newFixture(t)
	bad := double()
	bad.Name, bad.New = "bad", "two"
	ms := []Mutant{double(), bad}
	if err := r.prepare(t.Context(), ms); err != nil {
		t.Fatal(err)
	}
	for i, want := range []verdict{killed, unfit} {
		if res := r.kill(t.Context(), &ms[i]); res.verdict != want {
			t.Errorf("%s: %v, %q, want %v", ms[i].Name, res.verdict, res.how, want)
		}
	}
}

// TestListGoesTogether: nearly all of the list fits into shared binaries, and the files with the choices are Go.
func TestListGoesTogether(t *testing.T) {
	ms := all()
	sources, number, err := together(root, ms)
	if err != nil {
		t.Fatal(err)
	}
	if in := len(number); in < len(ms)*9/10 {
		t.Errorf("only %d of %d go together: the whole will take long", in, len(ms))
	}
	for name, s := range sources {
		if _, err := parser.ParseFile(token.NewFileSet(), name, s.text(), 0); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestChoice shows what becomes of a function.
func TestChoice(t *testing.T) {
	const code = "// Package p.\npackage p\n\n// F is F.\nfunc (q *Q[T]) F(int, ...string) (err error) { return nil }\n"
	s, err := parseSource(code)
	if err != nil {
		t.Fatal(err)
	}
	if !s.add(strings.Replace(code, "return nil", "return io.EOF", 1), 7) {
		t.Fatal("not taken in")
	}
	if s.add(strings.Replace(code, "F(int", "F(int8", 1), 8) {
		t.Error("a mutant with another signature was taken in")
	}
	const want = `// Package p.
package p

// F is F.
func (mutantReceiver *Q[T]) F(mutantArg0 int, mutantArg1 ...string, ) (err error) {
	switch mutantChosen {
	case 7:
		return mutantReceiver.FMutant7(mutantArg0, mutantArg1..., )
	default:
		return mutantReceiver.FMutant0(mutantArg0, mutantArg1..., )
	}
}

func (q *Q[T]) FMutant0(int, ...string) (err error) { return nil }

func (q *Q[T]) FMutant7(int, ...string) (err error) { return io.EOF }
`
	if got := s.text(); got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}
