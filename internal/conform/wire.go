package conform

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/weirflow/weir/credit"
	"github.com/weirflow/weir/segment"
	"github.com/weirflow/weir/serde/event"
)

// wireFields are the fields of all kinds of frames.
type wireFields struct {
	Partition struct {
		Hex                   HexBytes
		IntermediateDataSetID HexBytes
		PartitionNumber       int32
		ExecutionGraphID      HexBytes
		JobVertexID           HexBytes
		SubtaskIndex          int32
		AttemptNumber         int32
	}
	SubpartitionFirst, SubpartitionLast int32
	SubpartitionID                      int32
	ReceiverID                          HexBytes
	Credit                              int32
	Backlog                             int32
	BufferSize                          int32
	SegmentID                           int32
	PartialBufferSizes                  []int32
	SequenceNumber                      int32
	DataType                            uint8
	DataTypeName                        string
	Compressed                          bool
	Payload                             HexBytes
	EventClass                          string
	Event                               HexBytes
	ExceptionClass                      string
	Message, CauseClass, CauseMessage   *string
	StackFrames                         int
}

func (f *wireFields) receiver() (id credit.ChannelID) { copy(id[:], f.ReceiverID); return id }

func (f *wireFields) partition() (p credit.PartitionID) { copy(p[:], f.Partition.Hex); return p }

func profileOf(flink string) credit.Profile {
	if strings.HasPrefix(flink, "1.") {
		return credit.Flink120
	}
	return credit.Flink23
}

// checkWire encodes the values and compares the frame, and decodes the frame and compares the values.
func checkWire(v *Vector) error {
	var f wireFields
	if err := v.Fields.Decode(&f); err != nil {
		return err
	}
	if err := f.checkIDs(v); err != nil {
		return err
	}
	profile := profileOf(v.Flink)
	switch v.Kind {
	case "BufferResponse":
		return checkBufferFrame(v, &f, profile)
	case "ErrorResponse":
		return checkErrorFrame(v, &f)
	case "BacklogAnnouncement":
		if err := sameBytes("encoded", v.Hex, credit.AppendBacklogAnnouncement(nil, f.receiver(), f.Backlog)); err != nil {
			return err
		}
		return recode(v.Hex, profile, true)
	case "TaskEventRequest":
		var e event.Event
		if err := errors.Join(event.Decode(f.Event, &e), same("class of the event", f.EventClass, e.Class)); err != nil {
			return err
		}
	}
	r := credit.PartitionRequest{Partition: f.partition(), Receiver: f.receiver(), Credit: f.Credit,
		Range: credit.SubpartitionRange{First: f.SubpartitionFirst, Last: f.SubpartitionLast}}
	encode := map[string]func() []byte{
		"PartitionRequest":           func() []byte { return credit.AppendPartitionRequest(nil, &r) },
		"TaskEventRequest":           func() []byte { return credit.AppendTaskEventRequest(nil, f.Event, &r.Partition, r.Receiver) },
		"CancelPartitionRequest":     func() []byte { return credit.AppendCancelPartitionRequest(nil, r.Receiver) },
		"CloseRequest":               func() []byte { return credit.AppendCloseRequest(nil) },
		"AddCredit":                  func() []byte { return credit.AppendAddCredit(nil, r.Receiver, f.Credit) },
		"ResumeConsumption":          func() []byte { return credit.AppendResumeConsumption(nil, r.Receiver) },
		"AckAllUserRecordsProcessed": func() []byte { return credit.AppendAckAllUserRecordsProcessed(nil, r.Receiver) },
		"NewBufferSize":              func() []byte { return credit.AppendNewBufferSize(nil, r.Receiver, f.BufferSize) },
		"SegmentId":                  func() []byte { return credit.AppendSegmentID(nil, r.Receiver, f.SubpartitionID, f.SegmentID) },
	}[v.Kind]
	if encode == nil {
		return fmt.Errorf("no encoder for %s", v.Kind)
	}
	if err := sameBytes("encoded", v.Hex, encode()); err != nil {
		return err
	}
	return recode(v.Hex, profile, false)
}

// checkIDs checks that identifiers are as long as they are on the wire, and that the parts of a partition's make up the whole.
func (f *wireFields) checkIDs(v *Vector) error {
	if f.ReceiverID != nil && len(f.ReceiverID) != len(credit.ChannelID{}) {
		return fmt.Errorf("receiver id of %d bytes", len(f.ReceiverID))
	}
	if raw, ok := v.Fields["partition"]; !ok || string(raw) == "null" {
		return nil
	}
	p := &f.Partition
	for _, id := range []HexBytes{p.IntermediateDataSetID, p.ExecutionGraphID, p.JobVertexID} {
		if len(id) != len(credit.ID{}) {
			return fmt.Errorf("id of %d bytes in a partition", len(id))
		}
	}
	return checkPartitionID(f)
}

