package align

import (
	"fmt"

	"github.com/weirflow/weir/serde/event"
)

// Aligner is the exactly-once Handler (Flink: SingleCheckpointBarrierHandler). It follows one checkpoint at a time. What
// is done with the channels, and when the task is triggered, is looked up in the table that doc.go shows; the Aligner
// knows which checkpoint runs and which channels are still missing. New makes one. No method allocates, except for
// errors and for a barrier whose location is longer than any before.
type Aligner struct {
	measure
	channels Channels
	inputs   []Input
	timers   Timers
	opts     options

	state    state
	current  int64         // newest checkpoint that began or was cancelled, -1 at first
	lastDone int64         // newest one that was completed or given up, -1 at first
	barrier  event.Barrier // what began the current one; valid while hasBarrier
	has      bool
	seen     channelSet // channels whose barrier came, or that ended
	target   int        // how many of them complete the checkpoint
	open     int        // channels that have not ended

	blocked   channelSet
	announced channelSet
	seqs      []int32 // of the announced barriers, by channel

	// The end of a checkpoint, which Flink keeps in a future: its id, how far it is, and whether the task was triggered and
	// so waits for it.
	future   int64
	progress Progress
	awaited  bool

	timerSet bool
	timerID  int64

	location  []byte        // what barrier.Options.Location points to
	unaligned event.Barrier // the unaligned form of the barrier at hand
}

// options are the parts of Config that steer decisions.
type options struct {
	mode         Unaligned
	stopAtEnd    bool
	strictCancel bool
}

func newAligner(cfg Config, channels Channels) *Aligner {
	n := channels.Len()
	a := &Aligner{
		channels: channels,
		inputs:   append([]Input(nil), cfg.Inputs...),
		timers:   cfg.Timers,
		opts:     options{mode: cfg.Unaligned, stopAtEnd: cfg.StopAtFirstEnd, strictCancel: cfg.StrictCancel},
		current:  -1, lastDone: -1, open: n, future: -1, progress: Done,
		seen: newChannelSet(n), blocked: newChannelSet(n), announced: newChannelSet(n), seqs: make([]int32, n),
	}
	a.measure.init(cfg.Task)
	switch cfg.Unaligned {
	case UnalignedOn:
		a.state = mayWaiting
	case UnalignedAlways:
		a.state = unalignedWaiting
	}
	return a
}

// Latest is the id of the newest checkpoint that began, or was cancelled before it began.
func (a *Aligner) Latest() int64 { return a.current }

// Pending reports whether the current checkpoint waits for barriers.
func (a *Aligner) Pending() bool { return a.current != a.lastDone && a.current >= 0 }

// obsolete reports whether a barrier of checkpoint id has nothing to wait for any more.
func (a *Aligner) obsolete(id int64) bool {
	return a.current > id || a.current == id && !a.Pending()
}

// Barrier handles a barrier (processBarrier). The sender of an obsolete one has blocked itself behind it and is let go.
func (a *Aligner) Barrier(ch int, b *event.Barrier, injected bool, now Now) error {
	if err := a.known(ch); err != nil {
		return err
	}
	if a.obsolete(b.ID) {
		// Flink resumes for an injected barrier, too, although no sender is blocked; its sender then fails.
		if !b.Options.IsUnaligned() && !injected {
			return a.resume(ch)
		}
		return nil
	}
	if err := a.begin(b, now); err != nil {
		return err
	}
	return a.mark(step{channel: ch, barrier: b, block: !injected}, now)
}

// Announcement handles an announcement (processBarrierAnnouncement). It can begin a checkpoint, and so end an older one.
func (a *Aligner) Announcement(ch int, b *event.Barrier, seq int32, now Now) error {
	if err := a.known(ch); err != nil {
		return err
	}
	if err := a.begin(b, now); err != nil {
		return err
	}
	if a.obsolete(b.ID) {
		return nil
	}
	err := a.run(announced, &step{channel: ch, barrier: b, seq: seq, id: a.current})
	if cause := refusal(err); cause != nil { // the barrier may not overtake
		return a.abort(a.current, cause)
	}
	return a.fail(err)
}

// Cancel handles a cancel marker (processCancellationBarrier). A marker of a newer checkpoint gives up the pending one
// as well, without a word about it to the task: downstream the newer marker releases what waits.
func (a *Aligner) Cancel(ch int, id int64, now Now) error {
	if err := a.known(ch); err != nil {
		return err
	}
	if id > a.current || id == a.current && (a.seen.n > 0 || a.opts.strictCancel && a.Pending()) {
		return a.abort(id, &CheckpointError{Reason: ReasonCancelled})
	}
	return nil
}

// EndOfPartition handles the end of a channel (processEndOfPartition). It counts as the channel's barrier.
func (a *Aligner) EndOfPartition(ch int, now Now) error {
	if err := a.known(ch); err != nil {
		return err
	}
	if a.open == 0 {
		return fmt.Errorf("%w: channel %d ends after all have ended", ErrState, ch)
	}
	a.open--
	if a.opts.stopAtEnd {
		// The state would not be told, so the channel leaves the sets here: who has ended is never resumed.
		a.drop(ch)
		if a.Pending() {
			return a.abort(a.current, &CheckpointError{Reason: ReasonEndOfStream})
		}
		return nil
	}
	if !a.Pending() {
		return nil
	}
	if !a.has {
		return fmt.Errorf("%w: checkpoint %d is pending without a barrier", ErrState, a.current)
	}
	return a.mark(step{channel: ch, barrier: &a.barrier, end: true}, now)
}

