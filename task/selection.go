package task

import (
	"errors"
	"fmt"
	"math/bits"

	"github.com/weirflow/weir/align"
)

// Selection is a set of inputs: bit i is input i. (Flink: InputSelection)
type Selection uint64

// AllInputs selects every input.
const AllInputs = ^Selection(0)

// MaxSelectable is the greatest number of inputs that a Selector can choose among.
const MaxSelectable = 63

// Errors of a Selector.
var (
	// ErrInputs says that a task has too few or too many inputs.
	ErrInputs = errors.New("wrong number of inputs")
	// ErrNoProgress says that an operator selects only inputs that have ended, so that it would wait for ever.
	ErrNoProgress = errors.New("can not make a progress: all selected inputs are already finished")
)

// selectMode says how a Selector gets the selection (MultipleInputSelectionHandler.OperatingMode).
type selectMode uint8

const (
	// The zero mode: the operator takes what comes.
	_ selectMode = iota
	// selectable: the operator is asked.
	selectable
	// selectableSomeEnded: the operator is asked, and inputs at the end of their data stay selected, for their events.
	selectableSomeEnded
	// allDataEnded: there is nothing left to choose.
	allDataEnded
)

// Selector decides which input of several is read next (Flink: MultipleInputSelectionHandler). It is a pure table: it holds
// four sets of inputs and reads nothing itself.
//
// Without a selecting operator the inputs that have something are read in turn. Invariants: an input that is not selected is
// not read, except after the end of its data; a selected one that has something is read within as many turns as there are inputs.
type Selector struct {
	ask          func() Selection
	all          Selection
	selected     Selection
	available    Selection // may have something
	notFinished  Selection
	dataFinished Selection // at the end of their data, not yet ended
	mode         selectMode
	noDrain      bool
	asFlink      bool
}

// SelectorConfig configures a Selector.
type SelectorConfig struct {
	// Inputs is the number of inputs, 1 to MaxSelectable.
	Inputs int
	// Next is what the operator wants to read next; nil: it takes what comes. (InputSelectable#nextSelection)
	Next func() Selection
	// StoppedAsFlink: when the last input to end its data is one that stops without draining, nothing is reported, as in Flink,
	// whose task then never finishes its operators. Otherwise it is Stopped, whichever input comes last.
	StoppedAsFlink bool
}

// NewSelector makes a selector for inputs that all are open. The error wraps ErrInputs.
func NewSelector(cfg SelectorConfig) (*Selector, error) {
	if cfg.Inputs < 1 || cfg.Inputs > MaxSelectable {
		return nil, fmt.Errorf("%w: %d, want 1 to %d", ErrInputs, cfg.Inputs, MaxSelectable)
	}
	s := &Selector{
		ask: cfg.Next, all: 1<<cfg.Inputs - 1, selected: AllInputs,
		available: AllInputs, notFinished: 1<<cfg.Inputs - 1, asFlink: cfg.StoppedAsFlink,
	}
	if cfg.Next != nil {
		s.mode = selectable
	}
	return s, nil
}

// Next asks the operator for its selection. To be called once when the operator is open; Update does it from then on.
func (s *Selector) Next() {
	switch s.mode {
	case selectable:
		s.selected = s.ask()
	case selectableSomeEnded:
		s.selected = (s.ask() | s.dataFinished) & s.all
	default:
		s.selected = AllInputs
	}
}

// candidates are the inputs that may be read.
func (s *Selector) candidates() Selection { return s.selected & s.available & s.notFinished }

// Select returns the input to be read after last: the next one that is selected and may have something, beginning again at the
// first. -1: there is none. (InputSelection#fairSelectNextIndex)
func (s *Selector) Select(last int) int {
	m := s.candidates()
	if m == 0 {
		return -1
	}
	if after := m >> (last + 1) << (last + 1); after != 0 {
		m = after
	}
	return bits.TrailingZeros64(uint64(m))
}

// SetAvailable notes that input i may have something.
func (s *Selector) SetAvailable(i int) { s.available |= 1 << i }

// AnyAvailable reports whether an input may be read.
func (s *Selector) AnyAvailable() bool { return s.candidates() != 0 }

// Starving reports whether a selected input counts as one that has nothing: whoever drives the selector has a look whether that
// is still so, lest the others keep it from its turn.
func (s *Selector) Starving() bool { return s.selected&s.all&^s.available != 0 }

// Selected reports whether input i is selected and has not ended.
func (s *Selector) Selected(i int) bool { return s.selected&s.notFinished&(1<<i) != 0 }

// Stuck reports whether every input that is selected has ended, although others have not: nothing will ever be read. Flink
// notices only when an input had nothing or ended, not when an operator selects so after an element, and waits for ever.
func (s *Selector) Stuck() bool { return s.selected&s.notFinished == 0 && s.notFinished != 0 }

// AllFinished reports whether all inputs have ended.
func (s *Selector) AllFinished() bool { return s.notFinished == 0 }

// AllDataFinished reports whether all inputs have at least ended their data.
func (s *Selector) AllDataFinished() bool { return s.mode == allDataEnded }

// Update takes what reading input i came to, and returns what that makes for the task: More, Nothing, EndOfData, Stopped or
// EndOfInput. Errors: ErrNoProgress; one that wraps align.ErrState for a status that cannot be.
// (MultipleInputSelectionHandler#updateStatusAndSelection)
func (s *Selector) Update(st Status, i int) (Status, error) {
	bit := Selection(1) << i
	switch st {
	case More:
		s.Next()
		if s.available&bit == 0 {
			return Nothing, fmt.Errorf("%w: input %d has more, but is not available", align.ErrState, i)
		}
		return More, nil
	case Nothing:
		s.available &^= bit
	case Stopped, EndOfData:
		s.noDrain = s.noDrain || st == Stopped
		s.dataFinished |= bit
		if (s.dataFinished|^s.notFinished)&s.all == s.all {
			s.mode = allDataEnded
		} else if s.mode == selectable {
			s.mode = selectableSomeEnded
		}
	case EndOfInput:
		s.dataFinished &^= bit
		s.notFinished &^= bit
	default:
		return Nothing, fmt.Errorf("%w: unsupported status of input %d: %v", align.ErrState, i, st)
	}
	s.Next()
	return s.overall(st)
}

// overall is the status of the task. (MultipleInputSelectionHandler#calculateOverallStatus)
func (s *Selector) overall(st Status) (Status, error) {
	switch {
	case s.notFinished == 0:
		return EndOfInput, nil
	case s.mode == allDataEnded && (st == EndOfData || st == Stopped && !s.asFlink):
		if s.noDrain {
			return Stopped, nil
		}
		return EndOfData, nil
	case s.candidates() != 0:
		return More, nil
	case s.selected&s.notFinished == 0:
		return Nothing, ErrNoProgress
	}
	return Nothing, nil
}
