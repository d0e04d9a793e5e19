//go:build !race

package event_test

import (
	"testing"

	"github.com/weirflow/weir/internal/alloctest"
	"github.com/weirflow/weir/serde/event"
)

// TestAllocations checks that events that come with every checkpoint, and a repeated watermark, cost no memory.
func TestAllocations(t *testing.T) {
	for _, g := range golden {
		if g.e.Kind == event.Announcement {
			continue // allocates the announced event
		}
		p := event.Append(nil, g.e)
		var e event.Event
		buf := make([]byte, 0, 256)
		t.Run(g.e.Kind.String(), func(t *testing.T) {
			alloctest.Zero(t, 10, 1000, func() {
				if event.Decode(p, &e) != nil {
					t.Fatal("not decoded")
				}
				buf = event.Append(buf[:0], &e)
				buf = event.AppendPadded(buf[:0], &e)
			})
		})
	}
}
