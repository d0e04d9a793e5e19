package inspect

import (
	"github.com/weirflow/weir/credit"
	"github.com/weirflow/weir/serde/event"
)

// fromServer handles the frames that a client receives.
type fromServer Session

// await lets the client's frames come first that the server must have had, if the input does not tell the order.
func (h *fromServer) await(enough func() bool) error {
	s := (*Session)(h)
	for s.pull != nil && !enough() {
		if more, err := s.pull(); err != nil || !more {
			return err
		}
	}
	return nil
}

func (h *fromServer) known(id credit.ChannelID) error {
	return h.await(func() bool { return h.channels[id] != nil })
}

func (h *fromServer) OnBufferHeader(b *credit.BufferHeader) ([]byte, bool) {
	if !b.Type.IsEvent() && !h.cfg.Elements {
		return nil, false
	}
	half := &h.half[ToClient]
	if cap(half.payload) < int(b.Size) {
		half.payload = make([]byte, b.Size)
	}
	half.payload = half.payload[:b.Size]
	return half.payload, true
}

func (h *fromServer) OnBufferDone(b *credit.BufferHeader) error {
	s := (*Session)(h)
	if err := h.await(func() bool { return h.channels[b.Receiver].ready(b.Type) }); err != nil {
		return err
	}
	f := &Frame{Dir: ToClient, Message: credit.MsgBufferResponse, Channel: b.Receiver, Buffer: b,
		Length: int64(credit.BufferHeaderLen(s.cfg.Profile)) + 4*int64(len(b.PartialSizes)) + int64(b.Size)}
	payload := s.half[ToClient].payload
	if b.Type.IsEvent() {
		release := event.Flink23
		if s.cfg.Profile == credit.Flink120 {
			release = event.Flink120
		}
		e := new(event.Event)
		if f.EventErr = release.Decode(payload, e); f.EventErr == nil {
			f.Event = e
		}
	}
	c := s.channel(b.Receiver)
	var rec *records
	if c != nil {
		f.Odd = c.buffer(b)
		rec = c.records
	}
	if err := s.emit(f, c); err != nil || rec == nil {
		return err
	}
	if f.Event != nil {
		rec.event(f.Event)
	}
	if !f.IsData() {
		return nil
	}
	return rec.buffer(b, payload, func(e *Element) error {
		e.Conn, e.Channel, e.Frame = f.Conn, f.Channel, f.Offset
		return s.sink.Element(e)
	})
}

func (h *fromServer) OnBacklogAnnouncement(id credit.ChannelID, n int32) error {
	if err := h.known(id); err != nil {
		return err
	}
	s := (*Session)(h)
	c := s.channel(id)
	if c != nil {
		c.setBacklog(n)
	}
	return s.emit(&Frame{Dir: ToClient, Message: credit.MsgBacklogAnnouncement, Channel: id, Value: n, Length: credit.FrameHeaderLen + 20}, c)
}

func (h *fromServer) OnErrorResponse(e *credit.ErrorResponse) error {
	s := (*Session)(h)
	f := &Frame{Dir: ToClient, Message: credit.MsgErrorResponse, Channel: e.Receiver, Error: e, Length: credit.FrameHeaderLen + int64(e.StreamLen) + 1}
	if e.Fatal {
		for _, c := range s.order {
			c.Closed, c.Failure = true, e
			c.settle(s.now)
		}
		return s.emit(f, nil)
	}
	f.Length += int64(len(e.Receiver))
	if err := h.known(e.Receiver); err != nil {
		return err
	}
	c := s.channel(e.Receiver)
	if c != nil {
		c.Closed, c.Failure = true, e
	}
	return s.emit(f, c)
}
