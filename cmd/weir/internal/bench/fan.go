package bench

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/weirflow/weir"
	"github.com/weirflow/weir/internal/measure"
)

const (
	fanChannels = 64
	fanStalled  = 0                      // the channel that is not read any more
	fanBuffers  = 16                     // of an output
	fanSettle   = 500 * time.Millisecond // until the stalled channel is full
	fanBefore   = time.Second            // how long the rates before are taken
	fanCount    = 5 * time.Millisecond   // between two updates of the meter
)

func fanOutput(i int) weir.OutputConfig {
	return weir.OutputConfig{Name: "fan-" + strconv.Itoa(i), Buffers: fanBuffers}
}

func fanInput(addr string, i int) weir.InputConfig {
	return weir.InputConfig{Sources: []weir.Source{{Addr: addr, Name: fanOutput(i).Name}}, Exclusive: 8}
}

func fanConfig(side string, _ int) (cfg weir.Config) {
	var outs []weir.OutputConfig
	var ins []weir.InputConfig
	for i := range fanChannels {
		if side == "send" {
			outs = append(outs, fanOutput(i))
		} else {
			ins = append(ins, fanInput("", i))
		}
	}
	cfg.Memory = weir.MemoryNeeded(cfg, outs, ins)
	return cfg
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

// count keeps the meter up to date until a channel's goroutine fails.
func (c *fanCounters) count(r *role, failed <-chan error) error {
	t := time.NewTicker(fanCount)
	defer t.Stop()
	for last := int64(0); ; {
		select {
		case err := <-failed:
			return err
		case <-t.C:
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
	fmt.Fprintf(r.out, "ADDR %s\n", r.node.Addr())
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
	var stalled atomic.Bool
	r.opening = func() (func() map[string]float64, error) { return fanMeasure(&counters, &stalled) }
	failed := make(chan error, fanChannels)
	for i := range fanChannels {
		in, err := r.node.NewInput(fanInput(r.addr, i))
		if err != nil {
			return err
		}
		stop := new(atomic.Bool)
		if i == fanStalled {
			stop = &stalled
		}
		go func() { failed <- fanRead(ctx, r, in, &counters[i], stop) }()
	}
	return counters.count(r, failed)
}

func fanRead(ctx context.Context, r *role, in *weir.Input, c *counter, stop *atomic.Bool) error {
	for n := uint64(0); ; n++ {
		if stop.Load() {
			<-ctx.Done() // the channel is full of what nobody reads, until this process ends
			return ctx.Err()
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

// fanMeasure takes the rates before, stops the reader of a channel, and lets the window begin.
func fanMeasure(c *fanCounters, stalled *atomic.Bool) (closing func() map[string]float64, err error) {
	rates := func(begin time.Time, from *[fanChannels]int64) (all [fanChannels]float64) {
		d := time.Since(begin).Seconds()
		for i := range all {
			all[i] = float64(c[i].Load()-from[i]) / d
		}
		return all
	}
	snap := func() (all [fanChannels]int64) {
		for i := range all {
			all[i] = c[i].Load()
		}
		return all
	}
	begin, from := time.Now(), snap()
	time.Sleep(fanBefore)
	before := rates(begin, &from)
	stalled.Store(true)
	time.Sleep(fanSettle)
	begin, from = time.Now(), snap()
	if before[fanStalled] == 0 {
		return nil, errors.New("the channel that is to be stalled did not move before, so nothing is shown")
	}
	return func() map[string]float64 {
		during := rates(begin, &from)
		return fanRatios(before, during)
	}, nil
}

// fanRatios compares the channels that are read with themselves and with each other. A stalled channel that moved gives
// nothing.
func fanRatios(before, during [fanChannels]float64) map[string]float64 {
	if during[fanStalled] > 0 {
		return nil
	}
	sumBefore, sum, slowest := 0.0, 0.0, during[1]
	for i := 1; i < fanChannels; i++ {
		sumBefore += before[i]
		sum += during[i]
		slowest = min(slowest, during[i])
	}
	return map[string]float64{"kept": sum / sumBefore, "slowest_of_mean": slowest / (sum / (fanChannels - 1))}
}
