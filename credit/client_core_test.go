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

func TestClientSplitsDontMatter(t *testing.T) {
	var want []string
	for cut := 0; cut <= 140; cut++ {
		r := newRig(t, rigConfig{channels: 2, exclusive: 2, floating: 2})
		f := r.frame(0, segment.DataBuffer, 1, []byte("hello"))
		f = append(f, r.partial(1, 0, segment.DataBuffer, "ab", "c")...)
		e := unaligned(3)
		f = append(f, r.frame(0, segment.PrioritizedEvent, 0, event.Append(nil, &e))...)
		for at := 0; at < len(f); {
			n := min(cut, len(f)-at)
			if n == 0 {
				n = 1
			}
			if err := r.core.Feed(f[at : at+n]); err != nil {
				t.Fatal(err)
			}
			at += n
		}
		r.pump()
		got := r.written()
		for range 5 {
			got = append(got, r.poll())
		}
		slices.Sort(got) // the order over the channels depends on what was seen when
		if want == nil {
			want = got
		}
		if !slices.Equal(got, want) {
			t.Fatalf("cut at %d: %q, want %q", cut, got, want)
		}
	}
}

func TestClientCloseOrCancel(t *testing.T) {
	type gone struct{ closing bool }
	for _, noReuse := range []bool{false, true} {
		var empty []gone
		r := newRig(t, rigConfig{channels: 2, exclusive: 1, noReuse: noReuse, client: ClientConfig{
			Empty: func(closing bool) { empty = append(empty, gone{closing}) }}})
		r.written()
		r.gate.Release(0)
		r.pump()
		r.wrote("cancel 0")
		if len(empty) != 0 {
			t.Error("empty with a channel left")
		}
		r.gate.Release(1)
		r.pump()
		if noReuse {
			r.wrote("close")
		} else {
			r.wrote("cancel 1")
		}
		if len(empty) != 1 || empty[0].closing != noReuse || r.core.Closing() != noReuse {
			t.Errorf("reuse %v: %v", !noReuse, empty)
		}
		if c, err := r.port.NewChannel(RemoteConfig{Index: 0}); err != nil {
			t.Error(err)
		} else if err := r.core.Request(c); (err != nil) != noReuse {
			t.Errorf("reuse %v: another request: %v", !noReuse, err)
		}
	}
}

// Requests and cancels don't wait for the connection to be writable; everything else does, and goes by channel in order.
func TestClientNotWritable(t *testing.T) {
	r := newRig(t, rigConfig{channels: 3, exclusive: 1})
	r.written()
	r.wire.full = true
	r.data(0, 0, 1)
	r.take().Release()
	r.pump()
	if err := r.gate.AckAll(0); err != nil {
		t.Fatal(err)
	}
	r.event(1, aligned(1))
	r.polls("1:CheckpointBarrier 1")
	if err := r.gate.Resume(1); err != nil {
		t.Fatal(err)
	}
	r.gate.AnnounceBufferSize(300)
	r.pump()
	r.gate.Release(2)
	r.pump()
	r.wrote("cancel 2")
	r.core.RequestSegment(r.ch[1], 4, 5)
	r.wire.full = false
	r.pump()
	r.wrote("credit 0 1", "ack 0", "resume 1", "size 0 300", "size 1 300", "segment 1 4 5")
	if err := r.core.TaskEvent(r.ch[0], event.Append(nil, &event.Event{Kind: event.Generic, Class: "E"})); err != nil {
		t.Fatal(err)
	}
	r.wrote("event E 0")
}

// Late messages are answered by cancels also while the connection is full, but not without end.
func TestClientLateCancelsWhileFull(t *testing.T) {
	r := newRig(t, rigConfig{channels: 1, exclusive: 1})
	r.gate.Release(0)
	r.pump()
	r.wrote("request 0 1", "cancel 0")
	for range 2 {
		r.wire.full = true
		for range maxLateCancels / 2 {
			r.data(0, 0, 1)
			r.feed(AppendBacklogAnnouncement(nil, rigID(0), 1))
		}
		if n := countPrefix(r.written(), "cancel 0"); n != maxLateCancels {
			t.Fatalf("%d cancels while full, want %d", n, maxLateCancels)
		}
		r.data(0, 0, 1)
		r.feed(AppendBacklogAnnouncement(nil, rigID(0), 1))
		r.wrote()
		r.wire.full = false
		r.data(0, 0, 1)
		r.wrote("cancel 0")
	}
}

