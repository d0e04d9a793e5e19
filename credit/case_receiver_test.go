package credit

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/weirflow/weir/segment"
)

// Scenarios from public bug reports, by their ids, as far as the receiver decides them.

// fill adds n buffers to a subpartition of a pair.
func (p *pair) fill(sub, n int) {
	for range n {
		p.s.buffer(sub, []byte("12345678"), true)
	}
	p.s.w.Flush(sub)
	p.pump()
}

// takeAll polls everything, gives the data back at once and resumes what is blocked; it returns the buffers of each channel.
func (p *pair) takeAll(counts []int) {
	p.t.Helper()
	for {
		it, st, err := p.r.gate.Poll()
		if err != nil {
			p.t.Fatal(err)
		}
		if st != Ready {
			return
		}
		if it.Event == nil {
			counts[it.Channel]++
			it.Buf.Release()
		}
	}
}

// CRD-01 (receiver): no more floating buffers are asked for than backlog + exclusive − held.
func TestCRD01Receiver(t *testing.T) {
	p := newPair(t, 1, 2, 8, rigConfig{})
	defer p.close()
	p.s.buffer(0, []byte("full"), true)
	p.s.buffer(0, []byte("full"), true)
	w := p.s.buffer(0, []byte("1234567890"), false)
	p.flushOut()
	if n := p.r.port.Budget().Out(); n > 2 {
		t.Errorf("%d floating buffers for a sender that has two finished ones", n)
	}
	p.s.w.Flush(0)
	p.flushOut()
	l := p.r.ch[0].Ledger()
	if l.Free() > 2+1 {
		t.Errorf("%d free, nothing is at the sender", l.Free())
	}
	finish(w)
}

// CRD-02: without exclusive buffers a blocked channel holds no floating one, and starts anew after its resume.
func TestCRD02NoExclusive(t *testing.T) {
	p := newPair(t, 2, 0, 1, rigConfig{})
	defer p.close()
	p.s.w.AddEvent(0, alignedBarrier(1))
	p.fill(0, 3)
	p.flushOut()
	counts := make([]int, 2)
	p.takeAll(counts)
	p.flushOut()
	a := p.r.ch[0].Ledger()
	p.fill(1, 3)
	for range 10 {
		p.flushOut()
		if a.Free() != 0 || a.borrowed != 0 || a.Unannounced() != 0 {
			t.Fatalf("blocked, and holds %d free, %d borrowed, %d to announce", a.Free(), a.borrowed, a.Unannounced())
		}
		p.takeAll(counts)
	}
	if counts[1] != 3 || counts[0] != 0 {
		t.Fatalf("got %v", counts)
	}
	if err := p.r.gate.Resume(0); err != nil {
		t.Fatal(err)
	}
	p.pump()
	if n := p.r.ch[0].Outstanding(); n != 0 {
		t.Errorf("%d outstanding on resume", n)
	}
	for range 10 {
		p.flushOut()
		p.takeAll(counts)
	}
	if counts[0] != 3 {
		t.Errorf("got %v", counts)
	}
}

// CRD-07: credit is an increment; with any delays, what was sent and is not consumed never exceeds the window.
func TestCRD07Increments(t *testing.T) {
	const window = 10
	rng := rand.New(rand.NewPCG(7, 7))
	p := newPair(t, 1, window, 0, rigConfig{})
	defer p.close()
	p.fill(0, 500)
	consumed, most := 0, 0
	sent := func() int { return int(p.s.core.sched.stats.Data) }
	for consumed < 500 {
		switch rng.IntN(3) {
		case 0:
			if err := p.deliver(rng.IntN(500), rng.IntN(60)); err != nil {
				t.Fatal(err)
			}
		case 1:
			if it, st, _ := p.r.gate.Poll(); st == Ready {
				it.Buf.Release()
				consumed++
			}
		case 2:
			p.pump()
		}
		most = max(most, sent()-consumed)
		if sent()-consumed > window {
			t.Fatalf("%d sent, %d consumed, window %d", sent(), consumed, window)
		}
	}
	if most != window {
		t.Errorf("the window was never full: %d", most)
	}
}

// CRD-08: what is under way for a channel that is released is thrown away, and its share of the budget comes back.
func TestCRD08SharedBudget(t *testing.T) {
	rounds := 1000
	if testing.Short() {
		rounds = 100
	}
	r := newRig(t, rigConfig{channels: 2, exclusive: 0, floating: 8})
	for i := range rounds {
		a, err := r.port.NewChannel(RemoteConfig{Index: 2, ID: rigID(2)})
		if err != nil {
			t.Fatal(err)
		}
		r.gate.chans = append(r.gate.chans[:2], gateChannel{index: 2, up: r.link, link: r.link, persister: newPersister(), subpartitions: 1})
		if err := r.core.Request(a); err != nil {
			t.Fatal(err)
		}
		r.seq = append(r.seq[:2], 0)
		r.feed(AppendBacklogAnnouncement(nil, rigID(2), 5))
		r.data(2, 3, 8) // one at the task, four still to come
		r.gate.Release(2)
		r.gate.leave(&r.gate.chans[2]) // its place in the line would be an error of the next poll
		r.pump()
		for range 4 {
			r.data(2, 0, 8)
		}
		r.feed(AppendBacklogAnnouncement(nil, rigID(1), 8))
		for range 8 {
			r.data(1, 0, 8)
			r.take().Release()
			r.pump()
		}
		if n := r.port.Budget().Out(); n != 0 {
			t.Fatalf("round %d: %d floating buffers did not come back", i, n)
		}
		if got := r.written(); countPrefix(got, "cancel 2") != 5 || countPrefix(got, "credit 1 8") != 1 {
			t.Fatalf("round %d: wrote %q", i, got)
		}
	}
	r.gate.chans = r.gate.chans[:2]
}

