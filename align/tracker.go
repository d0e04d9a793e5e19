package align

import (
	"fmt"

	"github.com/weirflow/weir/serde/event"
)

// MaxTracked is how many checkpoints a Tracker keeps at a time. A further one pushes out the oldest, silently.
// Flink: MAX_CHECKPOINTS_TO_TRACK.
const MaxTracked = 50

// Tracker is the at-least-once Handler (Flink: CheckpointBarrierTracker). It counts barriers and blocks nothing, so
// several checkpoints can be pending. New makes one. No method allocates, except for errors and for a barrier whose
// location is longer than any before.
type Tracker struct {
	measure
	stopAtEnd bool
	keepOlder bool
	channels  int
	open      int   // channels that have not ended
	latest    int64 // newest id that was counted, -1 at first

	pending []*count // oldest first, ids strictly ascending
	spare   []*count
}

// count is one pending checkpoint. A cancelled one stays, to swallow the rest of its barriers.
type count struct {
	id       int64
	target   int // channels that were open when it began
	seen     channelSet
	barrier  event.Barrier // the first
	location []byte
	aborted  bool
}

func newTracker(cfg Config, channels Channels) *Tracker {
	t := &Tracker{stopAtEnd: cfg.StopAtFirstEnd, keepOlder: cfg.KeepOlder, channels: channels.Len(), open: channels.Len(), latest: -1,
		pending: make([]*count, 0, MaxTracked+1)}
	t.measure.init(cfg.Task)
	return t
}

// Latest is the id of the newest pending checkpoint, or -1.
func (t *Tracker) Latest() int64 {
	if len(t.pending) == 0 {
		return -1
	}
	return t.pending[len(t.pending)-1].id
}

// Pending reports whether any checkpoint waits for barriers. One that was cancelled does not.
func (t *Tracker) Pending() bool {
	for _, c := range t.pending {
		if !c.aborted {
			return true
		}
	}
	return false
}

// AllReceived is always Done: nothing waits for the last barrier.
func (t *Tracker) AllReceived(int64) (Progress, error) { return Done, nil }

// Announcement does nothing.
func (t *Tracker) Announcement(int, *event.Barrier, int32, Now) error { return nil }

// Timeout does nothing.
func (t *Tracker) Timeout(int64, Now) error { return nil }

// Close does nothing.
func (t *Tracker) Close() { t.owed = false }

// Barrier counts a barrier (processBarrier). Whether it was injected makes no difference.
func (t *Tracker) Barrier(ch int, b *event.Barrier, _ bool, now Now) error {
	if err := t.known(ch); err != nil {
		return err
	}
	if b.ID > t.latest && t.open == 1 {
		// The only channel left. latest stays, so a repeated or older id triggers again; the task must refuse ids that it
		// had.
		t.skip()
		t.measure.beginAndEnd(b.ID, b.Timestamp, now)
		return t.trigger(b)
	}
	if i := t.find(b.ID); i >= 0 {
		t.pending[i].seen.add(ch)
		return t.complete(i, now)
	}
	if b.ID <= t.latest {
		return nil // subsumed
	}
	t.measure.begin(b.ID, b.Timestamp, now)
	t.latest = b.ID
	c := t.append(b.ID)
	c.keep(b)
	c.seen.add(ch)
	if len(t.pending) > MaxTracked {
		t.forget(1)
	}
	return nil
}

// Cancel counts a cancel marker (processCancellationBarrier): all that is older is given up, and the checkpoint itself.
func (t *Tracker) Cancel(ch int, id int64, _ Now) error {
	if err := t.known(ch); err != nil {
		return err
	}
	if id > t.latest && t.open == 1 {
		t.measure.reset()
		t.skip()
		return t.abort(id)
	}
	for len(t.pending) > 0 && t.pending[0].id < id {
		old, was := t.pending[0].id, t.pending[0].aborted
		t.forget(1)
		if !was {
			if err := t.abort(old); err != nil {
				return err
			}
		}
	}
	switch {
	case len(t.pending) > 0 && t.pending[0].id == id:
		c := t.pending[0]
		first := !c.aborted
		c.aborted = true
		c.seen.add(ch)
		if c.seen.n >= c.target {
			t.forget(1)
		}
		if first {
			return t.abort(id)
		}
	case id > t.latest: // nothing is pending now
		t.latest = id
		c := t.append(id)
		c.aborted = true
		c.seen.add(ch)
		return t.abort(id)
	}
	return nil
}

