package bench

import (
	"context"
	"encoding/binary"
	"fmt"
	"strconv"

	"github.com/weirflow/weir"
	"github.com/weirflow/weir/internal/measure"
)

const (
	fanChannels = 64
	fanBuffers  = 16 // of an output
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

func sendFan(ctx context.Context, r *role) error {
	failed := make(chan error, fanChannels)
	for i := range fanChannels {
		out, err := r.node.NewOutput(fanOutput(i))
		if err != nil {
			return err
		}
		m := r.meter.Branch()
		go func() { failed <- fanWrite(ctx, out, m) }()
	}
	return <-failed
}

func fanWrite(ctx context.Context, out *weir.Output, m *measure.Meter) error {
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
		m.Add(frameSize, 1)
	}
}

func receiveFan(ctx context.Context, r *role) error {
	fan := measure.NewFan(r.meter, fanChannels)
	r.opening = func() (func() map[string]float64, error) {
		figures, err := fan.Measure()
		return func() map[string]float64 { return figures }, err
	}
	failed := make(chan error, fanChannels)
	for i := range fanChannels {
		in, err := r.node.NewInput(fanInput(r.addr, i))
		if err != nil {
			return err
		}
		go func() { failed <- fanRead(ctx, r, in, fan, i) }()
	}
	return <-failed
}

func fanRead(ctx context.Context, r *role, in *weir.Input, fan *measure.Fan, i int) error {
	m := fan.Channel(i)
	for n := uint64(0); ; n++ {
		fan.Wait(i)
		p, _, err := in.NextBuffer(ctx)
		if err != nil {
			return err
		}
		if got := binary.LittleEndian.Uint64(p); got != n || len(p) != frameSize {
			return fmt.Errorf("frame %d has %d bytes, want frame %d", got, len(p), n)
		}
		r.sum.Add(measure.SumWords(p))
		r.payload.Add(frameSize)
		m.Add(frameSize, 1)
	}
}

func moreFan(res *Result, recv, _ *measure.Result) error {
	res.Kept, res.SlowestOfMean = recv.Extra["kept"], recv.Extra["slowest_of_mean"]
	return nil
}
