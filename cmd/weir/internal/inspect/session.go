package inspect

import (
	"bytes"
	"errors"
	"fmt"
	"time"

	"github.com/weirflow/weir/credit"
	"github.com/weirflow/weir/serde/event"
)

// Config says how to read. The zero value reads Flink 2.3, without elements.
type Config struct {
	// Profile is the release line that both ends speak.
	Profile credit.Profile
	// MaxBuffer is the largest data message that is believed, in bytes; 0 means 1 MiB. It bounds memory.
	MaxBuffer int
	// Elements: take the records out of data buffers.
	Elements bool
	// Codec is how compressed buffers are compressed; for Elements.
	Codec credit.Codec
	// MaxRecord is the longest record, in bytes; 0 means 64 MiB. For Elements.
	MaxRecord int
}

const (
	defaultMaxBuffer = 1 << 20
	defaultMaxRecord = 64 << 20
	// maxChannels bounds the channels that a session keeps accounts of. Frames of others are shown without.
	maxChannels = 1 << 16
)

func (c Config) withDefaults() Config {
	if c.MaxBuffer == 0 {
		c.MaxBuffer = defaultMaxBuffer
	}
	if c.MaxRecord == 0 {
		c.MaxRecord = defaultMaxRecord
	}
	return c
}

// mode is what is known about the beginning of a stream.
type mode uint8

const (
	strict mode = iota // it begins with a frame
	sniff              // it begins with a frame, or it is of another protocol
	seek               // a frame begins somewhere
)

// half is one direction of a session.
type half struct {
	mode   mode
	found  bool   // where the decoder began was searched for
	fed    int64  // bytes of the stream, missing ones included
	base   int64  // where the decoder began
	head   []byte // sniff and seek: bytes that no frame was found in yet, the last of the stream
	frames int64
	end    int64 // end of the last whole frame
	err    error
	client *credit.ClientDecoder
	server *credit.ServerDecoder

	payload []byte
}

// Session follows one connection. It decodes both directions and keeps accounts of the channels. It is not safe for
// concurrent use.
type Session struct {
	// Name tells in errors and notes which connection it is; "" if there is only one.
	Name string

	cfg  Config
	conn int
	sink Sink
	now  time.Time
	half [2]half

	channels map[credit.ChannelID]*Channel
	order    []*Channel
	dec      *credit.Decompressor // of all channels, made when it is needed
	foreign  []byte               // how a stream of another protocol begins
	summary  Summary

	// pull brings the next frame of the client, if there is one: for inputs that do not tell in which order the
	// directions went.
	pull func() (bool, error)
}

// NewSession makes a session for connection number conn, whose streams begin with a frame each.
func NewSession(cfg Config, conn int, sink Sink) *Session {
	s := &Session{cfg: cfg.withDefaults(), conn: conn, sink: sink, channels: make(map[credit.ChannelID]*Channel)}
	for d := range s.half {
		s.restart(Dir(d), strict)
	}
	return s
}

// restart makes a new decoder for a direction.
func (s *Session) restart(dir Dir, m mode) {
	h := &s.half[dir]
	h.mode, h.base, h.head, h.err = m, h.fed, h.head[:0], nil
	cfg := credit.DecoderConfig{Profile: s.cfg.Profile, MaxBuffer: s.cfg.MaxBuffer}
	if dir == ToClient {
		h.client = credit.NewClientDecoder(cfg)
	} else {
		h.server = credit.NewServerDecoder(cfg)
	}
}

// Feed takes the next bytes of a direction, which were there at time t (zero: not known). Bytes that are no frames do not
// end it: the direction fails, which the sink is told and Err returns at the end, and its further bytes are ignored.
// The error is the sink's.
func (s *Session) Feed(dir Dir, p []byte, t time.Time) error {
	h := &s.half[dir]
	if !t.IsZero() {
		s.now = t
		s.summary.see(t)
	}
	if h.err != nil || s.foreign != nil || len(p) == 0 {
		h.fed += int64(len(p))
		return nil
	}
	if h.mode != strict {
		h.fed += int64(len(p))
		var err error
		if p, err = s.begin(dir, p); err != nil || p == nil {
			return err
		}
		h.base = h.fed - int64(len(p))
		h.fed = h.base
		h.found, h.mode = h.mode == seek, strict
	}
	h.fed += int64(len(p))
	err := h.feed(p, s)
	h.end = h.base + h.offset()
	var fe *credit.FrameError
	if err == nil || !errors.As(err, &fe) {
		return err
	}
	at := *fe
	at.Offset += h.base
	if h.found { // what was found may not have been the head of a frame
		if err := s.note("%s: %v; reading goes on at the next frame", dir, &at); err != nil {
			return err
		}
		s.restart(dir, seek)
		return nil
	}
	return s.fail(dir, fmt.Errorf("%w (before it: %d frames)", &at, h.frames))
}

