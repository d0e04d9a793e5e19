package event_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/weirflow/weir/segment"
	"github.com/weirflow/weir/serde/event"
)

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	p, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func barrier(o event.Options) *event.Event {
	return &event.Event{Kind: event.CheckpointBarrier, Barrier: event.Barrier{ID: 5, Timestamp: 0x0000018bcfe56800, Options: o}}
}

// golden are events with their exact bytes, the size with padding and the data type, taken from Flink's output.
var golden = []struct {
	e      *event.Event
	hex    string
	padded int
	dt     segment.DataType
}{
	{&event.Event{Kind: event.EndOfPartition}, "00000000", 4, segment.EndOfPartition},
	{&event.Event{Kind: event.EndOfSuperstep}, "00000002", 4, segment.EventBuffer},
	{&event.Event{Kind: event.EndOfSegment}, "00000009", 4, segment.EventBuffer},
	{&event.Event{Kind: event.EndOfOutputChannelState}, "00000005", 4, segment.RecoveryCompletion},
	{&event.Event{Kind: event.EndOfInputChannelState}, "0000000c", 4, segment.EventBuffer},
	{&event.Event{Kind: event.EndOfData}, "0000000800", 5, segment.EndOfData},
	{&event.Event{Kind: event.EndOfData, StopMode: event.NoDrain}, "0000000801", 5, segment.EndOfData},
	{&event.Event{Kind: event.CancelCheckpoint, CheckpointID: 0x0102030405060708}, "00000004 0102030405060708", 12, segment.EventBuffer},
	{&event.Event{Kind: event.SubtaskConnection, InputSubtask: 1, OutputSubtask: 2}, "00000007 00000001 00000002", 12, segment.EventBuffer},
	{&event.Event{Kind: event.RecoveryMetadata, Subpartition: 7}, "0000000a 00000007", 8, segment.EventBuffer},
	{&event.Event{Kind: event.Announcement, Seq: 9, Announced: &event.Event{Kind: event.CancelCheckpoint, CheckpointID: 3}},
		"00000006 00000009 00000004 0000000000000003", 20, segment.EventBuffer},
	{&event.Event{Kind: event.Announcement, Seq: 9, Announced: barrier(event.Options{Alignment: event.Aligned, Timeout: 1000})},
		"00000006 00000009 00000001 0000000000000005 0000018bcfe56800 00 ffffffff 01 00000000000003e8", 46, segment.EventBuffer},
	{barrier(event.Options{Alignment: event.Aligned, Timeout: event.NoTimeout}),
		"00000001 0000000000000005 0000018bcfe56800 00 ffffffff 01 7fffffffffffffff", 38, segment.AlignedBarrier},
	{barrier(event.Options{Snapshot: event.FullCheckpoint, Alignment: event.Aligned, Timeout: event.NoTimeout}),
		"00000001 0000000000000005 0000018bcfe56800 04 ffffffff 01 7fffffffffffffff", 38, segment.AlignedBarrier},
	{barrier(event.Options{Location: []byte{0xca, 0xfe}, Alignment: event.Unaligned, Timeout: event.NoTimeout}),
		"00000001 0000000000000005 0000018bcfe56800 00 00000002 cafe 02 7fffffffffffffff", 40, segment.EventBuffer},
	{barrier(event.Options{Location: []byte{0xca, 0xfe}, Alignment: event.Aligned, Timeout: 1000}),
		"00000001 0000000000000005 0000018bcfe56800 00 00000002 cafe 01 00000000000003e8", 40, segment.TimeoutableAlignedBarrier},
	{barrier(event.Options{Location: []byte{0xca, 0xfe}, Alignment: event.ForcedAligned, Timeout: 1000}),
		"00000001 0000000000000005 0000018bcfe56800 00 00000002 cafe 03 00000000000003e8", 40, segment.AlignedBarrier},
	{barrier(event.Options{Alignment: event.AtLeastOnce, Timeout: event.NoTimeout}),
		"00000001 0000000000000005 0000018bcfe56800 00 ffffffff 00 7fffffffffffffff", 38, segment.EventBuffer},
	{barrier(event.Options{Snapshot: event.Savepoint, Location: []byte{0xca, 0xfe}, Alignment: event.Aligned, Timeout: event.NoTimeout}),
		"00000001 0000000000000005 0000018bcfe56800 01 00 00000002 cafe 01 7fffffffffffffff", 40, segment.AlignedBarrier},
	{barrier(event.Options{Snapshot: event.SavepointTerminate, Format: event.Native, Alignment: event.Aligned, Timeout: event.NoTimeout}),
		"00000001 0000000000000005 0000018bcfe56800 03 01 ffffffff 01 7fffffffffffffff", 38, segment.AlignedBarrier},
	{&event.Event{Kind: event.Watermark, Watermark: event.WatermarkEvent{Identifier: "wm", Value: 1000}},
		"0000000b 0002776d 00 00000000 00000000000003e8", 128, segment.UnalignedWatermark},
	{&event.Event{Kind: event.Watermark, Watermark: event.WatermarkEvent{Identifier: "b", Aligned: true, Type: event.BoolWatermark, Value: 1}},
		"0000000b 000162 01 00000001 01", 128, segment.AlignedWatermark},
}

