package pipeline_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirflow/weir"
	"github.com/weirflow/weir/checkpoint"
	"github.com/weirflow/weir/internal/leaktest"
	"github.com/weirflow/weir/internal/loopback"
	"github.com/weirflow/weir/internal/modelrun"
	"github.com/weirflow/weir/pipeline"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// limit is how long a test may take: it is no measure of anything. A busy disk may take seconds to sync a file.
const limit = 5 * time.Minute

// The pipeline of these tests: sources read files of lines "KEY NUMBER", middles count the lines of each key, sinks write "KEY NUMBER
// COUNT" to transactional files. Every process can be crashed: its attempt ends without a word, and it starts again.
type rig struct {
	t           *testing.T
	dir         string
	coordinator string
	alignment   checkpoint.Alignment
	lines       int
	addrs       map[string]string // where sources and middles listen
	completed   atomic.Int64
	written     atomic.Int64
	attempts    atomic.Int64
	crashed     atomic.Bool  // all crashes have happened
	slowFrom    int64        // byte of an input
	short       int          // lines of source 0, if it is to end long before source 1
	ended       atomic.Bool  // source 0 has written all
	afterEnd    atomic.Int64 // checkpoints that were completed at source 0 since
}

const (
	sources = 2
	middles = 3
	sinks   = 2
	keys    = 17
)

func name(kind string, i int) string { return fmt.Sprintf("%s-%d", kind, i) }

func newRig(t *testing.T, lines, short int, alignment checkpoint.Alignment) *rig {
	r := &rig{t: t, dir: t.TempDir(), alignment: alignment, lines: lines, short: short, addrs: map[string]string{}}
	for i := range sources {
		var b bytes.Buffer
		for n := range r.linesOf(i) {
			fmt.Fprintf(&b, "key%d-%d %d\n", i, n%keys, n)
		}
		if err := os.WriteFile(r.input(i), b.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		r.slowFrom = int64(b.Len()) * 3 / 4
		r.addrs[name("source", i)] = freeAddr(t)
	}
	for i := range middles {
		r.addrs[name("middle", i)] = freeAddr(t)
	}
	return r
}

// freeAddr is an address that nobody listens at. Each attempt of a process listens there again.
func freeAddr(t *testing.T) string {
	addr, free, err := loopback.FreeAddr()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(free)
	return addr
}

func (r *rig) linesOf(i int) int {
	if i == 0 && r.short > 0 {
		return r.short
	}
	return r.lines
}

func (r *rig) total() (n int) {
	for i := range sources {
		n += r.linesOf(i)
	}
	return n
}

func (r *rig) input(i int) string { return filepath.Join(r.dir, name("input", i)) }
func (r *rig) output() string     { return filepath.Join(r.dir, "out") }

func (r *rig) members() (names []string) {
	for i := range sources {
		names = append(names, name("source", i))
	}
	for i := range middles {
		names = append(names, name("middle", i))
	}
	for i := range sinks {
		names = append(names, name("sink", i))
	}
	return names
}

// coordinate runs a coordinator until the pipeline has ended.
func (r *rig) coordinate(ctx context.Context) func() {
	store, err := checkpoint.OpenDir(filepath.Join(r.dir, "checkpoints"), checkpoint.DirOptions{})
	if err != nil {
		r.t.Fatal(err)
	}
	c, err := checkpoint.NewCoordinator(checkpoint.CoordinatorConfig{Members: r.members(), Store: store, Listen: "127.0.0.1:0",
		Interval: 15 * time.Millisecond, Alignment: r.alignment, AlignmentTimeout: 2 * time.Millisecond})
	if err != nil {
		r.t.Fatal(err)
	}
	r.coordinator = c.Addr().String()
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := c.Run(ctx); err != nil {
			r.t.Errorf("coordinator: %v", err)
		}
	})
	return wg.Wait
}

// errCrash is what a process ends with that is crashed.
var errCrash = errors.New("crash")

// process runs a member until the pipeline has ended. crash ends its attempts without a word.
func (r *rig) process(ctx context.Context, member string, sink checkpoint.TwoPhase, crash <-chan struct{}, stage func(context.Context, *pipeline.Attempt) error) {
	for {
		ctx, kill := context.WithCancelCause(ctx)
		done := make(chan error, 1)
		go func() {
			done <- pipeline.Run(ctx, pipeline.Config{
				Member: checkpoint.MemberConfig{Name: member, Coordinator: r.coordinator}, Sink: sink,
				Completed: func(int, int64) {
					r.completed.Add(1)
					if member == name("source", 0) && r.ended.Load() {
						r.afterEnd.Add(1)
					}
				},
			}, stage)
		}()
		select {
		case <-crash:
			kill(errCrash)
			if err := <-done; err == nil {
				return
			}
		case err := <-done:
			kill(nil)
			if err != nil {
				r.t.Errorf("%s: %v", member, err)
			}
			return
		}
	}
}

