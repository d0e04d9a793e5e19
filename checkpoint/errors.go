package checkpoint

import (
	"errors"
	"fmt"
)

// What ends an epoch, or a member.
var (
	// ErrFenced: the epoch is over. Close what belongs to it, drop what is not committed, and join the next one. See FencedError.
	ErrFenced = errors.New("the epoch is fenced")
	// ErrReplaced: another process has this name now. This one must not go on: it can commit nothing.
	ErrReplaced = errors.New("replaced by another process of this name")
	// ErrRefused: the coordinator will not have this member, for a reason that trying again does not change.
	ErrRefused = errors.New("refused by the coordinator")
	// ErrCoordinatorAway: the coordinator could not be reached for as long as MemberConfig.Reconnect allows.
	ErrCoordinatorAway = errors.New("the coordinator is away")
	// ErrClosed: the member or the coordinator was closed.
	ErrClosed = errors.New("closed")
	// ErrSettled: the checkpoint is completed or aborted already, or was answered.
	ErrSettled = errors.New("the checkpoint is settled")
)

// FencedError is how an epoch ended. errors.Is(err, ErrFenced).
type FencedError struct {
	Epoch int32
	// Cause is what the coordinator gave as the reason.
	Cause string
}

func (e *FencedError) Error() string {
	return fmt.Sprintf("checkpoint: epoch %d: %v: %s", e.Epoch, ErrFenced, e.Cause)
}

// Is is for errors.Is.
func (e *FencedError) Is(target error) bool { return target == ErrFenced }