// TestGolden checks bytes, padding, data type and the way back of every kind of event.
func TestGolden(t *testing.T) {
	seen := map[event.Kind]bool{event.Generic: true}
	for _, g := range golden {
		seen[g.e.Kind] = true
		want := unhex(t, g.hex)
		if got := event.Append([]byte{7}, g.e); !bytes.Equal(got, append([]byte{7}, want...)) {
			t.Errorf("%v: got %x, want %x", g.e, got[1:], want)
		}
		padded := event.AppendPadded([]byte{7}, g.e)[1:]
		if len(padded) != g.padded || !bytes.Equal(padded[:len(want)], want) || len(bytes.TrimRight(padded[len(want):], "\x00")) != 0 {
			t.Errorf("%v: padded form %x, want %d bytes that begin with %x", g.e, padded, g.padded, want)
		}
		if dt := event.DataTypeOf(g.e, false); dt != g.dt {
			t.Errorf("%v: data type %v, want %v", g.e, dt, g.dt)
		}
		if dt := event.DataTypeOf(g.e, true); dt != segment.PrioritizedEvent {
			t.Errorf("%v: with priority: data type %v", g.e, dt)
		}
		// What the struct held before must not shine through.
		got := event.Event{Kind: event.Generic, Class: "old", Payload: []byte{1}, Seq: 4, Announced: &event.Event{}, Subpartition: 1, StopMode: 1}
		for _, p := range [][]byte{want, padded} {
			if err := event.Decode(p, &got); err != nil || !reflect.DeepEqual(&got, g.e) {
				t.Errorf("%v: decoded %+v, %v", g.e, got, err)
			}
		}
	}
	for k := event.EndOfPartition; k <= event.EndOfInputChannelState; k++ {
		if !seen[k] {
			t.Errorf("no example of %v", k)
		}
	}
}

// TestGeneric checks the array's growth for events that go by class name, with Flink's observed sizes.
func TestGeneric(t *testing.T) {
	for _, tc := range []struct{ payload, size, padded int }{{0, 12, 128}, {4, 16, 128}, {116, 128, 128}, {117, 129, 256}, {200, 212, 328}} {
		e := &event.Event{Kind: event.Generic, Class: "Ev$My1", Payload: bytes.Repeat([]byte{0x42}, tc.payload)}
		p, padded := event.Append(nil, e), event.AppendPadded(nil, e)
		if len(p) != tc.size || len(padded) != tc.padded {
			t.Errorf("payload of %d bytes: %d bytes, padded %d; want %d, %d", tc.payload, len(p), len(padded), tc.size, tc.padded)
		}
		var got event.Event
		if err := event.Decode(p, &got); err != nil || got.Class != e.Class || !bytes.Equal(got.Payload, e.Payload) {
			t.Errorf("payload of %d bytes: decoded %+v, %v", tc.payload, got, err)
		}
		if err := event.Decode(padded, &got); err != nil || !bytes.HasPrefix(got.Payload, e.Payload) {
			t.Errorf("payload of %d bytes, padded: decoded %+v, %v", tc.payload, got, err)
		}
	}
	want := unhex(t, "00000003 000a 4576244d794576656e74 00000042")
	e := &event.Event{Kind: event.Generic, Class: "Ev$MyEvent", Payload: []byte{0, 0, 0, 0x42}}
	if got := event.Append(nil, e); !bytes.Equal(got, want) {
		t.Errorf("got %x, want %x", got, want)
	}
}