func checkPartitionID(f *wireFields) error {
	id := func(b HexBytes) (x credit.ID) { copy(x[:], b); return x }
	p := &f.Partition
	made := credit.MakePartitionID(id(p.IntermediateDataSetID), p.PartitionNumber, id(p.ExecutionGraphID), id(p.JobVertexID), p.SubtaskIndex, p.AttemptNumber)
	if err := sameBytes("partition", p.Hex, made[:]); err != nil {
		return err
	}
	back, err := credit.ParsePartitionID(made.String())
	if err != nil {
		return err
	}
	return same("partition from its text", made, back)
}

func checkBufferFrame(v *Vector, f *wireFields, profile credit.Profile) error {
	h := credit.BufferHeader{Receiver: f.receiver(), Subpartition: f.SubpartitionID, Seq: f.SequenceNumber, Backlog: f.Backlog,
		Type: segment.DataType(f.DataType), Compressed: f.Compressed, Size: f.BufferSize,
		Partial: int32(len(f.PartialBufferSizes)), PartialSizes: f.PartialBufferSizes}
	if err := same("name of the data type", f.DataTypeName, h.Type.String()); err != nil {
		return err
	}
	if err := sameBytes("encoded", v.Hex, credit.AppendBufferResponse(nil, profile, &h, f.Payload)); err != nil {
		return err
	}
	var back credit.BufferHeader
	credit.ParseBufferHeader(v.Hex[credit.FrameHeaderLen:], profile, &back)
	if err := same("header", headerText(&h), headerText(&back)); err != nil {
		return err
	}
	// Some lines fix the encoding of what no server sends; the decoder refuses those.
	err := recode(v.Hex, profile, true)
	switch {
	case h.Type == segment.None:
		if !errors.Is(err, credit.ErrDataType) {
			return fmt.Errorf("a buffer of type NONE was decoded: %w", err)
		}
	case h.Type.IsEvent() && h.Size == 0:
		if !errors.Is(err, credit.ErrPayloadSize) {
			return fmt.Errorf("an event without bytes was decoded: %w", err)
		}
	default:
		return err
	}
	return nil
}

func headerText(h *credit.BufferHeader) string {
	return fmt.Sprint(h.Receiver, h.Subpartition, h.Partial, h.Seq, h.Backlog, h.Type, h.Compressed, h.Size)
}

func checkErrorFrame(v *Vector, f *wireFields) error {
	if err := recode(v.Hex, credit.Flink23, true); err != nil {
		return err
	}
	e, err := credit.ParseErrorResponse(v.Hex[credit.FrameHeaderLen:])
	if err != nil {
		return err
	}
	if err := same("exception", f.ExceptionClass, e.Cause.Class); err != nil {
		return err
	}
	message := func(m *string) string {
		if m == nil {
			return "null"
		}
		return fmt.Sprintf("%q", *m)
	}
	got := func(t *credit.Throwable) string {
		if !t.HasMessage {
			return "null"
		}
		return fmt.Sprintf("%q", t.Message)
	}
	if err := same("message", message(f.Message), got(e.Cause)); err != nil {
		return err
	}
	if err := same("has a cause", f.CauseClass != nil, e.Cause.Cause != nil); err != nil {
		return err
	}
	if f.CauseClass == nil && f.CauseMessage != nil {
		return fmt.Errorf("message %q of no cause", *f.CauseMessage)
	}
	if f.CauseClass != nil {
		if err := same("class of the cause", *f.CauseClass, e.Cause.Cause.Class); err != nil {
			return err
		}
		if err := same("message of the cause", message(f.CauseMessage), got(e.Cause.Cause)); err != nil {
			return err
		}
	}
	if f.Partition.Hex != nil && f.ExceptionClass == credit.ClassPartitionNotFound { // whose message says which
		if err := same("partition of the exception", "Partition "+f.partition().String()+" not found.", e.Cause.Message); err != nil {
			return err
		}
	}
	if err := same("stack frames", f.StackFrames, strings.Count(e.Cause.Stack, "at ")); err != nil {
		return err
	}
	if err := same("fatal", f.ReceiverID == nil, e.Fatal); err != nil {
		return err
	}
	return same("receiver", f.receiver(), e.Receiver)
}

// recode decodes a whole stream of one direction, encodes each frame again from what was decoded, and compares.
func recode(stream []byte, profile credit.Profile, toClient bool, pieces ...int) error {
	r := &recoder{stream: stream, profile: profile}
	feed := func(p []byte) error { return r.server.Feed(p, r) }
	if toClient {
		r.client = credit.NewClientDecoder(credit.DecoderConfig{Profile: profile})
		feed = func(p []byte) error { return r.client.Feed(p, (*clientRecoder)(r)) }
	}
	rest := stream
	for _, n := range append(pieces, len(stream)) {
		n = min(n, len(rest))
		if err := feed(rest[:n]); err != nil {
			return err
		}
		rest = rest[n:]
	}
	return sameBytes("encoded again", stream, r.out)
}