// fail ends a direction.
func (s *Session) fail(dir Dir, err error) error {
	if s.Name != "" {
		err = fmt.Errorf("%s: %w", s.Name, err)
	}
	s.half[dir].err = fmt.Errorf("%s: %w", dir, err)
	return s.note("error: %v", s.half[dir].err)
}

func (s *Session) note(format string, args ...any) error {
	return s.sink.Note(&Note{Conn: s.conn, Time: s.now, Text: fmt.Sprintf(format, args...)})
}

func (h *half) feed(p []byte, s *Session) error {
	if h.client != nil {
		return h.client.Feed(p, (*fromServer)(s))
	}
	return h.server.Feed(p, (*fromClient)(s))
}

func (h *half) offset() int64 {
	if h.client != nil {
		return h.client.Offset()
	}
	return h.server.Offset()
}

func (h *half) inFrame() bool {
	if h.client != nil {
		return h.client.InFrame()
	}
	return h.server.InFrame()
}

// Gap tells that n bytes of a direction are missing. Reading goes on at the next thing that looks like a frame; credit
// is unknown from then on.
func (s *Session) Gap(dir Dir, n int64) error {
	h := &s.half[dir]
	at := h.fed
	h.fed += n
	s.summary.Missing[dir] += n
	if s.foreign != nil {
		return nil
	}
	for _, c := range s.order {
		c.lost(dir)
		c.settle(s.now)
	}
	s.restart(dir, seek)
	return s.note("%s: %d bytes are missing at byte %d; reading goes on at the next frame", dir, n, at)
}

// Foreign reports whether the connection turned out to be of another protocol.
func (s *Session) Foreign() bool { return s.foreign != nil }

// Close ends both directions and tells the sink the summary. whole: the streams are complete, so that half a frame at the
// end is an error; else it is a note.
func (s *Session) Close(whole bool) error {
	defer s.release()
	if s.foreign != nil {
		what := fmt.Sprintf("begins with %x", s.foreign)
		if bytes.HasPrefix(s.foreign, []byte{22, 3}) {
			what = "is encrypted (TLS)"
		}
		return s.note("not the data plane of weir and Flink: it %s", what)
	}
	for d := range s.half {
		if err := s.endHalf(Dir(d), whole); err != nil {
			return err
		}
	}
	for _, c := range s.order {
		c.end(s.now)
	}
	s.summary.finish(s)
	return s.sink.Summary(&s.summary)
}

// release frees what the session holds; nothing may be fed any more.
func (s *Session) release() {
	for _, c := range s.order {
		if c.records != nil {
			c.records.close()
			c.records = nil
		}
	}
	if s.dec != nil {
		s.dec.Close()
		s.dec = nil
	}
}

func (s *Session) endHalf(dir Dir, whole bool) error {
	h := &s.half[dir]
	switch {
	case h.err != nil:
		return nil
	case h.mode == seek && h.fed > 0:
		return s.note("%s: no frame begins in the %d bytes up to the end", dir, h.fed-h.base)
	case h.mode == sniff && len(h.head) > 0, h.mode == strict && h.inFrame():
		what := ""
		if h.client != nil && h.client.Receiving() != nil {
			r := h.client.Receiving()
			what = fmt.Sprintf(" (a BufferResponse with %d bytes of %s for channel %s)", r.Size, r.Type, r.Receiver)
		}
		err := fmt.Errorf("the stream ends %d bytes into the frame that begins at byte %d%s (before it: %d frames)", h.fed-h.end, h.end, what, h.frames)
		if whole {
			return s.fail(dir, err)
		}
		return s.note("%s: %v", dir, err)
	}
	return nil
}

// Err returns the errors of both directions; nil if all bytes were frames.
func (s *Session) Err() error { return errors.Join(s.half[ToServer].err, s.half[ToClient].err) }

