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

// fanRates are the bytes of each channel over some periods.
type fanRates struct {
	bytes   []int64
	seconds float64
}

func (f *Fan) rates() *fanRates { return &fanRates{bytes: make([]int64, len(f.channels))} }

// take adds a period.
func (r *fanRates) take(f *Fan) {
	begin := time.Now()
	for i, c := range f.channels {
		r.bytes[i] -= c.bytes.Load()
	}
	time.Sleep(fanPeriod)
	for i, c := range f.channels {
		r.bytes[i] += c.bytes.Load()
	}
	r.seconds += time.Since(begin).Seconds()
}

// fanRatios compares the channels that are read with themselves and with each other.
func fanRatios(before, during *fanRates) (kept, slowestOfMean float64, err error) {
	switch {
	case before.bytes[0] == 0:
		return 0, 0, errors.New("the channel that is to be stalled did not move before, so nothing is shown")
	case during.bytes[0] > 0:
		return 0, 0, fmt.Errorf("the stalled channel moved: %d bytes", during.bytes[0])
	}
	sumBefore, sum, slowest := int64(0), int64(0), during.bytes[1]
	for i := range before.bytes[1:] {
		sumBefore += before.bytes[i+1]
		sum += during.bytes[i+1]
		slowest = min(slowest, during.bytes[i+1])
	}
	kept = float64(sum) / during.seconds / (float64(sumBefore) / before.seconds)
	return kept, float64(slowest) * float64(len(before.bytes)-1) / float64(max(1, sum)), nil
}
