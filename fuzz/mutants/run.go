package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// runner compiles tests and runs them. Everything that it writes goes into tmp.
type runner struct {
	root    string // of the module
	tmp     string
	timeout time.Duration // of one run of a test binary
	hang    time.Duration // the same, where a hang counts
	sem     chan struct{} // one for each compilation or run at a time

	shared map[suite]string // binaries with many mutants in them
	number map[string]int   // of the mutants that are in these
}

func newRunner(root string, parallel int) (*runner, error) {
	root, err := filepath.Abs(root)
	if err != nil {
		return nil, err
	}
	tmp, err := os.MkdirTemp("", "mutants")
	if err != nil {
		return nil, err
	}
	return &runner{root: root, tmp: tmp, timeout: 2 * time.Minute, hang: 15 * time.Second, sem: make(chan struct{}, parallel),
		shared: map[suite]string{}}, nil
}

func (r *runner) close() error { return os.RemoveAll(r.tmp) }

// verdict is what became of a mutant.
type verdict uint8

const (
	killed   verdict = iota
	survived         // a test is green
	unfit            // it doesn't compile, or hangs without saying so: it shows nothing
)

var verdicts = [...]string{"killed", "SURVIVED", "UNFIT"}

func (v verdict) String() string { return verdicts[v] }

// result is how a mutant ended.
type result struct {
	verdict verdict
	how     string // a line
	output  string // of the compiler or the test, if it was not killed
	took    time.Duration
}

// errBuild means that a package doesn't compile.
var errBuild = errors.New("does not compile")

