package main

import (
	"fmt"
	"maps"
	"os"
	"strings"
	"time"

	"github.com/weirflow/weir/internal/measure"
)

// role is one side of a row, in a process of its own.
type role struct {
	scenario, addr string
	meter          *measure.Meter
	latencies      *measure.Histogram
	fan            *measure.Fan // of a receiver of scenario fan
}

// listening tells the parent process where to send.
func (r *role) listening(addr string) { measure.Announce(os.Stdout, addr) }

func runRole(name, addr string, window time.Duration) error {
	parts := strings.SplitN(name, "/", 3) // side, scenario, row
	for _, sc := range scenarios {
		for _, w := range sc.rows {
			if len(parts) == 3 && sc.name == parts[1] && w.name == parts[2] && w.receive != nil {
				return w.run(parts[0], &role{scenario: sc.name, addr: addr, meter: measure.NewMeter()}, window)
			}
		}
	}
	return fmt.Errorf("no role %q", name)
}

func (w *row) run(side string, r *role, window time.Duration) error {
	work := w.receive
	if side == "send" {
		work = w.send
		r.latencies = new(measure.Histogram)
	} else if r.scenario == "fan" {
		r.fan = measure.NewFan(r.meter, fanChannels)
	}
	failed := make(chan error, 2)
	go func() { failed <- work(r) }()
	result := make(chan measure.Result, 1)
	go func() {
		if res, err := r.window(side, window); err != nil {
			failed <- err
		} else {
			result <- res
		}
	}()
	select {
	case err := <-failed:
		return fmt.Errorf("%s %s: %w", w.name, side, err)
	case res := <-result:
		if err := res.Print(os.Stdout); err != nil {
			return err
		}
	}
	go func() { <-failed }() // the end of the other side is no error any more
	_, err := measure.Told() // until the parent is gone; it stops this process
	return err
}

func (r *role) window(side string, window time.Duration) (res measure.Result, err error) {
	<-r.meter.Begun()
	time.Sleep(measure.WarmUp)
	extra := map[string]float64{}
	switch {
	case r.fan != nil:
		if extra, err = r.fan.Measure(); err != nil {
			return res, err
		}
	case r.scenario == "fan":
		time.Sleep(measure.FanLasts)
	}
	var begin *measure.Counts
	if r.latencies != nil {
		begin = r.latencies.Counts()
	}
	res = r.meter.WindowNow(side, window)
	res.Extra = map[string]float64{}
	if begin != nil {
		r.latencies.Since(begin).Put(res.Extra)
	}
	maps.Copy(res.Extra, extra)
	return res, nil
}

// each runs n goroutines and returns the first error.
func each(n int, f func(i int) error) error {
	failed := make(chan error, n)
	for i := range n {
		go func() { failed <- f(i) }()
	}
	return <-failed
}

// pingLoop times round trips for ever.
func (r *role) pingLoop(trip func() error) error {
	for last := time.Now(); ; {
		if err := trip(); err != nil {
			return err
		}
		now := time.Now()
		r.latencies.Add(now.Sub(last))
		last = now
		r.meter.Add(pingSize, 1)
	}
}
