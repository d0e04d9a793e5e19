package credit

import (
	"encoding/binary"
	"fmt"

	"github.com/weirflow/weir/segment"
)

// ClientHandler receives the frames of a server, in order. An error that a method returns ends Feed and is returned by
// it as it is; the decoder then stays failed. So it means the connection; an error of one channel is not returned here.
type ClientHandler interface {
	// OnBufferHeader is called once the header of a BufferResponse (partial sizes included) is complete and legal, before
	// its payload. It returns where the payload goes: h.Size bytes or more. ok false: the payload is skipped. h and
	// h.PartialSizes are valid until OnBufferDone has returned.
	OnBufferHeader(h *BufferHeader) (dst []byte, ok bool)
	// OnBufferDone is called when the payload is complete or skipped, with the same h.
	OnBufferDone(h *BufferHeader) error
	// OnBacklogAnnouncement: backlog > 0.
	OnBacklogAnnouncement(receiver ChannelID, backlog int32) error
	// OnErrorResponse: e may be kept.
	OnErrorResponse(e *ErrorResponse) error
}

// Default limits of a ClientDecoder.
const (
	// DefaultMaxEvent limits the payload of an event. Flink has no limit; a barrier's location is the largest thing in one.
	DefaultMaxEvent = 1 << 20
	// DefaultMaxError limits the body of an ErrorResponse.
	DefaultMaxError = 16 << 20
	// DefaultMaxPartials limits the partial buffers of one message.
	DefaultMaxPartials = 1 << 16
)

// DecoderConfig are the limits of a ClientDecoder. Zero fields mean the defaults.
type DecoderConfig struct {
	// Profile is the release line of the server.
	Profile Profile
	// MaxBuffer is the size of a network buffer: the most bytes that a data message may carry. Default segment.DefaultSize.
	MaxBuffer int
	// MaxEvent, MaxError and MaxPartials: see DefaultMaxEvent, DefaultMaxError and DefaultMaxPartials.
	MaxEvent, MaxError, MaxPartials int
}

func (c DecoderConfig) withDefaults() DecoderConfig {
	def := func(v *int, d int) {
		if *v == 0 {
			*v = d
		}
	}
	def(&c.MaxBuffer, 32<<10)
	def(&c.MaxEvent, DefaultMaxEvent)
	def(&c.MaxError, DefaultMaxError)
	def(&c.MaxPartials, DefaultMaxPartials)
	return c
}

// stage is where a ClientDecoder stands within a BufferResponse.
type stage uint8

const (
	stageFrame   stage = iota // frame header, or the body of another message
	stageHeader               // message header
	stagePartial              // partial sizes
	stagePayload
)

// ClientDecoder decodes what a server sends, from pieces of any size, as a state machine: frame header, buffer header,
// partial sizes, payload; or frame header, body. Payload bytes are copied once, straight to where the handler wants
// them. It is strict: a length that does not fit its message is an error before any memory is taken. It allocates
// nothing per frame, except for error responses. Not safe for concurrent use.
type ClientDecoder struct {
	frameReader
	cfg   DecoderConfig
	stage stage

	h        BufferHeader
	hb       [38]byte // message header so far, if it comes in pieces
	n        int      // bytes of the current stage so far
	partials []int32
	sum      int64   // of partials
	word     [4]byte // a partial size that comes in pieces
	dst      []byte
	keep     bool // payload goes to dst
}

// NewClientDecoder makes a decoder with the limits of cfg.
func NewClientDecoder(cfg DecoderConfig) *ClientDecoder {
	return &ClientDecoder{cfg: cfg.withDefaults()}
}

// Feed decodes p and calls h once for each frame's header and end. p is not kept. After an error (a *FrameError, or
// what h returned) every further call returns the same error.
func (d *ClientDecoder) Feed(p []byte, h ClientHandler) error {
	if d.err != nil {
		return d.err
	}
	for len(p) > 0 {
		rest, err := d.step(p, h)
		if err != nil {
			d.err = err
			return err
		}
		p = rest
	}
	return nil
}

// Payload tells how many payload bytes of the current message are missing and where they go: a driver may read from the
// socket straight into dst and then call Filled. dst is nil when no payload is expected now or it is skipped.
func (d *ClientDecoder) Payload() (dst []byte, missing int) {
	if d.stage != stagePayload {
		return nil, 0
	}
	missing = int(d.h.Size) - d.n
	if !d.keep {
		return nil, missing
	}
	return d.dst[d.n:d.h.Size], missing
}

// Filled tells that n bytes were put where Payload said.
func (d *ClientDecoder) Filled(n int, h ClientHandler) error {
	if d.err == nil {
		d.n += n
		d.err = d.payloadMaybeDone(h)
	}
	return d.err
}

