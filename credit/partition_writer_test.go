package credit

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirflow/weir/netio"
	"github.com/weirflow/weir/ringbuf"
	"github.com/weirflow/weir/segment"
	"github.com/weirflow/weir/serde/event"
)

// hang is when a test that waits for something gives up. It says nothing about speed.
const hang = 3 * time.Minute

// rounds is n, or a hundredth of it in short mode.
func rounds(n int) int {
	if testing.Short() {
		return n / 100
	}
	return n
}

// TestWriterWakesForBytes: the loop is woken once for what goes out in one call, be it few full buffers or many small ones.
func TestWriterWakesForBytes(t *testing.T) {
	const size = 32 << 10
	if wakes, sends := wakeBytes/size, netio.BatchBytes/(size+BufferHeaderLen(Flink23)); wakes != sends {
		t.Errorf("a writer wakes the loop for %d full buffers, a call has room for %d with their headers", wakes, sends)
	}
	for name, c := range map[string]struct{ bytes, want int }{
		"full": {size, wakeBytes / size}, "small": {2 << 10, wakeBytes / (2 << 10)}, "tiny": {100, wakeMost}, "open": {-1, wakeBytes / size},
	} {
		t.Run(name, func(t *testing.T) {
			wakes := 0
			r := newSenderRig(t, PartitionConfig{Wake: func() { wakes++ }}, wakeMost+1, size)
			defer r.close()
			for n := 1; wakes == 0; n++ {
				b, ok := r.w.Take(0)
				if !ok {
					t.Fatalf("no memory after %d buffers, and not woken", n-1)
				}
				if c.bytes < 0 {
					w := segment.MakeBuilder(b)
					r.w.Add(0, w.NewReader(), 0)
					w.Finish()
					w.Close()
				} else {
					r.w.Add(0, segment.ReadAll(b.Resized(c.bytes)), 0)
				}
				if wakes > 0 && n != c.want {
					t.Errorf("woken for %d buffers, want %d", n, c.want)
				}
			}
		})
	}
}

// senderLoop runs a rig's loop half on a goroutine of its own, as a loop does: it sleeps when nothing is to be done.
type senderLoop struct {
	*senderRig
	wake  *ringbuf.Notifier
	posts *ringbuf.MPSC[func()]
	stop  atomic.Bool
	done  chan struct{}
}

func newSenderLoop(t testing.TB, cfg PartitionConfig, segments, size int) *senderLoop {
	l := &senderLoop{wake: ringbuf.NewNotifier(), posts: ringbuf.NewMPSC[func()](64), done: make(chan struct{})}
	cfg.Wake = l.wake.Wake
	l.senderRig = newSenderRig(t, cfg, segments, size)
	return l
}

// start starts the loop; everything of the rig but the writer belongs to it from then on.
func (l *senderLoop) start() {
	go func() {
		defer close(l.done)
		for {
			if l.turn() {
				continue
			}
			if l.stop.Load() {
				return
			}
			l.wake.Prepare()
			if l.turn() || l.stop.Load() {
				l.wake.Cancel()
				continue
			}
			_ = l.wake.Wait(context.Background())
		}
	}()
}

func (l *senderLoop) turn() (worked bool) {
	for f, ok := l.posts.Pop(); ok; f, ok = l.posts.Pop() {
		f()
		worked = true
	}
	if l.part.Poll() {
		worked = true
	}
	if l.wanted {
		l.wanted = false
		if n, err := l.core.Run(); err != nil {
			l.t.Error(err)
		} else if n > 0 {
			worked = true
		}
	}
	return worked
}

func (l *senderLoop) post(f func()) {
	for !l.posts.Push(f) {
		runtime.Gosched()
	}
	l.wake.Wake()
}

// join stops the loop; the rig belongs to the caller again.
func (l *senderLoop) join() {
	l.t.Helper()
	l.stop.Store(true)
	l.wake.Wake()
	select {
	case <-l.done:
	case <-time.After(hang):
		l.t.Fatal("the loop does not end")
	}
}

