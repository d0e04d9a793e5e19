package credit

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/weirflow/weir/segment"
	"github.com/weirflow/weir/serde/event"
)

// noted is an Upstream that takes down what it is told.
type noted struct{ got []string }

func (n *noted) Resume(ch int) error {
	n.got = append(n.got, fmt.Sprint("resume ", ch))
	return nil
}
func (n *noted) AckAll(ch int)         { n.got = append(n.got, fmt.Sprint("ack ", ch)) }
func (n *noted) ReleaseChannel(ch int) { n.got = append(n.got, fmt.Sprint("release ", ch)) }
func (n *noted) AnnounceBufferSize(ch int, size int32) {
	n.got = append(n.got, fmt.Sprint("size ", ch, " ", size))
}

func (n *noted) is(t testing.TB, want ...string) {
	t.Helper()
	if !slices.Equal(n.got, want) {
		t.Fatalf("upstream was told %q, want %q", n.got, want)
	}
	n.got = nil
}

// tg is a gate with items delivered by hand.
type tg struct {
	*Gate
	t   *testing.T
	up  noted
	seq []int32
}

func newTG(t *testing.T, channels int, cfg GateConfig) *tg {
	g := &tg{t: t, seq: make([]int32, channels)}
	cfg.Channels, cfg.Upstream = channels, &g.up
	g.Gate = NewGate(cfg)
	return g
}

func (g *tg) item(ch int, t segment.DataType, p []byte) {
	g.Deliver(Arrival{Channel: int32(ch), Seq: g.seq[ch], Subpartition: int32(ch), Buf: segment.Wrap(p, t)})
	g.seq[ch]++
}

func (g *tg) text(ch int, s string) { g.item(ch, segment.DataBuffer, []byte(s)) }

func (g *tg) event(ch int, e event.Event) {
	priority := e.Kind == event.CheckpointBarrier && e.Barrier.Options.IsUnaligned()
	g.item(ch, event.DataTypeOf(&e, priority), event.Append(nil, &e))
}

func (g *tg) polls(want ...string) {
	g.t.Helper()
	for i, w := range want {
		got := describe(g.Poll())
		if got != w && !(strings.HasPrefix(w, "error ") && strings.HasPrefix(got, "error ") && strings.Contains(got, w[6:])) {
			g.t.Fatalf("poll %d: %q, want %q", i, got, w)
		}
	}
}

func TestGateTakesTurns(t *testing.T) {
	g := newTG(t, 3, GateConfig{})
	for _, s := range []string{"a", "b"} {
		g.text(2, s)
		g.text(0, s)
	}
	g.text(1, "a")
	g.polls("2:a", "0:a", "1:a", "2:b", "0:b", "none")
	if it, st, _ := g.Poll(); st != None || it.More {
		t.Error("empty gate has more")
	}
}

func TestGatePriorityOverChannels(t *testing.T) {
	g := newTG(t, 3, GateConfig{})
	g.text(0, "a")
	g.text(1, "b")
	if g.HasPriority() || g.NextIsPriority() {
		t.Error("priority without a priority event")
	}
	if _, st, _ := g.PollPriority(); st != None {
		t.Error("PollPriority took data")
	}
	g.event(2, unaligned(1))
	g.event(1, unaligned(1))
	if !g.HasPriority() {
		t.Error("priority does not show")
	}
	it, st, err := g.PollPriority()
	if got := describe(it, st, err); got != "2:CheckpointBarrier 1" || !it.MorePriority || !it.More {
		t.Errorf("%s, more %v %v", got, it.More, it.MorePriority)
	}
	it, st, err = g.PollPriority()
	if got := describe(it, st, err); got != "1:CheckpointBarrier 1" || it.MorePriority || !it.More {
		t.Errorf("%s, more %v %v", got, it.More, it.MorePriority)
	}
	g.polls("0:a", "1:b", "none")
}

// A second priority event of a channel keeps it in front.
func TestGateSeveralPriorityEvents(t *testing.T) {
	g := newTG(t, 2, GateConfig{})
	g.text(0, "x")
	g.event(1, unaligned(1))
	g.event(1, unaligned(2))
	g.text(1, "y")
	g.polls("1:CheckpointBarrier 1", "1:CheckpointBarrier 2", "0:x", "1:y", "none")
}

