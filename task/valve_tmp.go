package task

import "github.com/weirflow/weir/serde"

// Valve is a stand-in until the real one lands.
type Valve struct{}

// NewValve makes one.
func NewValve(n int) *Valve { return &Valve{} }

// Watermark passes on.
func (v *Valve) Watermark(ch int, t int64, out *valveOutput) {
	out.q = append(out.q, serde.Element{Kind: serde.Watermark, Timestamp: t})
}

// Status passes on.
func (v *Valve) Status(ch int, idle bool, out *valveOutput) {}

type valveOutput struct{ q []serde.Element }

func (o *valveOutput) take(e *serde.Element) (Status, bool) {
	if len(o.q) == 0 {
		return Nothing, false
	}
	*e = o.q[0]
	o.q = o.q[1:]
	return Element, true
}
