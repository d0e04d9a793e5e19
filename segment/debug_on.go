//go:build weirdebug

package segment

import (
	"fmt"
	"runtime"
	"strings"
	"sync"
)

// refID tells the references of a buffer apart.
type refID = uint16

// debugHeader is the memory of a header in debug builds.
type debugHeader struct {
	mu       sync.Mutex
	live     map[refID]struct{}
	lastID   refID
	ops      [debugOps]debugOp
	n        uint64 // operations so far
	poisoned bool
}

// debugOps is how many operations of a segment are remembered.
const debugOps = 8

type debugOp struct {
	kind     opKind
	ref, new refID
	life     uint64
	pcs      [12]uintptr
	depth    int
}

type opKind uint8

const (
	opOpen opKind = iota
	opRetain
	opRelease
	opLast
)

func (k opKind) String() string {
	return [...]string{"taken", "retained", "released", "released for good"}[k]
}

// note remembers an operation with the stack of its caller. The caller holds mu.
func (d *debugHeader) note(k opKind, ref, created refID) {
	op := &d.ops[d.n%debugOps]
	d.n++
	op.kind, op.ref, op.new = k, ref, created
	op.depth = runtime.Callers(3, op.pcs[:])
}

// opened begins a life: the memory becomes usable, and must be as it was left.
func (b Buffer) opened() {
	h := b.h
	h.dbg.mu.Lock()
	clean := h.unpoison()
	h.dbg.live = map[refID]struct{}{b.ref(): {}}
	var err *MisuseError
	if !clean {
		err = h.misuseErrorLocked(useAfterRelease, ErrReleased)
		err.What = "written to after release"
	}
	h.dbg.note(opOpen, b.ref(), b.ref())
	h.dbg.mu.Unlock()
	if err != nil {
		h.report(useAfterRelease, err)
	}
}

// unhandled takes opened back.
func (h *header) unhandled() {
	h.dbg.mu.Lock()
	defer h.dbg.mu.Unlock()
	clear(h.dbg.live)
	h.poison()
}

// misuse counts a broken rule and panics, or calls OnMisuse.
func (h *header) misuse(k misuseKind, err error) { h.report(k, h.misuseError(k, err)) }

func (h *header) report(k misuseKind, e *MisuseError) {
	if h.pool == nil {
		wrappedMisuse[k].Add(1)
		panic(e)
	}
	h.pool.misused[k].Add(1)
	if f := h.pool.cfg.OnMisuse; f != nil {
		f(e)
		return
	}
	panic(e)
}

// history tells what happened to the segment, the latest first, each with its stack.
func (h *header) history() string {
	h.dbg.mu.Lock()
	defer h.dbg.mu.Unlock()
	return h.historyLocked()
}

func (h *header) historyLocked() string {
	var s strings.Builder
	var here [12]uintptr
	fmt.Fprintf(&s, "now at\n%s", stack(here[:runtime.Callers(3, here[:])]))
	d := &h.dbg
	for i := range min(d.n, debugOps) {
		op := &d.ops[(d.n-1-i)%debugOps]
		fmt.Fprintf(&s, "%v (reference %d", op.kind, op.ref)
		if op.new != op.ref {
			fmt.Fprintf(&s, " gave %d", op.new)
		}
		fmt.Fprintf(&s, ") at\n%s", stack(op.pcs[:op.depth]))
	}
	return s.String()
}

func (h *header) misuseErrorLocked(k misuseKind, err error) *MisuseError {
	e := &MisuseError{What: misuseNames[k], Segment: int(h.index), Err: err, History: h.historyLocked()}
	if h.home != nil {
		e.Pool = h.home.cfg.Name
	}
	return e
}

// stack prints program counters, without the runtime's and testing's.
func stack(pcs []uintptr) string {
	var s strings.Builder
	frames := runtime.CallersFrames(pcs)
	for {
		f, more := frames.Next()
		if f.Function != "" && !strings.HasPrefix(f.Function, "runtime.") && !strings.HasPrefix(f.Function, "testing.") {
			fmt.Fprintf(&s, "\t%s\n\t\t%s:%d\n", f.Function, f.File, f.Line)
		}
		if !more {
			return s.String()
		}
	}
}
