package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

const root = "../.."

// testsOf returns the names of a package's tests.
func testsOf(t *testing.T, dir string) map[string]bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(dir), "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, name := range files {
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && strings.HasPrefix(fn.Name.Name, "Test") {
				names[fn.Name.Name] = true
			}
		}
	}
	return names
}

// TestListIsAlive: each entry still finds its text, what takes its place is Go, and the tests that it names exist.
func TestListIsAlive(t *testing.T) {
	packages := map[string]map[string]bool{}
	seen := map[string]bool{}
	for _, m := range all() {
		if seen[m.Name] {
			t.Errorf("%s stands in the list twice", m.Name)
		}
		seen[m.Name] = true
		if m.What == "" || len(m.Tests) == 0 {
			t.Errorf("%s doesn't say what it breaks, or who notices", m.Name)
		}
		text, err := m.apply(root)
		if err != nil {
			t.Error(err)
			continue
		}
		if _, err := parser.ParseFile(token.NewFileSet(), m.File, text, parser.SkipObjectResolution); err != nil {
			t.Errorf("%s is no Go any more: %v", m.Name, err)
		}
		for _, test := range m.Tests {
			dir, name := splitTest(test)
			if packages[dir] == nil {
				packages[dir] = testsOf(t, dir)
			}
			if !packages[dir][name] {
				t.Errorf("%s: there is no test %s", m.Name, test)
			}
		}
	}
}

// TestListIsWhole: no part of the library is left out.
func TestListIsWhole(t *testing.T) {
	count := map[string]int{}
	for _, s := range subjects {
		count[s.name] = len(s.mutants)
		if len(s.mutants) < 10 {
			t.Errorf("only %d mutants of %s", len(s.mutants), s.name)
		}
	}
	data := count["rings"] + count["memory"] + count["ledger"] + count["receiving"] + count["sending"] + count["frames"] +
		count["records"] + count["loops"]
	if above := count["alignment"] + count["channel state"] + count["watermarks"] + count["tasks"]; data < 100 || above < 60 {
		t.Errorf("%d mutants of the data plane and %d of what stands on it", data, above)
	}
}

func TestSample(t *testing.T) {
	ms := all()
	some := sample(ms, 7)
	if len(some) != 7 || some[0].File == some[6].File {
		t.Errorf("a sample of 7 has %d, from %s to %s", len(some), some[0].File, some[len(some)-1].File)
	}
	if n := len(sample(ms, 0)); n != len(ms) {
		t.Errorf("no sample: %d of %d", n, len(ms))
	}
}
