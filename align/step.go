package align

import (
	"fmt"

	"github.com/weirflow/weir/serde/event"
)

// step is one walk through the table: what the actions work on.
type step struct {
	channel int
	barrier *event.Barrier // of the barrier's stimulus; else the pending one. Nil for an abort
	id      int64          // the checkpoint that is stopped or aborted
	seq     int32          // of an announcement
	block   bool           // the barrier came through the channel, so its sender blocked itself
	last    bool           // no channel is missing any more
	end     bool           // the channel ended
}

// run looks up what to do and does it. The state changes only when all of it went well.
func (a *Aligner) run(what stimulus, s *step) error {
	at := a.state
	for {
		c := &table[at][what]
		for _, act := range c.do {
			if err := a.act(act, s); err != nil {
				return err
			}
		}
		at = a.resolve(c.next)
		if !c.again {
			break
		}
		what = s.again()
	}
	a.state = at
	return nil
}

// again says what the same thing is in the state that the checkpoint turned unaligned to: nothing is late there, and the
// barrier is unaligned now.
func (s *step) again() stimulus {
	switch {
	case s.end:
		return end // the last end never turns a checkpoint unaligned
	case s.last:
		return unalignedLast
	}
	return unaligned
}

// resolve turns home into the state in which this handler waits.
func (a *Aligner) resolve(next state) state {
	if next != home {
		return next
	}
	if a.opts.mode == UnalignedOn {
		return mayWaiting
	}
	return unalignedWaiting
}

func (a *Aligner) act(act action, s *step) error {
	switch act {
	case actBlock:
		if s.block {
			return a.block(s.channel)
		}
	case actForget:
		a.announced.remove(s.channel)
	case actRemember:
		a.announced.add(s.channel)
		a.seqs[s.channel] = s.seq
	case actPromote:
		return a.promote(s.channel, s.seq)
	case actPromoteAll:
		return a.promoteAll()
	case actUnalign:
		return a.unalign(s)
	case actInit:
		return a.task.Init(s.barrier)
	case actStart:
		return a.start(s.barrier)
	case actTrigger:
		// The task waits for the end from when it is told to trigger, even if it then fails.
		a.awaited = true
		return a.measure.trigger(s.barrier)
	case actStop:
		return a.stop(s.id)
	case actRelease:
		return a.release()
	case actClear:
		a.announced.clear()
	case actDrop:
		a.drop(s.channel)
	case actPending:
		if s.barrier.Options.IsUnaligned() {
			return fmt.Errorf("%w: checkpoint %d began unaligned and waits as if it were aligned", ErrState, s.id)
		}
	case actFail:
		return fmt.Errorf("%w: %v with checkpoint %d, for a handler of aligned checkpoints", ErrState, s.describe(), s.id)
	}
	return nil
}

func (s *step) describe() string {
	if s.barrier != nil && s.barrier.Options.IsUnaligned() {
		return fmt.Sprintf("unaligned barrier on channel %d", s.channel)
	}
	return "timeout"
}

// unalign is CheckpointBarrier.asUnaligned.
func (a *Aligner) unalign(s *step) error {
	o := s.barrier.Options
	switch {
	case o.IsUnaligned():
		return nil
	case o.Alignment != event.Aligned:
		return fmt.Errorf("%w: checkpoint %d is %v", ErrCannotUnalign, s.barrier.ID, o.Alignment)
	case o.Snapshot.IsSavepoint():
		return fmt.Errorf("%w: checkpoint %d is a savepoint", ErrCannotUnalign, s.barrier.ID)
	}
	a.unaligned = *s.barrier
	a.unaligned.Options = o.ToUnaligned()
	s.barrier = &a.unaligned
	return nil
}

// at finds the gate of a flat channel number that is known to be good.
func (a *Aligner) at(ch int) (Input, int) {
	if len(a.inputs) == 1 {
		return a.inputs[0], ch
	}
	gate, channel, err := a.channels.Split(ch)
	if err != nil {
		panic(err) // each public method checks its channel
	}
	return a.inputs[gate], channel
}

func (a *Aligner) block(ch int) error {
	in, c := a.at(ch)
	if err := in.Block(c); err != nil {
		return err
	}
	a.blocked.add(ch)
	return nil
}

func (a *Aligner) resume(ch int) error {
	in, c := a.at(ch)
	return in.Resume(c)
}

// release resumes all blocked channels in ascending order (in Flink: in the order of a hash set).
func (a *Aligner) release() error {
	for ch := a.blocked.next(0); ch >= 0; ch = a.blocked.next(ch + 1) {
		if err := a.resume(ch); err != nil {
			return err
		}
	}
	a.blocked.clear()
	return nil
}

func (a *Aligner) promote(ch int, seq int32) error {
	in, c := a.at(ch)
	return in.Prioritize(c, seq)
}

func (a *Aligner) promoteAll() error {
	for ch := a.announced.next(0); ch >= 0; ch = a.announced.next(ch + 1) {
		if err := a.promote(ch, a.seqs[ch]); err != nil {
			return err
		}
	}
	a.announced.clear()
	return nil
}

func (a *Aligner) drop(ch int) {
	a.blocked.remove(ch)
	a.announced.remove(ch)
}

// start tells all channels of all gates, in order, until one refuses. Those that were told before it go on until a newer
// checkpoint starts or stops them: what they hand over is dropped, since the checkpoint is aborted.
func (a *Aligner) start(b *event.Barrier) error {
	for g, in := range a.inputs {
		for c := range a.channels.In(g) {
			if err := in.CheckpointStarted(c, b); err != nil {
				return err
			}
		}
	}
	return nil
}

func (a *Aligner) stop(id int64) error {
	for g, in := range a.inputs {
		for c := range a.channels.In(g) {
			if err := in.CheckpointStopped(c, id); err != nil {
				return err
			}
		}
	}
	return nil
}
