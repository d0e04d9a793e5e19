package credit

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/weirflow/weir/segment"
	"github.com/weirflow/weir/serde/event"
)

// lastError checks the last error that was sent and forgets all.
func (r *senderRig) lastError(class string, fatal bool) {
	r.t.Helper()
	if len(r.errors) != 1 {
		r.t.Fatalf("%d errors were sent, want one %s", len(r.errors), class)
	}
	e := r.errors[0]
	r.errors = nil
	if e.Cause.Class != class || e.Fatal != fatal {
		r.t.Errorf("got %v, fatal %v; want %s, %v", e.Cause, e.Fatal, class, fatal)
	}
}

func (r *senderRig) noError() {
	r.t.Helper()
	if len(r.errors) > 0 {
		r.t.Fatalf("an error was sent: %v", r.errors[0].Cause)
	}
}

// TestUnknownReader: what a message for a channel that does not exist leads to.
func TestUnknownReader(t *testing.T) {
	r := newSenderRig(t, PartitionConfig{Exclusive: 2}, 16, 64)
	defer r.close()
	id := senderChannel(0)
	for name, frame := range map[string][]byte{
		"credit": AppendAddCredit(nil, id, 1),
		"resume": AppendResumeConsumption(nil, id),
		"ack":    AppendAckAllUserRecordsProcessed(nil, id),
	} {
		r.feed(frame)
		r.lastError(ClassIllegalState, true)
		_ = name
	}
	r.feed(AppendNewBufferSize(nil, id, 100), AppendSegmentID(nil, id, 0, 1), AppendCancelPartitionRequest(nil, id), AppendCancelPartitionRequest(nil, id))
	r.noError()
	// The connection goes on.
	r.request(0, 1)
	r.buffer(0, []byte("x"), true)
	r.one(segment.DataBuffer, 0, 0, "x")
}

// TestBadRequests (F4): each is answered in the fatal form, and the connection stays open.
func TestBadRequests(t *testing.T) {
	r := newSenderRig(t, PartitionConfig{Exclusive: 2, Subpartitions: 2}, 16, 64)
	defer r.close()
	r.requestOf(senderPartition, One(2), senderChannel(1), 1)
	r.lastError(ClassIllegalArgument, true)
	r.requestOf(senderPartition, SubpartitionRange{1, 1<<31 - 1}, senderChannel(1), 1)
	r.lastError(ClassIllegalArgument, true)
	r.request(0, -1)
	r.lastError(ClassIllegalArgument, true)
	r.request(0, 1)
	r.noError()
	r.request(0, 1)
	r.lastError(ClassIllegalState, true)
	r.requestOf(senderPartition, SubpartitionRange{0, 1}, senderChannel(1), 1) // one of the two has a view
	r.lastError(ClassIllegalState, true)
	r.request(1, 1) // which did not cost the other one its only view
	r.noError()
	r.feed(AppendResumeConsumption(nil, senderChannel(0)))
	r.lastError(ClassIllegalState, true)
	r.buffer(0, []byte("x"), true)
	r.one(segment.DataBuffer, 0, 0, "x")
}

// TestMaxChannels: a client cannot make a connection cost any amount of memory.
func TestMaxChannels(t *testing.T) {
	r := newSenderRig(t, PartitionConfig{Exclusive: 2, Subpartitions: 4}, 16, 64)
	defer r.close()
	r.core.MaxChannels = 2
	r.request(0, 1)
	r.requestOf(MakePartitionID(ID{9}, 0, ID{}, ID{}, 0, 0), One(0), senderChannel(9), 1)
	r.noError()
	r.request(1, 1)
	r.lastError(ClassIllegalState, true)
	r.feed(AppendCancelPartitionRequest(nil, senderChannel(9)))
	r.request(1, 1)
	r.noError()
}

