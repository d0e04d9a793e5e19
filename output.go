package weir

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirflow/weir/credit"
	"github.com/weirflow/weir/netio"
	"github.com/weirflow/weir/segment"
	"github.com/weirflow/weir/serde"
)

// Partition says where Output.Write puts a record.
type Partition uint8

// The ways to partition.
const (
	// ByKeyGroup puts a key where Flink would: the key is the UTF-8 form of a string, whose Java hash gives the
	// key group.
	ByKeyGroup Partition = iota
	// RoundRobin goes through the subpartitions in turn.
	RoundRobin
	// Broadcast gives every subpartition every record; they share the memory.
	Broadcast
	// Global puts everything into subpartition 0.
	Global
)

// OutputConfig configures an Output.
type OutputConfig struct {
	// Name names the partition; its id is NameID(Name), unless ID is set.
	Name string
	// ID is the partition's id, if it does not come from a name.
	ID *PartitionID
	// Subpartitions is the number of subpartitions; 0 means 1. Each is read by one consumer.
	Subpartitions int
	// Partition says where Write puts a record.
	Partition Partition
	// MaxParallelism is the number of key groups; 0 means Flink's default for Subpartitions.
	MaxParallelism int
	// Buffers is the most segments that the output holds; 0 means 32, of a blocking output 128, or what Flink takes if that is more: 2 for
	// each subpartition and 8. More do not make an output faster that is sent at once: all are in use before a writer waits, and a megabyte
	// stays in a cache. Claimed buffers of few bytes share segments. 64 help where the consumer's credit follows the backlog
	// (InputConfig.Floating).
	Buffers int
	// BuffersPerSubpartition is how many of them a subpartition may hold before the writer waits; 0 means three quarters of
	// Buffers divided by Subpartitions, at least Flink's 10.
	BuffersPerSubpartition int
	// BufferTimeout is how long a record may wait in a buffer that is not full: 0 means 100 ms, negative for ever. FlushEach
	// sends each record at once.
	BufferTimeout time.Duration
	FlushEach     bool
	// Attempt is the attempt number of the partition's id, if that comes from the name; a task's is Task's.
	Attempt int
	// Task is what the output is part of, if its checkpoints are a task's. The writing goroutine is the task's then.
	Task *Task
	// State gets the data that unaligned barriers overtook in this output, subpartition by subpartition. Its methods run on the
	// node's loop and must not wait. Nil: nobody gets it, and an unaligned checkpoint cannot be restored from.
	State credit.OutputSink
	// ZeroExclusive must be set when consumers may ask with no credit of their own (Flink's buffers-per-channel 0).
	ZeroExclusive bool
	// Blocking, if set, makes it a blocking output: a file, served once it is finished. Nil: what is written is sent at once.
	Blocking *Blocking
}

const (
	defaultOutputBuffers = 32
	defaultFileBuffers   = 128 // of a blocking output: what a subpartition has in one place of the file is a share of half of them
	defaultBufferTimeout = 100 * time.Millisecond
	minQuota             = 10
	overdraft            = 20
	maxSubpartitions     = 1 << 15
)

func (c OutputConfig) withDefaults() OutputConfig {
	if c.Subpartitions == 0 {
		c.Subpartitions = 1
	}
	if c.Buffers == 0 {
		least := defaultOutputBuffers
		if c.Blocking != nil {
			least = defaultFileBuffers
		}
		c.Buffers = max(least, 2*c.Subpartitions+8)
	}
	if c.BuffersPerSubpartition == 0 {
		c.BuffersPerSubpartition = max(minQuota, c.Buffers*3/4/c.Subpartitions)
	}
	if c.BufferTimeout == 0 {
		c.BufferTimeout = defaultBufferTimeout
	}
	if c.Task != nil {
		c.Attempt = c.Task.cfg.Attempt
	}
	if c.ID == nil {
		id := NameAttempt(c.Name, c.Attempt)
		c.ID = &id
	}
	return c
}