// EndOfPartition handles the end of a channel (processEndOfPartition): it counts as the channel's barrier of all that is
// pending, and so completes the newest checkpoint that lacks no other.
func (t *Tracker) EndOfPartition(ch int, now Now) error {
	if err := t.known(ch); err != nil {
		return err
	}
	if t.open == 0 {
		return fmt.Errorf("%w: channel %d ends after all have ended", ErrState, ch)
	}
	t.open--
	if t.stopAtEnd {
		for len(t.pending) > 0 {
			id, was := t.pending[0].id, t.pending[0].aborted
			t.forget(1)
			if !was {
				if err := t.task.Abort(id, &CheckpointError{Reason: ReasonEndOfStream}); err != nil {
					return t.fail(id, err)
				}
			}
		}
		t.measure.reset()
		return nil
	}
	for i := len(t.pending) - 1; i >= 0; i-- {
		t.pending[i].seen.add(ch)
		if t.pending[i].seen.n >= t.pending[i].target {
			return t.complete(i, now)
		}
	}
	return nil
}

// complete takes out pending[i] and all that is older, if all barriers are there, and triggers. The older ones are
// subsumed without a word.
func (t *Tracker) complete(i int, now Now) error {
	c := t.pending[i]
	if c.seen.n < c.target {
		return nil
	}
	t.forget(i + 1) // c stays readable until the next append
	if c.aborted {
		return nil
	}
	if c.id == t.latest {
		if err := t.measure.end(now); err != nil {
			return err
		}
	}
	return t.trigger(&c.barrier)
}

func (t *Tracker) trigger(b *event.Barrier) error {
	if err := t.measure.trigger(b); err != nil {
		return t.fail(b.ID, err)
	}
	t.task.Complete(b.ID)
	return nil
}

func (t *Tracker) abort(id int64) error {
	return t.fail(id, t.task.Abort(id, &CheckpointError{Reason: ReasonCancelled}))
}

func (t *Tracker) find(id int64) int {
	for i, c := range t.pending {
		if c.id == id {
			return i
		}
	}
	return -1
}

func (t *Tracker) append(id int64) *count {
	var c *count
	if n := len(t.spare); n > 0 {
		c, t.spare = t.spare[n-1], t.spare[:n-1]
	} else {
		c = &count{seen: newChannelSet(t.channels)}
	}
	c.id, c.target, c.aborted = id, t.open, false
	t.pending = append(t.pending, c)
	return c
}

// skip drops what is pending when the only channel left is at a newer checkpoint: it can not be completed any more. Flink
// forgets to, and may fail later.
func (t *Tracker) skip() {
	if !t.keepOlder {
		t.forget(len(t.pending))
	}
}

// forget drops the n oldest.
func (t *Tracker) forget(n int) {
	for _, c := range t.pending[:n] {
		c.seen.clear()
		t.spare = append(t.spare, c)
	}
	t.pending = append(t.pending[:0], t.pending[n:]...)
}

// keep copies b, which is valid during the call only.
func (c *count) keep(b *event.Barrier) {
	c.barrier = *b
	if b.Options.Location != nil {
		c.location = append(c.location[:0], b.Options.Location...)
		c.barrier.Options.Location = c.location
	}
}

func (t *Tracker) known(ch int) error {
	if uint(ch) >= uint(t.channels) {
		return fmt.Errorf("%w: %d of %d", ErrUnknownChannel, ch, t.channels)
	}
	return nil
}

func (t *Tracker) fail(id int64, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("align: checkpoint %d: %w", id, err)
}