// TestSameReceiver: a second request under an id that is in use takes its place, and the first one's view is released.
func TestSameReceiver(t *testing.T) {
	r := newSenderRig(t, PartitionConfig{Exclusive: 2, Subpartitions: 2}, 16, 64)
	defer r.close()
	r.request(0, 1)
	r.requestOf(senderPartition, One(1), senderChannel(0), 1)
	if readers, _ := r.core.Readers(); readers != 1 || !r.w.Released(0) || r.w.Released(1) {
		t.Errorf("%d readers, released %v and %v", readers, r.w.Released(0), r.w.Released(1))
	}
	r.buffer(1, []byte("x"), true)
	r.one(segment.DataBuffer, 0, 0, "x")
}

// TestTaskEvent (F25): an event without a receiver is answered on its channel; with one it is delivered.
func TestTaskEvent(t *testing.T) {
	r := newSenderRig(t, PartitionConfig{Exclusive: 2}, 16, 64)
	defer r.close()
	e := event.Append(nil, &event.Event{Kind: event.Generic, Class: "a.B", Payload: []byte{5}})
	r.feed(AppendTaskEventRequest(nil, e, &senderPartition, senderChannel(3)))
	if r.errors[0].Receiver != senderChannel(3) {
		t.Error("another receiver")
	}
	r.lastError(ClassIllegalArgument, false)
	got := ""
	r.core.TaskEvent = func(e *event.Event, p *PartitionID) bool { got = e.Class + p.String(); return true }
	r.feed(AppendTaskEventRequest(nil, e, &senderPartition, senderChannel(3)))
	if r.noError(); got != "a.B"+senderPartition.String() {
		t.Errorf("got %q", got)
	}
}

// TestNewBufferSize: the writer hears it with the next buffer.
func TestNewBufferSize(t *testing.T) {
	r := newSenderRig(t, PartitionConfig{Exclusive: 2, Subpartitions: 2}, 16, 64)
	defer r.close()
	r.request(1, 2)
	r.feed(AppendNewBufferSize(nil, senderChannel(1), 48))
	for sub, want := range []int{0, 48} {
		b, _ := r.w.Take(sub)
		if hint, ok := r.w.Add(sub, segment.ReadAll(b.Resized(1)), 0); hint != want || !ok {
			t.Errorf("subpartition %d: hint %d, want %d", sub, hint, want)
		}
	}
}

// TestCancel (F19, CRD-15): queued buffers go home at once, the writer hears that nobody is there, and other channels
// go on. A partition whose consumers and writer are done is released.
func TestCancel(t *testing.T) {
	r := newSenderRig(t, PartitionConfig{Exclusive: 2, Subpartitions: 2}, 32, 64)
	released := false
	r.part.cfg.OnReleased = func() { released = true }
	r.request(0, 5)
	r.request(1, 2)
	for range 10 {
		r.buffer(0, []byte("x"), true)
	}
	if n := len(r.take()); n != 5 {
		t.Fatalf("%d messages for 5 credits", n)
	}
	r.feed(AppendCancelPartitionRequest(nil, senderChannel(0)))
	if n := r.part.Subpartition(0).Queued(); n != 0 {
		t.Errorf("%d buffers are queued for nobody", n)
	}
	if r.local.Drain(); r.local.Charged(0) != 0 {
		t.Errorf("%d buffers are charged", r.local.Charged(0))
	}
	if !r.w.Released(0) || r.w.Released(1) {
		t.Error("the writer was told of the wrong one")
	}
	if err := r.w.Wait(t.Context(), 0, func() bool { return false }); !errors.Is(err, ErrReleased) {
		t.Errorf("a wait for room ended with %v", err)
	}
	b, _ := r.w.Take(0)
	if hint, ok := r.w.Add(0, segment.ReadAll(b.Resized(3)), 0); hint != -1 || ok {
		t.Errorf("add: %d, %v", hint, ok)
	}
	if r.w.AddEvent(0, someEvent()) {
		t.Error("an event was accepted")
	}
	r.feed(AppendAddCredit(nil, senderChannel(0), 1))
	r.lastError(ClassIllegalState, true)
	r.buffer(1, []byte("y"), true)
	r.one(segment.DataBuffer, 0, 0, "y")
	r.w.FinishAll()
	r.w.Close()
	r.one(segment.EndOfPartition, 1, 0, "")
	if released {
		t.Error("released before the last consumer has gone")
	}
	r.feed(AppendCancelPartitionRequest(nil, senderChannel(1)))
	if gone, cause := r.w.Gone(); !released || !gone || cause != nil || !r.part.Done() {
		t.Errorf("released %v, gone %v, %v", released, gone, cause)
	}
	if n, _ := r.reg.Len(); n != 0 {
		t.Error("still registered")
	}
	r.close()
}