// ErrNoConsumer is in the error for subpartitions that nobody came to read, or whose consumer went away.
var ErrNoConsumer = errors.New("no consumer")

// Output is a partition that this node serves: one goroutine writes records to it, each subpartition is read by one
// consumer. Write waits for memory when consumers are slow: a partitioning writer waits as soon as one subpartition holds its
// share of buffers, whatever the others could take. On the wire, a slow consumer holds back no other.
//
// The methods belong to the writing goroutine, except Barrier, Stats, AwaitConsumers and Close.
type Output struct {
	node     *Node
	cfg      OutputConfig
	pool     *segment.LocalPool
	part     *credit.Partition         // the loop's
	block    *credit.BlockingPartition // instead of part, of a blocking output; the loop's
	flusher  *netio.Timer              // the loop's
	w        *serde.RecordWriter[*credit.PartitionWriter]
	out      *credit.PartitionWriter
	turn     int // RoundRobin: the next subpartition
	groups   int
	encoded  []byte // of elements other than records
	lent     segment.Buffer
	lentTo   int
	readyFn  func() bool
	resumeFn func() bool
	resumed  error
	half     error // not nil: a record is half written, and stays so
	waits    waitStats
	busy     *occupancy  // its own, or its task's
	closed   atomic.Bool // who waits goes
	closing  closeOnce

	lostMu sync.Mutex
	lost   map[int]error // why consumers went; guarded by lostMu

	attention atomic.Uint32 // not 0: serve has something to do, or each record is flushed; read before each record
	postedMu  sync.Mutex
	queue     []Barrier // posted; guarded by postedMu
}

// NewOutput makes an output and lets consumers find it. Its guarantee of memory is a segment more than it has subpartitions; the
// error says if that is too much. If others hold it, beyond their own guarantee, NewOutput waits for it for up to 5 s.
func (n *Node) NewOutput(cfg OutputConfig) (*Output, error) {
	cfg = cfg.withDefaults()
	if cfg.Subpartitions < 1 || cfg.Subpartitions > maxSubpartitions {
		return nil, fmt.Errorf("weir: output %q with %d subpartitions: want 1 to %d", cfg.Name, cfg.Subpartitions, maxSubpartitions)
	}
	o := &Output{node: n, cfg: cfg, groups: cfg.MaxParallelism, busy: new(occupancy)}
	if cfg.Task != nil {
		o.busy = &cfg.Task.busy
	}
	if o.groups == 0 {
		o.groups = serde.DefaultMaxParallelism(cfg.Subpartitions)
	}
	if cfg.Task != nil {
		if err := cfg.Task.joinOutput(o); err != nil {
			return nil, err
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), provideLimit)
	defer cancel()
	if err := o.open(ctx); err != nil {
		if cfg.Task != nil {
			cfg.Task.leaveOutput()
		}
		return nil, fmt.Errorf("weir: output %q, partition %s: %w", cfg.Name, cfg.ID, err)
	}
	if err := n.add(o); err != nil {
		return nil, errors.Join(err, o.Close())
	}
	return o, nil
}

