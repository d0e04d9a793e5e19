package credit

import (
	"errors"
	"fmt"

	"github.com/weirflow/weir/ringbuf"
	"github.com/weirflow/weir/segment"
)

// ErrUnion: gates that cannot be united.
var ErrUnion = errors.New("gates cannot be united")

// UnionGate polls several gates of one task in turn (UnionInputGate). Channels are numbered through: first those of the
// first gate. It has a ready line of gates, by the same rules as a gate has one of channels. What concerns one channel
// (Resume, Prioritize, …) is asked of its own gate, see Split. It belongs to the task, and the gates must not be polled
// otherwise.
type UnionGate struct {
	gates []unionMember
	ready ringbuf.Deque[int32]
	first []int // channel number of each gate's channel 0, and the total
}

type unionMember struct {
	g                *Gate
	enqueued         bool
	enqueuedPriority bool
}

// NewUnionGate unites at least two gates, each of which is in no other union. The error wraps ErrUnion.
func NewUnionGate(gates ...*Gate) (*UnionGate, error) {
	if len(gates) < 2 {
		return nil, fmt.Errorf("%w: a union needs at least two, not %d", ErrUnion, len(gates))
	}
	u := &UnionGate{gates: make([]unionMember, len(gates)), first: make([]int, len(gates)+1)}
	for i, g := range gates {
		if g == nil || g.onReady != nil {
			return nil, fmt.Errorf("%w: gate %d is in a union already, or given twice", ErrUnion, i)
		}
		for _, other := range gates[:i] {
			if other == g {
				return nil, fmt.Errorf("%w: gate %d is in a union already, or given twice", ErrUnion, i)
			}
		}
	}
	for i, g := range gates {
		u.gates[i].g = g
		u.first[i+1] = u.first[i] + g.Channels()
		g.onReady = func(priority bool) { u.enqueue(i, priority) }
		if g.Available() {
			u.enqueue(i, g.ready.PriorityLen() > 0)
		}
	}
	return u, nil
}

// Channels is the number of channels of all gates.
func (u *UnionGate) Channels() int { return u.first[len(u.gates)] }

// Gates is the number of gates.
func (u *UnionGate) Gates() int { return len(u.gates) }

// Gate is gate i.
func (u *UnionGate) Gate(i int) *Gate { return u.gates[i].g }

// Split returns the gate of a channel and its number there.
func (u *UnionGate) Split(channel int) (g *Gate, ch int) {
	for i := len(u.gates) - 1; i > 0; i-- {
		if channel >= u.first[i] {
			return u.gates[i].g, channel - u.first[i]
		}
	}
	return u.gates[0].g, channel
}

// enqueue puts a gate in the ready line; with priority, before those without.
func (u *UnionGate) enqueue(i int, priority bool) {
	m := &u.gates[i]
	if m.enqueued && (!priority || m.enqueuedPriority) {
		return
	}
	switch {
	case !priority:
		u.ready.PushBack(int32(i))
	case m.enqueued:
		for at := range u.ready.Len() {
			if *u.ready.At(at) == int32(i) {
				u.ready.Prioritize(at)
				break
			}
		}
	default:
		u.ready.PushPriority(int32(i))
	}
	m.enqueued, m.enqueuedPriority = true, priority
}

// Fill takes over what the links of all gates brought.
func (u *UnionGate) Fill() int {
	n := 0
	for i := range u.gates {
		n += u.gates[i].g.Fill()
	}
	return n
}

// DrainRing is Fill; see Gate.DrainRing.
func (u *UnionGate) DrainRing() { u.Fill() }

// HasPriority reports whether a priority event waits in a gate, or may wait in a link of one.
func (u *UnionGate) HasPriority() bool {
	for i := range u.gates {
		if u.gates[i].g.HasPriority() {
			return true
		}
	}
	return false
}

// NextIsPriority reports whether the next poll hands out a priority event.
func (u *UnionGate) NextIsPriority() bool {
	for i := range u.gates {
		if u.gates[i].g.sig.priority.Load() {
			u.gates[i].g.Fill()
		}
	}
	return u.ready.PriorityLen() > 0
}

// PollPriority is Poll if a priority event is next, else None.
func (u *UnionGate) PollPriority() (it Item, st Status, err error) {
	if !u.NextIsPriority() {
		return Item{}, None, nil
	}
	if st, err = u.poll(&it); st != Ready {
		it = Item{}
	}
	return it, st, err
}

// Poll is PollInto for a caller that does not count copies of an item. The item is zero unless it is Ready.
func (u *UnionGate) Poll() (it Item, st Status, err error) {
	if st, err = u.PollInto(&it); st != Ready {
		it = Item{}
	}
	return it, st, err
}

// PollInto hands out the next item of the first gate in the ready line; see Gate.PollInto.
func (u *UnionGate) PollInto(it *Item) (Status, error) {
	if u.ready.Len() == 0 {
		u.Fill()
	}
	u.NextIsPriority()
	return u.poll(it)
}

func (u *UnionGate) poll(it *Item) (Status, error) {
	for i := range u.gates {
		u.gates[i].g.dropEvent()
	}
	for {
		i, ok := u.ready.PopFront()
		if !ok {
			if u.Finished() {
				return End, nil
			}
			return None, nil
		}
		m := &u.gates[i]
		m.enqueued, m.enqueuedPriority = false, false
		st, err := m.g.poll(it)
		if m.g.ready.Len() > 0 || m.g.closed {
			u.enqueue(int(i), m.g.ready.PriorityLen() > 0)
		}
		if err != nil {
			return None, err
		}
		if st == Ready {
			it.Channel += u.first[i]
			it.More, it.MorePriority = u.ready.Len() > 0, u.ready.PriorityLen() > 0
			return Ready, nil
		}
	}
}

// Finished reports whether every channel of every gate has ended.
func (u *UnionGate) Finished() bool {
	for i := range u.gates {
		if !u.gates[i].g.Finished() {
			return false
		}
	}
	return true
}

// EndOfData tells whether all channels of all gates delivered their end of data, and how.
func (u *UnionGate) EndOfData() EndOfDataStatus {
	all := Drained
	for i := range u.gates {
		switch u.gates[i].g.EndOfData() {
		case NotEndOfData:
			return NotEndOfData
		case Stopped:
			all = Stopped
		}
	}
	return all
}

// Available reports whether a gate's queues hold something, or nothing more will come.
func (u *UnionGate) Available() bool { return u.ready.Len() > 0 || u.Finished() }

// Recycle releases the buffer of an item of a channel; see Gate.Recycle.
func (u *UnionGate) Recycle(channel int, b segment.Buffer) {
	g, ch := u.Split(channel)
	g.Recycle(ch, b)
}

// Flush sends on what Recycle gathered.
func (u *UnionGate) Flush() {
	for i := range u.gates {
		u.gates[i].g.Flush()
	}
}
