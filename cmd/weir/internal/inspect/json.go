package inspect

import (
	"encoding/json"
	"io"
	"time"

	"github.com/weirflow/weir/credit"
	"github.com/weirflow/weir/serde"
	"github.com/weirflow/weir/serde/event"
)

// JSON is a sink that prints objects, one a line. Each has "type": frame, element, note or summary. Times are RFC 3339 with
// nanoseconds and absent if they are not known, durations seconds.
type JSON struct {
	// W gets the lines, each by one Write.
	W io.Writer
	// Filter chooses frames and channels.
	Filter Filter
	// Quiet: no frames and no elements.
	Quiet bool

	last struct {
		conn   int
		offset int64
	}
}

type jsonFrame struct {
	Type      string  `json:"type"`
	Conn      int     `json:"conn"`
	Time      string  `json:"time,omitempty"`
	Dir       string  `json:"dir"`
	Offset    int64   `json:"offset"`
	Length    int64   `json:"length"`
	Message   string  `json:"message"`
	Channel   string  `json:"channel,omitempty"`
	Partition string  `json:"partition,omitempty"`
	First     *int32  `json:"firstSubpartition,omitempty"`
	Last      *int32  `json:"lastSubpartition,omitempty"`
	Value     *int32  `json:"value,omitempty"` // credit, backlog, size or segment id that the message carries
	Sub       *int32  `json:"subpartition,omitempty"`
	Seq       *int32  `json:"seq,omitempty"`
	DataType  string  `json:"dataType,omitempty"`
	Size      *int32  `json:"size,omitempty"`
	Partials  []int32 `json:"partialSizes,omitempty"`
	// Compressed is absent if false.
	Compressed bool       `json:"compressed,omitempty"`
	Event      *jsonEvent `json:"event,omitempty"`
	Error      *jsonError `json:"error,omitempty"`

	Credit  *int64   `json:"credit,omitempty"` // of the channel, after the frame; absent: not known
	Backlog *int32   `json:"backlog,omitempty"`
	Blocked string   `json:"blockedBy,omitempty"`
	Closed  bool     `json:"closed,omitempty"`
	Odd     []string `json:"odd,omitempty"`
}

type jsonEvent struct {
	Kind       string `json:"kind,omitempty"`
	Text       string `json:"text,omitempty"`
	Checkpoint *int64 `json:"checkpoint,omitempty"`
	Timestamp  *int64 `json:"timestamp,omitempty"`
	Alignment  string `json:"alignment,omitempty"`
	Snapshot   string `json:"snapshot,omitempty"`
	Class      string `json:"class,omitempty"`
	Invalid    string `json:"invalid,omitempty"`
}

type jsonError struct {
	Fatal bool   `json:"fatal"`
	Class string `json:"class"`
	Text  string `json:"text"`
	Stack string `json:"stack,omitempty"`
}

type jsonElement struct {
	Type      string `json:"type"`
	Conn      int    `json:"conn"`
	Channel   string `json:"channel"`
	Frame     int64  `json:"frame"` // offset of the frame that completed it
	Length    *int   `json:"length,omitempty"`
	Kind      string `json:"kind,omitempty"`
	Text      string `json:"text,omitempty"`
	Timestamp *int64 `json:"timestamp,omitempty"`
	Data      []byte `json:"data,omitempty"` // value of a record, base64
	Invalid   string `json:"invalid,omitempty"`
}

type jsonNote struct {
	Type string `json:"type"`
	Conn int    `json:"conn,omitempty"`
	Time string `json:"time,omitempty"`
	Text string `json:"text"`
}

type jsonDirs struct {
	ToServer int64 `json:"c2s"`
	ToClient int64 `json:"s2c"`
}

