package credit

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/weirflow/weir/segment"
)

// Answers are counted until they are written, and forgotten at the latest when those that were queued after them are: never fewer than
// wait, and nothing of what was queued before the generation that is on its way.
func TestAnswersAreCountedInGenerations(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 7))
	var a answers
	var queued, sent int64
	var waiting []int64 // the ends of answers that wait
	var most int
	for range 200_000 {
		switch rng.IntN(4) {
		case 0:
			queued += rng.Int64N(2000) // data
		case 1:
			queued += 100
			a.add(100, queued)
			waiting = append(waiting, queued)
		default:
			sent += rng.Int64N(queued - sent + 1)
		}
		for len(waiting) > 0 && waiting[0] <= sent {
			waiting = waiting[1:]
		}
		got := a.unread(sent)
		if got < 100*len(waiting) {
			t.Fatalf("%d bytes are counted, %d answers wait", got, len(waiting))
		}
		if sent == queued && got != 0 {
			t.Fatalf("%d bytes are counted, and everything is written", got)
		}
		most = max(most, got)
	}
	if most < 500 || most > 64<<10 {
		t.Errorf("at most %d bytes were counted", most)
	}
}

// Requests that wait are forgotten in any order, and those that are left expire and are found in theirs.
func TestRegistryForgetsInAnyOrder(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 9))
	now := time.Duration(0)
	g := NewRegistry(RegistryConfig{Timeout: time.Second, Clock: func() time.Duration { return now }})
	type waits struct {
		w *waiter
		n int
	}
	var naive []waits
	var gone []int
	expired, dropped, found := 0, 0, 0
	for n := range 20_000 {
		switch k := rng.IntN(10); {
		case k < 6:
			w := &waiter{partition: PartitionID{byte(rng.IntN(5))}}
			w.gone = func(error) { gone = append(gone, n) }
			w.found = func(Served) { gone = append(gone, n) }
			g.wait(w)
			naive = append(naive, waits{w, n})
		case k < 8 && len(naive) > 0:
			i := rng.IntN(len(naive))
			g.drop(naive[i].w)
			naive = slices.Delete(naive, i, i+1)
			dropped++
		case k == 8:
			now += time.Duration(rng.IntN(50)) * time.Millisecond
			gone = nil
			g.Expire()
			for _, n := range gone {
				if naive[0].n != n {
					t.Fatalf("request %d expired, the oldest is %d", n, naive[0].n)
				}
				naive = naive[1:]
				expired++
			}
			if len(naive) > 0 && naive[0].w.deadline <= now {
				t.Fatal("the oldest did not expire")
			}
		case rng.IntN(20) == 0:
			id := PartitionID{byte(rng.IntN(5))}
			gone = nil
			g.Release(id, nil)
			var want []int
			naive = slices.DeleteFunc(naive, func(x waits) bool {
				if x.w.partition == id {
					want = append(want, x.n)
				}
				return x.w.partition == id
			})
			if !slices.Equal(gone, want) {
				t.Fatalf("of partition %v %v were told, want %v", id[0], gone, want)
			}
			found += len(want)
		}
		if _, waiting := g.Len(); waiting != len(naive) {
			t.Fatalf("%d wait, want %d", waiting, len(naive))
		}
	}
	if expired < 100 || dropped < 100 || found < 100 {
		t.Errorf("no exposure: %d expired, %d dropped, %d found", expired, dropped, found)
	}
}

// floodOut counts answers.
type floodOut struct {
	frames int
	full   bool
}

func (f *floodOut) Writable() bool                            { return true }
func (f *floodOut) WriteBuffer(*BufferHeader, segment.Buffer) {}
func (f *floodOut) WriteFrame([]byte)                         { f.frames++ }
func (f *floodOut) WantFlush()                                {}
func (f *floodOut) Flooded() bool                             { return f.full }

// Whatever a client asks for that makes an answer ends its connection once the answers before are not read; nothing is added to them.
func TestFloodedConnectionsEnd(t *testing.T) {
	for what, ask := range map[string]func(c *ServerCore) error{
		"negative credit": func(c *ServerCore) error { return c.OnPartitionRequest(&PartitionRequest{Credit: -1}) },
		"unknown credit":  func(c *ServerCore) error { return c.OnAddCredit(ChannelID{1}, 1) },
		"unknown resume":  func(c *ServerCore) error { return c.OnResumeConsumption(ChannelID{1}) },
		"unknown ack":     func(c *ServerCore) error { return c.OnAckAllUserRecordsProcessed(ChannelID{1}) },
		"task event":      func(c *ServerCore) error { return c.OnTaskEvent(nil, &PartitionID{}, ChannelID{1}) },
	} {
		out := &floodOut{}
		c := NewServerCore(NewRegistry(RegistryConfig{}), out)
		if err := ask(c); err != nil || out.frames != 1 {
			t.Errorf("%s: %v, %d answers", what, err, out.frames)
		}
		out.full = true
		if err := ask(c); !errors.Is(err, ErrFlood) || out.frames != 1 {
			t.Errorf("%s, flooded: %v, %d answers", what, err, out.frames)
		}
	}
}

// As many requests wait as may, and no more, over all connections of a registry.
func TestWaitingRequestsAreBounded(t *testing.T) {
	g := NewRegistry(RegistryConfig{MaxWaiting: 3})
	var cores []*ServerCore
	var outs []*floodOut
	for range 2 {
		outs = append(outs, &floodOut{})
		cores = append(cores, NewServerCore(g, outs[len(outs)-1]))
	}
	for i := range byte(4) {
		if err := cores[i%2].OnPartitionRequest(&PartitionRequest{Receiver: ChannelID{i}}); err != nil {
			t.Fatal(err)
		}
	}
	if _, waiting := g.Len(); waiting != 3 || outs[0].frames != 0 || outs[1].frames != 1 {
		t.Errorf("%d wait, %d and %d were refused", waiting, outs[0].frames, outs[1].frames)
	}
	cores[0].Disconnected()
	if err := cores[1].OnPartitionRequest(&PartitionRequest{Receiver: ChannelID{9}}); err != nil {
		t.Fatal(err)
	}
	if _, waiting := g.Len(); waiting != 2 || outs[1].frames != 1 {
		t.Errorf("%d wait, %d were refused", waiting, outs[1].frames)
	}
}