// What was posted for a channel that has been released since is dropped, and nothing follows its cancel.
func TestClientDropsIntentsOfReleased(t *testing.T) {
	r := newRig(t, rigConfig{channels: 2, exclusive: 1})
	r.written()
	r.wire.full = true
	r.data(0, 0, 1)
	r.take().Release()
	r.pump()
	_ = r.gate.AckAll(0)
	_ = r.gate.AckAll(1)
	r.gate.Release(0)
	r.pump()
	r.wire.full = false
	r.pump()
	r.wrote("cancel 0", "ack 1")
}

// Credit that the policy holds back is told when the sender needs it, when a portion is full, before anything else of its
// channel, and by FlushGrants.
func TestClientBatched(t *testing.T) {
	r := newRig(t, rigConfig{channels: 1, exclusive: 10, client: ClientConfig{Policy: Batched{}}})
	r.written()
	give := func() {
		r.data(0, 0, 1)
		r.take().Release()
		r.pump()
	}
	for range 4 {
		give()
		r.wrote() // 9, 8, 7, 6 left of 10
	}
	r.data(0, 0, 1) // half the window is left
	r.wrote("credit 0 4")
	r.take().Release()
	r.pump()
	r.wrote()
	r.core.FlushGrants()
	r.pump()
	r.wrote("credit 0 1")
	r.core.FlushGrants()
	r.pump()
	r.wrote()
	give()
	if err := r.gate.AckAll(0); err != nil {
		t.Fatal(err)
	}
	r.pump()
	r.wrote("credit 0 1", "ack 0")
	// Half the window used up with the buffers at the task: the next that comes back is told at once.
	var held []segment.Buffer
	for range 5 {
		r.data(0, 0, 1)
		held = append(held, r.take())
	}
	r.wrote()
	held[0].Release()
	r.pump()
	r.wrote("credit 0 1")
	held[1].Release()
	r.pump()
	r.wrote() // more than half a window is out
	r.gate.Release(0)
	for _, b := range held[2:] {
		b.Release()
	}
	r.pump()
	r.core.FlushGrants()
	r.pump()
	r.wrote("cancel 0")

	r = newRig(t, rigConfig{channels: 1, exclusive: 64, client: ClientConfig{Policy: Batched{}}})
	r.written()
	for i := range 40 {
		r.data(0, 0, 1)
		r.take().Release()
		r.pump()
		switch i {
		case 15, 31:
			r.wrote("credit 0 16") // a portion
		default:
			r.wrote()
		}
	}
}

// Credit held back must not stay so while the sender runs dry, even if nothing comes back any more.
func TestClientBatchedRunsDry(t *testing.T) {
	r := newRig(t, rigConfig{channels: 1, exclusive: 10, client: ClientConfig{Policy: Batched{}}})
	r.written()
	r.data(0, 0, 1)
	r.take().Release()
	r.pump()
	r.wrote()
	sent := 0
	for r.core.CreditOutstanding() > 0 {
		r.data(0, 0, 1)
		if sent++; sent > 5 {
			break
		}
	}
	if got := r.written(); len(got) == 0 || !strings.HasPrefix(got[0], "credit 0 ") {
		t.Errorf("wrote %q after %d more messages", got, sent)
	}
}

func TestClientCountsOutstanding(t *testing.T) {
	r := newRig(t, rigConfig{channels: 3, exclusive: 2, floating: 5})
	is := func(want int) {
		t.Helper()
		if got := r.core.CreditOutstanding(); got != want {
			t.Fatalf("%d outstanding, want %d", got, want)
		}
	}
	is(6)
	r.data(0, 4, 1)
	is(6 - 1 + 5) // required 6, free 1
	r.event(1, aligned(1))
	is(8) // its sender waits
	if err := r.gate.Resume(1); err != nil {
		t.Fatal(err)
	}
	r.pump()
	r.written()
	is(10)
	r.gate.Release(0)
	r.pump()
	is(4)
	r.seq[1] = 40
	r.data(1, 0, 1) // fails, and has used one up
	is(3)
	r.core.Fail(errors.New("gone"))
	is(0)
	r.written()
}