// TestKeepCancelled: as in Flink the queue stays until the whole partition goes.
func TestKeepCancelled(t *testing.T) {
	r := newSenderRig(t, PartitionConfig{Exclusive: 2, KeepCancelled: true}, 32, 64)
	defer r.close()
	r.request(0, 1)
	r.feed(AppendCancelPartitionRequest(nil, senderChannel(0)))
	r.buffer(0, []byte("x"), true)
	r.none()
	if n := r.part.Subpartition(0).Queued(); n != 1 || r.w.Released(0) {
		t.Errorf("%d buffers", n)
	}
}

// TestProducerFails (F18): every consumer is told at once, once, and on its own channel.
func TestProducerFails(t *testing.T) {
	r := newSenderRig(t, PartitionConfig{Exclusive: 2, Subpartitions: 3}, 32, 64)
	boom := errors.New("boom")
	r.request(0, 0)
	r.request(2, 1)
	r.buffer(0, []byte("x"), true)
	r.buffer(2, []byte("y"), true)
	if len(r.take()) != 1 {
		t.Fatal("one has credit")
	}
	r.w.Fail(boom)
	r.none()
	var to []ChannelID
	for _, e := range r.errors {
		to = append(to, e.Receiver)
		if !errors.Is(e.Cause, ErrProducerFailed) || e.Fatal || !slices.Contains([]string{"producer failed: boom"}, e.Cause.Message) {
			t.Errorf("got %v", e.Cause)
		}
	}
	slices.SortFunc(to, func(a, b ChannelID) int { return int(a[0]) - int(b[0]) })
	if !slices.Equal(to, []ChannelID{senderChannel(0), senderChannel(2)}) {
		t.Errorf("told %v", to)
	}
	r.errors = nil
	r.feed(AppendAddCredit(nil, senderChannel(0), 1)) // accepted, without effect
	r.none()
	r.noError()
	if gone, cause := r.w.Gone(); !gone || cause != boom {
		t.Errorf("gone %v, %v", gone, cause)
	}
	if err := r.w.Wait(t.Context(), -1, func() bool { return false }); err != boom {
		t.Errorf("wait: %v", err)
	}
	r.request(1, 1) // not known any more: waits
	if _, waiting := r.core.Readers(); waiting != 1 {
		t.Error("the request was not kept waiting")
	}
	r.close()
}

// TestConnectionFails (F5, F7, F9): all readers are released, the client is told once, nothing is sent after.
func TestConnectionFails(t *testing.T) {
	r := newSenderRig(t, PartitionConfig{Exclusive: 2, Subpartitions: 2}, 32, 64)
	r.request(0, 2)
	r.requestOf(MakePartitionID(ID{9}, 0, ID{}, ID{}, 0, 0), One(0), senderChannel(9), 1)
	var d ServerDecoder
	err := d.Feed([]byte("GET / HTTP/1.1\r\n"), r.core)
	if !errors.Is(err, ErrBadMagic) {
		t.Fatalf("got %v", err)
	}
	r.core.Fail(err)
	r.lastError(ClassIOException, true)
	r.core.Fail(err)
	r.noError()
	if readers, waiting := r.core.Readers(); readers+waiting > 0 {
		t.Errorf("%d readers, %d waiting", readers, waiting)
	}
	if _, waiting := r.reg.Len(); waiting > 0 {
		t.Error("the registry keeps a request of a connection that is gone")
	}
	r.buffer(1, []byte("x"), true)
	r.none()
	// What is still in the client's stream is dropped without a word.
	r.feed(AppendAddCredit(nil, senderChannel(0), 1), AppendResumeConsumption(nil, senderChannel(0)), AppendNewBufferSize(nil, senderChannel(0), 1),
		AppendAckAllUserRecordsProcessed(nil, senderChannel(0)), AppendCancelPartitionRequest(nil, senderChannel(0)))
	r.request(1, 1)
	r.noError()
	if readers, _ := r.core.Readers(); readers > 0 {
		t.Error("a request was served on a failed connection")
	}
	r.close()
}

