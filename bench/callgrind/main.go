package main

import (
	"bufio"
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
)

const (
	rounds = 16_000 // counted, of each loop; a multiple of what the loops do at once
	// A loop may take so much more than its baseline: a share, and so many instructions whatever it takes.
	allowed, allowedFew = 0.02, 2
)

func main() {
	file := flag.String("baseline", "bench/callgrind/baseline.txt", "what counts are compared with")
	write := flag.Bool("write", false, "write that file")
	one := flag.String("loop", "", "internal: run one loop")
	flag.Parse()
	var err error
	if *one != "" {
		err = runLoop(*one)
	} else {
		err = countAll(*file, *write)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "callgrind:", err)
		os.Exit(1)
	}
}

// runLoop runs a loop twice, so that all memory was used once: what is counted is the second time.
func runLoop(name string) error {
	for _, l := range loops {
		if l.name != name {
			continue
		}
		f, err := l.prepare()
		if err == nil {
			err = f(rounds)
		}
		if err == nil {
			err = f(rounds)
		}
		return err
	}
	return fmt.Errorf("no loop %q", name)
}

var errValgrind = errors.New("valgrind is not installed: this counts instructions with its tool callgrind (Debian: apt-get install valgrind)")

func countAll(file string, write bool) error {
	valgrind, err := exec.LookPath("valgrind")
	if err != nil {
		return errValgrind
	}
	base, compiler, err := readBaseline(file)
	if err != nil && !write {
		return err
	}
	dir, err := os.MkdirTemp("", "weir-callgrind-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	same := compiler == thisCompiler()
	out := new(bytes.Buffer)
	fmt.Fprintf(out, "# Instructions a round, counted by make callgrind. %s\n", thisCompiler())
	var worse []string
	fmt.Printf("| loop | instructions | baseline | | what |\n|---|---:|---:|---:|---|\n")
	for _, l := range loops {
		n, err := count(valgrind, dir, &l)
		if err != nil {
			return fmt.Errorf("%s: %w", l.name, err)
		}
		fmt.Fprintf(out, "%s %.2f\n", l.name, n)
		before, change := "", ""
		if b := base[l.name]; b > 0 {
			before, change = fmt.Sprintf("%.2f", b), fmt.Sprintf("%+.1f %%", 100*(n/b-1))
			if n > b*(1+allowed) && n > b+allowedFew {
				worse = append(worse, l.name)
			}
		}
		fmt.Printf("| %s | %.2f | %s | %s | %s |\n", l.name, n, before, change, l.what)
	}
	switch {
	case write:
		return os.WriteFile(file, out.Bytes(), 0o644)
	case !same:
		fmt.Printf("\nThe baseline was made with %s, this is %s: nothing is decided.\n", compiler, thisCompiler())
	case worse != nil:
		return fmt.Errorf("more instructions than the baseline has: %s. If that is meant, run make callgrind ARGS=-write", strings.Join(worse, ", "))
	}
	return nil
}

func thisCompiler() string { return runtime.Version() + " " + runtime.GOOS + "/" + runtime.GOARCH }

var collected = regexp.MustCompile(`Collected : (\d+)`)

// count is the number of instructions of a round of a loop.
func count(valgrind, dir string, l *loop) (float64, error) {
	self, err := os.Executable()
	if err != nil {
		return 0, err
	}
	cmd := exec.Command(valgrind, "--tool=callgrind", "--toggle-collect="+l.function,
		"--callgrind-out-file="+filepath.Join(dir, l.name), self, "-loop", l.name)
	cmd.Env = append(os.Environ(), "GODEBUG=asyncpreemptoff=1", "GOMAXPROCS=1", "GOGC=off")
	out, err := cmd.CombinedOutput()
	if err != nil {
		return 0, fmt.Errorf("%w: %s", err, out)
	}
	m := collected.FindSubmatch(out)
	if m == nil {
		return 0, fmt.Errorf("valgrind says no count: %s", out)
	}
	n, err := strconv.ParseFloat(string(m[1]), 64)
	if err == nil && n == 0 {
		err = fmt.Errorf("function %s was never called", l.function)
	}
	return n / (2 * rounds), err // both times
}

// readBaseline reads the file that -write makes: the compiler behind its first line's sentence, then names and counts.
func readBaseline(file string) (counts map[string]float64, compiler string, err error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, "", err
	}
	defer f.Close()
	counts = map[string]float64{}
	for sc := bufio.NewScanner(f); sc.Scan(); {
		line := sc.Text()
		if strings.HasPrefix(line, "#") {
			_, compiler, _ = strings.Cut(line, ". ")
			continue
		}
		name, text, _ := strings.Cut(line, " ")
		n, err := strconv.ParseFloat(text, 64)
		if err != nil || n <= 0 {
			return nil, "", fmt.Errorf("%s: no count in line %q", file, line)
		}
		counts[name] = n
	}
	return counts, compiler, nil
}
