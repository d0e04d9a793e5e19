package credit

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/weirflow/weir/internal/buildtag"
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

// TestSharedManySubpartitions: a writer keeps so many segments open, and others get buffers of their own, round after round; and where there is no
// memory nothing is shared.
func TestSharedManySubpartitions(t *testing.T) {
	const subs = mostRuns + 10
	r := newSenderRig(t, PartitionConfig{Exclusive: 2, Subpartitions: subs}, mostRuns+1, 256)
	for round := range 5 {
		for sub := range subs {
			if got := r.w.Share(sub, []byte("x")); got != (sub < mostRuns) {
				t.Fatalf("round %d, subpartition %d: shared %v", round, sub, got)
			}
		}
		r.part.Poll()
	}
	if n := r.local.Stats().InUse; n != mostRuns || len(r.w.runs.open) != mostRuns || len(r.part.runs) != mostRuns {
		t.Errorf("%d segments in use, %d open, the loop looks at %d", n, len(r.w.runs.open), len(r.part.runs))
	}
	r.w.AddEvent(7, someEvent()) // makes a place
	last, ok := r.w.Take(1)
	if !ok || r.w.Share(subs-1, []byte("x")) {
		t.Error("shared without memory")
	}
	last.Release()
	r.local.Drain()
	r.shares(subs-1, "x")
	r.shares(subs-1, "x")
	r.part.Poll()
	for sub, want := range map[int]int{0: 5, 7: 6, mostRuns: 0, subs - 1: 2} {
		if n := r.part.Subpartition(sub).Queued(); n != want {
			t.Errorf("subpartition %d has %d buffers, want %d", sub, n, want)
		}
	}
	r.w.Unshare()
	r.close()
}

// TestSharedFlushed: a flush is for all parts, also for a consumer that takes them one by one as its only credit comes.
func TestSharedFlushed(t *testing.T) {
	r := newSenderRig(t, PartitionConfig{Exclusive: 0}, 16, 512)
	r.request(0, 1)
	r.shares(0, "a", "b")
	r.w.Flush(0)
	r.one(segment.DataBuffer, 0, 1, "a")
	r.feed(AppendAddCredit(nil, senderChannel(0), 1))
	r.one(segment.DataBuffer, 1, 0, "b")
	r.w.Unshare()
	r.close()
}

// TestWholeBuffersAreFlushed: a lone buffer that is whole, or a part, comes to a consumer without credit at the latest with the flush timer, which
// has it announced.
func TestWholeBuffersAreFlushed(t *testing.T) {
	for name, put := range map[string]func(r *senderRig){
		"shared": func(r *senderRig) { r.shares(0, "a") },
		"alone":  func(r *senderRig) { r.buffer(0, []byte("a"), true) },
	} {
		r := newSenderRig(t, PartitionConfig{Exclusive: 0}, 16, 512)
		r.request(0, 0)
		put(r)
		r.pump()
		if len(r.backlogs) != 0 {
			t.Errorf("%s: announced %v before the timer", name, r.backlogs)
		}
		r.part.FlushDirty()
		r.pump()
		if !slices.Equal(r.backlogs, []int32{1}) {
			t.Errorf("%s: announced %v", name, r.backlogs)
		}
		r.feed(AppendAddCredit(nil, senderChannel(0), 1))
		r.one(segment.DataBuffer, 0, 0, "a")
		r.w.Unshare()
		r.close()
	}
}

// TestSharedIsReclaimed: a segment that the writer gives up comes home with the loop's next turn, which it asks for.
func TestSharedIsReclaimed(t *testing.T) {
	for name, give := range map[string]func(r *senderRig){
		"reclaim": func(r *senderRig) { r.w.Reclaim() },
		"unshare": func(r *senderRig) { r.w.Unshare(); r.w.Publish() },
	} {
		wakes := 0
		r := newSenderRig(t, PartitionConfig{Exclusive: 2, Wake: func() { wakes++ }}, 1, 512)
		r.request(0, 9)
		r.shares(0, "a")
		r.one(segment.DataBuffer, 0, 0, "a")
		if r.w.Publish(); r.w.Available(0) {
			t.Fatalf("%s: nothing is kept", name)
		}
		wakes = 0
		if give(r); wakes != 1 {
			t.Errorf("%s: the loop is woken %d times", name, wakes)
		}
		r.part.Poll()
		if !r.w.Available(0) {
			t.Errorf("%s: the writer waits for what it keeps", name)
		}
		r.close()
	}
}

