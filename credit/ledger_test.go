package credit

import (
	"fmt"
	"testing"
)

// ledgerRig drives ledgers of one gate as their channels would, without buffers.
type ledgerRig struct {
	t      *testing.T
	budget FloatBudget
	l      []*Ledger
	held   [][]CreditKind // kinds of the units charged, oldest first
}

func newLedgerRig(t *testing.T, channels int, initial, floating int32) *ledgerRig {
	r := &ledgerRig{t: t, held: make([][]CreditKind, channels)}
	r.budget.Init(floating, func(l *Ledger, n int32) { l.Announce(n) })
	for range channels {
		l := new(Ledger)
		l.Init(initial, &r.budget)
		r.l = append(r.l, l)
	}
	return r
}

// data lets a data message arrive.
func (r *ledgerRig) data(ch int, backlog int32) {
	r.t.Helper()
	kind, ok := r.l[ch].Take()
	if !ok {
		r.t.Fatalf("channel %d: no credit", ch)
	}
	r.held[ch] = append(r.held[ch], kind)
	r.backlog(ch, backlog)
}

// empty lets an empty data message arrive.
func (r *ledgerRig) empty(ch int, backlog int32) {
	if kind, ok := r.l[ch].Take(); ok {
		r.l[ch].Announce(r.l[ch].Return(kind))
	}
	r.backlog(ch, backlog)
}

func (r *ledgerRig) backlog(ch int, backlog int32) { r.l[ch].Announce(r.l[ch].OnBacklog(backlog)) }

// recycle gives back the buffer that came as number i of those still held.
func (r *ledgerRig) recycle(ch, i int) {
	kind := r.held[ch][i]
	r.held[ch] = append(r.held[ch][:i:i], r.held[ch][i+1:]...)
	r.l[ch].Announce(r.l[ch].Return(kind))
}

func (r *ledgerRig) credit(ch int, want int32) {
	r.t.Helper()
	if got := r.l[ch].TakeUnannounced(); got != want {
		r.t.Fatalf("channel %d: AddCredit %d, want %d", ch, got, want)
	}
}

// is checks "A (ex+fl) R U W" of a channel.
func (r *ledgerRig) is(ch int, want string) {
	r.t.Helper()
	l := r.l[ch]
	w := "no"
	if l.Waiting() {
		w = "yes"
	}
	got := fmt.Sprintf("%d (%d+%d) %d %d %s", l.Free(), l.FreeExclusive(), l.FreeFloating(), l.Required(), l.Unannounced(), w)
	if got != want {
		r.t.Fatalf("channel %d: %s, want %s", ch, got, want)
	}
}

// The tables that follow were recorded on Flink's own classes.

func TestLedgerExclusiveAndEight(t *testing.T) {
	r := newLedgerRig(t, 1, 2, 8)
	r.is(0, "2 (2+0) 0 0 no")
	r.data(0, 2)
	r.is(0, "4 (1+3) 4 3 no")
	r.credit(0, 3)
	r.is(0, "4 (1+3) 4 0 no")
	r.data(0, 1)
	r.is(0, "3 (1+2) 3 0 no")
	r.data(0, 0)
	r.is(0, "2 (1+1) 2 0 no")
	r.recycle(0, 0)
	r.is(0, "2 (2+0) 2 0 no")
	r.recycle(0, 0)
	r.recycle(0, 0)
	r.is(0, "2 (2+0) 2 0 no")
	if r.budget.Out() != 0 {
		t.Errorf("%d floating buffers out", r.budget.Out())
	}
}

func TestLedgerPoolOfOne(t *testing.T) {
	r := newLedgerRig(t, 1, 2, 1)
	r.data(0, 5)
	r.is(0, "2 (1+1) 7 1 yes")
	r.credit(0, 1)
	r.data(0, 4)
	r.is(0, "1 (1+0) 6 0 yes")
	r.data(0, 3)
	r.is(0, "0 (0+0) 5 0 yes")
	r.recycle(0, 0)
	r.is(0, "1 (1+0) 5 1 yes")
	r.recycle(0, 0)
	r.is(0, "2 (1+1) 5 2 yes")
	r.recycle(0, 0)
	r.is(0, "3 (2+1) 5 3 yes")
}

func TestLedgerNoExclusive(t *testing.T) {
	r := newLedgerRig(t, 1, 0, 3)
	r.backlog(0, 5)
	r.is(0, "3 (0+3) 5 3 yes")
	r.credit(0, 3)
	r.data(0, 4)
	r.data(0, 3)
	r.data(0, 2)
	r.is(0, "0 (0+0) 2 0 yes")
	r.recycle(0, 0)
	r.is(0, "1 (0+1) 2 1 yes")
	r.credit(0, 1)
	r.data(0, 1)
	r.is(0, "0 (0+0) 1 0 yes")
	r.l[0].OnBlocking()
	r.backlog(0, 0)
	r.is(0, "0 (0+0) 0 0 yes")
	r.recycle(0, 0)
	r.is(0, "0 (0+0) 0 0 no")
	if r.budget.Out() != 2 {
		t.Errorf("%d floating buffers out, want 2", r.budget.Out())
	}
}

func TestLedgerShrinkingBacklog(t *testing.T) {
	r := newLedgerRig(t, 1, 2, 8)
	r.data(0, 6)
	r.credit(0, 7)
	r.is(0, "8 (1+7) 8 0 no")
	r.data(0, 0)
	r.is(0, "7 (1+6) 2 0 no")
	r.recycle(0, 0)
	r.is(0, "7 (2+5) 2 0 no")
	for range 3 {
		r.data(0, 0)
	}
	r.is(0, "4 (2+2) 2 0 no")
}

