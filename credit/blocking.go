package credit

import (
	"errors"
	"fmt"
	"os"
	"sync/atomic"

	"github.com/weirflow/weir/credit/spool"
	"github.com/weirflow/weir/segment"
)

// BlockingConfig describes a blocking partition.
type BlockingConfig struct {
	// ID is how consumers ask for the partition.
	ID PartitionID
	// Subpartitions is the number of subpartitions, at least 1.
	Subpartitions int
	// Pool is where the partition takes its share of memory: Buffers segments at most, one more than it has subpartitions at least,
	// and Overdraft for a record that is under way. Name is the share's, for reports. The writer fills them; once the file is
	// finished they are what it is read into.
	Pool      *segment.Pool
	Name      string
	Buffers   int
	Overdraft int
	// Profile is the release line of the consumers: with Flink23 small buffers travel together.
	Profile Profile
	// Codec compresses each buffer of data that gets smaller by it. LZO is an error.
	Codec Codec
	// Dir is where the file is made; empty: the system's directory for temporary files.
	Dir string
	// Files is the file system; nil: the operating system's.
	Files spool.FS
	// InMemory reads everything into segments, also where it could be sent from the file.
	InMemory bool
	// Wake wakes the loop. It must be cheap when the loop is awake. May be nil.
	Wake func()
	// OnChange is called by the disk's goroutine when the writer has to look: Finished, Failed or CutWanted. May be nil.
	OnChange func()
	// OnRead is called by the loop when a consumer that had all of a subpartition has gone. May be nil.
	OnRead func(subpartition int)
}

// BlockingPartition is a partition that is written to a file, finished, and then read by any number of consumers, each
// subpartition as often as wanted (SortMergeResultPartition). It has three parts with an owner each, and queues in between:
//
//	PartitionWriter     the writing goroutine's: the same as of a pipelined partition
//	disk                one goroutine's, which runs Run: writes the file, then reads ahead for the views
//	BlockingPartition   the loop's: the views. All methods are for it, unless they say otherwise
//
// Consumers may come before the file is finished: they wait. (Flink refuses them: its scheduler never sends one early.)
//
// What goes wrong with the file is the error of whoever needs what cannot be had: of the writer and all consumers if it cannot be
// written, of one consumer if a part of it cannot be read. It never reaches another partition, or another channel.
type BlockingPartition struct {
	cfg      BlockingConfig
	disk     *disk
	writer   *PartitionWriter
	views    []*blockingView
	reads    []int32 // how often each subpartition was read to its end
	had      []bool  // a consumer has come
	failed   error
	registry *Registry
	results  []diskResult // scratch
	released bool
}

// NewBlockingPartition makes the parts of a partition. Somebody must then call Run, in a goroutine of its own, and Close.
func NewBlockingPartition(cfg BlockingConfig) (*BlockingPartition, *PartitionWriter, error) {
	switch {
	case cfg.Subpartitions < 1 || cfg.Subpartitions > spool.MaxSubpartitions:
		return nil, nil, fmt.Errorf("credit: %w: a partition of %d subpartitions", ErrConfig, cfg.Subpartitions)
	case cfg.Pool == nil:
		return nil, nil, fmt.Errorf("credit: %w: a partition without a pool", ErrConfig)
	}
	cfg.Buffers = max(cfg.Buffers, cfg.Subpartitions+1)
	if cfg.Files == nil {
		cfg.Files = spool.OS{}
	}
	if cfg.Dir == "" {
		cfg.Dir = os.TempDir()
	}
	d, err := newDisk(cfg)
	if err != nil {
		return nil, nil, err
	}
	p := &BlockingPartition{cfg: cfg, disk: d, reads: make([]int32, cfg.Subpartitions), had: make([]bool, cfg.Subpartitions)}
	p.writer = &PartitionWriter{ring: d.ring, shared: d.shared, pool: d.pool, wake: d.bell.Wake, finished: make([]bool, cfg.Subpartitions)}
	return p, p.writer, nil
}

// ID returns the partition's id.
func (p *BlockingPartition) ID() PartitionID { return p.cfg.ID }

// Subpartitions returns the number of subpartitions.
func (p *BlockingPartition) Subpartitions() int { return p.cfg.Subpartitions }

// Pool is the partition's share of memory. It is the writing goroutine's until Finished, then the disk's.
func (p *BlockingPartition) Pool() *segment.LocalPool { return p.disk.pool }

// Path is where the file is; empty if it was not made yet. Any goroutine.
func (p *BlockingPartition) Path() string { return p.disk.where() }

// Finished reports whether the file is complete and can be read. Any goroutine.
func (p *BlockingPartition) Finished() bool { return p.disk.finished.Load() }

// Failed returns why the file could not be written, nil if it could so far. Any goroutine.
func (p *BlockingPartition) Failed() error { return p.disk.failure() }

// CutWanted reports whether the region is large enough to be ended: the writer finishes its buffers at the end of a record, and
// calls PartitionWriter.Cut. The writing goroutine.
func (p *BlockingPartition) CutWanted() bool { return p.disk.cutWanted.Load() }

// Run does the disk's work until Close. It belongs to a goroutine of its own, as it waits for the disk.
func (p *BlockingPartition) Run() { p.disk.run() }

// Step does a piece of the disk's work and reports whether there was any: instead of Run, for tests and simulations on one
// goroutine.
func (p *BlockingPartition) Step() bool { return p.disk.step() }

// Reads returns how often a subpartition was read to its end: its consumer said that it has processed everything, or had got everything
// when it closed the channel.
func (p *BlockingPartition) Reads(subpartition int) int { return int(p.reads[subpartition]) }

// HadView reports whether a consumer of the subpartition has come, ever.
func (p *BlockingPartition) HadView(subpartition int) bool { return p.had[subpartition] }