func countPrefix(lines []string, prefix string) (n int) {
	for _, s := range lines {
		if strings.HasPrefix(s, prefix) {
			n++
		}
	}
	return n
}

// CRD-11: credit that came back makes the connection write, though nothing else does.
func TestCRD11CreditAsksForAWrite(t *testing.T) {
	r := newRig(t, rigConfig{channels: 1, exclusive: 1})
	r.data(0, 0, 1)
	r.written()
	b := r.take()
	r.wire.flushes = 0
	b.Release()
	if !r.port.Poll() || r.wire.flushes != 1 {
		t.Errorf("asked %d times for a write, want once", r.wire.flushes)
	}
	r.core.WriteIntents()
	r.wrote("credit 0 1")
	// While the socket is full the request stands: the connection asks as soon as it can.
	r.data(0, 0, 1)
	r.wire.full = true
	r.take().Release()
	r.pump()
	r.wrote()
	r.wire.full = false
	r.core.WriteIntents()
	r.wrote("credit 0 1")
}

// CRD-13: records of all sizes through windows of one to four small buffers, with batched credit: nobody waits for ever.
func TestCRD13SmallWindows(t *testing.T) {
	for window := 1; window <= 4; window++ {
		for size := 1; size <= 200; size += 1 + size/20 {
			p := newPair(t, 1, window, 0, rigConfig{client: ClientConfig{Policy: Batched{}}})
			record := bytes.Repeat([]byte{7}, size+4)
			var want, got int
			for range 5 {
				for rest := record; len(rest) > 0; {
					n := min(32, len(rest))
					p.s.buffer(0, rest[:n], true)
					rest = rest[n:]
				}
				want += len(record)
			}
			p.s.w.Flush(0)
			for range 200 {
				p.flushOut()
				it, st, err := p.r.gate.Poll()
				if err != nil {
					t.Fatal(err)
				}
				if st != Ready {
					break
				}
				got += it.Buf.Len()
				it.Buf.Release()
			}
			if got != want {
				t.Fatalf("window %d, records of %d: %d of %d bytes", window, size, got, want)
			}
			p.close()
		}
	}
}

// CRD-17: a channel that nobody reads holds its window and stops nobody, with and without floating buffers.
func TestCRD17NobodyReadsOne(t *testing.T) {
	for _, floating := range []int{0, 4} {
		p := newPair(t, 4, 2, floating, rigConfig{})
		counts := make([]int, 4)
		var stuck []segment.Buffer
		left := []int{1000, 1000, 1000, 1000}
		for counts[1]+counts[2]+counts[3] < 3000 {
			for sub := range left {
				if n := min(left[sub], 10); p.s.part.Subpartition(sub).Queued() < 20 && n > 0 {
					p.fill(sub, n)
					left[sub] -= n
				}
			}
			p.flushOut()
			moved := false
			for {
				it, st, err := p.r.gate.Poll()
				if err != nil {
					t.Fatal(err)
				}
				if st != Ready {
					break
				}
				if it.Channel == 0 {
					stuck = append(stuck, it.Buf)
					continue
				}
				moved = true
				counts[it.Channel]++
				it.Buf.Release()
			}
			if !moved {
				t.Fatalf("floating %d: all stand still at %v", floating, counts)
			}
		}
		if len(stuck) > 2+floating {
			t.Errorf("floating %d: the channel that is not read holds %d buffers", floating, len(stuck))
		}
		for _, b := range stuck {
			b.Release()
		}
		p.close()
	}
}

// CRD-24: nothing bounces while nothing is consumed.
func TestCRD24NoStorm(t *testing.T) {
	p := newPair(t, 2, 0, 1, rigConfig{})
	defer p.close()
	p.fill(0, 1)
	p.flushOut() // channel 0 has the only floating buffer
	before := p.r.core.channels.len()
	p.fill(1, 5)
	frames := 0
	for range 100 {
		p.pump()
		frames += len(p.down.frames) + len(p.up.frames)
		p.flushOut()
		p.s.wanted = true
	}
	if frames >= 10 || before != 2 {
		t.Errorf("%d frames without any consumption", frames)
	}
}

