package sim

import (
	"errors"

	"github.com/weirflow/weir/serde/event"
)

// errKilled is why a channel ended that was killed.
var errKilled = errors.New("killed by the simulator")

// killer is who ends a channel.
type killer uint8

const (
	bySender   killer = iota // the partition fails, and with it its other channels
	byReceiver               // the gate lets go of the one channel
	withTask                 // the receiving task dies, and its partition
	numKillers
)

// kill ends a channel in the middle. Everything else goes on for a while, until the job fails for it.
func (j *job) kill(k int, how killer) {
	e := j.liveEdge(k)
	if e == nil || j.closed || j.failed != nil {
		return
	}
	w := j.w
	j.killed = true
	w.exp.Killed[w.plan.mode]++
	if e.to.in.gate.Queued(e.ch) > 0 || e.wire.data > 0 || e.from.out.part.Subpartition(e.sub).Queued() > 0 {
		w.exp.HitData[w.plan.mode]++
	}
	if e.local != nil {
		w.exp.KilledLocal++
	}
	w.note(e.name, "is killed", int(how))
	switch how {
	case bySender:
		w.exp.KilledBySender++
		e.from.failPartition()
	case byReceiver:
		w.exp.KilledByReceiver++
		e.to.in.gate.Release(e.ch)
		e.to.schedule()
	case withTask:
		w.exp.KilledWithTask++
		e.to.closed = true
		e.to.closeInput()
		if e.to.out != nil {
			e.to.failPartition()
		}
	}
	w.after(1+w.rng.Int64N(60_000), func() {
		if !j.closed {
			j.fail(e.to, errKilled)
		}
	})
}

// failPartition ends the task's output with an error, on its loop.
func (v *vertex) failPartition() {
	v.node.post(func() {
		if !v.job.closed {
			v.out.part.Fail(errKilled)
		}
	})
}

// liveEdge is a channel that is in use.
func (j *job) liveEdge(k int) *edge {
	for i := range j.order {
		e := j.order[(k+i)%len(j.order)]
		if !e.from.closed && !e.to.closed && !e.to.inputEnded && !e.to.in.gate.Ended(e.ch) && e.from.out.part.Subpartition(e.sub).HadView() {
			return e
		}
	}
	return nil
}

// kill ends a checkpoint that is under way: the coordinator gives it up, a source declines it, or the next one begins.
func (c *coordinator) kill(id int64, how int) {
	j, w := c.job, c.job.w
	if !c.pending || c.id != id || j.closed || j.failed != nil {
		return
	}
	mode := w.plan.mode
	c.kills++
	if len(c.snaps) > 0 {
		w.exp.KilledTaken[mode]++
		for _, e := range j.order {
			if len(e.from.logs[e.sub]) > e.to.consumed[e.ch] {
				w.exp.KilledInFlight[mode]++
				break
			}
		}
	}
	switch how {
	case 0:
		w.exp.KilledAborted[mode]++
		c.abort(id, "killed")
		for _, v := range j.vertices {
			if v.in != nil && v.in.task != nil {
				v.in.task.guard.Aborted(id)
			}
		}
	case 1:
		live := c.sources()
		if len(live) == 0 {
			return
		}
		w.exp.KilledCancelled[mode]++
		live[w.rng.IntN(len(live))].decline(id)
	case 2:
		w.exp.KilledNewer[mode]++
		w.note("job", "overtakes checkpoint", int(id))
		c.pending = false
		c.begin()
	}
}

// decline makes a source send a cancel marker for a checkpoint: instead of its barrier, or after it.
func (v *vertex) decline(id int64) {
	v.declined = append(v.declined, id)
	v.schedule()
}

// serveDeclined sends the cancel markers that were asked for.
func (v *vertex) serveDeclined() {
	for _, id := range v.declined {
		for i := range v.posted {
			if v.posted[i].ID == id {
				v.posted = append(v.posted[:i:i], v.posted[i+1:]...)
				break
			}
		}
		v.emit(&event.Event{Kind: event.CancelCheckpoint, CheckpointID: id})
		v.job.coord.abort(id, "cancelled by "+v.name)
	}
	v.declined = nil
}
