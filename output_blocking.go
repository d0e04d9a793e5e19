package weir

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/weirflow/weir/credit"
	"github.com/weirflow/weir/credit/spool"
	"github.com/weirflow/weir/serde"
	"github.com/weirflow/weir/serde/event"
)

// Codec is how the buffers of a blocking output are compressed. It is not on the wire: an Input tells LZ4 and ZSTD apart by
// itself, a Flink job is configured with the same one.
type Codec = credit.Codec

// The codecs. LZO is known by name only: an output that wants it gets an error.
const (
	NoCompression = credit.NoCompression
	LZ4           = credit.LZ4
	LZO           = credit.LZO
	ZSTD          = credit.ZSTD
)

// Blocking makes an output a blocking one (Flink: a blocking partition, sort-merge shuffle): what is written goes to a file, and is
// served once Finish has ended that. Any number of consumers may read each subpartition, at the same time or one after the other,
// each from its beginning; they may come before Finish, and wait then. There are no checkpoints.
//
// A writer never waits for consumers, only for the disk.
type Blocking struct {
	// Dir is where the file is made; empty: the system's directory for temporary files. The file is removed when the output is
	// closed. A process that is killed leaves it behind: its name is weir-*.partition.
	Dir string
	// Codec compresses each buffer that gets smaller by it.
	Codec Codec

	files    spool.FS // tests
	inMemory bool     // tests and benchmarks: do not send from the file
}

// ErrBlocking is in the error for what a blocking output does not have: barriers, and the state of a task.
var ErrBlocking = errors.New("a blocking output has no checkpoints")

// openBlocking is open for a blocking output.
func (o *Output) openBlocking(ctx context.Context) (err error) {
	cfg := &o.cfg
	if cfg.Task != nil || cfg.State != nil {
		return ErrBlocking
	}
	cfg.FlushEach = false // nobody reads before the end
	o.block, o.out, err = credit.NewBlockingPartition(credit.BlockingConfig{
		ID: *cfg.ID, Subpartitions: cfg.Subpartitions, Pool: o.node.pool, Name: "output " + cfg.Name,
		Buffers: cfg.Buffers, Overdraft: overdraft, Profile: o.node.cfg.Flink, Codec: cfg.Blocking.Codec, Dir: cfg.Blocking.Dir,
		Files: cfg.Blocking.files, InMemory: cfg.Blocking.inMemory, Wake: o.node.loop.Kick, OnChange: o.consumed,
	})
	if err != nil {
		return o.node.explain(err)
	}
	o.pool = o.block.Pool()
	if err = o.pool.Reserve(ctx, cfg.Subpartitions+1); err != nil {
		err = fmt.Errorf("other outputs hold the %d segments that it is guaranteed: %w", cfg.Subpartitions+1, err)
		return errors.Join(err, o.closeBlocking())
	}
	go o.block.Run() // until closeBlocking
	o.w, err = serde.NewRecordWriter(o.out, cfg.Subpartitions)
	if err == nil {
		o.initWaits()
		err = o.node.do(func() error {
			if err := o.node.registry.Register(o.block); err != nil {
				return err
			}
			o.node.loop.AddSource(o.block)
			return nil
		})
	}
	if err != nil {
		return errors.Join(err, o.closeBlocking())
	}
	return nil
}

// serveBlocking ends a region of the file if it is large enough.
func (o *Output) serveBlocking() error {
	if o.block == nil || !o.block.CutWanted() {
		return nil
	}
	if err := o.w.FinishBuffers(); err != nil {
		return o.error(err)
	}
	o.out.Cut()
	return nil
}

// finishBlocking ends the file. From then on it is served.
func (o *Output) finishBlocking(ctx context.Context) error {
	o.busy.begin()
	defer o.busy.end()
	if o.closed.Load() {
		return o.goneErr()
	}
	if o.block.Finished() {
		return nil
	}
	if err := o.serve(); err != nil {
		return err
	}
	if err := o.emit(&event.Event{Kind: event.EndOfData, StopMode: event.Drain}); err != nil {
		return err
	}
	if err := o.endPartition(); err != nil {
		return err
	}
	o.w.Close() // from now on the memory is not the writer's
	done := o.busy.looks(func() bool {
		if o.closed.Load() {
			return true
		}
		o.out.Publish()
		return o.block.Finished() || o.gone()
	})
	if err := o.busy.wait(ctx, o.node, done, o.pool.Notifier()); err != nil {
		return o.error(err)
	}
	if o.closed.Load() {
		return o.goneErr()
	}
	if !o.block.Finished() {
		return o.goneErr()
	}
	return nil
}

// AwaitRead waits until every subpartition of a blocking output has been read to its end by as many consumers: each was sent all of
// it, and has closed its channel. One whose connection was lost does not count. The error says which were not when ctx ends. Any goroutine, after Finish.
func (o *Output) AwaitRead(ctx context.Context, times int) error {
	if o.block == nil {
		return o.error(errors.New("it is not blocking: Finish waits for its consumers"))
	}
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		if o.closed.Load() {
			return o.error(ErrClosed)
		}
		var missing []int
		err := o.node.do(func() error {
			for i := range o.cfg.Subpartitions {
				if o.block.Reads(i) < times {
					missing = append(missing, i)
				}
			}
			return nil
		})
		switch failed := o.block.Failed(); {
		case err != nil:
			return err
		case failed != nil:
			return o.error(failed)
		case len(missing) == 0:
			return nil
		}
		select {
		case <-ctx.Done():
			return o.error(fmt.Errorf("%w until the end, %d times, for subpartitions %s of %d: %w", ErrNoConsumer, times, ranges(missing), o.cfg.Subpartitions, ctx.Err()))
		case <-tick.C:
		}
	}
}

// closeBlocking gives everything back and removes the file.
func (o *Output) closeBlocking() error {
	p := o.block
	release := func() error {
		p.Fail(errClosedEarly) // consumers that have not had everything hear of it
		o.node.loop.RemoveSource(p)
		return nil
	}
	err := o.node.do(release)
	err = errors.Join(err, p.Close())
	err = errors.Join(err, o.node.do(func() error { // what the disk brought last goes home
		p.Poll()
		return nil
	}))
	o.pool.Close()
	return err
}

// blockingStats appends the state of each subpartition.
func (o *Output) blockingStats(dst []SubpartitionStats) []SubpartitionStats {
	for i := range o.cfg.Subpartitions {
		dst = append(dst, SubpartitionStats{Consumer: o.block.Consumers(i) > 0})
	}
	return dst
}
