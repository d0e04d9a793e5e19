package sim

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/weirflow/weir/credit"
)

// Exposure counts what a run had of the things that it is to prove something about. A proof without exposure proves
// nothing: Nil lists what a set of runs never had.
type Exposure struct {
	Runs int
	// Records consumed and written, broadcast ones among the latter, and records longer than a buffer among the former.
	Records, Written, Broadcasts, Spanning int
	// Frames of data and of events that servers sent, and priority events among these; Bytes of data.
	Frames, Events, PriorityEvents, Bytes int
	// Requests for partitions, and how often one was not there in time.
	Requests, NotFound int
	// Credits that were granted, in Grants messages; CreditMost is the most that a channel had under way; Announcements of a
	// backlog; Resizes of buffers asked for.
	Credits, Grants, CreditMost, Announcements, Resizes int
	// Checkpoints completed and found consistent, by mode: none, aligned, at-least-once, unaligned, timed.
	Checkpoints [numModes]int
	// Aborted: tasks that were told so; Expired: checkpoints that took too long.
	Aborted, Expired int
	// InputBytes and OutputBytes were persisted by completed checkpoints, InFlight records in all; Ahead: records taken too early,
	// at least once.
	InputBytes, OutputBytes, InFlight, Ahead int
	// Promises of timed barriers, Overtaken: those that turned unaligned in an output; Broken; Timeouts of alignments at inputs.
	Promises, Overtaken, Broken, Timeouts int
	// Blocked: subpartitions found blocked behind a barrier.
	Blocked int
	// Full: writes that found no memory, Unfinished: records that waited half written, PriorityWhileFull: priority events read
	// by a task whose output took nothing.
	Full, Unfinished, PriorityWhileFull int
	// Cuts, Resets, Stalls of tasks, LoopStalls: what went wrong. Beside: a channel stood still for its stalled task while another one
	// of the same connection moved.
	Cuts, Resets, Stalls, LoopStalls, Beside int
	// Left: sinks that went before the end.
	Left int
	// Restarts after a reset, those Restored from a checkpoint, and records Replayed from what was in flight.
	Restarts, Restored, Replayed int
	// PartialWrites, PartialReads, Wakes.
	PartialWrites, PartialReads, Wakes int
	// LocalChannels between tasks of a node.
	LocalChannels int
}

// each calls f for each count.
func (e *Exposure) each(f func(name string, v reflect.Value)) {
	s := reflect.ValueOf(e).Elem()
	for i := range s.NumField() {
		name, v := s.Type().Field(i).Name, s.Field(i)
		if v.Kind() != reflect.Array {
			f(name, v)
			continue
		}
		for m := range v.Len() {
			if ckptMode(m) != modeNone {
				f(name+" "+ckptMode(m).String(), v.Index(m))
			}
		}
	}
}

// Add adds the counts of another run.
func (e *Exposure) Add(o Exposure) {
	most := max(e.CreditMost, o.CreditMost)
	var other []int64
	o.each(func(_ string, v reflect.Value) { other = append(other, v.Int()) })
	i := 0
	e.each(func(_ string, v reflect.Value) { v.SetInt(v.Int() + other[i]); i++ })
	e.CreditMost = most
}

// Nil lists the kinds of exposure that never occurred.
func (e *Exposure) Nil() (names []string) {
	e.each(func(name string, v reflect.Value) {
		if v.Int() == 0 {
			names = append(names, name)
		}
	})
	return names
}

// String is a table of all counts.
func (e *Exposure) String() string {
	var s strings.Builder
	i := 0
	e.each(func(name string, v reflect.Value) {
		if i > 0 && i%4 == 0 {
			s.WriteByte('\n')
		}
		fmt.Fprintf(&s, "%-26s %9d   ", name, v.Int())
		i++
	})
	return s.String()
}

func (e *Exposure) addServer(s credit.SchedulerStats) { e.Bytes += int(s.Bytes) }

func (e *Exposure) addClient(s credit.ClientStats) {
	e.Grants += int(s.Grants)
	e.Credits += int(s.Credits)
}
