package credit

import (
	"errors"
	"strings"
	"testing"

	"github.com/weirflow/weir/segment"
)

// want checks one message.
func (r *senderRig) want(m sentMessage, typ segment.DataType, seq, backlog int32, payload string) {
	r.t.Helper()
	if m.Type != typ || m.Seq != seq || m.Backlog != backlog || typ.IsBuffer() && string(m.payload) != payload {
		r.t.Errorf("got %s seq %d backlog %d %q, want %s seq %d backlog %d %q", m.Type, m.Seq, m.Backlog, m.payload, typ, seq, backlog, payload)
	}
}

// one checks that exactly one message was sent.
func (r *senderRig) one(typ segment.DataType, seq, backlog int32, payload string) {
	r.t.Helper()
	sent := r.take()
	if len(sent) != 1 {
		r.t.Fatalf("%d messages were sent, want 1", len(sent))
	}
	r.want(sent[0], typ, seq, backlog, payload)
}

// none checks that nothing was sent.
func (r *senderRig) none() {
	r.t.Helper()
	if sent := r.take(); len(sent) > 0 {
		r.t.Fatalf("%d messages were sent, want none: %+v", len(sent), sent[0].BufferHeader)
	}
}

// state checks what the subpartition would say: available with and without credit, and the backlog.
func (r *senderRig) state(with, without bool, backlog int32) {
	r.t.Helper()
	for r.part.Poll() {
	}
	s := r.part.Subpartition(0)
	if s.available(true) != with || s.available(false) != without || s.Backlog() != backlog {
		r.t.Errorf("available %v, %v, backlog %d; want %v, %v, %d", s.available(true), s.available(false), s.Backlog(), with, without, backlog)
	}
}

// TestRecordedSubpartition is the table that was recorded from Flink's class: availability with and without credit, the
// backlog, and what a poll gives.
func TestRecordedSubpartition(t *testing.T) {
	r := newSenderRig(t, PartitionConfig{Exclusive: 2}, 16, 64)
	defer r.close()
	s := r.part.Subpartition(0)
	poll := func(typ segment.DataType, size int, seq, backlog int32, next segment.DataType) {
		t.Helper()
		var p Polled
		ok := s.poll(&p)
		if !ok || p.Type != typ || p.Buf.Len() != size || p.Seq != seq || p.Backlog != backlog || p.Next != next {
			t.Fatalf("got %v %+v", ok, p)
		}
		p.Buf.Release()
	}
	if _, err := r.part.CreateView(One(0), &countingListener{}); err != nil {
		t.Fatal(err)
	}
	w := r.buffer(0, []byte("12345"), false)
	r.state(false, false, 0)
	poll(segment.DataBuffer, 5, 0, 0, segment.None)
	write(w, "abc")
	r.w.Flush(0)
	r.state(true, false, 1)
	poll(segment.DataBuffer, 3, 1, 0, segment.None)
	write(w, "12345678")
	finish(w)
	w = r.buffer(0, []byte("xy"), false)
	r.state(true, false, 1)
	poll(segment.DataBuffer, 8, 2, 0, segment.None)
	finish(w)
	r.w.AddEvent(0, alignedBarrier(1))
	r.state(true, false, 1)
	poll(segment.DataBuffer, 2, 3, 0, segment.AlignedBarrier)
	r.state(true, true, 0)
	poll(segment.AlignedBarrier, 38, 4, 0, segment.None)
	r.buffer(0, []byte("data"), true)
	r.state(false, false, 0)
	if s.poll(new(Polled)) {
		t.Fatal("a blocked subpartition gave something")
	}
	r.w.AddEvent(0, unalignedBarrier(2))
	r.state(false, true, 0)
	poll(segment.PrioritizedEvent, 38, 5, 0, segment.None)
	if err := s.resume(); err != nil {
		t.Fatal(err)
	}
	r.state(true, false, 0)
	poll(segment.DataBuffer, 4, 6, 0, segment.None)
	if err := s.resume(); !errors.Is(err, errNotBlocked) {
		t.Fatalf("a second resume: %v", err)
	}
	r.w.Finish(0)
	r.state(true, true, 0)
	poll(segment.EndOfPartition, 4, 7, 0, segment.None)
	if s.Released() {
		t.Error("released before the consumer has gone")
	}
}

