package credit

import (
	"errors"
	"fmt"

	"github.com/weirflow/weir/ringbuf"
	"github.com/weirflow/weir/segment"
)

// unionLookAhead is how many messages a union view takes ahead (UnionResultSubpartitionView.CACHE_SIZE).
const unionLookAhead = 10

// unionView is one view of several subpartitions (UnionResultSubpartitionView). It takes a few messages ahead, going
// round the subpartitions that have something, and changes to another one only where a record may not go on: a
// DataBuffer may, a DataBufferWithClearEnd and an event do not. It numbers its messages itself, and its backlog is what it
// has taken ahead. It can neither be blocked nor overtaken: a consumer that needs barriers asks for each index alone.
type unionView struct {
	inner    []unionInner
	listener ViewListener
	line     ringbuf.Deque[*unionInner] // those that may have something
	current  *unionInner                // in the middle of a record
	ahead    ringbuf.Deque[Polled]
	seq      int32
	released bool
}

// unionInner is one of the inner views, and its listener.
type unionInner struct {
	union  *unionView
	view   View
	inLine bool
}

var errUnion = errors.New("not supported by a view of several subpartitions")

func newUnionView(p *Partition, r SubpartitionRange, l ViewListener) (View, error) {
	for i := r.First; i <= r.Last; i++ {
		if err := p.subs[i].mayView(); err != nil {
			return nil, err // before any is taken: a view taken is one used up
		}
	}
	u := &unionView{inner: make([]unionInner, r.Len())}
	for i := range u.inner {
		in := &u.inner[i]
		in.union = u
		in.view = p.subs[int(r.First)+i].openView(in)
	}
	for i := range u.inner {
		u.inner[i].enter()
	}
	u.listener = l // nobody hears of anything before all inner views exist
	return u, nil
}

// DataAvailable is the inner view's notification.
func (in *unionInner) DataAvailable() {
	u := in.union
	if !in.inLine && in != u.current && !u.released {
		in.enter()
	}
	u.tell()
}

// PriorityEvent is treated like data: a union view knows no priority.
func (in *unionInner) PriorityEvent(int32) { in.DataAvailable() }

func (in *unionInner) enter() {
	in.inLine = true
	in.union.line.PushBack(in)
}

func (u *unionView) tell() {
	if u.listener != nil && !u.released {
		u.listener.DataAvailable()
	}
}

// fill takes messages ahead.
func (u *unionView) fill() {
	for u.ahead.Len() < unionLookAhead && !u.released {
		in := u.current
		if in == nil {
			next, ok := u.line.PopFront()
			if !ok {
				return
			}
			next.inLine = false
			in = next
		}
		p := u.ahead.Append()
		if !in.view.Poll(p) {
			u.ahead.DropBack()
			if u.current != nil {
				return // the record goes on there, and nowhere else
			}
			continue
		}
		if p.Type == segment.DataBuffer {
			u.current = in
			continue
		}
		u.current = nil
		if p.Next != segment.None {
			in.enter()
		}
	}
}

func (u *unionView) Poll(p *Polled) bool {
	u.fill()
	first, ok := u.ahead.PopFront()
	if !ok {
		return false
	}
	*p = first
	p.Next = segment.None
	if next := u.ahead.Front(); next != nil {
		p.Next = next.Type
	}
	p.Backlog = int32(u.ahead.Len())
	if p.Type.BlocksUpstream() {
		p.Backlog = 0
	}
	p.Seq = u.seq
	u.seq++
	return true
}

func (u *unionView) Available(credit bool) (bool, int32) {
	u.fill()
	n := int32(u.ahead.Len())
	if n == 0 {
		return u.FailureCause() != nil, 0
	}
	return credit || u.ahead.Front().Type.IsEvent(), n
}

func (u *unionView) Subpartition() int32 {
	u.fill()
	if p := u.ahead.Front(); p != nil {
		return p.Subpartition
	}
	return -1
}

func (u *unionView) Resume() error { return fmt.Errorf("resume is %w", errUnion) }

func (u *unionView) AckAll() {
	for i := range u.inner {
		u.inner[i].view.AckAll()
	}
}

func (u *unionView) NewBufferSize(n int32) {
	for i := range u.inner {
		u.inner[i].view.NewBufferSize(n)
	}
}

func (u *unionView) Release() {
	if u.released {
		return
	}
	u.released = true
	u.listener = nil
	u.ahead.Clear(func(p Polled) { p.Buf.Release() })
	for i := range u.inner {
		u.inner[i].view.Release()
	}
}

func (u *unionView) Released() bool { return u.released || u.inner[0].view.Released() }

func (u *unionView) FailureCause() error { return u.inner[0].view.FailureCause() }
