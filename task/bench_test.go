package task_test

import (
	"fmt"
	"testing"

	"github.com/weirflow/weir/align"
	"github.com/weirflow/weir/credit"
	"github.com/weirflow/weir/segment"
	"github.com/weirflow/weir/serde"
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

// BenchmarkInput hands out records of 100 bytes, from buffers of 32 KiB that are delivered meanwhile: by Input alone as an operator
// of its own would, and by a processor.
func BenchmarkInput(b *testing.B) {
	var es []serde.Element
	for n := range uint64(300) {
		e := rec(n)
		e.Value = append(e.Value, make([]byte, 87)...)
		es = append(es, e)
	}
	stream := framed(es...)
	run := func(b *testing.B, read func(in *task.Input) int) {
		gate := credit.NewGate(credit.GateConfig{Channels: 1})
		in, err := task.NewInput(task.InputConfig{Gate: gate, Clock: func() align.Now { return align.Now{} }})
		must(b, err)
		defer in.Close()
		buf := segment.Wrap(stream, segment.DataBuffer)
		seq := int32(0)
		b.ReportAllocs()
		n := 0
		for b.Loop() {
			if n == 0 {
				gate.Deliver(credit.Arrival{Seq: seq, Buf: buf.Retain()})
				seq++
				n = read(in)
			}
			n--
		}
	}
	b.Run("by=input", func(b *testing.B) {
		run(b, func(in *task.Input) (n int) {
			for {
				if _, ok := in.WholeRecord(); ok {
					n++
					continue
				}
				st, err := in.Next()
				must(b, err)
				if st == task.Nothing {
					return n
				}
				n++
			}
		})
	})
	b.Run("by=processor", func(b *testing.B) {
		n := 0
		var p *task.Processor
		op := collector{add: func(int, *serde.Element) { n++ }}
		run(b, func(in *task.Input) int {
			if p == nil || p.Input() != in {
				p = task.NewProcessor(in, op, 0, func() bool { return true })
			}
			n = 0
			_, err := p.Process()
			must(b, err)
			return n
		})
	})
}