// countingListener counts notifications.
type countingListener struct{ data, priority int }

func (l *countingListener) DataAvailable()      { l.data++ }
func (l *countingListener) PriorityEvent(int32) { l.priority++ }

// TestCRD01 (CRD-01): the backlog leaves out the buffer that cannot be sent yet, and events.
func TestCRD01(t *testing.T) {
	r := newSenderRig(t, PartitionConfig{Exclusive: 2}, 16, 64)
	defer r.close()
	r.buffer(0, []byte("one"), true)
	r.buffer(0, []byte("two"), true)
	w := r.buffer(0, []byte("0123456789"), false)
	r.state(true, false, 2)
	r.w.Flush(0)
	r.state(true, false, 3)
	finish(w)
	r.w.Finish(0)
	r.state(true, false, 3)
}

// TestCRD04 (CRD-04): what was flushed, finished or added while blocked arrives after resume, without any other cause.
func TestCRD04(t *testing.T) {
	for name, add := range map[string]func(r *senderRig) func(){
		"flushed": func(r *senderRig) func() {
			w := r.buffer(0, nil, false)
			write(w, "12345")
			r.w.Flush(0)
			return func() { finish(w) }
		},
		"finished": func(r *senderRig) func() { r.buffer(0, []byte("12345"), true); return func() {} },
		"event":    func(r *senderRig) func() { r.w.AddEvent(0, someEvent()); return func() {} },
	} {
		t.Run(name, func(t *testing.T) {
			r := newSenderRig(t, PartitionConfig{Exclusive: 2}, 16, 64)
			defer r.close()
			r.request(0, 2)
			r.w.AddEvent(0, alignedBarrier(1))
			r.one(segment.AlignedBarrier, 0, 0, "")
			done := add(r)
			defer done()
			r.none()
			r.feed(AppendResumeConsumption(nil, senderChannel(0)))
			if name == "event" {
				r.one(segment.EventBuffer, 1, 0, "")
			} else {
				r.one(segment.DataBuffer, 1, 0, "12345")
			}
		})
	}
}

// TestCRD24 (CRD-24): without consumption at most one announcement for each change of the backlog, and nothing else.
func TestCRD24(t *testing.T) {
	r := newSenderRig(t, PartitionConfig{Exclusive: 0}, 16, 64)
	defer r.close()
	r.request(0, 0)
	for range 6 {
		r.buffer(0, []byte("x"), true)
		r.none()
	}
	for range 1000 { // time passes: timers and turns without a cause
		r.part.FlushDirty()
		r.none()
	}
	if n := len(r.backlogs); n == 0 || n > 5 || len(r.errors) > 0 {
		t.Errorf("%d announcements: %d", n, r.backlogs)
	}
}

// TestCRD28Sender (CRD-28): sequence numbers wrap as Java's ints do.
func TestCRD28Sender(t *testing.T) {
	r := newSenderRig(t, PartitionConfig{Exclusive: 2}, 16, 64)
	defer r.close()
	r.part.Subpartition(0).seq = 1<<31 - 2
	r.request(0, 10)
	for range 5 {
		r.buffer(0, []byte("x"), true)
	}
	for i, m := range r.take() {
		if want := []int32{2147483646, 2147483647, -2147483648, -2147483647, -2147483646}[i]; m.Seq != want {
			t.Errorf("message %d has number %d, want %d", i, m.Seq, want)
		}
	}
}

// TestEmptyMessage: a finished buffer whose bytes were all sent is sent as an empty message only by a process that is
// configured without exclusive buffers.
func TestEmptyMessage(t *testing.T) {
	for _, exclusive := range []int{0, 2} {
		r := newSenderRig(t, PartitionConfig{Exclusive: exclusive}, 16, 64)
		r.request(0, 5)
		w := r.buffer(0, []byte("abc"), false)
		r.w.Flush(0)
		r.one(segment.DataBuffer, 0, 0, "abc")
		finish(w)
		r.buffer(0, []byte("de"), true)
		sent := r.take()
		if want := 2 - min(exclusive, 1); len(sent) != want {
			t.Fatalf("exclusive %d: %d messages, want %d", exclusive, len(sent), want)
		}
		if exclusive == 0 {
			r.want(sent[0], segment.DataBuffer, 1, 0, "")
			r.want(sent[1], segment.DataBuffer, 2, 0, "de")
		} else {
			r.want(sent[0], segment.DataBuffer, 1, 0, "de")
		}
		r.close()
	}
}