// TestSharedTooLong: what is longer than half a segment is not copied, and takes none.
func TestSharedTooLong(t *testing.T) {
	r := newSenderRig(t, PartitionConfig{Exclusive: 2}, 2, 512)
	if r.w.Share(0, make([]byte, 257)) || !r.w.Share(0, make([]byte, 256)) || !r.w.Share(0, make([]byte, 200)) {
		t.Error("half a segment may be shared, and no more")
	}
	if n := r.local.Stats().InUse; n != 1 {
		t.Errorf("%d segments in use", n)
	}
	r.w.Unshare()
	r.close()
}

// TestSharedAsAlone: a consumer gets the same messages, with the same backlogs, and a snapshot the same buffers, whether small buffers share
// segments or not.
func TestSharedAsAlone(t *testing.T) {
	for seed := range uint64(400) {
		rnd := rand.New(rand.NewPCG(seed, 77))
		exclusive := int32(rnd.IntN(2) * 2)
		var sinks [2]sinkCalls
		var rigs [2]*senderRig // the first one shares
		for i := range rigs {
			rigs[i] = newSenderRig(t, PartitionConfig{Exclusive: int(exclusive), Sink: &sinks[i]}, 500, 512)
		}
		id, requested := int64(0), false
		for i := range 120 {
			text, op, n := fmt.Sprint(i, strings.Repeat("x", rnd.IntN(60))), rnd.IntN(20), 1+rnd.IntN(4)
			var got [2][]string
			for k, r := range rigs {
				switch op {
				case 0:
					r.w.AddEvent(0, someEvent())
				case 1:
					r.w.AddEvent(0, unalignedBarrier(id+1))
				case 2:
					r.w.AddEvent(0, timeoutableBarrier(id+1))
				case 3:
					r.part.AlignedBarrierTimeout(id)
				case 4:
					r.w.Flush(0)
				case 5:
					r.w.FlushAll()
				case 6:
					r.part.FlushDirty()
				case 7, 8, 9:
					if r.core.Reader(senderChannel(0)) != nil {
						r.feed(AppendAddCredit(nil, senderChannel(0), int32(n)))
					}
				case 10:
					if r.part.Subpartition(0).blocked {
						r.feed(AppendResumeConsumption(nil, senderChannel(0)))
					}
				case 11:
					if !requested {
						r.request(0, exclusive)
					}
				case 12:
					r.buffer(0, []byte(text), true)
				case 13:
					r.w.Unshare()
				default:
					for range n {
						if k == 0 {
							r.shares(0, text)
						} else {
							r.buffer(0, []byte(text), true)
						}
					}
				}
				r.part.Poll()
				// Not what is announced: of several at once that is the first one, or all.
				got[k] = append(r.messages(), fmt.Sprint(r.part.Subpartition(0).Queued(), sinks[k]))
			}
			if requested = requested || op == 11; op == 1 || op == 2 {
				id++
			}
			if !slices.Equal(got[0], got[1]) {
				t.Fatalf("seed %d, step %d, operation %d:\n shared %q\n alone %q", seed, i, op, got[0], got[1])
			}
		}
		for _, r := range rigs {
			r.w.Unshare()
			r.close()
		}
	}
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

// TestSharedWakesTheSleeper: a writer that adds a part and finds the loop awake has been seen by the loop's last look before it sleeps. Each
// of them makes its own thing visible and then looks at the other's.
func TestSharedWakesTheSleeper(t *testing.T) {
	rounds := uint64(300_000)
	if testing.Short() || buildtag.Race {
		rounds /= 10
	}
	var asleep atomic.Bool
	woken := false
	r := newSenderRig(t, PartitionConfig{Exclusive: 2, Wake: func() { woken = asleep.Load() }}, 64, 32<<10)
	var turn, done struct {
		atomic.Uint64
		_ [120]byte
	}
	before, seen := int32(0), false
	end := make(chan struct{})
	go func() {
		defer close(end)
		for i := uint64(1); i <= rounds; i++ {
			for n := 0; turn.Load() != i; n++ {
				if n > 1000 {
					runtime.Gosched()
				}
			}
			asleep.Store(true)
			seen = r.part.shared.parts.Count() != before
			done.Store(i)
		}
	}()
	for i := uint64(1); i <= rounds; i++ {
		asleep.Store(false)
		before, woken = r.part.shared.parts.Count(), false
		turn.Store(i)
		for range i % 40 { // so that they meet
			_ = done.Load()
		}
		r.shares(0, "part")
		r.w.Publish()
		for n := 0; done.Load() != i; n++ {
			if n > 1000 {
				runtime.Gosched()
			}
		}
		if !woken && !seen {
			t.Fatalf("round %d: the loop sleeps and has not seen the part", i)
		}
		if i%100 == 0 {
			r.part.Poll()
			r.part.Subpartition(0).queue.Clear(func(e element) { e.r.Close() })
			r.local.Drain()
		}
	}
	<-end
	r.w.Unshare()
	r.close()
}
