package credit

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/weirflow/weir/ringbuf"
	"github.com/weirflow/weir/segment"
	"github.com/weirflow/weir/serde/event"
)

// PartitionConfig describes a pipelined partition.
type PartitionConfig struct {
	// ID is how consumers ask for the partition.
	ID PartitionID
	// Subpartitions is the number of subpartitions, at least 1.
	Subpartitions int
	// Pool is the writer's pool; it belongs to the writer.
	Pool *segment.LocalPool
	// Segments is how many segments of Pool can be in use at once (its Max and Overdraft): the ring between the halves
	// has room for as many.
	Segments int
	// Events is the room for events, flushes and commands in that ring; 0: four for each subpartition and 64. What finds
	// no room waits at the writer.
	Events int
	// Exclusive is the number of exclusive buffers per channel that this process is configured with. With 0 a finished
	// buffer without bytes is sent as an empty data message, since the consumer may have reserved a buffer for it. (The
	// decision is not made by the credit of the request.)
	Exclusive int
	// Profile is the release line whose rules hold: in 1.20 a priority event waits while the subpartition is blocked.
	Profile Profile
	// Sink takes in-flight data of unaligned checkpoints; nil: nobody does.
	Sink OutputSink
	// BufferSize is the size of buffers in bytes that consumers want at first; 0: no wish.
	BufferSize int32
	// KeepCancelled keeps queueing for a consumer that has gone, as Flink does, until the whole partition is released.
	KeepCancelled bool
	// SilentFailure does not tell consumers of a failure until they are served for another reason, as Flink does.
	SilentFailure bool
	// Wake wakes the loop; called by the writer, at most once for each batch. It must be cheap when the loop is awake. May be nil.
	Wake func()
	// OnAllAcked is called by the loop once every consumer has processed all records. May be nil.
	OnAllAcked func()
	// OnConsumed is called by the loop for each subpartition whose consumer has gone, done or not. May be nil.
	OnConsumed func(subpartition int)
	// OnReleased is called by the loop once, when the partition was released. May be nil.
	OnReleased func()
}

// partitionState is what both halves of a partition see.
type partitionState struct {
	subs []subState
	// parts counts what the writer does to shared segments.
	parts segment.Signal
	// fence is a barrier between the last part and the look whether the loop sleeps.
	fence atomic.Uint32
	// stalled tells the loop that the writer holds back items for which the ring had no room.
	stalled atomic.Bool
	// allAcked: every consumer has processed all records.
	allAcked atomic.Bool
	// gone: the partition was released, for whatever reason.
	gone atomic.Bool
	// live is the number of subpartitions that were not released.
	live atomic.Int32
	// failure is why, if it failed.
	failure atomic.Pointer[error]
}

func (p *partitionState) sub(i int32) *subState { return &p.subs[i] }

// subState is what the writer sees of a subpartition: written by the loop, read by the writer at each buffer.
type subState struct {
	released atomic.Bool
	acked    atomic.Bool
	hint     atomic.Int32
}

// itemKind says what an item of the ring is.
type itemKind uint8

const (
	itemAdd itemKind = iota
	itemFlush
	itemFlushAll
	itemFinish
	itemClose
	itemFail
	itemReclaim
	itemThen
	itemRun
)

// item is one thing that the writer tells the loop.
type item struct {
	r       segment.Reader
	arg     any // itemFail: error; itemThen: func()
	sub     int32
	partial int32
	kind    itemKind
}

// maxItemsPerPoll bounds the work of one Poll.
const maxItemsPerPoll = 4096

// Partition is the loop half of a pipelined result partition (PipelinedResultPartition): it takes what its writer hands
// over, holds the subpartitions, and ends when its consumers and its writer are done. All methods belong to one
// goroutine, or to whoever holds the loop's token. The other half is a PartitionWriter.
type Partition struct {
	cfg           PartitionConfig
	id            PartitionID
	profile       Profile
	emptyMessages bool
	sink          OutputSink
	shared        *partitionState
	ring          *ringbuf.SPSC[item]
	subs          []Subpartition
	dirty         []*Subpartition // whose last element may be unfinished
	runs          []*Subpartition // that follow a shared segment
	partsSeen     int32           // of partitionState.parts
	users         int             // consumers and the writer
	acks          int             // subpartitions not acknowledged
	cause         error
	writerClosed  bool
	registry      *Registry // where it is registered; nil: nowhere

	packed    packed
	packLimit int              // bytes of a message of several buffers
	scratch   []segment.Buffer // for copies of overtaken data
	event     event.Event      // for decoding barriers
}

