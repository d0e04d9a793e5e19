package credit

import (
	"bufio"
	"fmt"
	"io"

	"github.com/weirflow/weir/credit/spool"
	"github.com/weirflow/weir/ringbuf"
	"github.com/weirflow/weir/segment"
)

// writeBatch is how many bytes go to the file in one call.
const writeBatch = 256 << 10

// intake is the disk's half of writing: it takes what the writer hands over, in the order of the ring, and stores it. Buffers are
// handed over when they are opened, so the last one of a subpartition may still be written to; it waits.
type intake struct {
	d        *disk
	plan     intakePlan
	subs     []ringbuf.Deque[segment.Reader]
	ended    []bool // end of partition was stored
	file     io.WriteCloser
	out      *bufio.Writer
	w        *spool.Writer
	compress *Compressor
	stored   map[*byte]spool.Entry // the buffers of this spill, to find those that subpartitions share
}

func newIntake(d *disk) (*intake, error) {
	in := &intake{d: d, plan: newIntakePlan(d.cfg.Subpartitions, d.cfg.Buffers), ended: make([]bool, d.cfg.Subpartitions),
		subs: make([]ringbuf.Deque[segment.Reader], d.cfg.Subpartitions), stored: make(map[*byte]spool.Entry)}
	var err error
	if in.compress, err = NewCompressor(d.cfg.Codec, d.pool.SegmentSize()); err != nil {
		return nil, err
	}
	f, path, err := d.cfg.Files.Create(d.cfg.Dir, "weir-*.partition")
	if err != nil {
		in.compress.Close()
		return nil, &BlockingError{Partition: d.cfg.ID, Path: d.cfg.Dir, Err: err}
	}
	d.path.Store(&path)
	in.file, in.out = f, bufio.NewWriterSize(f, writeBatch)
	in.w, err = spool.NewWriter(in.out, spool.Header{Partition: d.cfg.ID, Subpartitions: int32(d.cfg.Subpartitions),
		BufferSize: int32(d.pool.SegmentSize()), Codec: uint8(d.cfg.Codec)})
	return in, err
}

// add takes a buffer or an event.
func (in *intake) add(sub int32, r segment.Reader) error {
	if in.plan.before(r.Type()) {
		if err := in.endRegion(); err != nil {
			r.Close()
			return err
		}
	}
	in.subs[sub].PushBack(r)
	spill, cut := in.plan.added()
	if cut {
		in.d.cutWanted.Store(true)
		in.d.changed()
	}
	if spill {
		return in.spill()
	}
	return nil
}

// finish stores the end of a subpartition.
func (in *intake) finish(sub int32) error {
	if in.ended[sub] {
		return nil
	}
	in.ended[sub] = true
	return in.add(sub, segment.ReadAll(segment.Wrap(endOfPartition[:], segment.EndOfPartition)))
}

// spill stores every buffer that is finished, subpartition by subpartition, beginning with another one for each region.
func (in *intake) spill() error {
	clear(in.stored)
	n := len(in.subs)
	from := in.w.Regions() % n
	for i := range n {
		if err := in.spillSub((from + i) % n); err != nil {
			return err
		}
	}
	return nil
}

func (in *intake) spillSub(sub int) error {
	q := &in.subs[sub]
	for q.Len() > 0 {
		front := q.Front()
		if q.Len() == 1 {
			c := front.Copy() // looks again
			finished := c.Finished()
			c.Close()
			if !finished {
				break
			}
		}
		buf, finished := front.NextClose()
		if !finished { // it is not the last one, so its writer is done with it: a writer that failed, and ends
			buf.Release()
			front.Close()
		}
		q.PopFront()
		in.plan.spilled(1)
		if !finished {
			continue
		}
		err := in.store(sub, buf)
		buf.Release()
		if err != nil {
			return err
		}
	}
	return nil
}

// store stores a buffer, once for all subpartitions that share it.
func (in *intake) store(sub int, buf segment.Buffer) (err error) {
	p := buf.Bytes()
	if len(p) == 0 {
		return nil
	}
	data := buf.Type().IsBuffer()
	if e, shared := in.stored[&p[0]]; shared && data {
		in.w.Repeat(sub, e)
		return nil
	}
	compressed := false
	block := p
	if data && in.d.cfg.Codec != NoCompression {
		if b, ok := in.compress.Compress(p); ok {
			block, compressed = b, true
		}
	}
	e, err := in.w.Append(sub, block, buf.Type(), compressed)
	if err == nil && data && len(in.subs) > 1 {
		in.stored[&p[0]] = e
	}
	return err
}

// endRegion stores what there is and ends the region, unless a subpartition has a buffer that is still written to: then a record may go
// on in it.
func (in *intake) endRegion() error {
	if err := in.spill(); err != nil {
		return err
	}
	if in.plan.pending > 0 {
		return nil
	}
	in.plan.ended()
	in.d.cutWanted.Store(false)
	return in.w.EndRegion()
}

// complete ends the file.
func (in *intake) complete() error {
	if err := in.endRegion(); err != nil {
		return err
	}
	if in.plan.pending > 0 {
		return fmt.Errorf("%d buffers of a writer that has closed are unfinished", in.plan.pending)
	}
	for sub, ended := range in.ended {
		if !ended {
			return fmt.Errorf("the writer has closed before the end of subpartition %d", sub)
		}
	}
	if err := in.w.Finish(); err != nil {
		return err
	}
	if err := in.out.Flush(); err != nil {
		return fmt.Errorf("write of the last of %d bytes: %w", in.w.Written(), err)
	}
	f := in.file
	in.file = nil
	return f.Close() // some file systems tell only now that there was no room
}

// close gives everything back.
func (in *intake) close() {
	for i := range in.subs {
		in.subs[i].Clear(func(r segment.Reader) { r.Close() })
	}
	in.plan.pending = 0
	in.compress.Close()
	if in.file != nil {
		_ = in.file.Close() // it is thrown away
		in.file = nil
	}
}
