package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"runtime/pprof"
	"sync/atomic"
	"time"

	"github.com/weirflow/weir"
	"github.com/weirflow/weir/internal/measure"
)

// role is one side of a scenario, in a process of its own.
type role struct {
	opt       *Options
	addr      string // the other side's, for the one that is started second
	out       io.Writer
	meter     *measure.Meter
	latencies *measure.Histogram // nil: there are none
	node      *weir.Node         // nil: this row is not weir
	sum       atomic.Uint64      // of all words or fields received
	payload   atomic.Uint64      // bytes of the buffers that were read
	together  chan struct{}      // closed when both sides are to measure; nil: each does when it is warm

	// opening is called before the window opens, and what it returned when the window is over; its figures are among the
	// result's. nil: there are none.
	opening func() (closing func() map[string]float64, err error)
}

var errParent = errors.New("the process that started this one is gone")

// Role does what it is told on standard input, until its window is over and its parent ends it.
func Role(ctx context.Context, out io.Writer) error {
	line, err := measure.Told()
	var t order
	if err == nil {
		err = json.Unmarshal([]byte(line), &t)
	}
	if err != nil {
		return fmt.Errorf("bench-role is started by bench, and told what to do on standard input: %w", err)
	}
	if err := t.do(ctx, out); err != nil {
		return fmt.Errorf("%s %s: %w", t.Scenario, t.Side, err)
	}
	return nil
}

func (t *order) do(ctx context.Context, out io.Writer) (err error) {
	s, err := find(t.Scenario)
	if err != nil {
		return err
	}
	r := &role{opt: &t.Options, addr: t.Addr, out: out, meter: measure.NewMeter()}
	if !s.bare || s.flink != nil {
		if r.node, err = t.open(s); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, r.node.Close()) }()
		if addr := r.node.Addr(); addr != nil {
			measure.Announce(out, addr.String())
		}
	}
	if s.echo && t.Side == "send" {
		if r.addr, err = measure.Told(); err != nil {
			return err
		}
	}
	work := map[string]func(context.Context, *role) error{"send": s.send, "receive": s.receive, "alone": s.alone}[t.Side]
	failed, orphaned := make(chan error, 2), make(chan struct{})
	if s.flink != nil {
		r.together = make(chan struct{})
	}
	go func() {
		if _, err := measure.Told(); err == nil && r.together != nil {
			close(r.together)
			_, _ = measure.Told() // nothing, until the parent is gone
		}
		close(orphaned)
	}()
	go func() { failed <- work(ctx, r) }()
	result := make(chan measure.Result, 1)
	go func() {
		if res, err := r.window(t.Side); err != nil {
			failed <- err
		} else {
			result <- res
		}
	}()
	select {
	case err := <-failed:
		return err
	case <-orphaned:
		return errParent
	case res := <-result:
		if err := res.Print(out); err != nil {
			return err
		}
	}
	<-orphaned // or stopped: until then the other side is fed, to the end of its window, and its end is no error
	return nil
}

// open opens the node of a side.
func (t *order) open(s *scenario) (*weir.Node, error) {
	cfg := t.Options.node()
	cfg.Dedicated = t.Options.Task && (t.Side != "send" || s.echo) // where there are consumers
	if t.Side == "send" || s.echo {
		cfg.Listen = "127.0.0.1:0"
	}
	if t.Options.TLS {
		var err error
		if cfg.TLS, err = pinned(&t.Options); err != nil {
			return nil, err
		}
	}
	if s.config != nil {
		s.config(t.Side, &t.Options, &cfg)
	}
	return weir.Open(cfg)
}

// window measures, with the loop's and the credit's figures of the same time.
func (r *role) window(side string) (measure.Result, error) {
	<-r.meter.Begun()
	time.Sleep(r.opt.WarmUp)
	if r.together != nil {
		measure.Warm(r.out)
		<-r.together
	}
	closing := func() map[string]float64 { return nil }
	if r.opening != nil {
		var err error
		if closing, err = r.opening(); err != nil {
			return measure.Result{}, err
		}
	}
	stop := profile(r.opt.Profile, side)
	defer stop()
	var begin *measure.Counts
	if r.latencies != nil {
		begin = r.latencies.Counts()
	}
	var a weir.Stats
	if r.node != nil {
		a = r.node.Stats()
	}
	res := r.meter.WindowNow(side, r.opt.Window)
	res.Extra = map[string]float64{}
	if begin != nil {
		r.latencies.Since(begin).Put(res.Extra)
	}
	maps.Copy(res.Extra, closing())
	sum := r.sum.Load()
	res.Extra["checksum_hi"], res.Extra["checksum_lo"] = float64(sum>>32), float64(sum&0xffffffff)
	if r.node != nil {
		r.stats(&a, res.Extra)
	}
	return res, nil
}

// stats adds the figures of the node since a.
func (r *role) stats(a *weir.Stats, extra map[string]float64) {
	before := r.payload.Load()
	b := r.node.Stats()
	after := r.payload.Load()
	maps.Copy(extra, map[string]float64{
		"frames":          float64(b.Frames - a.Frames),
		"credits":         float64(b.Credits - a.Credits),
		"grants":          float64(b.Grants - a.Grants),
		"bytes_per_read":  float64(b.Loop.ReadBytes-a.Loop.ReadBytes) / float64(max(1, b.Loop.Reads-a.Loop.Reads)),
		"bytes_per_write": float64(b.Loop.WriteBytes-a.Loop.WriteBytes) / float64(max(1, b.Loop.Writes-a.Loop.Writes)),
		"pool_bytes":      float64(r.node.Memory()),
		// What was read before is not more than what arrived, and what arrived is not more than what was read after and
		// what the pool holds.
		"read_early":  float64(before) - float64(b.Bytes),
		"unread_late": float64(b.Bytes) - float64(after),
	})
}

// profile takes a CPU profile until stop is called. What goes wrong with it is no reason to give up the figures.
func profile(dir, side string) (stop func()) {
	if dir == "" {
		return func() {}
	}
	f, err := os.Create(filepath.Join(dir, side+".pprof"))
	if err == nil {
		err = pprof.StartCPUProfile(f)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench: no profile:", err)
		return func() {}
	}
	return func() {
		pprof.StopCPUProfile()
		_ = f.Close()
	}
}
