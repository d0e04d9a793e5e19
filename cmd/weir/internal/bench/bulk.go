package bench

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/bits"

	"github.com/weirflow/weir"
	"github.com/weirflow/weir/internal/measure"
)

const (
	frameSize = 32 << 10
	stampAt   = 0 // a running number
	markAt    = 8 // says that the rest of the frame is filled
	filler    = 0x9e3779b97f4a7c15
)

// frame is how many bytes of a buffer the scenario uses.
func (o *Options) frame() int {
	if o.Frame == 0 {
		return frameSize
	}
	return o.Frame
}

// sendBulk fills each segment once and from then on only stamps it, as the segments come round again.
func sendBulk(ctx context.Context, r *role) error {
	out, err := r.node.NewOutput(weir.OutputConfig{Name: "bulk", Buffers: r.opt.Buffers})
	if err != nil {
		return err
	}
	size := r.opt.frame()
	every := uint64(max(1, frameSize/size)) // small frames are counted in batches: what counting costs is not theirs
	for n := uint64(0); ; n++ {
		p, err := out.ClaimBuffer(ctx, 0)
		if err != nil {
			return err
		}
		if err := stamp(p, n); err != nil {
			return err
		}
		if err := out.CommitBuffer(size); err != nil {
			return err
		}
		if (n+1)%every == 0 {
			r.meter.Add(int64(size)*int64(every), int64(every))
		}
	}
}

// stamp makes a buffer the n-th frame.
func stamp(p []byte, n uint64) error {
	if len(p) != frameSize {
		return fmt.Errorf("a buffer of %d bytes", len(p))
	}
	le := binary.LittleEndian
	if le.Uint64(p[markAt:]) != filler {
		for i := markAt; i < frameSize; i += 8 {
			le.PutUint64(p[i:], filler)
		}
	}
	le.PutUint64(p[stampAt:], n)
	return nil
}

// stampedSum is the sum of the words of a frame of this size, less its stamp.
func stampedSum(size int) uint64 {
	_, lo := bits.Mul64(uint64(size/8-1), filler)
	return lo
}

func receiveBulk(ctx context.Context, r *role) error {
	in, err := r.node.NewInput(r.opt.input(weir.Source{Addr: r.addr, Name: "bulk"}))
	if err != nil {
		return err
	}
	size := r.opt.frame()
	rest := stampedSum(size)
	every, sums := uint64(max(1, frameSize/size)), uint64(0)
	for n := uint64(0); ; n++ {
		p, _, err := in.NextBuffer(ctx)
		if err != nil {
			return err
		}
		if len(p) != size {
			return fmt.Errorf("frame %d has %d bytes", n, len(p))
		}
		sum := measure.SumWords(p)
		if sum != rest+n {
			return fmt.Errorf("the words of frame %d add up to %x, want %x", n, sum, rest+n)
		}
		if sums += sum; (n+1)%every == 0 {
			r.sum.Store(r.sum.Load() + sums)
			r.payload.Store(r.payload.Load() + uint64(size)*every)
			r.meter.Add(int64(size)*int64(every), int64(every))
			sums = 0
		}
	}
}
