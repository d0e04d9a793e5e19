package credit

import (
	"context"
	"encoding/binary"
	"testing"

	"github.com/weirflow/weir/ringbuf"
	"github.com/weirflow/weir/serde/event"
)

// Loop and task on goroutines of their own, both asleep when they have nothing to do: nothing is lost, nothing comes out of
// order, and no wake-up is missed.
func TestLoopAndTask(t *testing.T) {
	const channels, perChannel = 4, 5000
	wake := ringbuf.NewNotifier()
	p := newPair(t, channels, 2, 4, rigConfig{client: ClientConfig{Policy: Batched{}}})
	p.r.link.wake = wake.Wake
	// The task's own way back for buffers wakes the loop, too.
	recv := p.r.recv
	ctx, cancel := context.WithTimeout(t.Context(), hang)
	defer cancel()

	done := make(chan error, 1)
	var sum taskSum
	go func() {
		done <- sum.run(ctx, p.r.gate, channels, wake.Wake)
		wake.Wake() // after the result can be seen: a wake-up before it is lost when the loop looks in between
	}()

	next := make([]int, channels)
	turn := func() (worked bool) {
		for ch := range channels {
			for k := 0; k < 8 && next[ch] < perChannel; k++ {
				switch n := next[ch]; {
				case n%500 == 250:
					p.s.w.AddEvent(ch, alignedBarrier(int64(n)))
				case n%500 == 400:
					p.s.w.AddEvent(ch, unalignedBarrier(int64(n)))
				default:
					if p.s.local.Stats().InUse > 200 {
						k = 8
						continue
					}
					p.s.buffer(ch, binary.BigEndian.AppendUint32(nil, uint32(n)), true)
				}
				worked = true
				if next[ch]++; next[ch] == perChannel {
					p.s.w.Finish(ch)
				}
			}
		}
		p.s.pump()
		if p.r.port.Poll() {
			worked = true
		}
		p.r.core.WriteIntents()
		p.moveUp()
		if b := p.down.take(1 << 20); len(b) > 0 {
			worked = true
			if err := p.r.core.Feed(b); err != nil {
				t.Error(err)
			}
		}
		if b := p.up.take(1 << 20); len(b) > 0 {
			worked = true
			if err := p.in.Feed(b, p.s.core); err != nil {
				t.Error(err)
			}
		}
		p.s.local.Drain()
		return worked
	}
	for {
		select {
		case err := <-done:
			if err != nil {
				t.Fatal(err)
			}
			for turn() {
			}
			if sum.data == 0 || sum.resumed == 0 || sum.overtook == 0 || sum.slept == 0 {
				t.Errorf("the test has not seen everything: %+v", sum)
			}
			if n := recv.Local().Stats().InUse; n != 0 {
				t.Errorf("%d segments in use", n)
			}
			p.close()
			return
		default:
		}
		if turn() {
			continue
		}
		wake.Prepare()
		if turn() {
			wake.Cancel()
			continue
		}
		if err := wake.Wait(ctx); err != nil {
			t.Fatalf("nothing moves any more: %v; outstanding %d, sent %+v, the task's result is there: %t", err, p.r.core.CreditOutstanding(), next, len(done) > 0)
		}
	}
}

// taskSum is what the task of TestLoopAndTask saw.
type taskSum struct{ data, resumed, overtook, slept int }

func (s *taskSum) run(ctx context.Context, g *Gate, channels int, wakeLoop func()) error {
	last := make([]int, channels)
	for i := range last {
		last[i] = -1
	}
	n := g.Notifier()
	for {
		it, st, err := g.Poll()
		switch {
		case err != nil:
			return err
		case st == End:
			return nil
		case st == None:
			g.Flush()
			wakeLoop() // returned buffers are credit
			n.Prepare()
			if g.Fill() > 0 || g.Available() {
				n.Cancel()
				continue
			}
			s.slept++
			if err := n.Wait(ctx); err != nil {
				return err
			}
		case it.Event == nil:
			v := int(binary.BigEndian.Uint32(it.Buf.Bytes()))
			if err := s.order(it.Channel, v, last); err != nil {
				return err
			}
			s.data++
			if v%3 == 0 {
				it.Buf.Release()
			} else {
				g.Recycle(it.Channel, it.Buf)
			}
		case it.Event.Kind == event.CheckpointBarrier:
			if it.Type.HasPriority() {
				s.overtook++
				continue
			}
			if err := s.order(it.Channel, int(it.Event.Barrier.ID), last); err != nil {
				return err
			}
			s.resumed++
			if err := g.Resume(it.Channel); err != nil {
				return err
			}
		}
	}
}

// order checks that v follows the last one of its channel; unaligned barriers are not in this order.
func (s *taskSum) order(ch, v int, last []int) error {
	want := last[ch] + 1
	if want%500 == 400 {
		want++
	}
	if v != want {
		return &ChannelError{Index: ch, Err: ErrReordered}
	}
	last[ch] = v
	return nil
}
