package conform

import (
	"fmt"

	"github.com/weirflow/weir/task"
)

// runValve drives a watermark valve.
func runValve(s *Scenario, out *Out) error {
	v := task.NewValve(s.Int("channels"))
	for i := range s.Steps {
		st := &s.Steps[i]
		out.Step(i)
		var o task.ValveOutput
		var err error
		switch st.Op {
		case "wm":
			o, err = v.InputWatermark(st.Int(0), st.Int64(1))
		case "idle":
			o, err = v.InputStatus(st.Int(0), true)
		case "active":
			o, err = v.InputStatus(st.Int(0), false)
		default:
			return fmt.Errorf("line %d: unknown step %q", st.Line, st)
		}
		if err != nil {
			out.Error("*")
			return nil
		}
		if o.HasWatermark {
			out.Line("wm %d", o.Watermark)
		}
		if o.StatusChanged && o.Idle {
			out.Line("idle")
		} else if o.StatusChanged {
			out.Line("active")
		}
	}
	return nil
}
