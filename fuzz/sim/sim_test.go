package sim

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/weirflow/weir/internal/buildtag"
)

// seeds is how many seeds the environment asks for.
func seeds(t *testing.T) int {
	s := os.Getenv("SEEDS")
	switch {
	case s != "":
	case buildtag.Race: // takes twenty times as long, and one goroutine has no races
		return 40
	default:
		return 200
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 {
		t.Fatalf("SEEDS=%q: want a positive number", s)
	}
	return n
}

// lastLines keeps the end of a trace.
type lastLines struct {
	lines []string
	part  string
}

func (l *lastLines) Write(p []byte) (int, error) {
	l.part += string(p)
	for {
		i := strings.IndexByte(l.part, '\n')
		if i < 0 {
			return len(p), nil
		}
		if l.lines = append(l.lines, l.part[:i]); len(l.lines) > 4000 {
			l.lines = append(l.lines[:0:0], l.lines[2000:]...)
		}
		l.part = l.part[i+1:]
	}
}

func (l *lastLines) last(n int) string {
	return strings.Join(l.lines[max(0, len(l.lines)-n):], "\n")
}

// first is the first seed.
func first(t *testing.T) uint64 {
	s := os.Getenv("FIRST")
	if s == "" {
		return 1
	}
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestSeeds runs SEEDS (200) seeds from FIRST (1) on. SEED runs that one alone, with its whole trace.
func TestSeeds(t *testing.T) {
	if s := os.Getenv("SEED"); s != "" {
		seed, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		rep := Run(seed, Options{Trace: os.Stdout})
		if rep.Err != nil {
			t.Fatal(rep.Err)
		}
		t.Logf("%d steps, %v\n%v", rep.Steps, rep.Virtual, &rep.Exposure)
		return
	}
	n := seeds(t)
	var all Exposure
	failed, steps, from := 0, 0, first(t)
	for seed := from; seed < from+uint64(n); seed++ {
		rep := Run(seed, Options{})
		all.Add(rep.Exposure)
		steps += rep.Steps
		if rep.Err == nil {
			continue
		}
		if failed++; failed > 3 {
			t.Errorf("%v", rep.Err)
			continue
		}
		var trace lastLines
		Run(seed, Options{Trace: &trace})
		t.Errorf("%v\n%s\n%s", rep.Err, rep.Plan, trace.last(60))
	}
	summary := fmt.Sprintf("%d steps\n%v\n%d passed, %d failed", steps, &all, n-failed, failed)
	if os.Getenv("SEEDS") != "" {
		fmt.Println(summary)
	} else {
		t.Log("\n" + summary)
	}
	if nothing := all.Nil(); len(nothing) > 0 && n >= 200 {
		t.Errorf("no exposure at all: %s", strings.Join(nothing, ", "))
	}
}

// TestReproducible runs some seeds twice and with a trace: nothing but the seed decides what happens.
func TestReproducible(t *testing.T) {
	for seed := uint64(1); seed <= uint64(max(min(seeds(t), 200)/5, 5)); seed++ {
		a, b := Run(seed, Options{}), Run(seed, Options{Trace: new(lastLines)})
		if a.Digest != b.Digest || a.Steps != b.Steps || a.Exposure != b.Exposure {
			t.Errorf("seed %d: two runs differ: %d and %d steps, digests %x and %x", seed, a.Steps, b.Steps, a.Digest, b.Digest)
		}
	}
}
