package serde

import (
	"bytes"
	"encoding/binary"

	"github.com/weirflow/weir/segment"
)

// tb is what testing.T, testing.B, testing.F and rapid.T share.
type tb interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// appendFramed appends a record with its length.
func appendFramed(dst, rec []byte) []byte {
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(rec)))
	return append(dst, rec...)
}

func framed(recs ...[]byte) []byte {
	var p []byte
	for _, r := range recs {
		p = appendFramed(p, r)
	}
	return p
}

// pattern returns n bytes that depend on seed and position.
func pattern(seed, n int) []byte {
	p := make([]byte, n)
	for i := range p {
		p[i] = byte(31*seed + 7*i)
	}
	return p
}

// cut cuts stream into pieces of size bytes.
func cut(stream []byte, size int) [][]byte {
	var parts [][]byte
	for len(stream) > size {
		parts = append(parts, stream[:size])
		stream = stream[size:]
	}
	return append(parts, stream)
}

// watched is a buffer whose release can be seen.
type watched struct{ keep segment.Buffer }

// watch returns a buffer with a copy of p to give away, and the watch on it.
func watch(p []byte) (segment.Buffer, watched) {
	b := segment.Wrap(bytes.Clone(p), segment.DataBuffer)
	return b, watched{b.Retain()}
}

// released reports whether nobody but the watch holds the buffer.
func (w watched) released() bool { return w.keep.Refs() == 1 }

// end overwrites the bytes, so that whoever still looks at them is found out,
// and lets go. It fails if somebody else holds the buffer.
func (w watched) end(t tb) {
	t.Helper()
	if n := w.keep.Refs(); n != 1 {
		t.Fatalf("buffer has %d references besides the test's", n-1)
	}
	p := w.keep.Bytes()
	for i := range p {
		p[i] = 0xee
	}
	w.keep.Release()
}

// readAll feeds the parts and returns copies of all records. It checks that
// each buffer is released exactly when it is used up.
func readAll(t tb, d *Deserializer, parts ...[]byte) [][]byte {
	t.Helper()
	var recs [][]byte
	for i, p := range parts {
		b, w := watch(p)
		if err := d.SetBuffer(b); err != nil {
			t.Fatalf("part %d: %v", i, err)
		}
		for {
			rec, res, err := d.Next()
			if err != nil {
				t.Fatalf("part %d: %v", i, err)
			}
			if res.Record() != (rec != nil) {
				t.Fatalf("part %d: %v with record %v", i, res, rec)
			}
			if res.Record() {
				recs = append(recs, bytes.Clone(rec))
			}
			if res.Consumed() {
				d.Done()
				break
			}
			if w.released() {
				t.Fatalf("part %d: released early", i)
			}
		}
		w.end(t)
	}
	return recs
}

func sameRecords(t tb, got, want [][]byte) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d records, want %d", len(got), len(want))
	}
	for i := range want {
		if !bytes.Equal(got[i], want[i]) {
			t.Fatalf("record %d: got %d bytes %.40x, want %d bytes %.40x", i, len(got[i]), got[i], len(want[i]), want[i])
		}
	}
}

// unconsumed returns the pieces, and checks that they are as long as was said
// and that nothing changed by asking.
func unconsumed(t tb, d *Deserializer) [][]byte {
	t.Helper()
	u, err := d.Unconsumed()
	if err != nil {
		t.Fatal(err)
	}
	defer u.Close()
	flat, err := d.AppendUnconsumed(nil)
	if err != nil {
		t.Fatal(err)
	}
	var parts [][]byte
	left := u.Len()
	for {
		b, ok, err := u.Next()
		if err != nil {
			t.Fatal(err)
		}
		if !ok {
			break
		}
		if b.Type() != segment.DataBuffer || b.Len() == 0 {
			t.Fatalf("piece of type %v with %d bytes", b.Type(), b.Len())
		}
		if left -= int64(b.Len()); u.Len() != left {
			t.Fatalf("%d bytes said to be left, want %d", u.Len(), left)
		}
		parts = append(parts, bytes.Clone(b.Bytes()))
		b.Release()
	}
	if left != 0 {
		t.Fatalf("%d bytes missing", left)
	}
	if !bytes.Equal(flat, bytes.Join(parts, nil)) {
		t.Fatal("AppendUnconsumed and Unconsumed differ")
	}
	return parts
}