func TestGateOutdated(t *testing.T) {
	for _, tc := range []struct {
		seq, last int32
		want      bool
	}{
		{5, 4, false}, {4, 4, true}, {3, 4, true},
		{-1 << 31, 1<<31 - 1, false},  // just wrapped
		{1<<31 - 1, -1 << 31, true},   // an old one
		{5, -5, false}, {-5, 5, true}, // small numbers of both signs: no wrap
		{-1 << 31, -1<<31 + 3, true}, //
		{1 << 30, -7, true},          // wrap-around
		{-7, 1 << 30, false},         //
	} {
		if got := outdated(tc.seq, tc.last); got != tc.want {
			t.Errorf("outdated(%d, %d) = %v", tc.seq, tc.last, got)
		}
	}
	// The first priority event of a channel is never outdated, whatever its number is.
	g := newTG(t, 2, GateConfig{})
	g.seq[1] = 1<<31 - 3
	g.text(0, "x")
	g.text(1, "y")
	g.event(1, unaligned(1))
	g.polls("1:CheckpointBarrier 1", "0:x", "1:y")
}

func TestBeforeBarrierWraps(t *testing.T) {
	for _, tc := range []struct {
		barrier, seq int32
		want         bool
	}{
		{10, 9, true}, {10, 10, false}, {10, 11, false},
		{1<<31 - 1, 1<<31 - 2, true}, {1<<31 - 1, -1 << 31, false}, {1<<31 - 1, 1, true},
		{-1<<31 + 1, 1<<31 - 1, true}, {-1<<31 + 1, -1 << 31, true}, {-1<<31 + 1, -1<<31 + 2, false},
	} {
		c := gateChannel{lastBarrier: 1, barrierSeq: tc.barrier}
		if got := c.beforeBarrier(tc.seq); got != tc.want {
			t.Errorf("number %d, barrier %d: %v", tc.seq, tc.barrier, got)
		}
	}
}

func TestGatePrioritize(t *testing.T) {
	var s sunk
	g := newTG(t, 2, GateConfig{Sink: &s})
	g.text(0, "a")
	g.event(0, timeoutable(1)) // seq 1
	g.text(1, "b")
	if err := g.Prioritize(0, 1); !errors.Is(err, ErrNotQueued) {
		t.Errorf("with its announcement still queued: %v", err)
	}
	g.polls("0:EventAnnouncement 1 seq 1")
	for _, bad := range []int32{0, 7} { // data, and nothing
		if err := g.Prioritize(0, bad); !errors.Is(err, ErrNotQueued) {
			t.Errorf("number %d: %v", bad, err)
		}
	}
	if err := g.Prioritize(1, 0); !errors.Is(err, ErrNotQueued) {
		t.Errorf("channel without a barrier: %v", err)
	}
	if err := g.Prioritize(0, 1); err != nil {
		t.Fatal(err)
	}
	it, st, err := g.Poll() // forced, though the announcement had the same number
	if got := describe(it, st, err); got != "0:CheckpointBarrier 1" || it.Type != segment.PrioritizedEvent || it.Event.Barrier.Options.Timeout != 100 {
		t.Errorf("%s as %v with %+v", got, it.Type, it.Event.Barrier.Options)
	}
	b := timeoutable(1)
	for ch := range 2 {
		if err := g.CheckpointStarted(ch, &b.Barrier); err != nil {
			t.Fatal(err)
		}
	}
	s.is(t, "1/0 a", "1/1 b")
	g.SetBlocked(0, true) // what the barrier overtook may pass all the same, what follows it not
	g.text(0, "c")
	g.polls("1:b", "0:a", "none")
	g.SetBlocked(0, false)
	g.polls("0:c", "none")
	if err := g.Prioritize(0, 1); !errors.Is(err, ErrNotQueued) {
		t.Errorf("a second time: %v", err)
	}
}

func TestCheckpointSubsumed(t *testing.T) {
	g := newTG(t, 1, GateConfig{})
	g.event(0, unaligned(5))
	old, same := unaligned(4), unaligned(5)
	if err := g.CheckpointStarted(0, &old.Barrier); !errors.Is(err, ErrSubsumed) {
		t.Errorf("older checkpoint: %v", err)
	}
	if err := g.CheckpointStarted(0, &same.Barrier); err != nil {
		t.Error(err)
	}
	// The obsolete barrier of an older one that is still to come is not noted.
	g.event(0, unaligned(3))
	if g.chans[0].lastBarrier != 5 {
		t.Errorf("last barrier %d", g.chans[0].lastBarrier)
	}
}

