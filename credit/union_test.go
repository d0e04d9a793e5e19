package credit

import (
	"errors"
	"testing"

	"github.com/weirflow/weir/serde/event"
)

// tu is a union of two gates with items delivered by hand.
func newUnion(t *testing.T, channels ...int) (*UnionGate, []*tg) {
	var gates []*Gate
	var tgs []*tg
	for _, n := range channels {
		g := newTG(t, n, GateConfig{})
		tgs = append(tgs, g)
		gates = append(gates, g.Gate)
	}
	u, err := NewUnionGate(gates...)
	if err != nil {
		t.Fatal(err)
	}
	return u, tgs
}

func unionPolls(t *testing.T, u *UnionGate, want ...string) {
	t.Helper()
	for i, w := range want {
		if got := describe(u.Poll()); got != w {
			t.Fatalf("poll %d: %q, want %q", i, got, w)
		}
	}
}

func TestUnionTakesTurns(t *testing.T) {
	u, g := newUnion(t, 2, 1, 1)
	if u.Channels() != 4 || u.Gates() != 3 {
		t.Fatal(u.Channels(), u.Gates())
	}
	for ch := range 4 {
		gate, c := u.Split(ch)
		want := []struct{ g, ch int }{{0, 0}, {0, 1}, {1, 0}, {2, 0}}[ch]
		if gate != g[want.g].Gate || gate != u.Gate(want.g) || c != want.ch {
			t.Errorf("channel %d is not %v", ch, want)
		}
	}
	g[2].text(0, "x")
	g[0].text(0, "a")
	g[0].text(1, "b")
	g[0].text(0, "c")
	g[2].text(0, "y")
	unionPolls(t, u, "3:x", "0:a", "3:y", "1:b", "0:c", "none")
	g[1].text(0, "z")
	if !u.Available() {
		t.Error("not available")
	}
	unionPolls(t, u, "2:z", "none")
}

func TestUnionPriority(t *testing.T) {
	u, g := newUnion(t, 1, 2)
	g[0].text(0, "a")
	g[1].text(0, "b")
	g[1].event(1, unaligned(1))
	if !u.HasPriority() || !u.NextIsPriority() {
		t.Error("priority does not show")
	}
	it, st, err := u.PollPriority()
	if got := describe(it, st, err); got != "2:CheckpointBarrier 1" || it.MorePriority || !it.More {
		t.Errorf("%s, more %v %v", got, it.More, it.MorePriority)
	}
	if _, st, _ := u.PollPriority(); st != None {
		t.Error("took data as priority")
	}
	unionPolls(t, u, "0:a", "1:b", "none")
	// A gate that is in the line already moves to the front.
	g[0].text(0, "c")
	g[1].text(0, "d")
	g[1].event(0, unaligned(2))
	unionPolls(t, u, "1:CheckpointBarrier 2", "0:c", "1:d", "none")
}

func TestUnionEnds(t *testing.T) {
	u, g := newUnion(t, 1, 1)
	g[0].event(0, endOfData)
	g[0].event(0, endOfInput)
	unionPolls(t, u, "0:EndOfData", "0:EndOfPartitionEvent", "none")
	if u.EndOfData() != NotEndOfData || u.Finished() {
		t.Error("ended after one of two gates")
	}
	g[1].event(0, event.Event{Kind: event.EndOfData, StopMode: event.NoDrain})
	g[1].event(0, endOfInput)
	unionPolls(t, u, "1:EndOfData", "1:EndOfPartitionEvent", "end", "end")
	if u.EndOfData() != Stopped || !u.Finished() {
		t.Error(u.EndOfData())
	}
}

func TestUnionErrors(t *testing.T) {
	g := NewGate(GateConfig{Channels: 1})
	h := NewGate(GateConfig{Channels: 1})
	for name, gates := range map[string][]*Gate{"one": {g}, "twice": {g, g}, "nil": {g, nil}, "none": nil} {
		if _, err := NewUnionGate(gates...); !errors.Is(err, ErrUnion) {
			t.Errorf("%s: %v", name, err)
		}
	}
	u, err := NewUnionGate(g, h)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := NewUnionGate(g, NewGate(GateConfig{})); !errors.Is(err, ErrUnion) {
		t.Errorf("in another union: %v", err)
	}
	boom := errors.New("boom")
	h.Deliver(Arrival{Err: boom})
	if _, _, err := u.Poll(); !errors.Is(err, boom) {
		t.Error(err)
	}
	h.Close()
	for range 2 {
		if _, _, err := u.Poll(); !errors.Is(err, ErrGateClosed) {
			t.Error(err)
		}
	}
}

// What waits in the links of the gates is found without a notification.
func TestUnionFillsFromLinks(t *testing.T) {
	r := newRig(t, rigConfig{channels: 1, exclusive: 2, floating: 1})
	other := newTG(t, 1, GateConfig{})
	u, err := NewUnionGate(other.Gate, r.gate)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.core.Feed(r.frame(0, 1, 0, []byte("a"))); err != nil {
		t.Fatal(err)
	}
	it, st, err := u.Poll()
	if got := describe(it, st, err); got != "1:a" {
		t.Fatal(got)
	}
	u.Recycle(1, it.Buf)
	u.Flush()
	e := unaligned(1)
	other.text(0, "x")
	if err := r.core.Feed(r.frame(0, 3, 0, event.Append(nil, &e))); err != nil {
		t.Fatal(err)
	}
	if !u.HasPriority() {
		t.Error("priority in a link does not show")
	}
	unionPolls(t, u, "1:CheckpointBarrier 1", "0:x", "none")
}
