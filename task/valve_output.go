package task

import "github.com/weirflow/weir/serde"

// valveOutput holds what the valve let out until Next hands it out. Next empties it before it reads on, so that there is
// never more than what one call of the valve gives: a watermark and a status.
type valveOutput struct{ ValveOutput }

// take moves the first element to e.
func (o *valveOutput) take(e *serde.Element) (Status, bool) {
	switch {
	case o.HasWatermark:
		o.HasWatermark = false
		*e = serde.Element{Kind: serde.Watermark, Timestamp: o.Watermark}
	case o.StatusChanged:
		o.StatusChanged = false
		*e = serde.Element{Kind: serde.WatermarkStatus, Idle: o.Idle}
	default:
		return Nothing, false
	}
	return Element, true
}
