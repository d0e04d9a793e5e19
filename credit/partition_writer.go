package credit

import (
	"context"
	"fmt"

	"github.com/weirflow/weir/ringbuf"
	"github.com/weirflow/weir/segment"
)

// A writer wakes the loop without being asked to flush when it has handed over wakeBytes, nearly what a connection sends in one call
// (netio.BatchBytes): that is a matter of bytes, not of buffers. wakeMost bounds the number of small ones.
const (
	wakeBytes = 768 << 10
	wakeMost  = 768
)

// PartitionWriter is the writer half of a partition: what one goroutine, the task, writes through. It fits
// serde.RecordWriter's Output. Nothing here waits, except Wait. Everything goes to the loop through one ring, in order.
//
// A buffer is handed over as soon as it is opened, so that the loop's flush timer finds what is committed even if the
// writer is stuck; the loop is woken only for each batch, at events and at flushes.
type PartitionWriter struct {
	ring     *ringbuf.SPSC[item]
	shared   *partitionState
	pool     *segment.LocalPool
	wake     func()
	late     ringbuf.Deque[item] // items that found no room, oldest first
	sinceUp  int                 // buffers since the loop was woken
	bytesUp  int                 // their bytes; one that is still open counts as full
	finished []bool
	closed   bool
	part     *Partition // the loop half, for the glue only
	runs     runs
}

func newPartitionWriter(p *Partition) *PartitionWriter {
	return &PartitionWriter{ring: p.ring, shared: p.shared, pool: p.cfg.Pool, wake: p.cfg.Wake,
		finished: make([]bool, len(p.subs)), part: p}
}

// Partition returns the loop half.
func (w *PartitionWriter) Partition() *Partition { return w.part }

// Subpartitions returns the number of subpartitions.
func (w *PartitionWriter) Subpartitions() int { return len(w.finished) }

// Available reports whether a record that needs a buffer may begin: the pool has one and no subpartition has its quota.
func (w *PartitionWriter) Available(int) bool { return w.pool.Available() }

// Take takes an empty buffer for sub from the pool, on overdraft if need be.
func (w *PartitionWriter) Take(sub int) (segment.Buffer, bool) { return w.pool.TakeFor(sub) }

// Add hands the reader of a buffer to subpartition sub, which owns it from then on. Its first partial bytes continue an
// earlier record. hint is the size of buffers in bytes that the consumer wants, 0 or less: no wish. ok is false if
// the subpartition is finished or released; the reader was closed then.
func (w *PartitionWriter) Add(sub int, r segment.Reader, partial int) (hint int, ok bool) {
	s := &w.shared.subs[sub]
	if w.finished[sub] || s.released.Load() {
		r.Close()
		return -1, false
	}
	size := w.pool.SegmentSize()
	if r.Finished() {
		size = r.Written()
	}
	w.endRun(sub)
	w.add(sub, partial, r)
	w.handedOver(size)
	return int(s.hint.Load()), true
}

// handedOver counts a buffer of data, and wakes the loop for each batch.
func (w *PartitionWriter) handedOver(size int) {
	w.bytesUp += size
	if w.sinceUp++; w.bytesUp >= wakeBytes || w.sinceUp >= wakeMost {
		w.wakeUp()
	}
}

// AddEvent hands an event to subpartition sub, which owns b from then on. It returns false, and releases b, if the
// subpartition is finished or released.
func (w *PartitionWriter) AddEvent(sub int, b segment.Buffer) bool {
	if w.finished[sub] || w.shared.subs[sub].released.Load() {
		b.Release()
		return false
	}
	w.endRun(sub)
	w.put(item{kind: itemAdd, sub: int32(sub), r: segment.ReadAll(b)})
	w.wakeUp() // an event does not wait
	return true
}

// Flush lets the consumer of sub have what is written so far.
func (w *PartitionWriter) Flush(sub int) {
	w.put(item{kind: itemFlush, sub: int32(sub)})
	w.wakeUp()
}