func TestClientEndOfStream(t *testing.T) {
	r := newRig(t, rigConfig{channels: 2, exclusive: 1})
	f := r.frame(0, segment.DataBuffer, 0, make([]byte, 20))
	r.feed(f[:60])
	r.gate.Release(1)
	r.pump()
	r.core.EndOfStream()
	r.core.Fail(errors.New("later"))
	r.pump()
	r.polls("error in the middle of a message", "none")
	if r.core.Err() == nil || strings.Contains(r.core.Err().Error(), "later") {
		t.Error(r.core.Err())
	}
	if err := r.core.Feed(nil); err == nil {
		t.Error("a broken connection takes bytes")
	}
	if !r.core.WriteIntents() || r.core.Pending() != 0 {
		t.Error("a broken connection writes")
	}
	if err := r.core.TaskEvent(r.ch[0], nil); err == nil {
		t.Error("a broken connection takes events")
	}
	r.written()
}

// A peer that sends nothing but events is stopped, and its channel alone.
func TestClientLimitsEvents(t *testing.T) {
	r := newRig(t, rigConfig{channels: 2, exclusive: 1, port: GatePortConfig{MaxEventBytes: 50 * (eventCost + 12)}})
	cancel := event.Event{Kind: event.CancelCheckpoint, CheckpointID: 1}
	for range 50 {
		r.event(0, cancel)
	}
	r.polls("0:CancelCheckpointMarker")
	r.event(0, cancel)
	if err := r.ch[0].Err(); err != nil {
		t.Fatal(err)
	}
	r.event(0, cancel)
	r.fails(0, ErrTooManyEvents)
	r.text(1, "x")
	r.gate.Release(0)
	r.pump()
	r.event(1, cancel)
	if err := r.ch[1].Err(); err != nil {
		t.Errorf("what was released still counts: %v", err)
	}
	r.written()
}

// More arrivals than the ring takes wait in the port, in order, until the task makes room.
func TestLinkOverflow(t *testing.T) {
	woken := 0
	r := newRig(t, rigConfig{channels: 1, exclusive: 1})
	r.link.wake = func() { woken++ }
	n := 3*r.link.arrivals.Cap() + 5
	send := func(i int) {
		e := event.Event{Kind: event.CancelCheckpoint, CheckpointID: int64(i)}
		if err := r.core.Feed(r.frame(0, segment.EventBuffer, 0, event.Append(nil, &e))); err != nil {
			t.Fatal(err)
		}
	}
	for i := range n {
		send(i)
	}
	r.gate.Fill() // the ring has room, and what comes now has to wait behind what is late all the same
	if r.port.late.Len() == 0 {
		t.Fatal("nothing was late")
	}
	send(n)
	boom := errors.New("boom")
	r.core.Fail(boom)
	got := 0
	for {
		it, st, err := r.gate.Poll()
		if errors.Is(err, boom) {
			break
		}
		if st == Ready {
			if it.Event.CheckpointID != int64(got) {
				t.Fatalf("event %d came as number %d", it.Event.CheckpointID, got)
			}
			got++
			continue
		}
		if woken == 0 {
			t.Fatal("the loop was not woken for what is late")
		}
		woken = 0
		r.port.Poll()
	}
	// The error overtakes what is queued, but not what is late: it is the last of all.
	if got < 2*r.link.arrivals.Cap() {
		t.Errorf("only %d events came", got)
	}
	r.written()
}

// Commands that find no room in their ring are not lost.
func TestLinkManyCommands(t *testing.T) {
	r := newRig(t, rigConfig{channels: 2, exclusive: 1})
	r.written()
	n := r.link.commands.Cap() + 50
	for i := range n {
		r.link.AnnounceBufferSize(i%2, int32(i+1))
	}
	r.pump()
	got := r.written()
	if len(got) != n || got[n-1] != fmt.Sprintf("size %d %d", (n-1)%2, n) {
		t.Errorf("%d of %d, the last %q", len(got), n, got[len(got)-1])
	}
}

