package task

import (
	"fmt"
	"slices"

	"github.com/weirflow/weir/align"
	"github.com/weirflow/weir/credit"
	"github.com/weirflow/weir/segment"
	"github.com/weirflow/weir/serde"
)

// InputConfig configures an Input.
type InputConfig struct {
	// Gate is what is read. The input does not close it.
	Gate *credit.Gate
	// Mode and Unaligned say how checkpoints are aligned. See align.Config.
	Mode      align.Mode
	Unaligned align.Unaligned
	// StopAtFirstEnd and StrictCancel are as in align.Config.
	StopAtFirstEnd, StrictCancel bool
	// Timers is needed with align.UnalignedOn; Timeout is called when one is due.
	Timers align.Timers
	// Sink takes the part of a record that a channel's deserializer holds when an unaligned checkpoint starts, under sequence
	// number -1 (Flink: SEQUENCE_NUMBER_UNKNOWN), ahead of what the gate's Sink gets for the channel, in one or several
	// buffers. It is the gate's Sink, usually. nil: nobody does.
	Sink credit.InputSink
	// State hears when a checkpoint begins and ends to gather such data; nil: nobody does.
	State StateWriter
	// Clock is read for events, never for records.
	Clock func() align.Now
	// Deserializer is the configuration of the channels' deserializers; Channel is filled in.
	Deserializer serde.DeserializerConfig
	// Rescaling says for each channel where the data comes from that it brings during recovery, if that is from subtasks of
	// another parallelism; nil: it is as it was. With several gates it is part of each GateInput.
	Rescaling [][]VirtualChannel
	// Watermarks are the generalized watermarks that may come. EventTime, with both names set, adds event time in that form.
	Watermarks []WatermarkDeclaration
	EventTime  struct{ Time, Idle string }
	// Releaser takes back what NextBuffer handed out, if the goroutine has one of the receive pool; nil: Buffer.Release.
	Releaser *segment.Releaser
}

// NewInput makes the input of a gate. Errors wrap align.ErrConfig or ErrValve.
func NewInput(cfg InputConfig) (*Input, error) {
	ins, err := NewInputs(cfg, GateInput{Gate: cfg.Gate, Sink: cfg.Sink, Rescaling: cfg.Rescaling})
	if err != nil {
		return nil, err
	}
	return ins[0], nil
}

// GateInput is one of several gates of a task. Gate, Sink and Rescaling are as in InputConfig.
type GateInput struct {
	Gate      *credit.Gate
	Sink      credit.InputSink
	Rescaling [][]VirtualChannel
	// Source takes the place of all else: the input is made in the task itself.
	Source Source
	// Recovering, around Gate, brings what was in flight at the checkpoint that the task starts from; nil: nothing was. Its
	// owner closes it.
	Recovering *align.Recovering

	source *sourceGate
}

// polled is what the input polls.
func (g *GateInput) polled() align.Gate {
	switch {
	case g.source != nil:
		return g.source
	case g.Recovering != nil:
		return g.Recovering
	}
	return g.Gate
}

// NewInputs makes the inputs of a task that reads several gates: one for each, with one aligner for all of them, so that a
// checkpoint waits for the barriers of all channels of all gates. cfg.Gate and cfg.Sink do not count. Errors as from NewInput.
func NewInputs(cfg InputConfig, gates ...GateInput) ([]*Input, error) {
	cp := newCheckpoints(cfg.State, cfg.Unaligned)
	ac := align.Config{Mode: cfg.Mode, Unaligned: cfg.Unaligned, StopAtFirstEnd: cfg.StopAtFirstEnd, StrictCancel: cfg.StrictCancel,
		Timers: cfg.Timers, Task: cp}
	gates = slices.Clone(gates)
	for i := range gates {
		g := &gates[i]
		if g.Source != nil {
			g.source = newSourceGate(g.Source)
			g.Gate, g.Sink = g.source.Gate, nil
		}
		ac.Inputs, ac.Counts = append(ac.Inputs, promoter{g.polled()}), append(ac.Counts, g.Gate.Channels())
	}
	if cfg.Clock == nil {
		return nil, fmt.Errorf("%w: no clock", align.ErrConfig)
	}
	var err error
	if cp.handler, err = align.New(ac); err != nil {
		return nil, err
	}
	first := 0
	for i := range gates {
		g := &gates[i]
		in, err := newInput(&cfg, cp, g, first)
		if err != nil {
			return nil, err
		}
		cp.inputs = append(cp.inputs, in)
		first += g.Gate.Channels()
	}
	return cp.inputs, nil
}

func newInput(cfg *InputConfig, cp *checkpoints, gi *GateInput, first int) (*Input, error) {
	g := gi.Gate
	n := g.Channels()
	in := &Input{gate: g, sink: gi.Sink, cp: cp, releaser: cfg.Releaser, channels: make([]*serde.Deserializer, n),
		recovering: gi.Recovering, source: gi.source, first: first, clock: cfg.Clock, deserializers: cfg.Deserializer}
	in.in = align.NewCheckpointedInput(gi.polled(), cp.handler, first, cfg.Clock, align.NewRecoveryTracker(g, n))
	for ch := range in.channels {
		in.channels[ch] = serde.NewDeserializer(in.deserializer(ch))
	}
	if gi.Rescaling != nil {
		if err := in.startRescaling(gi.Rescaling); err != nil {
			return nil, err
		}
	}
	in.valve = NewValve(n)
	in.attributes = NewAttributesCombiner(n)
	in.combiners = NewWatermarkCombiners(n)
	for _, d := range cfg.Watermarks {
		if err := in.combiners.Declare(d); err != nil {
			return nil, err
		}
	}
	if e := cfg.EventTime; e.Time != "" && e.Idle != "" {
		return in, in.combiners.DeclareEventTime(e.Time, e.Idle, in.valve)
	}
	return in, nil
}
