package segment

import (
	"errors"
	"fmt"
)

// Sentinels for errors.Is.
var (
	// ErrClosed: the pool, or local pool, is closed (Flink: "Buffer pool has already been destroyed.").
	ErrClosed = errors.New("segment: pool is closed")
	// ErrTooFew is wrapped by *TooFewError.
	ErrTooFew = errors.New("segment: insufficient number of network buffers")
	// ErrReleased: the handle was released before; its segment may be somebody else's by now.
	ErrReleased = errors.New("segment: buffer was released before")
	// ErrTooManyRefs: the buffer has MaxRefs references already.
	ErrTooManyRefs = errors.New("segment: buffer has too many references")
	// ErrRange: a window does not lie in its buffer, or cuts a compressed one.
	ErrRange = errors.New("segment: window outside of the buffer")
	// ErrReadOnly: a slice, or file-backed, buffer was to be written.
	ErrReadOnly = errors.New("segment: buffer is read-only")
	// ErrFinished: the builder has finished, or has its reader already.
	ErrFinished = errors.New("segment: builder is finished")
	// ErrLeak is wrapped by *LeakError.
	ErrLeak = errors.New("segment: buffers did not come home")
	// ErrConfig: a configuration cannot be met; the text says which field and why.
	ErrConfig = errors.New("segment: bad configuration")
)

// TooFewError reports that a pool cannot guarantee what was asked for. Nothing was changed.
type TooFewError struct {
	Name        string // the local pool that was to be made; empty for Pool.Request
	Wanted      int    // segments asked for
	Available   int    // segments that are not guaranteed to anyone
	Total       int    // segments of the pool
	SegmentSize int    // bytes
	Setting     string // the setting that would have to be raised
}

func (e *TooFewError) Error() string {
	who := ""
	if e.Name != "" {
		who = " for " + e.Name
	}
	return fmt.Sprintf("insufficient number of network buffers%s: required %d, but only %d available. "+
		"The total number of network buffers is currently set to %d of %d bytes each. You can increase this number by raising %s",
		who, e.Wanted, e.Available, e.Total, e.SegmentSize, e.Setting)
}

// Unwrap makes errors.Is(err, ErrTooFew) hold.
func (e *TooFewError) Unwrap() error { return ErrTooFew }

func badConfig(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrConfig, fmt.Sprintf(format, args...))
}