func TestPersister(t *testing.T) {
	p := newPersister()
	if !p.barrier(0) { // the first id there is
		t.Error("barrier 0 does not count")
	}
	p = newPersister()
	step := func(what string, ok, want bool, state persistState, last int64) {
		t.Helper()
		if ok != want || p.state != state || p.lastSeen != last {
			t.Fatalf("%s: %v, state %d, last %d; want %v, %d, %d", what, ok, p.state, p.lastSeen, want, state, last)
		}
	}
	step("start 1", p.start(1) == nil, true, persistPending, 1)
	step("start 1 again", p.start(1) == nil, true, persistPending, 1)
	step("old barrier", p.barrier(0), false, persistPending, 1)
	step("barrier 1", p.barrier(1), true, persistReceived, 1)
	step("barrier 1 again", p.barrier(1), true, persistReceived, 1)
	step("stop 0", func() bool { p.stop(0); return true }(), true, persistReceived, 1)
	step("stop 1", func() bool { p.stop(1); return true }(), true, persistCompleted, 1)
	step("barrier 1 after its end", p.barrier(1), false, persistCompleted, 1)
	step("barrier 3", p.barrier(3), true, persistReceived, 3)
	step("start 2", p.start(2) == nil, false, persistReceived, 3)
	step("start 3", p.start(3) == nil, true, persistReceived, 3)
	step("start 4", p.start(4) == nil, true, persistPending, 4)
	step("start 2 while pending", p.start(2) == nil, true, persistPending, 4)
	step("stop 9", func() bool { p.stop(9); return true }(), true, persistCompleted, 9)
}

// What a channel over several subpartitions held ends with the subpartition of its last buffer.
func TestPersistSeveralSubpartitions(t *testing.T) {
	var s sunk
	g := newTG(t, 2, GateConfig{Sink: &s, Subpartitions: []int{2, 3}})
	g.text(0, "a")
	g.Deliver(Arrival{Seq: 1, Subpartition: 9, Buf: segment.Wrap([]byte("b"), segment.DataBuffer)})
	b := unaligned(1)
	for ch := range 2 {
		if err := g.CheckpointStarted(ch, &b.Barrier); err != nil {
			t.Fatal(err)
		}
	}
	s.is(t, "1/0 a", "1/0 b", "1/0 metadata 9")
}

func TestGateSeveralSubpartitionsEnd(t *testing.T) {
	g := newTG(t, 1, GateConfig{Subpartitions: []int{2}})
	g.event(0, endOfData)
	g.text(0, "x")
	g.event(0, endOfData)
	g.event(0, endOfInput)
	g.polls("0:x", "0:EndOfData", "none")
	g.event(0, endOfInput)
	g.polls("0:EndOfPartitionEvent", "end")
	g.up.is(t, "release 0")
}

func TestGateEndOfData(t *testing.T) {
	for _, tc := range []struct {
		first, second event.StopMode
		want          EndOfDataStatus
	}{{event.Drain, event.Drain, Drained}, {event.Drain, event.NoDrain, Stopped}, {event.NoDrain, event.Drain, Stopped}} {
		g := newTG(t, 2, GateConfig{})
		g.event(0, event.Event{Kind: event.EndOfData, StopMode: tc.first})
		g.polls("0:EndOfData")
		if g.EndOfData() != NotEndOfData {
			t.Error("ended after one of two")
		}
		g.event(1, event.Event{Kind: event.EndOfData, StopMode: tc.second})
		g.polls("1:EndOfData")
		if got := g.EndOfData(); got != tc.want {
			t.Errorf("%v, want %v", got, tc.want)
		}
		if err := g.AckAll(1); err != nil {
			t.Error(err)
		}
		g.up.is(t, "ack 1")
		g.event(0, endOfData)
		g.polls("error unexpected event")
	}
}

