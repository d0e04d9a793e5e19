package sim

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/weirflow/weir/credit"
)

// Exposure counts what a run had of the things that it is to prove something about. A proof without exposure proves
// nothing: Nil lists what a set of runs never had.
type Exposure struct {
	Runs int
	// Records consumed and written, broadcast ones among the latter, and records longer than a buffer among the former.
	Records, Written, Broadcasts, Spanning int
	// Frames of data and of events that servers sent, and priority events among these; Bytes of data; Packed: frames of several buffers.
	Frames, Events, PriorityEvents, Bytes, Packed int
	// Requests for partitions, and how often one was not there in time.
	Requests, NotFound int
	// Credits that were granted, in Grants messages; CreditMost is the most that a channel had under way; Announcements of a
	// backlog; Resizes of buffers asked for.
	Credits, Grants, CreditMost, Announcements, Resizes int
	// Checkpoints completed and found consistent; AfterKill: those among them that came after one that was killed.
	Checkpoints, AfterKill perMode
	// Checkpoints that were killed while they were under way: Aborted by the coordinator, Cancelled by a source's marker, overtaken by
	// a Newer one. KilledTaken: some tasks had taken it, and others not; KilledInFlight: and records were in flight.
	KilledAborted, KilledCancelled, KilledNewer, KilledTaken, KilledInFlight perMode
	// AbortedAhead: barriers that came to a task after the coordinator's abort.
	AbortedAhead int
	// Aborted: tasks that were told so; Expired: checkpoints that took too long.
	Aborted, Expired int
	// InputBytes and OutputBytes were persisted by completed checkpoints, InFlight records in all; Ahead: records taken too early,
	// at least once.
	InputBytes, OutputBytes, InFlight perMode `modes:"unaligned timed"`
	Ahead                             perMode `modes:"at-least-once"`
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
	// Slow turns of tasks that take their time for each.
	Slow int
	// Left: sinks that went before the end.
	Left int
	// Channels that were killed: by their sender, by their receiver, or with the task at its end; local ones among them. HitData:
	// data was queued or under way.
	KilledBySender, KilledByReceiver, KilledWithTask, KilledLocal int
	Killed, HitData                                               perMode
	// Restarts after a reset or a kill, those Restored from a checkpoint, and records Replayed from what was in flight.
	Restarts int
	Restored perMode
	Replayed perMode `modes:"unaligned timed"`
	// PartialWrites, PartialReads, Wakes.
	PartialWrites, PartialReads, Wakes int
	// Reads and writes that ended in the middle of a frame, by how many bytes of it: frames to the client and to the server.
	ReadDown, WrittenDown [downOffsets]int
	ReadUp, WrittenUp     [upOffsets]int
	// OneByte: bytes that were read or written all alone.
	OneByte int
	// Reordered: bytes that arrived at a node before those that had been sent to it earlier, on another connection.
	Reordered int
	// Tiny: outputs without a segment beyond their guarantee, and inputs with a single exclusive buffer for each channel, or none.
	TinyOutputs, TinyInputs int
	// Overdraft: times that an output was seen to hold more than its size.
	Overdraft int
	// LocalChannels between tasks of a node.
	LocalChannels int
}

// perMode are counts by mode of checkpoints: none, aligned, at-least-once, unaligned, timed.
type perMode [numModes]int

// each calls f for each count, those that are none of a mode's or of an offset's included.
func (e *Exposure) each(f func(v reflect.Value)) {
	s := reflect.ValueOf(e).Elem()
	for i := range s.NumField() {
		v := s.Field(i)
		if v.Kind() != reflect.Array {
			f(v)
			continue
		}
		for k := range v.Len() {
			f(v.Index(k))
		}
	}
}

// rows calls f for each line of the report: counts by mode one by one, as far as the mode can have them; counts by offset as the
// least of them.
func (e *Exposure) rows(f func(name string, n int64)) {
	s := reflect.ValueOf(e).Elem()
	for i := range s.NumField() {
		field, v := s.Type().Field(i), s.Field(i)
		switch {
		case v.Kind() != reflect.Array:
			f(field.Name, v.Int())
		case field.Type == reflect.TypeFor[perMode]():
			modes := strings.Fields(field.Tag.Get("modes"))
			for m := modeNone + 1; m < numModes; m++ {
				if len(modes) == 0 || slices.Contains(modes, m.String()) {
					f(field.Name+" "+m.String(), v.Index(int(m)).Int())
				}
			}
		default:
			least := v.Index(1).Int()
			for k := 2; k < v.Len(); k++ {
				least = min(least, v.Index(k).Int())
			}
			f(fmt.Sprintf("%s at each of %d", field.Name, v.Len()-1), least)
		}
	}
}

// Add adds the counts of another run.
func (e *Exposure) Add(o Exposure) {
	most := max(e.CreditMost, o.CreditMost)
	var other []int64
	o.each(func(v reflect.Value) { other = append(other, v.Int()) })
	i := 0
	e.each(func(v reflect.Value) { v.SetInt(v.Int() + other[i]); i++ })
	e.CreditMost = most
}

// Nil lists the kinds of exposure that never occurred.
func (e *Exposure) Nil() (names []string) {
	e.rows(func(name string, n int64) {
		if n == 0 {
			names = append(names, name)
		}
	})
	return names
}

// String is a table of all counts.
func (e *Exposure) String() string {
	var s strings.Builder
	i := 0
	e.rows(func(name string, n int64) {
		if i > 0 && i%4 == 0 {
			s.WriteByte('\n')
		}
		fmt.Fprintf(&s, "%-29s %10d   ", name, n)
		i++
	})
	return s.String()
}

func (e *Exposure) addServer(s credit.SchedulerStats) { e.Bytes += int(s.Bytes) }

func (e *Exposure) addClient(s credit.ClientStats) {
	e.Grants += int(s.Grants)
	e.Credits += int(s.Credits)
}