// TestCloseRequest (F26): an orderly end.
func TestCloseRequest(t *testing.T) {
	r := newSenderRig(t, PartitionConfig{Exclusive: 2}, 32, 64)
	r.request(0, 2)
	var d ServerDecoder
	if err := d.Feed(AppendCloseRequest(nil), r.core); err != ErrCloseRequested {
		t.Errorf("got %v", err)
	}
	if readers, _ := r.core.Readers(); readers > 0 || !r.w.Released(0) {
		t.Error("the reader was not released")
	}
	r.noError()
	r.close()
}

// TestCRD26 (CRD-26, F2, F3, I26): a request waits for its partition, but not for ever; other channels are not touched.
func TestCRD26(t *testing.T) {
	r := newSenderRig(t, PartitionConfig{Exclusive: 2}, 64, 64)
	late, never := MakePartitionID(ID{5}, 0, ID{}, ID{}, 0, 0), MakePartitionID(ID{6}, 0, ID{}, ID{}, 0, 0)
	r.request(0, 5)
	r.requestOf(late, One(0), senderChannel(1), 5)
	r.requestOf(never, One(0), senderChannel(2), 5)
	r.requestOf(late, One(7), senderChannel(3), 5) // no such index: its own error once the partition is there
	r.noError()
	if next, ok := r.reg.Expire(); !ok || next != time.Second {
		t.Errorf("expires at %v, %v", next, ok)
	}
	r.feed(AppendNewBufferSize(nil, senderChannel(2), 5))
	r.feed(AppendAddCredit(nil, senderChannel(2), 5)) // counts as unknown
	r.lastError(ClassIllegalState, true)
	r.clock = 300 * time.Millisecond
	part2, w2, local2 := r.newPartition(PartitionConfig{Exclusive: 2}, late, 16)
	b, _ := w2.Take(0)
	copy(b.Memory(), "late")
	w2.Add(0, segment.ReadAll(b.Resized(4)), 0)
	part2.Poll()
	if err := r.reg.Register(part2); err != nil {
		t.Fatal(err)
	}
	if err := r.reg.Register(part2); !errors.Is(err, errRegistered) {
		t.Errorf("registered twice: %v", err)
	}
	r.lastError(ClassIllegalArgument, true) // the bad index
	r.one(segment.DataBuffer, 0, 0, "late")
	r.clock = time.Second - 1
	if r.reg.Expire(); len(r.errors) > 0 {
		t.Fatal("expired too early")
	}
	r.clock = time.Second
	if _, ok := r.reg.Expire(); ok {
		t.Error("something still waits")
	}
	if e := r.errors[0]; e.Receiver != senderChannel(2) || e.Cause.Message != "Partition "+never.String()+" not found." {
		t.Errorf("got %v to %v", e.Cause, e.Receiver)
	}
	r.lastError(ClassPartitionNotFound, false)
	r.buffer(0, []byte("x"), true)
	r.one(segment.DataBuffer, 0, 0, "x")
	// The client may ask again under the same id.
	r.requestOf(never, One(0), senderChannel(2), 5)
	r.requestOf(never, One(0), senderChannel(2), 5) // but not twice
	r.lastError(ClassIllegalState, true)
	r.feed(AppendCancelPartitionRequest(nil, senderChannel(2)))
	r.clock = time.Hour
	r.reg.Expire()
	r.noError()
	// Releasing a partition that others wait for tells them.
	r.requestOf(never, One(0), senderChannel(2), 5)
	r.reg.Release(never, nil)
	r.lastError(ClassPartitionNotFound, false)
	r.reg.Release(late, nil)
	w2.Close()
	part2.Poll()
	local2.Close()
	r.close()
}

