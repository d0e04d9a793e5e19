package conform

import (
	"bytes"
	"fmt"
	"hash/crc32"

	"github.com/weirflow/weir/segment"
	"github.com/weirflow/weir/serde"
)

// fileBuffer is the size of the pieces in which the recorded deserializer read spilled records back.
const fileBuffer = 65536

// spanningRun drives one deserializer from a pool whose returns tell when a buffer is given back.
type spanningRun struct {
	out    *Out
	d      *serde.Deserializer
	pool   *segment.LocalPool
	stream []byte // appended, but not yet in a buffer
	record int    // number of the next record of the scenario
	over   bool   // the steps are done: what comes back now belongs to none
}

func runSpanning(s *Scenario, out *Out) error {
	size := 1
	for i := range s.Steps {
		if st := &s.Steps[i]; st.Op == "buffer" {
			size = max(size, st.Int(0)+st.Int(1))
		}
	}
	global, err := segment.NewPool(segment.Config{SegmentSize: size, Segments: 2})
	if err != nil {
		return err
	}
	r := &spanningRun{out: out, d: serde.NewDeserializer(serde.DeserializerConfig{SpillThreshold: s.Int("spill"), FileBuffer: fileBuffer})}
	r.pool, err = global.NewLocal(segment.LocalConfig{Name: "spanning", Required: 2, OnReturn: r.returned})
	if err != nil {
		return err
	}
	err = r.steps(s)
	r.over = true
	r.d.Close()
	r.pool.Close()
	if leak := global.Close(); err == nil {
		err = leak
	}
	return err
}

// returned takes down that a buffer was given back.
func (r *spanningRun) returned(uint32) {
	if !r.over {
		r.out.Line("recycle")
	}
}

func (r *spanningRun) steps(s *Scenario) error {
	for i := range s.Steps {
		r.out.Step(i)
		st := &s.Steps[i]
		var err error
		switch st.Op {
		case "records":
			r.records(st)
		case "buffer":
			err = r.buffer(st.Int(0), st.Int(1))
		case "next":
			_, err = r.next()
		case "drain":
			for res := serde.Intermediate; !res.Consumed() && err == nil; {
				res, err = r.next()
			}
		case "unconsumed":
			err = r.unconsumed()
		case "clear":
			r.d.Clear()
			r.stream = nil
			r.pool.Drain()
		default:
			return fmt.Errorf("line %d: unknown step %s", st.Line, st)
		}
		if err != nil {
			r.out.Error("*")
			return nil
		}
	}
	return nil
}

// records appends records: byte j of record i is 31*i + 7*j.
func (r *spanningRun) records(st *Step) {
	for k := range st.Args {
		n := st.Int(k)
		r.stream = append(r.stream, byte(n>>24), byte(n>>16), byte(n>>8), byte(n))
		for j := range n {
			r.stream = append(r.stream, byte(31*r.record+7*j))
		}
		r.record++
	}
}

// buffer makes the next bytes of the stream a buffer that begins inside its segment. Its error is the library's.
func (r *spanningRun) buffer(size, off int) error {
	if size > len(r.stream) {
		panic(scenarioError(fmt.Sprintf("the stream has %d bytes, not %d", len(r.stream), size)))
	}
	b, ok := r.pool.Take()
	if !ok {
		panic(scenarioError("no segment: a buffer was not given back"))
	}
	copy(b.Memory()[off:], r.stream[:size])
	r.stream = r.stream[size:]
	return r.d.SetBuffer(b.Resized(off+size).Narrow(off, size))
}

// next takes one record. The deserializer holds the buffer of a record that lies in it until the record is done with,
// so the record is looked at first and the buffer's return printed before it.
func (r *spanningRun) next() (serde.Result, error) {
	rec, res, err := r.d.Next()
	n, crc := len(rec), crc32.ChecksumIEEE(rec)
	r.d.Done()
	r.pool.Drain()
	switch {
	case err != nil:
	case res == serde.Partial:
		r.out.Line("partial")
	case res == serde.Last:
		r.out.Line("last %d %08x", n, crc)
	default:
		r.out.Line("intermediate %d %08x", n, crc)
	}
	return res, err
}

func (r *spanningRun) unconsumed() error {
	u, err := r.d.Unconsumed()
	if err != nil {
		return err
	}
	defer u.Close()
	for {
		b, ok, err := u.Next()
		if err != nil || !ok {
			return err
		}
		r.out.Line("unconsumed %d %08x", b.Len(), crc32.ChecksumIEEE(b.Bytes()))
		b.Release()
	}
}

