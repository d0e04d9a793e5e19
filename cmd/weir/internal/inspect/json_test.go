package inspect

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirflow/weir/credit"
	"github.com/weirflow/weir/segment"
	"github.com/weirflow/weir/serde/event"
)

// objects decodes lines, which must hold no field that is not documented by the types.
func objects(t *testing.T, text []byte) (frames []jsonFrame, elements []jsonElement, notes []jsonNote, summaries []jsonSummary) {
	t.Helper()
	for line := range bytes.Lines(text) {
		var head struct{ Type string }
		if err := json.Unmarshal(line, &head); err != nil {
			t.Fatalf("%v in %s", err, line)
		}
		var f jsonFrame
		var e jsonElement
		var n jsonNote
		var s jsonSummary
		into := map[string]any{"frame": &f, "element": &e, "note": &n, "summary": &s}[head.Type]
		d := json.NewDecoder(bytes.NewReader(line))
		d.DisallowUnknownFields()
		if err := d.Decode(into); err != nil {
			t.Fatalf("%v in %s", err, line)
		}
		switch head.Type {
		case "frame":
			frames = append(frames, f)
		case "element":
			elements = append(elements, e)
		case "note":
			notes = append(notes, n)
		case "summary":
			summaries = append(summaries, s)
		}
	}
	return frames, elements, notes, summaries
}

func TestJSON(t *testing.T) {
	for _, name := range captured(t) {
		f, cfg, size := load(t, name)
		var r recording
		if err := ReadFiles(f, cfg, &r); err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		if err := ReadFiles(f, cfg, &JSON{W: &out}); err != nil {
			t.Fatal(err)
		}
		frames, elements, notes, summaries := objects(t, out.Bytes())
		if len(frames) != len(r.frames) || len(elements) != len(r.elements) || len(notes) != 0 || len(summaries) != 1 {
			t.Fatalf("%s: %d frames, %d elements, %d notes, %d summaries", name, len(frames), len(elements), len(notes), len(summaries))
		}
		for i, j := range frames {
			f := &r.frames[i]
			same := j.Conn == 1 && j.Time == "" && j.Dir == f.Dir.String() && j.Offset == f.Offset && j.Length == f.Length && j.Message == f.Message.String()
			if !f.Channel.IsZero() {
				same = same && j.Channel == f.Channel.String() && *j.Credit == f.State.Credit && *j.Backlog == f.State.Backlog && j.Closed == f.State.Closed
			}
			if b := f.Buffer; b != nil {
				same = same && *j.Seq == b.Seq && j.DataType == b.Type.String() && *j.Size == b.Size && j.Compressed == b.Compressed && (j.Event == nil) == b.Type.IsBuffer()
			}
			if f.Message == credit.MsgAddCredit {
				same = same && *j.Value == f.Value
			}
			if e := f.Event; e != nil && e.Kind == event.CheckpointBarrier {
				same = same && *j.Event.Checkpoint == e.Barrier.ID && j.Event.Kind == "CheckpointBarrier" && j.Event.Alignment == e.Barrier.Options.Alignment.String()
			}
			if f.Error != nil {
				same = same && j.Error.Class == f.Error.Cause.Class && strings.Contains(j.Error.Stack, "at org.apache.flink")
			}
			if !same {
				t.Fatalf("%s: frame %d is %+v", name, i, j)
			}
		}
		s := summaries[0]
		if s.Bytes != (jsonDirs{size[ToServer], size[ToClient]}) || s.Timed || len(s.Channels) != len(r.summaries[0].Channels) {
			t.Errorf("%s: %+v", name, s)
		}
		for i, c := range s.Channels {
			if want := r.summaries[0].Channels[i]; c.Used != want.Data || c.Granted != want.Granted || c.Payload != want.Payload || len(c.Waits) != 0 {
				t.Errorf("%s: %+v", name, c)
			}
		}
	}
}

// With times: the waits are in the summary, notes tell of connections.
func TestJSONOfPackets(t *testing.T) {
	f, cfg, _ := load(t, "unaligned-barriers")
	w := newWire(linkRaw, false)
	w.handshake()
	w.play(t, f, 1400)
	w.fin()
	var out bytes.Buffer
	if err := ReadCapture(bytes.NewReader(capturedBytes(w)), cfg, nil, &JSON{W: &out, Quiet: true}); err != nil {
		t.Fatal(err)
	}
	frames, elements, notes, summaries := objects(t, out.Bytes())
	if len(frames)+len(elements) > 0 || len(notes) != 1 || notes[0].Time == "" || len(summaries) != 1 {
		t.Fatalf("%d frames, %d elements, notes %v, %d summaries", len(frames), len(elements), notes, len(summaries))
	}
	s := summaries[0]
	if !s.Timed || s.Begin != "2026-01-02T03:04:05.003006Z" || !strings.Contains(s.Name, "6121") {
		t.Errorf("%+v", s)
	}
	for _, c := range s.Channels {
		var total float64
		for _, w := range c.Waits {
			if (w.Who == "") != (w.Why == Neither.String()) || w.Longest > w.Seconds || w.Times < 1 || w.LongestAt == "" {
				t.Errorf("%+v", w)
			}
			total += w.Seconds
		}
		if total <= 0 || total > 1 {
			t.Errorf("channel %s waited %g s in all", c.Channel, total)
		}
	}
}

