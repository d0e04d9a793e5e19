package align

import (
	"testing"

	"github.com/weirflow/weir/serde/event"
	"pgregory.net/rapid"
)

// ALN-13: an edge that is aligned only never sends a barrier that overtakes, or may come to (FLINK-33693, FLINK-21945);
// its neighbour sends it as it is.
func TestALN13AlignedOnlyEdge(t *testing.T) {
	for _, k := range []string{"un", "to100", "al", "sp", "fa", "alo"} {
		b := event.Barrier{ID: 1, Options: kind(k)}
		out, priority := Outgoing(b, true)
		if priority || out.Options.IsUnaligned() || out.Options.IsTimeoutable() {
			t.Errorf("%s leaves as %v, priority %v", k, out.Options.Alignment, priority)
		}
		if _, ok := OutputTimeout(&out, Now{Millis: 1000}); ok {
			t.Errorf("%s has a timeout", k)
		}
		if (k == "un" || k == "to100") != (out.Options.Alignment == event.ForcedAligned && k != "fa") {
			t.Errorf("%s leaves as %v", k, out.Options.Alignment)
		}
		beside, priority := Outgoing(b, false)
		if name(beside.Options) != name(b.Options) || priority != (k == "un") {
			t.Errorf("beside: %s leaves as %v, priority %v", k, beside.Options.Alignment, priority)
		}
		// The next task undoes it.
		if back, v := NewCheckpointGuard().Trigger(out); v != Take || k != "fa" && name(back.Options) != name(b.Options) {
			t.Errorf("%s comes back as %v, %v", k, back.Options, v)
		}
	}
}

// ALN-29: one aligned-only edge of four does not turn the others (FLINK-37870), and the caller's options stay.
func TestALN29OneEdgeOfFour(t *testing.T) {
	for range 3 {
		b := event.Barrier{ID: 1, Options: kind("un")}
		for edge := range 4 {
			out, priority := Outgoing(b, edge == 2)
			if priority == (edge == 2) || out.Options.IsUnaligned() == (edge == 2) {
				t.Errorf("edge %d: %v, priority %v", edge, out.Options.Alignment, priority)
			}
		}
		if !b.Options.IsUnaligned() {
			t.Error("the caller's options have changed")
		}
	}
}

func TestOutputTimeout(t *testing.T) {
	b := event.Barrier{Timestamp: 1000, Options: kind("to100")}
	for millis, want := range map[int64]int64{1000: 100, 1040: 60, 1100: 0, 5000: 0, 900: 200} {
		if d, ok := OutputTimeout(&b, Now{Millis: millis}); d != want || !ok {
			t.Errorf("at %d: %d, %v", millis, d, ok)
		}
	}
}

// TestCheckpointGuard: a double trigger, aborts before and after, and aborts that lie far back.
func TestCheckpointGuard(t *testing.T) {
	g := NewCheckpointGuard()
	trigger := func(id int64, want Verdict) {
		t.Helper()
		if _, v := g.Trigger(event.Barrier{ID: id, Options: kind("al")}); v != want {
			t.Errorf("trigger %d: %v, want %v", id, v, want)
		}
	}
	trigger(1, Take)
	trigger(1, OutOfOrder)
	trigger(0, OutOfOrder)
	g.Abort(3)
	trigger(2, OutOfOrder)
	trigger(3, OutOfOrder)
	if g.Aborted(2) || !g.Aborted(5) {
		t.Error("wrong about what is ahead")
	}
	trigger(4, Take)
	trigger(5, AlreadyAborted)
	trigger(5, OutOfOrder)
	g.Aborted(1000)
	trigger(1000-maxRecordedAborts-1, AlreadyAborted)
	trigger(1000-maxRecordedAborts, Take)
	trigger(1000, AlreadyAborted)
	if g.Last() != 1000 || len(g.aborted) != 0 {
		t.Errorf("last %d, %d recorded", g.Last(), len(g.aborted))
	}
	for id := range int64(10 * maxRecordedAborts) {
		g.Aborted(2000 + id)
	}
	if len(g.aborted) > maxRecordedAborts+1 {
		t.Errorf("%d aborts are recorded", len(g.aborted))
	}
	if Take.String() != "take" || AlreadyAborted.String() != "already aborted" {
		t.Error("names")
	}
}

// TestGuardTakesAscending: whatever comes, ids are taken in ascending order, and none that was aborted before.
func TestGuardTakesAscending(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := NewCheckpointGuard()
		last := int64(-1)
		gone := map[int64]bool{}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			id := rapid.Int64Range(0, 300).Draw(t, "id")
			switch rapid.IntRange(0, 2).Draw(t, "what") {
			case 0:
				if _, v := g.Trigger(event.Barrier{ID: id}); v == Take {
					if id <= last || gone[id] {
						t.Fatalf("%d is taken after %d, aborted %v", id, last, gone[id])
					}
					last = id
				}
			case 1:
				g.Abort(id)
				gone[id] = true
			case 2:
				g.Aborted(id)
				gone[id] = true
			}
		}
	})
}
