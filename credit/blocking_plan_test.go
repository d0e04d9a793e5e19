package credit

import (
	"math/rand/v2"
	"testing"

	"github.com/weirflow/weir/segment"
)

// Whatever readers come, take, hold and leave: no more segments are out than there are sure to be, the counts are right, and a reader that
// has none may always take one, however many others stand still with theirs.
func TestReadPlanModel(t *testing.T) {
	grants, further := 0, 0
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 2))
		p := readPlan{limit: 1 + rng.IntN(6)}
		var readers []*diskReader
		var gone []*diskReader // left, with segments still out
		for range 400 {
			switch rng.IntN(6) {
			case 0:
				if r := (&diskReader{needs: rng.IntN(4) > 0}); len(readers) < 12 {
					p.limit += p.join(r)
					readers = append(readers, r)
				}
			case 1:
				if n := len(readers); n > 0 {
					i := rng.IntN(n)
					p.leave(readers[i])
					p.leave(readers[i]) // again does nothing
					gone = append(gone, readers[i])
					readers = append(readers[:i], readers[i+1:]...)
				}
			case 2: // one takes what is polled
				if n := len(readers); n > 0 {
					r := readers[rng.IntN(n)]
					r.out = max(0, r.out-3)
					p.wake(r)
				}
			case 3: // a segment comes home
				all := append(append([]*diskReader(nil), readers...), gone...)
				if n := len(all); n > 0 {
					if r := all[rng.IntN(n)]; r.held > 0 {
						p.returned(r)
					}
				}
			default:
				r := p.next()
				if r == nil {
					for _, r := range readers {
						if r.queued && (!r.needs || r.held == 0) {
							t.Fatalf("seed %d: a reader without a segment does not get its turn", seed)
						}
					}
					continue
				}
				for r.out < blockingWindow && p.mayTake(r) && rng.IntN(8) > 0 {
					if r.out++; r.needs {
						if r.held > 0 {
							further++
						}
						p.took(r)
						grants++
					}
				}
				p.wake(r)
			}
			held, without, members := 0, 0, 0
			for _, r := range gone {
				held += r.held
			}
			for _, r := range readers {
				held += r.held
				if r.needs {
					if members++; r.held == 0 {
						without++
					}
				}
				if r.queued && r.out >= blockingWindow {
					t.Fatalf("seed %d: a reader without room is in line", seed)
				}
			}
			if p.held != held || p.without != without || p.members != members || p.limit < members {
				t.Fatalf("seed %d: held %d, want %d; without %d, want %d; members %d, want %d of %d", seed, p.held, held, p.without, without, p.members, members, p.limit)
			}
		}
	}
	if grants < 1000 || further < 100 {
		t.Errorf("%d segments were given, %d of them as further ones", grants, further)
	}
}

// Writes come in batches, regions end where they are large enough and before events, and a plan that asked for a cut does not ask again.
func TestIntakePlan(t *testing.T) {
	p := newIntakePlan(2, 20)
	spills, cuts := 0, 0
	for i := range 3 * minRegion {
		if end := p.before(segment.DataBuffer); end {
			t.Fatalf("buffer %d: a region of data ends before data", i)
		}
		spill, cut := p.added()
		if spill {
			spills++
			p.spilled(p.pending)
		}
		if cut {
			cuts++
		}
		if i == 2*minRegion {
			p.spilled(p.pending)
			p.ended()
		}
	}
	if spills != 3*minRegion/10 && spills != 3*minRegion/10-1 || cuts != 1 {
		t.Errorf("%d writes, %d cuts", spills, cuts)
	}
	for _, c := range []struct {
		t    segment.DataType
		want bool
	}{{segment.EndOfData, true}, {segment.EndOfData, false}, {segment.EndOfPartition, true}, {segment.DataBuffer, true}, {segment.DataBuffer, false}} {
		if got := p.before(c.t); got != c.want {
			t.Errorf("before %s: the region ends: %t", c.t, got)
		}
		p.added()
	}
	if p.before(segment.EndOfData); p.region+p.pending == 0 {
		t.Error("nothing was counted")
	}
}