func TestFilter(t *testing.T) {
	f, cfg, _ := load(t, "aligned-barriers")
	var all recording
	if err := ReadFiles(f, cfg, &all); err != nil {
		t.Fatal(err)
	}
	id := all.frames[0].Channel.String()
	for name, c := range map[string]struct {
		filter Filter
		want   func(f *Frame) bool
	}{
		"all":        {Filter{}, func(*Frame) bool { return true }},
		"channel":    {Filter{Channel: strings.ToUpper(id[:6])}, func(f *Frame) bool { return f.Channel.String() == id }},
		"both ends":  {Filter{Channel: short(all.frames[0].Channel)}, func(f *Frame) bool { return f.Channel.String() == id }},
		"message":    {Filter{Kinds: []string{"addcredit"}}, func(f *Frame) bool { return f.Message == credit.MsgAddCredit }},
		"data type":  {Filter{Kinds: []string{"END_OF_DATA"}}, func(f *Frame) bool { return f.Buffer != nil && f.Buffer.Type == segment.EndOfData }},
		"event kind": {Filter{Kinds: []string{"CheckpointBarrier"}}, func(f *Frame) bool { return f.Event != nil && f.Event.Kind == event.CheckpointBarrier }},
		"data":       {Filter{Kinds: []string{"data"}}, (*Frame).IsData},
		"two": {Filter{Kinds: []string{"event", "ResumeConsumption"}, Channel: id}, func(f *Frame) bool {
			return f.Channel.String() == id && (f.Event != nil || f.Message == credit.MsgResumeConsumption)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			if err := c.filter.Check(); err != nil {
				t.Fatal(err)
			}
			var out bytes.Buffer
			if err := ReadFiles(f, cfg, &JSON{W: &out, Filter: c.filter}); err != nil {
				t.Fatal(err)
			}
			frames, elements, _, summaries := objects(t, out.Bytes())
			var want []int64
			shown := map[int64]bool{}
			for i := range all.frames {
				if f := &all.frames[i]; c.want(f) {
					want = append(want, f.Offset)
					shown[f.Offset] = true
				}
			}
			var got []int64
			for _, f := range frames {
				got = append(got, f.Offset)
			}
			if len(want) == 0 || !slices.Equal(got, want) {
				t.Errorf("%d frames, want %d", len(got), len(want))
			}
			for _, e := range elements {
				if !shown[e.Frame] {
					t.Errorf("an element of a frame that is not shown: %+v", e)
				}
			}
			if n := len(summaries[0].Channels); (n == 1) != (c.filter.Channel != "") {
				t.Errorf("%d channels in the summary", n)
			}
		})
	}
	for _, bad := range []Filter{{Channel: "xyz"}, {Channel: strings.Repeat("a", 33)}, {Kinds: []string{"Credit"}}} {
		if bad.Check() == nil {
			t.Errorf("%+v was accepted", bad)
		}
	}
}

// While channel state is restored, a channel has several streams of records.
func TestVirtualChannels(t *testing.T) {
	id := credit.ChannelID{1}
	var stream []byte
	seq := int32(0)
	send := func(typ segment.DataType, payload []byte) {
		h := credit.BufferHeader{Receiver: id, Seq: seq, Type: typ, Size: int32(len(payload))}
		seq++
		stream = credit.AppendBufferResponse(stream, credit.Flink23, &h, payload)
	}
	choose := func(in, out int32) {
		send(segment.EventBuffer, event.Append(nil, &event.Event{Kind: event.SubtaskConnection, InputSubtask: in, OutputSubtask: out}))
	}
	record := []byte{0, 0, 0, 4, 1, 'a', 'b', 'c'}
	choose(0, 0)
	send(segment.DataBuffer, record[:6])
	choose(0, 1)
	send(segment.DataBuffer, record[:3])
	choose(0, 0)
	send(segment.DataBuffer, record[6:])
	choose(0, 1)
	send(segment.DataBuffer, record[3:])
	send(segment.RecoveryCompletion, event.Append(nil, &event.Event{Kind: event.EndOfOutputChannelState}))
	send(segment.DataBuffer, record)
	var r recording
	s := NewSession(Config{Elements: true, Profile: credit.Flink23}, 1, &r)
	if err := s.Feed(ToServer, credit.AppendPartitionRequest(nil, &credit.PartitionRequest{Receiver: id, Credit: 9}), time.Time{}); err != nil {
		t.Fatal(err)
	}
	if err := s.Feed(ToClient, stream, time.Time{}); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(s.Close(true), s.Err()); err != nil {
		t.Fatal(err)
	}
	if want := slices.Repeat([]string{`Record(3 bytes) "abc"`}, 3); !slices.Equal(r.elements, want) {
		t.Errorf("%q", r.elements)
	}
}
