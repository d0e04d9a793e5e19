package serde_test

import (
	"bytes"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/weirflow/weir/serde"
)

var elements = []struct {
	e    serde.Element
	hex  string
	text string
}{
	{serde.Element{Kind: serde.Record, HasTimestamp: true, Timestamp: 1000, Value: []byte{2, 'a'}}, "00 00000000000003e8 0261", "Record(2 bytes @ 1000)"},
	{serde.Element{Kind: serde.Record, Value: []byte{2, 'a'}}, "01 0261", "Record(2 bytes)"},
	{serde.Element{Kind: serde.Record, Value: []byte{}}, "01", "Record(0 bytes)"},
	{serde.Element{Kind: serde.Watermark, Timestamp: 5}, "02 0000000000000005", "Watermark @ 5"},
	{serde.Element{Kind: serde.Watermark, Timestamp: serde.MaxWatermark}, "02 7fffffffffffffff", "Watermark @ 9223372036854775807"},
	{serde.Element{Kind: serde.Watermark, Timestamp: serde.MinWatermark}, "02 8000000000000000", "Watermark @ -9223372036854775808"},
	{serde.Element{Kind: serde.InternalWatermark, Subpartition: 3, Timestamp: 5}, "06 00000003 0000000000000005", "InternalWatermark(3) @ 5"},
	{serde.Element{Kind: serde.WatermarkStatus, Idle: true}, "04 ffffffff", "WatermarkStatus(IDLE)"},
	{serde.Element{Kind: serde.WatermarkStatus}, "04 00000000", "WatermarkStatus(ACTIVE)"},
	{serde.Element{Kind: serde.LatencyMarker, Timestamp: 1000, Subtask: 7, OperatorID: [16]byte{0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18, 0x21, 0x22, 0x23, 0x24, 0x25, 0x26, 0x27, 0x28}},
		"03 00000000000003e8 1112131415161718 2122232425262728 00000007", "LatencyMarker(11121314151617182122232425262728, 7) @ 1000"},
	{serde.Element{Kind: serde.RecordAttributes, Backlog: true}, "05 01", "RecordAttributes(backlog=true)"},
	{serde.Element{Kind: serde.RecordAttributes}, "05 00", "RecordAttributes(backlog=false)"},
}

// TestElements checks the observed bytes of every kind of element, both ways, and that all other lengths are refused.
func TestElements(t *testing.T) {
	for _, tc := range elements {
		want := unhex(t, tc.hex)
		if got := serde.AppendElement([]byte{9}, &tc.e); !bytes.Equal(got, append([]byte{9}, want...)) {
			t.Errorf("%v: got %x, want %x", &tc.e, got[1:], want)
		}
		got := serde.Element{Kind: serde.LatencyMarker, Subtask: 1, Idle: true, Backlog: true, Value: []byte("old"), OperatorID: [16]byte{1}}
		if err := serde.DecodeElement(want, &got); err != nil || !reflect.DeepEqual(got, tc.e) {
			t.Errorf("%x: got %+v, %v; want %+v", want, got, err, tc.e)
		}
		if s := tc.e.String(); s != tc.text {
			t.Errorf("got %q, want %q", s, tc.text)
		}
		if tc.e.Kind == serde.Record {
			continue // its value may have any length
		}
		for _, p := range [][]byte{want[:len(want)-1], append(bytes.Clone(want), 0), want[:1]} {
			if err := serde.DecodeElement(p, &got); !errors.Is(err, serde.ErrElement) || got.Kind != 0 {
				t.Errorf("%x: got %+v, %v", p, got, err)
			}
		}
	}
}

// TestElementErrors checks Flink's words, and that an error leaves nothing behind.
func TestElementErrors(t *testing.T) {
	for text, want := range map[string]string{
		"":               "no bytes",
		"07":             "Corrupt stream, found tag: 7",
		"ff":             "Corrupt stream, found tag: -1",
		"00000000000000": "7 bytes with tag 0, not 9",
		"04 00000001":    "Invalid status value for WatermarkStatus",
		"04 fffffffe":    "Invalid status value for WatermarkStatus",
	} {
		e := serde.Element{Kind: serde.Watermark, Timestamp: 5}
		err := serde.DecodeElement(unhex(t, text), &e)
		if !errors.Is(err, serde.ErrElement) || !errors.Is(err, serde.ErrCorrupt) || !strings.Contains(err.Error(), want) || !reflect.DeepEqual(e, serde.Element{}) {
			t.Errorf("%q: %+v, %v; want %q", text, e, err, want)
		}
	}
	if p := serde.AppendElement(nil, &serde.Element{Kind: 99}); p != nil {
		t.Errorf("an unknown kind was encoded as %x", p)
	}
	if s := serde.Kind(99).String() + serde.Record.String(); s != "Kind(99)StreamRecord" {
		t.Errorf("names: %s", s)
	}
}

// TestElementView checks that a record's value is the caller's memory, and ends with it.
func TestElementView(t *testing.T) {
	p := []byte{1, 'a', 'b', 'c'}
	var e serde.Element
	if err := serde.DecodeElement(p, &e); err != nil {
		t.Fatal(err)
	}
	p[1] = 'x'
	if string(e.Value) != "xbc" {
		t.Errorf("the value is %q, not a view", e.Value)
	}
}
