package bench

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/weirflow/weir"
)

const (
	recordSize     = 100
	recordHead     = 9 // length, tag, length of the value
	recordField    = 7 // the first word of each record
	recordChannels = 8
	recordBatch    = 64  // records in a call, all for one channel; the next call is for the next channel
	countEvery     = 256 // records between two updates of the meter, at most
)

// shape is the size and the number of channels of the records, and how many are counted at once.
func (o *Options) shape() (size, channels, every int) {
	size, channels = recordSize, recordChannels
	if o.Record > 0 {
		size = o.Record
	}
	if o.Channels > 0 {
		channels = o.Channels
	}
	return size, channels, max(1, min(countEvery, countEvery*recordSize/size))
}

// batch is what one call writes: the same record as often as it says.
func (o *Options) batch(size int) [][]byte {
	return slices.Repeat([][]byte{newRecord(size)}, cmp.Or(o.Batch, recordBatch))
}

// newRecord is a record of some size.
func newRecord(size int) []byte {
	record := make([]byte, size)
	for i := range record {
		record[i] = byte(i)
	}
	binary.LittleEndian.PutUint64(record, recordField)
	return record
}

func sendRecords(ctx context.Context, r *role) error {
	size, channels, every := r.opt.shape()
	out, err := r.node.NewOutput(weir.OutputConfig{Name: "records", Subpartitions: channels, Partition: weir.RoundRobin})
	if err != nil {
		return err
	}
	batch, sub := r.opt.batch(size), 0
	for {
		for left := every; left > 0; {
			n := min(left, len(batch))
			if n == 1 {
				err = out.Write(ctx, nil, batch[0])
			} else {
				_, err = out.WriteBatch(ctx, sub, batch[:n])
				sub = (sub + 1) % channels
			}
			if err != nil {
				return err
			}
			left -= n
		}
		r.meter.Add(int64(every*size), int64(every))
	}
}

var errField = errors.New("the records' fields do not add up")

func receiveRecords(ctx context.Context, r *role) error {
	size, channels, every := r.opt.shape()
	source, err := r.source("records")
	if err != nil {
		return err
	}
	source.Last = channels - 1
	in, err := r.node.NewInput(r.opt.input(source))
	if err != nil {
		return err
	}
	for {
		sum := uint64(0)
		for range every {
			e, err := in.Next(ctx)
			if err != nil {
				return err
			}
			if e.Kind != weir.Record || len(e.Value) != size {
				return fmt.Errorf("an element of kind %d with %d bytes", e.Kind, len(e.Value))
			}
			sum += binary.LittleEndian.Uint64(e.Value)
		}
		if sum != uint64(every)*recordField {
			return errField
		}
		r.sum.Store(r.sum.Load() + sum)
		r.payload.Store(r.payload.Load() + uint64(every*(size+recordHead)))
		r.meter.Add(int64(every*size), int64(every))
	}
}
