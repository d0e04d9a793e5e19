package align

import (
	"fmt"
	"math"

	"github.com/weirflow/weir/credit"
	"github.com/weirflow/weir/ringbuf"
	"github.com/weirflow/weir/segment"
	"github.com/weirflow/weir/serde/event"
)

// Recovering is a Gate whose channels first hand out what was in flight when a checkpoint was taken, and only then what
// their senders send (Flink: RecoveredInputChannel). One goroutine reads the state and calls Recovered and Finish; the
// task polls. While any channel recovers, no checkpoint can start: it is declined with ReasonNotReady. The partitions
// are to be requested when OnConsumed is called, so that nothing new can come before what is old.
type Recovering struct {
	Gate
	deliver    func(credit.Arrival)
	wake       func()
	onConsumed func()
	ring       *ringbuf.SPSC[recovered]
	channels   []recoveringChannel
	left       int
}

type recoveringChannel struct {
	seq     int32
	done    bool
	stopped int64 // newest checkpoint that was stopped meanwhile, -1: none
}

// recovered is one buffer on its way to the task.
type recovered struct {
	channel int
	buf     segment.Buffer
}

// RecoveringConfig is what NewRecovering needs.
type RecoveringConfig struct {
	Gate Gate
	// Deliver puts an arrival into the gate: credit.Gate.Deliver. Called by the task.
	Deliver func(credit.Arrival)
	// Wake wakes the task; called by the reading goroutine. May be nil.
	Wake func()
	// OnConsumed is called by the task once all that was recovered has been handed out. May be nil.
	OnConsumed func()
	// Segments is how many buffers can be on their way at once: those that the reading goroutine may take.
	Segments int
}

// NewRecovering wraps a gate. An error wraps ErrConfig.
func NewRecovering(cfg RecoveringConfig) (*Recovering, error) {
	if cfg.Gate == nil || cfg.Deliver == nil || cfg.Segments <= 0 {
		return nil, fmt.Errorf("%w: recovery needs a gate and segments", ErrConfig)
	}
	n := cfg.Gate.Channels()
	r := &Recovering{Gate: cfg.Gate, deliver: cfg.Deliver, wake: cfg.Wake, onConsumed: cfg.OnConsumed,
		// Each buffer comes with a descriptor, and each channel has an end.
		ring:     ringbuf.NewSPSC[recovered](2*cfg.Segments + n + 2),
		channels: make([]recoveringChannel, n), left: n}
	for i := range r.channels {
		// Numbers before those of the senders, which begin at 0.
		r.channels[i] = recoveringChannel{seq: math.MinInt32, stopped: -1}
	}
	return r, nil
}

// Recovered takes over a buffer or a descriptor for a channel. Reading goroutine only. The error wraps ErrState when
// more is on its way than was configured.
func (r *Recovering) Recovered(ch int, b segment.Buffer) error {
	if ch < 0 || ch >= len(r.channels) {
		b.Release()
		return fmt.Errorf("%w: %d of %d", ErrUnknownChannel, ch, len(r.channels))
	}
	if !r.ring.Push(recovered{ch, b}) {
		b.Release()
		return fmt.Errorf("%w: more recovered buffers than segments", ErrState)
	}
	if r.wake != nil {
		r.wake()
	}
	return nil
}

// Finish ends the recovery of all channels, also of those that had no state. Reading goroutine only.
func (r *Recovering) Finish() error {
	e := event.Event{Kind: event.EndOfInputChannelState}
	for ch := range r.channels {
		if err := r.Recovered(ch, segment.Wrap(event.Append(nil, &e), event.DataTypeOf(&e, false))); err != nil {
			return err
		}
	}
	return nil
}

// Consumed reports whether all that was recovered has been handed out.
func (r *Recovering) Consumed() bool { return r.left == 0 }

// Arrived reports whether something was read that no poll has taken over yet.
func (r *Recovering) Arrived() bool { return !r.ring.Empty() }

// PollInto hands out the next item; the ends of recovered state are kept back.
func (r *Recovering) PollInto(it *credit.Item) (credit.Status, error) {
	for r.left > 0 {
		r.fill()
		st, err := r.Gate.PollInto(it)
		if st != credit.Ready || err != nil || it.Event == nil || it.Event.Kind != event.EndOfInputChannelState {
			return st, err
		}
		if err := r.consumed(it.Channel); err != nil {
			return credit.None, err
		}
	}
	return r.Gate.PollInto(it)
}

// fill takes over what was read.
func (r *Recovering) fill() {
	for {
		rec, ok := r.ring.Pop()
		if !ok {
			return
		}
		c := &r.channels[rec.channel]
		r.deliver(credit.Arrival{Channel: int32(rec.channel), Seq: c.seq, Subpartition: -1, Buf: rec.buf})
		c.seq++
	}
}

func (r *Recovering) consumed(ch int) error {
	c := &r.channels[ch]
	if c.done {
		return fmt.Errorf("%w: recovered state of channel %d ends twice", ErrState, ch)
	}
	c.done = true
	if c.stopped >= 0 {
		if err := r.Gate.CheckpointStopped(ch, c.stopped); err != nil {
			return err
		}
	}
	if r.left--; r.left == 0 && r.onConsumed != nil {
		r.onConsumed()
	}
	return nil
}

// CheckpointStarted declines while the channel recovers.
func (r *Recovering) CheckpointStarted(ch int, b *event.Barrier) error {
	if !r.channels[ch].done {
		return &CheckpointError{Reason: ReasonNotReady}
	}
	return r.Gate.CheckpointStarted(ch, b)
}

// CheckpointStopped is kept for the channel until it has recovered.
func (r *Recovering) CheckpointStopped(ch int, id int64) error {
	if c := &r.channels[ch]; !c.done {
		c.stopped = max(c.stopped, id)
		return nil
	}
	return r.Gate.CheckpointStopped(ch, id)
}

// Resume is an error while the channel recovers: nobody sends.
func (r *Recovering) Resume(ch int) error {
	if !r.channels[ch].done {
		return fmt.Errorf("%w: channel %d recovers and cannot be resumed", ErrState, ch)
	}
	return r.Gate.Resume(ch)
}

// AckAll is an error while the channel recovers.
func (r *Recovering) AckAll(ch int) error {
	if !r.channels[ch].done {
		return fmt.Errorf("%w: channel %d recovers and has no sender", ErrState, ch)
	}
	return r.Gate.AckAll(ch)
}

// Close gives back what was read and not handed out. The reading goroutine must have ended.
func (r *Recovering) Close() {
	for {
		rec, ok := r.ring.Pop()
		if !ok {
			return
		}
		rec.buf.Release()
	}
}
