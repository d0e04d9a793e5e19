package task

import (
	"github.com/weirflow/weir/serde"
	"github.com/weirflow/weir/serde/event"
)

// Operator is what processors feed. Its methods are called by the task's goroutine. An error ends the task. What it is given is
// valid during the call.
type Operator interface {
	// Element brings a record, watermark, watermark status, latency marker or record attributes of an input.
	Element(input, channel int, e *serde.Element) error
	// WatermarkEvent brings a generalized watermark of an input.
	WatermarkEvent(input int, w *event.WatermarkEvent) error
	// Notice tells of a checkpoint, of the whole task: one to be taken now, before anything else, or one that is complete or aborted.
	Notice(n *Notice) error
	// EndInput says that an input has drained: no element of it follows. It does not come for an input that was stopped.
	EndInput(input int) error
}

// Processor reads one input and feeds an operator (Flink: StreamOneInputProcessor and emitNext of its input).
//
// Invariant: after EndInput no element of the input reaches the operator.
type Processor struct {
	in    *Input
	op    Operator
	index int
	batch func() bool
	ended bool
	whole serde.Element
}

// NewProcessor makes the processor of input number index of an operator. batch is asked after each element and event whether
// the next one may follow in the same call: no mail waits, and the outputs have room (StreamTask#getCanEmitBatchOfRecords).
// nil: never.
func NewProcessor(in *Input, op Operator, index int, batch func() bool) *Processor {
	if batch == nil {
		batch = func() bool { return false }
	}
	return &Processor{in: in, op: op, index: index, batch: batch, whole: serde.Element{Kind: serde.Record}}
}

// Input is what the processor reads.
func (p *Processor) Input() *Input { return p.in }

// Available reports whether Process has something to do.
func (p *Processor) Available() bool { return p.in.Available() }

// Process reads until the input has nothing more or the batch ends. It returns More, Nothing, EndOfData, Stopped or EndOfInput.
// Without batches it is at most one element, and at most one event, per call.
func (p *Processor) Process() (Status, error) {
	for {
		if v, ok := p.in.WholeRecord(); ok {
			if !p.ended {
				p.whole.Value = v
				if err := p.op.Element(p.index, p.in.channel, &p.whole); err != nil {
					return Nothing, err
				}
			}
		} else if st, last, err := p.one(); st != More || last || err != nil {
			return st, err
		}
		if !p.batch() {
			return More, nil
		}
	}
}

// one takes one step of the input. More: the batch may go on, unless this was its last.
func (p *Processor) one() (st Status, last bool, err error) {
	if st, err = p.in.step(); err != nil {
		return Nothing, false, err
	}
	switch st {
	case Element:
		if !p.ended {
			err = p.op.Element(p.index, p.in.channel, p.in.Element())
		}
		last = p.in.Element().Kind == serde.RecordAttributes
	case WatermarkEvent:
		if !p.ended {
			err = p.op.WatermarkEvent(p.index, p.in.Watermark())
		}
	case Checkpoint, Completed, Aborted:
		err = p.op.Notice(p.in.Notice())
	case EndOfRecovery:
		last = true
	case EndOfData:
		p.ended = true
		return st, true, p.op.EndInput(p.index)
	case Nothing, Stopped, EndOfInput:
		return st, true, nil
	}
	return More, last, err
}
