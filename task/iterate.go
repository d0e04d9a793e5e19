package task

import (
	"context"
	"iter"

	"github.com/weirflow/weir/serde"
	"github.com/weirflow/weir/serde/event"
)

// Waiter sleeps until ready, which is called by its caller's goroutine, or until ctx is done, and returns its error then.
// Sleeper.Until is one, over the notifiers of a task's gates. It may come back too early.
type Waiter func(ctx context.Context, ready func() bool) error

// All yields what Next returns, without Nothing: then it waits. It ends with the end of the input, or after the first error,
// which comes with Nothing. What the statuses tell of is in Element, Channel, Watermark and Notice, valid during the turn. A
// range over it that is left early goes on with the next one. Nothing is allocated per turn.
func (in *Input) All(ctx context.Context, wait Waiter) iter.Seq2[Status, error] {
	return func(yield func(Status, error) bool) {
		available := in.Available // made once
		for {
			st, err := in.Next()
			switch {
			case err != nil:
				yield(Nothing, err)
				return
			case st == EndOfInput:
				return
			case st == Nothing:
				if err := wait(ctx, available); err != nil {
					yield(Nothing, err)
					return
				}
				continue
			}
			if !yield(st, nil) {
				return
			}
		}
	}
}

// Event is one thing that a task with several inputs is told, as MultiInput.All yields it.
type Event struct {
	// Status says what it is: Element, WatermarkEvent, Checkpoint, Completed, Aborted, or EndOfData or Stopped.
	Status Status
	// Input and Channel are where an element came from, Input where a generalized watermark did. With EndOfData, Input is the
	// one that has drained, or -1: all have. Stopped is about all, and -1, too.
	Input, Channel int
	Element        *serde.Element
	Watermark      *event.WatermarkEvent
	Notice         *Notice
}

// collector is an operator that keeps what it is given for the iterator. A MultiInput gives it one thing a call at most.
type collector struct {
	event Event
	there bool
}

func (c *collector) put(e Event) error {
	c.event, c.there = e, true
	return nil
}

// Element is part of Operator, as are the methods below.
func (c *collector) Element(input, channel int, e *serde.Element) error {
	return c.put(Event{Status: Element, Input: input, Channel: channel, Element: e})
}

// WatermarkEvent keeps a generalized watermark.
func (c *collector) WatermarkEvent(input int, w *event.WatermarkEvent) error {
	return c.put(Event{Status: WatermarkEvent, Input: input, Watermark: w})
}

// Notice keeps what is told of a checkpoint.
func (c *collector) Notice(n *Notice) error {
	return c.put(Event{Status: n.Status, Input: -1, Notice: n})
}

// EndInput keeps that an input has drained.
func (c *collector) EndInput(input int) error {
	return c.put(Event{Status: EndOfData, Input: input})
}

// AllOf yields what several inputs, which NewInputs made together, bring for one operator, in the order that a Selector says; cfg
// is as for NewMultiInput. It waits when there is nothing, ends when all inputs have, or after the first error, which comes
// with a nil event. An event is valid during its turn. The inputs stay open.
func AllOf(ctx context.Context, wait Waiter, cfg SelectorConfig, inputs ...*Input) iter.Seq2[*Event, error] {
	return func(yield func(*Event, error) bool) {
		var c collector
		m, err := NewMultiInput(&c, cfg, inputs...)
		if err != nil {
			yield(nil, err)
			return
		}
		available := m.Available
		for {
			c.there = false
			st, err := m.Process()
			if err == nil && c.there && !yield(&c.event, nil) {
				return
			}
			if err == nil && (st == EndOfData || st == Stopped) {
				c.event = Event{Status: st, Input: -1}
				if !yield(&c.event, nil) {
					return
				}
			}
			if err == nil && st == Nothing {
				err = wait(ctx, available)
			}
			if err != nil {
				yield(nil, err)
				return
			}
			if st == EndOfInput {
				return
			}
		}
	}
}