// FlushAll is Flush for all subpartitions.
func (w *PartitionWriter) FlushAll() {
	w.put(item{kind: itemFlushAll})
	w.wakeUp()
}

// Finish ends subpartition sub with an end-of-partition event; again does nothing. It returns false if it was ended or
// released before.
func (w *PartitionWriter) Finish(sub int) bool {
	if w.finished[sub] {
		return false
	}
	w.finished[sub] = true
	w.endRun(sub)
	w.put(item{kind: itemFinish, sub: int32(sub)})
	w.wakeUp()
	return !w.shared.subs[sub].released.Load()
}

// FinishAll is Finish for all subpartitions.
func (w *PartitionWriter) FinishAll() {
	w.Unshare()
	for i := range w.finished {
		if !w.finished[i] {
			w.finished[i] = true
			w.put(item{kind: itemFinish, sub: int32(i)})
		}
	}
	w.wakeUp()
}

// Fail releases the partition; its consumers are told the cause.
func (w *PartitionWriter) Fail(cause error) {
	w.Unshare()
	w.put(item{kind: itemFail, arg: cause})
	w.wakeUp()
}

// Then has the loop call f once it has taken over everything that was handed over before: events are in their subpartitions' queues
// then, and the data that an unaligned barrier overtook has gone to the sink. It returns false, and f is never called, if the partition was
// released. It may be released meanwhile: then f is called all the same, as long as the loop polls the partition.
func (w *PartitionWriter) Then(f func()) bool {
	if w.shared.gone.Load() {
		return false
	}
	w.put(item{kind: itemThen, arg: f})
	w.wakeUp()
	return true
}

// Close tells that the writer is done with the partition: it is released when its consumers are, too. Again does nothing.
func (w *PartitionWriter) Close() {
	if w.closed {
		return
	}
	w.closed = true
	w.Unshare()
	w.put(item{kind: itemClose})
	w.wakeUp()
}

// Reclaim lets the loop send or give back finished buffers that only the next buffer would move, and publishes. A writer
// calls it once before it waits for memory: it may be these that it waits for.
func (w *PartitionWriter) Reclaim() {
	w.Unshare()
	w.put(item{kind: itemReclaim})
	w.wakeUp()
}

// Publish pushes what found no room before, and wakes the loop if something was handed over since it was woken last.
// A writer calls it before it does anything that takes time. It reports whether nothing is held back.
func (w *PartitionWriter) Publish() bool {
	done := w.pushLate()
	if w.sinceUp > 0 {
		w.wakeUp()
	}
	return done
}

// Pending returns how many buffers were handed over since the loop was woken last. A writer that drives the loop itself
// runs a turn when it drops back to 0.
func (w *PartitionWriter) Pending() int { return w.sinceUp }

// Released reports whether subpartition sub takes nothing any more, because its consumer has gone or the partition was
// released.
func (w *PartitionWriter) Released(sub int) bool { return w.shared.subs[sub].released.Load() }

// Gone reports whether the whole partition was released. cause is why, nil if all was consumed or released in order.
//
// Like every method that a writer calls while it waits, it hands over what had found no room.
func (w *PartitionWriter) Gone() (gone bool, cause error) {
	w.pushLate()
	if !w.shared.gone.Load() {
		return false, nil
	}
	if e := w.shared.failure.Load(); e != nil {
		return true, *e
	}
	return true, nil
}

// AllAcked reports whether every consumer has processed all records: after the end of data a task waits for it before
// it finishes.
func (w *PartitionWriter) AllAcked() bool { return w.shared.allAcked.Load() }

// Deserted reports whether nobody reads any subpartition any more, or will: all consumers have gone, or the partition has.
func (w *PartitionWriter) Deserted() bool { return w.shared.live.Load() == 0 }

