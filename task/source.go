package task

import (
	"fmt"

	"github.com/weirflow/weir/align"
	"github.com/weirflow/weir/credit"
	"github.com/weirflow/weir/serde"
	"github.com/weirflow/weir/serde/event"
)

// Source makes elements in the task itself, as one of its inputs: a source that is chained in front of an operator. It belongs to
// the task's goroutine and does not wait.
type Source interface {
	// Next makes the next element. The status is Element, Nothing, EndOfData or Stopped (once), or EndOfInput.
	Next(e *serde.Element) (Status, error)
	// Available reports whether Next has something to say. Whoever makes it true wakes the task.
	Available() bool
}

// sourceGate is a source as the aligner sees it: a gate with one channel, which brings no barrier of its own. (Flink:
// StreamTaskSourceInput)
type sourceGate struct {
	*credit.Gate // one channel that nothing ever comes through
	src          Source
	blocked      bool // nothing is to be made: behind a barrier, or while an unaligned checkpoint goes on
	ended        bool
}

func newSourceGate(src Source) *sourceGate {
	return &sourceGate{Gate: credit.NewGate(credit.GateConfig{Channels: 1}), src: src}
}

// Block is part of align.Gate, as are the methods below.
func (g *sourceGate) Block(int) error { g.blocked = true; return nil }

// Resume lets the source go on.
func (g *sourceGate) Resume(int) error { g.blocked = false; return nil }

// Prioritize does nothing: a source's barrier is never announced.
func (g *sourceGate) Prioritize(int, int32) error { return nil }

// CheckpointStarted stops the source: what it made later would belong to the checkpoint.
func (g *sourceGate) CheckpointStarted(int, *event.Barrier) error { g.blocked = true; return nil }

// CheckpointStopped lets it go on.
func (g *sourceGate) CheckpointStopped(int, int64) error { g.blocked = false; return nil }

// AckAll does nothing: there is no sender.
func (g *sourceGate) AckAll(int) error { return nil }

// Ended reports whether the source has.
func (g *sourceGate) Ended(int) bool { return g.ended }

// Finished is Ended.
func (g *sourceGate) Finished() bool { return g.ended }

// next reads the source.
func (in *Input) next() (Status, error) {
	g := in.source
	switch {
	case g.ended:
		return EndOfInput, nil
	case g.blocked:
		return Nothing, nil
	}
	st, err := g.src.Next(&in.element)
	if err != nil {
		return Nothing, err
	}
	switch st {
	case Element:
		if in.element.Kind == serde.Record {
			in.records++
		}
	case EndOfInput:
		g.ended = true
		if err := in.cp.handler.EndOfPartition(in.first, in.clock()); err != nil {
			return Nothing, err
		}
		if in.waits() {
			return More, nil
		}
	case Nothing, EndOfData, Stopped:
	default:
		return Nothing, fmt.Errorf("%w: a source came to %v", align.ErrState, st)
	}
	return st, nil
}

// TriggerSource gives a source its barrier, which the coordinator sends to the task. The source waits until the barriers of the
// other inputs are here, too. For an input of a gate, or a source that has ended, it is an error that wraps align.ErrState.
// (MultipleInputStreamTask#triggerSourcesCheckpoint)
func (in *Input) TriggerSource(b *event.Barrier) error {
	if in.source == nil || in.source.ended {
		return fmt.Errorf("%w: no source to be given the barrier of checkpoint %d", align.ErrState, b.ID)
	}
	if err := in.cp.processPriority(); err != nil {
		return err
	}
	return in.cp.handler.Barrier(in.first, b, false, in.clock())
}
