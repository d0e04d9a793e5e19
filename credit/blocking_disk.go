package credit

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/weirflow/weir/credit/spool"
	"github.com/weirflow/weir/ringbuf"
	"github.com/weirflow/weir/segment"
)

// disk is the part of a blocking partition that does I/O, on a goroutine of its own: it stores what the writer hands over and,
// once the file is finished, reads ahead for the views. It decides nothing: intakePlan, readPlan and spool.Cursor do.
type disk struct {
	diskFlags
	cfg    BlockingConfig
	ring   *ringbuf.SPSC[item]
	shared *partitionState
	pool   *segment.LocalPool
	bell   *ringbuf.Notifier // where the goroutine sleeps
	runs   atomic.Bool       // somebody runs it
	done   chan struct{}     // closed when it has ended
	ended  bool

	commands handover[diskCommand]
	results  handover[diskResult]
	batch    []diskCommand // scratch

	in      *intake // until the file is finished, or failed
	layout  spool.Layout
	reader  spool.ReadFile
	file    *segment.File // reader, for messages that are parts of it
	removed error

	waiting []*diskReader // came before the file was finished
	plan    readPlan
	base    int           // plan.limit without what many readers have made of it
	members []*diskReader // by tag of their segments, minus 1
	free    []uint32
	scratch []byte
}

// diskCursor is where the reader of a view stands.
type diskCursor struct {
	view     *blockingView
	cursor   *spool.Cursor // nil until the file is finished
	produced uint32        // messages, ever
	tag      uint32
}

func (c *diskCursor) at() int64 {
	if c.cursor == nil {
		return 0
	}
	return c.cursor.At()
}

func newDisk(cfg BlockingConfig) (*disk, error) {
	d := &disk{cfg: cfg, bell: ringbuf.NewNotifier(), done: make(chan struct{}),
		shared: &partitionState{subs: make([]subState, cfg.Subpartitions)}}
	d.shared.live.Store(int32(cfg.Subpartitions))
	segments := cfg.Buffers + cfg.Overdraft
	d.ring = ringbuf.NewSPSC[item](segments + 4*cfg.Subpartitions + 64)
	var err error
	d.pool, err = cfg.Pool.NewLocal(segment.LocalConfig{
		Name: cfg.Name, Purpose: segment.Send, Required: cfg.Subpartitions + 1, Max: cfg.Buffers,
		Subpartitions: cfg.Subpartitions, Overdraft: cfg.Overdraft, OnReturn: d.home, Wake: d.bell.Wake,
	})
	if err != nil {
		return nil, err
	}
	if d.in, err = newIntake(d); err != nil {
		if d.in != nil {
			d.in.close()
		}
		d.pool.Close()
		return nil, err
	}
	return d, nil
}

func (d *disk) error(r *SubpartitionRange, err error) error {
	return &BlockingError{Partition: d.cfg.ID, Range: r, Path: d.where(), Err: err}
}

// changed lets the writer look.
func (d *disk) changed() {
	if f := d.cfg.OnChange; f != nil {
		f()
	}
	d.pool.Notifier().Wake()
}

// send gives the goroutine something to do. Called by the loop.
func (d *disk) send(c diskCommand) {
	d.commands.put(c)
	d.bell.Wake()
}

// deliver brings something to the loop.
func (d *disk) deliver(r diskResult) {
	d.results.put(r)
	if f := d.cfg.Wake; f != nil {
		f()
	}
}

// run works until diskQuit.
func (d *disk) run() {
	if d.runs.Swap(true) {
		return
	}
	defer close(d.done)
	for !d.ended {
		if d.step() {
			continue
		}
		d.bell.Prepare()
		if d.step() || d.ended {
			d.bell.Cancel()
			continue
		}
		_ = d.bell.Wait(nil) // without a context it ends by a wake-up only
	}
}

// step does a piece of work and reports whether there was any.
func (d *disk) step() (worked bool) {
	if d.ended {
		return false
	}
	if !d.commands.empty() {
		d.batch = d.commands.take(d.batch[:0])
		for i := range d.batch {
			d.do(&d.batch[i])
		}
		clear(d.batch)
		worked = true
	}
	switch {
	case d.ended:
	case !d.finished.Load():
		if d.write() {
			worked = true
		}
	default:
		if d.pool.Drain() > 0 {
			worked = true
		}
		if r := d.plan.next(); r != nil && d.readAhead(r) {
			worked = true
		}
	}
	return worked
}

// write takes what the writer has handed over. After a failure, it goes home.
func (d *disk) write() (worked bool) {
	for n := maxItemsPerPoll; n > 0; n-- {
		it, ok := d.ring.Pop()
		if !ok {
			break
		}
		worked = true
		if err := d.take(&it); err != nil {
			d.fail(d.error(nil, err))
		}
		if d.finished.Load() {
			return true
		}
	}
	if worked && d.shared.stalled.Load() {
		d.pool.Notifier().Wake() // the writer may sleep for room
	}
	return worked
}