func (r *rig) source(i int) func(context.Context, *pipeline.Attempt) error {
	return func(ctx context.Context, a *pipeline.Attempt) (err error) {
		r.attempts.Add(1)
		// written is where the first line begins that is not written: within Write a barrier may go out before the record.
		written := int64(0)
		if s := a.State(); s != nil {
			written = int64(binary.BigEndian.Uint64(s))
		}
		file, err := os.Open(r.input(i))
		if err != nil {
			return pipeline.Permanent(err)
		}
		defer file.Close()
		if _, err := file.Seek(written, io.SeekStart); err != nil {
			return pipeline.Permanent(err)
		}
		lines := bufio.NewReader(file)
		node, err := weir.Open(weir.Config{Listen: r.addrs[name("source", i)], SegmentSize: 512, Memory: 1 << 20})
		if err != nil {
			return err
		}
		defer node.Close()
		t, err := a.NewTask(node, weir.TaskConfig{}, func() ([]byte, error) {
			return binary.BigEndian.AppendUint64(nil, uint64(written)), nil
		})
		if err != nil {
			return err
		}
		out, err := node.NewOutput(weir.OutputConfig{Name: "lines", Subpartitions: middles, Partition: weir.ByKeyGroup, Buffers: 8, Task: t})
		if err != nil {
			return err
		}
		a.Serve()
		for n := 0; ; n++ {
			line, err := lines.ReadSlice('\n')
			if err == io.EOF {
				r.ended.Store(i == 0 || r.ended.Load())
				return a.Finish(ctx)
			}
			if err != nil {
				return err
			}
			key, _, _ := bytes.Cut(line, []byte(" "))
			if err := out.Write(ctx, key, line[:len(line)-1]); err != nil {
				return err
			}
			written += int64(len(line))
			// So that there are several checkpoints; and the last quarter comes line by line until all crashes have happened.
			if n%64 == 0 || written > r.slowFrom && !r.crashed.Load() {
				if err := out.Flush(); err != nil {
					return err
				}
				time.Sleep(time.Millisecond)
			}
		}
	}
}

func (r *rig) input1(node *weir.Node, t *weir.Task, from string, n int, name1 string, sub int) (*weir.Input, error) {
	cfg := weir.InputConfig{Task: t, Unaligned: weir.UnalignedOn, Wait: limit, Exclusive: 2, Floating: 2}
	for i := range n {
		cfg.Sources = append(cfg.Sources, weir.Source{Addr: r.addrs[name(from, i)], Name: name1, Subpartition: sub, Last: sub})
	}
	return node.NewInput(cfg)
}

func (r *rig) middle(i int) func(context.Context, *pipeline.Attempt) error {
	return func(ctx context.Context, a *pipeline.Attempt) error {
		r.attempts.Add(1)
		counts := map[string]int{}
		if s := a.State(); s != nil {
			if err := json.Unmarshal(s, &counts); err != nil {
				return pipeline.Permanent(err)
			}
		}
		node, err := weir.Open(weir.Config{Listen: r.addrs[name("middle", i)], SegmentSize: 512, Memory: 1 << 20})
		if err != nil {
			return err
		}
		defer node.Close()
		t, err := a.NewTask(node, weir.TaskConfig{}, func() ([]byte, error) { return json.Marshal(counts) })
		if err != nil {
			return err
		}
		out, err := node.NewOutput(weir.OutputConfig{Name: "counted", Subpartitions: sinks, Partition: weir.ByKeyGroup, Buffers: 8, Task: t})
		if err != nil {
			return err
		}
		in, err := r.input1(node, t, "source", sources, "lines", i)
		if err != nil {
			return err
		}
		a.Serve()
		for e, err := range a.All(ctx, in) {
			if err != nil {
				return err
			}
			if e.Kind != weir.Record {
				continue
			}
			key, _, _ := bytes.Cut(e.Value, []byte(" "))
			counts[string(key)]++
			if err := out.Write(ctx, key, fmt.Appendf(nil, "%s %d", e.Value, counts[string(key)])); err != nil {
				return err
			}
		}
		return a.Finish(ctx)
	}
}

func (r *rig) sink(i int, file *checkpoint.FileSink) func(context.Context, *pipeline.Attempt) error {
	return func(ctx context.Context, a *pipeline.Attempt) error {
		r.attempts.Add(1)
		node, err := weir.Open(weir.Config{SegmentSize: 512, Memory: 1 << 20})
		if err != nil {
			return err
		}
		defer node.Close()
		t, err := a.NewTask(node, weir.TaskConfig{}, nil)
		if err != nil {
			return err
		}
		in, err := r.input1(node, t, "middle", middles, "counted", i)
		if err != nil {
			return err
		}
		a.Serve()
		for e, err := range a.All(ctx, in) {
			if err != nil {
				return err
			}
			if e.Kind != weir.Record {
				continue
			}
			if _, err := fmt.Fprintf(file, "%s\n", e.Value); err != nil {
				return err
			}
			r.written.Add(1)
		}
		return a.Finish(ctx)
	}
}

