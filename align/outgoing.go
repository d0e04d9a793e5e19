package align

import "github.com/weirflow/weir/serde/event"

// Outgoing is a barrier as one output edge sends it on, and whether it goes as a priority event. An edge that cannot
// have barriers overtake data (pointwise, broadcast, or flagged so) makes it forced aligned; whoever receives it aligns on
// this edge only, and undoes it before it sends its own barrier (see CheckpointGuard.Trigger). b is not changed.
// (Flink: RecordWriterOutput.broadcastEvent)
func Outgoing(b event.Barrier, alignedOnly bool) (out event.Barrier, priority bool) {
	if alignedOnly {
		b.Options = b.Options.WithUnalignedUnsupported()
	}
	return b, b.Options.IsUnaligned()
}

// OutputTimeout is how long, in ms, a barrier that was just broadcast may wait in the outputs until it becomes unaligned
// there; ok is false if it never does. One such timer runs at a time: the next one takes its place, and an abort of its
// checkpoint ends it. (Flink: SubtaskCheckpointCoordinatorImpl.registerAlignmentTimer)
func OutputTimeout(b *event.Barrier, now Now) (delay int64, ok bool) {
	if !b.Options.IsTimeoutable() {
		return 0, false
	}
	return timerDelay(b, now), true
}

// maxRecordedAborts is how many aborts ahead of their barriers a task remembers one by one; an id that lies further back
// counts as aborted. Flink: 128.
const maxRecordedAborts = 128

// Verdict says what a task does when it is told to trigger.
type Verdict uint8

// The verdicts.
const (
	// Take: take the checkpoint and send the barrier on.
	Take Verdict = iota
	// OutOfOrder: it is not newer than the last one. Drop its channel state, and do nothing else.
	OutOfOrder
	// AlreadyAborted: the coordinator gave it up before its barrier came. Drop its channel state and broadcast a cancel marker.
	AlreadyAborted
)

// String is the constant's name in lower case.
func (v Verdict) String() string {
	return [...]string{"take", "out of order", "already aborted"}[min(v, 2)]
}

// CheckpointGuard is what stands between a Handler and the snapshots of a task: it makes sure that each id is taken or
// given up once, in ascending order, whatever comes. In at-least-once mode a Handler may trigger an old id again; with several
// inputs or injected barriers, too. It belongs to the task's goroutine. Make it with NewCheckpointGuard. (Flink: the ids
// in SubtaskCheckpointCoordinatorImpl)
type CheckpointGuard struct {
	last    int64
	aborted map[int64]struct{}
	newest  int64 // of those that were aborted ahead of their barrier
}

// NewCheckpointGuard makes a guard that has seen nothing.
func NewCheckpointGuard() *CheckpointGuard {
	return &CheckpointGuard{last: -1, newest: -1, aborted: map[int64]struct{}{}}
}

// Last is the newest id that was taken or given up, -1 at first.
func (g *CheckpointGuard) Last() int64 { return g.last }

// Trigger is asked when a Handler triggers. With Take, the barrier is the one to take the checkpoint with, and to send on:
// what was forced aligned on the edge it came by is free again to be unaligned. If it then IsUnaligned or IsTimeoutable, the
// task gets ready for channel state once more, as in Task.Init. (checkpointState, steps 1 to 3)
func (g *CheckpointGuard) Trigger(b event.Barrier) (event.Barrier, Verdict) {
	if b.ID <= g.last {
		delete(g.aborted, b.ID)
		return b, OutOfOrder
	}
	g.last = b.ID
	_, was := g.aborted[b.ID]
	g.forget(b.ID)
	if was || g.newest >= 0 && b.ID < g.newest-maxRecordedAborts {
		return b, AlreadyAborted
	}
	b.Options = b.Options.WithUnalignedSupported()
	return b, Take
}

// Abort is told when a Handler aborts: the id will not be taken any more. The task then drops the checkpoint's channel
// state, declines it to the coordinator, and broadcasts a cancel marker. (abortCheckpointOnBarrier)
func (g *CheckpointGuard) Abort(id int64) {
	g.last = max(g.last, id)
	g.forget(g.last)
}

// Aborted is told when the coordinator says that a checkpoint was aborted. It reports whether the task has yet to meet its
// barrier; if not, the task drops what it has of the checkpoint. (notifyCheckpointAborted)
func (g *CheckpointGuard) Aborted(id int64) (ahead bool) {
	if id <= g.last {
		return false
	}
	g.newest = max(g.newest, id)
	g.aborted[id] = struct{}{}
	if len(g.aborted) > maxRecordedAborts {
		for old := range g.aborted {
			if old < g.newest-maxRecordedAborts {
				delete(g.aborted, old)
			}
		}
	}
	return true
}

// forget drops what was recorded up to id.
func (g *CheckpointGuard) forget(id int64) {
	for old := range g.aborted {
		if old <= id {
			delete(g.aborted, old)
		}
	}
}
