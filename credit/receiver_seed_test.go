package credit

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/weirflow/weir/segment"
	"github.com/weirflow/weir/serde/event"
)

// The rows of the seed documents' first part that concern the receiver, by their numbers in the specification's map: what
// a client does with each message (1 to 40), and how buffers come back (101 to 113).

// fails asserts that channel ch failed with target, and that its error names the peer, the partition and the channel.
func (r *rig) fails(ch int, target error) {
	r.t.Helper()
	err := r.ch[ch].Err()
	if !errors.Is(err, target) {
		r.t.Fatalf("channel %d: %v, want %v", ch, err, target)
	}
	var ce *ChannelError
	if errors.As(err, &ce) {
		for _, part := range []string{ce.Peer, ce.Partition.String(), ce.Channel.String()} {
			if part == "" || !strings.Contains(err.Error(), part) {
				r.t.Errorf("%q does not name %q", err, part)
			}
		}
	}
}

func TestSeedRow1CreditLimitsSender(t *testing.T) {
	r := newRig(t, rigConfig{channels: 1, exclusive: 2, floating: 3})
	r.wrote("request 0 2")
	r.data(0, 90, 8)
	r.wrote("credit 0 3")
	sent := 1
	for credit := 2 - 1 + 3; credit > 0; credit-- {
		r.data(0, 90, 8)
		sent++
	}
	if n := r.core.CreditOutstanding(); n != 0 || sent != 5 {
		t.Fatalf("sent %d, outstanding %d; want 5 and 0", sent, n)
	}
	r.wrote() // the consumer has stopped: no more credit
	b := r.take()
	r.pump()
	r.wrote()
	b.Release()
	r.pump()
	r.wrote("credit 0 1") // it goes on
}

func TestSeedRow3UnknownMessageEndsConnection(t *testing.T) {
	r := newRig(t, rigConfig{channels: 2, exclusive: 1})
	frame := AppendCancelPartitionRequest(nil, rigID(0)) // not for a client
	if err := r.core.Feed(frame); !errors.Is(err, ErrUnknownMessage) {
		t.Fatal(err)
	}
	r.pump()
	var conn *ConnError
	for ch := range 2 {
		r.fails(ch, ErrUnknownMessage)
		if !errors.As(r.ch[ch].Err(), &conn) || !strings.Contains(conn.Error(), "10.0.0.1:6121") {
			t.Errorf("%v does not name the peer", r.ch[ch].Err())
		}
	}
	r.polls("error unknown message", "error unknown message", "none")
	if err := r.core.Request(r.ch[0]); err == nil {
		t.Error("a broken connection takes requests")
	}
	r.wire.buf = nil
}

func TestSeedRows4And5And24DispatchById(t *testing.T) {
	r := newRig(t, rigConfig{channels: 2, exclusive: 2, floating: 4})
	a, b := r.frame(0, segment.DataBuffer, 0, []byte("a")), r.frame(1, segment.DataBuffer, 0, []byte("b"))
	c, d := r.frame(0, segment.DataBuffer, 0, []byte("c")), r.frame(1, segment.DataBuffer, 0, []byte("d"))
	r.feed(append(append(append(a, b...), c...), d...))
	r.polls("0:a", "1:b", "0:c", "1:d", "none")
	// One message of each class has its call.
	r.written()
	r.feed(AppendBacklogAnnouncement(nil, rigID(1), 1))
	r.wrote("credit 1 1")
	r.feed(errorFrame(t, ClassIOException, "boom", rigID(0), false))
	r.fails(0, ErrRemote)
	r.polls("error boom", "none")
}

// errorFrame makes an ErrorResponse.
func errorFrame(t testing.TB, class, message string, id ChannelID, fatal bool) []byte {
	t.Helper()
	stream := AppendThrowable(nil, class, message)
	return AppendErrorResponse(nil, stream, id, fatal)
}

func TestSeedRows6And7UnknownAndReleased(t *testing.T) {
	r := newRig(t, rigConfig{channels: 1, exclusive: 2})
	r.written()
	h := BufferHeader{Receiver: rigID(77), Type: segment.DataBuffer, Size: 3}
	r.feed(AppendBufferResponse(nil, Flink23, &h, []byte("abc")))
	r.wrote("cancel 77")
	r.gate.Release(0)
	r.pump()
	r.wrote("cancel 0")
	r.data(0, 3, 5)
	r.event(0, aligned(1))
	r.wrote("cancel 0", "cancel 0")
	if n := r.recv.Local().Stats().InUse; n != 0 {
		t.Errorf("%d segments in use", n)
	}
}

