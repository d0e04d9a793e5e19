package credit

import (
	"errors"
	"slices"
	"testing"

	"github.com/weirflow/weir/segment"
	"github.com/weirflow/weir/serde/event"
)

// localRig is a gate with local channels to the subpartitions of a partition.
type localRig struct {
	*rig
	s     *senderRig
	local []*LocalChannel
	woken int
}

func newLocalRig(t *testing.T, subs, window int, gate GateConfig) *localRig {
	r := &localRig{s: newSenderRig(t, PartitionConfig{Subpartitions: subs, Exclusive: 2}, 256, 32)}
	r.rig = newRig(t, rigConfig{channels: 0, gate: gate})
	gate.Channels = subs
	r.gate = NewGate(gate)
	r.link = r.gate.NewLink(subs*max(window, DefaultLocalWindow), func() { r.woken++ })
	var err error
	if r.port, err = NewGatePort(GatePortConfig{Link: r.link, Pool: r.recv}); err != nil {
		t.Fatal(err)
	}
	for i := range subs {
		l, err := r.port.NewLocalChannel(LocalConfig{Index: i, Partition: senderPartition, Range: One(int32(i)), Window: window})
		if err != nil {
			t.Fatal(err)
		}
		r.gate.SetUpstream(i, r.link)
		v, err := r.s.part.CreateView(One(int32(i)), l)
		if err != nil {
			t.Fatal(err)
		}
		l.Connect(v)
		r.local = append(r.local, l)
	}
	t.Cleanup(func() {
		r.gate.Close()
		r.pump()
		r.s.close()
	})
	return r
}

func (r *localRig) pump() {
	r.s.pump()
	r.rig.pump()
}

func (r *localRig) text(ch int, s string) {
	r.s.buffer(ch, []byte(s), true)
	r.pump()
}

func (r *localRig) polls(want ...string) {
	r.t.Helper()
	for i, w := range want {
		r.pump()
		if got := r.poll(); got != w {
			r.t.Fatalf("poll %d: %q, want %q", i, got, w)
		}
	}
}

func TestLocalChannel(t *testing.T) {
	r := newLocalRig(t, 2, 4, GateConfig{})
	r.text(0, "a")
	r.text(1, "b")
	r.text(0, "c")
	r.polls("0:a", "1:b", "0:c", "none")
	// Unfinished buffers come as far as they were flushed.
	w := r.s.buffer(0, []byte("he"), false)
	r.polls("none")
	r.s.w.Flush(0)
	r.polls("0:he")
	write(w, "llo")
	r.s.w.Flush(0)
	r.polls("0:llo", "none")
	finish(w)
	r.text(0, "x")
	r.polls("0:x", "none") // the finished one had nothing left
}

// Only a window of buffers leaves the sender; the rest is the sender's to hold, and its writer's to feel.
func TestLocalWindow(t *testing.T) {
	r := newLocalRig(t, 1, 3, GateConfig{})
	for range 10 {
		r.text(0, "x")
	}
	if n := r.gate.Queued(0); n != 3 {
		t.Errorf("%d buffers in the gate, want 3", n)
	}
	if n := r.s.part.Subpartition(0).Queued(); n != 7 {
		t.Errorf("%d buffers at the sender, want 7", n)
	}
	r.woken = 0
	b := r.take() // still held by the task: that is the sender's memory, not the gate's room
	if r.woken == 0 {
		t.Error("the loop was not told that there is room")
	}
	r.pump()
	if n := r.gate.Queued(0); n != 3 {
		t.Errorf("%d buffers in the gate, want 3", n)
	}
	b.Release()
	for range 9 {
		r.polls("0:x")
	}
	r.polls("none")
}

func TestLocalBarriers(t *testing.T) {
	var s sunk
	r := newLocalRig(t, 2, 8, GateConfig{Sink: &s})
	// Aligned: the sender stops until it is resumed.
	r.text(0, "a")
	r.s.w.AddEvent(0, alignedBarrier(1))
	r.text(0, "b")
	r.polls("0:a", "0:CheckpointBarrier 1", "none")
	if err := r.gate.Resume(0); err != nil {
		t.Fatal(err)
	}
	r.polls("0:b", "none")
	// Unaligned: overtakes in both queues, and what it overtakes in the gate is handed over.
	r.text(0, "c")
	r.text(1, "d")
	r.s.w.AddEvent(0, unalignedBarrier(2))
	r.polls("0:CheckpointBarrier 2")
	b := unaligned(2)
	for ch := range 2 {
		if err := r.gate.CheckpointStarted(ch, &b.Barrier); err != nil {
			t.Fatal(err)
		}
	}
	s.is(t, "2/0 c", "2/1 d")
	r.text(1, "e")
	s.is(t, "2/1 e")
	r.polls("1:d", "0:c", "1:e")
	// Timeoutable: announced, and can be made a priority event.
	r.text(1, "f")
	r.s.w.AddEvent(1, timeoutableBarrier(3))
	r.polls("1:EventAnnouncement 3 seq 3")
	if err := r.gate.Prioritize(1, 3); err != nil {
		t.Fatal(err)
	}
	r.polls("1:CheckpointBarrier 3", "1:f", "none")
}

