package task_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/weirflow/weir/align"
	"github.com/weirflow/weir/internal/modelrun"
	"github.com/weirflow/weir/serde/event"
	"github.com/weirflow/weir/task"
)

// The models in this file walk the parts of a task at random beside naive twins. make model STEPS=1000000 goes on for longer.

// TestModelOfValve walks valves of many sizes beside one that scans all channels.
func TestModelOfValve(t *testing.T) {
	for _, channels := range []int{1, 2, 3, 7, 40} {
		t.Run(fmt.Sprintf("channels=%d", channels), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(modelrun.Seed(t), uint64(channels)))
			want := modelrun.Steps(t, 20000)
			met := modelrun.Exposure{}
			var v *task.Valve
			var twin *naive
			last := int64(math.MinInt64)
			for step1 := range want {
				if step1%5000 == 0 { // a fresh one, so that its beginning is walked, too
					v, twin, last = task.NewValve(channels), newNaive(channels), math.MinInt64
				}
				op := []string{"W", "W", "W", "I", "A"}[rng.IntN(5)]
				if step1/(20*channels)%3 == 2 && rng.IntN(8) > 0 { // now and then all fall asleep
					op = "I"
				}
				ch := rng.IntN(channels)
				ts := max(twin.lastOut, -3) + rng.Int64N(12) - 3
				if rng.IntN(500) == 0 {
					ts = []int64{math.MinInt64, math.MinInt64 + 1, twin.lastOut}[rng.IntN(3)]
				}
				got, wanted := step(t, v, op, ch, ts), twin.step(op, ch, ts)
				if got != wanted {
					t.Fatalf("step %d, %s %d %d: got %s, want %s", step1, op, ch, ts, got, wanted)
				}
				if v.LastWatermark() < last || v.LastWatermark() != twin.lastOut || v.Idle() != twin.allIdle {
					t.Fatalf("step %d: watermark %d after %d, idle %t; the twin has %d, %t", step1, v.LastWatermark(), last, v.Idle(),
						twin.lastOut, twin.allIdle)
				}
				last = v.LastWatermark()
				if strings.HasPrefix(got, "WM") {
					met["watermarks"]++
					if op == "I" {
						met["let out by idleness"]++
					}
				}
				if strings.HasSuffix(got, "IDLE") {
					met["idle"]++
				}
				if got == "ACTIVE" {
					met["active"]++
				}
				if op == "A" && !twin.aligned[ch] {
					met["active behind the output"]++
				}
			}
			needed := []string{"watermarks", "idle", "active"}
			if channels > 1 {
				needed = append(needed, "let out by idleness", "active behind the output")
			}
			met.Report(t, fmt.Sprintf("valve/%d", channels), want, needed...)
		})
	}
}

// TestModelOfCombiners walks a combiner of each rule beside one that looks at all channels.
func TestModelOfCombiners(t *testing.T) {
	for _, kind := range []event.WatermarkType{event.LongWatermark, event.BoolWatermark} {
		for _, rule := range []task.Combine{task.Least, task.Greatest} {
			for _, wait := range []bool{false, true} {
				d := task.WatermarkDeclaration{Identifier: "w", Type: kind, Combine: rule, WaitForAll: wait}
				t.Run(fmt.Sprintf("type=%d/combine=%d/wait=%t", kind, rule, wait), func(t *testing.T) { walkCombiner(t, d) })
			}
		}
	}
	t.Run("aligned", func(t *testing.T) {
		walkCombiner(t, task.WatermarkDeclaration{Identifier: "w", Type: event.LongWatermark, Aligned: true})
	})
}

