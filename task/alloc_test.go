//go:build !race

package task_test

import (
	"testing"

	"github.com/weirflow/weir/internal/alloctest"
	"github.com/weirflow/weir/serde/event"
	"github.com/weirflow/weir/task"
)

// TestAllocations checks that watermarks, statuses, attributes and mails cost no memory.
func TestAllocations(t *testing.T) {
	v := task.NewValve(8)
	ts := int64(0)
	a := task.NewAttributesCombiner(8)
	c := task.NewWatermarkCombiners(8)
	must(t, c.Declare(task.WatermarkDeclaration{Identifier: "w"}))
	m := task.NewMailbox(8, nil)
	ran := 0
	mail := task.Mail{Name: "mail", Do: func() error { ran++; return nil }}
	alloctest.Zero(t, 10, 1000, func() {
		ts++
		for ch := range 8 {
			if _, err := v.InputWatermark(ch, ts); err != nil {
				t.Fatal(err)
			}
			if _, err := v.InputStatus(ch, ts%3 == 0); err != nil {
				t.Fatal(err)
			}
			if _, _, err := a.Input(ch, ts%2 == 0); err != nil {
				t.Fatal(err)
			}
			if _, err := c.Combine(ch, &event.WatermarkEvent{Identifier: "w", Value: ts}); err != nil {
				t.Fatal(err)
			}
		}
		must(t, m.Post(mail))
		must(t, m.PostUrgent(mail))
		if n, err := m.Process(); n != 2 || err != nil || m.HasMail() {
			t.Fatal(n, err)
		}
	})
	if ran == 0 || v.LastWatermark() == 0 {
		t.Fatal("nothing happened")
	}
}