// headLen is the length of a data message's headers.
func (d *ClientDecoder) headLen() int { return FrameHeaderLen + d.cfg.Profile.headerLen() }

// headSoFar tells how many bytes of the headers of the message to come are here. Not ok: another message is arriving, of which the
// rest may be anything. While a payload arrives it is that of the message after, 0.
func (d *ClientDecoder) headSoFar() (n int, ok bool) {
	switch d.stage {
	case stagePayload:
		return 0, true
	case stageHeader:
		return FrameHeaderLen + d.n, true
	}
	return d.hn, d.stage == stageFrame && !d.header
}

// Receiving returns the header of the message whose payload is still incomplete, nil if there is none. A connection that
// ends now must give back the memory it took for it.
func (d *ClientDecoder) Receiving() *BufferHeader {
	if d.stage != stagePayload {
		return nil
	}
	return &d.h
}

// step makes one step with a non-empty p and returns what is left of it.
func (d *ClientDecoder) step(p []byte, h ClientHandler) ([]byte, error) {
	switch d.stage {
	case stageHeader:
		return d.stepHeader(p, h)
	case stagePartial:
		return d.stepPartial(p, h)
	case stagePayload:
		n := min(len(p), int(d.h.Size)-d.n)
		if d.keep {
			copy(d.dst[d.n:], p[:n])
		}
		d.n += n
		return p[n:], d.payloadMaybeDone(h)
	}
	if !d.header {
		rest, err := d.readHeader(p)
		if err != nil || !d.header {
			return nil, err
		}
		if err := d.check(); err != nil {
			return nil, err
		}
		if d.id == MsgBufferResponse {
			d.stage, d.n = stageHeader, 0
			return d.stepHeader(rest, h)
		}
		p = rest
	}
	body, rest, done, err := d.next(p, nil)
	if err != nil || !done {
		return rest, err
	}
	err = d.dispatch(body, h)
	d.frameDone()
	return rest, err
}

// check refuses a frame by its frame header alone.
func (d *ClientDecoder) check() error {
	limit := d.cfg.MaxError
	switch d.id {
	case MsgBufferResponse:
		least := d.cfg.Profile.headerLen()
		limit = least + 4*d.cfg.MaxPartials + max(d.cfg.MaxBuffer, d.cfg.MaxEvent)
		if d.body < least {
			return d.fail(ErrFrameLength, fmt.Sprintf("body of %d bytes, less than a header", d.body))
		}
	case MsgErrorResponse:
	case MsgBacklogAnnouncement:
		if d.body != 20 {
			return d.fail(ErrFrameLength, fmt.Sprintf("body of %d bytes instead of 20", d.body))
		}
	default:
		return d.fail(ErrUnknownMessage, "from a server")
	}
	if d.body > limit {
		return d.fail(ErrTooLarge, fmt.Sprintf("body of %d bytes, limit %d", d.body, limit))
	}
	return nil
}

// stepHeader reads the message header; p may be empty.
func (d *ClientDecoder) stepHeader(p []byte, h ClientHandler) ([]byte, error) {
	size := d.cfg.Profile.headerLen()
	b := p
	if d.n > 0 || len(p) < size {
		n := copy(d.hb[d.n:size], p)
		d.n += n
		p = p[n:]
		if d.n < size {
			return nil, nil
		}
		b = d.hb[:]
	} else {
		p = p[size:]
	}
	ParseBufferHeader(b, d.cfg.Profile, &d.h)
	if err := d.checkBuffer(b); err != nil {
		return nil, err
	}
	d.n = 0
	if d.h.Partial > 0 {
		d.stage, d.sum, d.partials = stagePartial, 0, d.partials[:0]
		return p, nil
	}
	d.h.PartialSizes = nil
	return p, d.beginPayload(h)
}

// ParseBufferHeader reads the message header of a BufferResponse (what follows the frame header) into h, without
// judging it; h.PartialSizes becomes nil. b must hold a whole one: 38 bytes, or 34 with Flink120.
func ParseBufferHeader(b []byte, p Profile, h *BufferHeader) {
	copy(h.Receiver[:], b)
	h.Subpartition = getI32(b[16:])
	h.Partial, h.PartialSizes = 0, nil
	b = b[20:]
	if p != Flink120 {
		h.Partial = getI32(b)
		b = b[4:]
	}
	h.Seq = getI32(b)
	h.Backlog = getI32(b[4:])
	h.Type = segment.DataType(b[8])
	h.Compressed = b[9] != 0
	h.Size = getI32(b[10:])
}

