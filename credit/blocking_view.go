package credit

import (
	"fmt"

	"github.com/weirflow/weir/segment"
)

// blockingWindow is how many messages the disk reads ahead for each view, if there is memory for as many: four batches, so that it
// works while they are sent.
const blockingWindow = 64

// blockingSlot is a message that was read ahead: filled by the disk, emptied by the loop.
type blockingSlot struct {
	buf   segment.Buffer
	typ   segment.DataType
	sizes []int32 // of its buffers, if it was packed
}

// blockingView is a consumer's cursor over a blocking partition (SortMergeSubpartitionReader): what the disk has read ahead, in
// order. Its backlog is the data among that. It can neither be blocked nor overtaken, and has no say in the size of buffers.
type blockingView struct {
	part     *BlockingPartition
	listener ViewListener
	subs     SubpartitionRange
	fixed    int32 // the subpartition that messages name, -1: several
	merge    int   // how many bytes a message may have; 0: a buffer each
	files    bool  // messages may be parts of the file

	slots   [blockingWindow]blockingSlot
	arrived uint32 // messages that the disk has brought, ever
	polled  uint32 // and those that were taken
	told    uint32 // of which the disk knows
	data    int32  // data messages that wait
	seq     int32
	index   int         // in part.views, -1: not any more
	reader  *diskReader // the disk's

	err      error // why nothing follows what has arrived
	ends     int64 // subpartitions whose end was taken
	acked    bool
	left     bool // the consumer goes of its own accord
	released bool
}

// fileSender is a ViewListener that can send from a file.
type fileSender interface {
	SendsFiles() bool
}

func newBlockingView(p *BlockingPartition, r SubpartitionRange, l ViewListener) *blockingView {
	v := &blockingView{part: p, listener: l, subs: r, fixed: r.First, index: len(p.views)}
	if r.Len() > 1 {
		v.fixed = -1
	}
	reader, remote := l.(*Reader)
	v.left = !remote // who is in the same process cannot be lost
	if remote {
		v.files = !p.cfg.InMemory && reader.SendsFiles()
		if p.cfg.Profile == Flink23 {
			v.merge = p.disk.pool.SegmentSize()
		}
	}
	p.views = append(p.views, v)
	return v
}

// arrive takes n more messages, or the reason why none follow. What came for a view that was released goes home.
func (v *blockingView) arrive(n int32, err error) {
	for i := range uint32(n) {
		s := v.slot(v.arrived + i)
		switch {
		case v.released:
			s.drop()
		case s.typ.IsBuffer():
			v.data++
		}
	}
	v.arrived += uint32(n)
	if v.released {
		v.polled = v.arrived
		return
	}
	if err != nil && v.err == nil {
		v.err = err
	}
	if v.listener != nil {
		v.listener.DataAvailable()
	}
}

func (v *blockingView) slot(i uint32) *blockingSlot { return &v.slots[i%blockingWindow] }

func (s *blockingSlot) drop() {
	s.buf.Release()
	s.buf = segment.Buffer{}
}

func (v *blockingView) empty() bool { return v.arrived == v.polled }

// Poll is part of View. With packed buffers the message takes a number for each of them.
func (v *blockingView) Poll(p *Polled) bool {
	if v.released || v.empty() {
		return false
	}
	s := v.slot(v.polled)
	v.polled++
	p.Buf, p.More, p.Type, p.Sizes = s.buf, nil, s.typ, s.sizes
	s.buf = segment.Buffer{}
	if p.Type.IsBuffer() {
		v.data--
	}
	switch p.Next = segment.None; {
	case !v.empty():
		p.Next = v.slot(v.polled).typ
	case v.err != nil:
		p.Next = segment.EventBuffer // so that whoever sends comes back, with credit or without, and reports it
	}
	if p.Type == segment.EndOfPartition {
		v.ends += int64(max(1, len(p.Sizes)))
	}
	p.Backlog, p.Subpartition, p.Seq = v.data, v.fixed, v.seq
	v.seq += int32(max(1, len(p.Sizes)))
	if n := v.polled - v.told; n >= blockingWindow/2 || v.empty() {
		// The slot of the message that is being taken stays as it is until the disk hears of it: not before it was sent.
		v.told = v.polled - 1
		if n--; n > 0 {
			v.part.disk.send(diskCommand{view: v, n: int32(n), kind: diskMore})
		}
	}
	return true
}

// Available is part of View. A view that failed is available, so that whoever sends finds nothing and reports why.
func (v *blockingView) Available(credit bool) (bool, int32) {
	if v.released || v.err != nil && v.empty() {
		return true, 0
	}
	if v.empty() {
		return false, 0
	}
	return credit || v.slot(v.polled).typ.IsEvent(), v.data
}

// Subpartition is part of View.
func (v *blockingView) Subpartition() int32 { return v.fixed }

// Resume is part of View: nothing here blocks.
func (v *blockingView) Resume() error { return fmt.Errorf("resume is %w", errBlockingView) }

// AckAll is part of View: the consumer has processed all records. The read counts once it has gone. (One that goes at once may not
// say so before: then it counts if everything was sent, and it was not lost.)
func (v *blockingView) AckAll() { v.acked = true }

// NewBufferSize is part of View: the buffers are written already.
func (v *blockingView) NewBufferSize(int32) {}

// Released is part of View: nothing more will come.
func (v *blockingView) Released() bool { return v.released || v.err != nil && v.empty() }

// FailureCause is part of View.
func (v *blockingView) FailureCause() error { return v.err }

// Release is part of View.
func (v *blockingView) Release() {
	if v.index < 0 {
		return
	}
	if v.acked || v.left && v.ends == v.subs.Len() {
		for s := v.subs.First; s <= v.subs.Last; s++ {
			v.part.reads[s]++
			if f := v.part.cfg.OnRead; f != nil {
				f(int(s))
			}
		}
	}
	v.leave()
}

// end is the end of the partition: the consumer gets the cause, if there is one, instead of what was read ahead.
func (v *blockingView) end(cause error) {
	l := v.listener
	v.leave()
	if cause != nil && v.ends < v.subs.Len() { // else it has everything
		v.err = cause
		if l != nil {
			l.DataAvailable()
		}
	}
}

// leave gives everything back.
func (v *blockingView) leave() {
	p := v.part
	last := len(p.views) - 1
	p.views[last].index = v.index
	p.views[v.index] = p.views[last]
	p.views[last] = nil
	p.views = p.views[:last]
	v.index = -1
	v.released = true
	v.listener = nil
	for ; v.polled != v.arrived; v.polled++ {
		v.slot(v.polled).drop()
	}
	v.data = 0
	p.disk.send(diskCommand{view: v, kind: diskRelease})
}
