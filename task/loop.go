package task

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/weirflow/weir/align"
	"github.com/weirflow/weir/ringbuf"
)

// ErrLoopFinished is what Run says after Finish.
var ErrLoopFinished = errors.New("task: the loop is finished")

// LoopConfig configures a Loop.
type LoopConfig struct {
	// Mailbox brings work from others. The loop is the only one that takes from it.
	Mailbox *Mailbox
	// Process is the default action: Processor.Process or MultiInput.Process.
	Process func() (Status, error)
	// Available reports whether Process has something to do. It is asked while the loop sleeps, by its goroutine; whoever makes it
	// true wakes the notifier that the loop sleeps on.
	Available func() bool
	// Output reports whether the outputs have room; nil: always. Whoever makes room wakes the notifier.
	Output func() bool
	// EndOfData finishes the operators, once: drain is false if the input was stopped. nil: there is nothing to finish.
	// (StreamTask#endData)
	EndOfData func(drain bool) error
	// Wait is how Run sleeps; nil: on the mailbox's notifier.
	Wait Waiter
	// Now is for the times; nil: there are none.
	Now func() time.Duration
}

// LoopTimes is how long a loop waited so far.
type LoopTimes struct {
	// Idle: for input. BackPressured: for room in the outputs.
	Idle, BackPressured time.Duration
}

// Loop runs an operator: the mails that came, then the default action, and so on (Flink: MailboxProcessor with
// StreamTask#processInput as the action). When there is nothing to do it sleeps, until there is input, room in the outputs, or
// mail. It belongs to the goroutine that calls Run, or else Turn; Suspend is for any other.
//
// Invariants: a mail never runs inside of the action, nor the action inside of a mail; mails run also while the action waits; of
// the two times at most one runs at any moment, and neither while a mail does.
type Loop struct {
	cfg       LoopConfig
	times     LoopTimes
	suspended bool
	ended     bool // the input
	finished  atomic.Bool
	ready     func() bool
	waitFor   func() bool
	suspend   Mail
}

// NewLoop makes a loop. The error wraps align.ErrConfig: a part is missing.
func NewLoop(cfg LoopConfig) (*Loop, error) {
	if cfg.Mailbox == nil || cfg.Process == nil || cfg.Available == nil {
		return nil, fmt.Errorf("%w: a loop needs a mailbox, an action, and to know when it is available", align.ErrConfig)
	}
	if cfg.Output == nil {
		cfg.Output = func() bool { return true }
	}
	if cfg.Wait == nil {
		cfg.Wait = func(ctx context.Context, ready func() bool) error {
			return ringbuf.Park().Until(ctx, cfg.Mailbox.sleeper, ready)
		}
	}
	if cfg.Now == nil {
		cfg.Now = func() time.Duration { return 0 }
	}
	l := &Loop{cfg: cfg}
	l.ready = func() bool { return cfg.Mailbox.HasMail() || l.waitFor() }
	l.suspend = Mail{Name: "suspend", Do: func() error { l.suspended = true; return nil }}
	return l, nil
}

// Batch is for NewProcessor: the action goes on while no mail waits and the outputs have room.
func (l *Loop) Batch() bool { return !l.cfg.Mailbox.HasMail() && l.cfg.Output() }

// Run runs until the input has ended or the loop is suspended, and returns nil then; Ended tells which. It may be called again: after
// the end of the input it runs mails only, the last checkpoint's among them, until it is suspended. Other errors are those of
// ctx, of a mail or of the action, and ErrLoopFinished.
func (l *Loop) Run(ctx context.Context) error {
	if l.finished.Load() {
		return ErrLoopFinished
	}
	l.suspended = false
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		if _, err := l.cfg.Mailbox.Process(); err != nil || l.suspended {
			return err
		}
		if err := l.turn(ctx); err != nil || l.suspended {
			return err
		}
	}
}

// turn is one default action, or one sleep.
func (l *Loop) turn(ctx context.Context) error {
	switch {
	case l.ended:
		return l.sleep(ctx, never, nil)
	case !l.cfg.Output():
		return l.sleep(ctx, l.cfg.Output, &l.times.BackPressured)
	}
	st, err := l.act()
	switch {
	case err == nil && st == Nothing:
		return l.sleep(ctx, l.cfg.Available, &l.times.Idle)
	case err == nil && st == EndOfInput:
		l.suspended = true
	}
	return err
}

// act is one default action: More, Nothing or EndOfInput.
func (l *Loop) act() (Status, error) {
	st, err := l.cfg.Process()
	switch {
	case err != nil:
		return Nothing, err
	case st == EndOfData, st == Stopped:
		if l.cfg.EndOfData != nil {
			err = l.cfg.EndOfData(st == EndOfData)
		}
		return More, err
	case st == EndOfInput:
		l.ended = true
	case st != More && st != Nothing:
		return Nothing, fmt.Errorf("%w: the action came to %v", align.ErrState, st)
	}
	return st, nil
}

// Turn runs the mails that wait, then one default action, and never sleeps: it drives a task inline, on the goroutine of somebody
// else's loop, which calls it whenever Ready. Run, on a goroutine of the task's own, is the other way; one of the two drives
// a loop. More: it may be called again at once. Nothing: not before Ready. EndOfInput: from now on it runs mails only, and
// comes to that again. A mail that suspends the loop makes it come to Nothing, once. Errors as from Run.
func (l *Loop) Turn() (Status, error) {
	if l.finished.Load() {
		return Nothing, ErrLoopFinished
	}
	l.suspended = false
	_, err := l.cfg.Mailbox.Process()
	switch {
	case err != nil:
		return Nothing, err
	case l.ended:
		return EndOfInput, nil
	case l.suspended || !l.cfg.Output():
		return Nothing, nil
	}
	return l.act()
}

// Ready reports whether Turn has something to do: mail, or input for which the outputs have room. The loop's goroutine.
func (l *Loop) Ready() bool {
	return l.cfg.Mailbox.HasMail() || !l.ended && l.cfg.Output() && l.cfg.Available()
}

func never() bool { return false }

// sleep waits until ready, or until mail has come, which the caller runs and comes back. The time goes to account.
func (l *Loop) sleep(ctx context.Context, ready func() bool, account *time.Duration) error {
	l.waitFor = ready
	begin := l.cfg.Now()
	err := l.cfg.Wait(ctx, l.ready)
	if account != nil {
		*account += l.cfg.Now() - begin
	}
	return err
}

// Suspend makes Run return before its next action. Any goroutine. Errors as from Mailbox.PostUrgent.
func (l *Loop) Suspend() error {
	return l.cfg.Mailbox.PostUrgent(l.suspend)
}

// Ended reports whether the input has ended. The loop's goroutine.
func (l *Loop) Ended() bool { return l.ended }

// Times is how long the loop waited so far. The loop's goroutine.
func (l *Loop) Times() LoopTimes { return l.times }

// Finish ends the loop for good: it takes no mail any more and runs what waits. The loop's goroutine, not within Run. The error is that
// of the first mail that fails; those behind it are dropped.
func (l *Loop) Finish() error {
	l.finished.Store(true)
	l.cfg.Mailbox.Quiesce()
	var err error
	for err == nil && l.cfg.Mailbox.HasMail() {
		_, err = l.cfg.Mailbox.Process()
	}
	l.cfg.Mailbox.Close(func(m Mail) {
		if err == nil {
			err = m.Do()
		}
	})
	return err
}
