package serde

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/weirflow/weir/segment"
)

// Errors of the record writer.
var (
	// ErrFull: nothing was written, since the record needs a buffer and there is
	// none, or the subpartition has its quota. Wait for memory, then call again.
	ErrFull = errors.New("serde: no buffer for the record: wait for memory and call again")
	// ErrUnfinished: the record was begun and not all of it could be written.
	// Wait for memory and call Continue; nothing else may be written before.
	ErrUnfinished = errors.New("serde: a record is half written: wait for memory and call Continue")
	// ErrFinished: the partition is finished or the writer is closed. The text is Flink's.
	ErrFinished = errors.New("Partition already finished.") //nolint:staticcheck // Flink's words
	// ErrSubpartition: a subpartition that does not exist.
	ErrSubpartition = errors.New("serde: no such subpartition")
)

// Output is what a [RecordWriter] writes to: the subpartitions of a partition
// and the pool that their buffers come from. The writer calls it on its own
// goroutine only. It is used as a type parameter, so that the calls are direct.
type Output interface {
	// Available reports whether a record may begin that needs a buffer for sub:
	// the pool has one, and the quota is not reached. Only a hint for the start
	// of records; Take decides.
	Available(sub int) bool
	// Take returns an empty buffer that is charged to sub, on overdraft if need
	// be; false if there is none. Broadcast buffers are charged to subpartition 0.
	Take(sub int) (b segment.Buffer, ok bool)
	// Add hands a reader of a buffer to the queue of sub, which owns it from then
	// on; more bytes may be written to the buffer afterwards. Its first partial
	// bytes continue an earlier record. hint is the size that the receiver wants
	// for buffers, in bytes; 0 or less: it has no wish. ok is false when sub is
	// finished or released; then Add has closed r, and the writer goes on into
	// the void until the buffer is full.
	Add(sub int, r segment.Reader, partial int) (hint int, ok bool)
	// AddEvent hands an event to the queue of sub, which owns one reference of it
	// from then on; false when sub is finished or released, and b was released.
	AddEvent(sub int, b segment.Buffer) (ok bool)
	// Flush makes what was written to sub visible to its reader now.
	Flush(sub int)
}

// RecordWriter puts records into the buffers of subpartitions (Flink:
// RecordWriter and BufferWritingResultPartition). Each record is preceded by
// its length as a big-endian int32; buffers are filled to the last byte, so a
// record may be cut anywhere.
//
// At any time either each subpartition has at most one open buffer, or all
// share one (broadcast); writing the other way finishes what is open. A buffer
// is handed to its queue as soon as it is opened and written in place; it is
// finished when it is full, at a change of the way, and before an event.
//
// The writer never blocks: it returns [ErrFull] before a record begins, or
// [ErrUnfinished] within one when even the overdraft is used up, and the
// caller waits. It belongs to one goroutine and allocates nothing.
type RecordWriter[O Output] struct {
	open      []segment.Builder // one a subpartition; the zero Builder: closed. nil while a record is half written
	out       O
	slots     []segment.Builder // open's array, always
	shared    segment.Builder
	broadcast bool // the shared builder is open
	finished  bool
	op        writeOp
	scratch   []byte // of WriteValue
	guess     int    // bytes that the next value may have
	stats     WriterStats

	sharer   sharer // out, if it lets small whole buffers share segments
	spare    segment.Buffer
	spareSub int
	lentTo   int  // whom the buffer that is lent is charged to
	shares   bool // a shared segment is open, or there is a spare
}

// WriterStats counts what a writer finished.
type WriterStats struct {
	// Buffers and Bytes of data, once per subpartition that got them, counted
	// when a buffer is finished; lengths of records are included.
	Buffers, Bytes uint64
}

// maxHead is the longest head of a record: its length, and the tag, index and
// timestamp of a stream element.
const maxHead = lengthSize + 1 + 4 + 8

// writeOp is one record on its way: its head and body, and how far it got.
type writeOp struct {
	head  [maxHead]byte
	nhead int
	body  []byte
	off   int // bytes of head and body written to the current target
	sub   int // current target; broadcastTarget: the shared buffer
	end   int // targets are sub..end-1
	begun bool
}

// broadcastTarget is the shared buffer as a target.
const broadcastTarget = AllSubpartitions

// NewRecordWriter returns a writer for the subpartitions 0..n-1 of out.
func NewRecordWriter[O Output](out O, n int) (*RecordWriter[O], error) {
	if n < 1 {
		return nil, fmt.Errorf("%w: a partition needs at least one, not %d", ErrSubpartition, n)
	}
	w := &RecordWriter[O]{out: out, slots: make([]segment.Builder, n)}
	w.sharer, _ = any(out).(sharer)
	w.open = w.slots
	return w, nil
}

