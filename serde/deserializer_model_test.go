package serde

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"

	"github.com/weirflow/weir/internal/buildtag"
	"pgregory.net/rapid"
)

// deserializerModel is the deserializer beside a naive twin that keeps the
// stream.
type deserializerModel struct {
	d       *Deserializer
	fed     []byte // all bytes given since the last Clear
	offset  int    // of them, how many belong to delivered records
	current int    // bytes of the current buffer; -1: none
	watches []watched
	recs    int
}

func TestDeserializerModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		cfg := DeserializerConfig{exact: true, SpillThreshold: rapid.SampledFrom([]int{40, 300, 1 << 20}).Draw(rt, "threshold"),
			FileBuffer: rapid.IntRange(1, 64).Draw(rt, "piece"), SpillDirs: []string{t.TempDir()},
			noMap: rapid.Bool().Draw(rt, "noMap"), keepName: rapid.Bool().Draw(rt, "keepName")}
		m := deserializerModel{d: NewDeserializer(cfg), current: -1}
		var stream []byte // bytes made but not fed
		more := func() {
			n := rapid.OneOf(rapid.IntRange(0, 12), rapid.IntRange(0, 80), rapid.IntRange(0, 2000)).Draw(rt, "record")
			stream = appendFramed(stream, pattern(m.recs, n))
			m.recs++
		}
		rt.Repeat(map[string]func(*rapid.T){
			"feed": func(rt *rapid.T) {
				if m.current >= 0 {
					rt.Skip("a buffer is being read")
				}
				n := rapid.OneOf(rapid.IntRange(0, 6), rapid.IntRange(0, 100), rapid.IntRange(0, 3000)).Draw(rt, "size")
				for len(stream) < n {
					more()
				}
				b, w := watch(stream[:n])
				if err := m.d.SetBuffer(b); err != nil {
					rt.Fatal(err)
				}
				m.fed = append(m.fed, stream[:n]...)
				stream = stream[n:]
				m.current = n
				m.watches = append(m.watches, w)
			},
			"next": func(rt *rapid.T) { m.next(rt) },
			"all": func(rt *rapid.T) {
				for m.current >= 0 {
					m.next(rt)
				}
			},
			"done": func(rt *rapid.T) { m.d.Done() },
			"clear": func(rt *rapid.T) {
				if rapid.IntRange(0, 5).Draw(rt, "rarely") != 0 {
					rt.Skip("clear comes rarely")
				}
				m.d.Clear()
				m.fed, m.offset, m.current, stream = nil, 0, -1, nil
			},
			"unconsumed": func(rt *rapid.T) {
				parts := unconsumed(rt, m.d)
				if !bytes.Equal(bytes.Join(parts, nil), m.fed[m.offset:]) {
					rt.Fatalf("unconsumed %d bytes, want %d", len(bytes.Join(parts, nil)), len(m.fed)-m.offset)
				}
				// A fresh one goes on in the same way.
				fresh := NewDeserializer(cfg)
				got := readAll(rt, fresh, append(parts, stream)...)
				sameRecords(rt, got, naive(append(bytes.Clone(m.fed[m.offset:]), stream...)))
				fresh.Close()
			},
		})
		m.d.Close()
		for _, w := range m.watches {
			w.end(rt)
		}
		if left, _ := readDir(cfg.SpillDirs[0]); left > 0 {
			rt.Fatalf("%d files left", left)
		}
	})
}

func (m *deserializerModel) next(rt *rapid.T) {
	rec, res, err := m.d.Next()
	if m.current < 0 {
		if !errors.Is(err, ErrNoBuffer) {
			rt.Fatalf("without a buffer: %v", err)
		}
		return
	}
	if err != nil {
		rt.Fatal(err)
	}
	rest := m.fed[m.offset:]
	whole := len(rest) >= lengthSize && len(rest)-lengthSize >= int(binary.BigEndian.Uint32(rest))
	if whole != res.Record() {
		rt.Fatalf("%v, want a record: %v", res, whole)
	}
	if whole {
		n := int(binary.BigEndian.Uint32(rest))
		if !bytes.Equal(rec, rest[lengthSize:lengthSize+n]) {
			rt.Fatalf("got %.40x of %d bytes, want %d bytes", rec, len(rec), n)
		}
		m.offset += lengthSize + n
		if want := map[bool]Result{true: Last, false: Intermediate}[m.offset == len(m.fed)]; res != want {
			rt.Fatalf("%v, want %v", res, want)
		}
	}
	w := m.watches[len(m.watches)-1]
	if res.Consumed() {
		m.current = -1
		m.d.Done()
		if !w.released() {
			rt.Fatal("used up but not released")
		}
	} else if w.released() {
		rt.Fatal("released but not used up")
	}
}

// naive returns the whole records of a stream.
func naive(stream []byte) [][]byte {
	var recs [][]byte
	for len(stream) >= lengthSize {
		n := int(binary.BigEndian.Uint32(stream))
		if len(stream)-lengthSize < n {
			break
		}
		recs = append(recs, stream[lengthSize:lengthSize+n])
		stream = stream[lengthSize+n:]
	}
	return recs
}

// TestDeserializerMetamorphic reads one stream in many cuts.
func TestDeserializerMetamorphic(t *testing.T) {
	var recs [][]byte
	for i := range 100 {
		recs = append(recs, pattern(i, (i*i*7)%301))
	}
	large := 70000
	if buildtag.Race || testing.Short() {
		large = 9000
	}
	recs = append(recs, pattern(1, 5000), nil, pattern(2, large))
	for i := range recs {
		if recs[i] == nil {
			recs[i] = []byte{}
		}
	}
	stream := framed(recs...)
	for _, size := range []int{1, 2, 3, 4, 5, 7, 16, 61, 300, 1024, 4096, 32 << 10, len(stream)} {
		for _, threshold := range []int{100, 6000, 1 << 20} {
			if size < 7 && threshold < 1<<20 {
				continue // a write to the file for every few bytes
			}
			d := NewDeserializer(DeserializerConfig{exact: true, SpillThreshold: threshold, SpillDirs: []string{t.TempDir()}})
			sameRecords(t, readAll(t, d, cut(stream, size)...), recs)
			d.Close()
		}
	}
}
