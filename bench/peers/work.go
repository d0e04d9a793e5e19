package main

import (
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"

	"github.com/weirflow/weir/internal/measure"
)

// The work that all rows share.

const (
	bufferSize = 32 << 10
	headerSize = 8 // length, channel: two little-endian uint32
	frameSize  = headerSize + bufferSize
	perCall    = 16
	wantSum    = 0x0123456789abcdef // of each payload's 64-bit words

	recordSize     = 100
	recordField    = 7 // the first word of each record
	recordChannels = 8
	countEvery     = 256 // records between two updates of the meter
	perMessage     = bufferSize / (4 + recordSize)

	fanChannels = 64
	pingSize    = 64
)

// newPayload returns bytes whose words add up to wantSum.
func newPayload(r *rand.Rand, p []byte) {
	var sum uint64
	for i := 0; i < bufferSize-8; i += 8 {
		v := r.Uint64()
		sum += v
		binary.LittleEndian.PutUint64(p[i:], v)
	}
	binary.LittleEndian.PutUint64(p[bufferSize-8:], wantSum-sum)
}

// newFrames returns n frames of a channel.
func newFrames(n int, channel uint32) (frames [][]byte) {
	random := rand.New(rand.NewPCG(3, 4))
	for range n {
		f := make([]byte, frameSize)
		binary.LittleEndian.PutUint32(f, bufferSize)
		binary.LittleEndian.PutUint32(f[4:], channel)
		newPayload(random, f[headerSize:])
		frames = append(frames, f)
	}
	return frames
}

var body = func() []byte {
	b := make([]byte, recordSize)
	for i := range b {
		b[i] = byte(i)
	}
	binary.LittleEndian.PutUint64(b, recordField)
	return b
}()

func checkPayload(p []byte) error {
	if len(p) != bufferSize {
		return fmt.Errorf("a frame of %d bytes", len(p))
	}
	if s := measure.SumWords(p); s != wantSum {
		return fmt.Errorf("a payload with the sum %x", s)
	}
	return nil
}

// consumer does the receiver's work with the frames of all channels: it sums every word, or reads a field of every record.
type consumer struct {
	meter    *measure.Meter
	records  bool
	decoders [recordChannels]recordDecoder
}

func (r *role) consumer() *consumer {
	return &consumer{meter: r.meter, records: r.scenario == "records"}
}

func (c *consumer) frame(channel uint32, p []byte) error {
	if !c.records {
		c.meter.Add(bufferSize, 1)
		return checkPayload(p)
	}
	n, sum := c.decoders[channel%recordChannels].decode(p)
	return countRecords(c.meter, n, sum)
}

// header takes a whole frame's header apart.
func (c *consumer) whole(header, payload []byte) error {
	if n := binary.LittleEndian.Uint32(header); n != bufferSize {
		return fmt.Errorf("a frame of %d bytes", n)
	}
	return c.frame(binary.LittleEndian.Uint32(header[4:]), payload)
}

func countRecords(m *measure.Meter, n int64, sum uint64) error {
	if sum != uint64(n)*recordField {
		return fmt.Errorf("%d records whose fields add up to %d", n, sum)
	}
	m.Add(n*recordSize, n)
	return nil
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

// readRecord reads a record behind its length into record.
func readRecord(r io.Reader, record []byte) (field uint64, err error) {
	if _, err := io.ReadFull(r, record[:4]); err != nil {
		return 0, err
	}
	if n := binary.LittleEndian.Uint32(record); n != recordSize {
		return 0, fmt.Errorf("a record of %d bytes", n)
	}
	if _, err := io.ReadFull(r, record[:recordSize]); err != nil {
		return 0, err
	}
	return binary.LittleEndian.Uint64(record), nil
}

// appendMessage encodes as many records as a message of 32 KiB has.
func appendMessage(b []byte) []byte {
	for range perMessage {
		b = binary.LittleEndian.AppendUint32(b, recordSize)
		b = append(b, body...)
	}
	return b
}
