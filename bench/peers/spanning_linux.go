package main

import (
	"encoding/binary"
	"fmt"
	"runtime"
)

// The spanning row: records of 100 bytes behind a length, packed into framed buffers of 8 channels, a record going on in
// the channel's next buffer where it does not fit. The sender encodes each record, the receiver reads a field of each.

const (
	recordSize  = 100
	recordField = 7 // the first word of each record
	channels    = 8
)

func sendRecords(r *role) error {
	runtime.LockOSThread()
	fd, err := dialRaw(r.addr)
	if err != nil {
		return err
	}
	record := make([]byte, 4+recordSize)
	body := make([]byte, recordSize)
	for i := range body {
		body[i] = byte(i)
	}
	binary.LittleEndian.PutUint64(body, recordField)
	var frames [][]byte
	for i := range 2 * channels {
		f := make([]byte, frameSize)
		binary.LittleEndian.PutUint32(f, bufferSize)
		binary.LittleEndian.PutUint32(f[4:], uint32(i%channels))
		frames = append(frames, f)
	}
	left := make([][]byte, channels) // of the record that a channel's last buffer cut
	for i := range left {
		left[i] = make([]byte, 0, len(record))
	}
	v := newVector(len(frames))
	for {
		n := int64(0)
		for i, f := range frames {
			ch := i % channels
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

func receiveRecords(r *role) error {
	runtime.LockOSThread()
	fd, err := acceptRaw(r)
	if err != nil {
		return err
	}
	var parts [][]byte
	for range perCall {
		parts = append(parts, make([]byte, headerSize), make([]byte, bufferSize))
	}
	v := newVector(len(parts))
	var decoders [channels]recordDecoder
	for {
		got, read := 0, 0
		for got < perCall*frameSize {
			n, err := v.read(fd, parts, got)
			if err != nil {
				return err
			}
			got += n
			records := int64(0)
			for ; (read+1)*frameSize <= got; read++ {
				d := &decoders[binary.LittleEndian.Uint32(parts[2*read][4:])%channels]
				k, sum := d.decode(parts[2*read+1])
				if sum != uint64(k)*recordField {
					return fmt.Errorf("%d records whose fields add up to %d", k, sum)
				}
				records += k
			}
			r.meter.Add(records*recordSize, records)
		}
	}
}

// recordDecoder reads records where they lie; only one that spans buffers is gathered.
type recordDecoder struct{ begun []byte }

func (d *recordDecoder) decode(b []byte) (n int64, sum uint64) {
	if len(d.begun) > 0 {
		for len(d.begun) < 4 && len(b) > 0 {
			d.begun, b = append(d.begun, b[0]), b[1:]
		}
		if len(d.begun) < 4 {
			return 0, 0
		}
		missing := 4 + int(binary.LittleEndian.Uint32(d.begun)) - len(d.begun)
		take := min(missing, len(b))
		d.begun, b = append(d.begun, b[:take]...), b[take:]
		if take < missing {
			return 0, 0
		}
		sum += binary.LittleEndian.Uint64(d.begun[4:])
		d.begun = d.begun[:0]
		n++
	}
	for len(b) >= 4 {
		size := int(binary.LittleEndian.Uint32(b))
		if len(b) < 4+size {
			break
		}
		sum += binary.LittleEndian.Uint64(b[4:])
		b = b[4+size:]
		n++
	}
	d.begun = append(d.begun, b...)
	return n, sum
}