// Output returns what the writer writes to.
func (w *RecordWriter[O]) Output() O { return w.out }

// Subpartitions returns the number of subpartitions.
func (w *RecordWriter[O]) Subpartitions() int { return len(w.slots) }

// Stats returns what was finished so far.
func (w *RecordWriter[O]) Stats() WriterStats { return w.stats }

// WriteRecord writes rec to subpartition sub, or to each as Broadcast does if
// sub is [AllSubpartitions]. On nil all of it has been written and rec is free
// again. [ErrFull]: nothing was. [ErrUnfinished]: a part was; rec must stay as
// it is until Continue returns nil. Other errors: [ErrFinished],
// [ErrSubpartition], [ErrTooLarge]; nothing was written.
func (w *RecordWriter[O]) WriteRecord(sub int, rec []byte) error {
	if uint(sub) < uint(len(w.open)) {
		b := &w.open[sub]
		if p := b.Spare(); len(p)-lengthSize > len(rec) {
			binary.BigEndian.PutUint32(p, uint32(len(rec)))
			copy(p[lengthSize:], rec)
			b.Advance(lengthSize + len(rec))
			b.Commit()
			return nil
		}
	}
	return w.write(sub, sub+1, nil, rec)
}

// Broadcast writes rec once into a buffer that all subpartitions share. Errors
// are those of WriteRecord.
func (w *RecordWriter[O]) Broadcast(rec []byte) error {
	if w.open != nil {
		b := &w.shared
		if p := b.Spare(); len(p)-lengthSize > len(rec) {
			binary.BigEndian.PutUint32(p, uint32(len(rec)))
			copy(p[lengthSize:], rec)
			b.Advance(lengthSize + len(rec))
			b.Commit()
			return nil
		}
	}
	return w.write(broadcastTarget, broadcastTarget+1, nil, rec)
}

// WriteAll writes rec to each subpartition's own buffer, as Flink does with
// watermarks on edges that are not broadcast. Errors are those of WriteRecord.
func (w *RecordWriter[O]) WriteAll(rec []byte) error {
	return w.write(0, len(w.slots), nil, rec)
}

// Continue writes the rest of the record that was begun; nil when there is
// none. [ErrUnfinished]: it still needs memory.
func (w *RecordWriter[O]) Continue() error {
	if !w.op.begun {
		return nil
	}
	return w.run()
}

// Pending reports whether a record is half written.
func (w *RecordWriter[O]) Pending() bool { return w.op.begun }

// write takes down the record and writes as much of it as it can. head is what
// stands between the length and the body, at most maxHead-lengthSize bytes.
func (w *RecordWriter[O]) write(sub, end int, head, body []byte) error {
	switch {
	case w.op.begun:
		return ErrUnfinished
	case w.finished:
		return ErrFinished
	case sub != broadcastTarget && uint(sub) >= uint(len(w.slots)): // end may have wrapped round
		return fmt.Errorf("%w: %d of %d", ErrSubpartition, sub, len(w.slots))
	}
	if err := checkWritten(len(head), len(body)); err != nil {
		return err
	}
	op := &w.op
	binary.BigEndian.PutUint32(op.head[:], uint32(len(head)+len(body)))
	op.nhead = lengthSize + copy(op.head[lengthSize:], head)
	op.body, op.off, op.sub, op.end = body, 0, sub, end
	if !w.admit() && !(w.unshare() && w.admit()) {
		op.body = nil
		return ErrFull
	}
	return w.run()
}

// checkWritten refuses a record that its length field cannot tell.
func checkWritten(head, body int) error {
	if body > MaxRecordLength-head {
		return fmt.Errorf("%w: %d bytes and %d in front of them, the limit is %d", ErrTooLarge, body, head, MaxRecordLength)
	}
	return nil
}

// admit decides whether the record may begin. A record that fits into the open
// buffer always may; before a new one is asked for, an open buffer that was
// kept small by a hint is let grow.
func (w *RecordWriter[O]) admit() bool {
	slot, charge := w.target()
	need := w.op.remaining()
	if !isOpen(slot) {
		return w.out.Available(charge)
	}
	return need < room(slot) || w.out.Available(charge) || extend(slot, need)
}

// isOpen tells an open builder from the zero one. An open one has room for at
// least a byte, or had.
func isOpen(b *segment.Builder) bool { return b.Cap() > 0 }

// room is how many bytes fit into the builder as it is capped now.
func room(b *segment.Builder) int { return b.Cap() - b.Written() }

// extend raises the cap of an open buffer so that need bytes fit and it is not
// full then, as far as the segment goes; it reports whether they fit. This
// saves a buffer when there is none.
func extend(b *segment.Builder, need int) bool {
	if need >= room(b) {
		b.SetCap(b.Written() + min(need, math.MaxInt32/2) + 1)
	}
	return need <= room(b)
}

