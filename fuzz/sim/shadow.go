package sim

import (
	"github.com/weirflow/weir/credit"
	"github.com/weirflow/weir/serde/event"
)

// The shadow keeps account of what is under way on the wire, by decoding what ends write and what arrives. It knows nothing
// of the types under test but their frames.

// wire is what the shadow knows of one channel.
type wire struct {
	// credit is in AddCredit messages and requests that the server has not got yet; data is in messages whose header the
	// client has not got yet.
	credit, data int32
	resumes      int // ResumeConsumption messages under way
	seqSent      int32
	seqArrived   int32
	sent         int // messages
	arrived      int // messages, whole
	eof          bool
}

func (w *world) wire(id credit.ChannelID) *wire {
	if e := w.job.edges[id]; e != nil {
		return &e.wire
	}
	w.violate("a message for channel %s, which nobody asked for", id)
	return nil
}

// shadowUp decodes what a client writes.
type shadowUp struct {
	w       *world
	decoder credit.ServerDecoder
}

func newShadowUp(w *world) *shadowUp { return &shadowUp{w: w} }

func (s *shadowUp) sent(p []byte) {
	if err := s.decoder.Feed(p, s); err != nil {
		s.w.violate("what a client wrote is unreadable: %v", err)
	}
}

func (s *shadowUp) OnPartitionRequest(r *credit.PartitionRequest) error {
	s.w.wire(r.Receiver).credit += r.Credit
	s.w.exp.Requests++
	return nil
}
func (s *shadowUp) OnTaskEvent(*event.Event, *credit.PartitionID, credit.ChannelID) error { return nil }
func (s *shadowUp) OnCancelPartitionRequest(credit.ChannelID) error                       { return nil }
func (s *shadowUp) OnCloseRequest() error                                                 { return nil }
func (s *shadowUp) OnAddCredit(id credit.ChannelID, n int32) error {
	s.w.wire(id).credit += n
	s.w.note(s.w.job.edges[id].name, "grants", int(n))
	return nil
}
func (s *shadowUp) OnResumeConsumption(id credit.ChannelID) error {
	s.w.wire(id).resumes++
	return nil
}
func (s *shadowUp) OnAckAllUserRecordsProcessed(credit.ChannelID) error { return nil }
func (s *shadowUp) OnNewBufferSize(credit.ChannelID, int32) error {
	s.w.exp.Resizes++
	return nil
}
func (s *shadowUp) OnSegmentID(credit.ChannelID, int32, int32) error { return nil }

// serverIn is the server core, with the shadow's books.
type serverIn struct {
	*credit.ServerCore
	w *world
}

func (s *serverIn) OnPartitionRequest(r *credit.PartitionRequest) error {
	s.w.wire(r.Receiver).credit -= r.Credit
	return s.ServerCore.OnPartitionRequest(r)
}

func (s *serverIn) OnAddCredit(id credit.ChannelID, n int32) error {
	s.w.wire(id).credit -= n
	return s.ServerCore.OnAddCredit(id, n)
}

func (s *serverIn) OnResumeConsumption(id credit.ChannelID) error {
	s.w.wire(id).resumes--
	s.w.note(s.w.job.edges[id].name, "resumed")
	return s.ServerCore.OnResumeConsumption(id)
}

// shadowDown decodes what a server writes, and again what of it arrives.
type shadowDown struct {
	w           *world
	out, in     *credit.ClientDecoder
	isIn, inErr bool
}

func newShadowDown(w *world) *shadowDown {
	cfg := credit.DecoderConfig{Profile: w.plan.profile, MaxBuffer: w.plan.segment}
	return &shadowDown{w: w, out: credit.NewClientDecoder(cfg), in: credit.NewClientDecoder(cfg)}
}

func (s *shadowDown) sent(p []byte) {
	s.isIn = false
	if err := s.out.Feed(p, s); err != nil {
		s.w.violate("what a server wrote is unreadable: %v", err)
	}
}

func (s *shadowDown) arrived(p []byte) {
	s.isIn = true
	if err := s.in.Feed(p, s); err != nil {
		s.w.violate("what arrived from a server is unreadable: %v", err)
	}
}

func (s *shadowDown) OnBufferHeader(h *credit.BufferHeader) ([]byte, bool) {
	x := s.w.wire(h.Receiver)
	e := s.w.job.edges[h.Receiver]
	if s.isIn {
		if h.Type.IsBuffer() {
			x.data--
		}
		if h.Seq != x.seqArrived {
			s.w.violate("%s: message %d arrives, %d is due", e.name, h.Seq, x.seqArrived)
		}
		x.seqArrived += h.Numbers()
		return nil, false
	}
	if h.Type.IsBuffer() {
		x.data++
		s.w.exp.Frames++
	} else {
		s.w.exp.Events++
		if h.Type.HasPriority() {
			s.w.exp.PriorityEvents++
		}
	}
	s.w.note(e.name, h.Type.String(), int(h.Seq), int(h.Size), int(h.Backlog))
	if h.Seq != x.seqSent {
		s.w.violate("%s: message %d is sent, %d is due", e.name, h.Seq, x.seqSent)
	}
	x.seqSent += h.Numbers()
	if h.Partial > 1 {
		s.w.exp.Packed++
	}
	x.sent++
	return nil, false
}

func (s *shadowDown) OnBufferDone(h *credit.BufferHeader) error {
	if s.isIn {
		s.w.wire(h.Receiver).arrived++
	}
	return nil
}

func (s *shadowDown) OnBacklogAnnouncement(credit.ChannelID, int32) error {
	if !s.isIn {
		s.w.exp.Announcements++
	}
	return nil
}

func (s *shadowDown) OnErrorResponse(e *credit.ErrorResponse) error {
	if s.isIn && e.Fatal {
		s.w.violate("the server ends the connection: %v", e.Cause)
	}
	return nil
}