// checkBuffer judges a message header: everything that can be known before the payload.
func (d *ClientDecoder) checkBuffer(b []byte) error {
	h := &d.h
	limit := d.cfg.MaxBuffer
	if h.Type.IsEvent() {
		limit = d.cfg.MaxEvent
	}
	switch {
	case h.Type == segment.None || h.Type > d.cfg.Profile.maxDataType():
		return d.fail(ErrDataType, fmt.Sprintf("%d%s", uint8(h.Type), d.otherProfile(b)))
	case h.Size < 0 || h.Size == 0 && h.Type.IsEvent() || int(h.Size) > limit:
		return d.fail(ErrPayloadSize, fmt.Sprintf("%d bytes of %s, limit %d%s", h.Size, h.Type, limit, d.otherProfile(b)))
	case h.Backlog < 0:
		return d.fail(ErrBadValue, fmt.Sprintf("backlog %d%s", h.Backlog, d.otherProfile(b)))
	case h.Partial < 0 || int(h.Partial) > d.cfg.MaxPartials || h.Partial > max(h.Size, 1):
		return d.fail(ErrPartialSizes, fmt.Sprintf("%d partial buffers in %d bytes%s", h.Partial, h.Size, d.otherProfile(b)))
	}
	if want := int64(d.cfg.Profile.headerLen()) + 4*int64(h.Partial) + int64(h.Size); want != int64(d.body) {
		return d.fail(ErrFrameLength, fmt.Sprintf("body of %d bytes where the header says %d%s", d.body, want, d.otherProfile(b)))
	}
	return nil
}

// otherProfile explains a message header that makes no sense, if it would as one of the other release line.
func (d *ClientDecoder) otherProfile(b []byte) string {
	const hint = " (does the server run another release line than configured?)"
	if d.cfg.Profile == Flink120 {
		// Type and flag are where 2.3 has them.
		if t := segment.DataType(b[32]); t != segment.None && t <= Flink23.maxDataType() && b[33] <= 1 {
			return hint
		}
		return ""
	}
	if int64(d.body) == 34+int64(getI32(b[30:])) {
		return hint
	}
	return ""
}

// stepPartial reads partial sizes.
func (d *ClientDecoder) stepPartial(p []byte, h ClientHandler) ([]byte, error) {
	for len(d.partials) < int(d.h.Partial) {
		var v int32
		if d.n == 0 && len(p) >= 4 {
			v, p = getI32(p), p[4:]
		} else {
			n := copy(d.word[d.n:], p)
			d.n += n
			p = p[n:]
			if d.n < 4 {
				return nil, nil
			}
			v, d.n = int32(binary.BigEndian.Uint32(d.word[:])), 0
		}
		d.sum += int64(v)
		if v < 0 || d.sum > int64(d.h.Size) {
			return nil, d.fail(ErrPartialSizes, fmt.Sprintf("size %d, sum %d of %d bytes", v, d.sum, d.h.Size))
		}
		d.partials = append(d.partials, v)
	}
	if d.sum != int64(d.h.Size) {
		return nil, d.fail(ErrPartialSizes, fmt.Sprintf("sum %d of %d bytes", d.sum, d.h.Size))
	}
	d.h.PartialSizes = d.partials
	return p, d.beginPayload(h)
}

func (d *ClientDecoder) beginPayload(h ClientHandler) error {
	d.stage, d.n = stagePayload, 0
	d.dst, d.keep = h.OnBufferHeader(&d.h)
	if d.keep && len(d.dst) < int(d.h.Size) {
		return d.fail(ErrHandlerMemory, fmt.Sprintf("%d bytes for %d", len(d.dst), d.h.Size))
	}
	return d.payloadMaybeDone(h)
}

// payloadMaybeDone ends the message if all of its payload is here.
func (d *ClientDecoder) payloadMaybeDone(h ClientHandler) error {
	if d.n < int(d.h.Size) {
		return nil
	}
	d.stage, d.dst = stageFrame, nil
	err := h.OnBufferDone(&d.h)
	d.frameDone()
	if cap(d.partials) > maxKeptBody/4 {
		d.partials = nil
	}
	return err
}

// dispatch decodes the whole body of a message other than BufferResponse.
func (d *ClientDecoder) dispatch(b []byte, h ClientHandler) error {
	if d.id == MsgBacklogAnnouncement {
		if n := getI32(b); n > 0 {
			return h.OnBacklogAnnouncement(channelAt(b[4:]), n)
		}
		return d.fail(ErrBadValue, fmt.Sprintf("backlog %d", getI32(b)))
	}
	e, err := ParseErrorResponse(b)
	if err != nil {
		return d.fail(ErrUnreadableError, err.Error())
	}
	return h.OnErrorResponse(e)
}