// TestOverflow: one buffer in very many subpartitions makes more items than the ring has room for. They wait at the
// writer, in order, and a writer that waits for memory hands them over.
func TestOverflow(t *testing.T) {
	const subs, buffers = 300, 20
	r := newSenderRig(t, PartitionConfig{Exclusive: 2, Subpartitions: subs, Events: 1}, 4, 64)
	for i := range subs {
		r.request(i, 1000)
	}
	for i := range buffers {
		var b segment.Buffer
		ctx, cancel := context.WithTimeout(t.Context(), hang)
		err := r.w.Wait(ctx, -1, func() (ok bool) {
			r.pump() // the writer runs the loop itself
			b, ok = r.w.Take(0)
			return ok
		})
		cancel()
		if err != nil {
			t.Fatal(err)
		}
		b.Memory()[0] = byte(i)
		for sub := range subs {
			if i%2 == 1 { // so that an item that overtakes those that wait is seen
				sub = subs - 1 - sub
			}
			r.w.Add(sub, segment.ReadAll(b.Resized(1).Retain()), 0)
		}
		b.Release()
	}
	if r.w.late.Len() == 0 {
		t.Fatal("everything found room: nothing was tested")
	}
	for !r.w.Publish() {
		r.pump()
	}
	next := map[ChannelID]byte{}
	for _, m := range r.take() {
		if m.payload[0] != next[m.Receiver] {
			t.Fatalf("channel %v: buffer %d where %d follows", m.Receiver, m.payload[0], next[m.Receiver])
		}
		next[m.Receiver]++
	}
	for sub := range subs {
		if n := next[senderChannel(sub)]; n != buffers {
			t.Fatalf("channel %d got %d buffers", sub, n)
		}
	}
	r.close()
}

// TestOverflowWakes: a writer that sleeps with items held back is woken when the loop has made room.
func TestOverflowWakes(t *testing.T) {
	const subs = 300
	l := newSenderLoop(t, PartitionConfig{Exclusive: 2, Subpartitions: subs, Events: 1}, 1, 64)
	var arrived atomic.Int32
	l.onSend = func(*sentMessage) { arrived.Add(1) }
	for i := range subs {
		l.request(i, 1<<30)
	}
	l.start()
	for range rounds(500) {
		arrived.Store(0)
		b, ok := l.w.Take(0)
		if !ok {
			t.Fatal("the only segment has not come home")
		}
		for sub := range subs {
			l.w.Add(sub, segment.ReadAll(b.Resized(1).Retain()), 0)
		}
		b.Release()
		ctx, cancel := context.WithTimeout(t.Context(), hang)
		err := l.w.Wait(ctx, -1, func() bool { return l.local.Available() })
		cancel()
		if err != nil {
			t.Fatalf("after %d of %d: %v", arrived.Load(), subs, err)
		}
	}
	l.join()
	l.sent = nil
	l.close()
}

// TestEventWakes: the loop is woken for each event, and for a buffer only when asked.
func TestEventWakes(t *testing.T) {
	woken := 0
	r := newSenderRig(t, PartitionConfig{Exclusive: 2, Wake: func() { woken++ }}, 4, 64)
	defer r.close()
	b, ok := r.w.Take(0)
	if !ok {
		t.Fatal("no segment")
	}
	if r.w.Add(0, segment.ReadAll(b.Resized(1)), 0); woken != 0 {
		t.Errorf("woken %d times for a buffer", woken)
	}
	if r.w.AddEvent(0, senderBarrier(1, event.Aligned, 0)); woken != 1 {
		t.Errorf("woken %d times for an event", woken)
	}
}

// TestCRD03 (CRD-03): a writer that appends a little, flushes and waits for the echo never waits for ever, whatever the
// moment. The flush timer is off.
func TestCRD03(t *testing.T) {
	l := newSenderLoop(t, PartitionConfig{Exclusive: 2}, 64, 64)
	echo := ringbuf.NewNotifier()
	var got atomic.Int64
	l.onSend = func(m *sentMessage) {
		l.sent = l.sent[:0]
		l.core.Reader(senderChannel(0)).addCredit(1)
		got.Add(int64(m.Size))
		echo.Wake()
	}
	l.request(0, 4)
	l.start()
	rng := rand.New(rand.NewPCG(1, 1))
	var w segment.Builder
	open := false
	for i := range rounds(100_000) {
		if open && w.Full() {
			finish(&w)
			open = false
		}
		if !open {
			var b segment.Buffer
			if err := l.w.Wait(t.Context(), 0, func() (ok bool) { b, ok = l.w.Take(0); return ok }); err != nil {
				t.Fatal(err)
			}
			w, open = segment.MakeBuilder(b), true
			l.w.Add(0, w.NewReader(), 0)
		}
		w.Append([]byte("12345678"))
		w.Commit()
		l.w.Flush(0)
		for range rng.IntN(20) {
			runtime.Gosched()
		}
		want := int64(i+1) * 8
		for got.Load() < want {
			echo.Prepare()
			if got.Load() >= want {
				echo.Cancel()
				break
			}
			if !echo.WaitTimeout(hang) {
				t.Fatalf("round trip %d does not end: %d of %d bytes", i, got.Load(), want)
			}
		}
	}
	if open {
		finish(&w)
	}
	l.join()
	l.close()
}