// Consumers returns how many consumers a subpartition has.
func (p *BlockingPartition) Consumers(subpartition int) (n int) {
	for _, v := range p.views {
		if int(v.subs.First) <= subpartition && subpartition <= int(v.subs.Last) {
			n++
		}
	}
	return n
}

// Released reports whether the partition was released.
func (p *BlockingPartition) Released() bool { return p.released }

// Poll takes what the disk's goroutine brought, and reports whether there was something. Listeners of views are called on the way.
// It is a source of a loop (netio.Source).
func (p *BlockingPartition) Poll() (worked bool) {
	if p.disk.results.empty() {
		return false
	}
	p.results = p.disk.results.take(p.results[:0])
	for i := range p.results {
		r := &p.results[i]
		if r.view != nil {
			r.view.arrive(r.n, r.err)
			continue
		}
		p.failed = r.err
		for _, v := range p.views {
			v.arrive(0, r.err)
		}
	}
	clear(p.results)
	return true
}

// CreateView opens a view of one subpartition or of a range. Any number of views of each may be open, or have been. l hears of it
// when there is something; it is not called by CreateView itself.
func (p *BlockingPartition) CreateView(r SubpartitionRange, l ViewListener) (View, error) {
	switch {
	case !r.Valid() || int64(r.Last) >= int64(p.cfg.Subpartitions):
		return nil, fmt.Errorf("%w: %s of %d of %s", errNoSubpartition, r, p.cfg.Subpartitions, p.cfg.ID)
	case p.released:
		return nil, fmt.Errorf("%w: partition %s", ErrReleased, p.cfg.ID)
	}
	for s := r.First; s <= r.Last; s++ {
		p.had[s] = true
	}
	v := newBlockingView(p, r, l)
	if p.failed != nil {
		// The error of this consumer, and of no other channel on its connection.
		v.err = p.failed
		return v, nil
	}
	p.disk.send(diskCommand{view: v, kind: diskOpen})
	return v, nil
}

// Release gives everything back; consumers are told nothing.
func (p *BlockingPartition) Release() { p.release(nil) }

// Fail releases the partition with a cause, which its consumers are told.
func (p *BlockingPartition) Fail(cause error) { p.release(cause) }

func (p *BlockingPartition) release(cause error) {
	if p.released {
		return
	}
	p.released = true
	if p.registry != nil {
		p.registry.forget(p)
	}
	p.disk.shared.fail(cause)
	if cause != nil {
		cause = fmt.Errorf("blocking partition %s: %w", p.cfg.ID, cause)
	}
	for len(p.views) > 0 {
		p.views[len(p.views)-1].end(cause)
	}
}

func (p *BlockingPartition) entered(g *Registry) { p.registry = g }

// Close ends Run and waits until it has returned: the file is removed then. The partition was released before, and its writer is done.
// Any goroutine, but not the loop: it waits for the disk. Poll is to be called once more after it. The error is that of
// removing the file.
func (p *BlockingPartition) Close() error {
	p.disk.close()
	for all := false; !all; { // what found no room in the ring goes home, too
		all = p.writer.pushLate()
		p.disk.empty()
	}
	return p.disk.removed
}

// fail marks the partition as gone, as the writer sees it.
func (p *partitionState) fail(cause error) {
	if p.gone.Load() {
		return
	}
	if cause != nil {
		p.failure.Store(&cause)
	}
	p.gone.Store(true)
	for i := range p.subs {
		p.subs[i].released.Store(true)
	}
	p.live.Store(0)
}

// BlockingError says what went wrong with the file of a blocking partition.
type BlockingError struct {
	Partition PartitionID
	// Range is the subpartitions that were to be read; nil: it concerns all.
	Range *SubpartitionRange
	// Path is the file.
	Path string
	// Err is the file system's error, or wraps spool.ErrCorrupt.
	Err error
}

func (e *BlockingError) Error() string {
	subs := ""
	if e.Range != nil {
		subs = fmt.Sprintf(", subpartition %s", e.Range)
	}
	return fmt.Sprintf("blocking partition %s%s, file %q: %v", e.Partition, subs, e.Path, e.Err)
}

// Unwrap returns the cause.
func (e *BlockingError) Unwrap() error { return e.Err }

var errBlockingView = errors.New("not supported by a view of a blocking partition")

// itemCut ends a region: the writer has finished its buffers, at the end of a record.
const itemCut itemKind = 1 << 7

// Cut tells the disk that all buffers are finished, at the end of a record, so that a region may end. For writers of blocking
// partitions; see BlockingPartition.CutWanted.
func (w *PartitionWriter) Cut() {
	w.put(item{kind: itemCut})
	w.wakeUp()
}

// diskKind is what the loop wants of the disk.
type diskKind uint8

const (
	diskOpen    diskKind = iota // a view wants to read
	diskMore                    // n messages of a view were polled: there is room for as many
	diskRelease                 // a view wants no more
	diskQuit                    // end, and remove the file
)

type diskCommand struct {
	view *blockingView
	n    int32
	kind diskKind
}

// diskResult is n more messages of a view, or why there are none; without a view it is why the file could not be written.
type diskResult struct {
	view *blockingView
	err  error
	n    int32
}

// diskFlags are what the disk tells any goroutine.
type diskFlags struct {
	finished  atomic.Bool
	cutWanted atomic.Bool
	err       atomic.Pointer[error]
	path      atomic.Pointer[string]
}

func (f *diskFlags) failure() error {
	if e := f.err.Load(); e != nil {
		return *e
	}
	return nil
}

func (f *diskFlags) where() string {
	if p := f.path.Load(); p != nil {
		return *p
	}
	return ""
}
