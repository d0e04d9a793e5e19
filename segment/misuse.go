package segment

import (
	"fmt"
	"sync/atomic"
)

// misuseKind sorts the ways to break the rules of a handle.
type misuseKind uint8

const (
	overRelease misuseKind = iota
	useAfterRelease
	tooManyRefs
	badWindow
	writeToReadOnly
	builderMisuse

	misuseKinds
)

var misuseNames = [misuseKinds]string{
	"released twice", "used after release", "retained too often", "window outside of the buffer", "write to a read-only buffer",
	"builder used against its rules",
}

// Misuse counts what broke the rules of handles. All are bugs of the program around; none of them changed a buffer.
type Misuse struct {
	OverRelease     uint64 // a reference released twice
	UseAfterRelease uint64 // a new reference asked of a released handle; in debug builds bytes too
	TooManyRefs     uint64 // Retain beyond MaxRefs
	BadWindow       uint64 // a slice or size outside of the buffer
	ReadOnly        uint64 // Memory of a read-only buffer (debug builds)
	Builder         uint64 // a second reader, or append after finish
}

// Total returns the sum.
func (m Misuse) Total() uint64 {
	return m.OverRelease + m.UseAfterRelease + m.TooManyRefs + m.BadWindow + m.ReadOnly + m.Builder
}

// MisuseError is what Config.OnMisuse gets, and what a debug build panics with.
type MisuseError struct {
	What    string // "released twice", …
	Pool    string // the local pool that the segment belongs to; empty for wrapped bytes and unpooled segments
	Segment int    // index in its pool, -1 for wrapped bytes
	History string // debug builds: the stacks of this call, of the take and of the release
	Err     error  // the sentinel
}

func (e *MisuseError) Error() string {
	s := fmt.Sprintf("segment: buffer %s (segment %d of %q)", e.What, e.Segment, e.Pool)
	if e.History != "" {
		s += "\n" + e.History
	}
	return s
}

// Unwrap returns the sentinel.
func (e *MisuseError) Unwrap() error { return e.Err }

// misuseCounters are Misuse while they are counted.
type misuseCounters [misuseKinds]atomic.Uint64

func (c *misuseCounters) snapshot() Misuse {
	return Misuse{
		OverRelease:     c[overRelease].Load(),
		UseAfterRelease: c[useAfterRelease].Load(),
		TooManyRefs:     c[tooManyRefs].Load(),
		BadWindow:       c[badWindow].Load(),
		ReadOnly:        c[writeToReadOnly].Load(),
		Builder:         c[builderMisuse].Load(),
	}
}

// wrappedMisuse counts for buffers that belong to no pool.
var wrappedMisuse misuseCounters

// WrappedMisuse returns the misuse of buffers from Wrap and WrapFile, which belong to no pool.
func WrappedMisuse() Misuse { return wrappedMisuse.snapshot() }

// misuseError describes a misuse of b's segment.
func (h *header) misuseError(k misuseKind, err error) *MisuseError {
	e := &MisuseError{What: misuseNames[k], Segment: -1, Err: err, History: h.history()}
	if h.pool != nil {
		e.Segment = int(h.index)
		if l := h.home; l != nil {
			e.Pool = l.cfg.Name
		}
	}
	return e
}

func misuseOf(err error) misuseKind {
	if err == ErrTooManyRefs {
		return tooManyRefs
	}
	return useAfterRelease
}