func walkCombiner(t *testing.T, d task.WatermarkDeclaration) {
	rng := rand.New(rand.NewPCG(modelrun.Seed(t), 5))
	want := modelrun.Steps(t, 8000)
	met := modelrun.Exposure{}
	var c *task.WatermarkCombiners
	values := map[int]int64{} // what the channels that said something said last
	var last *int64
	n := 0
	for s := range want {
		if s%400 == 0 {
			n = 1 + rng.IntN(9)
			c = task.NewWatermarkCombiners(n)
			if err := c.Declare(d); err != nil {
				t.Fatal(err)
			}
			values, last = map[int]int64{}, nil
		}
		ch, value := rng.IntN(n), rng.Int64N(2)
		if d.Type == event.LongWatermark {
			value = rng.Int64N(9) - 4
		}
		out, err := c.Combine(ch, &event.WatermarkEvent{Identifier: "w", Type: d.Type, Value: value, Aligned: d.Aligned})
		if err != nil {
			t.Fatal(err)
		}
		values[ch] = value
		wanted, emits := value, len(values) == n
		if !d.Aligned {
			wanted, emits = extreme(d, values, n), len(values) == n || !d.WaitForAll
			emits = emits && (last == nil || *last != wanted)
		}
		if emits != (out.N == 1) || emits && out.Events[0].Value != wanted || out.Resume != (d.Aligned && emits) {
			t.Fatalf("step %d: channels %v of %d: got %+v, want %t %d", s, values, n, out, emits, wanted)
		}
		switch {
		case emits && d.Aligned:
			values = map[int]int64{}
			met["resumed"]++
		case emits:
			last = &wanted
			met["emitted"]++
		default:
			met["kept back"]++
		}
	}
	needed := []string{"emitted", "kept back"}
	if d.Aligned {
		needed = []string{"resumed", "kept back"}
	}
	met.Report(t, t.Name(), want, needed...)
}

// extreme is the least or greatest value; a channel that said nothing counts as what never decides.
func extreme(d task.WatermarkDeclaration, values map[int]int64, n int) int64 {
	none := map[bool]int64{true: math.MaxInt64, false: math.MinInt64}[d.Combine == task.Least]
	if d.Type == event.BoolWatermark {
		none = map[bool]int64{true: 1, false: 0}[d.Combine == task.Least]
	}
	all := []int64{}
	if len(values) < n {
		all = append(all, none)
	}
	for _, v := range values {
		all = append(all, v)
	}
	if d.Combine == task.Least {
		return slices.Min(all)
	}
	return slices.Max(all)
}

// naiveSelector follows the prose of the selection rules, with maps.
type naiveSelector struct {
	n             int
	ask           func() map[int]bool // nil: no selecting operator
	asFlink       bool
	selected      map[int]bool
	nothing       map[int]bool // inputs that had nothing
	atEnd, over   map[int]bool // end of data; end of input
	someEnded     bool
	allEnded      bool
	stopped       bool
	lastSelection map[int]bool
}

func (s *naiveSelector) everything() map[int]bool {
	all := map[int]bool{}
	for i := range s.n {
		all[i] = true
	}
	return all
}

func (s *naiveSelector) next() {
	s.selected = s.everything()
	if s.ask == nil || s.allEnded {
		return
	}
	s.selected = s.ask()
	if s.someEnded {
		for i := range s.atEnd {
			s.selected[i] = true
		}
	}
}

func (s *naiveSelector) readable(i int) bool { return s.selected[i] && !s.nothing[i] && !s.over[i] }

func (s *naiveSelector) pick(last int) int {
	for k := range s.n {
		if i := (max(last, -1) + 1 + k) % s.n; s.readable(i) {
			return i
		}
	}
	return -1
}

// update returns what the task is told; "error" for each error.
func (s *naiveSelector) update(st task.Status, i int) string {
	switch st {
	case task.More:
		s.next()
		if s.nothing[i] {
			return "error"
		}
		return "MORE_AVAILABLE"
	case task.Nothing:
		s.nothing[i] = true
	case task.EndOfData, task.Stopped:
		s.stopped = s.stopped || st == task.Stopped
		s.atEnd[i] = true
		ended := 0
		for j := range s.n {
			if s.atEnd[j] || s.over[j] {
				ended++
			}
		}
		if ended == s.n {
			s.allEnded = true
		} else {
			s.someEnded = true
		}
	case task.EndOfInput:
		delete(s.atEnd, i)
		s.over[i] = true
	default:
		return "error"
	}
	s.next()
	selectable, open := false, false
	for j := range s.n {
		selectable = selectable || s.readable(j)
		open = open || s.selected[j] && !s.over[j]
	}
	switch {
	case len(s.over) == s.n:
		return "END_OF_INPUT"
	case s.allEnded && (st == task.EndOfData || st == task.Stopped && !s.asFlink):
		if s.stopped {
			return "STOPPED"
		}
		return "END_OF_DATA"
	case selectable:
		return "MORE_AVAILABLE"
	case !open:
		return "error"
	}
	return "NOTHING_AVAILABLE"
}