func (o *Output) open(ctx context.Context) (err error) {
	cfg := &o.cfg
	if cfg.Blocking != nil {
		return o.openBlocking(ctx)
	}
	sink, index, wake := cfg.State, 0, (func())(nil)
	if t := cfg.Task; t != nil {
		index = len(t.outputs) - 1
		sink, wake = t.state.PartitionSink(int32(index)), t.wake
	}
	o.pool, err = o.node.pool.NewLocal(segment.LocalConfig{
		Name: "output " + cfg.Name, Purpose: segment.Send,
		Required: cfg.Subpartitions + 1, Max: max(cfg.Buffers, cfg.Subpartitions+1),
		Subpartitions: cfg.Subpartitions, Quota: cfg.BuffersPerSubpartition, Overdraft: overdraft,
		Wake: wake,
	})
	if err != nil {
		return o.node.explain(err)
	}
	// What is guaranteed is fetched now. Elsewhere it would be lent, also as overdraft to a writer whose consumer waits in this
	// very output.
	if err = o.pool.Reserve(ctx, cfg.Subpartitions+1); err != nil {
		o.pool.Close()
		return fmt.Errorf("other outputs hold the %d segments that it is guaranteed: %w", cfg.Subpartitions+1, err)
	}
	exclusive := 2
	if cfg.ZeroExclusive {
		exclusive = 0
	}
	o.part, o.out, err = credit.NewPartition(credit.PartitionConfig{
		ID: *cfg.ID, Subpartitions: cfg.Subpartitions, Pool: o.pool, Segments: max(cfg.Buffers, cfg.Subpartitions+1) + overdraft,
		Exclusive: exclusive, Profile: o.node.cfg.Flink, Wake: o.node.loop.Kick,
		OnConsumed: func(int) { o.consumed() }, OnReleased: o.consumed, Sink: sink,
		Events: 5*cfg.Subpartitions + 64 + cfg.Task.recovered(index),
	})
	if err == nil {
		o.w, err = serde.NewRecordWriter(o.out, cfg.Subpartitions)
	}
	if err == nil {
		err = o.restore(index) // before anybody can ask for it
	}
	if err != nil {
		o.pool.Close()
		return err
	}
	o.initWaits()
	if cfg.FlushEach {
		o.attention.Store(1)
	}
	err = o.node.do(func() error {
		if err := o.node.registry.Register(o.part); err != nil {
			return err
		}
		o.node.loop.AddSource(o.part)
		if cfg.BufferTimeout > 0 {
			o.flusher = o.node.loop.NewTimer(o.tick)
			o.tick()
		}
		return nil
	})
	if err != nil {
		o.pool.Close()
	}
	return err
}

// initWaits makes what waits for memory. It also hands over what found no room: the memory may come back only because of that.
func (o *Output) initWaits() {
	o.readyFn = o.busy.looks(func() bool {
		if o.closed.Load() {
			return true
		}
		o.out.Publish()
		return o.pool.Available() || o.wanted()
	})
	o.resumeFn = o.busy.looks(func() bool {
		if o.closed.Load() {
			return true
		}
		o.out.Publish()
		finished := o.w.Stats().Buffers
		o.resumed = o.w.Continue()
		if o.resumed != nil && o.w.Stats().Buffers != finished {
			o.out.Reclaim() // it got a buffer, and waits for the next one
		}
		return !errors.Is(o.resumed, serde.ErrUnfinished) || o.gone()
	})
}

// consumed lets the writer see that somebody has gone, also while it waits. On the loop.
func (o *Output) consumed() {
	o.attention.Store(1)
	o.pool.Notifier().Wake()
	o.cfg.Task.wake()
}

// tick flushes what lies in buffers that are not full, for as long as the output lives. On the loop.
func (o *Output) tick() {
	o.part.FlushDirty()
	if !o.part.Done() {
		o.flusher.Reset(o.cfg.BufferTimeout)
	}
}

// gone tells whether nobody reads any more, or the output failed or is closed.
func (o *Output) gone() bool {
	if o.closed.Load() {
		return true
	}
	gone, _ := o.out.Gone()
	return gone || o.out.Deserted()
}

// wanted tells whether something else than memory ends a wait: a barrier was posted, or nobody is left.
func (o *Output) wanted() bool {
	if o.attention.Load() == 0 {
		return false
	}
	if t := o.cfg.Task; t != nil && t.input == nil && t.wants() {
		return true
	}
	o.postedMu.Lock()
	defer o.postedMu.Unlock()
	return len(o.queue) > 0 || o.gone()
}