// check compares what was committed with what must be: each line once, in order for each key, with the right count.
func (r *rig) check() {
	next := map[string]int{}
	total := 0
	for i := range sinks {
		rc, err := checkpoint.ReadCommitted(r.output(), name("sink", i))
		if err != nil {
			r.t.Fatal(err)
		}
		all, err := io.ReadAll(rc)
		if err != nil {
			r.t.Fatal(err)
		}
		_ = rc.Close()
		for line := range strings.Lines(string(all)) {
			var key string
			var n, count int
			if _, err := fmt.Sscanf(line, "%s %d %d", &key, &n, &count); err != nil {
				r.t.Fatalf("line %q: %v", line, err)
			}
			var source, residue int
			if _, err := fmt.Sscanf(key, "key%d-%d", &source, &residue); err != nil {
				r.t.Fatal(err)
			}
			if want := residue + keys*next[key]; n != want || count != next[key]+1 {
				r.t.Fatalf("key %s: line %d with count %d, want line %d with count %d", key, n, count, want, next[key]+1)
			}
			next[key]++
			total++
		}
	}
	if total != r.total() {
		r.t.Fatalf("%d lines, want %d", total, r.total())
	}
}

// run runs the pipeline, with crashes at random members, one each time some checkpoints were completed. It tells whether all of them
// came, and something was written again because of them.
func (r *rig) run(crashes int, seed uint64) (exposed bool) {
	ctx, cancel := context.WithTimeout(r.t.Context(), limit)
	defer cancel()
	end := r.coordinate(ctx)
	rnd := rand.New(rand.NewPCG(seed, 0))
	var processes sync.WaitGroup
	var crash []chan struct{}
	start := func(member string, sink checkpoint.TwoPhase, stage func(context.Context, *pipeline.Attempt) error) {
		c := make(chan struct{})
		crash = append(crash, c)
		processes.Go(func() { r.process(ctx, member, sink, c, stage) })
	}
	for i := range sources {
		start(name("source", i), nil, r.source(i))
	}
	for i := range middles {
		start(name("middle", i), nil, r.middle(i))
	}
	for i := range sinks {
		file, err := checkpoint.OpenFileSink(checkpoint.FileSinkConfig{Dir: r.output(), Name: name("sink", i)})
		if err != nil {
			r.t.Fatal(err)
		}
		start(name("sink", i), file, r.sink(i, file))
	}
	over := make(chan struct{})
	go func() { processes.Wait(); close(over) }()
	done := 0
	for ; done < crashes; done++ {
		at := r.completed.Load() + int64(rnd.IntN(2*len(crash)))
		for r.completed.Load() < at {
			select {
			case <-over:
			case <-time.After(time.Millisecond):
				continue
			}
			break
		}
		select {
		case crash[rnd.IntN(len(crash))] <- struct{}{}:
			continue
		case <-over:
		}
		break
	}
	r.crashed.Store(crashes > 0)
	<-over
	end()
	r.check()
	r.t.Logf("seed %d: %d crashes, %d attempts of members, %d checkpoints at members, %d lines written for %d committed",
		seed, done, r.attempts.Load(), r.completed.Load(), r.written.Load(), r.total())
	return done == crashes && r.completed.Load() > 0 && (crashes == 0 || r.written.Load() > int64(r.total()))
}

func TestPipelineExactlyOnce(t *testing.T) {
	for mode, alignment := range map[string]checkpoint.Alignment{"aligned": checkpoint.Aligned, "unaligned": checkpoint.Unaligned, "timed": checkpoint.Timed} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			modelrun.Rounds(t, func(i int) bool { return newRig(t, 3000, 0, alignment).run(2, uint64(i+1)) })
		})
	}
}

// TestSourceEndsEarly: a task that has finished long before the others answers the checkpoints that follow, so that they complete, and
// nobody is restarted because of it.
func TestSourceEndsEarly(t *testing.T) {
	for mode, alignment := range map[string]checkpoint.Alignment{"aligned": checkpoint.Aligned, "unaligned": checkpoint.Unaligned, "timed": checkpoint.Timed} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			modelrun.Rounds(t, func(int) bool {
				r := newRig(t, 1200, 50, alignment)
				r.slowFrom = 0
				exposed := r.run(0, 1)
				if n := r.attempts.Load(); n > 2*(sources+middles+sinks) { // at the start a connection may come too early
					t.Errorf("%d attempts of members, and nobody was killed", n)
				}
				return exposed && r.afterEnd.Load() >= 5
			})
		})
	}
}
