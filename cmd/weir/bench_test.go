package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/weirflow/weir/cmd/weir/internal/bench"
)

// measure runs a scenario for a moment and returns the line that it ends with.
func measure(t *testing.T, scenario string, args ...string) (r bench.Result) {
	t.Helper()
	p := start(t, append([]string{"bench", scenario, "--seconds", "0.1", "--json"}, args...)...).succeeds()
	d := json.NewDecoder(strings.NewReader(p.stdout[len(p.stdout)-1]))
	d.DisallowUnknownFields()
	if err := d.Decode(&r); err != nil {
		t.Fatal(err)
	}
	if r.Scenario != scenario || r.Rate <= 0 || r.Frames <= 0 || r.Credits <= 0 || r.Grants <= 0 || r.CPUPerGB <= 0 || r.Memory <= 0 {
		t.Errorf("%+v", r)
	}
	return r
}

func TestBench(t *testing.T) {
	t.Parallel()
	measure(t, "bulk")
	measure(t, "records")
	if r := measure(t, "fan"); r.Kept <= 0 || r.SlowestOfMean <= 0 || r.SlowestOfMean > 1 {
		t.Errorf("fan: kept %v, slowest %v of the mean", r.Kept, r.SlowestOfMean)
	}
}

func TestBenchChannels(t *testing.T) {
	t.Parallel()
	r := measure(t, "channels", "--channels", "64,1000")
	if len(r.Points) != 2 || r.CostRatio <= 0 {
		t.Fatalf("%+v", r)
	}
	for _, p := range r.Points {
		if p.Cost <= 0 || p.Rate <= 0 {
			t.Errorf("%+v", p)
		}
	}
}

func TestBenchRefuses(t *testing.T) {
	for _, args := range [][]string{{"bulk", "--channels", "3"}, {"channels", "--channels", "0"}} {
		if _, err := execute(append([]string{"bench"}, args...)...); err == nil {
			t.Errorf("bench %v goes on", args)
		}
	}

	if _, err := execute("bench", "nothing"); err == nil || !strings.Contains(err.Error(), "channels") {
		t.Errorf("%v", err)
	}
}