// TestPriorityWhileBlocked: since 2.3 a priority event may go out while the subpartition is blocked, if there is no
// credit; in 1.20 it waits for resume.
func TestPriorityWhileBlocked(t *testing.T) {
	for _, profile := range []Profile{Flink23, Flink120} {
		r := newSenderRig(t, PartitionConfig{Exclusive: 2, Profile: profile}, 16, 64)
		r.request(0, 0)
		r.w.AddEvent(0, alignedBarrier(1))
		r.one(segment.AlignedBarrier, 0, 0, "")
		r.w.AddEvent(0, unalignedBarrier(2))
		if profile == Flink23 {
			r.one(segment.PrioritizedEvent, 1, 0, "")
		} else {
			r.none()
			if r.part.Subpartition(0).poll(new(Polled)) {
				t.Error("1.20 gave a priority event while blocked")
			}
			r.feed(AppendResumeConsumption(nil, senderChannel(0)))
			r.one(segment.PrioritizedEvent, 1, 0, "")
		}
		r.close()
	}
}

// TestFlushTimer: the timer sends what is committed though the writer does nothing more, and stops when nothing is open.
func TestFlushTimer(t *testing.T) {
	r := newSenderRig(t, PartitionConfig{Exclusive: 2, Subpartitions: 3}, 16, 64)
	defer r.close()
	r.request(1, 5)
	w := r.buffer(1, []byte("abc"), false)
	r.none()
	if !r.part.FlushDirty() {
		t.Error("the timer would stop with a buffer open")
	}
	r.one(segment.DataBuffer, 0, 0, "abc")
	r.part.FlushDirty()
	r.none()
	write(w, "de")
	r.part.FlushDirty()
	r.one(segment.DataBuffer, 1, 0, "de")
	finish(w)
	r.w.AddEvent(1, someEvent())
	r.one(segment.EventBuffer, 2, 0, "")
	if r.part.FlushDirty() || len(r.part.dirty) > 0 {
		t.Error("the timer goes on with nothing open")
	}
}

// TestAccessors: what the halves say about themselves.
func TestAccessors(t *testing.T) {
	r := newSenderRig(t, PartitionConfig{Subpartitions: 2, BufferSize: 100}, 16, 64)
	defer r.close()
	if r.w.Partition() != r.part || r.w.Subpartitions() != 2 || r.part.Subpartitions() != 2 || r.part.ID() != senderPartition || r.part.Subpartition(1).Index() != 1 {
		t.Error("parts")
	}
	b, _ := r.w.Take(0)
	hint, ok := r.w.Add(0, segment.ReadAll(b.Resized(10)), 0)
	if hint != 100 || !ok {
		t.Errorf("hint %d, %v", hint, ok)
	}
	if !r.w.Available(0) || r.w.Pending() != 1 {
		t.Error("available")
	}
	for _, bad := range []PartitionConfig{{}, {Subpartitions: 1}, {Subpartitions: 1, Segments: 1}} {
		if _, _, err := NewPartition(bad); !errors.Is(err, ErrConfig) || !strings.HasPrefix(err.Error(), "credit: ") {
			t.Errorf("%+v: %v", bad, err)
		}
	}
}

// TestNotifications: when the listener hears of something, and when not.
func TestNotifications(t *testing.T) {
	r := newSenderRig(t, PartitionConfig{Exclusive: 2}, 16, 64)
	defer r.close()
	s := r.part.Subpartition(0)
	l := &countingListener{}
	v, err := r.part.CreateView(One(0), l)
	if err != nil {
		t.Fatal(err)
	}
	heard := func(what string, data, priority int) {
		t.Helper()
		for r.part.Poll() {
		}
		if l.data != data || l.priority != priority {
			t.Errorf("%s: %d data and %d priority notifications, want %d and %d", what, l.data, l.priority, data, priority)
		}
		*l = countingListener{}
	}
	drain := func() {
		for p := (Polled{}); v.Poll(&p); {
			p.Buf.Release()
		}
	}
	w := r.buffer(0, []byte("a"), false)
	heard("an unfinished buffer", 0, 0)
	r.w.Flush(0)
	heard("its flush", 1, 0)
	r.w.Flush(0)
	heard("a second flush", 0, 0)
	drain()
	r.w.Flush(0)
	heard("a flush of nothing", 0, 0)
	finish(w)
	r.w.AddEvent(0, alignedBarrier(1))
	heard("an event behind a buffer", 1, 0)
	drain()
	if !s.Blocked() {
		t.Fatal("not blocked")
	}
	w = r.buffer(0, []byte("b"), false)
	r.w.Flush(0)
	heard("a flush while blocked", 0, 0)
	r.w.AddEvent(0, unalignedBarrier(2))
	r.w.AddEvent(0, unalignedBarrier(3))
	heard("two priority events while blocked", 0, 1)
	finish(w)
	if err := v.Resume(); err != nil {
		t.Fatal(err)
	}
	heard("resume", 0, 0)
	r.w.Finish(0)
	heard("the end", 1, 0)
	v.Release()
	r.w.Close()
	heard("nothing after the release of the view", 0, 0)
}

