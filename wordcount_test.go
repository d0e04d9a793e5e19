package weir

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirflow/weir/internal/modelrun"
	"github.com/weirflow/weir/segment"
)

// The job: sources that can be read again from any place send words to counters, by key. A checkpoint is the sources' places, the
// counters' counts and, if it is unaligned, what was in flight between them.
const (
	wordSources  = 2
	wordCounters = 2
	wordsEach    = 3000
	wordsBetween = 200 // barriers
)

type wordJob struct {
	t       *testing.T
	mode    Mode
	barrier func(id int64) Barrier
	// unaligned: the counters begin to read when barriers wait, so that there is something to overtake.
	unaligned bool
	// skewed: the second source begins when the first one has sent everything.
	skewed bool
	// overlapping: checkpoints begin while older ones go on, and may abort them.
	overlapping bool
	words       [wordSources][]string
}

// wordPoint is a complete checkpoint.
type wordPoint struct {
	id       int64
	counts   [wordCounters]map[string]int
	inFlight int
}

func newWordJob(t *testing.T) *wordJob {
	j := &wordJob{t: t}
	r := rand.New(rand.NewPCG(3, 4))
	for s := range j.words {
		for range wordsEach {
			j.words[s] = append(j.words[s], fmt.Sprintf("word%d", r.IntN(1+r.IntN(50))))
		}
	}
	return j
}

// truth is how often each word stands in the first n of each source.
func (j *wordJob) truth(n int) map[string]int {
	counts := map[string]int{}
	for s := range j.words {
		for _, w := range j.words[s][:n] {
			counts[w]++
		}
	}
	return counts
}

func sum(counts [wordCounters]map[string]int) (all map[string]int, total int) {
	all = map[string]int{}
	for _, c := range counts {
		for w, n := range c {
			all[w] += n
			total += n
		}
	}
	return all, total
}

// flights is what was in flight at checkpoints: by checkpoint and channel, or subpartition.
type flights struct {
	mu     sync.Mutex
	bytes  map[[2]int64][]byte
	broken map[int64]bool
}

func newFlights() *flights { return &flights{bytes: map[[2]int64][]byte{}, broken: map[int64]bool{}} }

func (f *flights) add(id int64, n int, bufs ...segment.Buffer) {
	f.mu.Lock()
	defer f.mu.Unlock()
	at := [2]int64{id, int64(n)}
	for _, b := range bufs {
		if !b.IsZero() {
			f.bytes[at] = append(f.bytes[at], b.Bytes()...)
		}
	}
}
func (f *flights) of(id int64, n int) []byte {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.bytes[[2]int64{id, int64(n)}]
}
func (f *flights) InputData(id int64, ch int, _ int32, b segment.Buffer) { f.add(id, ch, b) }
func (f *flights) OutputData(id int64, sub int, bufs []segment.Buffer)   { f.add(id, sub, bufs...) }
func (f *flights) OutputPromise(int64, int)                              {}
func (f *flights) OutputKept(id int64, sub int, bufs []segment.Buffer)   { f.add(id, sub, bufs...) }
func (f *flights) OutputBroken(id int64, _ int, _ error) {
	f.mu.Lock()
	f.broken[id] = true
	f.mu.Unlock()
}
func (f *flights) isBroken(id int64) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.broken[id]
}

// wordRun is one attempt, from a checkpoint until it is killed or ends.
type wordRun struct {
	*wordJob
	from   wordPoint
	stopAt int64 // kill it some records after this checkpoint, which is the last one that is begun; 0: let it end
	ctx    context.Context
	kill   context.CancelFunc
	begun  sync.WaitGroup // first barriers
	sent   chan struct{}  // the first source has sent everything

	ins, outs []*flights

	mu        sync.Mutex
	snapshots map[int64]*wordPoint
	complete  map[int64]int
	completed map[int64]chan struct{}
	latest    wordPoint
	after     int // records counted since the checkpoint at which it is to be killed
	counts    [wordCounters]map[string]int
}

