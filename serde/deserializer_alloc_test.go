//go:build !race && !weirdebug

package serde

import (
	"testing"

	"github.com/weirflow/weir/internal/alloctest"
	"github.com/weirflow/weir/segment"
)

// allocSource is a stream in segments of a pool, taken anew for each round.
type allocSource struct {
	pool   *segment.LocalPool
	stream []byte
	size   int
}

func newAllocSource(t testing.TB, size int, stream []byte) *allocSource {
	global, err := segment.NewPool(segment.Config{SegmentSize: size, Segments: 4})
	must(t, err)
	pool, err := global.NewLocal(segment.LocalConfig{Name: "alloc", Required: 4})
	must(t, err)
	t.Cleanup(func() {
		pool.Close()
		must(t, global.Close())
	})
	return &allocSource{pool: pool, stream: stream, size: size}
}

// round feeds the whole stream once and returns how many records came.
func (s *allocSource) round(t testing.TB, d *Deserializer) (n int) {
	for off := 0; off < len(s.stream); off += s.size {
		b, ok := s.pool.Take()
		if !ok {
			t.Fatal("no segment")
		}
		k := copy(b.Memory(), s.stream[off:])
		if err := d.SetBuffer(b.Resized(k)); err != nil {
			t.Fatal(err)
		}
		for {
			_, res, err := d.Next()
			if err != nil {
				t.Fatal(err)
			}
			if res.Record() {
				n++
			}
			if res.Consumed() {
				break
			}
		}
		d.Done()
	}
	return n
}

// TestDeserializerAllocates checks that records inside buffers, over two and
// over many, and lengths cut anywhere, cost no allocation.
func TestDeserializerAllocates(t *testing.T) {
	for _, tc := range []struct {
		name         string
		record, size int
	}{
		{"in place", 100, 32 << 10},
		{"cut lengths", 27, 31},
		{"many buffers", 1000, 64},
		{"a segment", 32<<10 - 4, 32 << 10},
		{"empty", 0, 7},
		{"pooled", 200 << 10, 32 << 10},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var stream []byte
			records := max(3, 2000/(tc.record+1))
			for i := range records {
				stream = appendFramed(stream, pattern(i, tc.record))
			}
			s := newAllocSource(t, tc.size, stream)
			d := NewDeserializer(DeserializerConfig{})
			alloctest.Zero(t, 3, 200, func() {
				if n := s.round(t, d); n != records {
					t.Fatalf("%d records, want %d", n, records)
				}
			})
			d.Close()
		})
	}
}

func TestRecordsIteratorAllocates(t *testing.T) {
	s := newAllocSource(t, 1<<10, framed(pattern(1, 100), pattern(2, 100), pattern(3, 300)))
	d := NewDeserializer(DeserializerConfig{})
	n := 0
	alloctest.Zero(t, 3, 1000, func() {
		b, _ := s.pool.Take()
		k := copy(b.Memory(), s.stream)
		for _, err := range d.Records(b.Resized(k)) {
			if err != nil {
				t.Fatal(err)
			}
			n++
		}
	})
	if n < 3000 {
		t.Fatalf("%d records", n)
	}
	d.Close()
}

// TestHostileLengthAllocates bounds what a length of 5 MiB without a body costs.
func TestHostileLengthAllocates(t *testing.T) {
	s := newAllocSource(t, 64, append([]byte{0, 0x50, 0, 0}, make([]byte, 60)...))
	const n = 100
	alloctest.AtMost(t, 0, n, 10*n, 4<<10*n, func() {
		d := NewDeserializer(DeserializerConfig{NoSpill: true})
		s.round(t, d)
		d.Close()
	})
}
