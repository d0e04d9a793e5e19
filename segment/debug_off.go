//go:build !weirdebug

package segment

// refID tells the references of a buffer apart (refs.go).
type refID = uint16

// debugHeader is empty in ordinary builds.
type debugHeader struct{}

// opened notes that a handle was made.
func (b Buffer) opened() {}

// misuse counts a broken rule.
func (h *header) misuse(k misuseKind, err error) {
	if h.pool == nil {
		wrappedMisuse[k].Add(1)
		return
	}
	h.pool.misused[k].Add(1)
	if f := h.pool.cfg.OnMisuse; f != nil {
		f(h.misuseError(k, err))
	}
}

// unhandled takes opened back.
func (h *header) unhandled() {}

// mapped notes that the segment's memory is there.
func (h *header) mapped() {}

// history tells what happened to the segment.
func (h *header) history() string { return "" }
