package bench

import "testing"

func TestFanRatios(t *testing.T) {
	var before, during fanRates
	before.seconds, during.seconds = 1, 2
	for i := range before.frames {
		before.frames[i], during.frames[i] = 100, 180
	}
	during.frames[fanStalled] = 0
	during.frames[5] = 90
	kept, slowest, err := fanRatios(&before, &during)
	if mean := (62*180.0 + 90) / 63; err != nil || kept != mean/2/100 || slowest != 90/mean {
		t.Errorf("kept %v, slowest %v of the mean, %v", kept, slowest, err)
	}
	during.frames[fanStalled] = 1
	if _, _, err := fanRatios(&before, &during); err == nil {
		t.Error("the stalled channel moved, and no error came")
	}
	before.frames[fanStalled], during.frames[fanStalled] = 0, 0
	if _, _, err := fanRatios(&before, &during); err == nil {
		t.Error("nothing was stalled, and no error came")
	}
}
