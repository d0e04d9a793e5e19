package bench

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirflow/weir"
	"github.com/weirflow/weir/internal/measure"
)

const (
	fanChannels = 64
	fanStalled  = 0                      // the channel that is not read any more
	fanBuffers  = 16                     // of an output
	fanSettle   = 200 * time.Millisecond // until the stalled channel is full, or empty again
	fanPeriod   = 250 * time.Millisecond // for which rates are taken
	fanCycles   = 5
	fanCount    = 5 * time.Millisecond // between two updates of the meter
)

func fanOutput(i int) weir.OutputConfig {
	return weir.OutputConfig{Name: "fan-" + strconv.Itoa(i), Buffers: fanBuffers}
}

func fanInput(addr string, i int) weir.InputConfig {
	return weir.InputConfig{Sources: []weir.Source{{Addr: addr, Name: fanOutput(i).Name}}, Exclusive: 8}
}

func fanConfig(side string, _ *Options, cfg *weir.Config) {
	var outs []weir.OutputConfig
	var ins []weir.InputConfig
	for i := range fanChannels {
		if side == "send" {
			outs = append(outs, fanOutput(i))
		} else {
			ins = append(ins, fanInput("", i))
		}
	}
	cfg.Memory = weir.MemoryNeeded(*cfg, outs, ins)
}

// counter counts the frames of one channel, on a cache line of its own.
type counter struct {
	atomic.Int64
	_ [56]byte
}

// fanCounters counts for the meter, which is for one goroutine.
type fanCounters [fanChannels]counter

func (c *fanCounters) sum() (n int64) {
	for i := range c {
		n += c[i].Load()
	}
	return n
}

// started tells whether every channel has moved.
func (c *fanCounters) started() bool {
	for i := range c {
		if c[i].Load() == 0 {
			return false
		}
	}
	return true
}

// count keeps the meter up to date, from when all channels move until a channel's goroutine fails.
func (c *fanCounters) count(r *role, failed <-chan error) error {
	t := time.NewTicker(fanCount)
	defer t.Stop()
	for last, started := int64(0), false; ; {
		select {
		case err := <-failed:
			return err
		case <-t.C:
		}
		if started = started || c.started(); !started {
			continue
		}
		if now := c.sum(); now > last {
			r.meter.Add((now-last)*frameSize, now-last)
			last = now
		}
	}
}

func sendFan(ctx context.Context, r *role) error {
	var outs [fanChannels]*weir.Output
	for i := range outs {
		var err error
		if outs[i], err = r.node.NewOutput(fanOutput(i)); err != nil {
			return err
		}
	}
	failed := make(chan error, fanChannels)
	var counters fanCounters
	for i, out := range outs {
		go func() { failed <- fanWrite(ctx, out, &counters[i]) }()
	}
	return counters.count(r, failed)
}

func fanWrite(ctx context.Context, out *weir.Output, c *counter) error {
	if err := out.AwaitConsumers(ctx); err != nil {
		return err
	}
	for n := uint64(0); ; n++ {
		p, err := out.ClaimBuffer(ctx, 0)
		if err != nil {
			return err
		}
		binary.LittleEndian.PutUint64(p, n)
		if err := out.CommitBuffer(len(p)); err != nil {
			return err
		}
		c.Add(1)
	}
}

func receiveFan(ctx context.Context, r *role) error {
	var counters fanCounters
	var stalled stall
	r.opening = func() (func() map[string]float64, error) { return fanMeasure(&counters, &stalled) }
	failed := make(chan error, fanChannels)
	for i := range fanChannels {
		in, err := r.node.NewInput(fanInput(r.addr, i))
		if err != nil {
			return err
		}
		var wait *stall
		if i == fanStalled {
			wait = &stalled
		}
		go func() { failed <- fanRead(ctx, r, in, &counters[i], wait) }()
	}
	return counters.count(r, failed)
}

func fanRead(ctx context.Context, r *role, in *weir.Input, c *counter, stalled *stall) error {
	for n := uint64(0); ; n++ {
		if stalled != nil {
			stalled.wait()
		}
		p, _, err := in.NextBuffer(ctx)
		if err != nil {
			return err
		}
		if got := binary.LittleEndian.Uint64(p); got != n || len(p) != frameSize {
			return fmt.Errorf("frame %d has %d bytes, want frame %d", got, len(p), n)
		}
		r.sum.Add(measure.SumWords(p))
		r.payload.Add(frameSize)
		c.Add(1)
	}
}

func moreFan(res *Result, recv, _ *measure.Result) error {
	res.Kept, res.SlowestOfMean = recv.Extra["kept"], recv.Extra["slowest_of_mean"]
	return nil
}

// fanMeasure takes the rates with and without the stalled reader, in turn and several times, so that a machine that becomes slower
// meanwhile changes both. Then it stops that reader for good and lets the window begin.
func fanMeasure(c *fanCounters, stall *stall) (closing func() map[string]float64, err error) {
	var before, during fanRates
	for range fanCycles {
		before.take(c)
		stall.set(true)
		time.Sleep(fanSettle)
		during.take(c)
		stall.set(false)
		time.Sleep(fanSettle)
	}
	kept, slowest, err := fanRatios(&before, &during)
	stall.set(true)
	time.Sleep(fanSettle)
	return func() map[string]float64 { return map[string]float64{"kept": kept, "slowest_of_mean": slowest} }, err
}

// fanRates are the frames of each channel over some periods.
type fanRates struct {
	frames  [fanChannels]int64
	seconds float64
}

// take adds a period.
func (r *fanRates) take(c *fanCounters) {
	begin := time.Now()
	for i := range c {
		r.frames[i] -= c[i].Load()
	}
	time.Sleep(fanPeriod)
	for i := range c {
		r.frames[i] += c[i].Load()
	}
	r.seconds += time.Since(begin).Seconds()
}

// fanRatios compares the channels that are read with themselves and with each other.
func fanRatios(before, during *fanRates) (kept, slowestOfMean float64, err error) {
	switch {
	case before.frames[fanStalled] == 0:
		return 0, 0, errors.New("the channel that is to be stalled did not move before, so nothing is shown")
	case during.frames[fanStalled] > 0:
		return 0, 0, fmt.Errorf("the stalled channel moved: %d frames", during.frames[fanStalled])
	}
	sumBefore, sum, slowest := int64(0), int64(0), during.frames[1]
	for i := 1; i < fanChannels; i++ {
		sumBefore += before.frames[i]
		sum += during.frames[i]
		slowest = min(slowest, during.frames[i])
	}
	kept = float64(sum) / during.seconds / (float64(sumBefore) / before.seconds)
	return kept, float64(slowest) * (fanChannels - 1) / float64(sum), nil
}

// stall stops a reader for a while.
type stall struct {
	mu sync.Mutex // held while stalled
	on bool
}

func (s *stall) set(on bool) {
	switch {
	case on == s.on:
		return
	case on:
		s.mu.Lock()
	default:
		s.mu.Unlock()
	}
	s.on = on
}

// wait returns when the reader may go on.
func (s *stall) wait() {
	s.mu.Lock()
	s.mu.Unlock() //nolint:staticcheck // waiting is all
}
