package credit

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/weirflow/weir/internal/buildtag"
	"github.com/weirflow/weir/ringbuf"
	"github.com/weirflow/weir/segment"
	"github.com/weirflow/weir/serde/event"
)

const (
	localCaseChannels = 4
	localCaseData     = 8 // data buffers of each channel
)

// TestDeadlockALN18: the task polls a gate, resumes and releases channels and closes it, while the loop connects its
// channels, or cannot, and serves them, and others ask for the close. There are no locks that could be taken in the wrong
// order; what could go wrong instead is a wake-up that is missed, or a buffer that stays on its way.
func TestDeadlockALN18(t *testing.T) {
	rounds := 3000
	if buildtag.Race {
		rounds = 600
	}
	ctx, cancel := context.WithTimeout(t.Context(), hang) // it takes a second or two
	defer cancel()
	var sum localCaseSum
	for i := range rounds {
		localCaseRound(ctx, t, rand.New(rand.NewPCG(18, uint64(i))), &sum)
		if t.Failed() {
			t.Fatalf("round %d", i)
		}
	}
	t.Logf("%+v", sum)
	if sum.ended == 0 || sum.closed == 0 || sum.asked == 0 || sum.released == 0 || sum.notFound == 0 || sum.slept == 0 || sum.late == 0 {
		t.Errorf("the test has not seen everything: %+v", sum)
	}
}

// localCaseSum is what the rounds saw.
type localCaseSum struct {
	ended, closed, asked, released, notFound, slept int // by the task
	late                                            int // views that came after the close, by the loop
}

// localCaseRound is one gate's life. The loop is the test's goroutine.
func localCaseRound(ctx context.Context, t *testing.T, rng *rand.Rand, sum *localCaseSum) {
	s := newSenderRig(t, PartitionConfig{Subpartitions: localCaseChannels, Exclusive: 2}, localCaseChannels*localCaseData, 32)
	r := newRig(t, rigConfig{leaky: true})
	wake := ringbuf.NewNotifier()
	gate := NewGate(GateConfig{Channels: localCaseChannels})
	link := gate.NewLink(localCaseChannels*DefaultLocalWindow, wake.Wake)
	port, err := NewGatePort(GatePortConfig{Link: link, Pool: r.recv})
	if err != nil {
		t.Fatal(err)
	}
	r.gate, r.link, r.port = gate, link, port
	var local [localCaseChannels]*LocalChannel
	for i := range local {
		local[i], err = port.NewLocalChannel(LocalConfig{Index: i, Partition: senderPartition, Range: One(int32(i)), Window: 1 + rng.IntN(4)})
		if err != nil {
			t.Fatal(err)
		}
		gate.SetUpstream(i, link)
	}
	task := localCaseTask{gate: gate, wakeLoop: wake.Wake, sum: sum, polls: -1, release: -1}
	fail := -1
	var asking sync.WaitGroup
	defer asking.Wait()
	switch rng.IntN(3) {
	case 0: // to the end
	case 1:
		task.polls = rng.IntN(200)
		task.release = rng.IntN(2*localCaseChannels) - localCaseChannels
		fail = rng.IntN(2*localCaseChannels) - localCaseChannels
	case 2:
		yields := rng.IntN(60)
		asking.Go(func() {
			for range yields {
				runtime.Gosched()
			}
			task.ask.Store(true)
			gate.Alert()
		})
	}
	done := make(chan error, 1)
	go func() {
		err := task.run(ctx)
		gate.Close()
		done <- err
	}()

	// What the loop has to do: each channel's view at some time, and its data, a barrier in the middle, and its end.
	connect := func(ch int) {
		if ch == fail {
			local[ch].Fail(ErrPartitionNotFound)
			return
		}
		if local[ch].Released() {
			sum.late++
		}
		v, err := s.part.CreateView(One(int32(ch)), local[ch])
		if err != nil {
			t.Fatal(err)
		}
		local[ch].Connect(v)
	}
	var steps []func()
	for ch := range local {
		n := 0
		steps = append(steps, func() { connect(ch) })
		for i := range localCaseData {
			steps = append(steps, func() {
				if i == localCaseData/2 {
					s.w.AddEvent(ch, alignedBarrier(1))
				}
				s.buffer(ch, binary.BigEndian.AppendUint32(nil, uint32(n)), true)
				if n++; n == localCaseData {
					s.w.Finish(ch)
				}
			})
		}
	}
	rng.Shuffle(len(steps), func(i, j int) { steps[i], steps[j] = steps[j], steps[i] })
	lets := rng.IntN(3) // on one processor nobody else runs before the loop sleeps, unless it lets them
	turn := func() bool {
		if lets > 0 && rng.IntN(2*lets) == 0 {
			runtime.Gosched()
		}
		worked := len(steps) > 0
		if worked {
			steps[0]()
			steps = steps[1:]
		}
		s.pump()
		return port.Poll() || worked
	}
	for !port.closed || len(steps) > 0 {
		if turn() {
			continue
		}
		wake.Prepare()
		if turn() || port.closed {
			wake.Cancel()
			continue
		}
		if err := wake.Wait(ctx); err != nil {
			t.Fatalf("the loop waits for ever: %v", err)
		}
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	for ch, l := range local {
		if !l.Released() {
			t.Errorf("channel %d was not released", ch)
		}
	}
	for turn() {
	}
	s.close()
	r.close()
}

// localCaseTask is the task's side of a round.
type localCaseTask struct {
	gate     *Gate
	wakeLoop func()
	sum      *localCaseSum
	polls    int         // close after so many; negative: not
	release  int         // release this channel at half of them; negative: none
	ask      atomic.Bool // somebody asks for the close
}

func (k *localCaseTask) run(ctx context.Context) error {
	var next [localCaseChannels]int
	n := k.gate.Notifier()
	for i := 0; ; i++ {
		if i == k.polls {
			k.sum.closed++
			return nil
		}
		if k.release >= 0 && i == k.polls/2 {
			k.gate.Release(k.release)
			k.sum.released++
		}
		if k.ask.Load() {
			k.sum.asked++
			return nil
		}
		it, st, err := k.gate.Poll()
		switch {
		case errors.Is(err, ErrPartitionNotFound) && k.polls >= 0:
			k.sum.notFound++
		case errors.Is(err, ErrReleased) && k.release >= 0:
		case err != nil:
			return err
		case st == End:
			for ch, v := range next {
				if v != localCaseData {
					return fmt.Errorf("channel %d ended after %d", ch, v)
				}
			}
			k.sum.ended++
			return nil
		case st == None:
			k.gate.Flush()
			if k.polls >= 0 { // there may be nothing any more
				runtime.Gosched()
				continue
			}
			n.Prepare()
			if k.gate.Fill() > 0 || k.gate.Available() || k.ask.Load() {
				n.Cancel()
				continue
			}
			k.sum.slept++
			if err := n.Wait(ctx); err != nil {
				return fmt.Errorf("the task waits for ever, after %v: %w", next, err)
			}
		case it.Event == nil:
			v := int(binary.BigEndian.Uint32(it.Buf.Bytes()))
			if it.Type != segment.DataBuffer || v != next[it.Channel] {
				return fmt.Errorf("channel %d: %d, want %d", it.Channel, v, next[it.Channel])
			}
			next[it.Channel]++
			it.Buf.Release()
		case it.Event.Kind == event.CheckpointBarrier:
			if err := k.gate.Resume(it.Channel); err != nil {
				return err
			}
		}
	}
}