// ErrConfig: a configuration that cannot work.
var ErrConfig = errors.New("bad configuration")

// NewPartition makes both halves of a partition. The writer half may be used at once; consumers find the partition when
// it was registered (Registry.Register).
func NewPartition(cfg PartitionConfig) (*Partition, *PartitionWriter, error) {
	switch {
	case cfg.Subpartitions < 1:
		return nil, nil, fmt.Errorf("credit: %w: a partition of %d subpartitions", ErrConfig, cfg.Subpartitions)
	case cfg.Segments < 1:
		return nil, nil, fmt.Errorf("credit: %w: a partition with %d segments", ErrConfig, cfg.Segments)
	case cfg.Pool == nil:
		return nil, nil, fmt.Errorf("credit: %w: a partition without a pool", ErrConfig)
	}
	if cfg.Events <= 0 {
		cfg.Events = 4*cfg.Subpartitions + 64
	}
	shared := &partitionState{subs: make([]subState, cfg.Subpartitions)}
	p := &Partition{
		cfg:           cfg,
		id:            cfg.ID,
		profile:       cfg.Profile,
		emptyMessages: cfg.Exclusive == 0,
		packLimit:     min(cfg.Pool.SegmentSize(), packMost),
		sink:          cfg.Sink,
		shared:        shared,
		// Every segment, if each is in one subpartition, and the events.
		ring:  ringbuf.NewSPSC[item](cfg.Segments + cfg.Events),
		subs:  make([]Subpartition, cfg.Subpartitions),
		dirty: make([]*Subpartition, 0, cfg.Subpartitions),
		users: cfg.Subpartitions + 1,
		acks:  cfg.Subpartitions,
	}
	shared.live.Store(int32(cfg.Subpartitions))
	for i := range p.subs {
		p.subs[i].part, p.subs[i].index = p, int32(i)
		shared.subs[i].hint.Store(cfg.BufferSize)
	}
	if got := p.ring.Cap(); got < cfg.Segments+cfg.Events {
		panic(fmt.Sprintf("credit: ring of %d for %d segments and %d events", got, cfg.Segments, cfg.Events))
	}
	return p, newPartitionWriter(p), nil
}

// ID returns the partition's id.
func (p *Partition) ID() PartitionID { return p.id }

// Subpartitions returns the number of subpartitions.
func (p *Partition) Subpartitions() int { return len(p.subs) }

// Subpartition returns subpartition i.
func (p *Partition) Subpartition(i int) *Subpartition { return &p.subs[i] }

// Released reports whether the partition was released.
func (p *Partition) Released() bool { return p.shared.gone.Load() }

// Poll takes what the writer handed over and reports whether there was something. Listeners of views are called on
// the way. It is a source of a loop (netio.Source).
func (p *Partition) Poll() (worked bool) { return p.pollAtMost(maxItemsPerPoll) }

func (p *Partition) pollAtMost(left int) (worked bool) {
	for left > 0 {
		a, b := p.ring.View()
		if len(a) == 0 {
			break
		}
		a = a[:min(len(a), left)]
		b = b[:min(len(b), left-len(a))]
		for i := range a {
			p.take(&a[i])
		}
		for i := range b {
			p.take(&b[i])
		}
		p.ring.Consume(len(a) + len(b))
		left -= len(a) + len(b)
		worked = true
	}
	if p.takeRuns() {
		worked = true
	}
	if worked && p.shared.stalled.Load() {
		p.cfg.Pool.Notifier().Wake() // the writer may sleep for room
	}
	return worked
}

// drain takes everything that the writer has published so far, but not what it goes on to publish.
func (p *Partition) drain() { p.pollAtMost(p.ring.Len()) }

// Done reports whether nothing will come from the ring any more: the partition was released and its writer is closed. The
// loop polls it until then.
func (p *Partition) Done() bool { return p.writerClosed && p.Released() }

// take does one item.
func (p *Partition) take(it *item) {
	switch it.kind {
	case itemAdd:
		p.subs[it.sub].takeParts()
		p.subs[it.sub].add(it.r, it.partial)
	case itemRun:
		p.subs[it.sub].takeParts()
		p.subs[it.sub].follow(it.r)
	case itemFlush:
		p.subs[it.sub].takeParts()
		p.subs[it.sub].flush()
	case itemFlushAll:
		p.takeRuns()
		for i := range p.subs {
			p.subs[i].flush()
		}
	case itemFinish:
		p.subs[it.sub].takeParts()
		p.subs[it.sub].finish()
	case itemClose:
		p.takeRuns()
		p.writerClosed = true
		p.userGone()
	case itemFail:
		cause, _ := it.arg.(error)
		p.Fail(cause)
	case itemReclaim:
		p.takeRuns()
		for _, s := range p.dirty {
			s.reclaim()
		}
	case itemThen:
		p.takeRuns()
		it.arg.(func())()
	}
}