// recoder encodes what it is told.
type recoder struct {
	stream  []byte
	profile credit.Profile
	server  credit.ServerDecoder
	client  *credit.ClientDecoder
	payload []byte
	out     []byte
}

func (r *recoder) OnPartitionRequest(p *credit.PartitionRequest) error {
	r.out = credit.AppendPartitionRequest(r.out, p)
	return nil
}

func (r *recoder) OnTaskEvent(e *event.Event, p *credit.PartitionID, id credit.ChannelID) error {
	r.out = credit.AppendTaskEventRequest(r.out, event.Append(nil, e), p, id)
	return nil
}

func (r *recoder) OnCancelPartitionRequest(id credit.ChannelID) error {
	r.out = credit.AppendCancelPartitionRequest(r.out, id)
	return nil
}

func (r *recoder) OnCloseRequest() error {
	r.out = credit.AppendCloseRequest(r.out)
	return nil
}

func (r *recoder) OnAddCredit(id credit.ChannelID, n int32) error {
	r.out = credit.AppendAddCredit(r.out, id, n)
	return nil
}

func (r *recoder) OnResumeConsumption(id credit.ChannelID) error {
	r.out = credit.AppendResumeConsumption(r.out, id)
	return nil
}

func (r *recoder) OnAckAllUserRecordsProcessed(id credit.ChannelID) error {
	r.out = credit.AppendAckAllUserRecordsProcessed(r.out, id)
	return nil
}

func (r *recoder) OnNewBufferSize(id credit.ChannelID, n int32) error {
	r.out = credit.AppendNewBufferSize(r.out, id, n)
	return nil
}

func (r *recoder) OnSegmentID(id credit.ChannelID, sub, seg int32) error {
	r.out = credit.AppendSegmentID(r.out, id, sub, seg)
	return nil
}

// clientRecoder is a recoder for the other direction.
type clientRecoder recoder

func (r *clientRecoder) OnBufferHeader(h *credit.BufferHeader) ([]byte, bool) {
	r.payload = make([]byte, h.Size)
	return r.payload, true
}

func (r *clientRecoder) OnBufferDone(h *credit.BufferHeader) error {
	r.out = credit.AppendBufferResponse(r.out, r.profile, h, r.payload)
	return nil
}

func (r *clientRecoder) OnBacklogAnnouncement(id credit.ChannelID, n int32) error {
	r.out = credit.AppendBacklogAnnouncement(r.out, id, n)
	return nil
}

// OnErrorResponse takes the Java object as it was: no encoder but Java's writes all that is in one.
func (r *clientRecoder) OnErrorResponse(e *credit.ErrorResponse) error {
	begin := r.client.Offset() + credit.FrameHeaderLen
	r.out = credit.AppendErrorResponse(r.out, r.stream[begin:begin+int64(e.StreamLen)], e.Receiver, e.Fatal)
	return nil
}

// checkCapture decodes both directions of a captured session in the pieces that came over the network, and byte by
// byte, and encodes every frame again.
func checkCapture(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var s struct {
		Flink                          string
		Partition                      struct{ Hex HexBytes }
		ClientToServer, ServerToClient string
		Chunks                         [][2]any
	}
	if err := json.Unmarshal(text, &s); err != nil {
		return err
	}
	for _, d := range []struct {
		file, name string
		toClient   bool
	}{{s.ClientToServer, "c2s", false}, {s.ServerToClient, "s2c", true}} {
		stream, err := os.ReadFile(filepath.Join(filepath.Dir(path), d.file))
		if err != nil {
			return err
		}
		var pieces []int
		for _, c := range s.Chunks {
			if n, ok := c[1].(float64); ok && c[0] == d.name {
				pieces = append(pieces, int(n))
			}
		}
		if err := recode(stream, profileOf(s.Flink), d.toClient, pieces...); err != nil {
			return fmt.Errorf("%s: %w", d.file, err)
		}
		ones := make([]int, len(stream))
		for i := range ones {
			ones[i] = 1
		}
		if err := recode(stream, profileOf(s.Flink), d.toClient, ones...); err != nil {
			return fmt.Errorf("%s byte by byte: %w", d.file, err)
		}
		if !d.toClient && !bytes.Contains(stream, s.Partition.Hex) {
			return fmt.Errorf("%s does not ask for the partition of the session", d.file)
		}
		if n := frames(stream); n == 0 {
			return fmt.Errorf("%s holds no frame", d.file)
		}
	}
	return nil
}

// frames counts the frames of a stream by their lengths alone.
func frames(stream []byte) (n int) {
	for len(stream) >= credit.FrameHeaderLen {
		stream = stream[min(int(binary.BigEndian.Uint32(stream)), len(stream)):]
		n++
	}
	return n
}
