package serde

import (
	"encoding/binary"
	"fmt"

	"github.com/weirflow/weir/segment"
)

// bytesHead is the tag of a stream element and the length of a byte array.
const bytesHead = 1 + 4

// TryWriteBytes is WriteBytes for the commonest case, and costs one call: the record fits into the open buffer of sub with a
// byte to spare. Else it returns false and does nothing, and the caller goes on with WriteBytes.
func (w *RecordWriter[O]) TryWriteBytes(sub int, value []byte) bool {
	if uint(sub) >= uint(len(w.open)) {
		return false
	}
	const head = lengthSize + bytesHead
	b := &w.open[sub]
	p := b.Spare()
	if len(p)-head <= len(value) {
		return false
	}
	n := uint64(len(value))
	// Length of the record, tag, and length of the value but for its last byte.
	binary.BigEndian.PutUint64(p, (n+bytesHead)<<32|tagRecord<<24|n>>8)
	p[8] = byte(n)
	copy(p[head:], value)
	b.Publish(head + len(value))
	return true
}

// Slots returns the builders that records for the subpartitions are written into, for a caller that encodes them there itself and keeps
// to the rules of TryWriteBytes: a whole record, and a byte to spare behind it. There are none while a record is half written.
// They are valid until the next call of another method.
func (w *RecordWriter[O]) Slots() []segment.Builder { return w.open }

// WriteBytes writes a stream record without timestamp whose value is an array of bytes, as Flink's serializer of byte[]
// writes it: tag, length, bytes. Errors are those of WriteRecord.
func (w *RecordWriter[O]) WriteBytes(sub int, value []byte) error {
	if w.TryWriteBytes(sub, value) {
		return nil
	}
	if len(value) > MaxRecordLength-bytesHead {
		return fmt.Errorf("%w: %d bytes, the limit is %d", ErrTooLarge, len(value), MaxRecordLength-bytesHead)
	}
	var head [bytesHead]byte
	head[0] = tagRecord
	binary.BigEndian.PutUint32(head[1:], uint32(len(value)))
	return w.write(sub, sub+1, head[:], value)
}

// WriteBytesAt is WriteBytes for a record with a timestamp.
func (w *RecordWriter[O]) WriteBytesAt(sub int, timestamp int64, value []byte) error {
	if len(value) > MaxRecordLength-bytesHead-8 {
		return fmt.Errorf("%w: %d bytes, the limit is %d", ErrTooLarge, len(value), MaxRecordLength-bytesHead-8)
	}
	var head [8 + bytesHead]byte
	head[0] = tagRecordWithTimestamp
	binary.BigEndian.PutUint64(head[1:], uint64(timestamp))
	binary.BigEndian.PutUint32(head[9:], uint32(len(value)))
	return w.write(sub, sub+1, head[:], value)
}

// BroadcastBytes is WriteBytes into the buffer that all subpartitions share.
func (w *RecordWriter[O]) BroadcastBytes(value []byte) error {
	return w.broadcastBytes(broadcastTarget, broadcastTarget+1, value)
}

func (w *RecordWriter[O]) broadcastBytes(sub, end int, value []byte) error {
	if len(value) > MaxRecordLength-bytesHead {
		return fmt.Errorf("%w: %d bytes, the limit is %d", ErrTooLarge, len(value), MaxRecordLength-bytesHead)
	}
	var head [bytesHead]byte
	head[0] = tagRecord
	binary.BigEndian.PutUint32(head[1:], uint32(len(value)))
	return w.write(sub, end, head[:], value)
}

// Lend gives an empty buffer for a whole buffer's worth of bytes that the caller frames itself: fill its Memory, then hand
// it over by WriteBuffer, or release it. [ErrFull]: none now, or sub has its quota.
func (w *RecordWriter[O]) Lend(sub int) (segment.Buffer, error) {
	switch {
	case w.op.begun:
		return segment.Buffer{}, ErrUnfinished
	case w.finished:
		return segment.Buffer{}, ErrFinished
	case sub < 0 || sub >= len(w.slots):
		return segment.Buffer{}, fmt.Errorf("%w: %d of %d", ErrSubpartition, sub, len(w.slots))
	case !w.out.Available(sub) && !(w.unshare() && w.out.Available(sub)):
		// A buffer that is open may be all that its subpartition may have, and would never come home.
		w.finishUnicast()
		w.finishShared()
		return segment.Buffer{}, ErrFull
	}
	w.lentTo = sub
	if b, ok := w.lendSpare(sub); ok {
		return b, nil
	}
	b, ok := w.out.Take(sub)
	if !ok {
		return segment.Buffer{}, ErrFull
	}
	return b, nil
}

// WriteBuffer hands the first n bytes of a lent buffer to the queue of sub as one finished buffer, behind what was written before: in
// place, or, if they are few, copied next to those of others; the lent buffer is lent again then. It takes over b, whatever it returns. Readers see the bytes as they are: mixed with records they
// are taken for records.
func (w *RecordWriter[O]) WriteBuffer(sub int, b segment.Buffer, n int) error {
	var err error
	switch {
	case w.op.begun:
		err = ErrUnfinished
	case w.finished:
		err = ErrFinished
	case sub < 0 || sub >= len(w.slots):
		err = fmt.Errorf("%w: %d of %d", ErrSubpartition, sub, len(w.slots))
	case n < 0 || n > len(b.Memory()):
		err = fmt.Errorf("%w: %d of %d bytes", ErrTooLarge, n, len(b.Memory()))
	}
	if err != nil {
		b.Release()
		return err
	}
	w.finish(&w.slots[sub])
	w.finishShared()
	if n == 0 || n > smallBuffer || !w.share(sub, b, n) {
		w.out.Add(sub, segment.ReadAll(b.Resized(n)), 0)
	}
	w.stats.Buffers++
	w.stats.Bytes += uint64(n)
	return nil
}
