package main

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/weirflow/weir/credit"
	"github.com/weirflow/weir/ringbuf"
	"github.com/weirflow/weir/segment"
	"github.com/weirflow/weir/serde"
)

// A loop is counted from the entry of its function to its return. prepare makes the function, which does something n times and says if
// it came out right.
type loop struct {
	name, function string // function as the linker has it
	what           string
	prepare        func() (func(n int) error, error)
}

const (
	recordSize  = 100
	recordField = 7
	segmentSize = 32 << 10
	channels    = 8
)

var loops = []loop{
	{"ring-push-pop", "main.ringPushPop", "ringbuf.SPSC: an item in and out", newRing(ringPushPop)},
	{"ring-batch-16", "main.ringBatch", "ringbuf.SPSC: an item of 16 that are published together", newRing(ringBatch)},
	{"frame-encode", "main.frameEncode", "credit: the header of a buffer", newFrameEncode},
	{"frame-decode", "main.frameDecode", "credit.ClientDecoder: a frame of 64 bytes", newFrameDecode},
	{"credit-decode", "main.creditDecode", "credit.ServerDecoder: an AddCredit", newCreditDecode},
	{"ledger-grant", "main.ledgerGrant", "credit.Ledger: a buffer taken, its backlog, its return, the grant", newLedger},
	{"serialize", "main.serialize", "serde.RecordWriter: a record of 100 bytes, 8 subpartitions in turn", newSerialize},
	{"deserialize", "main.deserialize", "serde.Deserializer: a record of 100 bytes, some of which span buffers", newDeserialize},
	{"segment", "main.takePut", "segment.LocalPool: a segment taken and put back by its owner", newTakePut},
}

var errWork = errors.New("the work did not come out right")

// check is an error unless got is what n rounds give.
func check(got, want uint64) error {
	if got != want {
		return fmt.Errorf("%w: %d, want %d", errWork, got, want)
	}
	return nil
}

func newRing(f func(q *ringbuf.SPSC[uint64], n int) uint64) func() (func(n int) error, error) {
	return func() (func(n int) error, error) {
		q := ringbuf.NewSPSC[uint64](64)
		return func(n int) error { return check(f(q, n), uint64(n)*uint64(n-1)/2) }, nil
	}
}

//go:noinline
func ringPushPop(q *ringbuf.SPSC[uint64], n int) (sum uint64) {
	for i := range n {
		q.Push(uint64(i))
		v, _ := q.Pop()
		sum += v
	}
	return sum
}

//go:noinline
func ringBatch(q *ringbuf.SPSC[uint64], n int) (sum uint64) {
	for i := 0; i < n; i += 16 {
		for k := range 16 {
			q.Stage(uint64(i + k))
		}
		q.Publish()
		for range 16 {
			v, _ := q.Pop()
			sum += v
		}
	}
	return sum
}

var header = credit.BufferHeader{Receiver: credit.ChannelID{1, 2, 3}, Seq: 7, Backlog: 3, Type: segment.DataBuffer, Size: 64}

func newFrameEncode() (func(n int) error, error) {
	dst := make([]byte, 0, 64)
	size := len(credit.AppendBufferHeader(nil, credit.Flink23, &header))
	return func(n int) error { return check(frameEncode(dst, n), uint64(n*size)) }, nil
}

//go:noinline
func frameEncode(dst []byte, n int) (bytes uint64) {
	for range n {
		bytes += uint64(len(credit.AppendBufferHeader(dst[:0], credit.Flink23, &header)))
	}
	return bytes
}

// client takes payloads and counts frames. Nothing else comes.
type client struct {
	credit.ClientHandler
	buf  []byte
	done uint64
}

func (c *client) OnBufferHeader(*credit.BufferHeader) ([]byte, bool) { return c.buf, true }
func (c *client) OnBufferDone(*credit.BufferHeader) error            { c.done++; return nil }

const framesPerRead = 16

func newFrameDecode() (func(n int) error, error) {
	var stream []byte
	for range framesPerRead {
		stream = credit.AppendBufferResponse(stream, credit.Flink23, &header, make([]byte, header.Size))
	}
	d, c := credit.NewClientDecoder(credit.DecoderConfig{}), &client{buf: make([]byte, segmentSize)}
	return func(n int) error {
		c.done = 0
		if err := frameDecode(d, c, stream, n); err != nil {
			return err
		}
		return check(c.done, uint64(n))
	}, nil
}

//go:noinline
func frameDecode(d *credit.ClientDecoder, c *client, stream []byte, n int) error {
	for i := 0; i < n; i += framesPerRead {
		if err := d.Feed(stream, c); err != nil {
			return err
		}
	}
	return nil
}

// server counts credit. Nothing else comes.
type server struct {
	credit.ServerHandler
	credits uint64
}

func (s *server) OnAddCredit(_ credit.ChannelID, n int32) error {
	s.credits += uint64(n)
	return nil
}

