package credit

import "testing"

func TestConnTable(t *testing.T) {
	broken := map[int]bool{}
	isBroken := func(c int) bool { return broken[c] }
	is := func(c int) func(int) bool { return func(d int) bool { return c == d } }
	table := ConnTable[string, int]{Attempts: 2}

	if _, st, _ := table.Acquire("a", isBroken); st != ConnDial {
		t.Fatal("the first does not dial")
	}
	if _, st, _ := table.Acquire("a", isBroken); st != ConnWait {
		t.Fatal("the second does not wait")
	}
	if !table.DialFailed("a") || table.DialFailed("a") {
		t.Fatal("not two attempts")
	}
	if table.Len() != 0 {
		t.Fatal("an entry is left after giving up")
	}
	table.Acquire("a", isBroken)
	table.Dialed("a", 1)
	if c, st, _ := table.Acquire("a", isBroken); st != ConnReady || c != 1 {
		t.Fatal(c, st)
	}
	if table.Release("a", is(1), true, false) || table.Release("a", is(1), true, false) || table.Len() != 1 {
		t.Fatal("an idle connection is not kept")
	}
	if table.Release("a", is(7), false, false) {
		t.Fatal("released somebody else's")
	}
	// The last user of a connection that is not reused drops it.
	table.Acquire("a", isBroken)
	if !table.Release("a", is(1), false, false) || table.Len() != 0 {
		t.Fatal("not dropped")
	}
	// A broken one with users leaves the table, and its users release it without effect.
	table.Acquire("a", isBroken)
	table.Dialed("a", 2)
	broken[2] = true
	if _, st, stale := table.Acquire("a", isBroken); st != ConnDial || len(stale) != 0 {
		t.Fatal(st, stale)
	}
	if table.Release("a", is(2), true, true) {
		t.Fatal("dropped twice")
	}
	table.Dialed("a", 3)
	broken[3] = true
	if !table.Release("a", is(3), true, true) {
		t.Fatal("the last user of a broken one does not drop it")
	}
	// A broken one without users is handed out to be closed.
	table.Acquire("a", isBroken)
	table.Dialed("a", 4)
	table.Release("a", is(4), true, false)
	broken[4] = true
	if _, st, stale := table.Acquire("a", isBroken); st != ConnDial || len(stale) != 1 || stale[0] != 4 {
		t.Fatal(st, stale)
	}
	// Two peers do not mix.
	if _, st, _ := table.Acquire("b", isBroken); st != ConnDial || table.Len() != 2 {
		t.Fatal(st, table.Len())
	}
}
