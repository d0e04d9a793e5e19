package credit

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/weirflow/weir/segment"
)

// shares hands over small buffers in shared segments.
func (r *senderRig) shares(sub int, texts ...string) {
	r.t.Helper()
	for _, s := range texts {
		if !r.w.Share(sub, []byte(s)) {
			r.t.Fatalf("%q is not shared", s)
		}
	}
}

// TestSharedOrder: what shares a segment comes in order with everything else of its subpartition, each buffer as it was, packed or not, whenever
// the loop looks.
func TestSharedOrder(t *testing.T) {
	for _, packs := range []bool{true, false} {
		for seed := range uint64(60) {
			rnd := rand.New(rand.NewPCG(seed, 3))
			r := newSenderRig(t, PartitionConfig{Exclusive: 2, Subpartitions: 2}, 200, 512)
			r.packs = packs
			r.request(0, 1000)
			r.request(1, 1000)
			var want, got [2][]string
			take := func() {
				for _, m := range r.take() {
					sub := slices.IndexFunc([]ChannelID{senderChannel(0), senderChannel(1)}, func(id ChannelID) bool { return id == m.Receiver })
					if m.Type.IsEvent() {
						got[sub] = append(got[sub], fmt.Sprintf("event %d", m.Seq))
						continue
					}
					rest, seq := m.payload, m.Seq
					for i := range max(len(m.PartialSizes), 1) {
						n := len(rest)
						if m.PartialSizes != nil {
							n = int(m.PartialSizes[i])
						}
						got[sub] = append(got[sub], fmt.Sprintf("%s %d", rest[:n], seq))
						rest = rest[n:]
						seq++
					}
				}
			}
			for i := range 300 {
				sub := rnd.IntN(2)
				text := fmt.Sprint(i, strings.Repeat("x", rnd.IntN(60)))
				seq := len(want[sub])
				switch rnd.IntN(12) {
				case 0:
					r.w.AddEvent(sub, someEvent())
					want[sub] = append(want[sub], fmt.Sprintf("event %d", seq))
					continue
				case 1:
					r.buffer(sub, []byte(text), true)
				case 2:
					take()
					r.shares(sub, text)
				case 3:
					r.w.Unshare()
					r.shares(sub, text)
				case 4:
					r.w.Flush(sub)
					r.shares(sub, text)
				case 5:
					r.part.Poll()
					r.shares(sub, text)
				default:
					r.shares(sub, text)
				}
				want[sub] = append(want[sub], fmt.Sprintf("%s %d", text, seq))
			}
			take()
			for sub := range want {
				if !slices.Equal(got[sub], want[sub]) {
					t.Fatalf("packs %v, seed %d, subpartition %d:\n got %q\nwant %q", packs, seed, sub, got[sub], want[sub])
				}
			}
			r.w.Unshare()
			r.close() // finds what did not come home
		}
	}
}

// TestSharedIsSeen: nobody has to wake the loop, or flush, for what shares a segment: it is there when the loop looks the next time, also behind
// what it has seen, and its consumer hears of it.
func TestSharedIsSeen(t *testing.T) {
	r := packRig(t, PartitionConfig{Exclusive: 2}, 16, 512, 9)
	r.shares(0, "a")
	r.sends("the first", `0 DATA_BUFFER "a" [] backlog 0`)
	r.shares(0, "bb", "ccc")
	r.sends("in the same segment", `1 DATA_BUFFER "bbccc" [2 3] backlog 0`)
	if n := r.local.Stats().InUse; n != 1 {
		t.Errorf("%d segments in use", n)
	}
	r.shares(0, "d")
	r.w.Unshare()
	r.sends("from one that was closed", `3 DATA_BUFFER "d" [] backlog 0`)
	if len(r.part.runs) != 0 || r.part.Poll() {
		t.Errorf("the loop still looks at %d", len(r.part.runs))
	}
	r.close()
}

// TestSharedInMessages: parts of one segment are packed up to the limits, the rest of it stays for the next message; and an element of several
// counts as so many buffers.
func TestSharedInMessages(t *testing.T) {
	r := packRig(t, PartitionConfig{Exclusive: 2}, 16, 512, 1)
	r.feed(AppendNewBufferSize(nil, senderChannel(0), 10))
	r.shares(0, "aaaa", "bbbb", "cccc", "dddd", "eeee", "ffff")
	r.part.Poll()
	s := r.part.Subpartition(0)
	if s.Queued() != 6 || s.Backlog() != 5 || s.weight != 24 {
		t.Errorf("%d queued, backlog %d, %d bytes", s.Queued(), s.Backlog(), s.weight)
	}
	r.sends("two fit", `0 DATA_BUFFER "aaaabbbb" [4 4] backlog 2`)
	if s.Queued() != 4 || s.weight != 16 {
		t.Errorf("%d queued, %d bytes", s.Queued(), s.weight)
	}
	r.feed(AppendAddCredit(nil, senderChannel(0), 5))
	r.sends("the others", `2 DATA_BUFFER "ccccdddd" [4 4] backlog 1`, `4 DATA_BUFFER "eeeeffff" [4 4] backlog 0`)
	if s.Queued() != 0 || s.weight != 0 || s.dataCount != 0 {
		t.Errorf("%d queued, %d bytes, %d buffers", s.Queued(), s.weight, s.dataCount)
	}
	r.w.Unshare()
	r.close()
}

