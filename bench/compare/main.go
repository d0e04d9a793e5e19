package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// settings of a comparison.
type settings struct {
	base, bench, pkg, benchtime, out string
	count                            int
	short                            bool
}

func main() {
	var s settings
	flag.StringVar(&s.base, "base", "", "the commit to compare with")
	flag.StringVar(&s.bench, "bench", ".", "which benchmarks, a regular expression")
	flag.StringVar(&s.pkg, "pkg", "./...", "which packages of the root module, separated by spaces")
	flag.IntVar(&s.count, "count", 0, "rounds; by default 10, in short form 2")
	flag.StringVar(&s.benchtime, "benchtime", "", "time or number of runs of each benchmark; by default 100ms, in short form 10ms")
	flag.BoolVar(&s.short, "short", false, "only allocations decide")
	flag.StringVar(&s.out, "out", "../../bin", "folder for the two files that benchstat compares")
	flag.Parse()
	if err := s.run(); err != nil {
		fmt.Fprintln(os.Stderr, "compare:", err)
		os.Exit(1)
	}
}

func (s *settings) run() error {
	if s.base == "" {
		return errors.New("compare with what? -base takes a commit")
	}
	if s.count == 0 {
		s.count = map[bool]int{false: 10, true: 2}[s.short]
	}
	if s.benchtime == "" {
		s.benchtime = map[bool]string{false: "100ms", true: "10ms"}[s.short]
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "weir-compare-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	tree := filepath.Join(dir, "tree")
	if _, err := output(root, "git", "worktree", "add", "--detach", tree, s.base); err != nil {
		return err
	}
	defer func() { _, _ = output(root, "git", "worktree", "remove", "--force", tree) }()

	began := time.Now()
	base, err := build(tree, filepath.Join(dir, "base"), s.pkg)
	if err != nil {
		return fmt.Errorf("building %s: %w", s.base, err)
	}
	head, err := build(root, filepath.Join(dir, "head"), s.pkg)
	if err != nil {
		return fmt.Errorf("building the working tree: %w", err)
	}
	fmt.Fprintf(os.Stderr, "both commits are built: %.0f s\n", time.Since(began).Seconds())
	files := [2]string{filepath.Join(s.out, "base.txt"), filepath.Join(s.out, "head.txt")}
	if err := os.MkdirAll(s.out, 0o755); err != nil {
		return err
	}
	if err := s.measure([2]commit{base, head}, files); err != nil {
		return err
	}
	return s.decide(files)
}

// commit is the benchmarks of a commit: the programs by their packages, and where they run.
type commit struct {
	tree  string
	tests map[string]string
}

// build builds the tests of the packages that have benchmarks.
func build(tree, dir, pkg string) (commit, error) {
	c := commit{tree: tree, tests: map[string]string{}}
	list := append([]string{"list", "-f", `{{if or .TestGoFiles .XTestGoFiles}}{{.Dir}}{{end}}`}, strings.Fields(pkg)...)
	packages, err := output(tree, "go", list...)
	if err != nil {
		return c, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return c, err
	}
	for _, p := range strings.Fields(packages) {
		names, err := filepath.Glob(filepath.Join(p, "*_test.go"))
		if err != nil {
			return c, err
		}
		has := false
		for _, n := range names {
			text, err := os.ReadFile(n)
			if err != nil {
				return c, err
			}
			has = has || strings.Contains(string(text), "\nfunc Benchmark")
		}
		if !has {
			continue
		}
		rel, err := filepath.Rel(tree, p)
		if err != nil {
			return c, err
		}
		test := filepath.Join(dir, strings.ReplaceAll(rel, string(filepath.Separator), "_")+".test")
		if _, err := output(p, "go", "test", "-c", "-o", test, "."); err != nil {
			return c, err
		}
		c.tests[rel] = test
	}
	if len(c.tests) == 0 {
		return c, fmt.Errorf("no benchmarks in %s", pkg)
	}
	return c, nil
}

// measure runs both commits round by round and writes a file for each.
func (s *settings) measure(commits [2]commit, files [2]string) (err error) {
	var texts [2]strings.Builder
	for round := range s.count {
		began := time.Now()
		for _, rel := range commits[1].packages(commits[0]) {
			for turn := range 2 {
				i := (turn + round) % 2
				test, ok := commits[i].tests[rel]
				if !ok {
					continue
				}
				out, err := output(filepath.Join(commits[i].tree, rel), test, "-test.run", "^$", "-test.bench", s.bench, "-test.benchmem",
					"-test.benchtime", s.benchtime, "-test.timeout", "5m")
				if err != nil && i == 0 { // no reason to give up the others
					fmt.Fprintf(os.Stderr, "%s of %s is left out: %v\n", rel, s.base, err)
					delete(commits[i].tests, rel)
					continue
				}
				if err != nil {
					return fmt.Errorf("%s: %w", rel, err)
				}
				texts[i].WriteString(out)
			}
		}
		fmt.Fprintf(os.Stderr, "round %d of %d: %.0f s\n", round+1, s.count, time.Since(began).Seconds())
	}
	for i, name := range files {
		err = errors.Join(err, os.WriteFile(name, []byte(texts[i].String()), 0o644))
	}
	return err
}

// packages are those of c, then those that only other has.
func (c commit) packages(other commit) (rels []string) {
	for rel := range c.tests {
		rels = append(rels, rel)
	}
	for rel := range other.tests {
		if _, ok := c.tests[rel]; !ok {
			rels = append(rels, rel)
		}
	}
	return rels
}

// decide shows what benchstat says, and is an error for what is worse.
func (s *settings) decide(files [2]string) error {
	text, err := output(".", "go", "tool", "benchstat", "base="+files[0], "head="+files[1])
	if err != nil {
		return err
	}
	fmt.Println(text)
	csv, err := output(".", "go", "tool", "benchstat", "-format", "csv", "base="+files[0], "head="+files[1])
	if err != nil {
		return err
	}
	v, err := judge(csv)
	if err != nil {
		return err
	}
	fmt.Printf("%d benchmarks compared; %d only of one commit\n", v.compared, v.alone)
	for _, x := range v.slower {
		fmt.Println("slower:", x)
	}
	for _, x := range v.allocates {
		fmt.Println("allocates more:", x)
	}
	switch {
	case v.compared == 0:
		return errors.New("the commits have no benchmark in common, so nothing is shown")
	case len(v.allocates) > 0:
		return fmt.Errorf("%d benchmarks allocate more than those of %s", len(v.allocates), s.base)
	case len(v.slower) > 0 && !s.short:
		return fmt.Errorf("%d benchmarks are slower than those of %s, significantly and by more than %.0f %%", len(v.slower), s.base, 100*allowed)
	}
	return nil
}

func output(dir, name string, args ...string) (string, error) {
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOWORK=off")
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w: %s%s", name, strings.Join(args, " "), err, errs.String(), tail(string(out)))
	}
	return string(out), nil
}

// tail is the end of a text.
func tail(s string) string { return s[max(0, len(s)-2000):] }
