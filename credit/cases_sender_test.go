package credit

import (
	"fmt"
	"slices"
	"testing"

	"github.com/weirflow/weir/segment"
	"github.com/weirflow/weir/serde/event"
)

// sinkCalls is an OutputSink that keeps its calls as text.
type sinkCalls []string

func (s *sinkCalls) add(what string, id int64, sub int, bufs []segment.Buffer) {
	line := fmt.Sprintf("%s %d/%d", what, id, sub)
	for _, b := range bufs {
		line += " " + string(b.Bytes())
	}
	*s = append(*s, line)
}

func (s *sinkCalls) OutputData(id int64, sub int, bufs []segment.Buffer) {
	s.add("data", id, sub, bufs)
}
func (s *sinkCalls) OutputPromise(id int64, sub int) { s.add("promise", id, sub, nil) }
func (s *sinkCalls) OutputKept(id int64, sub int, bufs []segment.Buffer) {
	s.add("kept", id, sub, bufs)
}
func (s *sinkCalls) OutputBroken(id int64, sub int, cause error) {
	s.add("broken "+cause.Error(), id, sub, nil)
}

func (s *sinkCalls) is(t *testing.T, want ...string) {
	t.Helper()
	if !slices.Equal(*s, sinkCalls(want)) {
		t.Errorf("the sink got %q, want %q", *s, want)
	}
	*s = nil
}

// TestReportingALN14: a barrier that switched on the output side is reported with what it overtook, and says itself that
// it is unaligned; one that left in time is reported with nothing, and stays aligned.
func TestReportingALN14(t *testing.T) {
	const buffers = 10
	start := func(t *testing.T, sink *sinkCalls) *senderRig {
		r := newSenderRig(t, PartitionConfig{Exclusive: 2, Sink: sink}, 16, 64)
		t.Cleanup(r.close)
		r.request(0, 0)
		for i := range buffers {
			r.buffer(0, fmt.Appendf(nil, "b%d", i), true)
		}
		r.w.AddEvent(0, senderBarrier(7, event.Aligned, 100))
		for _, m := range r.take() {
			t.Fatalf("%s was sent without credit", m.Type)
		}
		sink.is(t, "promise 7/0")
		return r
	}
	barrierIs := func(t *testing.T, m *sentMessage, typ segment.DataType, a event.Alignment) {
		t.Helper()
		var ev event.Event
		if err := event.Decode(m.payload, &ev); err != nil {
			t.Fatal(err)
		}
		if m.Type != typ || ev.Kind != event.CheckpointBarrier || ev.Barrier.ID != 7 || ev.Barrier.Options.Alignment != a {
			t.Errorf("got %s with %+v, want %s, %v", m.Type, ev.Barrier, typ, a)
		}
	}
	credit := func(r *senderRig) []sentMessage {
		r.feed(AppendAddCredit(nil, senderChannel(0), buffers+1))
		return r.take()
	}
	t.Run("time out", func(t *testing.T) {
		var sink sinkCalls
		r := start(t, &sink)
		r.part.AlignedBarrierTimeout(7)
		sink.is(t, "kept 7/0 b0 b1 b2 b3 b4 b5 b6 b7 b8 b9")
		sent := r.take() // needs no credit
		if len(sent) != 1 {
			t.Fatalf("%d messages were sent, want the barrier", len(sent))
		}
		barrierIs(t, &sent[0], segment.PrioritizedEvent, event.Unaligned)
		// What it overtook is still sent, once, and nothing else is reported.
		sent = credit(r)
		if len(sent) != buffers {
			t.Fatalf("%d messages were sent, want %d", len(sent), buffers)
		}
		for i, m := range sent {
			if want := fmt.Sprintf("b%d", i); m.Type != segment.DataBuffer || string(m.payload) != want {
				t.Errorf("message %d is %s %q, want %q", i, m.Type, m.payload, want)
			}
		}
		r.part.AlignedBarrierTimeout(7)
		sink.is(t)
		if sent := r.take(); len(sent) != 0 {
			t.Errorf("%d messages more", len(sent))
		}
	})
	t.Run("the timer of an older checkpoint", func(t *testing.T) {
		var sink sinkCalls
		r := start(t, &sink)
		r.part.AlignedBarrierTimeout(6)
		sink.is(t)
		if sent := r.take(); len(sent) != 0 {
			t.Errorf("%d messages were sent", len(sent))
		}
	})
	t.Run("in time", func(t *testing.T) {
		var sink sinkCalls
		r := start(t, &sink)
		sent := credit(r)
		if len(sent) != buffers+1 {
			t.Fatalf("%d messages were sent, want %d", len(sent), buffers+1)
		}
		barrierIs(t, &sent[buffers], segment.TimeoutableAlignedBarrier, event.Aligned)
		sink.is(t, "kept 7/0")
		r.part.AlignedBarrierTimeout(7) // the timer comes too late
		sink.is(t)
		if sent := r.take(); len(sent) != 0 {
			t.Errorf("%d messages more", len(sent))
		}
	})
}
