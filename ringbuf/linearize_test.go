package ringbuf

import (
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
)

// call is one operation on a ring as porcupine sees it. A push has a value, a pop none.
type call struct {
	push  bool
	value int
}

// answer is what it returned.
type answer struct {
	ok    bool
	value int
}

// boundedQueue is the sequential specification: a queue of at most capacity items. Its state is the queue, as a string of
// runes, since states must compare.
func boundedQueue(capacity int) porcupine.Model {
	return porcupine.Model{
		Init: func() any { return "" },
		Step: func(state, input, output any) (bool, any) {
			queue, in, out := []rune(state.(string)), input.(call), output.(answer)
			switch {
			case in.push && out.ok:
				return len(queue) < capacity, string(append(queue, rune(in.value)))
			case in.push:
				return len(queue) == capacity, state
			case out.ok:
				return len(queue) > 0 && queue[0] == rune(out.value), string(queue[min(1, len(queue)):])
			default:
				return len(queue) == 0, state
			}
		},
		DescribeOperation: func(input, output any) string { return fmt.Sprintf("%+v -> %+v", input, output) },
	}
}

// strict drops the refusals that the ring may give without being full or empty: those that overlap an operation of the
// other side, which may have claimed a slot and not finished. A refusal with nobody on the other side stays, and must be
// true.
func strict(history []porcupine.Operation) []porcupine.Operation {
	return slices.DeleteFunc(slices.Clone(history), func(o porcupine.Operation) bool {
		if o.Output.(answer).ok {
			return false
		}
		return slices.ContainsFunc(history, func(p porcupine.Operation) bool {
			return p.Input.(call).push != o.Input.(call).push && p.Call <= o.Return && o.Call <= p.Return
		})
	})
}

// clients are goroutines that stay from round to round, so that they run on several processors and their operations overlap.
type clients struct {
	queue   *MPMC[int] // this round's; set before round is raised
	start   time.Time
	round   atomic.Int64
	pending atomic.Int64
	history [][]porcupine.Operation
	all     sync.WaitGroup
}

const (
	clientCount = 4
	clientOps   = 10
)

func startClients() *clients {
	c := &clients{start: time.Now(), history: make([][]porcupine.Operation, clientCount)}
	for id := range clientCount {
		c.all.Go(func() {
			for round := int64(1); ; round++ {
				for spins := 0; c.round.Load() != round; spins++ {
					if c.round.Load() < 0 {
						return
					}
					if spins%256 == 255 {
						runtime.Gosched()
					}
				}
				c.history[id] = c.act(id, int(round))
				c.pending.Add(-1)
			}
		})
	}
	return c
}

// act does one client's operations of a round.
func (c *clients) act(id, round int) (history []porcupine.Operation) {
	for i := range clientOps {
		in := call{push: (id+i*(1+id%2)+round)%2 == 0, value: 'A' + id*clientOps + i}
		var out answer
		before := time.Since(c.start)
		if in.push {
			out.ok = c.queue.Push(in.value)
		} else {
			out.value, out.ok = c.queue.Pop()
		}
		after := time.Since(c.start)
		history = append(history, porcupine.Operation{
			ClientId: id, Input: in, Call: int64(before), Output: out, Return: int64(after),
		})
		if (i+id)%5 == 0 {
			runtime.Gosched()
		}
	}
	return history
}

// run lets all clients work on q and returns what each saw and when.
func (c *clients) run(q *MPMC[int]) []porcupine.Operation {
	c.queue = q
	c.pending.Store(clientCount)
	c.round.Add(1)
	for c.pending.Load() > 0 {
		runtime.Gosched()
	}
	return slices.Concat(c.history...)
}

func (c *clients) stop() {
	c.round.Store(-1)
	c.all.Wait()
}

// TestMPMCIsLinearizable compares histories of several goroutines with the sequential specification.
func TestMPMCIsLinearizable(t *testing.T) {
	perturbFor(t, 3)
	if runtime.GOMAXPROCS(0) == 1 && !raceOrDebug {
		t.Skip("one processor and no injected yields: no two operations overlap")
	}
	rounds := 600
	if testing.Short() {
		rounds = 100
	}
	c := startClients()
	defer c.stop()
	overlaps, refusals := 0, 0
	// Where other processes take the processors, it can be long until two clients run at once.
	for round := 0; round < rounds || (overlaps == 0 || refusals == 0) && round < 20*rounds; round++ {
		history := strict(c.run(NewMPMC[int](2 + 2*(round%2))))
		for i, a := range history {
			if !a.Output.(answer).ok {
				refusals++
			}
			for _, b := range history[:i] {
				if a.ClientId != b.ClientId && a.Call < b.Return && b.Call < a.Return {
					overlaps++
				}
			}
		}
		switch porcupine.CheckOperationsTimeout(boundedQueue(2+2*(round%2)), history, time.Minute) {
		case porcupine.Illegal:
			t.Fatalf("round %d is not linearizable:\n%s", round, describe(history))
		case porcupine.Unknown:
			t.Fatalf("round %d: not decided in a minute", round)
		}
	}
	t.Logf("%d pairs of overlapping operations, %d refusals checked, in %d rounds or more", overlaps, refusals, rounds)
	if overlaps == 0 || refusals == 0 {
		t.Fatal("no operations overlapped, or none was refused: the histories prove nothing")
	}
}

// TestLinearizabilityCheckCanFail: the specification refuses a history in which an item comes out twice.
func TestLinearizabilityCheckCanFail(t *testing.T) {
	op := func(client int, in call, out answer, from, to int64) porcupine.Operation {
		return porcupine.Operation{ClientId: client, Input: in, Output: out, Call: from, Return: to}
	}
	bad := map[string][]porcupine.Operation{
		"twice": {
			op(0, call{true, 'a'}, answer{ok: true}, 0, 1),
			op(0, call{}, answer{true, 'a'}, 2, 3), op(1, call{}, answer{true, 'a'}, 2, 4),
		},
		"order": {
			op(0, call{true, 'a'}, answer{ok: true}, 0, 1), op(0, call{true, 'b'}, answer{ok: true}, 2, 3),
			op(1, call{}, answer{true, 'b'}, 4, 5),
		},
		"refused though empty": {op(0, call{true, 'a'}, answer{}, 0, 1)},
		"empty though filled":  {op(0, call{true, 'a'}, answer{ok: true}, 0, 1), op(1, call{}, answer{}, 2, 3)},
	}
	for name, history := range bad {
		if porcupine.CheckOperations(boundedQueue(2), strict(history)) {
			t.Errorf("%s: passed as linearizable", name)
		}
	}
}

func describe(history []porcupine.Operation) (s string) {
	slices.SortFunc(history, func(a, b porcupine.Operation) int { return int(a.Call - b.Call) })
	for _, o := range history {
		s += fmt.Sprintf("%8d-%8d client %d: %+v -> %+v\n", o.Call, o.Return, o.ClientId, o.Input, o.Output)
	}
	return s
}
