package conform

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// Scenario is one scenario of a trace file.
//
//	--- NAME
//	cfg KEY=VALUE ...
//	in OP ARG ...
//	out WORD ...
type Scenario struct {
	Name   string
	Line   int // of the file, from 1
	Config map[string]string
	Setup  []string // the out lines that follow cfg, without the word out
	Steps  []Step

	over bool // an error came, which ends it
}

// Step is one in line with its out lines.
type Step struct {
	Line int
	Op   string
	Args []string
	Outs []string // without the word out; none for "out -"

	nothing bool // "out -" was there
	read    int  // how many of Args were asked for
}

// String returns the step as it stands in the file.
func (st *Step) String() string {
	return strings.Join(append([]string{"in", st.Op}, st.Args...), " ")
}

// Int returns argument i as a number. A step that lacks it, or has another word there, makes the scenario fail; the
// error is a panic with a scenarioError, which the caller of the checker turns into a failure.
func (st *Step) Int(i int) int { return int(st.Int64(i)) }

// Int64 is Int for 64 bits.
func (st *Step) Int64(i int) int64 {
	v, err := strconv.ParseInt(st.Arg(i), 10, 64)
	if err != nil {
		panic(scenarioError(fmt.Sprintf("line %d: argument %d of %q is not a number", st.Line, i, st)))
	}
	return v
}

// Arg returns argument i; see Int for one that isn't there.
func (st *Step) Arg(i int) string {
	if i >= len(st.Args) {
		panic(scenarioError(fmt.Sprintf("line %d: %q has no argument %d", st.Line, st, i)))
	}
	st.read = max(st.read, i+1)
	return st.Args[i]
}

// Int returns the configuration's value of key as a number; a missing one makes the scenario fail.
func (s *Scenario) Int(key string) int {
	v, err := strconv.Atoi(s.Config[key])
	if err != nil {
		panic(scenarioError(fmt.Sprintf("line %d: cfg has no number for %s", s.Line, key)))
	}
	return v
}

// Has tells whether the configuration has all the keys.
func (s *Scenario) Has(keys ...string) bool {
	for _, k := range keys {
		if _, ok := s.Config[k]; !ok {
			return false
		}
	}
	return true
}

// unread returns an error for the first step of which something was not looked at: what is not checked does not pass.
func (s *Scenario) unread() error {
	for i := range s.Steps {
		if st := &s.Steps[i]; st.read < len(st.Args) {
			return fmt.Errorf("line %d: %q has more than the step takes", st.Line, st)
		}
	}
	return nil
}

// scenarioError is what a scenario that can't be read panics with inside a checker.
type scenarioError string

// ParseTrace reads a trace file. An error names the line.
func ParseTrace(r io.Reader) ([]*Scenario, error) {
	p := traceParser{names: map[string]bool{}}
	sc := bufio.NewScanner(r)
	sc.Buffer(make([]byte, 0, 64<<10), 16<<20)
	for sc.Scan() {
		p.line++
		if err := p.parse(strings.TrimSuffix(sc.Text(), "\r")); err != nil {
			return nil, fmt.Errorf("line %d: %w", p.line, err)
		}
	}
	if err := sc.Err(); err != nil {
		return nil, fmt.Errorf("line %d: %w", p.line+1, err)
	}
	return p.all, nil
}

type traceParser struct {
	line  int
	all   []*Scenario
	names map[string]bool
}

