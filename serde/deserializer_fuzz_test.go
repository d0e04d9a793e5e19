package serde

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"testing"

	"github.com/weirflow/weir/segment"
)

const fuzzLimit = 1 << 16

// FuzzDeserializer feeds arbitrary bytes in arbitrary cuts and compares with a
// twin that has the whole stream. Each byte of cuts is the size of a buffer,
// and its high bit asks for the unconsumed bytes after it.
func FuzzDeserializer(f *testing.F) {
	f.Add(framed([]byte("a"), []byte("bc"), nil), []byte{3, 1, 2, 0x84}, uint8(0))
	f.Add(framed(pattern(1, 200), pattern(2, 3)), []byte{60, 0xff, 1}, uint8(1))
	f.Add([]byte("\x00\x00\x00\x02ab\xff\xff\xff\xff"), []byte{2}, uint8(0))
	f.Add([]byte("\x00\x02\x00\x00ab"), []byte{1, 0, 0x81}, uint8(2))
	f.Add([]byte("\x7f\xff\xff\xff"), []byte{}, uint8(1))
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, stream, cuts []byte, mode uint8) {
		cfg := DeserializerConfig{exact: true, MaxRecord: fuzzLimit, SpillThreshold: 1 << 20, FileBuffer: 7, SpillDirs: []string{dir}}
		if mode&1 != 0 {
			cfg.SpillThreshold = 40
		}
		cfg.noMap = mode&2 != 0
		cfg.NoSpill = mode&4 != 0
		d := NewDeserializer(cfg)
		defer d.Close()
		want, bad := fuzzTwin(stream, &cfg)
		var err error
		delivered, fed, n := 0, 0, 0
		for err == nil && fed < len(stream) {
			size, ask := len(stream)-fed, true
			if len(cuts) > 0 {
				size, ask = min(int(cuts[0]&0x7f), size), cuts[0]&0x80 != 0
				cuts = cuts[1:]
			}
			b, w := watch(stream[fed : fed+size])
			fed += size
			if err = d.SetBuffer(b); err != nil {
				d.Clear()
				w.end(t)
				break
			}
			for {
				if ask {
					if got := bytes.Join(unconsumed(t, d), nil); !bytes.Equal(got, stream[delivered:fed]) {
						t.Fatalf("%d bytes unconsumed, want %d", len(got), fed-delivered)
					}
				}
				var rec []byte
				var res Result
				if rec, res, err = d.Next(); err != nil {
					break
				}
				if res.Record() {
					if n >= len(want) || !bytes.Equal(rec, want[n]) {
						t.Fatalf("record %d of %d: %x", n, len(want), rec)
					}
					n++
					delivered += lengthSize + len(rec)
				}
				if res.Consumed() {
					break
				}
			}
			d.Done()
			if err != nil {
				d.Clear()
			}
			w.end(t)
		}
		refused := cfg.NoSpill && n < len(want) && len(want[n]) > cfg.SpillThreshold && errors.Is(err, ErrTooLarge)
		switch {
		case refused: // it spans, and has no file
		case n > len(want), err == nil && (n != len(want) || bad != nil):
			t.Fatalf("%d records, want %d; error %v, want %v", n, len(want), err, bad)
		case err != nil && (bad == nil || !errors.Is(err, bad)):
			t.Fatalf("error %v, want %v", err, bad)
		}
	})
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		f.Fatalf("%d files left, %v", len(left), err)
	}
}

// fuzzTwin returns the records of a stream up to the first bad length. A
// record that would need a file counts as bad only where the stream ends
// within it; if it is whole, it may lie in one buffer.
func fuzzTwin(stream []byte, cfg *DeserializerConfig) (recs [][]byte, bad error) {
	for len(stream) >= lengthSize {
		n := int(int32(binary.BigEndian.Uint32(stream)))
		switch {
		case n < 0:
			return recs, ErrNegativeLength
		case n > fuzzLimit:
			return recs, ErrTooLarge
		case n > len(stream)-lengthSize:
			if cfg.NoSpill && n > cfg.SpillThreshold {
				bad = ErrTooLarge
			}
			return recs, bad
		}
		recs = append(recs, stream[lengthSize:lengthSize+n])
		stream = stream[lengthSize+n:]
	}
	return recs, nil
}

// FuzzReadBack writes records into segments of any size and reads them with
// cuts wherever the segments end.
func FuzzReadBack(f *testing.F) {
	f.Add([]byte{0, 1, 5, 200, 0, 3}, uint16(16), uint8(0))
	f.Add([]byte{255, 255, 0, 0, 12}, uint16(1), uint8(1))
	f.Fuzz(func(t *testing.T, lengths []byte, size uint16, ways uint8) {
		if len(lengths) > 64 {
			return
		}
		segSize := int(size)%600 + 1
		total := 0
		for _, n := range lengths {
			total += int(n) + lengthSize + 9
		}
		b := newWriterBench(t, 2, segSize, 2*(total/segSize)+2*len(lengths)+4, 0)
		var want [2][][]byte
		for i, n := range lengths {
			rec := pattern(i, int(n))
			switch sub := i & 1; (int(ways) + i) % 4 {
			case 0:
				must(t, b.w.WriteRecord(sub, rec))
				want[sub] = append(want[sub], rec)
			case 1:
				must(t, b.w.Broadcast(rec))
				want[0], want[1] = append(want[0], rec), append(want[1], rec)
			case 2:
				must(t, b.w.WriteElement(sub, rec))
				want[sub] = append(want[sub], append([]byte{1}, rec...))
			case 3:
				must(t, WriteValue(b.w, bytesValue{}, sub, rec))
				want[sub] = append(want[sub], rec)
			}
		}
		must(t, b.w.FinishBuffers())
		for sub := range want {
			d := NewDeserializer(DeserializerConfig{})
			var got [][]byte
			for i := range b.queues[sub] {
				r := &b.queues[sub][i].r
				p, finished := r.Next()
				if !finished {
					t.Fatal("not finished")
				}
				if p.IsZero() {
					p = segment.Wrap(nil, segment.DataBuffer)
				}
				for rec, err := range d.Records(p) {
					must(t, err)
					got = append(got, bytes.Clone(rec))
				}
			}
			d.Close()
			sameRecords(t, got, want[sub])
		}
		b.end(t)
	})
}

type bytesValue struct{}

func (bytesValue) Append(dst, v []byte) []byte { return append(dst, v...) }