// run returns the latest checkpoint, and the counts when it ended or was killed.
func (j *wordJob) run(from wordPoint, stopAt int64) (latest wordPoint, counts [wordCounters]map[string]int) {
	j.t.Helper()
	r := &wordRun{wordJob: j, from: from, stopAt: stopAt, latest: from, sent: make(chan struct{}),
		snapshots: map[int64]*wordPoint{}, complete: map[int64]int{}, completed: map[int64]chan struct{}{}}
	for id := range int64(wordsEach/wordsBetween + 1) {
		r.completed[id] = make(chan struct{})
		if id <= from.id {
			close(r.completed[id])
		}
	}
	r.ctx, r.kill = context.WithCancel(limited(j.t))
	defer r.kill()
	small := Config{Listen: "127.0.0.1:0", SegmentSize: 4096, Memory: 4 << 20}
	var sources []Source
	var outs []*Output
	var nodes []*Node
	for range wordSources {
		n := open(j.t, small)
		f := newFlights()
		cfg := OutputConfig{Name: "words", Subpartitions: wordCounters}
		if j.unaligned {
			cfg.State = f
		}
		o := newOutput(j.t, n, cfg)
		nodes, outs, r.outs = append(nodes, n), append(outs, o), append(r.outs, f)
		sources = append(sources, Source{Addr: n.Addr().String(), Name: "words"})
	}
	var done sync.WaitGroup
	r.begun.Add(wordSources)
	for p := range wordCounters {
		n := open(j.t, Config{SegmentSize: 4096, Memory: 4 << 20})
		f := newFlights()
		cfg := InputConfig{Mode: j.mode, Exclusive: 2, Floating: 2}
		if j.unaligned {
			cfg.Unaligned, cfg.State = UnalignedOn, f
		}
		for _, s := range sources {
			s.Subpartition = p
			cfg.Sources = append(cfg.Sources, s)
		}
		in := newInput(j.t, n, cfg)
		nodes, r.ins = append(nodes, n), append(r.ins, f)
		done.Add(1)
		go func() { defer done.Done(); r.count(p, in) }()
	}
	for s, o := range outs {
		done.Add(1)
		go func() { defer done.Done(); r.send(s, o) }()
	}
	done.Wait()
	for _, n := range nodes {
		if err := n.Close(); err != nil {
			j.t.Errorf("after the kill: %v", err)
		}
	}
	return r.latest, r.counts
}

func (r *wordRun) fail(err error) {
	if err != nil && !errors.Is(err, context.Canceled) {
		r.t.Error(err)
		r.kill()
	}
}

func (r *wordRun) send(s int, o *Output) {
	first := sync.OnceFunc(r.begun.Done)
	defer first()
	if r.skewed && s > 0 && !r.wait(r.sent) {
		return
	}
	begin := int(r.from.id) * wordsBetween
	for i, w := range r.words[s][begin:] {
		if err := o.Write(r.ctx, []byte(w), fmt.Appendf(nil, "%-60s", w)); err != nil {
			r.fail(err)
			return
		}
		if n := begin + i + 1; n%wordsBetween == 0 && (r.stopAt == 0 || r.overlapping || n/wordsBetween <= int(r.stopAt)) {
			if r.unaligned && !r.overlapping && !r.wait(r.completed[int64(n/wordsBetween)-1]) { // one at a time, as Flink has it
				return
			}
			if err := errors.Join(o.Barrier(r.barrier(int64(n/wordsBetween))), o.Flush()); err != nil {
				r.fail(err)
				return
			}
			first()
		}
	}
	if s == 0 {
		close(r.sent)
	}
	first() // there may have been none
	r.fail(o.Finish(r.ctx))
}

// wait reports whether c was closed, and not the run killed.
func (r *wordRun) wait(c chan struct{}) bool {
	select {
	case <-c:
		return true
	case <-r.ctx.Done():
		return false
	}
}

func (r *wordRun) count(p int, in *Input) {
	counts := maps.Clone(r.from.counts[p])
	if counts == nil {
		counts = map[string]int{}
	}
	defer func() {
		r.mu.Lock()
		r.counts[p] = counts
		r.mu.Unlock()
	}()
	if r.unaligned {
		r.begun.Wait()
	}
	for {
		e, err := in.Next(r.ctx)
		if err == io.EOF {
			r.fail(in.Close())
			return
		}
		if err != nil {
			r.fail(err)
			return
		}
		switch e.Kind {
		case Record:
			counts[strings.TrimRight(string(e.Value), " ")]++
			r.counted()
		case Checkpoint:
			r.snapshot(p, e.Checkpoint.Barrier.ID, counts)
			e.Checkpoint.Ack()
			if !r.unaligned {
				r.done(e.Checkpoint.Barrier.ID)
			}
		case CheckpointComplete:
			r.done(e.Checkpoint.Barrier.ID)
		case CheckpointAborted:
			if !r.overlapping {
				r.fail(e.Checkpoint.Cause)
			}
		}
	}
}