func TestLedgerEmptyMessage(t *testing.T) {
	r := newLedgerRig(t, 1, 2, 8)
	r.empty(0, 3)
	r.is(0, "5 (2+3) 5 4 no")
}

// The line of the budget: first come first served, a refusal passes the unit on, and who needs more joins at the end.
func TestFloatBudgetLine(t *testing.T) {
	r := newLedgerRig(t, 4, 0, 2)
	r.backlog(0, 2)
	r.credit(0, 2)
	r.data(0, 0)
	r.data(0, 0)
	r.backlog(1, 2)
	r.backlog(2, 1)
	r.backlog(3, 1)
	r.l[2].OnBlocking() // needs none any more
	r.recycle(0, 0)
	r.is(1, "1 (0+1) 2 1 yes")
	r.recycle(0, 0) // 2 refuses, 3 takes
	r.is(2, "0 (0+0) 0 0 no")
	r.is(3, "1 (0+1) 1 1 no")
	r.is(1, "1 (0+1) 2 1 yes")
	r.data(3, 0)
	r.recycle(3, 0)
	r.is(1, "2 (0+2) 2 2 no")
}

// A channel that is released leaves the line, gives its floating units to the next, and is charged no more.
func TestLedgerRelease(t *testing.T) {
	r := newLedgerRig(t, 3, 1, 1)
	r.backlog(0, 1)
	r.data(0, 0) // floating
	r.is(0, "1 (1+0) 1 1 no")
	r.backlog(1, 3)
	r.backlog(2, 1)
	r.is(1, "1 (1+0) 4 0 yes")
	r.l[1].Release()
	r.is(1, "0 (0+0) 4 0 yes")
	r.recycle(0, 0)
	r.is(2, "2 (1+1) 2 1 no")
	r.l[0].OnBlocking() // has an exclusive unit: nothing changes
	r.data(0, 0)
	r.l[0].Release()
	r.recycle(0, 0)
	if got := r.l[0].Free(); got != 0 {
		t.Errorf("released channel has %d free units", got)
	}
	if r.budget.Out() != 1 {
		t.Errorf("%d floating units out, want 1", r.budget.Out())
	}
	r.l[2].Release()
	r.l[2].Release()
	if r.budget.Out() != 0 || r.budget.wanted != 0 {
		t.Errorf("%d floating units out, %d wanted; want none", r.budget.Out(), r.budget.wanted)
	}
}

func TestFloatBudgetLimit(t *testing.T) {
	r := newLedgerRig(t, 2, 0, 2)
	r.backlog(0, 4)
	r.is(0, "2 (0+2) 4 2 yes")
	r.backlog(1, 1)
	r.budget.SetLimit(5)
	r.is(0, "4 (0+4) 4 4 no")
	r.is(1, "1 (0+1) 1 1 no")
	r.budget.SetLimit(3)
	r.backlog(1, 2) // waits
	for i, want := range []int32{4, 3, 3} {
		r.data(0, 0)
		r.recycle(0, 0)
		if got := r.budget.Out(); got != want {
			t.Fatalf("%d out after %d came back, want %d", got, i+1, want)
		}
		if waits := r.l[1].Waiting(); waits != (i < 2) {
			t.Fatalf("waiting %v after %d came back", waits, i+1)
		}
	}
}

// A hostile backlog must not wrap the count of what is wanted.
func TestLedgerHugeBacklog(t *testing.T) {
	r := newLedgerRig(t, 1, 2, 3)
	r.backlog(0, 1<<31-1)
	r.is(0, "5 (2+3) 2147483647 3 yes")
}

// A window without exclusive units is zeroed on both ends by resume.
func TestLedgerResume(t *testing.T) {
	r := newLedgerRig(t, 2, 0, 2)
	r.backlog(0, 2)
	r.l[0].OnBlocking()
	r.is(0, "0 (0+0) 0 2 no")
	r.l[0].OnResume()
	r.is(0, "0 (0+0) 0 0 no")

	r = newLedgerRig(t, 1, 1, 2)
	r.backlog(0, 1)
	r.l[0].OnBlocking()
	r.l[0].OnResume()
	r.is(0, "2 (1+1) 2 1 no")
}

func TestGrantPolicies(t *testing.T) {
	for _, tc := range []struct {
		policy                   GrantPolicy
		unannounced, out, window int32
		want                     bool
	}{
		{Immediate{}, 1, 1000, 1000, true},
		{Batched{}, 1, 16, 32, true},   // half the window left: it could run dry
		{Batched{}, 15, 17, 32, false}, // hold
		{Batched{}, 16, 17, 32, true},  // a portion
		{Batched{}, 4, 9, 10, false},   // half of ten
		{Batched{}, 5, 9, 10, true},    //
		{Batched{}, 1, 1, 2, true},     // two buffers: each at once
		{Batched{}, 1, 2, 3, true},     //
		{Batched{Max: 4}, 3, 90, 100, false},
		{Batched{Max: 4}, 4, 90, 100, true},
	} {
		if got := tc.policy.Grant(tc.unannounced, tc.out, tc.window); got != tc.want {
			t.Errorf("%#v.Grant(%d, %d, %d) = %v", tc.policy, tc.unannounced, tc.out, tc.window, got)
		}
	}
}