// TestModelOfSelector walks selectors, with and without an operator that selects, beside a naive twin.
func TestModelOfSelector(t *testing.T) {
	for _, mode := range []string{"in-turn", "selecting", "as-flink"} {
		t.Run(mode, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(modelrun.Seed(t), 11))
			want, steps := modelrun.Steps(t, 20000), 0
			met := modelrun.Exposure{}
			for steps < want {
				steps += walkSelector(t, rng, mode, met)
			}
			needed := []string{"told MORE_AVAILABLE", "told NOTHING_AVAILABLE", "told END_OF_DATA", "told STOPPED", "told END_OF_INPUT", "told error",
				"nothing to read", "starving"}
			if mode == "selecting" {
				needed = append(needed, "stuck")
			}
			met.Report(t, "selector/"+mode, steps, needed...)
		})
	}
}

func walkSelector(t *testing.T, rng *rand.Rand, mode string, met modelrun.Exposure) (steps int) {
	n := 1 + rng.IntN(5)
	if rng.IntN(40) == 0 {
		n = task.MaxSelectable
	}
	var mask task.Selection
	cfg := task.SelectorConfig{Inputs: n, StoppedAsFlink: mode == "as-flink"}
	twin := &naiveSelector{n: n, asFlink: cfg.StoppedAsFlink, nothing: map[int]bool{}, atEnd: map[int]bool{}, over: map[int]bool{}}
	if mode == "selecting" {
		cfg.Next = func() task.Selection { return mask }
		twin.ask = func() map[int]bool {
			m := map[int]bool{}
			for i := range n {
				if mask&(1<<i) != 0 {
					m[i] = true
				}
			}
			return m
		}
	}
	s, err := task.NewSelector(cfg)
	if err != nil {
		t.Fatal(err)
	}
	choose := func() {
		if mask = task.Selection(rng.Uint64()); rng.IntN(3) == 0 || mask&(1<<n-1) == 0 {
			mask = task.AllInputs
		}
	}
	choose()
	s.Next()
	twin.next()
	saidEnd := map[int]bool{}
	last := 1
	for len(twin.over) < n {
		steps++
		starving := false
		for i := range n {
			starving = starving || twin.selected[i] && twin.nothing[i]
		}
		if starving {
			met["starving"]++
		}
		got, wanted := s.Select(last), twin.pick(last)
		if got != wanted || s.AnyAvailable() != (wanted >= 0) || s.Starving() != starving || s.AllFinished() {
			t.Fatalf("select %d, any %t, starving %t; the twin %d, %t: %+v", got, s.AnyAvailable(), s.Starving(), wanted, starving, twin)
		}
		if wanted < 0 {
			met["nothing to read"]++
		}
		stuck := true
		for i := range n {
			stuck = stuck && (!twin.selected[i] || twin.over[i])
		}
		if s.Stuck() != stuck {
			t.Fatalf("stuck %t, want %t: %+v", s.Stuck(), stuck, twin)
		}
		if stuck {
			met["stuck"]++
			break // the operator would wait for ever
		}
		if i := rng.IntN(n); wanted < 0 || rng.IntN(4) == 0 && !twin.over[i] {
			s.SetAvailable(i)
			delete(twin.nothing, i)
			continue
		}
		last = wanted
		st := []task.Status{task.More, task.More, task.More, task.Nothing, task.EndOfData, task.Stopped, task.EndOfInput}[rng.IntN(7)]
		switch {
		case (st == task.EndOfData || st == task.Stopped) && saidEnd[wanted]:
			st = task.EndOfInput
		case st == task.EndOfData || st == task.Stopped:
			saidEnd[wanted] = true
		}
		if rng.IntN(300) == 0 {
			st = task.EndOfRecovery // never comes so far
		}
		choose()
		told, err := s.Update(st, wanted)
		text := told.String()
		if err != nil {
			text = "error"
			if !errors.Is(err, task.ErrNoProgress) && !errors.Is(err, align.ErrState) {
				t.Fatal(err)
			}
		}
		if w := twin.update(st, wanted); w != text {
			t.Fatalf("%v of input %d: told %s, want %s: %+v", st, wanted, text, w, twin)
		}
		if s.AllDataFinished() != twin.allEnded {
			t.Fatalf("all data finished: %t, want %t", s.AllDataFinished(), twin.allEnded)
		}
		met["told "+text]++
		if err != nil {
			break
		}
	}
	return steps
}

