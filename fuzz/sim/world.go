package sim

import (
	"container/heap"
	"fmt"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"runtime/debug"
	"time"
)

// Options are what a run may be told besides its seed.
type Options struct {
	// Trace gets a line for each thing that happens; nil: nothing does.
	Trace io.Writer
}

// Report is what came of a run.
type Report struct {
	Seed uint64
	// Err is the first violation, nil if there was none. It is a *Violation.
	Err error
	// Exposure is how much of what the run is to prove was there at all.
	Exposure Exposure
	// Digest is a hash over everything that happened, in order, with its time: two runs of a seed have the same.
	Digest uint64
	// Steps is the number of things that happened, Virtual the time that it took on the clock of the run.
	Steps   int
	Virtual time.Duration
	// Plan is the run's configuration.
	Plan string
}

// Violation is a broken invariant.
type Violation struct {
	Seed uint64
	At   time.Duration
	// What was broken, with the names of the trace.
	What string
	// Stack is where the code panicked; nil for a finding of the simulator's own.
	Stack []byte
}

func (v *Violation) Error() string {
	return fmt.Sprintf("seed %d at %v: %s", v.Seed, v.At, v.What)
}

// event is something that will happen.
type occurrence struct {
	at int64
	n  uint64 // order among those at the same time
	do func()
}

type calendar []occurrence

func (c calendar) Len() int { return len(c) }
func (c calendar) Less(i, j int) bool {
	return c[i].at < c[j].at || c[i].at == c[j].at && c[i].n < c[j].n
}
func (c calendar) Swap(i, j int) { c[i], c[j] = c[j], c[i] }
func (c *calendar) Push(x any)   { *c = append(*c, x.(occurrence)) }
func (c *calendar) Pop() any {
	last := len(*c) - 1
	x := (*c)[last]
	(*c)[last] = occurrence{}
	*c = (*c)[:last]
	return x
}

// world is one run: its clock, its dice and everything in it. One goroutine drives it.
type world struct {
	seed  uint64
	rng   *rand.Rand
	plan  plan
	now   int64 // µs
	next  uint64
	todo  calendar
	steps int
	trace io.Writer
	hash  interface {
		io.Writer
		Sum64() uint64
	}
	scratch [8]byte

	sent  int // pieces that were written, on all connections
	nodes []*node
	job   *job
	exp   Exposure
	moved int64 // when something moved last
}

const (
	// maxSteps bounds a run; none comes near.
	maxSteps = 4_000_000
	// stuckAfter is how long nothing may move, in µs: longer than the longest stall.
	stuckAfter = 200_000_000
)

// Run runs one seed.
func Run(seed uint64, opt Options) (rep Report) {
	w := &world{seed: seed, rng: rand.New(rand.NewPCG(seed, 0x5eed)), trace: opt.Trace, hash: fnv.New64a()}
	w.plan = newPlan(seed, w.rng)
	if w.trace != nil {
		fmt.Fprintf(w.trace, "seed %d: %v\n", seed, &w.plan)
	}
	defer func() {
		if p := recover(); p != nil {
			v, ok := p.(*Violation)
			if !ok {
				v = &Violation{What: fmt.Sprint("panic: ", p), Stack: debug.Stack()}
			}
			v.Seed, v.At = seed, time.Duration(w.now)*time.Microsecond
			rep.Err = v
			if w.trace != nil {
				fmt.Fprintf(w.trace, "VIOLATION %v\n%s", v, v.Stack)
			}
		}
		w.exp.Runs = 1
		rep.Seed, rep.Exposure, rep.Digest, rep.Steps, rep.Plan = seed, w.exp, w.hash.Sum64(), w.steps, w.plan.String()
		rep.Virtual = time.Duration(w.now) * time.Microsecond
	}()
	w.run()
	return rep
}

// run makes the nodes, runs the job until it is done, and looks whether everything is as before.
func (w *world) run() {
	w.makeNodes()
	for attempt := 0; ; attempt++ {
		w.job = newJob(w, attempt, w.job)
		w.job.start()
		w.turnTo(func() bool { return w.job.finished() || w.job.failed != nil })
		if w.job.failed != nil {
			w.turnUntil(w.now + w.rng.Int64N(50_000)) // the others do not know yet
		}
		w.job.close()
		if w.job.failed == nil {
			break
		}
		w.exp.Restarts++
	}
	for _, n := range w.nodes {
		n.close()
	}
}

// turnTo lets things happen until done.
func (w *world) turnTo(done func() bool) {
	w.moved = w.now
	for !done() {
		if w.todo.Len() == 0 {
			w.violate("nothing is left to happen, and the job is not done: %s", w.job.standstill())
		}
		w.step()
		if w.now-w.moved > stuckAfter {
			w.violate("nothing has moved for %v: %s", time.Duration(stuckAfter)*time.Microsecond, w.job.standstill())
		}
		if w.steps > maxSteps {
			w.violate("more than %d steps: %s", maxSteps, w.job.standstill())
		}
	}
}

// turnUntil lets happen what happens before a time.
func (w *world) turnUntil(end int64) {
	for w.todo.Len() > 0 && w.todo[0].at <= end {
		w.step()
	}
	w.now = max(w.now, end)
}

// step lets the next thing happen, and looks at the invariants.
func (w *world) step() {
	o := heap.Pop(&w.todo).(occurrence)
	w.now = max(w.now, o.at)
	w.steps++
	o.do()
	if w.job != nil {
		w.job.check()
	}
}

// after lets f happen in d µs.
func (w *world) after(d int64, f func()) {
	w.next++
	heap.Push(&w.todo, occurrence{at: w.now + d, n: w.next, do: f})
}

// soon is a short time: what somebody needs to notice something.
func (w *world) soon() int64 { return 1 + w.rng.Int64N(40) }

// progress notes that something moved.
func (w *world) progress() { w.moved = w.now }

// violate ends the run.
func (w *world) violate(format string, args ...any) {
	panic(&Violation{What: fmt.Sprintf(format, args...)})
}

// note puts one thing into the trace and the digest.
func (w *world) note(who, what string, args ...int) {
	w.number(int(w.now))
	_, _ = io.WriteString(w.hash, who)
	_, _ = io.WriteString(w.hash, what)
	for _, a := range args {
		w.number(a)
	}
	if w.trace == nil {
		return
	}
	fmt.Fprintf(w.trace, "%12.3fms %-10s %s", float64(w.now)/1000, who, what)
	for _, a := range args {
		fmt.Fprint(w.trace, " ", a)
	}
	fmt.Fprintln(w.trace)
}

func (w *world) number(a int) {
	for i := range w.scratch {
		w.scratch[i] = byte(a >> (8 * i))
	}
	_, _ = w.hash.Write(w.scratch[:])
}