func (r *wordRun) counted() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stopAt > 0 && (r.latest.id >= r.stopAt || r.overlapping) {
		if r.after++; r.after == 30 && !r.overlapping || r.after == 1500 {
			r.kill()
		}
	}
}

func (r *wordRun) snapshot(p int, id int64, counts map[string]int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.snapshots[id] == nil {
		r.snapshots[id] = &wordPoint{id: id}
	}
	r.snapshots[id].counts[p] = maps.Clone(counts)
}

// done: the checkpoint is complete at one more counter. What was in flight is counted into the snapshot, as a restored job would
// before it reads on.
func (r *wordRun) done(id int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.complete[id]++; r.complete[id] < wordCounters || id <= r.latest.id {
		return
	}
	defer close(r.completed[id])
	for _, o := range r.outs {
		if o.isBroken(id) { // a newer barrier took the place of one that could have turned
			return
		}
	}
	point := *r.snapshots[id]
	for p := range wordCounters {
		for s := range wordSources {
			stream := append(append([]byte(nil), r.ins[p].of(id, s)...), r.outs[s].of(id, p)...)
			point.inFlight += len(stream)
			for len(stream) > 0 {
				n := 4 + int(binary.BigEndian.Uint32(stream))
				if n > len(stream) {
					r.t.Errorf("checkpoint %d: half a record is in flight from source %d to counter %d", id, s, p)
					r.kill()
					return
				}
				point.counts[p][strings.TrimRight(string(stream[9:n]), " ")]++ // behind two lengths and a tag
				stream = stream[n:]
			}
		}
	}
	r.latest = point
	if r.mode == ExactlyOnce {
		if all, _ := sum(point.counts); !maps.Equal(all, r.truth(int(id)*wordsBetween)) {
			r.t.Errorf("checkpoint %d is not what was sent before it", id)
		}
	}
}

// A count that is killed three times and restored from its last checkpoint comes to exactly the right numbers, or, at least once, to no
// less.
func TestWordCountSurvivesKills(t *testing.T) {
	for name, set := range map[string]func(*wordJob){
		"aligned": func(j *wordJob) {
			j.barrier = func(id int64) Barrier { return AlignedBarrier(id, time.Now()) }
		},
		"unaligned": func(j *wordJob) {
			j.unaligned = true
			j.barrier = func(id int64) Barrier { return UnalignedBarrier(id, time.Now()) }
		},
		"timed": func(j *wordJob) {
			j.unaligned = true
			j.barrier = func(id int64) Barrier { return TimedBarrier(id, time.Now(), time.Millisecond) }
		},
		"overlapping": func(j *wordJob) {
			j.unaligned, j.overlapping = true, true
			j.barrier = func(id int64) Barrier { return TimedBarrier(id, time.Now(), time.Millisecond) }
		},
		"at least once": func(j *wordJob) {
			j.mode, j.skewed = AtLeastOnce, true
			j.barrier = func(id int64) Barrier { return AtLeastOnceBarrier(id, time.Now()) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			j := newWordJob(t)
			set(j)
			inFlight, twice := 0, 0
			modelrun.Rounds(t, func(int) bool {
				var point wordPoint
				exposed := true
				for _, stopAt := range []int64{1, 2, 8} {
					latest, atKill := j.run(point, stopAt)
					if t.Failed() {
						return false
					}
					// A kill proves something if there is a checkpoint and the counters have gone on since.
					_, saved := sum(latest.counts)
					_, counted := sum(atKill)
					if latest.id != stopAt && !j.overlapping {
						t.Fatalf("killed after checkpoint %d, want %d", latest.id, stopAt)
					}
					exposed = exposed && (j.unaligned || counted > saved)
					point = latest
					inFlight += latest.inFlight
				}
				_, counts := j.run(point, 0)
				all, total := sum(counts)
				truth := j.truth(wordsEach)
				if j.mode == ExactlyOnce {
					if !maps.Equal(all, truth) {
						t.Errorf("counted %v\nwant %v", all, truth)
					}
					// Of checkpoints that overlap, few are complete.
					return exposed && (!j.unaligned || j.overlapping || inFlight > 0)
				}
				for w, n := range truth {
					if all[w] < n {
						t.Errorf("%s: counted %d times, want at least %d", w, all[w], n)
					}
				}
				twice += total - wordSources*wordsEach
				return exposed && twice > 0
			})
		})
	}
}
