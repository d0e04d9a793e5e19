package weir

import (
	"bytes"
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirflow/weir/internal/modelrun"
)

// The job: sources that can be read again from any place send words to passers, by key, which send them on to counters, by key. All of
// it over sockets. A coordinator of a few lines triggers checkpoints, gathers what the tasks report, and restores all of them
// from the last one that is complete.
const (
	jobWidth = 2    // tasks of each kind
	jobWords = 2500 // of each source
)

type job struct {
	t       *testing.T
	mode    Mode
	barrier func(id int64) Barrier
	// unaligned: counters go on only while a checkpoint is under way, so that all queues are full when one begins.
	unaligned bool
	// shared: the tasks with the same number are on one node, so that each has a local channel and remote ones.
	shared bool
	words  [jobWidth][]string
	rand   *rand.Rand
}

// jobPoint is a complete checkpoint: the snapshots of all tasks, as bytes.
type jobPoint struct {
	id        int64
	snapshots map[string][]byte
	in, out   int64 // in flight
}

func newJob(t *testing.T) *job {
	j := &job{t: t, rand: rand.New(rand.NewPCG(5, 6))}
	for s := range j.words {
		for range jobWords {
			j.words[s] = append(j.words[s], fmt.Sprintf("word%d", j.rand.IntN(1+j.rand.IntN(50))))
		}
	}
	return j
}

func (j *job) truth() map[string]int {
	counts := map[string]int{}
	for s := range j.words {
		for _, w := range j.words[s] {
			counts[w]++
		}
	}
	return counts
}

// attempt is one run of the job, until it is killed or ends.
type attempt struct {
	*job
	number int
	from   jobPoint
	killAt int // kill it when that many checkpoints were completed, and some records have been counted since; 0: let it end
	ctx    context.Context
	kill   context.CancelFunc

	tasks   map[string]*Task
	sources []*Task
	outs    []*Output // of the sources

	sent, counted atomic.Int64
	ended         atomic.Int64 // sources that sent all
	until         atomic.Int64 // sources of an aligned job go on to there

	mu        sync.Mutex
	id        int64 // newest checkpoint
	reports   map[string][]byte
	finished  map[string][]byte
	in, out   int64
	underway  bool
	began     chan struct{} // closed when the checkpoint after the latest complete one begins
	complete  int
	latest    jobPoint
	counts    map[string]int
	passed    int
	killAfter int64 // counted records at which it is killed; 0: not yet
}

func (j *job) run(number int, from jobPoint, killAt int) *attempt {
	j.t.Helper()
	a := &attempt{job: j, number: number, from: from, killAt: killAt, latest: from, id: from.id, tasks: map[string]*Task{},
		began: make(chan struct{}), counts: map[string]int{}, finished: map[string][]byte{}}
	a.ctx, a.kill = context.WithCancel(limited(j.t))
	defer a.kill()
	var nodes []*Node
	node := func(i int) *Node {
		if j.shared && i < len(nodes) {
			return nodes[i]
		}
		n := open(j.t, Config{Listen: "127.0.0.1:0", SegmentSize: 4096, Memory: 4 << 20})
		nodes = append(nodes, n)
		return n
	}
	var tasks sync.WaitGroup
	var sources, passers []Source
	for s := range jobWidth {
		n := node(s)
		r := &sourceTask{a: a, s: s, words: j.words[s]}
		r.task = a.task(n, fmt.Sprintf("source %d", s), r.checkpoint)
		r.out = newOutput(j.t, n, OutputConfig{Name: "words", Subpartitions: jobWidth, Buffers: 24, Task: r.task})
		a.sources, a.outs = append(a.sources, r.task), append(a.outs, r.out)
		sources = append(sources, Source{Addr: n.Addr().String(), Name: "words"})
		tasks.Go(func() { a.fail(r.run()) })
	}
	input := func(n *Node, t *Task, from []Source, p int) *Input {
		cfg := InputConfig{Mode: j.mode, Exclusive: 2, Floating: 2, Task: t}
		if j.unaligned {
			cfg.Unaligned = UnalignedOn
		}
		for _, s := range from {
			if s.Subpartition = p; s.Addr == n.Addr().String() {
				s.Addr = Local
			}
			cfg.Sources = append(cfg.Sources, s)
		}
		return newInput(j.t, n, cfg)
	}
	for p := range jobWidth {
		n := node(p)
		r := &passTask{a: a}
		r.task = a.task(n, fmt.Sprintf("passer %d", p), r.checkpoint)
		r.in = input(n, r.task, sources, p)
		r.out = newOutput(j.t, n, OutputConfig{Name: "passed", Subpartitions: jobWidth, Buffers: 24, Task: r.task})
		passers = append(passers, Source{Addr: n.Addr().String(), Name: "passed"})
		tasks.Go(func() { a.fail(r.run()) })
	}
	for p := range jobWidth {
		n := node(p)
		r := &countTask{a: a, counts: map[string]int{}}
		r.task = a.task(n, fmt.Sprintf("counter %d", p), nil)
		r.in = input(n, r.task, passers, p)
		tasks.Go(func() { a.fail(r.run()) })
	}
	end := make(chan struct{})
	var coordinator sync.WaitGroup
	coordinator.Go(func() { a.coordinate(end) })
	tasks.Wait()
	close(end)
	coordinator.Wait()
	for _, n := range nodes {
		if err := n.Close(); err != nil {
			j.t.Errorf("attempt %d: %v", number, err)
		}
	}
	return a
}