func (p *traceParser) parse(text string) error {
	if text == "" || strings.HasPrefix(text, "#") {
		return nil
	}
	word, rest, _ := strings.Cut(text, " ")
	if word == "---" {
		if rest == "" || strings.Contains(rest, " ") || p.names[rest] {
			return fmt.Errorf("bad or repeated scenario name %q", rest)
		}
		p.names[rest] = true
		p.all = append(p.all, &Scenario{Name: rest, Line: p.line})
		return nil
	}
	if len(p.all) == 0 {
		return fmt.Errorf("%q before the first scenario", text)
	}
	s := p.all[len(p.all)-1]
	if word == "cfg" {
		return s.parseConfig(rest)
	}
	if s.Config == nil {
		return fmt.Errorf("%q before cfg", text)
	}
	switch {
	case rest == "":
		return fmt.Errorf("%q has no words", text)
	case s.over:
		return fmt.Errorf("%q after the error that ends %s", text, s.Name)
	case word == "in":
		words := strings.Split(rest, " ")
		s.Steps = append(s.Steps, Step{Line: p.line, Op: words[0], Args: words[1:]})
	case word == "out":
		outs, nothing := &s.Setup, new(bool)
		if n := len(s.Steps); n > 0 {
			outs, nothing = &s.Steps[n-1].Outs, &s.Steps[n-1].nothing
		}
		if *nothing || rest == "-" && len(*outs) > 0 {
			return fmt.Errorf("%q: the line - stands alone", text)
		}
		if rest == "-" {
			*nothing = true
			return nil
		}
		*outs = append(*outs, rest)
		s.over = strings.HasPrefix(rest, "error ")
	default:
		return fmt.Errorf("unknown line %q", text)
	}
	return nil
}

func (s *Scenario) parseConfig(text string) error {
	if s.Config != nil {
		return fmt.Errorf("second cfg in %s", s.Name)
	}
	s.Config = map[string]string{}
	for _, kv := range strings.Fields(text) {
		k, v, ok := strings.Cut(kv, "=")
		if !ok {
			return fmt.Errorf("cfg word %q is not KEY=VALUE", kv)
		}
		if _, twice := s.Config[k]; twice {
			return fmt.Errorf("cfg has %s twice", k)
		}
		s.Config[k] = v
	}
	return nil
}

// Out takes down what a checker sees. The checker calls Step before each step and Line for everything it sees in it.
type Out struct {
	lines [][]string // 0: after cfg; i+1: step i
}

// Step begins step i; what is seen before Step(0) belongs to cfg.
func (o *Out) Step(i int) {
	for len(o.lines) < i+2 {
		o.lines = append(o.lines, nil)
	}
}

// Line takes down one out line. A word * in it stands for any single word.
func (o *Out) Line(format string, args ...any) {
	if len(o.lines) == 0 {
		o.lines = append(o.lines, nil)
	}
	last := len(o.lines) - 1
	o.lines[last] = append(o.lines[last], fmt.Sprintf(format, args...))
}

// Error takes down that the step failed. name is Flink's exception, or * if any will do. Nothing may follow.
func (o *Out) Error(name string) { o.Line("error %s", name) }

func (o *Out) at(i int) []string {
	if i < len(o.lines) {
		return o.lines[i]
	}
	return nil
}

// compare returns an error that shows the first step in which the lines differ from the scenario's.
func (o *Out) compare(s *Scenario) error {
	if !sameLines(s.Setup, o.at(0)) {
		return mismatch("cfg", s.Line+1, s.Setup, o.at(0))
	}
	for i := range s.Steps {
		st := &s.Steps[i]
		if !sameLines(st.Outs, o.at(i+1)) {
			return mismatch(fmt.Sprintf("step %d, %s", i, st), st.Line, st.Outs, o.at(i+1))
		}
	}
	return nil
}

func mismatch(what string, line int, wanted, got []string) error {
	return fmt.Errorf("line %d: %s\n\twanted: %s\n\tgot:    %s", line, what, showLines(wanted), showLines(got))
}

func showLines(lines []string) string {
	if len(lines) == 0 {
		return "-"
	}
	return strings.Join(lines, "\n\t        ")
}

func sameLines(wanted, got []string) bool {
	if len(wanted) != len(got) {
		return false
	}
	for i := range wanted {
		if wanted[i] != got[i] && !matches(wanted[i], got[i]) {
			return false
		}
	}
	return true
}

func matches(wanted, got string) bool {
	w, g := strings.Split(wanted, " "), strings.Split(got, " ")
	if len(w) != len(g) {
		return false
	}
	for i := range w {
		if g[i] != "*" && g[i] != w[i] {
			return false
		}
	}
	return true
}