func (d *disk) take(it *item) error {
	if d.in == nil && it.kind != itemThen {
		it.r.Close()
		return nil
	}
	switch it.kind {
	case itemAdd:
		return d.in.add(it.sub, it.r)
	case itemFinish:
		return d.in.finish(it.sub)
	case itemReclaim:
		return d.in.spill()
	case itemCut:
		return d.in.endRegion()
	case itemClose:
		return d.complete()
	case itemFail:
		cause, _ := it.arg.(error)
		d.fail(cause)
	case itemThen:
		it.arg.(func())()
	}
	return nil // flushes: nobody reads before the end
}

// complete ends the file and opens it for the readers.
func (d *disk) complete() error {
	err := d.in.complete()
	if err == nil {
		d.reader, d.layout, err = spool.OpenFile(d.cfg.Files, d.where())
	}
	if err != nil {
		return err
	}
	d.in.close()
	d.in = nil
	if d.layout.Partition != d.cfg.ID || int(d.layout.Subpartitions) != d.cfg.Subpartitions {
		return fmt.Errorf("%w: it is that of another partition", spool.ErrCorrupt)
	}
	d.file = segment.NewFile(d.reader)
	d.scratch = make([]byte, max(d.pool.SegmentSize(), spool.MaxSpan))
	// The writer is done with its segments: they are what the file is read into. More than one for each reader make it faster, if they
	// are to be had.
	d.plan.limit = d.cfg.Subpartitions + 1
	if n := d.cfg.Buffers - d.plan.limit; n > 0 && d.pool.Grow(n, 0) == nil {
		d.plan.limit = d.cfg.Buffers
	}
	d.base = d.plan.limit
	d.finished.Store(true)
	for _, r := range d.waiting {
		d.begin(r)
	}
	d.waiting = nil
	d.changed()
	return nil
}

// fail ends the partition: it cannot be written.
func (d *disk) fail(err error) {
	if d.err.Load() != nil {
		return
	}
	d.err.Store(&err)
	d.shared.fail(err)
	if d.in != nil {
		d.in.close()
		d.in = nil
	}
	d.waiting = nil
	d.deliver(diskResult{err: err})
	d.changed()
}

// do carries out a command of the loop.
func (d *disk) do(c *diskCommand) {
	switch c.kind {
	case diskQuit:
		if !d.ended {
			d.quit()
		}
	case diskOpen:
		r := &diskReader{diskCursor: diskCursor{view: c.view}, needs: !c.view.files}
		c.view.reader = r
		if d.finished.Load() {
			d.begin(r)
		} else if d.err.Load() == nil {
			d.waiting = append(d.waiting, r)
		}
	case diskMore:
		r := c.view.reader
		r.out -= int(c.n)
		d.plan.wake(r)
	case diskRelease:
		if r := c.view.reader; r != nil {
			c.view.reader = nil
			d.leave(r)
		}
	}
}

// begin gives a reader its place in the file.
func (d *disk) begin(r *diskReader) {
	v := r.view
	var err error
	r.cursor, err = spool.NewCursor(spool.CursorConfig{Layout: d.layout, First: v.subs.First, Last: v.subs.Last, Merge: v.merge})
	if err != nil {
		r.ended = true
		d.deliver(diskResult{view: v, err: d.error(&v.subs, err)})
		return
	}
	if r.needs {
		d.addMember(r)
	}
	if more := d.plan.join(r); more > 0 {
		if err := d.pool.Grow(more, more); err != nil {
			d.plan.leave(r)
			d.deliver(diskResult{view: v, err: d.error(&v.subs, fmt.Errorf("no memory to read it into: %w", err))})
			return
		}
		d.plan.limit += more
	}
}

// leave ends the reader of a view that was released.
func (d *disk) leave(r *diskReader) {
	if i := slices.Index(d.waiting, r); i >= 0 {
		d.waiting = slices.Delete(d.waiting, i, i+1)
	}
	if r.cursor == nil {
		return // it never began
	}
	d.plan.leave(r)
	r.cursor = nil
	d.dropMember(r)
	if n := d.plan.limit - max(d.base, d.plan.members); n > 0 && d.pool.Grow(-n, -n) == nil {
		d.plan.limit -= n
	}
}

// addMember gives a reader the tag that its segments come home with.
func (d *disk) addMember(r *diskReader) {
	if n := len(d.free); n > 0 {
		r.tag, d.free = d.free[n-1], d.free[:n-1]
		d.members[r.tag-1] = r
		return
	}
	d.members = append(d.members, r)
	r.tag = uint32(len(d.members))
}