func TestSeedRow8ErrorStaysWithItsChannel(t *testing.T) {
	r := newRig(t, rigConfig{channels: 2, exclusive: 2})
	r.seq[0] = 5
	r.data(0, 0, 4)
	r.fails(0, ErrReordered)
	r.text(1, "fine")
	r.polls("error expected 0, but received 5", "1:fine", "none")
}

func TestSeedRow9FatalErrorResponse(t *testing.T) {
	r := newRig(t, rigConfig{channels: 2, exclusive: 1})
	err := r.core.Feed(errorFrame(t, ClassIllegalState, "late", ChannelID{}, true))
	var conn *ConnError
	if !errors.As(err, &conn) || !errors.Is(err, ErrRemote) || !strings.Contains(err.Error(), "late") {
		t.Fatal(err)
	}
	r.pump()
	r.fails(0, ErrRemote)
	r.fails(1, ErrRemote)
	if r.core.Channels() != 0 || r.core.CreditOutstanding() != 0 {
		t.Error("channels are still registered")
	}
	r.wire.buf = nil
}

func TestSeedRow10PartitionNotFound(t *testing.T) {
	var asked []*RemoteChannel
	r := newRig(t, rigConfig{channels: 2, exclusive: 2, client: ClientConfig{
		ListenerTimeout: 10_000, MaxBackoff: 10_000, NotFound: func(c *RemoteChannel) { asked = append(asked, c) }}})
	r.written()
	r.feed(errorFrame(t, ClassPartitionNotFound, "p", rigID(1), false))
	if len(asked) != 1 || asked[0] != r.ch[1] || r.ch[1].Err() != nil {
		t.Fatalf("asked about %v, error %v", asked, r.ch[1].Err())
	}
	r.wrote()
	r.core.ProducerState(r.ch[1], ProducerRunning)
	r.pump()
	r.wrote("request 1 2") // the same channel, the same credit
	r.feed(errorFrame(t, ClassPartitionNotFound, "p", rigID(1), false))
	r.core.ProducerState(r.ch[1], ProducerRunning)
	r.pump()
	r.wrote()
	r.fails(1, ErrPartitionNotFound)
	r.text(0, "x")
	r.polls("error partition not found", "0:x")
}

func TestSeedRow11ErrorOfOneChannel(t *testing.T) {
	r := newRig(t, rigConfig{channels: 2, exclusive: 1})
	r.feed(errorFrame(t, ClassProducerFailed, "died", rigID(1), false))
	r.fails(1, ErrProducerFailed)
	if r.ch[0].Err() != nil || r.core.Err() != nil {
		t.Error("it spread")
	}
	// A subclass of PartitionNotFoundException, or a wrapped one, is no reason to ask again.
	r.feed(errorFrame(t, ClassIOException, "not found", rigID(0), false))
	r.fails(0, ErrRemote)
	r.written()
}

func TestSeedRow12ErrorForUnknownChannel(t *testing.T) {
	r := newRig(t, rigConfig{channels: 1, exclusive: 1})
	r.written()
	r.feed(errorFrame(t, ClassIOException, "boom", rigID(9), false))
	r.feed(errorFrame(t, ClassPartitionNotFound, "boom", rigID(9), false))
	r.wrote()
	r.polls("none")
}

func TestSeedRows14To16And28Backlog(t *testing.T) {
	r := newRig(t, rigConfig{channels: 1, exclusive: 2, floating: 3})
	r.written()
	r.feed(AppendBacklogAnnouncement(nil, rigID(0), 3))
	r.wrote("credit 0 3")
	if l := r.ch[0].Ledger(); l.Required() != 5 || l.Waiting() {
		t.Errorf("required %d", l.Required())
	}
	r.feed(AppendBacklogAnnouncement(nil, rigID(0), 5)) // two more, and the pool has none
	r.wrote()
	if l := r.ch[0].Ledger(); l.Required() != 7 || !l.Waiting() {
		t.Errorf("required %d, waiting %v", l.Required(), l.Waiting())
	}
	r.feed(AppendBacklogAnnouncement(nil, rigID(6), 1))
	r.wrote("cancel 6")
	r.gate.Release(0)
	r.pump()
	r.feed(AppendBacklogAnnouncement(nil, rigID(0), 1))
	r.wrote("cancel 0", "cancel 0")
}

