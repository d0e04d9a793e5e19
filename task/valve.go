package task

import (
	"errors"
	"fmt"
	"math"
)

// ErrValve is wrapped by errors about what can't come into a valve or combiner.
var ErrValve = errors.New("wrong input")

// ValveOutput is what goes downstream because of one call of a Valve: a watermark, then a status, each if it is there.
type ValveOutput struct {
	Watermark     int64 // counts if HasWatermark
	HasWatermark  bool
	StatusChanged bool
	Idle          bool // the new status: idle or active; counts if StatusChanged
}

// Empty tells whether nothing goes downstream.
func (o ValveOutput) Empty() bool { return !o.HasWatermark && !o.StatusChanged }

// ValveChannel is the range of subpartitions that come through one channel.
type ValveChannel struct {
	First int32 // index of the first subpartition, as internal watermarks give it
	Count int32 // at least 1
}

// Valve makes one stream of watermarks and statuses out of those of many channels (Flink: StatusWatermarkValve).
//
// The watermark that goes out is the least one of all channels that are aligned. A channel that became idle is not, nor
// is one that has become active again but is still behind what went out; it is aligned again once it has caught up. When
// all channels are idle, so is the output.
//
// A Valve belongs to one goroutine. Each call costs O(log channels) and no memory.
//
// Invariants: watermarks that go out increase strictly; statuses alternate, idle first; the output is idle if and only if
// all channels are; while a channel is aligned, no watermark is out that is greater than its own.
type Valve struct {
	parts    []valvePart
	heap     []int32      // indexes of the aligned parts; the least watermark is at 0
	channels []valveRange // nil: channel i has the part i alone
	lastOut  int64
	active   int // parts that are active
	idle     bool
}

// valvePart is the state of one subpartition.
type valvePart struct {
	watermark int64
	pos       int32 // in the heap; -1: not aligned
	idle      bool
}

type valveRange struct{ base, first, count int32 }

// NewValve returns a valve for channels with one subpartition each. All begin active, without a watermark.
func NewValve(channels int) *Valve {
	v := &Valve{parts: make([]valvePart, channels), heap: make([]int32, channels), lastOut: math.MinInt64, active: channels}
	for i := range v.parts {
		v.parts[i] = valvePart{watermark: math.MinInt64, pos: int32(i)}
		v.heap[i] = int32(i)
	}
	return v
}

// NewRangeValve returns a valve for channels some of which have several subpartitions. Watermarks of these must name
// theirs, and statuses are an error (as in Flink, whose batch graphs, which alone have such channels, know none).
func NewRangeValve(channels []ValveChannel) (*Valve, error) {
	ranges := make([]valveRange, len(channels))
	n := int32(0)
	for i, c := range channels {
		if c.Count < 1 || c.First < 0 || c.First > math.MaxInt32-c.Count || n > math.MaxInt32-c.Count {
			return nil, fmt.Errorf("%w: channel %d has %d subpartitions from %d on", ErrValve, i, c.Count, c.First)
		}
		ranges[i] = valveRange{n, c.First, c.Count}
		n += c.Count
	}
	v := NewValve(int(n))
	v.channels = ranges
	return v, nil
}

// LastWatermark returns the watermark that went out last; math.MinInt64 before the first.
func (v *Valve) LastWatermark() int64 { return v.lastOut }

// Idle tells whether the output is idle.
func (v *Valve) Idle() bool { return v.idle }

// part returns the index of a channel's subpartition. named tells that subpartition was named by the watermark.
func (v *Valve) part(channel int, subpartition int32, named bool) (int32, error) {
	if v.channels == nil {
		if uint(channel) >= uint(len(v.parts)) {
			return 0, v.noChannel(channel)
		}
		return int32(channel), nil // the only one, whatever its index
	}
	if uint(channel) >= uint(len(v.channels)) {
		return 0, v.noChannel(channel)
	}
	r := v.channels[channel]
	if r.count == 1 {
		return r.base, nil
	}
	if !named {
		return 0, fmt.Errorf("%w: channel %d has %d subpartitions, and none is named", ErrValve, channel, r.count)
	}
	if subpartition < r.first || subpartition-r.first >= r.count {
		return 0, fmt.Errorf("%w: channel %d has no subpartition %d", ErrValve, channel, subpartition)
	}
	return r.base + subpartition - r.first, nil
}

func (v *Valve) noChannel(channel int) error {
	return fmt.Errorf("%w: there is no channel %d", ErrValve, channel)
}

// InputWatermark takes a channel's watermark. The error is ErrValve; nothing has changed then.
func (v *Valve) InputWatermark(channel int, watermark int64) (ValveOutput, error) {
	i, err := v.part(channel, 0, false)
	if err != nil {
		return ValveOutput{}, err
	}
	return v.input(i, watermark), nil
}