// task makes a task that goes on from its snapshot.
func (a *attempt) task(n *Node, name string, take func(*CheckpointInfo)) *Task {
	a.t.Helper()
	cfg := TaskConfig{Name: name, Attempt: a.number, OnCheckpoint: take, Report: a.report, LastCheckpoint: true}
	if p := a.from.snapshots[name]; p != nil {
		var err error
		if cfg.Restore, err = ReadSnapshot(p); err != nil {
			a.t.Fatal(err)
		}
	}
	t, err := n.NewTask(cfg)
	if err != nil {
		a.t.Fatal(err)
	}
	a.tasks[name] = t
	return t
}

// stuck says what a job that stands still waits for.
func (a *attempt) stuck() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	s := fmt.Sprintf("checkpoint %d, under way: %v, %d sent, %d counted, %d sources at the end;", a.id, a.underway, a.sent.Load(), a.counted.Load(), a.ended.Load())
	for name, t := range a.tasks {
		s += fmt.Sprintf("\n%s: %+v, reported: %v;", name, t.Stats(), a.reports[name] != nil)
		if t.input != nil {
			s += fmt.Sprintf(" %+v", t.input.Stats(InputStats{}))
		}
		for _, o := range t.outputs {
			s += fmt.Sprintf(" %+v", o.Stats(OutputStats{}))
		}
	}
	return s
}

func (a *attempt) fail(err error) {
	if err != nil && !errors.Is(err, context.Canceled) {
		a.t.Errorf("attempt %d: %v\n%s", a.number, err, a.stuck())
		a.kill()
	}
}

// coordinate triggers a checkpoint at random places, and where sources are held back: then the queues are full.
func (a *attempt) coordinate(end chan struct{}) {
	tick := time.NewTicker(200 * time.Microsecond)
	defer tick.Stop()
	next := int64(50 + a.rand.IntN(300))
	a.until.Store(next)
	for {
		select {
		case <-end:
			return
		case <-tick.C:
		}
		a.mu.Lock()
		waiting := a.ended.Load()
		for _, o := range a.outs {
			if o.Stats(OutputStats{}).WaitingFor >= 0 {
				waiting++
			}
		}
		stuck := waiting >= jobWidth
		if a.underway || a.sent.Load() < next && !(stuck && a.unaligned) && a.ended.Load() < jobWidth {
			a.mu.Unlock()
			continue
		}
		a.underway, a.id, a.reports, a.in, a.out = true, a.id+1, map[string][]byte{}, 0, 0
		id := a.id
		a.mu.Unlock()
		next = a.sent.Load() + int64(50+a.rand.IntN(300))
		a.until.Store(next)
		for i, t := range a.sources {
			if i > 0 && !a.unaligned { // let others run ahead of its barrier
				for before, tries := a.counted.Load(), 0; a.counted.Load() < before+20 && tries < 200 && a.ended.Load() == 0; tries++ {
					<-tick.C
				}
			}
			if err := t.Trigger(a.barrier(id)); err != nil && !errors.Is(err, ErrFinished) {
				return // it was closed
			}
		}
		for _, t := range a.tasks {
			if err := t.Trigger(a.barrier(id)); err != nil && !errors.Is(err, ErrFinished) {
				return
			}
		}
		a.mu.Lock()
		close(a.began)
		a.began = make(chan struct{})
		a.mu.Unlock()
	}
}

