package main

import (
	"encoding/binary"
	"runtime"
)

// The spanning row: records of 100 bytes behind a length, packed into framed buffers of 8 channels, a record going on in
// the channel's next buffer where it does not fit. The sender encodes each record, the receiver reads a field of each.

func sendRecords(r *role) error {
	runtime.LockOSThread()
	fd, err := dialRaw(r.addr)
	if err != nil {
		return err
	}
	record := make([]byte, 4+recordSize)
	var frames [][]byte
	for i := range 2 * recordChannels {
		f := make([]byte, frameSize)
		binary.LittleEndian.PutUint32(f, bufferSize)
		binary.LittleEndian.PutUint32(f[4:], uint32(i%recordChannels))
		frames = append(frames, f)
	}
	left := make([][]byte, recordChannels) // of the record that a channel's last buffer cut
	for i := range left {
		left[i] = make([]byte, 0, len(record))
	}
	v := newVector(len(frames))
	for {
		n := int64(0)
		for i, f := range frames {
			ch := i % recordChannels
			b := f[headerSize:]
			b = b[copy(b, left[ch]):]
			left[ch] = left[ch][:0]
			for len(b) >= len(record) {
				binary.LittleEndian.PutUint32(b, recordSize)
				copy(b[4:4+recordSize], body)
				b = b[4+recordSize:]
				n++
			}
			if len(b) > 0 {
				binary.LittleEndian.PutUint32(record, recordSize)
				copy(record[4:], body)
				left[ch] = append(left[ch], record[copy(b, record):]...)
				n++
			}
		}
		if err := v.writeAll(fd, frames); err != nil {
			return err
		}
		r.meter.Add(n*recordSize, n)
	}
}

func receiveRecords(r *role) error { return receiveFrames(r, r.consumer().whole) }