func (o *Output) goneErr() error {
	if o.closed.Load() {
		return o.error(ErrClosed)
	}
	switch _, cause := o.out.Gone(); {
	case cause != nil: // first: a partition that fails is gone before its subpartitions are
		return o.error(cause)
	case !o.out.Deserted():
		return o.error(ErrClosed)
	}
	return o.lostErr(o.out.Lost())
}

func (o *Output) error(err error) error {
	return fmt.Errorf("weir: output %q, partition %s: %w", o.cfg.Name, o.cfg.ID, err)
}

// ID is the partition's id.
func (o *Output) ID() PartitionID { return *o.cfg.ID }

// Subpartitions is the number of subpartitions.
func (o *Output) Subpartitions() int { return o.cfg.Subpartitions }

// Write puts a record where the output's partitioning says, by its key. It waits for memory as long as ctx allows. value is
// free again when it returns. After a context's error nothing of the record was written, unless errors.Is(err, ErrHalfWritten).
func (o *Output) Write(ctx context.Context, key, value []byte) error {
	if o.cfg.Partition != RoundRobin {
		return o.writeElsewhere(ctx, key, value)
	}
	sub := o.turn
	if o.turn++; o.turn == o.cfg.Subpartitions {
		o.turn = 0
	}
	// TryWriteBytes, without the calls: this is most of what a record costs. There is no call before the copy but those that end it, so
	// that the compiler keeps everything in registers.
	if o.attention.Load() != 0 {
		return o.writeSlow(ctx, sub, value)
	}
	open := o.w.Slots()
	if uint(sub) >= uint(len(open)) {
		return o.writeSlow(ctx, sub, value)
	}
	b := &open[sub]
	p := b.Spare()
	if len(p)-recordHead <= len(value) {
		return o.writeSlow(ctx, sub, value)
	}
	n := uint64(len(value))
	binary.BigEndian.PutUint64(p, (n+5)<<32|1<<24|n>>8) // length of tag, length and value; tag; length of the value
	p[8] = byte(n)
	copy(p[recordHead:], value)
	b.Advance(recordHead + len(value))
	b.Commit()
	return nil
}

// writeElsewhere is Write of the partitionings that take longer to decide.
func (o *Output) writeElsewhere(ctx context.Context, key, value []byte) error {
	switch o.cfg.Partition {
	case ByKeyGroup:
		return o.WriteTo(ctx, o.SubpartitionOf(key), value)
	case Broadcast:
		return o.Broadcast(ctx, value)
	}
	return o.WriteTo(ctx, 0, value)
}

// recordHead is what stands before a record's value: its length, its tag, the length of the value.
const recordHead = 4 + 1 + 4

// SubpartitionOf is where ByKeyGroup puts a key.
func (o *Output) SubpartitionOf(key []byte) int {
	return serde.OperatorIndex(o.groups, o.cfg.Subpartitions, serde.KeyGroup(serde.HashUTF8(key), o.groups))
}

// WriteTo is Write into a given subpartition.
func (o *Output) WriteTo(ctx context.Context, sub int, value []byte) error {
	if o.attention.Load() == 0 && o.w.TryWriteBytes(sub, value) {
		return nil
	}
	return o.writeSlow(ctx, sub, value)
}

// ErrHalfWritten is in an error that came in the middle of a record: the output can only be closed.
var ErrHalfWritten = errors.New("a record is half written")

// TryWrite is Write without waiting: it returns false, and nothing was written, if Write would wait. Only a record that takes more than the
// free segments and 20 others is waited for once it has begun.
func (o *Output) TryWrite(key, value []byte) (bool, error) {
	sub := 0
	switch o.cfg.Partition {
	case ByKeyGroup:
		sub = o.SubpartitionOf(key)
	case RoundRobin:
		sub = o.turn // it moves on once the record is written
	}
	if err := o.serve(); err != nil {
		return false, err
	}
	var err error
	if o.cfg.Partition == Broadcast {
		err = o.w.BroadcastBytes(value)
	} else {
		err = o.w.WriteBytes(sub, value)
	}
	if errors.Is(err, serde.ErrFull) {
		o.out.Publish() // the memory may come back only because of that
		return false, nil
	}
	if o.cfg.Partition == RoundRobin {
		o.turn = (o.turn + 1) % o.cfg.Subpartitions
	}
	o.busy.begin()
	defer o.busy.end()
	err = o.finishWrite(context.Background(), err)
	return err == nil, err
}

