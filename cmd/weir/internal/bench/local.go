package bench

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/weirflow/weir"
	"github.com/weirflow/weir/align"
	"github.com/weirflow/weir/credit"
	"github.com/weirflow/weir/netio"
	"github.com/weirflow/weir/segment"
	"github.com/weirflow/weir/serde"
	"github.com/weirflow/weir/task"
)

// Records over a local channel, from one goroutine to another: the layers that a node is made of, put together as a node does,
// with its figures.
const (
	localBuffers   = 32
	localOverdraft = 20
)

// local is a partition and the gate that reads it, in one process.
type local struct {
	pool, receive *segment.Pool
	loop          *netio.Loop
	buffers       *segment.LocalPool
	part          *credit.Partition
	out           *credit.PartitionWriter
	w             *serde.RecordWriter[*credit.PartitionWriter]
	gate          *credit.Gate
	in            *task.Input
}

func newLocal(opt *Options) (l *local, err error) {
	l = new(local)
	l.pool, err = segment.NewPool(segment.Config{SegmentSize: frameSize, Segments: localBuffers + localOverdraft})
	if err != nil {
		return nil, err
	}
	if l.receive, err = segment.NewPool(segment.Config{SegmentSize: frameSize, Segments: credit.DefaultLocalWindow}); err != nil {
		return nil, err
	}
	cfg := opt.node()
	if l.loop, err = netio.NewLoop(netio.LoopConfig{Poll: cfg.Poll, Dedicated: opt.Task, FullFrame: frameSize}); err != nil {
		return nil, err
	}
	l.buffers, err = l.pool.NewLocal(segment.LocalConfig{
		Name: "local", Purpose: segment.Send, Required: 2, Max: localBuffers, Subpartitions: 1, Quota: localBuffers * 3 / 4, Overdraft: localOverdraft,
	})
	if err != nil {
		return nil, err
	}
	l.part, l.out, err = credit.NewPartition(credit.PartitionConfig{
		ID: weir.NameID("local"), Subpartitions: 1, Pool: l.buffers, Segments: localBuffers + localOverdraft, Exclusive: 2, Wake: l.loop.Kick,
	})
	if err == nil {
		l.w, err = serde.NewRecordWriter(l.out, 1)
	}
	if err != nil {
		return nil, err
	}
	l.gate = credit.NewGate(credit.GateConfig{Channels: 1})
	link := l.gate.NewLink(credit.DefaultLocalWindow, l.loop.Wake)
	l.gate.SetUpstream(0, link)
	began := time.Now()
	l.in, err = task.NewInput(task.InputConfig{Gate: l.gate, Clock: func() align.Now {
		now := time.Now()
		return align.Now{Millis: now.UnixMilli(), Nanos: int64(now.Sub(began))}
	}})
	if err != nil {
		return nil, err
	}
	return l, l.connect(link)
}

// connect gives the gate its channel. On the loop.
func (l *local) connect(link *credit.GateLink) error {
	done := make(chan error, 1)
	l.loop.Post(func() {
		done <- func() error {
			pool, err := credit.NewReceivePool(l.receive, credit.ReceivePoolConfig{Name: "local input", Wake: l.loop.Wake})
			if err != nil {
				return err
			}
			port, err := credit.NewGatePort(credit.GatePortConfig{Link: link, Pool: pool})
			if err != nil {
				return err
			}
			ch, err := port.NewLocalChannel(credit.LocalConfig{Partition: l.part.ID(), Range: credit.One(0)})
			if err != nil {
				return err
			}
			view, err := l.part.CreateView(credit.One(0), ch)
			if err != nil {
				return err
			}
			ch.Connect(view)
			l.loop.AddSource(l.part)
			l.loop.AddSource(port)
			return nil
		}()
	})
	return <-done
}

// writeAll writes records, and waits for memory.
func (l *local) writeAll(ctx context.Context, records [][]byte) error {
	for n := 0; n < len(records); n++ {
		if n += l.w.TryWriteBatch(0, records[n:]); n == len(records) {
			break
		}
		if err := l.write(ctx, records[n]); err != nil {
			return err
		}
	}
	return nil
}

func (l *local) write(ctx context.Context, record []byte) error {
	for {
		err := l.w.WriteBytes(0, record)
		for errors.Is(err, serde.ErrUnfinished) {
			if err = l.wait(ctx); err == nil {
				err = l.w.Continue()
			}
		}
		if !errors.Is(err, serde.ErrFull) {
			return err
		}
		if err := l.wait(ctx); err != nil {
			return err
		}
	}
}

func (l *local) wait(ctx context.Context) error {
	l.out.Publish()
	ready := func() bool {
		l.out.Publish()
		return l.buffers.Available()
	}
	if ready() {
		return nil
	}
	l.out.Reclaim()
	return l.loop.RunUntil(ctx, ready, l.buffers.Notifier())
}

// read returns the value of the next record.
func (l *local) read(ctx context.Context, ready func() bool) ([]byte, error) {
	for {
		if v, ok := l.in.WholeRecord(); ok {
			return v, nil
		}
		switch st, err := l.in.Next(); {
		case err != nil:
			return nil, err
		case st == task.Element:
			return l.in.Element().Value, nil
		case st == task.Nothing:
			if err := l.loop.RunUntil(ctx, ready, l.gate.Notifier()); err != nil {
				return nil, err
			}
		}
	}
}

func runLocal(ctx context.Context, r *role) error {
	l, err := newLocal(r.opt)
	if err != nil {
		return err
	}
	size, _, every := r.opt.shape()
	failed := make(chan error, 2)
	go func() {
		batch := r.opt.batch(size)
		for {
			if err := l.writeAll(ctx, batch); err != nil {
				failed <- err
				return
			}
		}
	}()
	go func() { failed <- l.readAll(ctx, r, size, every) }()
	return <-failed
}

func (l *local) readAll(ctx context.Context, r *role, size, every int) error {
	ready := func() bool { return l.gate.Fill() > 0 || l.gate.Available() }
	for {
		sum := uint64(0)
		for range every {
			v, err := l.read(ctx, ready)
			if err != nil {
				return err
			}
			if len(v) != 4+size {
				return fmt.Errorf("a record of %d bytes", len(v))
			}
			sum += binary.LittleEndian.Uint64(v[4:])
		}
		if sum != uint64(every)*recordField {
			return errField
		}
		r.sum.Store(r.sum.Load() + sum)
		r.meter.Add(int64(every*size), int64(every))
	}
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