type jsonSummary struct {
	Type      string        `json:"type"`
	Conn      int           `json:"conn"`
	Name      string        `json:"name,omitempty"`
	Begin     string        `json:"begin,omitempty"`
	End       string        `json:"end,omitempty"`
	Timed     bool          `json:"timed"`
	Unordered bool          `json:"unordered,omitempty"`
	Frames    jsonDirs      `json:"frames"`
	Bytes     jsonDirs      `json:"bytes"`
	Missing   jsonDirs      `json:"missing"`
	Repeated  jsonDirs      `json:"repeated"`
	Errors    []string      `json:"errors,omitempty"`
	Channels  []jsonChannel `json:"channels"`
}

type jsonChannel struct {
	Channel    string     `json:"channel"`
	Partition  string     `json:"partition,omitempty"`
	First      *int32     `json:"firstSubpartition,omitempty"`
	Last       *int32     `json:"lastSubpartition,omitempty"`
	Frames     jsonDirs   `json:"frames"`
	Bytes      jsonDirs   `json:"bytes"`
	Data       int64      `json:"data"`
	Payload    int64      `json:"payload"`
	Events     int64      `json:"events"`
	Initial    int32      `json:"initialCredit"`
	Granted    int64      `json:"granted"`
	Used       int64      `json:"used"`
	Credit     *int64     `json:"credit,omitempty"`
	Backlog    *int32     `json:"backlog,omitempty"`
	MaxBacklog int32      `json:"maxBacklog"`
	Closed     bool       `json:"closed"`
	Failure    *jsonError `json:"failure,omitempty"`
	Waits      []jsonWait `json:"waits,omitempty"`
}

type jsonWait struct {
	Who       string  `json:"who,omitempty"` // sender, receiver; absent: not known
	Why       string  `json:"why"`
	Seconds   float64 `json:"seconds"`
	Times     int     `json:"times"`
	Longest   float64 `json:"longest"`
	LongestAt string  `json:"longestAt"`
}

func (p *JSON) print(v any) error {
	line, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = p.W.Write(append(line, '\n'))
	return err
}

func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}

func idText(id credit.ChannelID) string {
	if id.IsZero() {
		return ""
	}
	return id.String()
}

func ifKnown[T any](v T, known bool) *T {
	if !known {
		return nil
	}
	return &v
}

func toEvent(f *Frame) *jsonEvent {
	switch {
	case f.EventErr != nil:
		return &jsonEvent{Invalid: f.EventErr.Error()}
	case f.Event == nil:
		return nil
	}
	e := f.Event
	j := &jsonEvent{Kind: e.Kind.String(), Text: e.String(), Class: e.Class}
	switch e.Kind {
	case event.CheckpointBarrier:
		b := &e.Barrier
		j.Checkpoint, j.Timestamp, j.Alignment, j.Snapshot = &b.ID, &b.Timestamp, b.Options.Alignment.String(), b.Options.Snapshot.String()
	case event.CancelCheckpoint:
		j.Checkpoint = &e.CheckpointID
	}
	return j
}

func toError(e *credit.ErrorResponse) *jsonError {
	if e == nil {
		return nil
	}
	return &jsonError{Fatal: e.Fatal, Class: e.Cause.Class, Text: e.Cause.Error(), Stack: e.Cause.Stack}
}

// Frame prints an object of type "frame".
func (p *JSON) Frame(f *Frame) error {
	p.last.conn = 0
	if p.Quiet || !p.Filter.frame(f) {
		return nil
	}
	p.last.conn, p.last.offset = f.Conn, f.Offset
	j := &jsonFrame{Type: "frame", Conn: f.Conn, Time: stamp(f.Time), Dir: f.Dir.String(), Offset: f.Offset, Length: f.Length,
		Message: f.Message.String(), Channel: idText(f.Channel), Event: toEvent(f), Error: toError(f.Error), Odd: f.Odd}
	if f.Partition != nil {
		j.Partition = f.Partition.String()
	}
	switch f.Message {
	case credit.MsgPartitionRequest:
		j.First, j.Last, j.Value = &f.Request.Range.First, &f.Request.Range.Last, &f.Request.Credit
	case credit.MsgBufferResponse:
		b := f.Buffer
		j.Seq, j.DataType, j.Size, j.Compressed, j.Partials, j.Sub = &b.Seq, b.Type.String(), &b.Size, b.Compressed, b.PartialSizes, &b.Subpartition
	case credit.MsgSegmentID:
		j.Value, j.Sub = &f.Value, &f.Subpartition
	case credit.MsgAddCredit, credit.MsgBacklogAnnouncement, credit.MsgNewBufferSize:
		j.Value = &f.Value
	}
	if st := &f.State; j.Channel != "" {
		j.Credit, j.Backlog, j.Closed = ifKnown(st.Credit, st.CreditKnown), ifKnown(st.Backlog, st.BacklogKnown), st.Closed
		if st.Blocked {
			j.Blocked = st.BlockedBy.String()
		}
	}
	return p.print(j)
}

