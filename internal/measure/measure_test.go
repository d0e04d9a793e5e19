package measure

import (
	"bytes"
	"testing"
	"time"

	"github.com/weirflow/weir/internal/modelrun"
)

func TestWindowCountsWorkInsideItOnly(t *testing.T) {
	modelrun.Rounds(t, func(int) bool { return window(t) })
}

// window tells whether there was work in the window.
func window(t *testing.T) bool {
	m := NewMeter()
	done := make(chan Result)
	go func() { done <- m.Window("test", 50*time.Millisecond) }()
	var total int64
	for {
		select {
		case r := <-done:
			if r.Items >= total || r.Bytes >= 3*total { // the two are read one after the other
				t.Fatalf("window has %d items, %d bytes of %d items in all", r.Items, r.Bytes, total)
			}
			if r.Seconds < 0.05 {
				t.Fatalf("window of %v s", r.Seconds)
			}
			return r.Items > 0 && r.Bytes > 0 && (r.CPUSeconds > 0 || CPUSeconds() == 0)
		default:
			m.Add(3, 1)
			total++
		}
	}
}

func TestMeterBranches(t *testing.T) {
	m := NewMeter()
	a, b := m.Branch(), m.Branch()
	select {
	case <-m.Begun():
		t.Fatal("begun without work")
	default:
	}
	a.Add(10, 1)
	<-m.Begun()
	b.Branch().Add(5, 2)
	m.Add(1, 1)
	if bytes, items := m.Count(); bytes != 16 || items != 4 {
		t.Errorf("%d bytes, %d items", bytes, items)
	}
	if bytes, items := a.Count(); bytes != 10 || items != 1 {
		t.Errorf("of a branch: %d bytes, %d items", bytes, items)
	}
}

func TestPrintFind(t *testing.T) {
	var out bytes.Buffer
	r := Result{Role: "recv", Items: 7, Extra: map[string]float64{"credits": 2}}
	if err := r.Print(&out); err != nil {
		t.Fatal(err)
	}
	got, ok := Find(out.String())
	if !ok || got.Role != "recv" || got.Items != 7 || got.Extra["credits"] != 2 {
		t.Fatalf("got %+v, %v", got, ok)
	}
	if _, ok := Find("something else"); ok {
		t.Fatal("found a result where none is")
	}
}

func TestSpread(t *testing.T) {
	if lo, mid, hi := Spread([]float64{4, 1, 3, 2, 5}); lo != 2 || mid != 3 || hi != 4 {
		t.Fatal(lo, mid, hi)
	}
	if lo, mid, hi := Spread(nil); lo != 0 || mid != 0 || hi != 0 {
		t.Fatal(lo, mid, hi)
	}
}