func TestSeedRows18And19Empty(t *testing.T) {
	r := newRig(t, rigConfig{channels: 2, exclusive: 2, floating: 2})
	r.written()
	r.data(0, 0, 0)
	if r.gate.Queued(0) != 0 || r.ch[0].expected != 1 {
		t.Errorf("queued %d, expected %d", r.gate.Queued(0), r.ch[0].expected)
	}
	r.wrote("credit 0 1")
	r.seq[1] = 5
	r.ch[1].SetNextSeq(4)
	r.data(1, 0, 0)
	r.fails(1, ErrReordered)
	r.polls("error expected 4, but received 5")
}

// Row 20: a barrier is an event with bytes; an event without is an error of the connection.
func TestSeedRow20EventIsNotEmpty(t *testing.T) {
	r := newRig(t, rigConfig{channels: 1, exclusive: 2})
	r.event(0, aligned(1))
	if r.gate.Queued(0) != 1 {
		t.Error("barrier was not queued")
	}
	h := BufferHeader{Receiver: rigID(0), Seq: 1, Type: segment.EventBuffer}
	if err := r.core.Feed(AppendBufferResponse(nil, Flink23, &h, nil)); !errors.Is(err, ErrPayloadSize) {
		t.Errorf("event without bytes: %v", err)
	}
}

// partial makes a message of several buffers.
func (r *rig) partial(ch int, backlog int32, t segment.DataType, parts ...string) []byte {
	h := BufferHeader{Receiver: rigID(ch), Subpartition: -1, Seq: r.seq[ch], Backlog: backlog, Type: t, Partial: int32(len(parts))}
	var p []byte
	for _, s := range parts {
		h.PartialSizes = append(h.PartialSizes, int32(len(s)))
		p = append(p, s...)
	}
	h.Size = int32(len(p))
	r.seq[ch] += int32(len(parts))
	return AppendBufferResponse(nil, Flink23, &h, p)
}

func TestSeedRows21To23Partial(t *testing.T) {
	r := newRig(t, rigConfig{channels: 1, exclusive: 2, floating: 4})
	r.written()
	r.seq[0] = 7
	r.ch[0].SetNextSeq(7)
	r.feed(r.partial(0, 1, segment.DataBuffer, "abc", "defg"))
	r.wrote("credit 0 2") // one backlog call for the message; one credit used
	if r.ch[0].expected != 9 {
		t.Errorf("expected %d, want 9", r.ch[0].expected)
	}
	var items []Item
	for range 2 {
		it, st, err := r.gate.Poll()
		if st != Ready || err != nil {
			t.Fatal(st, err)
		}
		items = append(items, it)
	}
	if items[0].Seq != 7 || items[1].Seq != 8 || string(items[0].Buf.Bytes()) != "abc" || string(items[1].Buf.Bytes()) != "defg" {
		t.Fatalf("%+v", items)
	}
	if items[0].Subpartition != -1 {
		t.Errorf("subpartition %d, want unknown", items[0].Subpartition)
	}
	// Any order; the segment goes home with the last, once.
	items[1].Buf.Release()
	r.pump()
	if n := r.recv.Local().Stats().InUse; n != 1 {
		t.Errorf("%d segments in use, want 1", n)
	}
	items[0].Buf.Release()
	r.pump()
	if n := r.recv.Local().Stats().InUse; n != 0 {
		t.Errorf("%d segments in use, want none", n)
	}
}

func TestPartialEventsAndRow25(t *testing.T) {
	r := newRig(t, rigConfig{channels: 1, exclusive: 1, gate: GateConfig{Subpartitions: []int{2}}})
	eod := string(event.Append(nil, &endOfData))
	r.feed(r.partial(0, 0, segment.EndOfData, eod, eod))
	r.polls("0:EndOfData", "none") // the first of two subpartitions' is swallowed
	// A number out of order fails the message as a whole: nothing of it is handed out, and it goes home once.
	r.seq[0]++
	r.feed(r.partial(0, 0, segment.DataBuffer, "ab", "c"))
	r.fails(0, ErrReordered)
	if n := r.recv.Local().Stats().InUse; n != 0 {
		t.Errorf("%d segments in use, want none", n)
	}
}

