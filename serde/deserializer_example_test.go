package serde_test

import (
	"fmt"

	"github.com/weirflow/weir/segment"
	"github.com/weirflow/weir/serde"
)

// A record that lies inside a buffer is read where it lies; one that goes on
// in the next buffer is gathered.
func ExampleDeserializer() {
	d := serde.NewDeserializer(serde.DeserializerConfig{Channel: "0"})
	defer d.Close()
	for _, p := range []string{"\x00\x00\x00\x03one\x00\x00", "\x00\x03two\x00\x00\x00\x05three"} {
		if err := d.SetBuffer(segment.Wrap([]byte(p), segment.DataBuffer)); err != nil {
			fmt.Println(err)
			return
		}
		for {
			rec, res, err := d.Next()
			if err != nil {
				fmt.Println(err)
				return
			}
			if res.Record() {
				fmt.Printf("%s, ", rec)
			}
			if res.Consumed() {
				fmt.Println(res)
				d.Done() // rec is no longer needed: its buffer goes back
				break
			}
		}
	}
	// Output:
	// one, PARTIAL_RECORD
	// two, three, LAST_RECORD_FROM_BUFFER
}

// Records hides the results.
func ExampleDeserializer_Records() {
	d := serde.NewDeserializer(serde.DeserializerConfig{})
	defer d.Close()
	for rec, err := range d.Records(segment.Wrap([]byte("\x00\x00\x00\x01a\x00\x00\x00\x01b"), segment.DataBuffer)) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%s\n", rec)
	}
	// Output:
	// a
	// b
}

// A checkpoint that overtakes data stores what a channel has taken in and not
// handed out.
func ExampleDeserializer_Unconsumed() {
	d := serde.NewDeserializer(serde.DeserializerConfig{})
	defer d.Close()
	if err := d.SetBuffer(segment.Wrap([]byte("\x00\x00\x00\x05hel"), segment.DataBuffer)); err != nil {
		fmt.Println(err)
		return
	}
	if _, res, err := d.Next(); err != nil || res != serde.Partial {
		fmt.Println(res, err)
		return
	}
	u, err := d.Unconsumed()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer u.Close()
	for {
		b, ok, err := u.Next()
		if err != nil || !ok {
			break
		}
		fmt.Printf("%q\n", b.Bytes())
		b.Release()
	}
	// Output:
	// "\x00\x00\x00\x05hel"
}

// queue is the simplest output: one subpartition, whose buffers are kept.
type queue struct {
	pool    *segment.LocalPool
	readers []segment.Reader
}

func (q *queue) Available(int) bool                  { return q.pool.Available() }
func (q *queue) Take(sub int) (segment.Buffer, bool) { return q.pool.TakeFor(sub) }
func (q *queue) Flush(int)                           {}

func (q *queue) Add(sub int, r segment.Reader, partial int) (hint int, ok bool) {
	q.readers = append(q.readers, r)
	return 0, true
}

func (q *queue) AddEvent(sub int, b segment.Buffer) bool {
	q.readers = append(q.readers, segment.ReadAll(b))
	return true
}

// Records are cut wherever a segment ends.
func ExampleRecordWriter() {
	pool, err := segment.NewPool(segment.Config{SegmentSize: 16, Segments: 4})
	if err != nil {
		fmt.Println(err)
		return
	}
	local, err := pool.NewLocal(segment.LocalConfig{Name: "example", Required: 4, Subpartitions: 1})
	if err != nil {
		fmt.Println(err)
		return
	}
	q := &queue{pool: local}
	w, err := serde.NewRecordWriter(q, 1)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, s := range []string{"a record", "another one"} {
		if err := w.WriteRecord(0, []byte(s)); err != nil {
			fmt.Println(err)
			return
		}
	}
	if err := w.Finish(segment.Wrap([]byte("the end"), segment.EndOfPartition)); err != nil {
		fmt.Println(err)
		return
	}
	for i := range q.readers {
		b, _ := q.readers[i].Next()
		fmt.Printf("%s %q\n", b.Type(), b.Bytes())
		b.Release()
		q.readers[i].Close()
	}
	w.Close()
	local.Close()
	fmt.Println(pool.Close())
	// Output:
	// DATA_BUFFER "\x00\x00\x00\ba record\x00\x00\x00\v"
	// DATA_BUFFER "another one"
	// END_OF_PARTITION "the end"
	// <nil>
}

// firstByte hashes a record by its first byte.
type firstByte struct{}

func (firstByte) KeyHash(rec string) int32 { return int32(rec[0]) }

// All records of a key go to the subtask that owns its key group.
func ExampleKeyGroupPartitioner() {
	p, err := serde.NewKeyGroupPartitioner[string](firstByte{}, 128, 4)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(p.Select("apple"), p.Select("avocado"), p.Select("banana"))
	// Output:
	// 2 2 0
}