// TestCRD06 (CRD-06): a reader is released at a random moment while the writer appends and flushes. Nothing breaks, and
// all memory comes home.
func TestCRD06(t *testing.T) {
	rng := rand.New(rand.NewPCG(6, 6))
	refused := 0
	for range rounds(1000) {
		l := newSenderLoop(t, PartitionConfig{Exclusive: 2}, 16, 64)
		l.request(0, 1000)
		l.start()
		at := rng.IntN(40)
		for i := range 40 {
			if i == at {
				l.post(func() { _ = l.core.OnCancelPartitionRequest(senderChannel(0)) })
			}
			b, ok := l.w.Take(0)
			if !ok {
				l.local.Drain()
				runtime.Gosched()
				continue
			}
			w := segment.MakeBuilder(b)
			if _, ok := l.w.Add(0, w.NewReader(), 0); !ok {
				refused++
			}
			w.Append([]byte("12345678"))
			w.Commit()
			l.w.Flush(0)
			finish(&w)
		}
		l.join()
		l.close()
	}
	if refused == 0 {
		t.Error("the writer was never refused: nothing was tested")
	}
}

// TestCRD16 (CRD-16): the connection dies at a random moment around the writer's decision to sleep. It always returns.
func TestCRD16(t *testing.T) {
	rng := rand.New(rand.NewPCG(16, 16))
	slept := 0
	for range rounds(2000) {
		l := newSenderLoop(t, PartitionConfig{Exclusive: 2}, 4, 64)
		l.request(0, 0)
		l.start()
		for range 4 {
			b, _ := l.w.Take(0)
			l.w.Add(0, segment.ReadAll(b.Resized(1)), 0)
		}
		pause := rng.IntN(50)
		go func() {
			for range pause {
				runtime.Gosched()
			}
			l.post(l.core.Disconnected)
		}()
		ctx, cancel := context.WithTimeout(t.Context(), hang)
		err := l.w.Wait(ctx, 0, func() bool { slept++; return false })
		cancel()
		if !errors.Is(err, ErrReleased) {
			t.Fatalf("got %v", err)
		}
		l.join()
		l.close()
	}
	if slept == 0 {
		t.Error("the writer never had to wait")
	}
}

// TestCRD07 (CRD-07): credits are increments: whatever the delay of the updates, what was sent and not consumed never
// exceeds the window.
func TestCRD07(t *testing.T) {
	const window = 100
	r := newSenderRig(t, PartitionConfig{Exclusive: 2}, 512, 16)
	defer r.close()
	r.request(0, window)
	rng := rand.New(rand.NewPCG(7, 7))
	sent, consumed, written := 0, 0, 0
	var delayed []int32
	full := false
	for range 20_000 {
		switch rng.IntN(4) {
		case 0:
			for range min(20, 300-(written-sent)) {
				r.buffer(0, []byte("x"), true)
				written++
			}
		case 1:
			if consumed < sent && rng.IntN(10) == 0 {
				n := 1 + rng.IntN(min(30, sent-consumed))
				consumed += n
				delayed = append(delayed, int32(n))
			}
		case 2:
			if len(delayed) > 0 && rng.IntN(20) == 0 {
				r.feed(AppendAddCredit(nil, senderChannel(0), delayed[0]))
				delayed = delayed[1:]
			}
		}
		sent += len(r.take())
		if sent-consumed > window {
			t.Fatalf("%d were sent, %d consumed: more than %d under way", sent, consumed, window)
		}
		full = full || sent-consumed == window
	}
	if !full || sent < 1000 {
		t.Errorf("window full: %v, %d sent", full, sent)
	}
}