func TestLocalEnd(t *testing.T) {
	r := newLocalRig(t, 1, 0, GateConfig{})
	acked := false
	r.s.part.cfg.OnAllAcked = func() { acked = true }
	r.s.w.AddEvent(0, segment.Wrap(event.AppendPadded(nil, &endOfData), segment.EndOfData))
	r.s.w.Finish(0)
	r.polls("0:EndOfData")
	if err := r.gate.AckAll(0); err != nil {
		t.Fatal(err)
	}
	r.gate.AnnounceBufferSize(700)
	r.pump()
	if !acked {
		t.Error("the sender did not hear that all was processed")
	}
	if got := r.s.part.shared.sub(0).hint.Load(); got != 700 {
		t.Errorf("size %d reached the writer, want 700", got)
	}
	r.polls("0:EndOfPartitionEvent", "end")
	r.pump()
	if !r.local[0].Released() || r.port.locals[0] != nil {
		t.Error("not released")
	}
}

func TestLocalErrors(t *testing.T) {
	r := newLocalRig(t, 3, 4, GateConfig{})
	// One resume too many is an error of the channel.
	if err := r.gate.Resume(0); err != nil {
		t.Fatal(err)
	}
	r.pump()
	if r.local[0].Err() == nil {
		t.Error("the sender was not blocked, and nobody minds")
	}
	if _, _, err := r.gate.Poll(); err == nil {
		t.Error("no error at the poll")
	}
	// No view.
	r.local[1].Fail(ErrPartitionNotFound)
	r.local[1].Fail(errors.New("later"))
	r.pump()
	var ce *ChannelError
	if _, _, err := r.gate.Poll(); !errors.Is(err, ErrPartitionNotFound) || !errors.As(err, &ce) || ce.Index != 1 {
		t.Error(err)
	}
	// The producer fails.
	boom := errors.New("boom")
	r.s.part.Fail(boom)
	r.pump()
	if _, _, err := r.gate.Poll(); !errors.Is(err, ErrProducerFailed) && !errors.Is(err, boom) {
		t.Error(err)
	}
	for name, cfg := range map[string]LocalConfig{
		"twice":  {Index: 2},
		"index":  {Index: 3},
		"window": {Index: 0, Window: -1},
		"range":  {Index: 0, Range: SubpartitionRange{First: 2, Last: 1}},
	} {
		if _, err := r.port.NewLocalChannel(cfg); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if _, err := r.port.NewChannel(RemoteConfig{Index: 2}); err == nil {
		t.Error("a remote channel in a local one's place")
	}
}

// A view that comes after the channel was released is released.
func TestLocalReleasedBeforeItsView(t *testing.T) {
	r := newLocalRig(t, 1, 4, GateConfig{})
	r.gate.Release(0)
	r.pump()
	s := newSenderRig(t, PartitionConfig{Exclusive: 2}, 4, 32)
	v, err := s.part.CreateView(One(0), r.local[0])
	if err != nil {
		t.Fatal(err)
	}
	r.local[0].Connect(v)
	if !v.Released() {
		t.Error("the view lives on")
	}
	s.buffer(0, []byte("x"), true)
	s.close()
}

func TestLocalBackoff(t *testing.T) {
	for _, tc := range []struct {
		initial, max int64
		want         []int64
	}{
		{100, 1000, []int64{100, 200, 400, 800, 1000}},
		{100, 100, []int64{100}},
		{500, 100, []int64{100}},
		{0, 100, nil},
	} {
		b := LocalBackoff{Initial: tc.initial, Max: tc.max}
		var got []int64
		for {
			w, ok := b.Next()
			if !ok {
				break
			}
			got = append(got, w)
		}
		if !slices.Equal(got, tc.want) {
			t.Errorf("initial %d, max %d: %v, want %v", tc.initial, tc.max, got, tc.want)
		}
	}
}
