package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Mutant is one small breakage, and the tests that notice it.
type Mutant struct {
	Name string
	What string // is broken, as the beginning of a sentence: what the code does now
	File string // slash-separated, from the root of the module
	// Old stands in File exactly once; New takes its place.
	Old, New string
	// Tests must all turn red: "credit.TestPersister", the directory of the package and the test, as in docs/mechanisms.md.
	// The root package is called weir.
	Tests []string
	// Race: the tests run under the race detector.
	Race bool
	// Hangs: a test that doesn't come to an end is red, too. Without it, that is a fault of the test.
	Hangs bool
}

// subject is a part of the list.
type subject struct {
	name    string
	mutants []Mutant
}

// subjects is the whole list, in the order of the table.
var subjects = []subject{
	{"rings", rings},
	{"memory", memory},
	{"ledger", ledger},
	{"receiving", receiving},
	{"sending", sending},
	{"frames", frames},
	{"records", records},
	{"loops", loops},
	{"alignment", alignment},
	{"channel state", channelState},
	{"watermarks", watermarks},
	{"tasks", tasks},
}

// all is the list without its headings.
func all() (ms []Mutant) {
	for _, s := range subjects {
		ms = append(ms, s.mutants...)
	}
	return ms
}

// sample picks n of ms, spread evenly.
func sample(ms []Mutant, n int) (some []Mutant) {
	if n <= 0 || n >= len(ms) {
		return ms
	}
	for i := range n {
		some = append(some, ms[i*len(ms)/n+len(ms)/(2*n)])
	}
	return some
}

// apply returns the text of the broken file. The module's root is root.
func (m *Mutant) apply(root string) ([]byte, error) {
	text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(m.File)))
	if err != nil {
		return nil, err
	}
	switch n := strings.Count(string(text), m.Old); {
	case m.Old == m.New:
		return nil, fmt.Errorf("%s changes nothing", m.Name)
	case n == 0:
		return nil, fmt.Errorf("%s: the text to break is not in %s any more; the entry has to follow the source:\n%s", m.Name, m.File, m.Old)
	case n > 1:
		return nil, fmt.Errorf("%s: the text to break is in %s %d times, so it doesn't say which one:\n%s", m.Name, m.File, n, m.Old)
	}
	return []byte(strings.Replace(string(text), m.Old, m.New, 1)), nil
}

// suite is a package's tests, built in one way.
type suite struct {
	dir  string // "." for the root
	race bool
}

func (s suite) String() string {
	if s.race {
		return "./" + s.dir + " (race)"
	}
	return "./" + s.dir
}

// splitTest takes "credit.TestPersister" apart.
func splitTest(test string) (dir, name string) {
	i := strings.LastIndexByte(test, '.')
	if i < 0 {
		return "", test
	}
	if dir = test[:i]; dir == "weir" {
		dir = "."
	}
	return dir, test[i+1:]
}

// suites returns the names of m's tests by where they are.
func (m *Mutant) suites() map[suite][]string {
	by := map[suite][]string{}
	for _, t := range m.Tests {
		dir, name := splitTest(t)
		s := suite{dir, m.Race}
		by[s] = append(by[s], name)
	}
	return by
}

// merge returns the names of the tests of all of ms, each once.
func merge(ms []Mutant) map[suite][]string {
	by := map[suite][]string{}
	for i := range ms {
		for s, names := range ms[i].suites() {
			by[s] = append(by[s], names...)
		}
	}
	for s, names := range by {
		slices.Sort(names)
		by[s] = slices.Compact(names)
	}
	return by
}