// channel finds or makes the account of a channel; nil if there are too many.
func (s *Session) channel(id credit.ChannelID) *Channel {
	c := s.channels[id]
	if c == nil && len(s.channels) < maxChannels {
		c = &Channel{ID: id}
		if s.cfg.Elements {
			c.records = newRecords(s, id.String())
			if h := &s.half[ToClient]; h.found || h.mode == seek {
				c.records.lost() // where a record begins is not known, if the channel is not a new one
			}
		}
		s.channels[id] = c
		s.order = append(s.order, c)
	}
	return c
}

// emit shows a frame whose channel is c, after the change that it makes.
func (s *Session) emit(f *Frame, c *Channel) error {
	h := &s.half[f.Dir]
	h.frames++
	f.Conn, f.Time, f.Offset = s.conn, s.now, h.base+h.offset()
	s.summary.Frames[f.Dir]++
	s.summary.Bytes[f.Dir] += f.Length
	if c != nil {
		c.Frames[f.Dir]++
		c.Bytes[f.Dir] += f.Length
		c.settle(s.now)
		f.State = c.State
		if c.Closed && c.records != nil {
			c.records.close()
			c.records = nil
		}
	}
	return s.sink.Frame(f)
}

// fromClient handles the frames that a server receives.
type fromClient Session

// frame emits a frame whose body has n bytes, after change.
func (h *fromClient) frame(f *Frame, n int, change func(c *Channel) (odd []string)) error {
	s := (*Session)(h)
	f.Length = int64(credit.FrameHeaderLen + n)
	c := s.channel(f.Channel)
	if c != nil {
		f.Odd = change(c)
	}
	return s.emit(f, c)
}

func (h *fromClient) OnPartitionRequest(r *credit.PartitionRequest) error {
	return h.frame(&Frame{Message: credit.MsgPartitionRequest, Channel: r.Receiver, Request: r, Partition: &r.Partition}, 88,
		func(c *Channel) (odd []string) {
			if c.Request != nil {
				odd = append(odd, "the channel was requested before")
			}
			if r.Credit < 0 {
				odd = append(odd, "negative credit")
			}
			c.request(r)
			return odd
		})
}

func (h *fromClient) OnTaskEvent(e *event.Event, p *credit.PartitionID, id credit.ChannelID) error {
	return h.frame(&Frame{Message: credit.MsgTaskEventRequest, Channel: id, Partition: p, Event: e}, 4+len(event.Append(nil, e))+60+16,
		func(*Channel) []string { return nil })
}

func (h *fromClient) OnCancelPartitionRequest(id credit.ChannelID) error {
	return h.frame(&Frame{Message: credit.MsgCancelPartitionRequest, Channel: id}, 16, func(c *Channel) []string {
		c.Closed = true
		return nil
	})
}

func (h *fromClient) OnCloseRequest() error {
	s := (*Session)(h)
	for _, c := range s.order {
		c.Closed = true
		c.settle(s.now)
	}
	return s.emit(&Frame{Message: credit.MsgCloseRequest, Length: credit.FrameHeaderLen}, nil)
}

func (h *fromClient) OnAddCredit(id credit.ChannelID, n int32) error {
	return h.frame(&Frame{Message: credit.MsgAddCredit, Channel: id, Value: n}, 20, func(c *Channel) []string {
		c.addCredit(n)
		return nil
	})
}

func (h *fromClient) OnResumeConsumption(id credit.ChannelID) error {
	return h.frame(&Frame{Message: credit.MsgResumeConsumption, Channel: id}, 16, (*Channel).resume)
}

func (h *fromClient) OnAckAllUserRecordsProcessed(id credit.ChannelID) error {
	return h.frame(&Frame{Message: credit.MsgAckAllUserRecordsProcessed, Channel: id}, 16, func(c *Channel) []string {
		c.acked = true
		return nil
	})
}

func (h *fromClient) OnNewBufferSize(id credit.ChannelID, n int32) error {
	return h.frame(&Frame{Message: credit.MsgNewBufferSize, Channel: id, Value: n}, 20, func(*Channel) []string { return nil })
}

func (h *fromClient) OnSegmentID(id credit.ChannelID, sub, seg int32) error {
	return h.frame(&Frame{Message: credit.MsgSegmentID, Channel: id, Value: seg, Subpartition: sub}, 24, func(*Channel) []string { return nil })
}