func TestSeedRow26NoBuffer(t *testing.T) {
	r := newRig(t, rigConfig{channels: 2, exclusive: 1})
	r.data(0, 0, 10)
	r.data(0, 0, 10) // no credit for this one
	r.fails(0, ErrNoBuffer)
	r.text(1, "go on") // framing is in step
	r.polls("error without credit", "1:go on")
}

func TestSeedRow29Purpose(t *testing.T) {
	for backlog := int32(0); backlog <= 8; backlog++ {
		r := newRig(t, rigConfig{channels: 1, exclusive: 2, floating: 8})
		r.data(0, backlog, 1)
		if n := r.core.CreditOutstanding(); n < int(backlog) {
			t.Errorf("backlog %d: only %d may be sent", backlog, n)
		}
	}
}

func TestSeedRow30And40Sequence(t *testing.T) {
	r := newRig(t, rigConfig{channels: 1, exclusive: 3})
	r.ch[0].SetNextSeq(1<<31 - 2)
	r.seq[0] = 1<<31 - 2
	for range 3 {
		r.text(0, "x")
	}
	if r.ch[0].expected != -1<<31+1 {
		t.Errorf("expected %d", r.ch[0].expected)
	}
	r.polls("0:x", "0:x", "0:x")
	r.seq[0]++ // a gap
	r.data(0, 0, 9)
	r.fails(0, ErrReordered)
	if n := r.recv.Local().Stats().InUse; n != 0 {
		t.Errorf("%d segments in use", n)
	}
}

func TestSeedRow31And32Blocking(t *testing.T) {
	r := newRig(t, rigConfig{channels: 2, exclusive: 0, floating: 2})
	r.written()
	r.feed(AppendBacklogAnnouncement(nil, rigID(0), 2))
	r.wrote("credit 0 2")
	r.event(0, aligned(1))
	if n := r.port.Budget().Out(); n != 0 {
		t.Errorf("%d floating buffers are still out", n)
	}
	e := aligned(2)
	r.feed(r.frame(1, segment.AlignedBarrier, 1, event.Append(nil, &e)))
	r.fails(1, ErrBlockingBacklog)
	r.polls("0:CheckpointBarrier 1", "error with backlog 1")
}

func TestSeedRow33ReleasedMeanwhile(t *testing.T) {
	r := newRig(t, rigConfig{channels: 2, exclusive: 2, floating: 1})
	r.written()
	f := r.frame(0, segment.DataBuffer, 3, make([]byte, 30))
	r.feed(f[:60]) // the segment is taken, the payload is not complete
	if n := r.recv.Local().Stats().InUse; n != 1 {
		t.Fatalf("%d segments in use, want 1", n)
	}
	r.gate.Release(0)
	r.pump()
	r.wrote("cancel 0")
	r.feed(f[60:])
	r.wrote("cancel 0")
	if n := r.recv.Local().Stats().InUse; n != 0 {
		t.Errorf("%d segments in use", n)
	}
	// The same for one that reached the link but not yet the task.
	if err := r.core.Feed(r.frame(1, segment.DataBuffer, 0, []byte("x"))); err != nil {
		t.Fatal(err)
	}
	r.gate.Release(1)
	r.pump()
	r.wrote("cancel 1")
	if n := r.recv.Local().Stats().InUse; n != 0 {
		t.Errorf("%d segments in use", n)
	}
}

func TestSeedRows34To37Queue(t *testing.T) {
	r := newRig(t, rigConfig{channels: 1, exclusive: 8})
	r.text(0, "a")
	r.text(0, "b")
	r.event(0, unaligned(1))
	r.polls("0:CheckpointBarrier 1", "0:a", "0:b", "none")
	r.text(0, "c")
	r.event(0, timeoutable(2))
	r.text(0, "d")
	if n := r.gate.QueuedBytes(0); n != 1+1+38 {
		t.Errorf("%d bytes queued", n)
	}
	r.polls("0:EventAnnouncement 2 seq 4", "0:c", "0:CheckpointBarrier 2", "0:d", "none")
	if n := r.gate.QueuedBytes(0); n != 0 {
		t.Errorf("%d bytes queued in an empty channel", n)
	}
}

