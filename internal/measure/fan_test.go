package measure

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirflow/weir/internal/modelrun"
)

func TestFanRatios(t *testing.T) {
	const n = 64
	f := NewFan(NewMeter(), n)
	before, during := f.rates(), f.rates()
	before.seconds, during.seconds = 1, 2
	for i := range n {
		before.frames[i], during.frames[i] = 100, 180
	}
	during.frames[0] = 0
	during.frames[5] = 90
	kept, slowest, err := fanRatios(before, during)
	if mean := (62*180.0 + 90) / 63; err != nil || kept != mean/2/100 || slowest != 90/mean {
		t.Errorf("kept %v, slowest %v of the mean, %v", kept, slowest, err)
	}
	during.frames[0] = fanCycles
	if _, _, err := fanRatios(before, during); err != nil {
		t.Errorf("a read that was under way at each stall: %v", err)
	}
	during.frames[0]++
	if _, _, err := fanRatios(before, during); err == nil {
		t.Error("the stalled channel moved, and no error came")
	}
	before.frames[0], during.frames[0] = 0, 0
	if _, _, err := fanRatios(before, during); err == nil {
		t.Error("nothing was stalled, and no error came")
	}
}

// Readers that do as they are told keep their rate, and the first one stands still at the end.
func TestFan(t *testing.T) {
	modelrun.Rounds(t, func(int) bool { return fan(t) })
}

// fan tells whether every reader has run when it was to.
func fan(t *testing.T) bool {
	m := NewMeter()
	const n = 4
	f := NewFan(m, n)
	var stop atomic.Bool
	for i := range n {
		go func() {
			for !stop.Load() {
				f.Wait(i)
				f.Channel(i).Add(1, 1)
				time.Sleep(50 * time.Microsecond)
			}
		}()
	}
	defer func() {
		stop.Store(true)
		f.stall.Unlock()
	}()
	figures, err := f.Measure()
	if err != nil && strings.Contains(err.Error(), "did not move before") {
		return false
	}
	if err != nil || figures["slowest_of_mean"] > 1 {
		t.Fatalf("%v, %v", figures, err)
	}
	if !f.Stalled(0) || f.Stalled(1) {
		t.Error("the first channel goes on, or another one does not")
	}
	if _, items := m.Count(); items == 0 {
		t.Error("the meter has not counted what the channels did")
	}
	return figures["kept"] > 0 && figures["slowest_of_mean"] > 0
}