// Element prints an object of type "element".
func (p *JSON) Element(e *Element) error {
	if p.last.conn != e.Conn || p.last.offset != e.Frame {
		return nil
	}
	j := &jsonElement{Type: "element", Conn: e.Conn, Channel: e.Channel.String(), Frame: e.Frame, Length: ifKnown(e.Length, e.Length >= 0)}
	if e.Err != nil {
		j.Invalid = e.Err.Error()
		return p.print(j)
	}
	el := &e.Element
	j.Kind, j.Text, j.Data = el.Kind.String(), el.String(), el.Value
	j.Timestamp = ifKnown(el.Timestamp, el.HasTimestamp || el.Kind == serde.Watermark || el.Kind == serde.InternalWatermark || el.Kind == serde.LatencyMarker)
	return p.print(j)
}

// Note prints an object of type "note".
func (p *JSON) Note(n *Note) error {
	return p.print(&jsonNote{Type: "note", Conn: n.Conn, Time: stamp(n.Time), Text: n.Text})
}

// Summary prints an object of type "summary".
func (p *JSON) Summary(s *Summary) error {
	dirs := func(v [2]int64) jsonDirs { return jsonDirs{v[ToServer], v[ToClient]} }
	j := &jsonSummary{Type: "summary", Conn: s.Conn, Name: s.Name, Begin: stamp(s.Begin), End: stamp(s.End), Timed: s.Timed(), Unordered: s.Unordered,
		Frames: dirs(s.Frames), Bytes: dirs(s.Bytes), Missing: dirs(s.Missing), Repeated: dirs(s.Repeated), Channels: []jsonChannel{}}
	for _, err := range s.Errs {
		if err != nil {
			j.Errors = append(j.Errors, err.Error())
		}
	}
	for _, c := range s.Channels {
		if p.Filter.channel(c.ID) {
			j.Channels = append(j.Channels, toChannel(s, c))
		}
	}
	return p.print(j)
}

func toChannel(s *Summary, c *Channel) jsonChannel {
	dirs := func(v [2]int64) jsonDirs { return jsonDirs{v[ToServer], v[ToClient]} }
	j := jsonChannel{Channel: c.ID.String(), Frames: dirs(c.Frames), Bytes: dirs(c.Bytes), Data: c.Data, Payload: c.Payload, Events: c.Events,
		Initial: c.initial(), Granted: c.Granted, Used: c.Data, Credit: ifKnown(c.Credit, c.CreditKnown), Backlog: ifKnown(c.Backlog, c.BacklogKnown),
		MaxBacklog: c.MaxBacklog, Closed: c.Closed, Failure: toError(c.Failure)}
	if r := c.Request; r != nil {
		j.Partition, j.First, j.Last = r.Partition.String(), &r.Range.First, &r.Range.Last
	}
	if s.Timed() {
		c.waits(func(r Reason, w *Wait) {
			j.Waits = append(j.Waits, jsonWait{Who: r.Waiter(), Why: r.String(), Seconds: w.Total.Seconds(), Times: w.Times, Longest: w.Longest.Seconds(), LongestAt: stamp(w.LongestAt)})
		})
	}
	return j
}
