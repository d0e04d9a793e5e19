package bench

import (
	"context"
	"encoding/binary"

	"github.com/weirflow/weir"
)

// runLocal passes records from one goroutine to another over a local channel of a node.
func runLocal(ctx context.Context, r *role) error {
	opt := *r.opt
	opt.Channels = 1
	r.opt, r.addr = &opt, weir.Local
	out, err := r.node.NewOutput(weir.OutputConfig{Name: "records"})
	if err != nil {
		return err
	}
	failed := make(chan error, 2)
	go func() { failed <- receiveRecords(ctx, r) }()
	go func() {
		size, _, _ := r.opt.shape()
		batch := r.opt.batch(size)
		for {
			if err := writeRecords(ctx, out, batch); err != nil {
				failed <- err
				return
			}
		}
	}()
	return <-failed
}

func writeRecords(ctx context.Context, out *weir.Output, batch [][]byte) (err error) {
	if len(batch) == 1 {
		return out.WriteTo(ctx, 0, batch[0])
	}
	_, err = out.WriteBatch(ctx, 0, batch)
	return err
}

// besideLocal: what one would write without weir.
func besideLocal(opt Options) []beside { return []beside{{"go-channel", "go-channel", opt}} }

// The row go-channel: a channel of batches of 64 records that are recycled through another one. Each record is copied into its batch.
const (
	channelBatch   = 64
	channelBatches = 16
)

func runGoChannel(_ context.Context, r *role) error {
	size, _, _ := r.opt.shape()
	full, empty := make(chan []byte, channelBatches), make(chan []byte, channelBatches)
	for range channelBatches {
		empty <- make([]byte, channelBatch*size)
	}
	go func() {
		record := newRecord(size)
		for b := range empty {
			for i := range channelBatch {
				copy(b[i*size:(i+1)*size], record)
			}
			full <- b
		}
	}()
	for b := range full {
		sum := uint64(0)
		for i := range channelBatch {
			sum += binary.LittleEndian.Uint64(b[i*size:])
		}
		if sum != channelBatch*recordField {
			return errField
		}
		empty <- b
		r.meter.Add(int64(channelBatch*size), channelBatch)
	}
	return nil
}