func TestNewChannelErrors(t *testing.T) {
	r := newRig(t, rigConfig{channels: 1, exclusive: 1, floating: 1})
	for name, cfg := range map[string]RemoteConfig{
		"index":  {Index: -1},
		"credit": {Index: 5, Exclusive: -1},
		"range":  {Index: 5, Range: SubpartitionRange{First: 3, Last: 2}},
		"twice":  {Index: 0},
		"memory": {Index: 5, Exclusive: 1},
	} {
		if _, err := r.port.NewChannel(cfg); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	_, err := r.port.NewChannel(RemoteConfig{Index: 5, Exclusive: 7})
	var few *segment.TooFewError
	if !errors.As(err, &few) || few.Wanted != 7 || few.Available != 0 {
		t.Error(err)
	}
	if _, err := NewGatePort(GatePortConfig{Link: r.link, Pool: r.recv, Floating: 1}); !errors.As(err, &few) {
		t.Error(err)
	}
	if _, err := NewGatePort(GatePortConfig{Link: r.link, Pool: r.recv, Floating: -1}); err == nil {
		t.Error("a negative number of buffers")
	}
	if _, err := NewReceivePool(r.pool, ReceivePoolConfig{Name: "x", Segments: 99}); !errors.As(err, &few) {
		t.Error(err)
	}
}

// Without a listener timeout a request is never repeated; with one, as long as the waiting at the server adds up to less
// than twice the largest backoff.
func TestRequestBackoff(t *testing.T) {
	for _, tc := range []struct {
		timeout, limit int64
		again          int
	}{{0, 10_000, 0}, {-1, 10_000, 0}, {10_000, 10_000, 1}, {1_000, 10_000, 19}, {30_000, 10_000, 0}} {
		var b requestBackoff
		n := 0
		for b.again(tc.timeout, tc.limit) {
			n++
		}
		if n != tc.again {
			t.Errorf("timeout %d, limit %d: repeated %d times, want %d", tc.timeout, tc.limit, n, tc.again)
		}
	}
}

func TestProducerStates(t *testing.T) {
	for state, want := range map[ProducerState]error{ProducerGone: ErrProducerFailed, ProducerUnknown: ErrPartitionNotFound} {
		r := newRig(t, rigConfig{channels: 1, exclusive: 1, client: ClientConfig{ListenerTimeout: 1, MaxBackoff: 10}})
		r.core.ProducerState(r.ch[0], state)
		r.pump()
		r.fails(0, want)
		r.core.ProducerState(r.ch[0], ProducerRunning) // too late
		r.wrote("request 0 1")
	}
	// Nobody to ask: the producer is taken to run.
	r := newRig(t, rigConfig{channels: 1, exclusive: 1, client: ClientConfig{ListenerTimeout: 10, MaxBackoff: 10}})
	r.feed(errorFrame(t, ClassPartitionNotFound, "p", rigID(0), false))
	r.wrote("request 0 1", "request 0 1")
	if n := r.core.CreditOutstanding(); n != 1 {
		t.Errorf("%d outstanding", n)
	}
	r.feed(errorFrame(t, ClassPartitionNotFound, "p", rigID(0), false))
	r.polls("error partition not found")
}

// What arrives after the task closed the gate, and before the loop knows, goes home all the same; so do channels whose
// release found no room in the ring of commands, and buffers that the task still holds.
func TestArrivesAfterGateClosed(t *testing.T) {
	r := newRig(t, rigConfig{channels: 2, exclusive: 3, floating: 2})
	r.text(0, "at the task")
	b := r.take()
	for range r.link.commands.Cap() + 10 {
		r.link.AnnounceBufferSize(0, 1)
	}
	r.gate.Close()
	for _, f := range [][]byte{r.frame(0, segment.DataBuffer, 0, []byte("x")), r.frame(1, segment.DataBuffer, 0, []byte("y")),
		r.frame(1, segment.EventBuffer, 0, event.Append(nil, &event.Event{Kind: event.CancelCheckpoint}))} {
		if err := r.core.Feed(f); err != nil {
			t.Fatal(err)
		}
	}
	if r.gate.Fill() != 0 {
		t.Error("a closed gate takes something over")
	}
	r.pump()
	if n := r.recv.Local().Stats().InUse; n != 1 {
		t.Errorf("%d segments in use, want the one that the task holds", n)
	}
	r.gate.Recycle(0, b)
	r.pump()
	if n := r.recv.Reserved(); n != 0 {
		t.Errorf("%d segments are still reserved", n)
	}
	got := r.written()
	if countPrefix(got, "cancel 0") != 1 || countPrefix(got, "cancel 1") != 1 {
		t.Errorf("wrote %q", got)
	}
}
