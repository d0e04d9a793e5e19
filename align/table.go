package align

import (
	"fmt"
	"strings"
)

// state is what a handler is waiting for. There is no state for "finished": finishing leads back to waiting, and the
// Aligner remembers that the checkpoint is done. The names in comments are Flink's classes.
type state uint8

const (
	waiting             state = iota // W: WaitingForFirstBarrier
	collecting                       // C: CollectingBarriers
	mayWaiting                       // AW: AlternatingWaitingForFirstBarrier
	mayCollecting                    // AC: AlternatingCollectingBarriers
	unalignedWaiting                 // UW: AlternatingWaitingForFirstBarrierUnaligned
	unalignedCollecting              // UC: AlternatingCollectingBarriersUnaligned
	states                           // how many
	home                             // in a cell: the state that this handler waits in, UW or AW
)

var stateNames = [...]string{"W", "C", "AW", "AC", "UW", "UC", "", "AW or UW"}

func (s state) String() string { return stateNames[s] }

// stimulus is what happened, as far as the table distinguishes it. "last" means that no channel is missing any more,
// "late" that one is and the checkpoint's timeout has passed. Last comes before late: the last barrier completes the
// checkpoint as aligned, however late it is.
type stimulus uint8

const (
	alignedLast stimulus = iota
	alignedLate
	aligned
	unalignedLast
	unaligned
	announced
	timedOut // the timer
	aborted
	endLast // a channel ended
	endLate
	end
	stimuli // how many
)

var stimulusNames = [...]string{
	"aligned barrier, last", "aligned barrier, late", "aligned barrier", "unaligned barrier, last", "unaligned barrier",
	"announcement", "timeout", "abort", "end of channel, last", "end of channel, late", "end of channel",
}

func (s stimulus) String() string { return stimulusNames[s] }

// action is one thing that a cell does. What it needs is in the step: the channel, the barrier, the checkpoint.
type action uint8

const (
	actBlock      action = iota // block the channel, unless its barrier was injected
	actForget                   // forget the channel's announcement
	actRemember                 // remember it
	actPromote                  // make the channel's announced barrier a priority event
	actPromoteAll               // and so for all remembered announcements, then forget them
	actUnalign                  // from here on the barrier is the unaligned form of itself
	actInit                     // tell the task to get ready
	actStart                    // tell all channels that the checkpoint starts
	actTrigger                  // tell the task to take the checkpoint
	actStop                     // tell all channels that it is over
	actRelease                  // let all blocked channels go on
	actClear                    // forget all announcements
	actDrop                     // the channel ended: it is neither blocked nor announced any more
	actPending                  // the pending barrier must be there and aligned
	actFail                     // must not happen: ErrState
)

var actionNames = [...]string{
	"block", "forget", "remember", "promote", "promote all", "unalign", "init", "start", "trigger", "stop", "release",
	"clear", "drop", "check", "fail",
}

func (a action) String() string { return actionNames[a] }

// cell is what to do, and the state after it. With again, the same thing is then looked up in that state.
type cell struct {
	do    []action
	next  state
	again bool
}

func do(next state, actions ...action) cell { return cell{do: actions, next: next} }

func doThen(next state, actions ...action) cell { return cell{do: actions, next: next, again: true} }