// TestCorrupt checks that each malformed event gives its sentinel and leaves the zero event.
func TestCorrupt(t *testing.T) {
	const head = "00000001 0000000000000005 0000018bcfe56800 "
	for _, tc := range []struct {
		name, hex string
		want      error
	}{
		{"empty", "", event.ErrIncomplete},
		{"three bytes", "000000", event.ErrIncomplete},
		{"unknown word", "0000000d", event.ErrCorrupt},
		{"negative word", "ffffffff", event.ErrCorrupt},
		{"word 256", "00000100", event.ErrCorrupt},
		{"barrier without end", head + "00 ffffffff 01 7fffffffffffff", event.ErrCorrupt},
		{"snapshot type", head + "05 ffffffff 01 7fffffffffffffff", event.ErrCorrupt},
		{"savepoint format", head + "01 02 ffffffff 01 7fffffffffffffff", event.ErrCorrupt},
		{"location of 0 bytes", head + "00 00000000 01 7fffffffffffffff", event.ErrCorrupt},
		{"location of -2 bytes", head + "00 fffffffe 01 7fffffffffffffff", event.ErrCorrupt},
		{"location of 2 GiB", head + "00 7fffffff 01 7fffffffffffffff", event.ErrCorrupt},
		{"alignment 4", head + "00 ffffffff 04 7fffffffffffffff", event.ErrCorrupt},
		{"alignment 255", head + "00 ffffffff ff 7fffffffffffffff", event.ErrCorrupt},
		{"unaligned savepoint", head + "01 00 ffffffff 02 7fffffffffffffff", event.ErrCorrupt},
		{"unaligned with timeout", head + "00 ffffffff 02 00000000000003e8", event.ErrCorrupt},
		{"stop mode 2", "00000008 02", event.ErrCorrupt},
		{"no stop mode", "00000008", event.ErrCorrupt},
		{"cancel", "00000004 00000000000000", event.ErrCorrupt},
		{"descriptor", "00000007 00000001 000000", event.ErrCorrupt},
		{"metadata", "0000000a", event.ErrCorrupt},
		{"watermark tag", "0000000b 0001 77 00 00000002 00", event.ErrCorrupt},
		{"watermark text", "0000000b 0001 ff 00 00000000 0000000000000000", event.ErrCorrupt},
		{"watermark cut", "0000000b 0001 77 00 00000000 00000000000000", event.ErrCorrupt},
		{"identifier too long", "0000000b ffff 77", event.ErrCorrupt},
		{"class cut", "00000003 0004 616263", event.ErrCorrupt},
		{"announcement of nothing", "00000006 00000009", event.ErrIncomplete},
		{"announcement cut", "00000006 000009", event.ErrCorrupt},
		{"announcement of announcement", "00000006 00000009 00000006 00000009 00000000", event.ErrCorrupt},
		{"announcement of corrupt", "00000006 00000009 00000008 05", event.ErrCorrupt},
	} {
		e := *barrier(event.Options{})
		err := event.Decode(unhex(t, tc.hex), &e)
		if !errors.Is(err, tc.want) || !reflect.DeepEqual(e, event.Event{}) {
			t.Errorf("%s: got %+v, %v; want error %v", tc.name, e, err, tc.want)
		}
	}
}

// TestRelease checks that 1.20 knows neither word 11 nor 12, and all others.
func TestRelease(t *testing.T) {
	for _, g := range golden {
		p := event.Append(nil, g.e)
		var e event.Event
		err := event.Flink120.Decode(p, &e)
		if known := g.e.Kind < event.Watermark; known != (err == nil) || known != event.Flink120.Supports(g.e.Kind) {
			t.Errorf("%v: error %v, Supports %v", g.e, err, event.Flink120.Supports(g.e.Kind))
		} else if !known && !errors.Is(err, event.ErrCorrupt) {
			t.Errorf("%v: error %v, want ErrCorrupt", g.e, err)
		}
		if !event.Flink23.Supports(g.e.Kind) {
			t.Errorf("2.3 does not support %v", g.e)
		}
	}
}

