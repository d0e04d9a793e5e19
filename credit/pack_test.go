package credit

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"github.com/weirflow/weir/segment"
)

// packRig is a sender whose connection takes several buffers in one message, and whose only channel has credit.
func packRig(t *testing.T, cfg PartitionConfig, segments, size int, credit int32) *senderRig {
	r := newSenderRig(t, cfg, segments, size)
	r.packs = true
	r.request(0, credit)
	return r
}

// texts hands over finished buffers, one for each text.
func (r *senderRig) texts(texts ...string) {
	for _, s := range texts {
		r.buffer(0, []byte(s), true)
	}
}

// messages describes what was sent since the last call.
func (r *senderRig) messages() (out []string) {
	for _, m := range r.take() {
		out = append(out, fmt.Sprintf("%d %s %q %v backlog %d", m.Seq, m.Type, m.payload, m.PartialSizes, m.Backlog))
	}
	return out
}

func (r *senderRig) sends(what string, want ...string) {
	r.t.Helper()
	if got := r.messages(); !slices.Equal(got, want) {
		r.t.Errorf("%s:\n got %q\nwant %q", what, got, want)
	}
}

// TestPack: what lies next to each other goes out together, as long as it is data, whole and small, and costs one credit.
func TestPack(t *testing.T) {
	t.Run("one credit", func(t *testing.T) {
		r := packRig(t, PartitionConfig{Exclusive: 2}, 16, 64, 1)
		r.texts("a", "bb", "ccc")
		r.sends("three", `0 DATA_BUFFER "abbccc" [1 2 3] backlog 0`)
		r.texts("d")
		r.sends("without credit")
		r.feed(AppendAddCredit(nil, senderChannel(0), 1))
		r.sends("a single one is as ever", `3 DATA_BUFFER "d" [] backlog 0`)
		r.close()
	})
	t.Run("events", func(t *testing.T) {
		r := packRig(t, PartitionConfig{Exclusive: 2}, 16, 64, 9)
		r.texts("a", "b")
		r.w.AddEvent(0, someEvent())
		r.texts("c", "d")
		got := r.messages()
		if len(got) != 3 || got[0] != `0 DATA_BUFFER "ab" [1 1] backlog 1` || got[2] != `3 DATA_BUFFER "cd" [1 1] backlog 0` {
			t.Errorf("an event in between: %q", got)
		}
		r.texts("e", "f")
		r.w.AddEvent(0, unalignedBarrier(1))
		if got := r.messages(); len(got) != 2 || got[1] != `6 DATA_BUFFER "ef" [1 1] backlog 0` {
			t.Errorf("an event that overtakes: %q", got)
		}
		r.texts("g")
		r.w.AddEvent(0, alignedBarrier(2))
		r.texts("h", "i")
		if got := r.messages(); len(got) != 2 || got[0] != `8 DATA_BUFFER "g" [] backlog 1` {
			t.Errorf("an event that blocks: %q", got)
		}
		r.feed(AppendResumeConsumption(nil, senderChannel(0)))
		r.sends("after it", `10 DATA_BUFFER "hi" [1 1] backlog 0`)
		r.close()
	})
	t.Run("bytes", func(t *testing.T) {
		r := packRig(t, PartitionConfig{Exclusive: 2}, 16, 64, 9)
		x := func(n int) string { return string(bytes.Repeat([]byte("x"), n)) }
		r.texts(x(30), x(34), x(1), x(64), x(2))
		for _, want := range [][]int32{{30, 34}, {1}, {64}, {2}} {
			if len(r.sent) == 0 {
				r.pump()
			}
			m := r.sent[0]
			r.sent = r.sent[1:]
			if len(want) == 1 && m.PartialSizes == nil {
				m.PartialSizes = []int32{m.Size}
			}
			if !slices.Equal(m.PartialSizes, want) {
				t.Errorf("sizes %v, want %v", m.PartialSizes, want)
			}
		}
		r.sends("nothing more")
		r.close()
	})
	t.Run("large ones", func(t *testing.T) {
		r := packRig(t, PartitionConfig{Exclusive: 2}, 16, 4*packPart, 9)
		for _, n := range []int{packPart, packPart, packPart + 1, 1, packPart + 1} {
			r.buffer(0, make([]byte, n), true)
		}
		var got []int
		for _, m := range r.take() {
			got = append(got, len(m.PartialSizes), int(m.Size))
		}
		if want := []int{2, 2 * packPart, 0, packPart + 1, 0, 1, 0, packPart + 1}; !slices.Equal(got, want) {
			t.Errorf("parts and sizes %v, want %v", got, want)
		}
		r.close()
	})
	t.Run("many", func(t *testing.T) {
		r := packRig(t, PartitionConfig{Exclusive: 2}, 2*packParts, 4*packParts, 9)
		for range packParts + 2 {
			r.texts("x")
		}
		var got []int
		for _, m := range r.take() {
			got = append(got, len(m.PartialSizes), int(m.Seq), int(m.Backlog))
		}
		if want := []int{packParts, 0, 1, 2, packParts, 0}; !slices.Equal(got, want) { // the last one, not flushed, does not count as backlog
			t.Errorf("parts, numbers, backlogs %v, want %v", got, want)
		}
		r.close()
	})
	t.Run("unfinished", func(t *testing.T) {
		r := packRig(t, PartitionConfig{Exclusive: 2}, 16, 64, 9)
		r.texts("a", "b")
		w := r.buffer(0, []byte("c"), false)
		r.sends("what is whole", `0 DATA_BUFFER "ab" [1 1] backlog 0`)
		write(w, "d")
		r.w.Flush(0)
		r.sends("a flush", `2 DATA_BUFFER "cd" [] backlog 0`)
		write(w, "e")
		finish(w)
		r.texts("f")
		r.sends("the rest is whole now", `3 DATA_BUFFER "ef" [1 1] backlog 0`)
		w = r.buffer(0, nil, false)
		finish(w) // a buffer without bytes
		r.texts("g", "h")
		r.sends("an empty one is passed over", `5 DATA_BUFFER "gh" [1 1] backlog 0`)
		r.close()
	})
}

