package pipeline

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/weirflow/weir/checkpoint"
)

// Config configures Run.
type Config struct {
	// Member says who this process is, and where the coordinator is. Its name is the task's.
	Member checkpoint.MemberConfig
	// Sink is what the process writes to the outside, in transactions. Nil: nothing.
	Sink checkpoint.TwoPhase
	// Wait bounds how long an attempt waits for the other members to be there; 0 means 1 min, negative for ever.
	Wait time.Duration
	// MaxSnapshot bounds the snapshot that is read back, in bytes: 0 means 1 GiB.
	MaxSnapshot int64
	// Completed is told of each checkpoint that was completed and committed; not on the task's goroutine. Nil: nobody is.
	Completed func(attempt int, id int64)
	// Logger gets why attempts ended. Nil: nobody does.
	Logger *slog.Logger
}

const (
	defaultWait        = time.Minute
	defaultMaxSnapshot = 1 << 30
	// minPause and maxPause bound the pause between attempts of which none completed a checkpoint.
	minPause = 10 * time.Millisecond
	maxPause = time.Second
)

// ErrEarly is in the error for a function that returned before the pipeline's end, without an error and without Attempt.Finish.
var ErrEarly = errors.New("the process ended before the pipeline did")

// permanent is an error that another attempt does not cure.
type permanent struct{ error }

func (p permanent) Unwrap() error { return p.error }

// Permanent marks an error of the function as one that ends Run, as a wrong configuration does. Any other ends the attempt only.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return permanent{err}
}

// Run joins the pipeline and calls f for each attempt, until the pipeline has reached the end of its data and everything is committed.
// ctx of f ends with the attempt. Run ends with ctx, with an error marked Permanent, with checkpoint.ErrReplaced if another process took
// this one's name, with checkpoint.ErrRefused, with checkpoint.ErrCommittedBeyond of a sink, and when the coordinator or other members are away for too long.
func Run(ctx context.Context, cfg Config, f func(ctx context.Context, a *Attempt) error) error {
	if cfg.Wait == 0 {
		cfg.Wait = defaultWait
	}
	if cfg.MaxSnapshot == 0 {
		cfg.MaxSnapshot = defaultMaxSnapshot
	}
	m, err := checkpoint.NewMember(cfg.Member)
	if err != nil {
		return err
	}
	defer func() { _ = m.Close() }()
	for pause := minPause; ; pause = min(2*pause, maxPause) {
		e, err := join(ctx, m, cfg.Wait)
		if err != nil {
			return err
		}
		a := newAttempt(&cfg, e)
		err = a.run(ctx, f)
		if err == nil {
			return nil
		}
		if stop := a.stops(ctx, err); stop != nil {
			return stop
		}
		cfg.log("the attempt ended", "attempt", e.Number(), "error", err)
		if a.progress() {
			pause = minPause
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
	}
}

// join waits for the next attempt.
func join(ctx context.Context, m *checkpoint.Member, wait time.Duration) (*checkpoint.Epoch, error) {
	if wait < 0 {
		return m.Join(ctx)
	}
	// A little longer: that the coordinator is away is the better reason.
	limited, cancel := context.WithTimeout(ctx, wait+time.Second)
	defer cancel()
	e, err := m.Join(limited)
	if err != nil && limited.Err() != nil && ctx.Err() == nil {
		return nil, fmt.Errorf("pipeline: member %s: not all members were there within %v: %w", m.Name(), wait, err)
	}
	return e, err
}

func (c *Config) log(msg string, args ...any) {
	if c.Logger != nil {
		c.Logger.Info("pipeline: "+msg, append(args, "member", c.Member.Name)...)
	}
}
