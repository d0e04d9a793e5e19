package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/weirflow/weir/cmd/weir/internal/bench"
)

// measure runs a scenario for a moment and returns the line that it ends with. On a busy machine a moment may have too few frames for a grant,
// or one of the two processes may not run in it at all, which is an error that says so: then it runs for longer.
func measure(t *testing.T, scenario string, args ...string) bench.Result {
	t.Helper()
	return measureUntil(t, func(bench.Result) bool { return true }, scenario, args...)
}

// measureUntil is measure of a scenario in which something more must be.
func measureUntil(t *testing.T, met func(bench.Result) bool, scenario string, args ...string) (r bench.Result) {
	t.Helper()
	for _, seconds := range []string{"0.3", "3", "15"} {
		args := append([]string{"bench", scenario, "--seconds", seconds, "--warm-up", "0.1", "--rounds", "1", "--json"}, args...)
		p := start(t, args...)
		if <-p.done; p.err != nil && strings.Contains(strings.Join(p.stderr, "\n"), "did nothing in its window") {
			continue
		}
		p.succeeds()
		d := json.NewDecoder(strings.NewReader(p.stdout[len(p.stdout)-1]))
		d.DisallowUnknownFields()
		r = bench.Result{}
		if err := d.Decode(&r); err != nil {
			t.Fatal(err)
		}
		if r.Scenario != scenario {
			t.Fatalf("%v: %+v", args, r)
		}
		if r.Rate <= 0 || r.CPUPerGB <= 0 || r.CPUPerM <= 0 || r.CPURecv <= 0 || r.CPUSend <= 0 || !met(r) {
			continue
		}
		ofWeir := scenario != "local" && (!strings.HasPrefix(scenario, "flink") || scenario == "flink-recv")
		if !ofWeir || r.Frames > 0 && r.Credits > 0 && r.Grants > 0 && r.Memory > 0 && r.PerRead > 0 {
			return r
		}
	}
	t.Errorf("%s %v: no frames, no credits, or nothing at one end: %+v", scenario, args, r)
	return r
}

func TestBench(t *testing.T) {
	t.Parallel()
	for _, args := range []string{
		"bulk", "bulk --window 10", "bulk --frame 1KiB", "bulk --task-goroutine", "bulk --park",
		"records", "records --task-goroutine", "records --record 8KiB --channels 1", "records --tls",
	} {
		f := strings.Fields(args)
		r := measure(t, f[0], f[1:]...)
		if (r.Options == "defaults") != (len(f) == 1) {
			t.Errorf("%s: its options are called %s", args, r.Options)
		}
	}
	if r := measureUntil(t, func(r bench.Result) bool { return r.Kept > 0 && r.SlowestOfMean > 0 }, "fan"); r.SlowestOfMean > 1 {
		t.Errorf("fan: slowest %v of the mean", r.SlowestOfMean)
	}
}

func TestBenchLatency(t *testing.T) {
	t.Parallel()
	for _, args := range []string{"", "--park", "--task-goroutine", "--park --task-goroutine"} {
		task := strings.Contains(args, "task")
		r := measureUntil(t, func(r bench.Result) bool { return r.P50 > 0 && (r.WakeConsumer > 0 && r.WakeLoop > 0) == task },
			"latency", strings.Fields(args)...)
		if r.P99 < r.P50 || r.P999 < r.P99 || r.Unit != "trips" {
			t.Errorf("%s: %+v", args, r)
		}
	}
}

func TestBenchTLS(t *testing.T) {
	t.Parallel()
	r := measure(t, "bulk", "--tls")
	if len(r.Beside) != 2 || r.Beside[0].Row != "plain" || r.Beside[1].Row != "crypto/tls" {
		t.Fatalf("%+v", r)
	}
	for _, b := range r.Beside {
		if b.Rate <= 0 || b.CPUPerGB <= 0 || b.RateRatio <= 0 || b.CPURatio <= 0 {
			t.Errorf("%+v", b)
		}
	}
}

func TestBenchChannels(t *testing.T) {
	t.Parallel()
	r := measure(t, "channels", "--channels", "64,1000")
	if len(r.Points) != 2 || r.CostRatio <= 0 || r.RateRatio <= 0 {
		t.Fatalf("%+v", r)
	}
	for _, p := range r.Points {
		if p.Cost <= 0 || p.Rate <= 0 {
			t.Errorf("%+v", p)
		}
	}
}

func TestBenchRefuses(t *testing.T) {
	for _, args := range []string{
		"bulk --channels 3", "channels --channels 0", "fan --tls", "latency --frame 64", "records --channels 1,2",
		"bulk --frame 33KiB", "bulk --frame 5", "bulk --frame 1kb", "bulk --window -1", "records --record 7",
		"bulk --seconds 0", "bulk --rounds 0", "bulk --pin both",
	} {
		if _, err := execute(append([]string{"bench"}, strings.Fields(args)...)...); err == nil {
			t.Errorf("bench %s goes on", args)
		}
	}
	if _, err := execute("bench", "nothing"); err == nil || !strings.Contains(err.Error(), "channels") {
		t.Errorf("%v", err)
	}
}

func TestBenchAlign(t *testing.T) {
	t.Parallel()
	measured := func(r bench.Result) bool {
		for _, p := range r.Points {
			if b := p.Barriers; b == nil || b.Count <= 0 || b.P50 <= 0 || b.OfBytes <= 0 || b.Kept <= 0 {
				return false
			}
		}
		return true
	}
	r := measureUntil(t, measured, "align", "--channels", "8,40")
	if len(r.Points) != 2 {
		t.Fatalf("%+v", r)
	}
	for _, p := range r.Points {
		if b := p.Barriers; b == nil || b.P99 < b.P50 {
			t.Errorf("%d channels: %+v", p.Channels, b)
		}
	}
}

func TestBenchLocal(t *testing.T) {
	t.Parallel()
	r := measure(t, "local")
	if len(r.Beside) != 1 || r.Beside[0].Rate <= 0 || r.Beside[0].RateRatio <= 0 || r.Checksum == "0000000000000000" {
		t.Errorf("%+v", r)
	}
}
