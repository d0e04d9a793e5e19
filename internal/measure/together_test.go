package measure

import (
	"strings"
	"testing"
)

func TestWarm(t *testing.T) {
	p, err := StartSelf(t.Context(), "side=warm")
	if err != nil {
		t.Fatal(err)
	}
	defer p.Stop()
	if err := p.Warm(); err != nil {
		t.Error(err)
	}
	if err := p.Tell("measure"); err != nil {
		t.Error(err)
	}
	if r, err := p.Result(); err != nil || r.Items != int64(len("measure")) {
		t.Errorf("%+v, %v", r, err)
	}
	if err := p.Warm(); err == nil || !strings.Contains(err.Error(), "ended before it was warm") {
		t.Errorf("of a process that has ended: %v", err)
	}
}
