package leaktest

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// patience is how long something may take to go away after the last test: goroutines end after the Close that stops them.
const patience = 30 * time.Second

// Gauge is a number that a package keeps of something it must give back. It must read the same at the end as at the start.
type Gauge struct {
	Name string
	Read func() int64
}

// Main runs the tests of a package and exits. A run that passed but left something behind exits with 1 and says what.
func Main(m *testing.M, gauges ...Gauge) {
	before := take(gauges)
	code := m.Run()
	if code == 0 {
		if left := before.wait(patience); len(left) > 0 {
			fmt.Fprintf(os.Stderr, "leaktest: left behind after all tests:\n%s\n", strings.Join(left, "\n"))
			code = 1
		}
	}
	os.Exit(code)
}

// Check makes a single test fail if it leaves something behind when it ends. It suits tests that are not parallel.
func Check(t testing.TB, gauges ...Gauge) {
	t.Helper()
	before := take(gauges)
	t.Cleanup(func() {
		if left := before.wait(patience); len(left) > 0 {
			t.Errorf("leaktest: left behind:\n%s", strings.Join(left, "\n"))
		}
	})
}

// state is what existed at one moment.
type state struct {
	goroutines map[string]string // "goroutine 12" to its stack
	files      map[string]string // "fd 3" to what it refers to
	mappings   map[string]string // address range to what is mapped
	gauges     []Gauge
	readings   []int64
}

func take(gauges []Gauge) *state {
	warmPoller()
	s := &state{goroutines: goroutines(), files: files(), mappings: mappings(), gauges: gauges}
	for _, g := range gauges {
		s.readings = append(s.readings, g.Read())
	}
	return s
}

// warmPoller makes the runtime open its poller, whose descriptors stay for good, before the first look.
func warmPoller() {
	if r, w, err := os.Pipe(); err == nil {
		_ = r.Close()
		_ = w.Close()
	}
}

// wait looks again and again until nothing is left or the limit has passed, and returns what is left.
func (s *state) wait(limit time.Duration) []string {
	deadline := time.Now().Add(limit)
	for pause := time.Millisecond; ; pause = min(2*pause, 100*time.Millisecond) {
		left := s.left()
		if len(left) == 0 || time.Now().After(deadline) {
			return left
		}
		time.Sleep(pause)
	}
}

func (s *state) left() (left []string) {
	left = append(left, added("", s.goroutines, goroutines())...)
	left = append(left, added("open ", s.files, files())...)
	left = append(left, added("mapping ", s.mappings, mappings())...)
	for i, g := range s.gauges {
		if now := g.Read(); now != s.readings[i] {
			left = append(left, fmt.Sprintf("%s: %d, was %d", g.Name, now, s.readings[i]))
		}
	}
	return left
}

// added lists what now has and before had not, or had as something else.
func added(what string, before, now map[string]string) (left []string) {
	for k, v := range now {
		if before[k] != v {
			if _, same := before[k]; same && what == "" {
				continue // a goroutine that went on
			}
			left = append(left, what+k+": "+v)
		}
	}
	slices.Sort(left)
	return left
}

// theirs are goroutines of the runtime and of package testing that come and go as they like.
var theirs = []string{
	"testing.(*M).", "testing.(*T).Run", "testing.runTests", "testing.tRunner.func", "testing.runFuzzing", "testing.(*F)",
	"os/signal.loop", "os/signal.signal_recv", "runtime/pprof.", "runtime/trace.", "runtime.ReadTrace",
	"runtime.runFinalizers", "runtime.runCleanups", "runtime.runfinq", "created by unique.", "created by runtime.",
	"internal/fuzz.",
}

// goroutines returns the stacks of all goroutines but the caller's and those in theirs.
func goroutines() map[string]string {
	buf := make([]byte, 1<<16)
	for {
		n := runtime.Stack(buf, true)
		if n < len(buf) {
			buf = buf[:n]
			break
		}
		buf = make([]byte, 2*len(buf))
	}
	found := make(map[string]string)
	for i, one := range bytes.Split(buf, []byte("\n\n")) {
		stack := string(one)
		if i == 0 || slices.ContainsFunc(theirs, func(s string) bool { return strings.Contains(stack, s) }) {
			continue // the first one is the caller
		}
		name, rest, _ := strings.Cut(stack, " [")
		found[name] = "[" + rest
	}
	return found
}

// files returns the open descriptors. It returns nothing where /proc does not show them.
func files() map[string]string {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return nil
	}
	found := make(map[string]string)
	for _, e := range entries {
		// The descriptor that ReadDir used is gone by now and fails.
		if target, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil {
			found["fd "+e.Name()] = target
		}
	}
	return found
}

// mappings returns the mappings of files, devices and shared memory. It returns nothing where /proc does not show them.
func mappings() map[string]string {
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return nil
	}
	found := make(map[string]string)
	for line := range strings.Lines(string(maps)) {
		f := strings.Fields(line) // range, mode, offset, device, inode, name
		if len(f) < 6 || strings.HasPrefix(f[5], "[") || strings.Contains(f[1], "x") {
			continue // anonymous, of the kernel, or code
		}
		found[f[0]] = strings.Join(f[5:], " ")
	}
	return found
}
