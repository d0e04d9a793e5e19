package segment

import (
	"fmt"
	"strings"
)

// Leak is a buffer that was not released, or a local pool that was not closed.
type Leak struct {
	Pool    string // the local pool; empty for unpooled buffers
	Segment int    // index in the pool, -1 if it is the local pool itself that is open
	Refs    int    // live references
	History string // debug builds: where the references were made
}

// LeakError lists what did not come home by the time of Pool.Close.
type LeakError struct{ Leaks []Leak }

func (e *LeakError) Error() string {
	var s strings.Builder
	fmt.Fprintf(&s, "segment: %d buffers or local pools did not come home:", len(e.Leaks))
	for i, l := range e.Leaks {
		if i == 16 && len(e.Leaks) > 20 {
			fmt.Fprintf(&s, "\n\tand %d more", len(e.Leaks)-i)
			break
		}
		if l.Segment < 0 {
			fmt.Fprintf(&s, "\n\tlocal pool %q is open", l.Pool)
			continue
		}
		fmt.Fprintf(&s, "\n\tsegment %d of %q: %d references", l.Segment, l.Pool, l.Refs)
		if l.History != "" {
			s.WriteString("\n" + l.History)
		}
	}
	return s.String()
}

// Unwrap makes errors.Is(err, ErrLeak) hold.
func (e *LeakError) Unwrap() error { return ErrLeak }

// leaks lists what is out. The caller holds mu.
func (p *Pool) leaks() error {
	var out []Leak
	open := map[*LocalPool]bool{}
	for _, l := range p.locals {
		out = append(out, Leak{Pool: l.cfg.Name, Segment: -1})
		open[l] = true
	}
	for i := range p.headers {
		h := &p.headers[i]
		if h.free || h.mem == nil {
			continue
		}
		name := ""
		if h.home != nil {
			if open[h.home] {
				continue
			}
			name = h.home.cfg.Name
		}
		out = append(out, Leak{Pool: name, Segment: i, Refs: h.refs(), History: h.history()})
	}
	if len(out) == 0 {
		return nil
	}
	return &LeakError{Leaks: out}
}