// TestRegistryClose ends everything that waits.
func TestRegistryClose(t *testing.T) {
	r := newSenderRig(t, PartitionConfig{Exclusive: 2}, 16, 64)
	r.requestOf(MakePartitionID(ID{6}, 0, ID{}, ID{}, 0, 0), One(0), senderChannel(2), 5)
	r.reg.Close()
	r.lastError(ClassPartitionNotFound, false)
	if !r.part.Released() {
		t.Error("the partition was not released")
	}
	if err := r.reg.Register(r.part); err == nil {
		t.Error("a closed registry took a partition")
	}
	r.close()
	forever := NewRegistry(RegistryConfig{Timeout: -1, Clock: func() time.Duration { return time.Hour }})
	forever.wait(&waiter{gone: func(error) { t.Error("expired") }})
	if _, ok := forever.Expire(); ok {
		t.Error("a wait without end has an end")
	}
}

// TestFairness (I13): with k readers that always have something each gets one message in k, however much credit it has.
func TestFairness(t *testing.T) {
	const k = 5
	r := newSenderRig(t, PartitionConfig{Exclusive: 2, Subpartitions: k}, 256, 64)
	defer r.close()
	r.room = 0
	for i := range k {
		r.request(i, int32(10+20*i))
		for range 20 {
			r.buffer(i, []byte("x"), true)
		}
	}
	r.pump()
	r.room, r.wanted = 10*k, true
	sent := r.take()
	if len(sent) != 10*k {
		t.Fatalf("%d messages", len(sent))
	}
	for i, m := range sent {
		if want := sent[i%k].Receiver; m.Receiver != want || i < k && slices.ContainsFunc(sent[:i], func(x sentMessage) bool { return x.Receiver == m.Receiver }) {
			t.Fatalf("message %d went to %v", i, m.Receiver)
		}
	}
}

// TestCRD17Sender (CRD-17): a channel without credit takes no turns from the others.
func TestCRD17Sender(t *testing.T) {
	r := newSenderRig(t, PartitionConfig{Exclusive: 2, Subpartitions: 4}, 256, 64)
	defer r.close()
	for i := range 4 {
		r.request(i, 2)
	}
	for i := range 40 {
		r.buffer(0, []byte("x"), true)
		for sub := 1; sub < 4; sub++ {
			r.buffer(sub, []byte{byte(i)}, true)
			r.feed(AppendAddCredit(nil, senderChannel(sub), 1))
		}
	}
	got := map[ChannelID]int{}
	for _, m := range r.take() {
		got[m.Receiver]++
	}
	for sub, want := range []int{2, 40, 40, 40} {
		if n := got[senderChannel(sub)]; n != want {
			t.Errorf("channel %d got %d messages, want %d", sub, n, want)
		}
	}
}

// TestCreditSaturates: a peer that grants without end gets no more than it can use, and breaks nothing.
func TestCreditSaturates(t *testing.T) {
	r := newSenderRig(t, PartitionConfig{Exclusive: 2}, 16, 64)
	defer r.close()
	r.request(0, 1<<31-1)
	r.feed(AppendAddCredit(nil, senderChannel(0), 1<<31-1))
	if c := r.core.Reader(senderChannel(0)).Credit(); c != 1<<31-1 {
		t.Errorf("credit %d", c)
	}
	r.buffer(0, []byte("x"), true)
	r.one(segment.DataBuffer, 0, 0, "x")
}