// CRD-28: numbers wrap as Flink's do; a duplicate and a gap fail with both numbers in the text.
func TestCRD28Wrap(t *testing.T) {
	for _, wrong := range []int32{-1, +1} {
		r := newRig(t, rigConfig{channels: 1, exclusive: 8})
		r.ch[0].SetNextSeq(1<<31 - 2)
		r.seq[0] = 1<<31 - 2
		var seqs []int32
		for range 5 {
			r.data(0, 0, 1)
			it, st, err := r.gate.Poll()
			if st != Ready {
				t.Fatal(st, err)
			}
			seqs = append(seqs, it.Seq)
			it.Buf.Release()
		}
		if want := []int32{2147483646, 2147483647, -2147483648, -2147483647, -2147483646}; !slices.Equal(seqs, want) {
			t.Errorf("numbers %v, want %v", seqs, want)
		}
		r.seq[0] += wrong
		r.data(0, 0, 1)
		err := r.ch[0].Err()
		actual := map[int32]string{-1: "-2147483646", +1: "-2147483644"}[wrong]
		if !errors.Is(err, ErrReordered) || !strings.Contains(err.Error(), "expected -2147483645, but received "+actual) {
			t.Errorf("%v", err)
		}
	}
}

// CRD-31: payloads for a channel that is gone, and empty ones, in the middle of a stream.
func TestCRD31InOnePiece(t *testing.T) {
	r := newRig(t, rigConfig{channels: 2, exclusive: 4, segment: 1024})
	r.gate.Release(1)
	r.pump()
	r.written()
	stream := r.frame(0, segment.DataBuffer, 0, bytes.Repeat([]byte("a"), 100))
	stream = append(stream, r.frame(1, segment.DataBuffer, 0, make([]byte, 1000))...)
	stream = append(stream, r.frame(0, segment.DataBuffer, 0, nil)...)
	stream = append(stream, r.frame(0, segment.DataBuffer, 0, bytes.Repeat([]byte("b"), 50))...)
	r.feed(stream)
	r.wrote("cancel 1", "credit 0 1") // the credit of the empty one
	r.polls("0:"+strings.Repeat("a", 100), "0:"+strings.Repeat("b", 50), "none")
	if n := r.recv.Local().Stats().InUse; n != 0 {
		t.Errorf("%d segments in use", n)
	}
}

// CRD-33 (receiver): errors from the peer, plain, fatal, deep, cut and random.
func TestCRD33ErrorsFromThePeer(t *testing.T) {
	fresh := func() *rig { return newRig(t, rigConfig{channels: 2, exclusive: 1}) }
	t.Run("one channel", func(t *testing.T) {
		r := fresh()
		r.feed(errorFrame(t, ClassIllegalState, "boom", rigID(0), false))
		r.fails(0, ErrRemote)
		if s := r.ch[0].Err().Error(); !strings.Contains(s, ClassIllegalState) || !strings.Contains(s, "boom") {
			t.Errorf("%s", s)
		}
		r.text(1, "x")
		r.polls("error boom", "1:x")
	})
	t.Run("connection", func(t *testing.T) {
		r := fresh()
		if err := r.core.Feed(errorFrame(t, ClassIOException, "boom", ChannelID{}, true)); !errors.Is(err, ErrRemote) {
			t.Error(err)
		}
		r.pump()
		r.polls("error boom", "error boom", "none")
	})
	plain := errorFrame(t, ClassIOException, "boom", rigID(0), false)
	random := make([]byte, 1024)
	rng := rand.New(rand.NewPCG(3, 3))
	for i := range random {
		random[i] = byte(rng.Uint32())
	}
	for name, body := range map[string][]byte{"cut": plain[FrameHeaderLen : len(plain)-40], "random": random} {
		t.Run(name, func(t *testing.T) {
			r := fresh()
			err := r.core.Feed(append(appendFrame(nil, MsgErrorResponse, len(body)), body...))
			var conn *ConnError
			if !errors.Is(err, ErrUnreadableError) || !errors.As(err, &conn) || !strings.Contains(err.Error(), "unreadable error from peer") {
				t.Error(err)
			}
			r.pump()
			r.fails(0, ErrUnreadableError)
			r.fails(1, ErrUnreadableError)
		})
	}
}

// Compressed partial buffers are blocks of their own.
func TestPartialCompressed(t *testing.T) {
	r := newRig(t, rigConfig{channels: 1, exclusive: 2, gate: GateConfig{Decompress: func(b segment.Buffer) (segment.Buffer, error) {
		defer b.Release()
		return segment.Wrap(bytes.ToUpper(b.Bytes()), segment.DataBuffer), nil
	}}})
	f := r.partial(0, 0, segment.DataBuffer, "ab", "cde")
	f[42] = 1 // the flag
	r.feed(f)
	r.polls("0:AB", "0:CDE", "none")
	if n := r.recv.Local().Stats().InUse; n != 0 {
		t.Errorf("%d segments in use", n)
	}

}