// Available tells whether Write would not wait now.
func (o *Output) Available() bool {
	if o.block != nil && o.block.Finished() || o.pool.Available() {
		return true
	}
	o.w.Reclaim()   // as TryWrite does
	o.out.Publish() // likewise
	return o.pool.Available()
}

// Broadcast writes a record to every subpartition; they share its memory.
func (o *Output) Broadcast(ctx context.Context, value []byte) error {
	return o.retry(ctx, func() error { return o.w.BroadcastBytes(value) })
}

// Watermark tells every consumer that no record with a timestamp of t or less follows, t in milliseconds.
func (o *Output) Watermark(ctx context.Context, t int64) error {
	o.encoded = serde.AppendWatermark(o.encoded[:0], t)
	return o.retry(ctx, func() error { return o.w.WriteAll(o.encoded) })
}

// ClaimBuffer lends an empty buffer of the segment's size to be filled with bytes that the caller frames itself, for
// consumers that use Input.NextBuffer. CommitBuffer sends it. What is in it is left over from before.
func (o *Output) ClaimBuffer(ctx context.Context, sub int) ([]byte, error) {
	o.busy.begin()
	defer o.busy.end()
	if !o.lent.IsZero() {
		return nil, o.error(errors.New("a buffer is claimed already"))
	}
	if o.attention.Load() != 0 { // here, and not when it is committed: what was committed is in front of a barrier that comes then
		if err := o.serve(); err != nil {
			return nil, err
		}
	}
	b, err := o.w.Lend(sub)
	if err != nil {
		err = o.retry(ctx, func() (err error) {
			b, err = o.w.Lend(sub)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	o.lent, o.lentTo = b, sub
	return b.Memory(), nil
}

// CommitBuffer sends the first n bytes of the buffer that ClaimBuffer lent.
func (o *Output) CommitBuffer(n int) error {
	if o.closed.Load() {
		return o.goneErr()
	}
	b := o.lent
	o.lent = segment.Buffer{}
	switch err := o.w.WriteBuffer(o.lentTo, b, n); {
	case err != nil && o.half != nil:
		return o.half
	case err != nil:
		return o.error(err)
	}
	return nil
}

// writeSlow is not inlined, as its closure would take Write's registers.
//
//go:noinline
func (o *Output) writeSlow(ctx context.Context, sub int, value []byte) error {
	return o.retry(ctx, func() error { return o.w.WriteBytes(sub, value) })
}

// retry calls write until it succeeds, and waits for memory in between. Barriers that were posted go out before the record.
func (o *Output) retry(ctx context.Context, write func() error) error {
	o.busy.begin()
	defer o.busy.end()
	for {
		if err := o.serve(); err != nil {
			return err
		}
		err := write()
		if !errors.Is(err, serde.ErrFull) {
			return o.finishWrite(ctx, err)
		}
		if err := o.wait(ctx, o.readyFn); err != nil {
			return err
		}
	}
}

// finishWrite ends a write that began: it waits for memory for the rest of the record.
func (o *Output) finishWrite(ctx context.Context, err error) error {
	if errors.Is(err, serde.ErrUnfinished) {
		if err := o.wait(ctx, o.resumeFn); err != nil {
			o.half = fmt.Errorf("%w: %w", ErrHalfWritten, err)
			return o.half
		}
		err = o.resumed
	}
	if err != nil {
		return o.error(err)
	}
	if o.cfg.FlushEach {
		o.w.FlushAll()
	}
	return nil
}

// wait waits until ready, running the loop's turns.
func (o *Output) wait(ctx context.Context, ready func() bool) error {
	if o.busy.enter(); o.closed.Load() {
		return o.goneErr()
	}
	o.out.Publish()
	if !ready() {
		if o.busy.enter(); o.closed.Load() { // that look is over
			return o.goneErr()
		}
		o.w.Reclaim()
		o.out.Reclaim()
		o.waits.begin(o.fullest())
		err := o.busy.wait(ctx, o.node, ready, o.pool.Notifier())
		o.waits.end()
		if err != nil {
			return o.error(err)
		}
	}
	if o.gone() {
		return o.goneErr()
	}
	return nil
}

// fullest is the subpartition that holds most buffers: the one that the writer waits for.
func (o *Output) fullest() int {
	sub, most := 0, -1
	for i := range o.cfg.Subpartitions {
		if n := o.pool.Charged(i); n > most {
			sub, most = i, n
		}
	}
	return sub
}

// Flush lets consumers have what was written so far. (Of a blocking output nobody gets anything before the end.)
func (o *Output) Flush() error {
	if err := o.serve(); err != nil {
		return err
	}
	if o.block == nil {
		o.w.FlushAll()
	}
	return nil
}

// flushNow is Flush of an output that may be closed, without what serve does.
func (o *Output) flushNow() {
	if !o.closed.Load() {
		o.w.FlushAll()
	}
}

// AwaitConsumers waits until every subpartition has a consumer. The error says which have none when ctx ends. Any
// goroutine.
func (o *Output) AwaitConsumers(ctx context.Context) error {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		if o.closed.Load() {
			return o.error(ErrClosed)
		}
		var missing []int
		err := o.node.do(func() error {
			missing = o.withoutConsumer()
			return nil
		})
		if err != nil || len(missing) == 0 {
			return err
		}
		select {
		case <-ctx.Done():
			return o.error(fmt.Errorf("%w for subpartitions %s of %d: %w", ErrNoConsumer, ranges(missing), o.cfg.Subpartitions, ctx.Err()))
		case <-tick.C:
		}
	}
}

// withoutConsumer lists the subpartitions that no view was opened for. On the loop.
func (o *Output) withoutConsumer() (subs []int) {
	for i := range o.cfg.Subpartitions {
		if had := o.block == nil && o.part.Subpartition(i).HadView() || o.block != nil && o.block.HadView(i); !had {
			subs = append(subs, i)
		}
	}
	return subs
}

// Close gives up what consumers have not taken, which get an error, and the output's memory. Close after Finish drops nothing. Any goroutine, once
// the writing one is not at work in it; it ends a call that waits.
func (o *Output) Close() error { return o.closing.do(o.close) }

func (o *Output) close() error {
	o.end()
	if err := o.busy.vacate(); err != nil {
		return o.error(err)
	}
	defer o.node.remove(o) // not before: who closes the node waits for this
	if !o.lent.IsZero() {
		o.lent.Release()
		o.lent = segment.Buffer{}
	}
	o.w.Close()
	o.out.Close()
	if o.block != nil {
		return o.closeBlocking()
	}
	err := o.node.do(func() error {
		o.part.Poll()
		o.part.Fail(errClosedEarly)             // if it has not ended: its consumers hear of it
		for all := false; !all; o.part.Poll() { // what found no room in the ring goes back, too
			all = o.out.Publish()
		}
		o.node.loop.RemoveSource(o.part)
		return nil
	})
	o.pool.Close()
	return err
}

// end is part of closer.
func (o *Output) end() {
	o.closed.Store(true)
	o.attention.Store(1)
	o.pool.Notifier().Wake()
	o.cfg.Task.wake() // it may wait for room, in its input's Next
}

// errClosedEarly is what consumers get from an output that was closed before all of them had everything.
var errClosedEarly = fmt.Errorf("the output was %w before its end", ErrClosed)
