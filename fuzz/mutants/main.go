package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"
)

// errSurvived: at least one mutant was not killed.
var errSurvived = errors.New("not all mutants were killed")

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	switch err := command(ctx, os.Args[1:], os.Stdout); {
	case err == nil, errors.Is(err, flag.ErrHelp):
	case err == errSurvived:
		os.Exit(1)
	default:
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(2)
	}
}

// command is main with its arguments and output.
func command(ctx context.Context, args []string, out io.Writer) error {
	f := flag.NewFlagSet("mutants", flag.ContinueOnError)
	run := f.String("run", "", "only mutants whose name matches this `regexp`")
	some := f.Int("sample", 0, "only `n` of them, spread over the list; 0: all")
	list := f.Bool("list", false, "show the list and run nothing")
	parallel := f.Int("p", runtime.GOMAXPROCS(0), "how many at a time")
	if err := f.Parse(args); err != nil {
		return err
	}
	match, err := regexp.Compile(*run)
	if err != nil {
		return err
	}
	ms := sample(slices.DeleteFunc(all(), func(m Mutant) bool { return !match.MatchString(m.Name) }), *some)
	if len(ms) == 0 {
		return fmt.Errorf("no mutant's name matches %q", *run)
	}
	if *list {
		printList(out, ms)
		return nil
	}
	root, err := moduleRoot()
	if err != nil {
		return err
	}
	r, err := newRunner(root, max(*parallel, 1))
	if err != nil {
		return err
	}
	defer func() { _ = r.close() }()
	return r.all(ctx, ms, out)
}

// moduleRoot is the directory above this one that has a go.mod.
func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		up := filepath.Dir(dir)
		if up == dir {
			return "", errors.New("there is no go.mod here or above")
		}
		dir = up
	}
}

// all runs the baseline, then every mutant, and prints the table as the results come.
func (r *runner) all(ctx context.Context, ms []Mutant, out io.Writer) error {
	for i := range ms { // what has no place any more is told at once, and all of it
		_, e := ms[i].apply(r.root)
		if e != nil {
			return e
		}
	}
	begin := time.Now()
	tests := merge(ms)
	n := 0
	for _, names := range tests {
		n += len(names)
	}
	fmt.Fprintf(out, "%d mutants, %d tests of %d packages\n", len(ms), n, len(tests))
	if err := r.prepare(ctx, ms); err != nil {
		return err
	}
	fmt.Fprintf(out, "all green without any breakage, after %.0f s\n\n", time.Since(begin).Seconds())
	t := newTable(out, ms)
	done := make([]chan result, len(ms))
	for i := range ms {
		done[i] = make(chan result, 1)
	}
	go func() {
		for i := range ms { // in order, so that the table grows from its top
			r.sem <- struct{}{}
			go func() {
				defer func() { <-r.sem }()
				done[i] <- r.kill(ctx, &ms[i])
			}()
		}
	}()
	count := map[verdict]int{}
	for i := range ms {
		select {
		case res := <-done[i]:
			if err := ctx.Err(); err != nil {
				return err
			}
			count[res.verdict]++
			t.row(&ms[i], res)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	fmt.Fprintf(out, "\n%d mutants, %d killed, %d survived", len(ms), count[killed], count[survived])
	if n := count[unfit]; n > 0 {
		fmt.Fprintf(out, ", %d unfit", n)
	}
	fmt.Fprintf(out, " (%.0f s)\n", time.Since(begin).Seconds())
	if count[killed] < len(ms) {
		return errSurvived
	}
	return nil
}

// table prints a line for each mutant.
type table struct {
	out               io.Writer
	name, what, tests int // widths
}

func newTable(out io.Writer, ms []Mutant) *table {
	t := &table{out: out, name: len("mutant"), what: len("what it does"), tests: len("tests")}
	for i := range ms {
		t.name = max(t.name, len(ms[i].Name))
		t.what = max(t.what, len(ms[i].What))
		t.tests = max(t.tests, len(testNames(&ms[i])))
	}
	t.line("mutant", "what it does", "tests", "", "     s", "how it ended")
	return t
}

func testNames(m *Mutant) string { return strings.Join(m.Tests, " ") }

func (t *table) line(name, what, tests, verdict, took, how string) {
	fmt.Fprintf(t.out, "%-*s  %-*s  %-*s  %-8s  %s  %s\n", t.name, name, t.what, what, t.tests, tests, verdict, took, how)
}

func (t *table) row(m *Mutant, res result) {
	t.line(m.Name, m.What, testNames(m), res.verdict.String(), fmt.Sprintf("%6.1f", res.took.Seconds()), res.how)
	if res.output != "" {
		fmt.Fprintf(t.out, "%s\n", res.output)
	}
}

func printList(out io.Writer, ms []Mutant) {
	t := newTable(out, ms)
	for i := range ms {
		t.line(ms[i].Name, ms[i].What, testNames(&ms[i]), "", "", ms[i].File)
	}
}
