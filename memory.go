package weir

import (
	"errors"
	"fmt"

	"github.com/weirflow/weir/segment"
)

// MemoryNeeded is the price in bytes of a node with these outputs and inputs: what Config.Memory must be at least, so that
// all of them open and none has to wait for another's memory. It is the sum of what each can hold.
func MemoryNeeded(cfg Config, outputs []OutputConfig, inputs []InputConfig) int64 {
	cfg = cfg.withDefaults()
	n := 0
	for _, o := range outputs {
		o = o.withDefaults()
		n += max(o.Buffers, o.Subpartitions+1) + overdraft
	}
	for _, in := range inputs {
		n += in.withDefaults().segments()
	}
	return int64(n) * int64(cfg.SegmentSize)
}

// explain adds to an error about too few segments what to do about it.
func (n *Node) explain(err error) error {
	var few *segment.TooFewError
	if !errors.As(err, &few) {
		return err
	}
	return fmt.Errorf("%w; Config.Memory is %d bytes, MemoryNeeded(config, outputs, inputs) says how many it takes", err, n.cfg.Memory)
}