// TestPackedEmpty: a receiver without exclusive buffers is told of an empty buffer, on its own.
func TestPackedEmpty(t *testing.T) {
	r := packRig(t, PartitionConfig{Exclusive: 0}, 16, 64, 0)
	r.texts("a")
	finish(r.buffer(0, nil, false))
	r.texts("b", "c")
	r.pump()
	r.feed(AppendAddCredit(nil, senderChannel(0), 9))
	r.sends("an empty one", `0 DATA_BUFFER "a" [] backlog 2`, `1 DATA_BUFFER "" [] backlog 1`, `2 DATA_BUFFER "bc" [1 1] backlog 0`)
	r.close()
}

// TestPacksForWhomItMay: a connection that does not pack, a view of several subpartitions, and a local channel get each buffer by itself.
func TestPacksForWhomItMay(t *testing.T) {
	r := newSenderRig(t, PartitionConfig{Exclusive: 2}, 16, 64)
	r.request(0, 9)
	r.texts("a", "b")
	r.sends("an unpacking connection", `0 DATA_BUFFER "a" [] backlog 0`, `1 DATA_BUFFER "b" [] backlog 0`)
	r.close()

	r = newSenderRig(t, PartitionConfig{Exclusive: 2, Subpartitions: 2}, 16, 64)
	r.packs = true
	r.requestOf(senderPartition, SubpartitionRange{First: 0, Last: 1}, senderChannel(0), 9)
	r.texts("a", "b", "c")
	for _, m := range r.take() {
		if m.PartialSizes != nil {
			t.Errorf("a view of two subpartitions packs: %+v", m)
		}
	}
	r.close()

	for _, s := range []struct {
		profile Profile
		not     bool
		want    bool
	}{{Flink23, false, true}, {Flink23, true, false}, {Flink120, false, false}} {
		h := &serverConn{server: &Server{opt: ServerOptions{Profile: s.profile, NoPacking: s.not}}}
		if got := h.Packs(); got != s.want {
			t.Errorf("%v, NoPacking %v: packs %v", s.profile, s.not, got)
		}
	}
}

