package bench

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/weirflow/weir"
	"github.com/weirflow/weir/internal/measure"
)

// Barriers behind bulk. Stretches with and without barriers take turns, by the clock that both processes have; a barrier's id is the
// time of its posting in nanoseconds, so that the receiver knows how long it took.
const (
	alignFew     = 8 // channels up to this many have frequent barriers and full segments
	alignOften   = 10 * time.Millisecond
	alignSeldom  = time.Second
	alignStretch = 250 * time.Millisecond // at least
	alignHistory = 1 << 14                // counts that the receiver remembers, a power of two
	alignEvery   = 4                      // frames between two of them
)

// alignShape is how often barriers come, and how long the stretches are.
func alignShape(channels int) (interval, stretch time.Duration, size int) {
	if channels <= alignFew {
		return alignOften, alignStretch, frameSize
	}
	return alignSeldom, 2 * alignSeldom, smallFrame
}

// withBarriers tells whether a time is in a stretch with barriers.
func withBarriers(at time.Time, stretch time.Duration) bool {
	return at.UnixNano()/int64(stretch)%2 == 1
}

func alignOutput(channels int) weir.OutputConfig {
	return weir.OutputConfig{Name: "align", Subpartitions: channels}
}

func alignInput(addr string, channels int) weir.InputConfig {
	return weir.InputConfig{Sources: []weir.Source{{Addr: addr, Name: "align", Last: channels - 1}}}
}

func alignConfig(side string, opt *Options, cfg *weir.Config) {
	_, _, cfg.SegmentSize = alignShape(opt.Channels)
	if opt.Channels <= alignFew {
		return
	}
	if side == "send" {
		cfg.Memory = weir.MemoryNeeded(*cfg, []weir.OutputConfig{alignOutput(opt.Channels)}, nil)
	} else {
		cfg.Memory = weir.MemoryNeeded(*cfg, nil, []weir.InputConfig{alignInput("", opt.Channels)})
	}
}

// sendAlign sends frames to each channel in turn, numbered over all of them, and another goroutine posts barriers.
func sendAlign(ctx context.Context, r *role) error {
	interval, stretch, size := alignShape(r.opt.Channels)
	out, err := r.node.NewOutput(alignOutput(r.opt.Channels))
	if err != nil {
		return err
	}
	if err := out.AwaitConsumers(ctx); err != nil {
		return err
	}
	failed := make(chan error, 1)
	go func() { failed <- postBarriers(ctx, out, interval, stretch) }()
	for n := uint64(0); ; {
		for sub := range r.opt.Channels {
			p, err := out.ClaimBuffer(ctx, sub)
			if err != nil {
				return err
			}
			binary.LittleEndian.PutUint64(p, n)
			n++
			if err := out.CommitBuffer(size); err != nil {
				return err
			}
			r.meter.Add(int64(size), 1)
		}
		select {
		case err := <-failed:
			return err
		default:
		}
	}
}

func postBarriers(ctx context.Context, out *weir.Output, interval, stretch time.Duration) error {
	t := time.NewTicker(interval)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-t.C:
			if now := time.Now(); withBarriers(now, stretch) {
				if err := out.Barrier(weir.AlignedBarrier(now.UnixNano(), now)); err != nil {
					return err
				}
			}
		}
	}
}

// alignment is what the receiver sees of barriers.
type alignment struct {
	size    int
	stretch time.Duration
	frames  atomic.Int64      // so many were read
	last    uint64            // the highest number read
	delays  measure.Histogram // of barriers
	ratios  chan float64      // delay over frames before, in ns a frame
	history [alignHistory]struct{ at, frames int64 }
	entries int
}

// count counts a frame, and remembers at times how many there were when.
func (a *alignment) count(number uint64) {
	n := a.frames.Load() + 1
	a.frames.Store(n)
	a.last = max(a.last, number)
	if n%alignEvery == 0 {
		h := &a.history[a.entries%alignHistory]
		h.at, h.frames = time.Now().UnixNano(), n
		a.entries++
	}
}