// TestInvalid checks that what Decode would refuse is refused and appends nothing.
func TestInvalid(t *testing.T) {
	long := strings.Repeat("é", 32768) // 65536 bytes
	for _, e := range []*event.Event{
		{Kind: 13},
		{Kind: event.EndOfData, StopMode: 2},
		{Kind: event.Announcement},
		{Kind: event.Announcement, Announced: &event.Event{Kind: event.Announcement, Announced: &event.Event{}}},
		{Kind: event.Announcement, Announced: &event.Event{Kind: 13}},
		{Kind: event.Watermark, Watermark: event.WatermarkEvent{Type: 2}},
		{Kind: event.Watermark, Watermark: event.WatermarkEvent{Type: event.BoolWatermark, Value: 2}},
		{Kind: event.Watermark, Watermark: event.WatermarkEvent{Identifier: long}},
		{Kind: event.Generic, Class: long},
		barrier(event.Options{Snapshot: 5}),
		barrier(event.Options{Snapshot: event.Savepoint, Format: 2}),
		barrier(event.Options{Location: []byte{}}),
		barrier(event.Options{Alignment: 4}),
		barrier(event.Options{Snapshot: event.Savepoint, Alignment: event.Unaligned, Timeout: event.NoTimeout}),
		barrier(event.Options{Alignment: event.Unaligned, Timeout: 5}),
	} {
		if err := e.Validate(); !errors.Is(err, event.ErrInvalid) {
			t.Errorf("%v: Validate gives %v", e.Kind, err)
		}
		if p := event.Append(nil, e); len(p) != 0 {
			t.Errorf("%v: Append wrote %x", e.Kind, p)
		}
		if p := event.AppendPadded(nil, e); len(p) != 0 {
			t.Errorf("%v: AppendPadded wrote %x", e.Kind, p)
		}
	}
	ok := &event.Event{Kind: event.Generic, Class: long[2:]}
	if err := ok.Validate(); err != nil {
		t.Errorf("a class name of 65534 bytes: %v", err)
	}
}

// TestOptions checks the rules that turn options into others.
func TestOptions(t *testing.T) {
	const none = event.NoTimeout
	for _, tc := range []struct {
		got, want event.Options
	}{
		{event.ForConfig(event.Checkpoint, 0, nil, false, true, 5), event.Options{Alignment: event.AtLeastOnce, Timeout: none}},
		{event.ForConfig(event.Checkpoint, 0, nil, true, false, 5), event.Options{Alignment: event.Aligned, Timeout: none}},
		{event.ForConfig(event.Savepoint, 1, nil, true, true, 5), event.Options{Snapshot: event.Savepoint, Format: event.Native, Alignment: event.Aligned, Timeout: none}},
		{event.ForConfig(event.Checkpoint, 0, nil, true, true, 0), event.Options{Alignment: event.Unaligned, Timeout: none}},
		{event.ForConfig(event.Checkpoint, 0, nil, true, true, none), event.Options{Alignment: event.Unaligned, Timeout: none}},
		{event.ForConfig(event.Checkpoint, 0, nil, true, true, 5), event.Options{Alignment: event.Aligned, Timeout: 5}},
		{event.Options{Alignment: event.Aligned, Timeout: 5}.ToUnaligned(), event.Options{Alignment: event.Unaligned, Timeout: none}},
		{event.Options{Alignment: event.ForcedAligned, Timeout: 5}.ToUnaligned(), event.Options{Alignment: event.ForcedAligned, Timeout: 5}},
		{event.Options{Alignment: event.Aligned, Timeout: 5}.WithUnalignedUnsupported(), event.Options{Alignment: event.ForcedAligned, Timeout: 5}},
		{event.Options{Alignment: event.Aligned, Timeout: none}.WithUnalignedUnsupported(), event.Options{Alignment: event.Aligned, Timeout: none}},
		{event.Options{Alignment: event.Unaligned, Timeout: none}.WithUnalignedUnsupported(), event.Options{Alignment: event.ForcedAligned, Timeout: none}},
		{event.Options{Alignment: event.ForcedAligned, Timeout: none}.WithUnalignedSupported(), event.Options{Alignment: event.Unaligned, Timeout: none}},
		{event.Options{Alignment: event.ForcedAligned, Timeout: 5}.WithUnalignedSupported(), event.Options{Alignment: event.Aligned, Timeout: 5}},
		{event.Options{Alignment: event.AtLeastOnce, Timeout: none}.WithUnalignedSupported(), event.Options{Alignment: event.AtLeastOnce, Timeout: none}},
	} {
		if !reflect.DeepEqual(tc.got, tc.want) {
			t.Errorf("got %+v, want %+v", tc.got, tc.want)
		}
	}
}