// report is what tasks call.
func (a *attempt) report(r TaskReport) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if r.Finished {
		p, err := r.Snapshot.AppendTo(nil)
		if err != nil {
			a.t.Error(err)
		}
		a.finished[r.Task] = p
		a.tally()
		return
	}
	if r.Snapshot == nil {
		if a.ctx.Err() == nil {
			a.t.Errorf("attempt %d: %s declined checkpoint %d: %v", a.number, r.Task, r.Checkpoint, r.Err)
		}
		return
	}
	p, err := r.Snapshot.AppendTo(nil)
	if err != nil {
		a.t.Error(err)
	}
	if a.reports[r.Task] != nil || r.Checkpoint != a.id || r.Attempt != a.number {
		a.t.Errorf("%s reports checkpoint %d of attempt %d, and %d of %d is under way", r.Task, r.Checkpoint, r.Attempt, a.id, a.number)
	}
	a.reports[r.Task] = p
	in, out := r.Snapshot.InFlight()
	a.in, a.out = a.in+in, a.out+out
	a.tally()
}

// tally completes the checkpoint if all tasks have reported, or finished before it. a.mu is held.
func (a *attempt) tally() {
	if !a.underway {
		return
	}
	for name := range a.tasks {
		if a.reports[name] == nil {
			a.reports[name] = a.finished[name]
		}
		if a.reports[name] == nil {
			return
		}
	}
	a.latest = jobPoint{id: a.id, snapshots: a.reports, in: a.in, out: a.out}
	a.underway = false
	if a.complete++; a.complete == a.killAt {
		a.killAfter = a.counted.Load() + 30
	}
	for _, t := range a.tasks {
		t.Completed(a.id)
	}
}

// count notes that a word was counted, and kills the job when it is time.
func (a *attempt) count() {
	n := a.counted.Add(1)
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.killAfter > 0 && n >= a.killAfter {
		a.kill()
	}
}

func (a *attempt) encode(v any) []byte {
	var b bytes.Buffer
	if err := gob.NewEncoder(&b).Encode(v); err != nil {
		a.t.Error(err)
	}
	return b.Bytes()
}

func (a *attempt) decode(t *Task, v any) {
	if s := t.Restored(); s != nil {
		if err := gob.NewDecoder(bytes.NewReader(s.State)).Decode(v); err != nil {
			a.t.Errorf("%s: %v", t.Name(), err)
		}
	}
}

type sourceTask struct {
	a     *attempt
	s     int
	words []string
	task  *Task
	out   *Output
	next  int // the first word that was not written
}

func (r *sourceTask) checkpoint(cp *CheckpointInfo) { cp.Ack(r.a.encode(r.next)) }

func (r *sourceTask) run() error {
	r.a.decode(r.task, &r.next)
	for r.next < len(r.words) {
		if err := r.pace(); err != nil {
			return err
		}
		w := r.words[r.next]
		if err := r.out.Write(r.a.ctx, []byte(w), fmt.Appendf(nil, "%-60s", w)); err != nil {
			return err
		}
		r.next++
		r.a.sent.Add(1)
	}
	r.a.ended.Add(1)
	return r.out.Finish(r.a.ctx)
}

// pace holds a source of an aligned job until the next checkpoint, so that there are some.
func (r *sourceTask) pace() error {
	for !r.a.unaligned && r.a.sent.Load() > r.a.until.Load() {
		select {
		case <-r.task.Posted():
			if err := r.task.Poll(); err != nil {
				return err
			}
		case <-r.a.ctx.Done():
			return r.a.ctx.Err()
		case <-time.After(time.Millisecond):
		}
	}
	return nil
}

type passTask struct {
	a      *attempt
	task   *Task
	in     *Input
	out    *Output
	passed int
}

func (r *passTask) checkpoint(cp *CheckpointInfo) { cp.Ack(r.a.encode(r.passed)) }

func (r *passTask) run() error {
	r.a.decode(r.task, &r.passed)
	for e, err := range r.in.All(r.a.ctx) {
		if err != nil {
			return err
		}
		if e.Kind == Record {
			if err := r.out.Write(r.a.ctx, bytes.TrimRight(e.Value, " "), e.Value); err != nil {
				return err
			}
			r.passed++
		}
	}
	r.a.mu.Lock()
	r.a.passed += r.passed
	r.a.mu.Unlock()
	return r.task.Finish(r.a.ctx)
}

