//go:build !weirdebug

package segment

// refID tells the references of a buffer apart (refs.go).
type refID = uint8

// debugHeader is empty in ordinary builds.
type debugHeader struct{}

// opened notes that a handle was made.
func (b Buffer) opened() {}

// misuse counts a broken rule.
func (h *header) misuse(k misuseKind, b Buffer, err error) {
	if h.pool == nil {
		wrappedMisuse[k].Add(1)
		return
	}
	h.pool.misused[k].Add(1)
	if f := h.pool.cfg.OnMisuse; f != nil {
		f(h.misuseError(k, err))
	}
}

func (h *header) misuseError(k misuseKind, err error) *MisuseError {
	e := &MisuseError{What: misuseNames[k], Segment: -1, Err: err}
	if h.pool != nil {
		e.Segment = int(h.index)
		if l := h.home; l != nil {
			e.Pool = l.cfg.Name
		}
	}
	return e
}
