package credit

import (
	"bytes"
	"errors"
	"testing"

	"pgregory.net/rapid"

	"github.com/weirflow/weir/segment"
)

// clearEnd hands over a finished buffer whose last record ends with it.
func (r *senderRig) clearEnd(sub int, p []byte, typ segment.DataType) {
	b, ok := r.w.Take(sub)
	if !ok {
		r.t.Fatal("the pool is empty")
	}
	copy(b.Memory(), p)
	r.w.Add(sub, segment.ReadAll(b.Resized(len(p)).WithType(typ)), 0)
}

// TestUnionView: one channel over three subpartitions gets all of them, numbered in one row, with the index of each, and
// no record is cut by another subpartition's.
func TestUnionView(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		r := newSenderRig(t, PartitionConfig{Subpartitions: 4, Exclusive: 2}, 512, 16)
		in := make([][]byte, 4)
		for range rapid.IntRange(1, 60).Draw(rt, "records") {
			sub := rapid.IntRange(1, 3).Draw(rt, "sub")
			n := rapid.IntRange(1, 3).Draw(rt, "buffers")
			for i := range n {
				typ := segment.DataBuffer
				if i == n-1 {
					typ = segment.DataBufferWithClearEnd
				}
				p := []byte{byte(sub), byte(len(in[sub])), byte(i), byte(n)}
				in[sub] = append(in[sub], p...)
				r.clearEnd(sub, p, typ)
				if rapid.Bool().Draw(rt, "early") && r.core.Reader(senderChannel(1)) == nil {
					r.requestOf(senderPartition, SubpartitionRange{1, 3}, senderChannel(1), 2)
				}
			}
		}
		if r.core.Reader(senderChannel(1)) == nil {
			r.requestOf(senderPartition, SubpartitionRange{1, 3}, senderChannel(1), 2)
		}
		r.w.FinishAll()
		out := make([][]byte, 4)
		ends, inside, seq := 0, int32(-1), int32(0)
		for i := 0; i < 1000 && ends < 3; i++ {
			for _, m := range r.take() {
				if m.Seq != seq || m.Backlog < 0 || m.Backlog > unionLookAhead {
					rt.Fatalf("number %d backlog %d, %d follows", m.Seq, m.Backlog, seq)
				}
				seq++
				if inside >= 0 && m.Subpartition != inside {
					rt.Fatalf("subpartition %d within a record of %d", m.Subpartition, inside)
				}
				inside = -1
				if m.Type == segment.EndOfPartition {
					ends++
					continue
				}
				out[m.Subpartition] = append(out[m.Subpartition], m.payload...)
				if m.Type == segment.DataBuffer {
					inside = m.Subpartition
				}
			}
			r.feed(AppendAddCredit(nil, senderChannel(1), 1))
		}
		for sub := range in {
			if !bytes.Equal(in[sub], out[sub]) {
				rt.Fatalf("subpartition %d: %d of %d bytes", sub, len(out[sub]), len(in[sub]))
			}
		}
		if ends != 3 {
			rt.Fatalf("%d ends", ends)
		}
		r.close()
	})
}

// TestUnionViewRest: what a union view passes on, and what it cannot do.
func TestUnionViewRest(t *testing.T) {
	r := newSenderRig(t, PartitionConfig{Subpartitions: 3, Exclusive: 2}, 64, 16)
	l := &countingListener{}
	v, err := r.part.CreateView(SubpartitionRange{0, 2}, l)
	if err != nil {
		t.Fatal(err)
	}
	if ok, n := v.Available(true); ok || n != 0 || v.Subpartition() != -1 {
		t.Error("something from nothing")
	}
	r.buffer(1, []byte("ab"), true)
	r.w.AddEvent(2, someEvent())
	r.pump()
	if l.data != 2 {
		t.Errorf("%d notifications", l.data)
	}
	if ok, n := v.Available(false); ok || n != 1 || v.Subpartition() != 1 {
		// the record of subpartition 1 may go on, so that the event waits
		t.Errorf("available %v, backlog %d, subpartition %d", ok, n, v.Subpartition())
	}
	v.NewBufferSize(77)
	for i := range 3 {
		if n := r.part.shared.subs[i].hint.Load(); n != 77 {
			t.Errorf("hint %d", n)
		}
	}
	if err := v.Resume(); !errors.Is(err, errUnion) {
		t.Errorf("resume: %v", err)
	}
	v.AckAll()
	if !r.w.AllAcked() {
		t.Error("not acknowledged")
	}
	if v.Released() || v.FailureCause() != nil {
		t.Error("released")
	}
	r.part.Fail(errors.New("boom"))
	if ok, _ := v.Available(false); !v.Released() || !errors.Is(v.FailureCause(), ErrProducerFailed) || ok {
		t.Errorf("available %v", ok)
	}
	var p Polled
	ok := v.Poll(&p) // what was taken ahead is still there
	if !ok || string(p.Buf.Bytes()) != "ab" {
		t.Errorf("got %v", ok)
	}
	p.Buf.Release()
	if ok, _ := v.Available(false); !ok {
		t.Error("the cause would not be noticed")
	}
	v.Release()
	v.Release()
	r.close()
}