// Timeout handles the timer of checkpoint id; too late a timer does nothing.
func (a *Aligner) Timeout(id int64, _ Now) error {
	if !a.timerSet || a.timerID != id {
		return nil
	}
	var err error
	if a.current == id && a.progress == Waiting && a.open > 0 {
		err = a.run(timedOut, &step{barrier: &a.barrier, id: id})
		if cause := refusal(err); cause != nil {
			err = a.abort(id, cause)
		}
	}
	if a.timerID == id {
		a.timerSet = false
	}
	return a.fail(err)
}

// AllReceived says how far checkpoint id is (getAllBarriersReceivedFuture).
func (a *Aligner) AllReceived(id int64) (Progress, error) {
	switch {
	case id < a.current || a.open == 0:
		return Done, nil
	case id > a.current:
		return Waiting, fmt.Errorf("%w: %d", ErrNotStarted, id)
	}
	return a.progress, nil
}

// Close takes the timer back and gives the pending checkpoint up, without telling the task and without resuming.
func (a *Aligner) Close() {
	a.cancelTimer()
	if a.progress == Waiting {
		a.progress = GivenUp
	}
	a.awaited, a.owed = false, false
}

// begin is checkNewCheckpoint: a newer checkpoint takes the place of the pending one.
func (a *Aligner) begin(b *event.Barrier, now Now) error {
	if a.current >= b.ID {
		return nil
	}
	if a.Pending() {
		if err := a.abort(a.current, &CheckpointError{Reason: ReasonSubsumed, Newer: b.ID}); err != nil {
			return err
		}
	}
	a.current = b.ID
	a.keep(b)
	a.seen.clear()
	a.target = a.open
	a.future, a.progress, a.awaited = b.ID, Waiting, false
	if a.opts.mode == UnalignedOn && b.Options.IsTimeoutable() {
		a.timerSet, a.timerID = true, b.ID
		a.timers.Set(b.ID, timerDelay(b, now))
	}
	return nil
}

// timerDelay is the time left until b's timeout in ms: the timeout counts from the checkpoint's beginning.
func timerDelay(b *event.Barrier, now Now) int64 {
	left := b.Options.Timeout - (now.Millis - b.Timestamp)
	return max(left, 0)
}

// keep copies b, which is valid during the call only.
func (a *Aligner) keep(b *event.Barrier) {
	a.barrier, a.has = *b, true
	if b.Options.Location != nil {
		a.location = append(a.location[:0], b.Options.Location...)
		a.barrier.Options.Location = a.location
	}
}

// late is isTimedOut: more than the timeout has passed since the checkpoint began.
func (a *Aligner) late(b *event.Barrier, now Now) bool {
	return b.Options.IsTimeoutable() && b.ID <= a.current && b.Options.Timeout < now.Millis-b.Timestamp
}

// mark is markCheckpointAlignedAndTransformState: the channel counts, then the table decides.
func (a *Aligner) mark(s step, now Now) error {
	s.id = a.current
	a.seen.add(s.channel)
	if a.seen.n == 1 { // also when the only channel so far repeats its barrier: measuring starts anew
		if a.target == 1 {
			a.measure.beginAndEnd(s.barrier.ID, s.barrier.Timestamp, now)
		} else {
			a.measure.begin(s.barrier.ID, s.barrier.Timestamp, now)
		}
	}
	last := a.seen.n == a.target
	if last && a.target > 1 {
		if err := a.measure.end(now); err != nil {
			return err
		}
	}
	s.last = last
	err := a.run(a.classify(&s, now), &s)
	if cause := refusal(err); cause != nil {
		return a.abort(a.current, cause)
	}
	if err != nil {
		return a.fail(err)
	}
	if last {
		a.seen.clear()
		a.lastDone = a.current
		a.cancelTimer()
		if a.progress == Waiting {
			a.progress = Done
			if a.awaited {
				a.awaited = false
				a.task.Complete(a.future)
			}
		}
	}
	return nil
}

// classify says what happened, in the words of the table.
func (a *Aligner) classify(s *step, now Now) stimulus {
	switch {
	case s.end && s.last:
		return endLast
	case s.end && a.state == mayCollecting && a.late(s.barrier, now):
		return endLate
	case s.end:
		return end
	case s.barrier.Options.IsUnaligned() && s.last:
		return unalignedLast
	case s.barrier.Options.IsUnaligned():
		return unaligned
	case s.last:
		return alignedLast
	case (a.state == mayWaiting || a.state == mayCollecting) && a.late(s.barrier, now):
		return alignedLate
	}
	return aligned
}

// abort is abortInternal; id is the current checkpoint or a newer one. It releases the channels before it tells the task.
func (a *Aligner) abort(id int64, cause *CheckpointError) error {
	a.current, a.lastDone = id, id
	a.has = false
	a.seen.clear()
	a.target = 0
	a.cancelTimer()
	if err := a.run(aborted, &step{id: id}); err != nil {
		return a.fail(err)
	}
	a.measure.reset()
	if err := a.task.Abort(id, cause); err != nil {
		return fmt.Errorf("align: abort of checkpoint %d: %w", id, err)
	}
	if a.progress == Waiting {
		a.progress = GivenUp
		if a.awaited {
			a.awaited = false
			a.task.Incomplete(a.future, cause)
		}
	}
	return nil
}

func (a *Aligner) cancelTimer() {
	if a.timerSet {
		a.timerSet = false
		a.timers.Cancel(a.timerID)
	}
}

func (a *Aligner) known(ch int) error {
	if uint(ch) >= uint(len(a.seqs)) {
		return fmt.Errorf("%w: %d of %d", ErrUnknownChannel, ch, len(a.seqs))
	}
	return nil
}

// fail names the checkpoint that an error belongs to.
func (a *Aligner) fail(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("align: checkpoint %d: %w", a.current, err)
}