// TestRelease: what the writer still hands over after the partition was released goes home.
func TestRelease(t *testing.T) {
	r := newSenderRig(t, PartitionConfig{Exclusive: 2}, 16, 64)
	r.buffer(0, []byte("a"), true)
	r.part.Release() // the loop has not seen the buffer yet
	r.buffer(0, []byte("b"), true)
	r.w.AddEvent(0, someEvent())
	r.w.Flush(0)
	r.w.FlushAll()
	if r.w.Finish(0) {
		t.Error("a released subpartition was finished")
	}
	if r.part.Done() {
		t.Error("done before the writer is")
	}
	// The writer may look at its subpartition just before it is released, and hand over just after.
	r.w.shared.subs[0].released.Store(false)
	r.w.finished[0] = false
	r.buffer(0, []byte("c"), true)
	r.local.Drain()
	if r.w.ring.Len() != 1 || r.local.Charged(0) != 1 { // "a"
		t.Errorf("%d items in the ring, %d buffers", r.w.ring.Len(), r.local.Charged(0))
	}
	r.w.shared.subs[0].released.Store(true)
	r.w.Close()
	r.w.Close()
	r.part.Poll()
	if !r.part.Done() {
		t.Error("not done")
	}
	if !r.w.Settled() || !r.w.Publish() {
		t.Error("the writer waits for something")
	}
	r.close()
}

// TestAcks: the writer hears when the last consumer has processed all records, or has gone.
func TestAcks(t *testing.T) {
	r := newSenderRig(t, PartitionConfig{Exclusive: 2, Subpartitions: 3}, 16, 64)
	defer r.close()
	calls := 0
	r.part.cfg.OnAllAcked = func() { calls++ }
	for i := range 3 {
		r.request(i, 1)
	}
	ack := func(i int) { r.feed(AppendAckAllUserRecordsProcessed(nil, senderChannel(i))) }
	ack(0)
	ack(0)
	ack(1)
	if calls != 0 || r.w.AllAcked() || r.w.Settled() {
		t.Error("too early")
	}
	ack(2)
	if calls != 1 || !r.w.AllAcked() || !r.w.Settled() || len(r.w.Lost()) != 0 {
		t.Errorf("%d calls, all %v, lost %v", calls, r.w.AllAcked(), r.w.Lost())
	}
	q := newSenderRig(t, PartitionConfig{Exclusive: 2, Subpartitions: 2}, 16, 64)
	defer q.close()
	q.request(0, 1)
	q.request(1, 1)
	q.feed(AppendCancelPartitionRequest(nil, senderChannel(0)))
	if q.w.Settled() {
		t.Error("settled with one consumer left")
	}
	q.feed(AppendAckAllUserRecordsProcessed(nil, senderChannel(1)))
	if !q.w.Settled() || q.w.AllAcked() || len(q.w.Lost()) != 1 || q.w.Lost()[0] != 0 {
		t.Errorf("settled %v, lost %v", q.w.Settled(), q.w.Lost())
	}
}

// TestReleaseWakes: a writer that waits hears that its consumer has gone though no memory comes home by it.
func TestReleaseWakes(t *testing.T) {
	for name, end := range map[string]func(l *senderLoop){
		"cancel":  func(l *senderLoop) { _ = l.core.OnCancelPartitionRequest(senderChannel(0)) },
		"failure": func(l *senderLoop) { l.part.Fail(errors.New("boom")) },
		"ack":     func(l *senderLoop) { _ = l.core.OnAckAllUserRecordsProcessed(senderChannel(0)) },
	} {
		l := newSenderLoop(t, PartitionConfig{Exclusive: 2, Subpartitions: 2}, 4, 64)
		l.request(0, 0)
		l.start()
		asked := make(chan struct{}, 1)
		go func() {
			<-asked
			l.post(func() { end(l) })
		}()
		calls := 0
		ctx, cancel := context.WithTimeout(t.Context(), hang)
		err := l.w.Wait(ctx, 0, func() bool {
			if calls++; calls == 2 { // the writer is about to sleep
				asked <- struct{}{}
			}
			return l.w.shared.subs[0].acked.Load()
		})
		cancel()
		if errors.Is(err, context.DeadlineExceeded) || (err == nil) != (name == "ack") {
			t.Errorf("%s: %v", name, err)
		}
		l.join()
		l.close()
	}
}
