package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirflow/weir/internal/buildtag"
)

// Every loop does its work, the second time too.
func TestLoops(t *testing.T) {
	for _, l := range loops {
		if err := runLoop(l.name); err != nil {
			t.Errorf("%s: %v", l.name, err)
		}
		if !strings.HasPrefix(l.function, "main.") {
			t.Errorf("%s counts function %s", l.name, l.function)
		}
	}
	if runLoop("nothing") == nil {
		t.Error("a loop that is not there runs")
	}
}

// The loops allocate nothing: with the collector off a count would not show it.
func TestLoopsAllocate(t *testing.T) {
	if buildtag.Debug || buildtag.Race {
		t.Skip("debug builds keep stacks, and the race detector allocates: they are not what is counted")
	}
	for _, l := range loops {
		f, err := l.prepare()
		if err == nil {
			err = f(rounds)
		}
		if err != nil {
			t.Fatal(err)
		}
		if n := testing.AllocsPerRun(3, func() { err = f(rounds) }); n > 0 || err != nil {
			t.Errorf("%s: %v allocations in %d rounds, %v", l.name, n, rounds, err)
		}
	}
}

// The committed baseline has every loop.
func TestBaseline(t *testing.T) {
	counts, compiler, err := readBaseline("baseline.txt")
	if err != nil || compiler == "" {
		t.Fatal(compiler, err)
	}
	for _, l := range loops {
		if counts[l.name] <= 0 {
			t.Errorf("no count of %s", l.name)
		}
		delete(counts, l.name)
	}
	if len(counts) > 0 {
		t.Errorf("counts of loops that are not there: %v", counts)
	}
	name := filepath.Join(t.TempDir(), "baseline.txt")
	if err := os.WriteFile(name, []byte("ring many\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := readBaseline(name); err == nil {
		t.Error("a broken baseline is read")
	}
}
