package task

import (
	"errors"
	"fmt"
	"math"

	"github.com/weirflow/weir/serde/event"
)

// ErrUnknownWatermark is wrapped when a generalized watermark comes in that nobody has declared.
var ErrUnknownWatermark = errors.New("unknown watermark")

// Combine says how the values of many channels become one.
type Combine uint8

// The ways to combine.
const (
	Least    Combine = iota // MIN of longs, AND of booleans
	Greatest                // MAX of longs, OR of booleans
)

// WatermarkDeclaration declares a generalized watermark: one that travels as an event and has an identifier.
type WatermarkDeclaration struct {
	Identifier string
	Type       event.WatermarkType
	Combine    Combine
	// WaitForAll: nothing goes out before every channel has sent one.
	WaitForAll bool
	// Aligned: each sender stops behind the watermark; when it has come on all channels it goes out, as the last one had it,
	// and all channels are resumed. Combine and WaitForAll don't count then.
	Aligned bool
}

// CombinerOutput is what goes downstream because of one generalized watermark.
type CombinerOutput struct {
	Events [2]event.WatermarkEvent // the first N count
	N      int
	Resume bool // all channels of the gate are to be resumed
}

func (o *CombinerOutput) add(w event.WatermarkEvent) {
	o.Events[o.N] = w
	o.N++
}

// WatermarkCombiners combines the generalized watermarks of one input, each by the rule that it was declared with (Flink:
// WatermarkCombiner and its implementations). It belongs to one goroutine.
//
// Invariant: apart from aligned ones, a watermark goes out only if its value differs from that of the last one with its
// identifier. What goes out keeps the aligned flag of what came in.
type WatermarkCombiners struct {
	channels int
	byID     map[string]combiner
}

// combiner combines the watermarks of one identifier.
type combiner interface {
	combine(channel int, w event.WatermarkEvent) (CombinerOutput, error)
}

// NewWatermarkCombiners returns combiners for an input of a number of channels, without any declaration.
func NewWatermarkCombiners(channels int) *WatermarkCombiners {
	return &WatermarkCombiners{channels: channels, byID: map[string]combiner{}}
}

// Declare adds a declaration. The error is ErrValve, for an identifier that was declared already.
func (c *WatermarkCombiners) Declare(d WatermarkDeclaration) error {
	if d.Type > event.BoolWatermark || d.Combine > Greatest {
		return fmt.Errorf("%w: watermark %q is declared with type %d, combined by %d", ErrValve, d.Identifier, d.Type, d.Combine)
	}
	if d.Aligned {
		return c.add(d.Identifier, &alignedCombiner{seen: make([]bool, c.channels), kind: d.Type})
	}
	return c.add(d.Identifier, newExtreme(d, c.channels))
}

// DeclareEventTime adds event time in the form of generalized watermarks: longs by the identifier time, and booleans, true
// for idle, by the identifier idle. Both go through the valve. The error is ErrValve, for an identifier that was declared already.
func (c *WatermarkCombiners) DeclareEventTime(time, idle string, valve *Valve) error {
	t := &eventTimeCombiner{time: time, idle: idle, valve: valve}
	if err := c.add(time, t); err != nil {
		return err
	}
	if err := c.add(idle, t); err != nil {
		delete(c.byID, time)
		return err
	}
	return nil
}

func (c *WatermarkCombiners) add(id string, to combiner) error {
	if c.byID[id] != nil {
		return fmt.Errorf("%w: watermark %q is declared twice", ErrValve, id)
	}
	c.byID[id] = to
	return nil
}

// Aligned tells whether the watermarks of an identifier were declared as aligned.
func (c *WatermarkCombiners) Aligned(identifier string) bool {
	_, ok := c.byID[identifier].(*alignedCombiner)
	return ok
}

// Combine takes the watermark of a channel. Errors: ErrUnknownWatermark; ErrValve for one of another type than was declared,
// or a channel that doesn't exist. Nothing has changed then.
func (c *WatermarkCombiners) Combine(channel int, w *event.WatermarkEvent) (CombinerOutput, error) {
	to := c.byID[w.Identifier]
	if to == nil {
		return CombinerOutput{}, fmt.Errorf("%w %q", ErrUnknownWatermark, w.Identifier)
	}
	if uint(channel) >= uint(c.channels) {
		return CombinerOutput{}, fmt.Errorf("%w: watermark %q on channel %d of %d", ErrValve, w.Identifier, channel, c.channels)
	}
	return to.combine(channel, *w)
}