// TestPackedThere: a receiver hands out each buffer as it was, gives one credit for all, and their segment goes home with the last.
func TestPackedThere(t *testing.T) {
	p := newPair(t, 1, 2, 0, rigConfig{packs: true})
	p.s.texts("a", "bb", "ccc")
	p.flushOut()
	var held []segment.Buffer
	for i, want := range []string{"a", "bb", "ccc"} {
		it, st, err := p.r.gate.Poll()
		if err != nil || st != Ready || string(it.Buf.Bytes()) != want || it.Seq != int32(i) {
			t.Fatalf("buffer %d: %q, number %d, %v, %v", i, it.Buf.Bytes(), it.Seq, st, err)
		}
		held = append(held, it.Buf)
	}
	if n := p.r.ch[0].Unread(); p.packed != 1 || n != 1 {
		t.Errorf("%d packed messages, %d segments hold data", p.packed, n)
	}
	for i, b := range held {
		if n := p.r.recv.Local().Stats().InUse; n != 1 {
			t.Errorf("%d segments in use before buffer %d is given back", n, i)
		}
		b.Release()
		p.flushOut()
	}
	if n := p.r.recv.Local().Stats().InUse; n != 0 || p.r.core.Stats().Credits != 1 {
		t.Errorf("%d segments in use, %d credits", n, p.r.core.Stats().Credits)
	}
	p.close()
}

// TestCancelPacked: what is on its way to a channel that goes does not stay anywhere.
func TestCancelPacked(t *testing.T) {
	p := newPair(t, 1, 2, 0, rigConfig{packs: true})
	p.s.texts("a", "b", "c")
	p.flushOut()
	it, st, _ := p.r.gate.Poll()
	if st != Ready || p.packed != 1 {
		t.Fatalf("%v, %d packed messages", st, p.packed)
	}
	p.s.texts("d", "e")
	p.pump()
	p.r.gate.Release(0)
	it.Buf.Release()
	p.flushOut()
	p.r.gate.leave(&p.r.gate.chans[0])
	p.close() // finds what did not come home
}

// TestPackedForWishes: a receiver that wishes for buffers of a size (debloating) gets no more than that for a credit.
func TestPackedForWishes(t *testing.T) {
	r := packRig(t, PartitionConfig{Exclusive: 2}, 16, 64, 9)
	r.feed(AppendNewBufferSize(nil, senderChannel(0), 7))
	r.texts("abc", "def", "gh", "ijklmno", "p")
	r.sends("a wish of 7", `0 DATA_BUFFER "abcdef" [3 3] backlog 2`, `2 DATA_BUFFER "gh" [] backlog 1`,
		`3 DATA_BUFFER "ijklmno" [] backlog 0`, `4 DATA_BUFFER "p" [] backlog 0`)
	r.close()
}

// TestPackedBacklog: a receiver is told of messages, not of the buffers in them: it would keep credit that nobody uses.
func TestPackedBacklog(t *testing.T) {
	r := packRig(t, PartitionConfig{Exclusive: 2}, 64, 64, 9)
	full := string(bytes.Repeat([]byte("x"), 64))
	r.texts(full)
	for range 20 {
		r.texts("y")
	}
	r.texts(full, full)
	var got []int32
	for _, m := range r.take() {
		got = append(got, m.Backlog)
	}
	// 20 bytes and two full ones are three messages; the last buffer is not known to be complete.
	if want := []int32{3, 1, 0, 0}; !slices.Equal(got, want) {
		t.Errorf("backlogs %v, want %v", got, want)
	}
	r.close()

	// A channel that has little to say leaves the floating credit to the others.
	p := newPair(t, 2, 1, 8, rigConfig{packs: true})
	p.s.buffer(0, make([]byte, 32), true)
	for range 20 {
		p.s.buffer(0, []byte("y"), true)
	}
	p.flushOut()
	for range 20 {
		p.s.buffer(1, make([]byte, 32), true)
	}
	var held []segment.Buffer
	for range 2 { // read all of channel 0 first
		for {
			it, st, err := p.r.gate.Poll()
			if err != nil {
				t.Fatal(err)
			}
			if st != Ready {
				break
			}
			if it.Channel == 1 {
				held = append(held, it.Buf)
				continue
			}
			it.Buf.Release()
		}
		p.flushOut()
	}
	if n := len(held); n < 6 {
		t.Errorf("the busy channel got %d buffers through while the other was idle, of 9 that its gate has", n)
	}
	for _, b := range held {
		b.Release()
	}
	p.close()
}