// InputInternalWatermark takes a watermark that names the subpartition it comes from. The error is ErrValve; nothing has
// changed then.
func (v *Valve) InputInternalWatermark(channel int, subpartition int32, watermark int64) (ValveOutput, error) {
	i, err := v.part(channel, subpartition, true)
	if err != nil {
		return ValveOutput{}, err
	}
	return v.input(i, watermark), nil
}

func (v *Valve) input(i int32, watermark int64) ValveOutput {
	p := &v.parts[i]
	if v.idle || p.idle || watermark <= p.watermark {
		return ValveOutput{}
	}
	p.watermark = watermark
	if p.pos >= 0 {
		v.down(p.pos)
	} else if watermark >= v.lastOut {
		v.align(i)
	}
	return v.emitLeast()
}

// emitLeast lets the least aligned watermark out if it is greater than the last one.
func (v *Valve) emitLeast() (out ValveOutput) {
	if len(v.heap) > 0 {
		if w := v.parts[v.heap[0]].watermark; w > v.lastOut {
			v.lastOut = w
			out.Watermark, out.HasWatermark = w, true
		}
	}
	return out
}

// InputStatus takes a channel's status. The error is ErrValve; nothing has changed then.
func (v *Valve) InputStatus(channel int, idle bool) (ValveOutput, error) {
	if len(v.channels) > 0 && len(v.parts) > len(v.channels) {
		return ValveOutput{}, fmt.Errorf("%w: a watermark status where a channel has several subpartitions", ErrValve)
	}
	i, err := v.part(channel, 0, false)
	if err != nil {
		return ValveOutput{}, err
	}
	switch p := &v.parts[i]; {
	case p.idle == idle:
		return ValveOutput{}, nil
	case idle:
		return v.becomeIdle(i), nil
	default:
		return v.becomeActive(i), nil
	}
}

func (v *Valve) becomeIdle(i int32) (out ValveOutput) {
	p := &v.parts[i]
	p.idle = true
	v.active--
	if p.pos >= 0 {
		v.unalign(i)
	}
	if v.active > 0 {
		// It may have been the one that held the others back.
		if p.watermark == v.lastOut {
			out = v.emitLeast()
		}
		return out
	}
	// If it was the last to hold back, nothing that was seen is held back any more.
	if p.watermark == v.lastOut {
		greatest := v.lastOut
		for j := range v.parts {
			greatest = max(greatest, v.parts[j].watermark)
		}
		if greatest > v.lastOut {
			v.lastOut = greatest
			out.Watermark, out.HasWatermark = greatest, true
		}
	}
	v.idle = true
	out.StatusChanged, out.Idle = true, true
	return out
}

func (v *Valve) becomeActive(i int32) (out ValveOutput) {
	p := &v.parts[i]
	p.idle = false
	v.active++
	if p.watermark >= v.lastOut {
		v.align(i)
	}
	if v.idle {
		v.idle = false
		out.StatusChanged = true
	}
	return out
}

// align puts a part into the heap.
func (v *Valve) align(i int32) {
	v.heap = append(v.heap, i)
	v.parts[i].pos = int32(len(v.heap) - 1)
	v.up(v.parts[i].pos)
}

// unalign takes a part out of the heap.
func (v *Valve) unalign(i int32) {
	pos := v.parts[i].pos
	v.parts[i].pos = -1
	last := int32(len(v.heap) - 1)
	moved := v.heap[last]
	v.heap = v.heap[:last]
	if pos == last {
		return
	}
	v.place(moved, pos)
	v.up(pos)
	v.down(v.parts[moved].pos)
}

func (v *Valve) place(i, pos int32) {
	v.heap[pos] = i
	v.parts[i].pos = pos
}

func (v *Valve) up(pos int32) {
	i := v.heap[pos]
	w := v.parts[i].watermark
	for pos > 0 {
		parent := (pos - 1) / 2
		if v.parts[v.heap[parent]].watermark <= w {
			break
		}
		v.place(v.heap[parent], pos)
		pos = parent
	}
	v.place(i, pos)
}

func (v *Valve) down(pos int32) {
	i := v.heap[pos]
	w := v.parts[i].watermark
	n := int32(len(v.heap))
	for {
		child := 2*pos + 1
		if child >= n {
			break
		}
		if child+1 < n && v.parts[v.heap[child+1]].watermark < v.parts[v.heap[child]].watermark {
			child++
		}
		if v.parts[v.heap[child]].watermark >= w {
			break
		}
		v.place(v.heap[child], pos)
		pos = child
	}
	v.place(i, pos)
}