func TestGateEnds(t *testing.T) {
	g := newTG(t, 2, GateConfig{})
	g.event(0, endOfInput)
	g.text(0, "too late")
	g.text(1, "x")
	g.polls("0:EndOfPartitionEvent", "1:x", "none")
	g.up.is(t, "release 0")
	if !g.Ended(0) || g.Ended(1) || g.Finished() {
		t.Error("wrong channels ended")
	}
	if err := g.Resume(0); !errors.Is(err, ErrReleased) {
		t.Errorf("resume of an ended channel: %v", err)
	}
	if err := g.ResumeAll(); err != nil {
		t.Error(err)
	}
	g.up.is(t, "resume 1")
	g.AnnounceBufferSize(512)
	g.up.is(t, "size 1 512")
	g.event(1, endOfInput)
	g.polls("1:EndOfPartitionEvent", "end", "end")
	if !g.Finished() || !g.Available() {
		t.Error("not finished")
	}
	if NewGate(GateConfig{}).Finished() != true {
		t.Error("a gate without channels has something to wait for")
	}
}

func TestGateReleasedChannelInLine(t *testing.T) {
	g := newTG(t, 2, GateConfig{})
	g.text(0, "a")
	g.text(1, "b")
	g.Release(0)
	g.Release(0)
	g.polls("error released", "1:b", "none")
	g.up.is(t, "release 0")
	g.text(0, "c") // given back
	g.polls("none")
}

func TestGateChannelError(t *testing.T) {
	g := newTG(t, 2, GateConfig{})
	g.text(0, "a")
	g.text(1, "b")
	boom, later := errors.New("boom"), errors.New("later")
	g.Deliver(Arrival{Channel: 0, Err: boom})
	g.Deliver(Arrival{Channel: 0, Err: later})
	_, _, err := g.Poll()
	var named *ChannelError
	if !errors.Is(err, boom) || !errors.As(err, &named) || named.Index != 0 {
		t.Errorf("%v", err)
	}
	g.polls("1:b", "none")
	if err := g.Resume(0); !errors.Is(err, boom) {
		t.Errorf("resume: %v", err)
	}
	g.text(0, "c") // what still comes is kept, and never handed out
	g.Release(0)
	g.Deliver(Arrival{Channel: 0, Err: later})
}

func TestGateClose(t *testing.T) {
	g := newTG(t, 2, GateConfig{})
	g.text(0, "a")
	g.Close()
	g.Close()
	g.polls("error gate closed")
	if _, _, err := g.Poll(); !errors.Is(err, ErrGateClosed) {
		t.Error(err)
	}
	g.up.is(t, "release 0", "release 1")
	g.text(1, "b")
}

func TestGateGuard(t *testing.T) {
	t.Run("hold", func(t *testing.T) {
		g := newTG(t, 2, GateConfig{})
		g.event(0, aligned(1))
		g.polls("0:CheckpointBarrier 1")
		if err := g.Block(0); err != nil {
			t.Fatal(err)
		}
		g.text(0, "a") // past its barrier
		g.text(1, "b")
		g.text(0, "c")
		g.polls("1:b", "none", "none")
		g.event(0, unaligned(2)) // priority events pass
		g.polls("0:CheckpointBarrier 2", "none")
		if err := g.Resume(0); err != nil {
			t.Fatal(err)
		}
		g.up.is(t, "resume 0")
		g.polls("0:a", "0:c", "none")
	})
	t.Run("fail", func(t *testing.T) {
		g := newTG(t, 2, GateConfig{Guard: GuardFail})
		g.event(0, aligned(1))
		g.polls("0:CheckpointBarrier 1")
		g.SetBlocked(0, true)
		g.text(0, "a")
		g.text(1, "b")
		_, _, err := g.Poll()
		var ce *ChannelError
		if !errors.Is(err, ErrBlocked) || !errors.As(err, &ce) || ce.Index != 0 {
			t.Errorf("%v", err)
		}
		g.polls("1:b", "none")
	})
	t.Run("off", func(t *testing.T) {
		g := newTG(t, 1, GateConfig{Guard: GuardOff})
		g.event(0, aligned(1))
		g.polls("0:CheckpointBarrier 1")
		g.SetBlocked(0, true)
		g.text(0, "a")
		g.polls("0:a")
	})
	// A channel that is blocked without anything behind the barrier is not in the way, and resuming it twice is the sender's
	// affair.
	t.Run("idle", func(t *testing.T) {
		g := newTG(t, 1, GateConfig{})
		g.SetBlocked(0, true)
		g.polls("none")
		g.SetBlocked(0, false)
		g.text(0, "a")
		g.polls("0:a")
	})
}

