package segment

import (
	"fmt"
	"runtime/debug"
)

// FaultError reports that memory was touched that nobody may touch: a segment that is not handed out (debug builds on
// mapped memory protect those), or one that was given back to the system.
type FaultError struct {
	Addr    uintptr
	Segment int    // index in the pool, -1 if the address isn't the pool's
	Offset  int    // into the segment
	History string // debug builds: where the segment was taken and released
}

func (e *FaultError) Error() string {
	if e.Segment < 0 {
		return fmt.Sprintf("segment: fault at %#x, which belongs to no segment", e.Addr)
	}
	s := fmt.Sprintf("segment: buffer used after release: byte %d of segment %d", e.Offset, e.Segment)
	if e.History != "" {
		s += "\n" + e.History
	}
	return s
}

// Unwrap returns ErrReleased if the address is the pool's.
func (e *FaultError) Unwrap() error {
	if e.Segment < 0 {
		return nil
	}
	return ErrReleased
}

// Guard calls f and turns a memory fault in it, in this goroutine, into a *FaultError instead of the end of the
// process. Other panics go through. It is for tests and debug builds, which protect the pages of free segments: so a
// []byte that was kept beyond its buffer's release is found where it is used.
func (p *Pool) Guard(f func()) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			a, ok := r.(interface{ Addr() uintptr })
			if !ok {
				panic(r)
			}
			err = p.fault(a.Addr())
		}
	}()
	f()
	return nil
}

func (p *Pool) fault(addr uintptr) *FaultError {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range p.headers {
		h := &p.headers[i]
		if at := address(h.mem); at != 0 && addr-at < uintptr(len(h.mem)) {
			return &FaultError{Addr: addr, Segment: i, Offset: int(addr - at), History: h.history()}
		}
	}
	return &FaultError{Addr: addr, Segment: -1}
}
