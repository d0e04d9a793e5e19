package conform

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
)

// Result is the outcome of one test: a line of a vector file, a scenario of a trace file, or a captured session.
type Result struct {
	Name string
	Line int   // where it begins; 0 for a session
	Err  error // nil: passed
}

// Run runs one file and prints each failing test to w, with what was wanted and what was seen. The end of the file's
// name decides only how it is read: .jsonl as vectors, .txt as traces, .json as a captured session with its two .bin
// files beside it. err tells that the file can't be read; what isn't built is a failed test.
func Run(path string, w io.Writer) (passed, failed int, err error) {
	err = Each(path, func(r Result) {
		if r.Err == nil {
			passed++
			return
		}
		failed++
		fmt.Fprintf(w, "FAIL %s:%d %s: %v\n", path, r.Line, r.Name, r.Err)
	})
	return passed, failed, err
}

// Each runs one file and hands over the result of each test, in order.
func Each(path string, report func(Result)) error {
	ext := filepath.Ext(path)
	if ext == ".json" {
		report(Result{Name: filepath.Base(path), Err: guard(func() error { return checkSession(path) })})
		return nil
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	switch ext {
	case ".jsonl":
		all, err := ParseVectors(f)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		for _, v := range all {
			report(Result{Name: v.Name, Line: v.Line, Err: guard(func() error { return checkVector(v) })})
		}
	case ".txt":
		all, err := ParseTrace(f)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		for _, s := range all {
			report(Result{Name: s.Name, Line: s.Line, Err: guard(func() error { return checkScenario(s) })})
		}
	default:
		return fmt.Errorf("%s: neither .jsonl (vectors) nor .txt (traces) nor .json (a session)", path)
	}
	return nil
}

// guard turns a panic of a checker, or of the library under it, into a failed test.
func guard(f func() error) (err error) {
	defer func() {
		switch p := recover().(type) {
		case nil:
		case scenarioError:
			err = fmt.Errorf("%s", string(p))
		default:
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	return f()
}

func checkVector(v *Vector) error {
	for i := range vectorFamilies {
		if f := &vectorFamilies[i]; f.match(v) {
			if f.check == nil {
				return fmt.Errorf("%s: not built", f.name)
			}
			return f.check(v)
		}
	}
	return fmt.Errorf("unknown kind of vector: %q", v.Kind)
}

func checkScenario(s *Scenario) error {
	for i := range traceFamilies {
		if f := &traceFamilies[i]; f.match(s) {
			if f.run == nil {
				return fmt.Errorf("%s: not built", f.name)
			}
			if f.due != nil {
				s = f.due(s)
			}
			var out Out
			// What was seen before a failure tells more than the failure alone.
			err := guard(func() error { return f.run(s, &out) })
			if diff := out.compare(s); diff != nil && err != nil {
				return fmt.Errorf("%w\n%w", err, diff)
			} else if diff != nil {
				return diff
			}
			if err == nil {
				err = s.unread()
			}
			return err
		}
	}
	return fmt.Errorf("line %d: unknown kind of scenario: cfg %v", s.Line, s.Config)
}

func checkSession(path string) error {
	if sessionChecker == nil {
		return fmt.Errorf("sessions: not built")
	}
	return sessionChecker(path)
}