type countTask struct {
	a      *attempt
	task   *Task
	in     *Input
	counts map[string]int
}

func (r *countTask) run() error {
	r.a.decode(r.task, &r.counts)
	defer func() {
		r.a.mu.Lock()
		defer r.a.mu.Unlock()
		for w, n := range r.counts {
			r.a.counts[w] += n
		}
	}()
	for {
		if err := r.pace(); err != nil {
			return err
		}
		e, err := r.in.Next(r.a.ctx)
		if err == io.EOF {
			return r.task.Finish(r.a.ctx)
		}
		if err != nil {
			return err
		}
		switch e.Kind {
		case Record:
			r.counts[strings.TrimRight(string(e.Value), " ")]++
			r.a.count()
		case Checkpoint:
			e.Checkpoint.Ack(r.a.encode(maps.Clone(r.counts)))
		}
	}
}

// pace holds an unaligned job's counter until a checkpoint is under way.
func (r *countTask) pace() error {
	a := r.a
	for a.unaligned && a.ended.Load() < jobWidth {
		a.mu.Lock()
		underway, began := a.underway || a.killAfter > 0, a.began
		a.mu.Unlock()
		if underway {
			return nil
		}
		select {
		case <-began:
		case <-a.ctx.Done():
			return a.ctx.Err()
		case <-time.After(time.Millisecond): // the sources may have ended
		}
	}
	return nil
}

// A job that is killed three times, each time restored from its last complete checkpoint, counts exactly what there is, or, at least once,
// no less.
func TestJobRestores(t *testing.T) {
	for name, set := range map[string]func(*job){
		"aligned": func(j *job) { j.barrier = func(id int64) Barrier { return AlignedBarrier(id, time.Now()) } },
		"unaligned": func(j *job) {
			j.unaligned = true
			j.barrier = func(id int64) Barrier { return UnalignedBarrier(id, time.Now()) }
		},
		"timed": func(j *job) {
			j.unaligned = true
			j.barrier = func(id int64) Barrier { return TimedBarrier(id, time.Now(), time.Millisecond) }
		},
		"at least once": func(j *job) {
			j.mode = AtLeastOnce
			j.barrier = func(id int64) Barrier { return AtLeastOnceBarrier(id, time.Now()) }
		},
	} {
		for _, shared := range []bool{false, true} {
			if shared {
				name += ", two nodes"
			}
			t.Run(name, func(t *testing.T) {
				j := newJob(t)
				j.shared = shared
				set(j)
				var in, out, replayed int64
				modelrun.Rounds(t, func(int) bool {
					var point jobPoint
					for i, killAt := range []int{1, 2, 2, 0} {
						a := j.run(i, point, killAt)
						if t.Failed() {
							return false
						}
						if killAt > 0 && a.complete < killAt { // all was counted before a checkpoint began
							t.Logf("attempt %d ended after %d checkpoints", i, a.complete)
							return false
						}
						if point = a.latest; killAt > 0 {
							in, out = in+point.in, out+point.out
						} else {
							j.check(a, &replayed)
						}
					}
					t.Logf("restored in flight: %d bytes at inputs, %d at outputs; counted twice: %d", in, out, replayed)
					switch {
					case j.unaligned:
						return in > 0 && out > 0
					case in+out != 0:
						t.Errorf("%d and %d bytes in flight of aligned checkpoints", in, out)
					case j.mode == AtLeastOnce:
						return replayed > 0
					}
					return true
				})
			})
		}
	}
}

func (j *job) check(a *attempt, twice *int64) {
	truth := j.truth()
	for w, n := range truth {
		switch got := a.counts[w]; {
		case got < n, got > n && j.mode == ExactlyOnce:
			j.t.Errorf("%s: counted %d times, and it was sent %d times", w, got, n)
		case got > n:
			*twice += int64(got - n)
		}
	}
	if len(a.counts) != len(truth) {
		j.t.Errorf("%d words, want %d", len(a.counts), len(truth))
	}
	if total := jobWidth * jobWords; a.passed < total || a.passed > total && j.mode == ExactlyOnce {
		j.t.Errorf("%d words passed, want %d", a.passed, total)
	}
}