// table says what a handler does in each state with each stimulus: sections 7.1 to 7.5 of Flink's behaviour, the classes
// BarrierHandlerState, AbstractAlignedBarrierHandlerState, AbstractAlternatingAlignedBarrierHandlerState and their
// subclasses. doc.go prints it.
var table = [states][stimuli]cell{
	waiting: {
		alignedLast:   do(waiting, actBlock, actTrigger, actRelease),
		alignedLate:   do(collecting, actBlock), // nothing is ever late in aligned mode
		aligned:       do(collecting, actBlock),
		unalignedLast: do(waiting, actFail),
		unaligned:     do(waiting, actFail),
		announced:     do(waiting),
		timedOut:      do(waiting, actFail),
		aborted:       do(waiting, actRelease),
		endLast:       do(waiting, actDrop),
		endLate:       do(waiting, actDrop),
		end:           do(waiting, actDrop),
	},
	collecting: {
		alignedLast:   do(waiting, actBlock, actTrigger, actRelease),
		alignedLate:   do(collecting, actBlock),
		aligned:       do(collecting, actBlock),
		unalignedLast: do(collecting, actFail),
		unaligned:     do(collecting, actFail),
		announced:     do(collecting),
		timedOut:      do(collecting, actFail),
		aborted:       do(waiting, actRelease),
		endLast:       do(waiting, actDrop, actTrigger, actRelease),
		endLate:       do(collecting, actDrop),
		end:           do(collecting, actDrop),
	},
	mayWaiting: {
		alignedLast:   do(mayWaiting, actForget, actBlock, actInit, actTrigger, actRelease, actClear),
		alignedLate:   doThen(unalignedWaiting, actForget, actBlock, actPromoteAll, actUnalign),
		aligned:       do(mayCollecting, actForget, actBlock),
		unalignedLast: doThen(unalignedWaiting, actPromoteAll),
		unaligned:     doThen(unalignedWaiting, actPromoteAll),
		announced:     do(mayWaiting, actRemember),
		timedOut:      do(unalignedWaiting, actPromoteAll),
		aborted:       do(mayWaiting, actRelease, actClear),
		endLast:       do(mayWaiting, actDrop),
		endLate:       do(mayWaiting, actDrop),
		end:           do(mayWaiting, actDrop),
	},
	mayCollecting: {
		alignedLast:   do(mayWaiting, actForget, actBlock, actInit, actTrigger, actRelease, actClear),
		alignedLate:   doThen(unalignedCollecting, actForget, actBlock, actPromoteAll, actUnalign, actInit, actStart, actTrigger),
		aligned:       do(mayCollecting, actForget, actBlock),
		unalignedLast: doThen(unalignedCollecting, actPromoteAll, actInit, actStart, actTrigger),
		unaligned:     doThen(unalignedCollecting, actPromoteAll, actInit, actStart, actTrigger),
		announced:     do(mayCollecting, actRemember),
		timedOut:      do(unalignedCollecting, actPromoteAll, actUnalign, actInit, actStart, actTrigger),
		aborted:       do(mayWaiting, actRelease, actClear),
		endLast:       do(mayWaiting, actPending, actDrop, actInit, actTrigger, actRelease, actClear),
		endLate: doThen(unalignedCollecting, actPending, actDrop, actPromoteAll, actUnalign, actInit, actStart,
			actTrigger),
		end: do(mayCollecting, actPending, actDrop),
	},
	unalignedWaiting: {
		alignedLast: do(home, actBlock, actUnalign, actInit, actStart, actTrigger, actStop, actRelease, actClear),
		// Whoever waits here does not wait for a timeout any more, so late and not late are the same.
		alignedLate:   do(unalignedCollecting, actBlock, actUnalign, actInit, actStart, actTrigger),
		aligned:       do(unalignedCollecting, actBlock, actUnalign, actInit, actStart, actTrigger),
		unalignedLast: do(home, actInit, actStart, actTrigger, actStop, actRelease, actClear),
		unaligned:     do(unalignedCollecting, actInit, actStart, actTrigger),
		announced:     do(unalignedWaiting, actPromote),
		timedOut:      do(unalignedWaiting),
		aborted:       do(home, actRelease, actClear),
		endLast:       do(unalignedWaiting, actDrop),
		endLate:       do(unalignedWaiting, actDrop),
		end:           do(unalignedWaiting, actDrop),
	},
	unalignedCollecting: {
		alignedLast:   do(home, actBlock, actStop, actRelease, actClear),
		alignedLate:   do(unalignedCollecting, actBlock),
		aligned:       do(unalignedCollecting, actBlock),
		unalignedLast: do(home, actStop, actRelease, actClear),
		unaligned:     do(unalignedCollecting),
		announced:     do(unalignedCollecting, actPromote),
		timedOut:      do(unalignedCollecting),
		aborted:       do(home, actStop, actRelease, actClear),
		endLast:       do(home, actDrop, actStop, actRelease, actClear),
		endLate:       do(unalignedCollecting, actDrop),
		end:           do(unalignedCollecting, actDrop),
	},
}

// reachable says in which cells a handler can come at all; the others are there because a table has no holes, and a test
// visits them directly.
func reachable(s state, what stimulus) bool {
	switch s {
	case waiting, collecting:
		// No timer is set in aligned mode, and nothing asks whether it is late.
		if what == timedOut || what == alignedLate || what == endLate {
			return false
		}
	case unalignedWaiting, unalignedCollecting:
		// Lateness is asked for only where it matters. The timer can still be set while collecting.
		if what == alignedLate || what == endLate || s == unalignedWaiting && what == timedOut {
			return false
		}
	case mayWaiting:
		if what == endLate { // nothing is late before the first barrier came
			return false
		}
	}
	return true
}

// describeTable prints the table as text, one cell a line, for doc.go.
func describeTable() string {
	var b strings.Builder
	for s := range states {
		fmt.Fprintf(&b, "\n")
		for what := range stimuli {
			c := table[s][what]
			names := make([]string, len(c.do))
			for i, a := range c.do {
				names[i] = a.String()
			}
			actions := strings.Join(names, ", ")
			if actions == "" {
				actions = "-"
			}
			arrow := "->"
			if c.again {
				arrow = "->>"
			}
			mark := ""
			if !reachable(s, what) {
				mark = " (never)"
			}
			fmt.Fprintf(&b, "%-3s %-24s %s %s %v%s\n", s, what, actions, arrow, c.next, mark)
		}
	}
	return b.String()
}