// TestClone checks that a clone shares nothing with what it was made of.
func TestClone(t *testing.T) {
	p := event.Append(nil, &event.Event{Kind: event.Announcement, Seq: 1, Announced: barrier(event.Options{Location: []byte("abc"), Alignment: event.Aligned, Timeout: 3})})
	var e event.Event
	if err := event.Decode(p, &e); err != nil {
		t.Fatal(err)
	}
	c := e.Clone()
	clear(p)
	if got := string(c.Announced.Barrier.Options.Location); got != "abc" {
		t.Errorf("the clone's location changed to %q", got)
	}
	if got := string(e.Announced.Barrier.Options.Location); got == "abc" {
		t.Error("the decoded location is a copy; it should be a view")
	}
}

// TestRegistry checks the way from a class name to a value.
func TestRegistry(t *testing.T) {
	var r event.Registry
	e := &event.Event{Kind: event.Generic, Class: "x.Y", Payload: []byte{5}}
	if _, err := r.Load(e); !errors.Is(err, event.ErrUnknownClass) || !strings.Contains(err.Error(), "x.Y") {
		t.Errorf("unknown class: %v", err)
	}
	r.Register("x.Y", func(p []byte) (any, error) {
		if p[0] != 5 {
			return nil, fmt.Errorf("not five")
		}
		return int(p[0]), nil
	})
	if v, err := r.Load(e); v != 5 || err != nil {
		t.Errorf("got %v, %v", v, err)
	}
	e.Payload = []byte{6}
	if _, err := r.Load(e); !errors.Is(err, event.ErrCorrupt) {
		t.Errorf("bad payload: %v", err)
	}
	if _, err := r.Load(&event.Event{}); !errors.Is(err, event.ErrInvalid) {
		t.Errorf("event without a class: %v", err)
	}
}

// TestStrings checks that every event and unknown constants have a text.
func TestStrings(t *testing.T) {
	for _, g := range golden {
		if s := g.e.String(); !strings.HasPrefix(s, g.e.Kind.String()) {
			t.Errorf("%v: %q", g.e.Kind, s)
		}
	}
	for _, tc := range []struct{ got, want string }{
		{event.Kind(99).String(), "Kind(99)"},
		{event.StopMode(9).String(), "StopMode(9)"},
		{event.SnapshotType(9).String(), "SnapshotType(9)"},
		{event.SavepointFormat(9).String(), "SavepointFormat(9)"},
		{event.Alignment(9).String(), "Alignment(9)"},
		{event.ForcedAligned.String(), "FORCED_ALIGNED"},
		{event.SavepointTerminate.String(), "SAVEPOINT_TERMINATE"},
		{event.Native.String(), "NATIVE"},
		{event.NoDrain.String(), "NO_DRAIN"},
		{(&event.Event{Kind: event.Generic, Class: "a.B"}).String(), "AbstractEvent(a.B)"},
		{(&event.Event{Kind: event.Announcement, Seq: 3}).String(), "EventAnnouncement(3)"},
	} {
		if tc.got != tc.want {
			t.Errorf("got %q, want %q", tc.got, tc.want)
		}
	}
}