// prepare compiles the tests that are named, with as many of ms in them as go together, and runs them without any breakage: all of
// them must be there, run and pass.
func (r *runner) prepare(ctx context.Context, ms []Mutant) error {
	c, err := combine(r.root, r.tmp, ms)
	if err != nil {
		return err
	}
	r.number = c.number
	var wg sync.WaitGroup
	var mu sync.Mutex
	var errs []error
	for s, names := range merge(ms) {
		wg.Go(func() {
			r.sem <- struct{}{}
			defer func() { <-r.sem }()
			binary, err := r.green(ctx, s, names, c.overlay)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				errs = append(errs, err)
			} else if binary != "" {
				r.shared[s] = binary
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// green compiles the tests of s and runs those that must pass. The binary is the one with the mutants in it; none if they do not
// compile all together, so that each has to be compiled by itself.
func (r *runner) green(ctx context.Context, s suite, names []string, overlay string) (binary string, err error) {
	dir, err := os.MkdirTemp(r.tmp, "suite")
	if err != nil {
		return "", err
	}
	binary, _, err = r.build(ctx, s, dir, overlay)
	together := err == nil
	if errors.Is(err, errBuild) {
		var out string
		if binary, out, err = r.build(ctx, s, dir, ""); err != nil {
			return "", fmt.Errorf("%v %w without any breakage:\n%s", s, err, tail(out))
		}
	}
	if err != nil {
		return "", err
	}
	o := r.test(ctx, s, binary, 0, names, r.timeout)
	for _, name := range names {
		switch o.tests[name] {
		case "PASS":
		case "":
			err = errors.Join(err, fmt.Errorf("%v: %s is not there, or was not run", s, name))
		default:
			err = errors.Join(err, fmt.Errorf("%v: %s without any breakage: %s", s, name, o.tests[name]))
		}
	}
	if err == nil && o.failed {
		err = fmt.Errorf("%v fails without any breakage: %s", s, o.how)
	}
	if err != nil {
		return "", fmt.Errorf("%w\n%s", err, tail(o.text))
	}
	if !together {
		return "", os.RemoveAll(dir)
	}
	return binary, nil
}

// kill breaks the source as m says and runs its tests. The caller bounds how many of these run at a time.
func (r *runner) kill(ctx context.Context, m *Mutant) (res result) {
	begin := time.Now()
	defer func() { res.took = time.Since(begin) }()
	var hows []string
	for s, names := range m.suites() {
		red := r.breakFor(ctx, m, s, names)
		if red.verdict != killed {
			return red
		}
		hows = append(hows, red.how)
	}
	slices.Sort(hows)
	return result{how: strings.Join(hows, "; ")}
}

func (r *runner) breakFor(ctx context.Context, m *Mutant, s suite, names []string) result {
	if binary, n := r.shared[s], r.number[m.Name]; binary != "" && n > 0 {
		return r.red(ctx, m, s, binary, n, names)
	}
	dir, err := os.MkdirTemp(r.tmp, "mutant")
	if err != nil {
		return result{verdict: unfit, how: err.Error()}
	}
	defer func() { _ = os.RemoveAll(dir) }()
	overlay, err := r.overlay(dir, m)
	if err != nil {
		return result{verdict: unfit, how: err.Error()}
	}
	binary, out, err := r.build(ctx, s, dir, overlay)
	if err != nil {
		return result{verdict: unfit, how: err.Error(), output: tail(out)}
	}
	return r.red(ctx, m, s, binary, 0, names)
}

// overlay writes the broken file of m alone and tells the compiler to take it.
func (r *runner) overlay(dir string, m *Mutant) (string, error) {
	text, err := m.apply(r.root)
	if err != nil {
		return "", err
	}
	broken := filepath.Join(dir, filepath.Base(m.File))
	if err := os.WriteFile(broken, text, 0o600); err != nil {
		return "", err
	}
	list, err := json.Marshal(map[string]any{"Replace": map[string]string{filepath.Join(r.root, filepath.FromSlash(m.File)): broken}})
	if err != nil {
		return "", err
	}
	name := filepath.Join(dir, "overlay.json")
	return name, os.WriteFile(name, list, 0o600)
}

// red runs tests that must fail: together, and what a crash left out, alone.
func (r *runner) red(ctx context.Context, m *Mutant, s suite, binary string, number int, names []string) result {
	limit := r.timeout
	if m.Hangs {
		limit = r.hang
	}
	how := ""
	for left := names; len(left) > 0; {
		o := r.test(ctx, s, binary, number, left, limit)
		switch {
		case o.hung && !m.Hangs:
			return result{verdict: unfit, how: "hangs, and is not marked so", output: tail(o.text)}
		case how == "":
			how = o.how
		}
		var missed []string
		for _, name := range left {
			switch state := o.tests[name]; {
			case state == "FAIL" || o.failed && len(left) == 1:
			case state == "" && o.failed:
				missed = append(missed, name)
			default:
				return result{verdict: survived, how: name + ": " + state, output: tail(o.text)}
			}
		}
		if len(missed) == len(left) { // nothing says whose fault it was
			missed = missed[:0]
			for _, name := range left {
				if o := r.test(ctx, s, binary, number, []string{name}, limit); !o.failed {
					return result{verdict: survived, how: name, output: tail(o.text)}
				}
			}
		}
		left = missed
	}
	return result{how: how}
}

// build compiles the tests of s.
func (r *runner) build(ctx context.Context, s suite, dir, overlay string) (binary, output string, err error) {
	binary = filepath.Join(dir, "test.exe")
	args := []string{"test", "-c", "-vet=off", "-ldflags=-s -w", "-o", binary}
	if overlay != "" {
		args = append(args, "-overlay", overlay)
	}
	if s.race {
		args = append(args, "-race")
	}
	cmd := exec.CommandContext(ctx, "go", append(args, "./"+s.dir)...)
	cmd.Dir = r.root
	cmd.Env = append(os.Environ(), "GOWORK=off")
	out, err := cmd.CombinedOutput()
	switch {
	case ctx.Err() != nil:
		return "", "", ctx.Err()
	case err != nil:
		return "", string(out), errBuild
	}
	if _, err := os.Stat(binary); err != nil {
		return "", "", fmt.Errorf("has no tests: %w", errBuild)
	}
	return binary, "", nil
}

// test runs tests by name, in the directory of their package, with the mutant of that number; 0: none.
func (r *runner) test(ctx context.Context, s suite, binary string, number int, names []string, limit time.Duration) outcome {
	ctx, stop := context.WithTimeout(ctx, limit+30*time.Second) // the binary's own limit comes first
	defer stop()
	cmd := exec.CommandContext(ctx, binary, "-test.v", "-test.count=1", "-test.timeout="+limit.String(),
		"-test.run=^("+strings.Join(names, "|")+")$")
	cmd.Dir = filepath.Join(r.root, filepath.FromSlash(s.dir))
	// Model tests draw the same every time, don't spend time on a shorter example, and leave no file behind.
	cmd.Env = append(os.Environ(), chooser+"="+strconv.Itoa(number), "TMPDIR="+filepath.Dir(binary), "RAPID_NOFAILFILE=true", "RAPID_SHRINKTIME=0s", "RAPID_SEED=1")
	cmd.WaitDelay = 5 * time.Second
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	return judge(out.String(), err)
}

// tail is the end of a long output.
func tail(s string) string {
	const most = 40
	lines := strings.Split(strings.TrimRight(s, "\n"), "\n")
	if len(lines) > most {
		lines = append([]string{"…"}, lines[len(lines)-most:]...)
	}
	return strings.Join(lines, "\n")
}