// at is how many frames were read at a time.
func (a *alignment) at(ns int64) int64 {
	kept := min(a.entries, alignHistory)
	i := 0
	for i < kept-1 && a.history[(a.entries-1-i)%alignHistory].at > ns {
		i++
	}
	if kept == 0 {
		return 0
	}
	return a.history[(a.entries-1-i)%alignHistory].frames
}

// barrier counts a barrier.
func (a *alignment) barrier(info *weir.CheckpointInfo) {
	posted := info.Barrier.ID
	delay := time.Now().UnixNano() - posted
	a.delays.Add(time.Duration(delay))
	if before := int64(a.last) + 1 - a.at(posted); before > 0 {
		select {
		case a.ratios <- float64(delay) / float64(before):
		default: // enough
		}
	}
	info.Ack()
}

func receiveAlign(ctx context.Context, r *role) error {
	_, stretch, size := alignShape(r.opt.Channels)
	in, err := r.node.NewInput(alignInput(r.addr, r.opt.Channels))
	if err != nil {
		return err
	}
	a := &alignment{size: size, stretch: stretch, ratios: make(chan float64, 1<<16)}
	r.opening = func() (func() map[string]float64, error) { return a.measure(r.opt) }
	for {
		p, e, err := in.NextBuffer(ctx)
		if err != nil {
			return err
		}
		switch {
		case e.Kind == weir.Checkpoint:
			a.barrier(e.Checkpoint)
			continue
		case p == nil:
			return fmt.Errorf("an element of kind %d", e.Kind)
		case len(p) != size:
			return fmt.Errorf("a frame of %d bytes", len(p))
		}
		a.count(binary.LittleEndian.Uint64(p))
		r.sum.Store(r.sum.Load() + measure.SumWords(p))
		r.payload.Store(r.payload.Load() + uint64(size))
		r.meter.Add(int64(size), 1)
	}
}

// measure takes the rates of stretches with and without barriers, for about as long as the window is, and at least one of each.
func (a *alignment) measure(opt *Options) (closing func() map[string]float64, err error) {
	time.Sleep(time.Until(time.Now().Truncate(2 * a.stretch).Add(2 * a.stretch))) // the next stretch is one without
	delays := a.delays.Counts()
	for len(a.ratios) > 0 {
		<-a.ratios
	}
	var frames [2]int64
	var seconds [2]float64
	for range max(1, int(opt.Window/(2*a.stretch))) {
		for i := range 2 {
			begin, before := time.Now(), a.frames.Load()
			time.Sleep(time.Until(begin.Truncate(a.stretch).Add(a.stretch)))
			frames[i] += a.frames.Load() - before
			seconds[i] += time.Since(begin).Seconds()
		}
	}
	if frames[0] == 0 || frames[1] == 0 {
		return nil, errors.New("nothing moved in a stretch")
	}
	c := a.delays.Since(delays)
	nsPerFrame := 1e9 * seconds[0] / float64(frames[0])
	var ofBytes []float64
	for len(a.ratios) > 0 {
		ofBytes = append(ofBytes, <-a.ratios/nsPerFrame)
	}
	if c.Total() == 0 || len(ofBytes) == 0 {
		return nil, errors.New("no barrier came with data before it")
	}
	slices.Sort(ofBytes)
	figures := map[string]float64{
		"barriers": float64(c.Total()), "barrier_p50_us": c.Micros(0.5), "barrier_p99_us": c.Micros(0.99),
		"barrier_of_bytes": measure.Quantile(ofBytes, 0.5),
		"barrier_kept":     float64(frames[1]) / seconds[1] / (float64(frames[0]) / seconds[0]),
	}
	return func() map[string]float64 { return figures }, nil
}

func moreAlign(res *Result, recv, _ *measure.Result) error {
	x := recv.Extra
	res.Barriers = &Barriers{Count: x["barriers"], P50: x["barrier_p50_us"], P99: x["barrier_p99_us"], OfBytes: x["barrier_of_bytes"], Kept: x["barrier_kept"]}
	return nil
}