// markDirty puts a subpartition on the list that FlushDirty goes over.
func (p *Partition) markDirty(s *Subpartition) {
	if !s.dirty {
		s.dirty = true
		p.dirty = append(p.dirty, s)
	}
}

// FlushDirty flushes every subpartition that may hold an unfinished buffer: what a flush timer calls (by default each
// 100 ms, execution.buffer-timeout.interval). It needs nothing from the writer, which may be stuck in user code. It reports
// whether there is something left to flush at the next tick.
func (p *Partition) FlushDirty() bool {
	kept := p.dirty[:0]
	for _, s := range p.dirty {
		s.flush()
		s.reclaim()
		if last := s.queue.Back(); last != nil && last.r.Type().IsBuffer() && !last.r.Finished() {
			kept = append(kept, s)
		} else {
			s.dirty = false
		}
	}
	clear(p.dirty[len(kept):])
	p.dirty = kept
	return len(kept) > 0
}

// AlignedBarrierTimeout: the aligned timeout of checkpoint id has passed. Wherever its barrier is still queued it becomes
// unaligned. What the writer has published before is taken in first.
func (p *Partition) AlignedBarrierTimeout(id int64) {
	p.drain()
	for i := range p.subs {
		p.subs[i].AlignedBarrierTimeout(id)
	}
}

// AbortCheckpoint breaks what was promised for checkpoint id. Its barriers stay queued.
func (p *Partition) AbortCheckpoint(id int64, cause error) {
	p.drain()
	for i := range p.subs {
		p.subs[i].AbortCheckpoint(id, cause)
	}
}

// CreateView opens a view of one subpartition or of a range. Errors: no such subpartition, released, already consumed.
// l hears of it when there is something; it is not called by CreateView itself.
func (p *Partition) CreateView(r SubpartitionRange, l ViewListener) (View, error) {
	switch {
	case !r.Valid() || int64(r.Last) >= int64(len(p.subs)):
		return nil, fmt.Errorf("%w: %s of %d of %s", errNoSubpartition, r, len(p.subs), p.id)
	case p.Released():
		return nil, fmt.Errorf("%w: partition %s", ErrReleased, p.id)
	case r.First == r.Last:
		return p.subs[r.First].newView(l)
	}
	return newUnionView(p, r, l)
}

var errNoSubpartition = errors.New("subpartition not found")

// failureCause is what a consumer is told of a failure of the producer.
func (p *Partition) failureCause() error {
	if p.cause == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", ErrProducerFailed, p.cause)
}

// Fail releases the partition with a cause, which its consumers are told.
func (p *Partition) Fail(cause error) {
	if cause == nil {
		cause = ErrProducerFailed
	}
	p.release(cause)
}

// Release gives everything back; consumers are told nothing.
func (p *Partition) Release() { p.release(nil) }

func (p *Partition) release(cause error) {
	if p.Released() {
		return
	}
	p.cause = cause
	if cause != nil {
		p.shared.failure.Store(&cause)
	}
	p.shared.gone.Store(true)
	if p.registry != nil {
		p.registry.forget(p)
	}
	why := cause
	if why == nil {
		why = ErrReleased
	}
	for i := range p.subs {
		s := &p.subs[i]
		view := s.view
		s.release(why)
		if cause != nil && !p.cfg.SilentFailure && view != nil && view.listener != nil {
			view.listener.DataAvailable()
		}
	}
	p.cfg.Pool.Notifier().Wake()
	if f := p.cfg.OnReleased; f != nil {
		f()
	}
}

func (p *Partition) entered(g *Registry) { p.registry = g }

// userGone counts down consumers and the writer; the last one releases the partition.
func (p *Partition) userGone() {
	if p.users--; p.users == 0 {
		p.release(nil)
	}
}

// ackedOne counts the subpartitions whose consumer has processed all records.
func (p *Partition) ackedOne() {
	p.acks--
	if p.acks == 0 {
		p.shared.allAcked.Store(true)
	}
	p.cfg.Pool.Notifier().Wake() // the writer may wait for the last one that has not gone
	if p.acks > 0 {
		return
	}
	if f := p.cfg.OnAllAcked; f != nil {
		f()
	}
}

// giveBack releases copies of overtaken data.
func (p *Partition) giveBack(bufs []segment.Buffer) {
	for i := range bufs {
		bufs[i].Release()
		bufs[i] = segment.Buffer{}
	}
}