// checkSpanningVector writes the records with a record writer and compares the buffers that a reader gets; then it reads
// the buffers with a deserializer.
func checkSpanningVector(v *Vector) error {
	var f struct {
		SegmentSize int
		Records     []HexBytes
		FlushAfter  []int
		Buffers     []HexBytes
	}
	if err := v.Fields.Decode(&f); err != nil {
		return err
	}
	global, err := segment.NewPool(segment.Config{SegmentSize: f.SegmentSize, Segments: len(v.Hex)/max(f.SegmentSize, 1) + 2})
	if err != nil {
		return err
	}
	q, err := newSpanningQueue(global)
	if err != nil {
		return err
	}
	got, err := q.write(f.Records, f.FlushAfter)
	q.pool.Close()
	if leak := global.Close(); err == nil {
		err = leak
	}
	if err != nil {
		return err
	}
	if err := same("number of buffers", len(f.Buffers), len(got)); err != nil {
		return err
	}
	for i := range got {
		if err := sameBytes(fmt.Sprintf("buffer %d", i), f.Buffers[i], got[i]); err != nil {
			return err
		}
	}
	if err := sameBytes("all buffers", v.Hex, bytes.Join(got, nil)); err != nil {
		return err
	}
	return checkSpanningRead(got, f.Records)
}

// spanningQueue is the output of a writer with one subpartition: a queue of readers.
type spanningQueue struct {
	pool    *segment.LocalPool
	readers []segment.Reader
	err     error
}

func newSpanningQueue(global *segment.Pool) (*spanningQueue, error) {
	pool, err := global.NewLocal(segment.LocalConfig{Name: "spanning", Required: 1, Max: segment.Unlimited, Subpartitions: 1})
	return &spanningQueue{pool: pool}, err
}

func (q *spanningQueue) Available(int) bool                  { return q.pool.Available() }
func (q *spanningQueue) Take(sub int) (segment.Buffer, bool) { return q.pool.TakeFor(sub) }
func (q *spanningQueue) AddEvent(_ int, b segment.Buffer) bool {
	b.Release()
	q.err = fmt.Errorf("the writer sent an event")
	return true
}
func (q *spanningQueue) Flush(int) {}
func (q *spanningQueue) Add(_ int, r segment.Reader, _ int) (int, bool) {
	q.readers = append(q.readers, r)
	return 0, true
}

// write writes the records, takes out all there is after those listed in flushAfter, and at the end.
func (q *spanningQueue) write(records []HexBytes, flushAfter []int) (got [][]byte, err error) {
	w, err := serde.NewRecordWriter(q, 1)
	if err != nil {
		return nil, err
	}
	flush := map[int]bool{}
	for _, i := range flushAfter {
		if i < 0 || i >= len(records) {
			return nil, fmt.Errorf("flush after record %d of %d", i, len(records))
		}
		flush[i] = true
	}
	for i, rec := range records {
		if err := w.WriteRecord(0, rec); err != nil {
			return nil, fmt.Errorf("record %d: %w", i, err)
		}
		if flush[i] {
			w.Flush(0)
			got = q.read(got)
		}
	}
	if err := w.FinishBuffers(); err != nil {
		return nil, err
	}
	got = q.read(got)
	if len(q.readers) > 0 {
		return nil, fmt.Errorf("%d buffers are not finished at the end", len(q.readers))
	}
	w.Close()
	return got, q.err
}

// read takes out all that is committed.
func (q *spanningQueue) read(got [][]byte) [][]byte {
	for len(q.readers) > 0 {
		r := &q.readers[0]
		b, finished := r.Next()
		if !b.IsZero() {
			got = append(got, bytes.Clone(b.Bytes()))
			b.Release()
		}
		if !finished {
			break
		}
		r.Close()
		q.readers = q.readers[1:]
	}
	return got
}

func checkSpanningRead(buffers [][]byte, records []HexBytes) error {
	d := serde.NewDeserializer(serde.DeserializerConfig{})
	defer d.Close()
	n := 0
	for _, p := range buffers {
		for rec, err := range d.Records(segment.Wrap(p, segment.DataBuffer)) {
			if err != nil {
				return err
			}
			if n >= len(records) {
				return fmt.Errorf("more than %d records", len(records))
			}
			if err := sameBytes(fmt.Sprintf("record %d", n), records[n], rec); err != nil {
				return err
			}
			n++
		}
	}
	return same("number of records read", len(records), n)
}
