package serde

import (
	"encoding/binary"
	"errors"
	"fmt"
	"testing"

	"github.com/weirflow/weir/segment"
)

// TestWriteBytesForms: the forms for byte arrays write what the plain one
// does, for every room that is left in the buffer.
func TestWriteBytesForms(t *testing.T) {
	for room := range 40 {
		for n := range 24 {
			value := pattern(room, n)
			body := append(binary.BigEndian.AppendUint32(nil, uint32(n)), value...)
			for _, tc := range []struct {
				rec  []byte
				form func(w *RecordWriter[*memOutput]) error
			}{
				{append([]byte{1}, body...), func(w *RecordWriter[*memOutput]) error { return w.WriteBytes(0, value) }},
				{append([]byte{0, 0, 0, 0, 0, 0, 0, 3, 0xe8}, body...), func(w *RecordWriter[*memOutput]) error { return w.WriteBytesAt(0, 1000, value) }},
			} {
				var got [2]string
				for i, f := range []func(w *RecordWriter[*memOutput]) error{
					tc.form,
					func(w *RecordWriter[*memOutput]) error { return w.WriteRecord(0, tc.rec) },
				} {
					b := newWriterBench(t, 1, 64, 4, 0)
					must(t, b.w.WriteRecord(0, make([]byte, 60-room)))
					must(t, f(b.w))
					got[i] = fmt.Sprint(b.take(0), " and open: ", len(b.queues[0]))
					b.end(t)
				}
				if got[0] != got[1] {
					t.Fatalf("room %d, %d bytes: %s, want %s", room, n, got[0], got[1])
				}
			}
		}
	}
	b := newWriterBench(t, 2, 64, 4, 0)
	defer b.end(t)
	must(t, b.w.BroadcastBytes([]byte("v")))
	wantTaken(t, b, 0, "00000006010000000176")
	wantTaken(t, b, 1, "00000006010000000176")
}

// TestLentBuffer: a buffer that the caller fills goes behind what was written
// before, as one finished buffer.
func TestLentBuffer(t *testing.T) {
	b := newWriterBench(t, 2, 16, 4, 0)
	defer b.end(t)
	must(t, b.w.WriteRecord(0, []byte("a")))
	lent, err := b.w.Lend(0)
	must(t, err)
	copy(lent.Memory(), "whatever it says")
	must(t, b.w.WriteBuffer(0, lent, 8))
	must(t, b.w.WriteRecord(0, []byte("b")))
	wantTaken(t, b, 0, "0000000161", fmt.Sprintf("%x", "whatever"), "0000000162")
	must(t, b.w.FinishBuffers())
	b.take(0)

	// Lent and given back, nothing is lost.
	lent, err = b.w.Lend(1)
	must(t, err)
	lent.Release()

	// Refusals release what they are given.
	for _, tc := range []struct {
		sub, n int
		want   error
	}{{2, 1, ErrSubpartition}, {-1, 1, ErrSubpartition}, {0, 17, ErrTooLarge}, {0, -1, ErrTooLarge}} {
		lent, err := b.w.Lend(0)
		must(t, err)
		if err := b.w.WriteBuffer(tc.sub, lent, tc.n); !errors.Is(err, tc.want) {
			t.Errorf("%+v: %v", tc, err)
		}
		b.pool.Drain()
	}
	if _, err := b.w.Lend(2); !errors.Is(err, ErrSubpartition) {
		t.Errorf("got %v", err)
	}
	var held []segment.Buffer
	for {
		lent, err := b.w.Lend(0)
		if err != nil {
			if !errors.Is(err, ErrFull) {
				t.Errorf("got %v", err)
			}
			break
		}
		held = append(held, lent)
	}
	for _, h := range held {
		h.Release()
	}
	if len(held) != 4 {
		t.Errorf("%d buffers lent of 4", len(held))
	}
	b.pool.Drain()

	// Within a record, and after the end.
	lent, err = b.w.Lend(0)
	must(t, err)
	if err := b.w.WriteRecord(1, pattern(1, 100)); !errors.Is(err, ErrUnfinished) {
		t.Fatalf("got %v", err)
	}
	if _, err := b.w.Lend(0); !errors.Is(err, ErrUnfinished) {
		t.Errorf("got %v", err)
	}
	if err := b.w.WriteBuffer(0, lent, 1); !errors.Is(err, ErrUnfinished) {
		t.Errorf("got %v", err)
	}
	for b.w.Pending() {
		b.take(1)
		if err := b.w.Continue(); err != nil && !errors.Is(err, ErrUnfinished) {
			t.Fatal(err)
		}
	}
	b.take(1)
	lent, err = b.w.Lend(0)
	must(t, err)
	must(t, b.w.Finish(event("end")))
	if _, err := b.w.Lend(0); !errors.Is(err, ErrFinished) {
		t.Errorf("got %v", err)
	}
	if err := b.w.WriteBuffer(0, lent, 1); !errors.Is(err, ErrFinished) {
		t.Errorf("got %v", err)
	}
}