func wrongType(w event.WatermarkEvent) (CombinerOutput, error) {
	return CombinerOutput{}, fmt.Errorf("%w: watermark %q has type %d, which was not declared", ErrValve, w.Identifier, w.Type)
}

// extremeCombiner keeps the least or the greatest value of all channels, and how many channels have it, so that it has to
// look at all of them only when the last one of these leaves it.
type extremeCombiner struct {
	d       WatermarkDeclaration
	values  []int64
	seen    []bool
	missing int // channels not seen
	extreme int64
	holders int
	last    int64
	emitted bool // last went out
}

func newExtreme(d WatermarkDeclaration, channels int) *extremeCombiner {
	c := &extremeCombiner{d: d, values: make([]int64, channels), seen: make([]bool, channels), missing: channels, holders: channels}
	switch {
	case d.Type == event.BoolWatermark && d.Combine == Least:
		c.extreme = 1
	case d.Type == event.BoolWatermark:
		c.extreme = 0
	case d.Combine == Least:
		c.extreme = math.MaxInt64
	default:
		c.extreme = math.MinInt64
	}
	for i := range c.values {
		c.values[i] = c.extreme
	}
	return c
}

// beyond tells whether a is more extreme than b.
func (c *extremeCombiner) beyond(a, b int64) bool {
	if c.d.Combine == Least {
		return a < b
	}
	return a > b
}

func (c *extremeCombiner) combine(channel int, w event.WatermarkEvent) (CombinerOutput, error) {
	if w.Type != c.d.Type {
		return wrongType(w)
	}
	if !c.seen[channel] {
		c.seen[channel] = true
		c.missing--
	}
	c.set(channel, w.Value)
	if c.d.WaitForAll && c.missing > 0 || c.emitted && c.extreme == c.last {
		return CombinerOutput{}, nil
	}
	c.last, c.emitted = c.extreme, true
	w.Value = c.extreme
	return CombinerOutput{Events: [2]event.WatermarkEvent{w}, N: 1}, nil
}

func (c *extremeCombiner) set(channel int, value int64) {
	old := c.values[channel]
	c.values[channel] = value
	switch {
	case value == old:
	case c.beyond(value, c.extreme):
		c.extreme, c.holders = value, 1
	case value == c.extreme:
		c.holders++
	case old == c.extreme:
		if c.holders--; c.holders == 0 {
			c.rescan()
		}
	}
}

func (c *extremeCombiner) rescan() {
	c.extreme, c.holders = c.values[0], 0
	for _, v := range c.values {
		if c.beyond(v, c.extreme) {
			c.extreme, c.holders = v, 0
		}
		if v == c.extreme {
			c.holders++
		}
	}
}

// alignedCombiner waits for a watermark on every channel.
type alignedCombiner struct {
	kind  event.WatermarkType
	seen  []bool
	count int
}

func (c *alignedCombiner) combine(channel int, w event.WatermarkEvent) (CombinerOutput, error) {
	if w.Type != c.kind {
		return wrongType(w)
	}
	if !c.seen[channel] {
		c.seen[channel] = true
		c.count++
	}
	if c.count == len(c.seen) {
		clear(c.seen)
		c.count = 0
		return CombinerOutput{Events: [2]event.WatermarkEvent{w}, N: 1, Resume: true}, nil
	}
	return CombinerOutput{}, nil
}

// eventTimeCombiner is a valve for watermarks of event time that travel as events.
type eventTimeCombiner struct {
	time, idle string
	valve      *Valve
}

func (c *eventTimeCombiner) combine(channel int, w event.WatermarkEvent) (CombinerOutput, error) {
	var o ValveOutput
	var out CombinerOutput
	var err error
	switch {
	case w.Identifier == c.time && w.Type == event.LongWatermark:
		o, err = c.valve.InputWatermark(channel, w.Value)
	case w.Identifier == c.idle && w.Type == event.BoolWatermark:
		o, err = c.valve.InputStatus(channel, w.Value != 0)
	default:
		return wrongType(w)
	}
	if o.HasWatermark {
		out.add(event.WatermarkEvent{Identifier: c.time, Aligned: w.Aligned, Value: o.Watermark})
	}
	if o.StatusChanged {
		e := event.WatermarkEvent{Identifier: c.idle, Aligned: w.Aligned, Type: event.BoolWatermark}
		if o.Idle {
			e.Value = 1
		}
		out.add(e)
	}
	return out, err
}
