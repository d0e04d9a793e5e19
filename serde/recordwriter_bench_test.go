package serde

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"testing"

	"github.com/weirflow/weir/segment"
)

// recycleOutput gives the writer segments and takes them back when they are
// full: what a writer costs without whatever comes behind it.
type recycleOutput struct {
	pool *segment.LocalPool
	last []segment.Reader
}

func (o *recycleOutput) Available(int) bool { return o.pool.Available() }
func (o *recycleOutput) Take(sub int) (segment.Buffer, bool) {
	return o.pool.TakeFor(sub)
}
func (o *recycleOutput) Flush(int) {}
func (o *recycleOutput) Add(sub int, r segment.Reader, _ int) (int, bool) {
	o.last[sub].Close()
	o.last[sub] = r
	o.pool.Drain()
	return 0, true
}
func (o *recycleOutput) AddEvent(_ int, b segment.Buffer) bool {
	b.Release()
	return true
}

// BenchmarkSerialize writes records into segments of 32 KiB, over 8
// subpartitions in turn. impl=naive fills arrays without publishing anything;
// impl=bufio is a bufio.Writer a subpartition.
func BenchmarkSerialize(b *testing.B) {
	const size, subs, count = 32 << 10, 8, 1 << 14
	for _, n := range []int{8, 100, 1000} {
		rec := pattern(1, n)
		run := func(impl string, round func()) {
			b.Run(fmt.Sprintf("record=%d/impl=%s", n, impl), func(b *testing.B) {
				b.SetBytes(count * int64(n))
				b.ReportAllocs()
				for b.Loop() {
					round()
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/count, "ns/record")
			})
		}
		global, err := segment.NewPool(segment.Config{SegmentSize: size, Segments: 4 * subs})
		must(b, err)
		pool, err := global.NewLocal(segment.LocalConfig{Name: "bench", Required: 4 * subs, Subpartitions: subs})
		must(b, err)
		o := &recycleOutput{pool: pool, last: make([]segment.Reader, subs)}
		w, err := NewRecordWriter(o, subs)
		must(b, err)
		run("weir", func() {
			for i := range count {
				if err := w.WriteRecord(i&(subs-1), rec); err != nil {
					b.Fatal(err)
				}
			}
		})
		run("weir-element", func() {
			for i := range count {
				if err := w.WriteElementAt(i&(subs-1), int64(i), rec); err != nil {
					b.Fatal(err)
				}
			}
		})
		run("weir-value", func() {
			for i := range count {
				if err := WriteValue(w, benchAppender{}, i&(subs-1), rec); err != nil {
					b.Fatal(err)
				}
			}
		})
		run("weir-broadcast", func() {
			for range count {
				if err := w.Broadcast(rec); err != nil {
					b.Fatal(err)
				}
			}
		})
		must(b, w.FinishBuffers())
		w.Close()
		for i := range o.last {
			o.last[i].Close()
		}
		pool.Close()
		must(b, global.Close())

		var bufs [subs][]byte
		for i := range bufs {
			bufs[i] = make([]byte, 0, size)
		}
		run("naive", func() {
			for i := range count {
				p := bufs[i&(subs-1)]
				if cap(p)-len(p) < lengthSize+len(rec) {
					p = p[:0]
				}
				p = binary.BigEndian.AppendUint32(p, uint32(len(rec)))
				bufs[i&(subs-1)] = append(p, rec...)
			}
		})
		var bw [subs]*bufio.Writer
		for i := range bw {
			bw[i] = bufio.NewWriterSize(io.Discard, size)
		}
		var head [4]byte
		run("bufio", func() {
			for i := range count {
				binary.BigEndian.PutUint32(head[:], uint32(len(rec)))
				_, _ = bw[i&(subs-1)].Write(head[:])
				_, _ = bw[i&(subs-1)].Write(rec)
			}
		})
		var bb [subs]bytes.Buffer
		run("binary-write", func() {
			for i := range count {
				p := &bb[i&(subs-1)]
				if p.Len() > size {
					p.Reset()
				}
				_ = binary.Write(p, binary.BigEndian, uint32(len(rec)))
				_ = binary.Write(p, binary.BigEndian, rec)
			}
		})
	}
}

type benchAppender struct{}

func (benchAppender) Append(dst, v []byte) []byte { return append(dst, v...) }

// BenchmarkSelect compares the choice of a subpartition by a type parameter
// with one through an interface.
func BenchmarkSelect(b *testing.B) {
	keys, err := NewKeyGroupPartitioner[int](benchHash{}, 128, 8)
	must(b, err)
	odd, err := NewKeyGroupPartitioner[int](benchHash{}, 1000, 7)
	must(b, err)
	turn, err := NewRescalePartitioner[int](8)
	must(b, err)
	b.Run("by=key/groups=128/call=direct", func(b *testing.B) { benchSelect(b, keys) })
	b.Run("by=key/groups=1000/call=direct", func(b *testing.B) { benchSelect(b, odd) })
	b.Run("by=turn/call=direct", func(b *testing.B) { benchSelect(b, &turn) })
	b.Run("by=key/groups=128/call=interface", func(b *testing.B) { benchSelect[Selector[int]](b, keys) })
}

type benchHash struct{}

func (benchHash) KeyHash(k int) int32 { return int32(k) }

func benchSelect[S Selector[int]](b *testing.B, s S) {
	sum, i := 0, 0
	for b.Loop() {
		sum += s.Select(i)
		i++
	}
	if sum < 0 {
		b.Fatal(sum)
	}
}
