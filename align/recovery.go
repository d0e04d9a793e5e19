package align

import "fmt"

// RecoveryTracker waits until the senders of all channels of a gate have sent what they recovered. A sender blocks itself
// behind the event that says so; when the last one has said it, all are resumed at once (Flink:
// UpstreamRecoveryTrackerImpl). It belongs to the task's goroutine.
type RecoveryTracker struct {
	in      Input
	done    channelSet
	missing int
	n       int
}

// NewRecoveryTracker makes a tracker for a gate with n channels.
func NewRecoveryTracker(in Input, n int) *RecoveryTracker {
	return &RecoveryTracker{in: in, done: newChannelSet(n), missing: n, n: n}
}

// EndOfRecovery: the channel's sender has recovered. Twice for one channel is an error that wraps ErrState; once all
// have recovered, further calls do nothing.
func (t *RecoveryTracker) EndOfRecovery(ch int) error {
	switch {
	case uint(ch) >= uint(t.n):
		return fmt.Errorf("%w: %d of %d", ErrUnknownChannel, ch, t.n)
	case t.missing == 0:
		return nil
	case !t.done.add(ch):
		return fmt.Errorf("%w: the sender of channel %d has recovered already", ErrState, ch)
	}
	if err := t.in.Block(ch); err != nil {
		return err
	}
	if t.missing--; t.missing > 0 {
		return nil
	}
	t.done.clear()
	for c := range t.n {
		if err := t.in.Resume(c); err != nil {
			return err
		}
	}
	return nil
}

// Recovered reports whether all senders have.
func (t *RecoveryTracker) Recovered() bool { return t.missing == 0 }
