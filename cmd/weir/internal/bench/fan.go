package bench

import (
	"context"
	"encoding/binary"
	"fmt"
	"strconv"
	"time"

	"github.com/weirflow/weir"
	"github.com/weirflow/weir/internal/measure"
)

const fanChannels = 64

// fanTask is a task at each end: channels [first, first+n) of the scenario, which one goroutine writes and one reads. Channel 0, whose reader
// stops, is a task's of its own, since a task waits for all of its subpartitions; the others are shared out.
type fanTask struct{ first, n int }

func fanTasks(opt *Options) []fanTask {
	k := max(1, opt.Tasks)
	tasks := []fanTask{{0, 1}}
	for i := range k {
		first, end := 1+(fanChannels-1)*i/k, 1+(fanChannels-1)*(i+1)/k
		tasks = append(tasks, fanTask{first, end - first})
	}
	return tasks
}

func (t fanTask) output() weir.OutputConfig {
	return weir.OutputConfig{Name: "fan-" + strconv.Itoa(t.first), Subpartitions: t.n}
}

func (t fanTask) input(addr string) weir.InputConfig {
	cfg := weir.InputConfig{Exclusive: fanCredit, Floating: -1}
	for i := range t.n {
		cfg.Sources = append(cfg.Sources, weir.Source{Addr: addr, Name: t.output().Name, Subpartition: i})
	}
	return cfg
}

// fanCredit is the credit of a channel: what proto-credit has.
const fanCredit = 8

func fanConfig(side string, opt *Options, cfg *weir.Config) {
	var outs []weir.OutputConfig
	var ins []weir.InputConfig
	for _, t := range fanTasks(opt) {
		if side == "send" {
			outs = append(outs, t.output())
		} else {
			ins = append(ins, t.input(""))
		}
	}
	cfg.Memory = weir.MemoryNeeded(*cfg, outs, ins)
}

func sendFan(ctx context.Context, r *role) error {
	r.opening = func() (func() map[string]float64, error) {
		time.Sleep(measure.FanLasts)
		return func() map[string]float64 { return nil }, nil
	}
	failed := make(chan error, fanChannels)
	for _, t := range fanTasks(r.opt) {
		out, err := r.node.NewOutput(t.output())
		if err != nil {
			return err
		}
		m := r.meter.Branch()
		go func() { failed <- t.write(ctx, out, m) }()
	}
	return <-failed
}

func (t fanTask) write(ctx context.Context, out *weir.Output, m *measure.Meter) error {
	if err := out.AwaitConsumers(ctx); err != nil {
		return err
	}
	for n := uint64(0); ; n++ {
		for i := range t.n {
			p, err := out.ClaimBuffer(ctx, i)
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
}

func receiveFan(ctx context.Context, r *role) error {
	fan := measure.NewFan(r.meter, fanChannels)
	r.opening = func() (func() map[string]float64, error) {
		figures, err := fan.Measure()
		return func() map[string]float64 { return figures }, err
	}
	failed := make(chan error, fanChannels)
	for _, t := range fanTasks(r.opt) {
		in, err := r.node.NewInput(t.input(r.addr))
		if err != nil {
			return err
		}
		go func() { failed <- t.read(ctx, r, in, fan) }()
	}
	return <-failed
}

func (t fanTask) read(ctx context.Context, r *role, in *weir.Input, fan *measure.Fan) error {
	next := make([]uint64, t.n)
	for {
		fan.Wait(t.first)
		p, e, err := in.NextBuffer(ctx)
		if err != nil {
			return err
		}
		n := &next[e.Channel]
		if got := binary.LittleEndian.Uint64(p); got != *n || len(p) != frameSize {
			return fmt.Errorf("channel %d: frame %d has %d bytes, want frame %d", t.first+e.Channel, got, len(p), *n)
		}
		*n++
		r.sum.Add(measure.SumWords(p))
		r.payload.Add(frameSize)
		fan.Channel(t.first+e.Channel).Add(frameSize, 1)
	}
}

func moreFan(res *Result, recv, _ *measure.Result) error {
	res.Kept, res.SlowestOfMean = recv.Extra["kept"], recv.Extra["slowest_of_mean"]
	return nil
}
