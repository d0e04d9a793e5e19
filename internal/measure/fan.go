package measure

import (
	"errors"
	"fmt"
	"sync"
	"time"
)

const (
	fanSettle = 200 * time.Millisecond // until the stalled channel is full, or empty again
	fanPeriod = 250 * time.Millisecond // for which rates are taken
	fanCycles = 5
	fanStart  = 10 * time.Second // at most, until all channels move
)

// FanLasts is how long Measure takes: the side that does not measure waits for as long, so that both have their windows while the channel is
// stalled.
const FanLasts = fanCycles*2*(fanPeriod+fanSettle) + fanSettle

// Fan measures what becomes of many channels while the first one is not read.
type Fan struct {
	channels []*Meter
	stall    sync.Mutex // held while the first channel's reader is stopped
}

// NewFan returns the measure of n channels, whose work m counts.
func NewFan(m *Meter, n int) *Fan {
	f := new(Fan)
	for range n {
		f.channels = append(f.channels, m.Branch())
	}
	return f
}

// Channel is the meter of a channel's goroutine.
func (f *Fan) Channel(i int) *Meter { return f.channels[i] }

// Wait returns when channel i's reader may go on. It is called before each read.
func (f *Fan) Wait(i int) {
	if i == 0 {
		f.stall.Lock()
		f.stall.Unlock() //nolint:staticcheck // waiting is all
	}
}

// Stalled tells whether channel i is not to be read now, for readers of all channels at once that must not wait.
func (f *Fan) Stalled(i int) bool {
	if i != 0 {
		return false
	}
	free := f.stall.TryLock()
	if free {
		f.stall.Unlock()
	}
	return !free
}

// Measure takes the rates with and without the stalled reader, in turn and several times, so that a machine that becomes slower
// meanwhile changes both. Then it stops that reader for good, so that a window can be measured. It returns the figures kept and
// slowest_of_mean.
func (f *Fan) Measure() (map[string]float64, error) {
	if err := f.started(); err != nil {
		return nil, err
	}
	before, during := f.rates(), f.rates()
	for range fanCycles {
		before.take(f)
		f.stall.Lock()
		time.Sleep(fanSettle)
		during.take(f)
		f.stall.Unlock()
		time.Sleep(fanSettle)
	}
	kept, slowest, err := fanRatios(before, during)
	f.stall.Lock()
	time.Sleep(fanSettle)
	return map[string]float64{"kept": kept, "slowest_of_mean": slowest}, err
}

// started waits until every channel has moved.
func (f *Fan) started() error {
	limit := time.Now().Add(fanStart)
	for i, c := range f.channels {
		for c.items.Load() == 0 {
			if time.Now().After(limit) {
				return fmt.Errorf("channel %d of %d has not moved in %v", i, len(f.channels), fanStart)
			}
			time.Sleep(time.Millisecond)
		}
	}
	return nil
}

// fanRates are the frames of each channel over some periods.
type fanRates struct {
	frames  []int64
	seconds float64
}

func (f *Fan) rates() *fanRates { return &fanRates{frames: make([]int64, len(f.channels))} }

// take adds a period.
func (r *fanRates) take(f *Fan) {
	begin := time.Now()
	for i, c := range f.channels {
		r.frames[i] -= c.items.Load()
	}
	time.Sleep(fanPeriod)
	for i, c := range f.channels {
		r.frames[i] += c.items.Load()
	}
	r.seconds += time.Since(begin).Seconds()
}

// fanRatios compares the channels that are read with themselves and with each other.
func fanRatios(before, during *fanRates) (kept, slowestOfMean float64, err error) {
	switch {
	case before.frames[0] == 0:
		return 0, 0, errors.New("the channel that is to be stalled did not move before, so nothing is shown")
	case during.frames[0] > fanCycles: // a read that was under way may end whenever its frame is there
		return 0, 0, fmt.Errorf("the stalled channel moved: %d frames in %d stalls", during.frames[0], fanCycles)
	}
	sumBefore, sum, slowest := int64(0), int64(0), during.frames[1]
	for i := range before.frames[1:] {
		sumBefore += before.frames[i+1]
		sum += during.frames[i+1]
		slowest = min(slowest, during.frames[i+1])
	}
	kept = float64(sum) / during.seconds / (float64(sumBefore) / before.seconds)
	return kept, float64(slowest) * float64(len(before.frames)-1) / float64(max(1, sum)), nil
}
