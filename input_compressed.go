package weir

import (
	"github.com/weirflow/weir/credit"
	"github.com/weirflow/weir/segment"
)

// decompressor is how an input reads the compressed buffers of blocking outputs. Inputs that get none never have one. It
// belongs to the goroutine that calls Next.
type decompressor struct {
	credit.AnyDecompressor
	pool *segment.LocalPool // nil: there was no memory for one, and the heap has to do
}

// decompress is the gate's way to a plain buffer. The memory for it is taken from what the node has to spare: one segment at least,
// one for each channel at most. What finds none there is on the heap: it waits for nobody.
func (in *Input) decompress(b segment.Buffer) (segment.Buffer, error) {
	d := in.plain
	if d == nil {
		d = &decompressor{AnyDecompressor: *credit.NewAnyDecompressor(in.node.cfg.SegmentSize)}
		in.plain = d
		pool, err := in.node.pool.NewLocal(segment.LocalConfig{Name: "decompressed", Purpose: segment.Receive, Required: 1, Max: in.gate.Channels() + 1})
		if err == nil {
			d.pool, d.Take = pool, pool.Take
		}
	}
	return d.Buffer(b)
}

// close gives everything back; nil is none.
func (d *decompressor) close() {
	if d == nil {
		return
	}
	d.Close()
	if d.pool != nil {
		d.pool.Close()
	}
}
