package serde

import "encoding/binary"

// Appender encodes values of one type. Implementations are value types used as
// type parameters: nothing is boxed and nothing allocated. (The call goes through a dictionary; see the package comment.)
type Appender[T any] interface {
	// Append appends the bytes of v to dst and returns the longer slice.
	Append(dst []byte, v T) []byte
}

// StreamRecord is a value of a streaming edge with its timestamp.
type StreamRecord[T any] struct {
	Value        T
	Timestamp    int64 // in milliseconds, if HasTimestamp
	HasTimestamp bool
}

// StreamRecordAppender encodes stream records whose values A encodes.
type StreamRecordAppender[T any, A Appender[T]] struct{ Values A }

// Append implements [Appender].
func (s StreamRecordAppender[T, A]) Append(dst []byte, r StreamRecord[T]) []byte {
	if r.HasTimestamp {
		dst = append(dst, tagRecordWithTimestamp)
		dst = binary.BigEndian.AppendUint64(dst, uint64(r.Timestamp))
	} else {
		dst = append(dst, tagRecord)
	}
	return s.Values.Append(dst, r.Value)
}

// WriteValue encodes v with a and writes it to subpartition sub as one record.
// It is encoded where it will lie, in the open buffer, if there is likely to
// be room; else in an array of the writer that is reused. Errors are those of
// [RecordWriter.WriteRecord]; v is encoded again when the call is repeated.
// Nothing is allocated, except now and then for a value that is longer than
// those before it.
func WriteValue[T any, A Appender[T], O Output](w *RecordWriter[O], a A, sub int, v T) error {
	if uint(sub) < uint(len(w.open)) {
		b := &w.open[sub]
		if p := b.Spare(); len(p) > lengthSize+w.guess {
			rec := a.Append(p[lengthSize:lengthSize:len(p)], v)
			w.guessNext(len(rec))
			inPlace := cap(rec) > 0 && &rec[:1][0] == &p[lengthSize]
			if inPlace && len(rec) < len(p)-lengthSize {
				binary.BigEndian.PutUint32(p, uint32(len(rec)))
				b.Advance(lengthSize + len(rec))
				b.Commit()
				return nil
			}
			// It fills the buffer to the last byte, or there was no room and it
			// lies on the heap now. The bytes behind the written ones are nobody's,
			// so nothing has to be undone.
			if !inPlace {
				w.scratch = append(w.scratch[:0], rec...)
				rec = w.scratch
			}
			return w.WriteRecord(sub, rec)
		}
	}
	if w.op.begun {
		return ErrUnfinished // what is half written may lie in scratch
	}
	w.scratch = a.Append(w.scratch[:0], v)
	w.guessNext(len(w.scratch))
	return w.WriteRecord(sub, w.scratch)
}

// guessNext notes the length of a value. The guess follows the longest ones
// and falls slowly, so that one giant does not switch off encoding in place for good.
func (w *RecordWriter[O]) guessNext(n int) {
	w.guess = max(n, w.guess-w.guess>>10)
}

// BroadcastValue is WriteValue into the buffer that all subpartitions share.
func BroadcastValue[T any, A Appender[T], O Output](w *RecordWriter[O], a A, v T) error {
	if w.op.begun {
		return ErrUnfinished
	}
	w.scratch = a.Append(w.scratch[:0], v)
	return w.Broadcast(w.scratch)
}