// TestLateAdds: a subpartition that is finished or released takes nothing, whoever adds it, and keeps nothing.
func TestLateAdds(t *testing.T) {
	r := newSenderRig(t, PartitionConfig{Exclusive: 2}, 16, 64)
	s := r.part.Subpartition(0)
	add := func() bool {
		b, _ := r.w.Take(0)
		return s.add(segment.ReadAll(b.Resized(1)), 0)
	}
	if !s.finish() || add() || s.finish() {
		t.Error("something was added after the end")
	}
	s.flush()
	if s.Queued() != 1 || !s.flushRequested {
		t.Errorf("%d elements, flush requested %v", s.Queued(), s.flushRequested)
	}
	s.release(ErrReleased)
	if s.poll(new(Polled)) || s.flushRequested || add() {
		t.Error("a released subpartition goes on")
	}
	r.close() // finds what did not come home
}

// The buffer that a writer needs can be one that it has finished itself, and that only the next buffer would move.
func TestReclaim(t *testing.T) {
	for _, c := range []struct {
		name      string
		exclusive int
		flushed   bool // the bytes were sent before the buffer was finished
		want      int  // messages that Reclaim brings about
	}{
		{"bytes left", 2, false, 1},
		{"nothing left", 2, true, 0},
		{"nothing left, empty messages", 0, true, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newSenderRig(t, PartitionConfig{Subpartitions: 2, Exclusive: c.exclusive}, 4, 16)
			defer r.close()
			r.request(0, 9)
			w := r.buffer(0, []byte("abc"), false)
			r.take()
			if c.flushed {
				r.w.Flush(0)
				if got := r.take(); len(got) != 1 {
					t.Fatalf("%d messages at the flush, want 1", len(got))
				}
			}
			finish(w)
			if got := r.take(); len(got) != 0 {
				t.Fatalf("%d messages before anybody asks, want none, as in Flink", len(got))
			}
			r.w.Reclaim()
			if got := r.take(); len(got) != c.want {
				t.Errorf("%d messages, want %d", len(got), c.want)
			}
			r.local.Drain()
			if u := r.local.Stats(); u.InUse != 0 || r.part.Subpartition(0).Queued() != 0 {
				t.Errorf("%d segments in use, %d elements queued, want none", u.InUse, r.part.Subpartition(0).Queued())
			}
		})
	}
	t.Run("behind others", func(t *testing.T) {
		r := newSenderRig(t, PartitionConfig{Exclusive: 2}, 4, 16)
		defer r.close()
		r.request(0, 0)
		r.buffer(0, []byte("first"), true)
		w := r.buffer(0, []byte("last"), false)
		r.pump()
		finish(w)
		r.w.Reclaim()
		r.pump()
		r.feed(AppendAddCredit(nil, senderChannel(0), 5))
		if got := r.take(); len(got) != 2 {
			t.Errorf("%d messages, want both", len(got))
		}
	})
	t.Run("an open one stays", func(t *testing.T) {
		r := newSenderRig(t, PartitionConfig{Exclusive: 2}, 4, 16)
		defer r.close()
		r.request(0, 9)
		w := r.buffer(0, []byte("abc"), false)
		r.w.Reclaim()
		if got := r.take(); len(got) != 0 {
			t.Errorf("%d messages, want none: the buffer may get more", len(got))
		}
		finish(w)
	})
}