func TestSeedRows38And39Persist(t *testing.T) {
	var s sunk
	r := newRig(t, rigConfig{channels: 2, exclusive: 8, gate: GateConfig{Sink: &s}})
	start := unaligned(1)
	r.text(0, "a")
	r.text(1, "b")
	r.event(0, unaligned(1))
	r.text(0, "behind")
	r.polls("0:CheckpointBarrier 1")
	for ch := range 2 {
		if err := r.gate.CheckpointStarted(ch, &start.Barrier); err != nil {
			t.Fatal(err)
		}
	}
	s.is(t, "1/0 a", "1/1 b")
	r.text(0, "c") // behind the barrier
	r.text(1, "d") // before it
	s.is(t, "1/1 d")
	r.event(1, unaligned(1))
	r.text(1, "e")
	s.is(t)
	for ch := range 2 {
		if err := r.gate.CheckpointStopped(ch, 1); err != nil {
			t.Fatal(err)
		}
	}
	r.text(1, "f")
	s.is(t)
}

func TestSeedRows101To103CountedBuffers(t *testing.T) {
	r := newRig(t, rigConfig{channels: 1, exclusive: 1, floating: 1})
	r.data(0, 0, 4) // exclusive
	r.data(0, 0, 4) // floating
	a, b := r.take(), r.take()
	a2, a3 := a.Retain(), a.Retain()
	for _, h := range []segment.Buffer{a, a2} {
		h.Release()
		r.pump()
		if l := r.ch[0].Ledger(); l.FreeExclusive() != 0 {
			t.Fatal("came home too early")
		}
	}
	a3.Release()
	r.pump()
	if l := r.ch[0].Ledger(); l.FreeExclusive() != 1 {
		t.Error("exclusive did not go to its channel")
	}
	if err := a3.TryRelease(); err == nil {
		t.Error("released once too often, and nobody noticed")
	}
	out := r.port.Budget().Out()
	b.Release()
	r.pump()
	if n := r.port.Budget().Out(); n != out-1 {
		t.Errorf("floating did not go to the pool: %d out, before %d", n, out)
	}
}

func TestSeedRow104RecycleAfterRelease(t *testing.T) {
	r := newRig(t, rigConfig{channels: 1, exclusive: 1, floating: 1})
	r.data(0, 0, 4)
	r.data(0, 0, 4)
	a, b := r.take(), r.take()
	r.gate.Release(0)
	r.pump()
	r.written()
	a.Release()
	b.Release()
	r.pump()
	r.wrote()
	if r.recv.Reserved() != 1 || r.port.Budget().Out() != 0 {
		t.Errorf("reserved %d, floating out %d", r.recv.Reserved(), r.port.Budget().Out())
	}
}

func TestSeedRows105To111Recycle(t *testing.T) {
	r := newRig(t, rigConfig{channels: 2, exclusive: 1, floating: 2})
	l := r.ch[0].Ledger()
	r.data(0, 2, 4) // takes the exclusive one, borrows two
	r.written()
	if l.Free() != 2 || l.FreeFloating() != 2 {
		t.Fatal(l.Free(), l.FreeFloating())
	}
	r.feed(AppendBacklogAnnouncement(nil, rigID(1), 3)) // waits
	a := r.take()
	// required is 3: one more is wanted, so it is announced.
	a.Release()
	r.pump()
	r.wrote("credit 0 1")
	r.data(0, 0, 4) // required 1, floating first
	if l.FreeFloating() != 1 || l.FreeExclusive() != 1 {
		t.Fatalf("floating is not used first: %d+%d", l.FreeExclusive(), l.FreeFloating())
	}
	// A floating buffer goes to the pool, whose next listener gets it.
	r.take().Release()
	r.pump()
	r.wrote("credit 1 1")
	r.data(0, 0, 4) // the other floating one
	r.data(0, 0, 4) // the exclusive one
	r.take().Release()
	r.pump()
	r.wrote("credit 1 1")
	// No floating one to give away: the exclusive one is announced.
	r.take().Release()
	r.pump()
	r.wrote("credit 0 1")
}

