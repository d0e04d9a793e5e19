package event_test

import (
	"bytes"
	"errors"
	"reflect"
	"testing"

	"github.com/weirflow/weir/serde/event"
)

// FuzzDecodeEvent checks that bytes are refused with a sentinel or give an event that is valid and keeps its meaning on
// the way through both encoders.
func FuzzDecodeEvent(f *testing.F) {
	for _, g := range golden {
		f.Add(event.Append(nil, g.e))
		f.Add(event.AppendPadded(nil, g.e))
	}
	f.Fuzz(func(t *testing.T, p []byte) {
		var e event.Event
		if err := event.Decode(p, &e); err != nil {
			if !errors.Is(err, event.ErrCorrupt) && !errors.Is(err, event.ErrIncomplete) {
				t.Fatalf("%x: error without sentinel: %v", p, err)
			}
			if !reflect.DeepEqual(e, event.Event{}) {
				t.Fatalf("%x: error, but %+v", p, e)
			}
			return
		}
		if err := e.Validate(); err != nil {
			t.Fatalf("%x: decoded an invalid event: %v", p, err)
		}
		q := event.Append(nil, &e)
		for _, r := range [][]byte{q, event.AppendPadded(nil, &e)} {
			var again event.Event
			if err := event.Decode(r, &again); err != nil {
				t.Fatalf("%x -> %x: %v", p, r, err)
			}
			// A payload without a length of its own comes back with the padding.
			for x, y := &e, &again; x != nil && y != nil; x, y = x.Announced, y.Announced {
				if x.Kind == event.Generic && bytes.HasPrefix(y.Payload, x.Payload) {
					y.Payload = x.Payload
				}
			}
			if !reflect.DeepEqual(e, again) {
				t.Fatalf("%x -> %x: %+v became %+v", p, r, e, again)
			}
		}
		if e.Kind != event.Watermark && e.Kind != event.Generic && e.Kind != event.Announcement && !bytes.HasPrefix(p, q) {
			t.Fatalf("%x was encoded as %x", p, q)
		}
		if !reflect.DeepEqual(*e.Clone(), e) {
			t.Fatalf("%+v: the clone differs: %+v", e, *e.Clone())
		}
	})
}
