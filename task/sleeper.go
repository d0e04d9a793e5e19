package task

import (
	"context"

	"github.com/weirflow/weir/ringbuf"
)

// Sleeper joins several notifiers, those of a task's gates and of its outputs, say, so that the task sleeps on all of them at once,
// without a goroutine for each. It is a ringbuf.Sleeper and belongs to the task.
type Sleeper struct {
	own    *ringbuf.Notifier
	others []*ringbuf.Notifier
	wake   func()
}

var _ ringbuf.Sleeper = (*Sleeper)(nil)

// NewSleeper makes a sleeper on own, a mailbox's, usually, and the others. Nobody else may sleep on one of them meanwhile.
func NewSleeper(own *ringbuf.Notifier, others ...*ringbuf.Notifier) *Sleeper {
	return &Sleeper{own: own, others: others, wake: own.Wake}
}

// Prepare, Cancel and Wait are those of ringbuf.Notifier.
func (s *Sleeper) Prepare() {
	s.own.Prepare() // first: the others wake it
	for _, n := range s.others {
		n.PrepareHook(&s.wake)
	}
}

// Cancel takes Prepare back.
func (s *Sleeper) Cancel() {
	s.unhook()
	s.own.Cancel()
}

// Wait sleeps until one of the notifiers is woken, or ctx is done, and returns its error then.
func (s *Sleeper) Wait(ctx context.Context) error {
	err := s.own.Wait(ctx)
	s.unhook()
	return err
}

func (s *Sleeper) unhook() {
	for _, n := range s.others {
		n.CancelHook()
	}
}

// Until sleeps until ready, which is called by the caller's goroutine: LoopConfig.Wait.
func (s *Sleeper) Until(ctx context.Context, ready func() bool) error {
	return ringbuf.Park().Until(ctx, s, ready)
}