// TestModelOfEnding walks endings at random; when a task may end is worked out anew each time from all that happened.
func TestModelOfEnding(t *testing.T) {
	for _, lastCheckpoint := range []bool{true, false} {
		name := map[bool]string{true: "last-checkpoint", false: "none"}[lastCheckpoint]
		t.Run(name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(modelrun.Seed(t), 17))
			want, steps := modelrun.Steps(t, 20000), 0
			met := modelrun.Exposure{}
			for steps < want {
				steps += walkEnding(t, rng, lastCheckpoint, met)
			}
			needed := []string{"done", "waits for a savepoint", "savepoint aborted", "done by savepoint"}
			if lastCheckpoint {
				needed = append(needed, "waits for readers", "waits for a checkpoint", "done by checkpoint")
			}
			met.Report(t, "ending/"+name, steps, needed...)
		})
	}
}

func walkEnding(t *testing.T, rng *rand.Rand, lastCheckpoint bool, met modelrun.Exposure) (steps int) {
	partitions := rng.IntN(4)
	e := task.NewEnding(partitions, lastCheckpoint)
	var log []string
	next := int64(1)
	for range 2 + rng.IntN(20) {
		op := ""
		switch rng.IntN(7) {
		case 0:
			op = "eod"
		case 1:
			if partitions == 0 {
				continue
			}
			op = fmt.Sprintf("p%d", rng.IntN(partitions))
		case 2:
			if rng.IntN(4) > 0 || slices.ContainsFunc(log, func(o string) bool { return o[0] == 'w' }) {
				continue
			}
			op = fmt.Sprintf("w%d", next)
		case 3:
			op = fmt.Sprintf("s%d", next)
			next++
		case 4, 5:
			op = fmt.Sprintf("c%d", max(1, next-1-int64(rng.IntN(3))))
		case 6:
			op = fmt.Sprintf("a%d", max(1, next-1-int64(rng.IntN(3))))
		}
		steps++
		err := end(e, op)
		log = append(log, op)
		want, why, failed := mayEnd(log, partitions, lastCheckpoint)
		if failed != errors.Is(err, task.ErrSavepointAborted) || !failed && err != nil {
			t.Fatalf("%v: %v, should fail: %t", log, err, failed)
		}
		if failed {
			met["savepoint aborted"]++
			break
		}
		if e.Done() != want {
			t.Fatalf("%v of %d partitions: done %t, %s", log, partitions, e.Done(), why)
		}
		met[why]++
		if want {
			met["done"]++
		}
	}
	return steps
}

// mayEnd works out from the log whether a task may end, and why; failed: its savepoint was aborted by the last of it.
func mayEnd(log []string, partitions int, lastCheckpoint bool) (ok bool, why string, failed bool) {
	savepoint, final := int64(0), int64(0)
	eod, completed := false, false
	processed := map[string]bool{}
	for i, op := range log {
		var n int64
		if op != "eod" {
			if _, err := fmt.Sscan(op[1:], &n); err != nil {
				panic(op)
			}
		}
		switch {
		case op == "eod":
			eod = true
		case op[0] == 'p':
			processed[op] = true
		case op[0] == 'w':
			savepoint = n
		case op[0] == 's' && eod && final == 0:
			final = n
		case op[0] == 'c' && savepoint != 0:
			completed = completed || n == savepoint
		case op[0] == 'c':
			completed = completed || final != 0 && n >= final
		case op[0] == 'a' && savepoint != 0 && n == savepoint && !completed && i == len(log)-1:
			return false, "", true
		}
	}
	switch {
	case savepoint != 0 && !completed:
		return false, "waits for a savepoint", false
	case !eod, !lastCheckpoint:
		if savepoint != 0 {
			return true, "done by savepoint", false
		}
		return true, "done at once", false
	case len(processed) < partitions:
		return false, "waits for readers", false
	case !completed:
		return false, "waits for a checkpoint", false
	}
	if savepoint != 0 {
		return true, "done by savepoint", false
	}
	return true, "done by checkpoint", false
}
