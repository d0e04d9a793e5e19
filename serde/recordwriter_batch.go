package serde

import "encoding/binary"

// TryWriteBatch is TryWriteBytes for several records in a row: it writes the first ones that fit whole into the open buffer of sub
// with a byte to spare, and returns how many. Readers see all of them at once.
func (w *RecordWriter[O]) TryWriteBatch(sub int, values [][]byte) (n int) {
	if uint(sub) >= uint(len(w.open)) {
		return 0
	}
	const head = lengthSize + bytesHead
	b := &w.open[sub]
	spare := b.Spare()
	p := spare
	for _, value := range values {
		if len(p)-head <= len(value) {
			break
		}
		k := uint64(len(value))
		binary.BigEndian.PutUint64(p, (k+bytesHead)<<32|tagRecord<<24|k>>8) // as in TryWriteBytes
		p[8] = byte(k)
		copy(p[head:], value)
		p = p[head+len(value):]
		n++
	}
	if n > 0 {
		b.Publish(len(spare) - len(p))
	}
	return n
}
