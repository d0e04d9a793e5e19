package task_test

import (
	"fmt"
	"testing"

	"github.com/weirflow/weir/task"
)

// BenchmarkValve raises the watermark of all channels, one after the other.
func BenchmarkValve(b *testing.B) {
	for _, channels := range []int{1, 8, 128, 10000} {
		b.Run(fmt.Sprintf("channels=%d", channels), func(b *testing.B) {
			v := task.NewValve(channels)
			ch, ts := 0, int64(0)
			b.ReportAllocs()
			for b.Loop() {
				if ch == 0 {
					ts++
				}
				if _, err := v.InputWatermark(ch, ts); err != nil {
					b.Fatal(err)
				}
				if ch++; ch == channels {
					ch = 0
				}
			}
		})
	}
}

// BenchmarkMailbox asks for mail, which is what each record costs, and posts and runs one.
func BenchmarkMailbox(b *testing.B) {
	m := task.NewMailbox(8, nil)
	mail := task.Mail{Do: func() error { return nil }}
	b.Run("op=ask", func(b *testing.B) {
		for b.Loop() {
			if m.HasMail() {
				b.Fatal("mail")
			}
		}
	})
	b.Run("op=post", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if err := m.Post(mail); err != nil {
				b.Fatal(err)
			}
			if _, err := m.Process(); err != nil {
				b.Fatal(err)
			}
		}
	})
}
