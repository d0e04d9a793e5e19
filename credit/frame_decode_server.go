package credit

import (
	"fmt"

	"github.com/weirflow/weir/serde/event"
)

// ServerHandler receives the frames of a client, in order, each once and only when it is complete. An error that a
// method returns ends Feed and is returned by it as it is; the decoder then stays failed.
type ServerHandler interface {
	// OnPartitionRequest: r is valid during the call. r.Credit may be negative, which is not an error of the framing.
	OnPartitionRequest(r *PartitionRequest) error
	// OnTaskEvent: e is a decoded generic event; e and partition are valid during the call.
	OnTaskEvent(e *event.Event, partition *PartitionID, receiver ChannelID) error
	OnCancelPartitionRequest(receiver ChannelID) error
	OnCloseRequest() error
	// OnAddCredit: credit > 0.
	OnAddCredit(receiver ChannelID, credit int32) error
	OnResumeConsumption(receiver ChannelID) error
	OnAckAllUserRecordsProcessed(receiver ChannelID) error
	// OnNewBufferSize: size > 0.
	OnNewBufferSize(receiver ChannelID, size int32) error
	// OnSegmentID: segmentID > 0.
	OnSegmentID(receiver ChannelID, subpartition, segmentID int32) error
}

// DefaultMaxTaskEvent is the default limit of a TaskEventRequest's body in bytes.
const DefaultMaxTaskEvent = 1 << 20

// ServerDecoder decodes what a client sends, from pieces of any size. It is strict where Flink's own decoder ignores
// surplus bytes: a body must be exactly as long as its message. It allocates nothing, except for task events that
// come in pieces. Not safe for concurrent use; the zero value is ready.
type ServerDecoder struct {
	// MaxTaskEvent limits the body of a TaskEventRequest; 0 means DefaultMaxTaskEvent.
	MaxTaskEvent int

	frameReader
	request PartitionRequest
	part    PartitionID
	ev      event.Event
}

// NewServerDecoder makes a decoder; of cfg only MaxEvent counts, as the limit of a task event.
func NewServerDecoder(cfg DecoderConfig) *ServerDecoder {
	return &ServerDecoder{MaxTaskEvent: cfg.withDefaults().MaxEvent}
}

// Feed decodes p and calls h for each frame that p completes. p is not kept. After an error (a *FrameError, or what h
// returned) every further call returns the same error.
func (d *ServerDecoder) Feed(p []byte, h ServerHandler) error {
	if d.err != nil {
		return d.err
	}
	for len(p) > 0 {
		body, rest, done, err := d.next(p, d.check)
		if err == nil && done {
			err = d.dispatch(body, h)
			d.frameDone()
		}
		if err != nil {
			d.err = err
			return err
		}
		p = rest
	}
	return nil
}

// check refuses a frame by its header alone.
func (d *ServerDecoder) check(id MessageID, body int) error {
	switch want, fixed := id.bodyLen(); {
	case id.ToClient() || id > MsgSegmentID:
		return d.fail(ErrUnknownMessage, "from a client")
	case fixed && body != want:
		return d.fail(ErrFrameLength, fmt.Sprintf("body of %d bytes instead of %d", body, want))
	case fixed:
		return nil
	}
	limit := d.MaxTaskEvent
	if limit == 0 {
		limit = DefaultMaxTaskEvent
	}
	if body > limit {
		return d.fail(ErrTooLarge, fmt.Sprintf("body of %d bytes, limit %d", body, limit))
	}
	if body < 4+4+60+16 {
		return d.fail(ErrFrameLength, fmt.Sprintf("body of %d bytes", body))
	}
	return nil
}

// dispatch decodes a whole body.
func (d *ServerDecoder) dispatch(b []byte, h ServerHandler) error {
	switch d.id {
	case MsgPartitionRequest:
		r := &d.request
		copy(r.Partition[:], b)
		r.Range = SubpartitionRange{First: getI32(b[60:]), Last: getI32(b[64:])}
		copy(r.Receiver[:], b[68:])
		r.Credit = getI32(b[84:])
		switch {
		case !r.Range.Valid():
			return d.fail(ErrBadValue, fmt.Sprintf("subpartitions %d to %d", r.Range.First, r.Range.Last))
		case r.Partition.Subtask() < 0 || r.Partition.Attempt() < 0:
			return d.fail(ErrBadValue, fmt.Sprintf("subtask %d, attempt %d", r.Partition.Subtask(), r.Partition.Attempt()))
		}
		return h.OnPartitionRequest(r)
	case MsgTaskEventRequest:
		n := len(b) - 4 - 60 - 16
		if got := getI32(b); int(got) != n {
			return d.fail(ErrFrameLength, fmt.Sprintf("event of %d bytes where %d fit", got, n))
		}
		d.ev = event.Event{}
		if err := event.Decode(b[4:4+n], &d.ev); err != nil {
			return d.fail(ErrBadValue, err.Error())
		}
		if d.ev.Kind != event.Generic {
			return d.fail(ErrBadValue, "not a task event")
		}
		copy(d.part[:], b[4+n:])
		return h.OnTaskEvent(&d.ev, &d.part, channelAt(b[4+n+60:]))
	case MsgCancelPartitionRequest:
		return h.OnCancelPartitionRequest(channelAt(b))
	case MsgCloseRequest:
		return h.OnCloseRequest()
	case MsgResumeConsumption:
		return h.OnResumeConsumption(channelAt(b))
	case MsgAckAllUserRecordsProcessed:
		return h.OnAckAllUserRecordsProcessed(channelAt(b))
	case MsgSegmentID:
		if n := getI32(b[4:]); n > 0 {
			return h.OnSegmentID(channelAt(b[8:]), getI32(b), n)
		}
		return d.fail(ErrBadValue, fmt.Sprintf("segment id %d", getI32(b[4:])))
	case MsgAddCredit:
		if n := getI32(b); n > 0 {
			return h.OnAddCredit(channelAt(b[4:]), n)
		}
		return d.fail(ErrBadValue, fmt.Sprintf("credit %d", getI32(b)))
	case MsgNewBufferSize:
		if n := getI32(b); n > 0 {
			return h.OnNewBufferSize(channelAt(b[4:]), n)
		}
		return d.fail(ErrBadValue, fmt.Sprintf("buffer size %d", getI32(b)))
	}
	return d.fail(ErrUnknownMessage, "") // check let only the ids above through
}

func channelAt(b []byte) (id ChannelID) { copy(id[:], b); return id }
