package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirflow/weir/internal/leaktest"
)

// asTool in the environment makes the test binary be the tool, so that tests have it as processes, and it can start itself.
const asTool = "WEIR_TEST_AS_TOOL"

func TestMain(m *testing.M) {
	if os.Getenv(asTool) != "" {
		main()
		os.Exit(0)
	}
	leaktest.Main(m)
}

// limit is how long a test may take before it counts as hanging.
const limit = 3 * time.Minute

func limited(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	t.Cleanup(cancel)
	return ctx
}

// process is the tool at work.
type process struct {
	t    testing.TB
	cmd  *exec.Cmd
	args string
	addr chan string // where it listens, if it says so
	done chan struct{}

	mu             sync.Mutex
	stdout, stderr []string // lines; guarded by mu until done
	err            error    // of Wait, once done
}

// start starts the tool. It is killed at the end of the test at the latest.
func start(t testing.TB, args ...string) *process {
	t.Helper()
	p := &process{t: t, args: strings.Join(args, " "), addr: make(chan string, 1), done: make(chan struct{})}
	p.cmd = exec.CommandContext(limited(t), os.Args[0], args...)
	p.cmd.Env = append(os.Environ(), asTool+"=1")
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	errs, err := p.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var readers sync.WaitGroup
	readers.Go(func() { p.read(bufio.NewScanner(out), &p.stdout) })
	readers.Go(func() { p.read(bufio.NewScanner(errs), &p.stderr) })
	go func() {
		readers.Wait()
		p.err = p.cmd.Wait()
		close(p.done)
	}()
	t.Cleanup(p.kill)
	return p
}

func (p *process) read(s *bufio.Scanner, lines *[]string) {
	s.Buffer(nil, 16<<20)
	for s.Scan() {
		if addr, ok := strings.CutPrefix(s.Text(), "weir: listening on "); ok {
			addr, _, _ = strings.Cut(addr, ",")
			p.addr <- addr
		}
		p.mu.Lock()
		*lines = append(*lines, s.Text())
		p.mu.Unlock()
	}
}

// kill ends the process with SIGKILL, if it still runs, and waits for its end.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.done
}

// listening waits until the process says where it listens.
func (p *process) listening() string {
	p.t.Helper()
	select {
	case addr := <-p.addr:
		return addr
	case <-p.done:
		p.t.Fatalf("weir %s ended: %v\n%s", p.args, p.err, strings.Join(p.stderr, "\n"))
		return ""
	}
}

// succeeds waits for the end, which must be without error.
func (p *process) succeeds() *process {
	p.t.Helper()
	<-p.done
	if p.err != nil {
		p.t.Fatalf("weir %s: %v\n%s", p.args, p.err, strings.Join(p.stderr, "\n"))
	}
	return p
}

// fails waits for the end, which must be an error that names all of what, and no crash.
func (p *process) fails(what ...string) {
	p.t.Helper()
	<-p.done
	var exit *exec.ExitError
	text := strings.Join(p.stderr, "\n")
	switch {
	case p.err == nil:
		p.t.Fatalf("weir %s: no error", p.args)
	case !errors.As(p.err, &exit) || exit.ExitCode() != 1 || strings.Contains(text, "goroutine "):
		p.t.Fatalf("weir %s crashed or hung: %v\n%s", p.args, p.err, text)
	}
	for _, w := range what {
		if !strings.Contains(text, w) {
			p.t.Errorf("weir %s: the error does not name %q: %s", p.args, w, text)
		}
	}
}

// report is the last line that was printed, with its exact field names.
func (p *process) report() (r report) {
	p.t.Helper()
	if len(p.stdout) == 0 {
		p.t.Fatalf("weir %s printed nothing", p.args)
	}
	d := json.NewDecoder(strings.NewReader(p.stdout[len(p.stdout)-1]))
	d.DisallowUnknownFields()
	if err := d.Decode(&r); err != nil {
		p.t.Fatalf("weir %s: %v in %q", p.args, err, p.stdout[len(p.stdout)-1])
	}
	return r
}

// file makes a file with content.
func file(t testing.TB, content string) string {
	t.Helper()
	f, err := os.CreateTemp(t.TempDir(), "in-")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(content); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return f.Name()
}

func content(t testing.TB, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// outFile is a path that does not exist yet.
func outFile(t testing.TB) string { return filepath.Join(t.TempDir(), "out") }

// same fails unless got is want, and says where they differ.
func same(t testing.TB, got, want string) {
	t.Helper()
	if got == want {
		return
	}
	i := 0
	for i < min(len(got), len(want)) && got[i] == want[i] {
		i++
	}
	t.Errorf("%d bytes arrived of %d; they differ from byte %d on", len(got), len(want), i)
}

func lines(n int, f func(i int) string) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintln(&b, f(i))
	}
	return b.String()
}

// size is the size of a file.
func size(path string) (int64, error) {
	info, err := os.Stat(path)
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}
