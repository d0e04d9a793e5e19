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

// benchRecords is a stream of records of n bytes, each with a number that
// readers add up, in pieces of size bytes.
func benchRecords(n, size, count int) (parts [][]byte, sum uint64) {
	var stream []byte
	for i := range count {
		rec := pattern(i, n)
		binary.LittleEndian.PutUint64(rec, uint64(i))
		sum += uint64(i)
		stream = appendFramed(stream, rec)
	}
	return cut(stream, size), sum
}

// naiveSpan is the hand-written decoder of the peer comparison: no limits, no
// ownership, no results, one loop a buffer.
type naiveSpan struct {
	part []byte
	sum  uint64
}

func (d *naiveSpan) feed(b []byte) (n int) {
	if len(d.part) > 0 {
		for len(d.part) < 4 && len(b) > 0 {
			d.part = append(d.part, b[0])
			b = b[1:]
		}
		if len(d.part) < 4 {
			return 0
		}
		need := 4 + int(binary.BigEndian.Uint32(d.part)) - len(d.part)
		take := min(need, len(b))
		d.part = append(d.part, b[:take]...)
		b = b[take:]
		if take < need {
			return 0
		}
		d.sum += binary.LittleEndian.Uint64(d.part[4:])
		d.part = d.part[:0]
		n++
	}
	for len(b) >= 4 {
		l := int(binary.BigEndian.Uint32(b))
		if len(b) < 4+l {
			break
		}
		d.sum += binary.LittleEndian.Uint64(b[4:])
		b = b[4+l:]
		n++
	}
	d.part = append(d.part, b...)
	return n
}

// partReader is the stream of the pieces as an io.Reader.
type partReader struct {
	parts [][]byte
	i     int
	r     bytes.Reader
}

func (p *partReader) reset() {
	p.i = 0
	p.r.Reset(nil)
}

func (p *partReader) Read(dst []byte) (int, error) {
	for p.r.Len() == 0 {
		if p.i == len(p.parts) {
			return 0, io.EOF
		}
		p.r.Reset(p.parts[p.i])
		p.i++
	}
	return p.r.Read(dst)
}

// BenchmarkDeserialize reads records out of buffers of 32 KiB. impl=weir is
// the library with the buffers of a pool, impl=naive the plainest loop that
// does it, impl=bufio and impl=binary-read what one writes on an io.Reader.
func BenchmarkDeserialize(b *testing.B) {
	for _, n := range []int{8, 100, 1000} {
		const size, count = 32 << 10, 20000
		parts, want := benchRecords(n, size, count)
		run := func(impl string, round func() uint64) {
			b.Run(fmt.Sprintf("record=%d/impl=%s", n, impl), func(b *testing.B) {
				b.SetBytes(count * int64(n))
				b.ReportAllocs()
				for b.Loop() {
					if sum := round(); sum != want {
						b.Fatalf("sum %d, want %d", sum, want)
					}
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/count, "ns/record")
			})
		}
		bufs := make([]segment.Buffer, len(parts))
		for i := range bufs {
			bufs[i] = segment.Wrap(parts[i], segment.DataBuffer)
		}
		d := NewDeserializer(DeserializerConfig{})
		run("weir", func() (sum uint64) {
			for i := range bufs {
				if err := d.SetBuffer(bufs[i].Retain()); err != nil {
					b.Fatal(err)
				}
				for {
					rec, ok := d.Whole()
					if ok {
						sum += binary.LittleEndian.Uint64(rec)
						continue
					}
					rec, res, err := d.Next()
					if err != nil {
						b.Fatal(err)
					}
					if res.Record() {
						sum += binary.LittleEndian.Uint64(rec)
					}
					if res.Consumed() {
						break
					}
				}
				d.Done()
			}
			return sum
		})
		run("weir-next", func() (sum uint64) {
			for i := range bufs {
				if err := d.SetBuffer(bufs[i].Retain()); err != nil {
					b.Fatal(err)
				}
				for {
					rec, res, err := d.Next()
					if err != nil {
						b.Fatal(err)
					}
					if res.Record() {
						sum += binary.LittleEndian.Uint64(rec)
					}
					if res.Consumed() {
						break
					}
				}
				d.Done()
			}
			return sum
		})
		run("weir-range", func() (sum uint64) {
			for i := range bufs {
				for rec, err := range d.Records(bufs[i].Retain()) {
					if err != nil {
						b.Fatal(err)
					}
					sum += binary.LittleEndian.Uint64(rec)
				}
			}
			return sum
		})
		d.Close()
		var nd naiveSpan
		run("naive", func() uint64 {
			nd.sum = 0
			for _, p := range parts {
				nd.feed(p)
			}
			return nd.sum
		})
		src := &partReader{parts: parts}
		br := bufio.NewReaderSize(src, size)
		rec := make([]byte, n)
		var head [4]byte
		run("bufio", func() (sum uint64) {
			src.reset()
			br.Reset(src)
			for {
				if _, err := io.ReadFull(br, head[:]); err != nil {
					return sum
				}
				if _, err := io.ReadFull(br, rec[:binary.BigEndian.Uint32(head[:])]); err != nil {
					b.Fatal(err)
				}
				sum += binary.LittleEndian.Uint64(rec)
			}
		})
		run("binary-read", func() (sum uint64) {
			src.reset()
			br.Reset(src)
			for {
				var l uint32
				if err := binary.Read(br, binary.BigEndian, &l); err != nil {
					return sum
				}
				if err := binary.Read(br, binary.BigEndian, rec[:l]); err != nil {
					b.Fatal(err)
				}
				sum += binary.LittleEndian.Uint64(rec)
			}
		})
	}
}