// Settled reports whether every consumer has processed all records or has gone.
func (w *PartitionWriter) Settled() bool {
	w.pushLate()
	if w.shared.allAcked.Load() || w.shared.gone.Load() {
		return true
	}
	for i := range w.shared.subs {
		if s := &w.shared.subs[i]; !s.acked.Load() && !s.released.Load() {
			return false
		}
	}
	return true
}

// Lost returns the subpartitions whose consumer went before it had processed all records.
func (w *PartitionWriter) Lost() (subs []int) {
	for i := range w.shared.subs {
		if s := &w.shared.subs[i]; !s.acked.Load() && s.released.Load() {
			subs = append(subs, i)
		}
	}
	return subs
}

// Wait waits until ready reports true. It ends early with ErrReleased when nobody takes what subpartition sub gets any
// more (sub negative: none of them in particular), with the cause when the partition failed, and with ctx's error. ready
// is called by the writer each time that memory came home, the loop took something in, or consumers acknowledged; nil
// means Available.
func (w *PartitionWriter) Wait(ctx context.Context, sub int, ready func() bool) error {
	if ready == nil {
		ready = w.pool.Available
	}
	n := w.pool.Notifier()
	w.Reclaim()
	for {
		if done, err := w.check(sub, ready); done {
			return err
		}
		n.Prepare()
		if done, err := w.check(sub, ready); done {
			n.Cancel()
			return err
		}
		if err := n.Wait(ctx); err != nil {
			return err
		}
	}
}

func (w *PartitionWriter) check(sub int, ready func() bool) (done bool, err error) {
	w.Publish()
	switch gone, cause := w.Gone(); {
	case cause != nil:
		return true, cause
	case sub >= 0 && w.Released(sub):
		return true, fmt.Errorf("credit: subpartition %d: its consumer has gone: %w", sub, ErrReleased)
	case ready():
		return true, nil
	case gone:
		return true, fmt.Errorf("credit: partition: %w", ErrReleased)
	}
	return false, nil
}

// wakeUp ends a batch.
func (w *PartitionWriter) wakeUp() {
	w.sinceUp, w.bytesUp = 0, 0
	if w.runs.more {
		// A part is made visible by a plain store. The loop that is about to sleep must see it, or this the loop's sleep.
		w.runs.more = false
		w.shared.fence.Add(1)
	}
	if w.wake != nil {
		w.wake()
	}
}

// put hands an item over. One buffer that is in many subpartitions (broadcast) makes more items than the ring has room
// for: those wait here, in order.
func (w *PartitionWriter) put(it item) {
	if w.shared.gone.Load() && it.kind != itemClose && it.kind != itemThen {
		it.r.Close() // nobody wants it
		return
	}
	if w.late.Len() == 0 && w.ring.Push(it) {
		return
	}
	w.late.PushBack(it)
	w.shared.stalled.Store(true)
	w.pushLate()
}

// add is put for data: the item is written where it lies.
func (w *PartitionWriter) add(sub, partial int, r segment.Reader) {
	if w.shared.gone.Load() || w.late.Len() > 0 {
		w.put(item{kind: itemAdd, sub: int32(sub), partial: int32(partial), r: r})
		return
	}
	it := w.ring.StageSlot()
	if it == nil {
		w.put(item{kind: itemAdd, sub: int32(sub), partial: int32(partial), r: r})
		return
	}
	it.kind, it.sub, it.partial, it.r = itemAdd, int32(sub), int32(partial), r
	w.ring.Publish() // the ring is never closed
}

// pushLate hands over what waits, wakes the loop if that was anything, and reports whether nothing waits any more.
func (w *PartitionWriter) pushLate() bool {
	if w.late.Len() == 0 {
		return true
	}
	pushed := false
	for w.late.Len() > 0 && w.ring.Push(*w.late.Front()) {
		w.late.PopFront()
		pushed = true
	}
	if pushed {
		w.wakeUp()
	}
	if w.late.Len() > 0 {
		return false
	}
	w.shared.stalled.Store(false)
	return true
}