// Row 106: more free than wanted, so one floating buffer goes back and nothing is announced.
func TestSeedRow106Surplus(t *testing.T) {
	r := newRig(t, rigConfig{channels: 1, exclusive: 2, floating: 2})
	l := r.ch[0].Ledger()
	r.data(0, 1, 4) // exclusive; borrows two
	r.data(0, 0, 4) // a floating one; required 2, free 1+1
	r.written()
	r.take().Release()
	r.pump()
	r.wrote()
	if l.Free() != 2 || l.FreeFloating() != 0 || r.port.Budget().Out() != 1 {
		t.Errorf("free %d+%d, out %d", l.FreeExclusive(), l.FreeFloating(), r.port.Budget().Out())
	}
}

// Row 113: only the first unannounced credit makes a message; what follows joins it.
func TestSeedRow113OneMessage(t *testing.T) {
	r := newRig(t, rigConfig{channels: 1, exclusive: 3})
	for range 3 {
		r.data(0, 0, 4)
	}
	r.written()
	r.wire.full = true
	for range 3 {
		r.take().Release()
		r.pump()
	}
	if n := r.core.Pending(); n != 1 {
		t.Errorf("%d messages wait, want 1", n)
	}
	r.wrote()
	r.wire.full = false
	r.pump()
	r.wrote("credit 0 3")
}

// Rows 41 and 42: whoever waits for the gate hears of the first item and of the first priority event, once each.
func TestSeedRows41And42Notifications(t *testing.T) {
	r := newRig(t, rigConfig{channels: 2, exclusive: 4})
	var heard []bool
	r.gate.onReady = func(priority bool) { heard = append(heard, priority) }
	is := func(want ...bool) {
		t.Helper()
		if !slices.Equal(heard, want) {
			t.Fatalf("heard %v, want %v", heard, want)
		}
		heard = nil
	}
	r.text(0, "a")
	r.text(0, "b")
	r.text(1, "c")
	is(false)
	r.event(0, unaligned(1))
	r.event(0, unaligned(2))
	r.event(1, unaligned(1))
	is(true)
	r.polls("0:CheckpointBarrier 1", "1:CheckpointBarrier 1", "0:CheckpointBarrier 2")
	r.polls("1:c", "0:a", "0:b", "none")
	heard = nil
	r.text(1, "d")
	is(false)
	r.gate.onReady = nil
}

// Rows 43 to 45: a part that is not the last says nothing about the backlog; and on every path a buffer has one owner, who
// gives it back once.
func TestSeedRows43To45Ownership(t *testing.T) {
	r := newRig(t, rigConfig{channels: 4, exclusive: 2, floating: 2})
	r.written()
	r.feed(r.partial(0, 0, segment.DataBuffer, "a", "b", "c"))
	if got := r.ch[0].Ledger().Required(); got != 2 {
		t.Errorf("required %d, want 2", got)
	}
	inUse := func(want int) {
		t.Helper()
		if got := r.recv.Local().Stats().InUse; got != want {
			t.Fatalf("%d segments in use, want %d", got, want)
		}
	}
	inUse(1)
	r.polls("0:a", "0:b", "0:c")
	inUse(0)
	r.text(1, "queued")
	inUse(1)
	r.seq[1] += 7
	r.text(1, "out of order")
	inUse(1)
	r.text(1, "to a failed channel")
	inUse(1)
	r.polls("error expected 1, but received 8", "none") // the queued one is not handed out any more
	r.gate.Release(1)
	r.pump()
	inUse(0)
	r.text(1, "to a released channel")
	inUse(0)
	r.text(2, "at the task")
	b := r.take()
	r.gate.Release(2)
	r.pump()
	inUse(1)
	b.Release()
	r.pump()
	inUse(0)
	r.text(3, "when the connection breaks")
	if err := r.core.Feed(r.frame(3, segment.DataBuffer, 0, make([]byte, 20))[:60]); err != nil {
		t.Fatal(err)
	}
	inUse(2)
	r.core.Fail(errors.New("gone"))
	r.pump()
	inUse(1) // what is queued stays until the channel is released
}
