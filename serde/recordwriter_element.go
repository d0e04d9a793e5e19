package serde

import "encoding/binary"

// The tags of records among the stream elements (Flink: StreamElementSerializer).
const (
	tagRecordWithTimestamp = 0
	tagRecord              = 1
)

// WriteElement writes a stream record, the usual content of Flink's streaming
// edges, without putting it together first: its tag, then value as it is, the
// bytes of the edge's type serializer. Errors are those of WriteRecord.
func (w *RecordWriter[O]) WriteElement(sub int, value []byte) error {
	if uint(sub) < uint(len(w.open)) {
		b := &w.open[sub]
		const head = lengthSize + 1
		if p := b.Spare(); len(p)-head > len(value) {
			binary.BigEndian.PutUint32(p, uint32(1+len(value)))
			p[lengthSize] = tagRecord
			copy(p[head:], value)
			b.Advance(head + len(value))
			b.Commit()
			return nil
		}
	}
	head := [...]byte{tagRecord}
	return w.write(sub, sub+1, head[:], value)
}

// WriteElementAt is WriteElement for a record with a timestamp.
func (w *RecordWriter[O]) WriteElementAt(sub int, timestamp int64, value []byte) error {
	if uint(sub) < uint(len(w.open)) {
		b := &w.open[sub]
		const head = lengthSize + 1 + 8
		if p := b.Spare(); len(p)-head > len(value) {
			binary.BigEndian.PutUint32(p, uint32(1+8+len(value)))
			p[lengthSize] = tagRecordWithTimestamp
			binary.BigEndian.PutUint64(p[lengthSize+1:], uint64(timestamp))
			copy(p[head:], value)
			b.Advance(head + len(value))
			b.Commit()
			return nil
		}
	}
	head := timestampHead(timestamp)
	return w.write(sub, sub+1, head[:], value)
}

// BroadcastElement is WriteElement into the buffer that all subpartitions share.
func (w *RecordWriter[O]) BroadcastElement(value []byte) error {
	head := [...]byte{tagRecord}
	return w.write(broadcastTarget, broadcastTarget+1, head[:], value)
}

// BroadcastElementAt is WriteElementAt into the buffer that all subpartitions share.
func (w *RecordWriter[O]) BroadcastElementAt(timestamp int64, value []byte) error {
	head := timestampHead(timestamp)
	return w.write(broadcastTarget, broadcastTarget+1, head[:], value)
}

func timestampHead(timestamp int64) (head [9]byte) {
	head[0] = tagRecordWithTimestamp
	binary.BigEndian.PutUint64(head[1:], uint64(timestamp))
	return head
}