// target returns the builder of the record's current target, and the
// subpartition that its buffers are charged to.
func (w *RecordWriter[O]) target() (*segment.Builder, int) {
	if w.op.sub == broadcastTarget {
		return &w.shared, 0
	}
	return &w.slots[w.op.sub], w.op.sub
}

// run writes until the record is done or memory is missing.
func (w *RecordWriter[O]) run() error {
	op := &w.op
	for ; op.sub < op.end; op.sub, op.off = op.sub+1, 0 {
		slot, charge := w.target()
		if isOpen(slot) && op.off == 0 {
			if need := op.remaining(); need >= room(slot) && !w.out.Available(charge) {
				extend(slot, need)
			}
			w.begin()
			w.fill(slot)
		}
		for op.remaining() > 0 {
			if !isOpen(slot) && !w.openSlot(slot, charge) {
				if !op.begun {
					op.body = nil
					return ErrFull
				}
				return ErrUnfinished
			}
		}
		if op.sub == broadcastTarget {
			break
		}
	}
	op.begun, op.body = false, nil
	w.open = w.slots
	return nil
}

// begin marks the record as begun: from now on nothing else may be written.
func (w *RecordWriter[O]) begin() {
	w.op.begun = true
	w.open = nil
}

// openSlot opens a buffer for the target, hands it to the queues and writes
// what it can. At the start of a record the queue gets the reader before the
// first byte is written; a continuation is written first, since its reader
// must know how much of it belongs to the old record.
func (w *RecordWriter[O]) openSlot(slot *segment.Builder, charge int) bool {
	op := &w.op
	w.unshare()
	b, ok := w.out.Take(charge)
	if !ok {
		return false
	}
	fresh := segment.MakeBuilder(b)
	if !isOpen(&fresh) { // not a buffer that can be written to: the same as none
		fresh.Close()
		return false
	}
	if op.sub == broadcastTarget {
		w.finishUnicast()
		w.broadcast = true
	} else {
		w.finishShared()
	}
	start := op.off == 0
	w.begin()
	*slot = fresh
	atLeast, partial := op.remaining(), 0
	if !start {
		partial = w.append(slot)
		atLeast = partial
	}
	if hint := w.add(slot, partial); hint > 0 {
		slot.SetCap(max(atLeast, hint))
	}
	if start {
		if need := op.remaining(); need >= room(slot) && !w.out.Available(charge) {
			extend(slot, need)
		}
	}
	w.fill(slot)
	return true
}

// add hands a reader of the buffer to the target's queue, or a copy to each
// queue, and returns the smallest wish for its size; 0: none.
func (w *RecordWriter[O]) add(slot *segment.Builder, partial int) int {
	r := slot.NewReader()
	if w.op.sub != broadcastTarget {
		hint, ok := w.out.Add(w.op.sub, r, partial)
		if !ok {
			return 0
		}
		return hint
	}
	least := 0
	for sub := range w.slots {
		hint, ok := w.out.Add(sub, r.Copy(), partial)
		if ok && hint > 0 && (least == 0 || hint < least) {
			least = hint
		}
	}
	r.Close()
	return least
}

// fill writes what fits and finishes the buffer if it is full or the record
// goes on.
func (w *RecordWriter[O]) fill(slot *segment.Builder) {
	w.append(slot)
	if slot.Full() || w.op.remaining() > 0 {
		w.finish(slot)
	}
}

// append writes what fits and publishes it.
func (w *RecordWriter[O]) append(slot *segment.Builder) int {
	op, n := &w.op, 0
	if op.off < op.nhead {
		n = slot.Append(op.head[op.off:op.nhead])
		op.off += n
	}
	if op.off >= op.nhead {
		k := slot.Append(op.body[op.off-op.nhead:])
		op.off += k
		n += k
	}
	slot.Commit()
	return n
}

func (op *writeOp) remaining() int { return op.nhead + len(op.body) - op.off }

// finish ends an open buffer and closes its builder; a closed one is left alone.
func (w *RecordWriter[O]) finish(slot *segment.Builder) {
	if !isOpen(slot) {
		return
	}
	n, k := slot.Finish(), 1
	if slot == &w.shared {
		k = len(w.slots)
		w.broadcast = false
	}
	w.stats.Buffers += uint64(k)
	w.stats.Bytes += uint64(k) * uint64(n)
	slot.Close()
	*slot = segment.Builder{}
}

func (w *RecordWriter[O]) finishShared() {
	if w.broadcast {
		w.finish(&w.shared)
	}
}

func (w *RecordWriter[O]) finishUnicast() {
	if w.broadcast {
		return // then none is open
	}
	for i := range w.slots {
		w.finish(&w.slots[i])
	}
}