// TestSharedSegmentsApart: a message that is nearly full goes out in one piece, instead of taking a few from the next segment.
func TestSharedSegmentsApart(t *testing.T) {
	r := packRig(t, PartitionConfig{Exclusive: 2}, 16, 512, 9)
	part := strings.Repeat("p", 96) // five of them in a segment, beside its table
	for range 7 {
		r.shares(0, part)
	}
	var got []int
	for _, m := range r.take() {
		got = append(got, len(m.PartialSizes))
	}
	if !slices.Equal(got, []int{5, 2}) {
		t.Errorf("messages of %v buffers, want 5 and 2", got)
	}
	r.w.Unshare()
	r.close()
}

// TestSharedOvertaken: an unaligned barrier overtakes what is in shared segments, and the snapshot has each buffer, also those that the loop had
// not looked at.
func TestSharedOvertaken(t *testing.T) {
	sink := &sinkCalls{}
	r := newSenderRig(t, PartitionConfig{Exclusive: 2, Sink: sink}, 16, 512)
	r.request(0, 1)
	r.shares(0, "a", "b", "c", "d")
	r.one(segment.DataBuffer, 0, 2, "a") // the rest of an element is in flight
	r.shares(0, "e")
	r.w.AddEvent(0, unalignedBarrier(7))
	r.shares(0, "f")
	r.part.Poll()
	sink.is(t, "data 7/0 b c d e")
	r.w.Unshare()
	r.close()
}

// TestSharedGivenUp: what the writer keeps open goes home when it has to, and nothing stays of what a consumer, or a partition, leaves behind.
func TestSharedGivenUp(t *testing.T) {
	for name, end := range map[string]func(r *senderRig){
		"the consumer leaves":   func(r *senderRig) { r.part.Subpartition(0).release(ErrReleased) },
		"the partition fails":   func(r *senderRig) { r.part.Fail(errConsumed) },
		"the writer fails":      func(r *senderRig) { r.w.Fail(errConsumed); r.part.Poll() },
		"the writer finishes":   func(r *senderRig) { r.w.FinishAll() },
		"nobody has looked yet": func(*senderRig) {},
	} {
		t.Run(name, func(t *testing.T) {
			r := newSenderRig(t, PartitionConfig{Exclusive: 2}, 16, 512)
			r.shares(0, "a", "b")
			if name != "nobody has looked yet" {
				r.part.Poll()
			}
			r.w.Share(0, []byte("c"))
			end(r)
			if r.w.finished[0] || r.w.Released(0) {
				if r.w.Share(0, []byte("d")) {
					t.Error("something is shared with nobody")
				}
			} else {
				r.w.Share(0, []byte("d"))
			}
			r.w.Unshare()
			if n := len(r.w.runs.open); n != 0 {
				t.Errorf("%d segments open", n)
			}
			r.w.Close()
			r.part.Poll()
			r.part.Release()
			r.local.Drain()
			if n := r.local.Stats().InUse; n != 0 {
				t.Errorf("%d segments in use", n)
			}
			r.close()
		})
	}
}

// TestSharedManySubpartitions: a writer keeps so many segments open, the oldest is closed for another one; and where there is no memory nothing is
// shared.
func TestSharedManySubpartitions(t *testing.T) {
	const subs = mostRuns + 10
	r := newSenderRig(t, PartitionConfig{Exclusive: 2, Subpartitions: subs}, subs, 512)
	for sub := range subs {
		r.shares(sub, fmt.Sprint(sub))
	}
	if n := len(r.w.runs.open); n != mostRuns || r.w.runs.subs[9].Open() || !r.w.runs.subs[10].Open() {
		t.Errorf("%d segments open, the oldest is that of %d", n, r.w.runs.open[0])
	}
	if r.w.Share(0, []byte("x")) {
		t.Error("shared without memory")
	}
	r.part.Poll()
	for sub := range subs {
		if n := r.part.Subpartition(sub).Queued(); n != 1 {
			t.Errorf("subpartition %d has %d buffers", sub, n)
		}
	}
	if len(r.part.runs) != mostRuns {
		t.Errorf("the loop looks at %d segments", len(r.part.runs))
	}
	r.w.Unshare()
	r.close()
}

// TestSharedWake: small buffers wake the loop by their bytes and their number, like others.
func TestSharedWake(t *testing.T) {
	for _, c := range []struct{ size, each int }{{1, wakeMost}, {4000, wakeBytes/4000 + 1}} {
		wakes := 0
		r := newSenderRig(t, PartitionConfig{Exclusive: 2, Wake: func() { wakes++ }}, 400, 8<<10)
		p := make([]byte, c.size)
		n := 0
		for ; wakes == 0 && n < 10_000; n++ {
			if !r.w.Share(0, p) {
				t.Fatal("no memory")
			}
		}
		if n != c.each || r.w.Pending() != 0 {
			t.Errorf("woken after %d buffers of %d bytes, want %d", n, c.size, c.each)
		}
		r.w.Unshare()
		r.close()
	}
}