func newCreditDecode() (func(n int) error, error) {
	stream := credit.AppendAddCredit(nil, header.Receiver, 16)
	d, s := new(credit.ServerDecoder), new(server)
	return func(n int) error {
		s.credits = 0
		if err := creditDecode(d, s, stream, n); err != nil {
			return err
		}
		return check(s.credits, uint64(n)*16)
	}, nil
}

//go:noinline
func creditDecode(d *credit.ServerDecoder, s *server, stream []byte, n int) error {
	for range n {
		if err := d.Feed(stream, s); err != nil {
			return err
		}
	}
	return nil
}

func newLedger() (func(n int) error, error) {
	budget, l := new(credit.FloatBudget), new(credit.Ledger)
	budget.Init(8, nil)
	l.Init(2, budget)
	l.TakeUnannounced() // the request says the initial credit
	return func(n int) error {
		if granted := ledgerGrant(l, n); granted < uint64(n) {
			return check(granted, uint64(n))
		}
		return nil
	}, nil
}

//go:noinline
func ledgerGrant(l *credit.Ledger, n int) (granted uint64) {
	for range n {
		kind, _ := l.Take()
		l.Announce(l.OnBacklog(1))
		l.Announce(l.Return(kind))
		granted += uint64(l.TakeUnannounced())
	}
	return granted
}

// output gives finished buffers back at once.
type output struct {
	pool *segment.LocalPool
	last [channels]segment.Reader
}

func (o *output) Available(int) bool                  { return o.pool.Available() }
func (o *output) Take(sub int) (segment.Buffer, bool) { return o.pool.TakeFor(sub) }
func (o *output) Flush(int)                           {}

func (o *output) Add(sub int, r segment.Reader, _ int) (int, bool) {
	o.last[sub].Close()
	o.last[sub] = r
	o.pool.Drain()
	return 0, true
}

func (o *output) AddEvent(_ int, b segment.Buffer) bool {
	b.Release()
	return true
}

func newPool(subpartitions int) (*segment.LocalPool, error) {
	global, err := segment.NewPool(segment.Config{SegmentSize: segmentSize, Segments: 4 * channels})
	if err != nil {
		return nil, err
	}
	return global.NewLocal(segment.LocalConfig{Name: "callgrind", Required: 4 * channels, Subpartitions: subpartitions})
}

func newSerialize() (func(n int) error, error) {
	pool, err := newPool(channels)
	if err != nil {
		return nil, err
	}
	w, err := serde.NewRecordWriter(&output{pool: pool}, channels)
	if err != nil {
		return nil, err
	}
	record := make([]byte, recordSize)
	return func(n int) error {
		before := w.Stats().Bytes
		if err := serialize(w, record, n); err != nil {
			return err
		}
		if w.Stats().Bytes == before {
			return errWork
		}
		return nil
	}, nil
}

//go:noinline
func serialize(w *serde.RecordWriter[*output], record []byte, n int) error {
	for i := range n {
		if sub := i % channels; !w.TryWriteBytes(sub, record) {
			if err := w.WriteBytes(sub, record); err != nil {
				return err
			}
		}
	}
	return nil
}

// recordsPerRound are in the buffers that deserialize reads.
const recordsPerRound = 1000

func newDeserialize() (func(n int) error, error) {
	var stream []byte
	for range recordsPerRound {
		stream = binary.BigEndian.AppendUint32(stream, recordSize)
		stream = binary.LittleEndian.AppendUint64(stream, recordField)
		stream = append(stream, make([]byte, recordSize-8)...)
	}
	var bufs []segment.Buffer
	for len(stream) > 0 {
		k := min(segmentSize, len(stream))
		bufs = append(bufs, segment.Wrap(stream[:k:k], segment.DataBuffer))
		stream = stream[k:]
	}
	d := serde.NewDeserializer(serde.DeserializerConfig{})
	return func(n int) error {
		sum, err := deserialize(d, bufs, n)
		if err != nil {
			return err
		}
		return check(sum, uint64(n)*recordField)
	}, nil
}

//go:noinline
func deserialize(d *serde.Deserializer, bufs []segment.Buffer, n int) (sum uint64, err error) {
	for range n / recordsPerRound {
		for _, b := range bufs {
			if err := d.SetBuffer(b.Retain()); err != nil {
				return 0, err
			}
			for consumed := false; !consumed; {
				if rec, ok := d.Whole(); ok {
					sum += binary.LittleEndian.Uint64(rec)
					continue
				}
				rec, res, err := d.Next()
				if err != nil {
					return 0, err
				}
				if res.Record() {
					sum += binary.LittleEndian.Uint64(rec)
				}
				consumed = res.Consumed()
			}
			d.Done()
		}
	}
	return sum, nil
}

func newTakePut() (func(n int) error, error) {
	pool, err := newPool(0)
	if err != nil {
		return nil, err
	}
	return func(n int) error { return check(takePut(pool, n), uint64(n)) }, nil
}

//go:noinline
func takePut(pool *segment.LocalPool, n int) (taken uint64) {
	for range n {
		if b, ok := pool.Take(); ok {
			taken++
			pool.Put(b)
		}
	}
	return taken
}