func TestGateBadEvents(t *testing.T) {
	announcement := event.Event{Kind: event.Announcement, Announced: &event.Event{Kind: event.CheckpointBarrier,
		Barrier: event.Barrier{Options: event.Options{Timeout: event.NoTimeout, Alignment: event.Aligned}}}}
	for name, item := range map[string]struct {
		t segment.DataType
		p []byte
	}{
		"too short":          {segment.EventBuffer, []byte{0, 0}},
		"unknown":            {segment.EventBuffer, []byte{0, 0, 0, 99}},
		"cut barrier":        {segment.AlignedBarrier, event.Append(nil, &event.Event{Kind: event.CheckpointBarrier, Barrier: event.Barrier{Options: event.Options{Timeout: event.NoTimeout}}})[:20]},
		"no barrier":         {segment.TimeoutableAlignedBarrier, event.Append(nil, &endOfData)},
		"announced by peers": {segment.PrioritizedEvent, event.Append(nil, &announcement)},
	} {
		t.Run(name, func(t *testing.T) {
			g := newTG(t, 2, GateConfig{})
			g.item(0, item.t, item.p)
			g.text(1, "x")
			it, st, err := g.Poll()
			var ce *ChannelError
			if !errors.As(err, &ce) || ce.Index != 0 {
				t.Errorf("%s", describe(it, st, err))
			}
			g.polls("1:x", "none")
		})
	}
}

func TestGateCompressed(t *testing.T) {
	squash := func(g *tg, s string) {
		g.Deliver(Arrival{Seq: g.seq[0], Buf: segment.Wrap([]byte(s), segment.DataBuffer).WithCompressed(true)})
		g.seq[0]++
	}
	g := newTG(t, 1, GateConfig{})
	squash(g, "x")
	if _, _, err := g.Poll(); !errors.Is(err, ErrNoDecompressor) {
		t.Error(err)
	}
	bad := errors.New("bad block")
	g = newTG(t, 1, GateConfig{Decompress: func(b segment.Buffer) (segment.Buffer, error) {
		defer b.Release()
		if string(b.Bytes()) == "bad" {
			return segment.Buffer{}, bad
		}
		return segment.Wrap([]byte(strings.ToUpper(string(b.Bytes()))), segment.DataBuffer), nil
	}})
	squash(g, "x")
	squash(g, "bad")
	g.polls("0:X", "error bad block")
}

// Flink's names, which show in logs.
func TestGateStrings(t *testing.T) {
	for want, got := range map[string]fmt.Stringer{
		"none": None, "ready": Ready, "end": End, "invalid": Status(9),
		"NOT_END_OF_DATA": NotEndOfData, "DRAINED": Drained, "STOPPED": Stopped,
	} {
		if got.String() != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// The flag that says "priority may wait" falls when the link was looked at, and stands as long as something waits.
func TestHasPriorityFalls(t *testing.T) {
	r := newRig(t, rigConfig{channels: 1, exclusive: 1})
	e := unaligned(1)
	if err := r.core.Feed(r.frame(0, segment.PrioritizedEvent, 0, event.Append(nil, &e))); err != nil {
		t.Fatal(err)
	}
	if !r.gate.HasPriority() {
		t.Error("priority in the link does not show")
	}
	r.gate.Fill()
	if !r.gate.HasPriority() {
		t.Error("priority in the queue does not show")
	}
	r.polls("0:CheckpointBarrier 1")
	if r.gate.HasPriority() {
		t.Error("priority shows in an empty gate")
	}
}

// Events share blocks without sharing bytes.
func TestEventArena(t *testing.T) {
	var a eventArena
	var got [][]byte
	for i := range 5000 {
		p := a.take(1 + i%200)
		for j := range p {
			p[j] = byte(i)
		}
		got = append(got, p)
	}
	got = append(got, a.take(eventBlock))
	for i, p := range got[:5000] {
		if len(p) != 1+i%200 || cap(p) != len(p) {
			t.Fatalf("event %d: %d bytes of %d", i, len(p), cap(p))
		}
		for _, b := range p {
			if b != byte(i) {
				t.Fatalf("event %d was overwritten", i)
			}
		}
	}
}
