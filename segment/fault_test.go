package segment

import "testing"

// Guard passes on what is no fault.
func TestGuardPassesPanicsOn(t *testing.T) {
	p := mustPool(t, Config{Segments: 1, SegmentSize: 64})
	defer func() {
		if r := recover(); r != "mine" {
			t.Fatal(r)
		}
		closeAll(t, p)
	}()
	if err := p.Guard(func() {}); err != nil {
		t.Fatal(err)
	}
	_ = p.Guard(func() { panic("mine") })
}
