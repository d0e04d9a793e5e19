package credit

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// CRD-29: which changes of the size are announced.
func TestCRD29Threshold(t *testing.T) {
	for _, tc := range []struct {
		wanted int32
		want   bool
	}{
		{760, false}, {749, true}, {1240, false}, {1251, true}, {32768, true}, {256, true}, {1000, false},
		{750, true}, {751, false}, {1250, true}, {1249, false},
	} {
		d := NewDebloater(DebloatConfig{Start: 1000})
		if _, got := d.propose(tc.wanted); got != tc.want {
			t.Errorf("from 1000 to %d: announced %v", tc.wanted, got)
		}
		if _, again := d.propose(tc.wanted); again {
			t.Errorf("%d was announced twice", tc.wanted)
		}
	}
	// Reaching a bound is always announced, be the change ever so small.
	d := NewDebloater(DebloatConfig{Start: 32767})
	if size, ok := d.propose(32768); !ok || size != 32768 {
		t.Error("reaching the maximum was not announced")
	}
	d = NewDebloater(DebloatConfig{Start: 257})
	if size, ok := d.propose(256); !ok || size != 256 {
		t.Error("reaching the minimum was not announced")
	}
}

// CRD-30: the size does not swing, never leaves its bounds, and gates have sizes of their own.
func TestCRD30Steady(t *testing.T) {
	medians := []int32{}
	for _, rate := range []float64{30_000, 3_000_000} {
		rng := rand.New(rand.NewPCG(1, 2))
		d := NewDebloater(DebloatConfig{Target: 300, Start: 32768})
		var sizes []int32
		for i := range 200 {
			throughput := int64(rate * (0.8 + 0.4*rng.Float64()))
			d.Recalculate(throughput, 4+rng.IntN(22))
			if s := d.Size(); s < 256 || s > 32768 {
				t.Fatalf("size %d", s)
			}
			if i >= 100 {
				sizes = append(sizes, d.Size())
			}
		}
		slices.Sort(sizes)
		median := sizes[len(sizes)/2]
		medians = append(medians, median)
		if low, high := sizes[0], sizes[len(sizes)-1]; float64(low) < 0.5*float64(median) || float64(high) > 1.5*float64(median) {
			t.Errorf("rate %v: sizes %d to %d, median %d", rate, low, high, median)
		}
	}
	if medians[1] < 10*medians[0] {
		t.Errorf("sizes %v of gates with rates 1:100", medians)
	}
}

func TestDebloaterAverage(t *testing.T) {
	// One sample from 1024: at most doubled, weighted by 2/21.
	d := NewDebloater(DebloatConfig{Threshold: 1})
	size, ok := d.Recalculate(1<<40, 1)
	if want := int32(1122); !ok || size != want { // 1024 + 2/21·1024 = 1121.5
		t.Errorf("size %d, want %d", size, want)
	}
	for range 200 {
		d.Recalculate(1<<40, 1)
	}
	if d.Size() != 32768 {
		t.Errorf("size %d after a long rush", d.Size())
	}
	for range 200 {
		d.Recalculate(0, 0)
	}
	if d.Size() != 256 {
		t.Errorf("size %d after a long drought", d.Size())
	}
}

func TestThroughput(t *testing.T) {
	var m Throughput
	m.Add(1000, 0)
	if got := m.Calculate(500); got != 2000 {
		t.Errorf("%d bytes/s, want 2000", got)
	}
	m.Pause(600) // idle from here on
	if got := m.Calculate(1000); got != 0 {
		t.Errorf("%d bytes/s, want 0: 100 ms without bytes", got)
	}
	m.Add(300, 2000)
	m.Pause(2100)
	m.Resume(3000)
	m.Pause(3050)
	if got := m.Calculate(4000); got != 2000 {
		t.Errorf("%d bytes/s, want 2000: 300 bytes in 150 ms", got)
	}
	if got := m.Calculate(5000); got != 2000 {
		t.Errorf("%d bytes/s without time, want the last", got)
	}
}

// A gate counts what waits in it and what its senders still have, and tells all channels that are left.
func TestGateDebloats(t *testing.T) {
	r := newRig(t, rigConfig{channels: 2, exclusive: 2, floating: 4})
	r.written()
	r.data(0, 7, 8) // required 9, of which 7 beyond the exclusive ones
	r.data(1, 0, 8)
	if n := r.gate.BuffersInUse(); n != 1+1+7 {
		t.Errorf("%d buffers in use, want 9", n)
	}
	r.written()
	d := NewDebloater(DebloatConfig{Threshold: 1})
	if !r.gate.Debloat(d, 1<<40) {
		t.Fatal("nothing was announced")
	}
	r.pump()
	r.wrote("size 0 1122", "size 1 1122")
	r.gate.Release(0)
	r.pump()
	r.written()
	r.gate.Debloat(d, 1<<40)
	r.pump()
	r.wrote("size 1 1228")
	if n := r.gate.BuffersInUse(); n != 1 {
		t.Errorf("%d buffers in use, want 1", n)
	}
	r.gate.Close()
	if r.gate.Debloat(d, 1<<40) {
		t.Error("a closed gate announces")
	}
	r.pump()
}
