package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/weirflow/weir/internal/measure"
)

// Run runs a scenario, in processes of its own for each of its points and for each row beside it, and prints what came of it.
func Run(ctx context.Context, out io.Writer, name string, opt Options) error {
	s, err := find(name)
	if err != nil {
		return err
	}
	if err := opt.check(s); err != nil {
		return err
	}
	if opt.WarmUp == 0 {
		opt.WarmUp = measure.WarmUp
		if s.flink != nil {
			opt.WarmUp, opt.MostWarmUp = flinkWarmUp, flinkMostWarmUp
		}
	}
	if s.flink != nil {
		if s.echo {
			opt.Record, opt.Channels = pingSize, 1
		}
		if err := buildFlink(ctx, &opt); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	if opt.TLS {
		if opt.Cert, opt.Key, err = newIdentity(); err != nil {
			return err
		}
	}
	res, err := runAll(ctx, s, opt)
	if err != nil {
		return err
	}
	if opt.JSON {
		return json.NewEncoder(out).Encode(res)
	}
	return res.print(out)
}

func runAll(ctx context.Context, s *scenario, opt Options) (res Result, err error) {
	if s.points != nil {
		return runPoints(ctx, s, opt)
	}
	if len(opt.Points) > 0 {
		opt.Channels = opt.Points[0]
	}
	if s.beside != nil {
		if others := s.beside(opt); others != nil {
			return runBeside(ctx, s, opt, others)
		}
	}
	return runOne(ctx, s, opt)
}

// runPoints measures a scenario with several numbers of channels.
func runPoints(ctx context.Context, s *scenario, opt Options) (res Result, err error) {
	points := s.points
	if len(opt.Points) > 0 {
		points = opt.Points
	}
	var all []Point
	for _, n := range points {
		opt.Channels = n
		if res, err = runOne(ctx, s, opt); err != nil {
			return res, err
		}
		all = append(all, Point{Channels: n, Cost: res.CPUPerM, Rate: res.Rate, Allocs: res.Allocs, Credits: res.Credits / max(1, res.Grants),
			PerWrite: res.PerWrite, Barriers: res.Barriers})
	}
	res.Points = all
	for _, p := range all {
		if p.Channels == 64 {
			last := all[len(all)-1]
			res.CostRatio, res.RateRatio = last.Cost/p.Cost, last.Rate/p.Rate
		}
	}
	return res, nil
}

// runBeside measures a scenario and the rows beside it in turn.
func runBeside(ctx context.Context, s *scenario, opt Options, others []beside) (res Result, err error) {
	own := make([]Result, opt.Rounds)
	rivals := make([][]Result, len(others))
	for round := range opt.Rounds {
		if own[round], err = runOne(ctx, s, opt); err != nil {
			return res, err
		}
		for i, b := range others {
			other, err := find(b.scenario)
			if err != nil {
				return res, err
			}
			b.opt.Profile = "" // that is of the scenario
			r, err := runOne(ctx, other, b.opt)
			if err != nil {
				return res, err
			}
			rivals[i] = append(rivals[i], r)
		}
	}
	res = own[len(own)-1]
	median(&res, own)
	for i, b := range others {
		r := Beside{Row: b.row}
		var rates, cpus []float64
		for round := range own {
			rates = append(rates, own[round].Rate/rivals[i][round].Rate)
			cpus = append(cpus, own[round].cpu()/rivals[i][round].cpu())
		}
		_, r.RateRatio, _ = measure.Spread(rates)
		_, r.CPURatio, _ = measure.Spread(cpus)
		last := rivals[i][opt.Rounds-1]
		median(&last, rivals[i])
		r.Rate, r.CPUPerGB, r.CPUPerM, r.Allocs = last.Rate, last.CPUPerGB, last.CPUPerM, last.Allocs
		res.Beside = append(res.Beside, r)
	}
	return res, nil
}

// median sets the figures of res that ratios are made of to the medians of all.
func median(res *Result, all []Result) {
	of := func(f func(*Result) *float64) {
		var values []float64
		for i := range all {
			values = append(values, *f(&all[i]))
		}
		_, *f(res), _ = measure.Spread(values)
	}
	of(func(r *Result) *float64 { return &r.Rate })
	of(func(r *Result) *float64 { return &r.CPUPerGB })
	of(func(r *Result) *float64 { return &r.CPUPerM })
	of(func(r *Result) *float64 { return &r.Allocs })
}

// order is what a process is told to do.
type order struct {
	Scenario, Side, Addr string
	Options              Options
}

// runOne measures the processes of a scenario once.
func runOne(ctx context.Context, s *scenario, opt Options) (res Result, err error) {
	limit := 2*opt.Window + max(opt.WarmUp, opt.MostWarmUp) + 60*time.Second
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	defer func() {
		if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
			err = fmt.Errorf("%s: not done within %v: %w", s.name, limit, err)
		}
	}()
	if s.alone != nil {
		p, err := start(ctx, s, order{s.name, "alone", "", opt})
		if err != nil {
			return res, err
		}
		defer p.Stop()
		r, err := p.Result()
		if err != nil {
			return res, err
		}
		return combine(s, &opt, &r, &r)
	}
	send, err := start(ctx, s, order{s.name, "send", "", opt})
	if err != nil {
		return res, err
	}
	defer send.Stop()
	addr, err := send.Address()
	if err != nil {
		return res, err
	}
	if s.flink["receive"] != "" && s.flink["send"] == "" {
		addr = flinkAddress(addr, "records")
	}
	recv, err := start(ctx, s, order{s.name, "receive", addr, opt})
	if err != nil {
		return res, err
	}
	defer recv.Stop()
	if s.echo {
		if addr, err = recv.Address(); err == nil {
			err = send.Tell(addr)
		}
		if err != nil {
			return res, err
		}
	}
	if s.flink != nil {
		if err := together(recv, send); err != nil {
			return res, err
		}
	}
	var r, t measure.Result
	err = both(func(p *measure.Process) (err error) {
		if p == recv {
			r, err = p.Result()
		} else {
			t, err = p.Result()
		}
		return err
	}, recv, send)
	if err != nil {
		return res, err
	}
	return combine(s, &opt, &r, &t)
}

// both calls f for each of two processes, and returns the error that came first: what the other one says then is its consequence. A
// process that waits for one that has failed is not waited for.
func both(f func(*measure.Process) error, recv, send *measure.Process) error {
	failed := make(chan error, 2)
	for _, p := range []*measure.Process{recv, send} {
		go func() { failed <- f(p) }()
	}
	first := <-failed
	if first != nil {
		recv.Stop()
		send.Stop()
	}
	if second := <-failed; first == nil {
		return second
	}
	return first
}

// start starts a process and tells it what to do.
func start(ctx context.Context, s *scenario, t order) (p *measure.Process, err error) {
	run := func() error {
		if side := s.flink[t.Side]; side != "" {
			p, err = startFlink(ctx, side, t.Addr, &t.Options)
			return err
		}
		var line []byte
		if line, err = json.Marshal(t); err == nil {
			p, err = measure.StartSelf(ctx, "bench-role")
		}
		if err == nil {
			err = p.Tell(string(line))
		}
		return err
	}
	cpu := 0
	if t.Side == "send" && t.Options.Pin == "split" {
		cpu = 1
	}
	if t.Options.Pin == "" {
		err = run()
	} else {
		err = measure.OnCPU(cpu, run)
	}
	return p, err
}