// dropMember gives the tag of a reader that has left to another one, once no segment has it any more.
func (d *disk) dropMember(r *diskReader) {
	if r.tag != 0 && r.held == 0 && r.cursor == nil {
		d.members[r.tag-1] = nil
		d.free = append(d.free, r.tag)
		r.tag = 0
	}
}

// home counts a segment that came home: the pool calls it.
func (d *disk) home(tag uint32) {
	if tag == 0 {
		return // it was the writer's
	}
	r := d.members[tag-1]
	d.plan.returned(r)
	d.dropMember(r)
}

// readAhead reads for a reader as far as it has room, and brings that to its view. It returns false if it could not even begin.
func (d *disk) readAhead(r *diskReader) bool {
	n := int32(0)
	var err error
	more := true
	for more && err == nil && r.out < blockingWindow && d.plan.mayTake(r) {
		if more, err = d.read(r); more && err == nil {
			r.out++
			n++
		}
	}
	switch {
	case err == errPoolDry:
		// The pool's change will wake us: what is guaranteed is on its way back from another pool.
		err = nil
		d.plan.wake(r)
	case err != nil:
		err = d.error(&r.view.subs, err)
		d.plan.leave(r)
	case !more:
		d.plan.leave(r)
	default:
		d.plan.wake(r)
	}
	if n > 0 || err != nil {
		d.deliver(diskResult{view: r.view, n: n, err: err})
	}
	return n > 0 || err != nil || !more
}

// errPoolDry: the pool has none now although it is sure to have one soon.
var errPoolDry = errors.New("no segment")

// read brings the next message of a reader into its slot. more is false at the end.
func (d *disk) read(r *diskReader) (more bool, err error) {
	for {
		span, need := r.cursor.Need()
		if !need {
			break
		}
		p := d.scratch[:span.Len]
		if err := spool.ReadFull(d.reader, p, span.At); err != nil {
			return false, err
		}
		if err := r.cursor.Feed(p); err != nil {
			return false, err
		}
	}
	group := r.cursor.Group()
	if len(group) == 0 {
		return false, nil
	}
	buf, err := d.load(r, group)
	if err != nil {
		return false, err
	}
	s := r.view.slot(r.produced)
	r.produced++
	s.buf, s.typ, s.sizes = buf, group[0].Type, s.sizes[:0]
	if r.view.merge > 0 {
		for i := range group {
			s.sizes = append(s.sizes, group[i].Len)
		}
	}
	r.cursor.Advance()
	return true, nil
}

// load reads the bytes of a group, which lie one behind the other, and checks them. Data that is sent from the file is read, too: so
// that it is known to be good, and is in the system's cache when the loop sends it.
func (d *disk) load(r *diskReader, group []spool.Entry) (buf segment.Buffer, err error) {
	first := &group[0]
	total := 0
	for i := range group {
		total += int(group[i].Len)
	}
	p := d.scratch
	segmented := false
	switch {
	case first.Type.IsEvent():
		p = make([]byte, total)
	case r.needs:
		b, ok := d.pool.Take()
		if !ok {
			return buf, errPoolDry
		}
		b.SetTag(r.tag)
		d.plan.took(r)
		buf, p, segmented = b, b.Memory(), true
	}
	p = p[:total]
	if err = spool.ReadFull(d.reader, p, first.At); err == nil {
		err = spool.Check(group, p)
	}
	switch {
	case err != nil && segmented:
		d.pool.Put(buf)
		return segment.Buffer{}, err
	case err != nil:
		return buf, err
	case segmented:
		buf = buf.Resized(total).WithType(first.Type)
	case first.Type.IsEvent():
		buf = segment.Wrap(p, first.Type)
	default:
		buf = d.file.Wrap(first.At, total, first.Type)
	}
	return buf.WithCompressed(first.Compressed), nil
}

// quit ends everything.
func (d *disk) quit() {
	d.ended = true
	d.shared.fail(nil)
	if d.in != nil {
		d.in.close()
		d.in = nil
	}
	d.empty()
	// Messages that are still on their way out keep the file open, but not its name.
	if d.file != nil {
		_ = d.file.Close() // it was only read
	} else if d.reader != nil {
		_ = d.reader.Close()
	}
	if path := d.where(); path != "" {
		if err := d.cfg.Files.Remove(path); err != nil {
			d.removed = d.error(nil, err)
		}
	}
}

// empty gives back what the writer has handed over.
func (d *disk) empty() {
	for {
		it, ok := d.ring.Pop()
		if !ok {
			return
		}
		it.r.Close()
	}
}

// close waits for the end, or brings it about if nobody runs the disk.
func (d *disk) close() {
	d.send(diskCommand{kind: diskQuit})
	d.run()
	<-d.done
}
