package weir

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/weirflow/weir/align"
)

// someSnapshot has data in flight at both ends.
func someSnapshot() *Snapshot {
	handle := func(ch int32, data string) align.StateHandle {
		p := append([]byte{0, 0, 0, 0, 0, 0, 0, byte(len(data))}, data...)
		return align.StateHandle{Channel: align.StateChannel{Index: ch}, Offsets: []int64{4}, Size: int64(len(p)),
			Stream: align.StreamHandle{Data: p, Name: "state", Size: int64(len(p))}}
	}
	return &Snapshot{Task: "count", Checkpoint: 7, State: []byte("the user's"), Inputs: []int32{3}, Outputs: []int32{2, 1},
		In: []align.StateHandle{handle(0, "abc"), handle(2, "d")}, Out: []align.StateHandle{handle(1, "efgh")}}
}

func TestSnapshotRoundTrip(t *testing.T) {
	for _, s := range []*Snapshot{someSnapshot(), {Task: "", Checkpoint: -1, State: []byte{}}} {
		p, err := s.AppendTo(nil)
		if err != nil {
			t.Fatal(err)
		}
		var w bytes.Buffer
		if n, err := s.WriteTo(&w); err != nil || n != int64(w.Len()) || !bytes.Equal(w.Bytes(), p) {
			t.Errorf("%d of %d bytes written, %v", n, len(p), err)
		}
		got, err := ReadSnapshot(p)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, s) {
			t.Errorf("got  %+v\nwant %+v", got, s)
		}
	}
	if in, out := someSnapshot().InFlight(); in != 11+9 || out != 12 {
		t.Errorf("%d and %d bytes in flight", in, out)
	}
}

// Whatever happens to its bytes, a snapshot is whole or refused.
func TestBrokenSnapshots(t *testing.T) {
	p, err := someSnapshot().AppendTo(nil)
	if err != nil {
		t.Fatal(err)
	}
	refused := func(what string, q []byte) {
		t.Helper()
		if _, err := ReadSnapshot(q); !errors.Is(err, ErrSnapshot) {
			t.Errorf("%s: %v", what, err)
		}
	}
	for n := range len(p) {
		refused("cut short", p[:n])
		q := bytes.Clone(p)
		q[n] ^= 1 << (n % 8)
		refused("a bit flipped", q)
		refused("torn", append(bytes.Clone(p[:n]), make([]byte, len(p)-n)...))
	}
	refused("something behind it", append(bytes.Clone(p), 0))
	next := bytes.Clone(p)
	next[len(snapshotMagic)+3]++
	if _, err := ReadSnapshot(next); err == nil || !bytes.Contains([]byte(err.Error()), []byte("version 2")) {
		t.Errorf("another version: %v", err)
	}
}

func withChecksum(p []byte) []byte {
	return binary.BigEndian.AppendUint32(bytes.Clone(p), crc32.Checksum(p, castagnoli))
}

// With a checksum that fits, lengths still have to.
func FuzzReadSnapshot(f *testing.F) {
	p, err := someSnapshot().AppendTo(nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(p[:len(p)-4])
	r := rand.New(rand.NewPCG(1, 2))
	for range 50 {
		q := bytes.Clone(p[:len(p)-4])
		q[12+r.IntN(len(q)-12)] = byte(r.IntN(256))
		f.Add(q)
	}
	f.Fuzz(func(t *testing.T, p []byte) {
		s, err := ReadSnapshot(withChecksum(p))
		if err != nil {
			if !errors.Is(err, ErrSnapshot) {
				t.Errorf("refused with %v", err)
			}
			return
		}
		q, err := s.AppendTo(nil)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := ReadSnapshot(q); err != nil || again.Task != s.Task || !bytes.Equal(again.State, s.State) || len(again.In) != len(s.In) {
			t.Errorf("%+v became %+v, %v", s, again, err)
		}
	})
}
