package main

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/mem"
)

// TestMain lets the test's own program be a side of a row.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == "-role" {
		main()
		return
	}
	os.Exit(m.Run())
}

// Every row that is code of this module does its work, for a moment.
func TestRows(t *testing.T) {
	s := &settings{window: 100 * time.Millisecond, rounds: 1}
	remove, err := s.buildNative()
	if err != nil {
		t.Log("rows in C are left out:", err)
	}
	defer remove()
	for _, sc := range scenarios {
		ran := 0
		for _, r := range sc.chosen(s) {
			if r.weir != nil || r.beside || testing.Short() && sc.name == "fan" {
				continue
			}
			got, err := r.measure(s, &sc)
			if err != nil {
				t.Errorf("%s/%s: %v", sc.name, r.name, err)
				continue
			}
			f := got[r.name]
			if sc.value(&f) <= 0 || f.cpu <= 0 || sc.name == "fan" && (f.kept <= 0 || f.slowest <= 0) {
				t.Errorf("%s/%s: %+v", sc.name, r.name, f)
			}
			ran++
		}
		if own := sc.name != "shapes" && sc.name != "tls" && !strings.HasPrefix(sc.name, "flink"); own && ran == 0 && !testing.Short() {
			t.Errorf("%s: no row ran", sc.name)
		}
	}
}

// What is compared exists, and names are unique.
func TestScenarios(t *testing.T) {
	for _, sc := range scenarios {
		names := map[string]bool{}
		for _, r := range sc.rows {
			if names[r.name] {
				t.Errorf("%s has two rows %s", sc.name, r.name)
			}
			names[r.name] = true
		}
		for _, v := range sc.against {
			if !names[v.row] || !names[v.base] || v.row == v.base {
				t.Errorf("%s compares %s with %s", sc.name, v.row, v.base)
			}
		}
	}
}

func TestDecoder(t *testing.T) {
	message := appendMessage(nil)
	for cut := range 2 * (4 + recordSize) {
		var d recordDecoder
		n, sum := d.decode(message[:cut])
		m, more := d.decode(message[cut:])
		if n+m != perMessage || sum+more != perMessage*recordField {
			t.Fatalf("cut at %d: %d records, sum %d", cut, n+m, sum+more)
		}
	}
}

func TestPieces(t *testing.T) {
	p := newFrames(1, 0)[0][headerSize:]
	for _, cut := range []int{0, 1, 7, 8, 63, 64, 65, bufferSize - 3} {
		pieces := mem.BufferSlice{mem.SliceBuffer(p[:cut]), mem.SliceBuffer(p[cut : cut+2]), mem.SliceBuffer(p[cut+2:])}
		if err := checkPieces(pieces); err != nil {
			t.Errorf("cut at %d: %v", cut, err)
		}
	}
	if checkPieces(mem.BufferSlice{mem.SliceBuffer(p[1:])}) == nil || checkPieces(mem.BufferSlice{mem.SliceBuffer(make([]byte, bufferSize))}) == nil {
		t.Error("a wrong payload passes")
	}
}

func TestPlot(t *testing.T) {
	for _, sc := range scenarios {
		figures := map[string][]figure{}
		for i, r := range sc.rows {
			for round := range 3 {
				v := float64(1+i) * (1 + 0.1*float64(round))
				figures[r.name] = append(figures[r.name], figure{rate: v * 1e9, p50: v, cpu: v})
			}
		}
		out := sc.plot(figures)
		d, bars := xml.NewDecoder(bytes.NewReader(out)), 0
		for {
			token, err := d.Token()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("%s: %v\n%s", sc.name, err, out)
			}
			if e, ok := token.(xml.StartElement); ok && e.Name.Local == "rect" {
				bars++
			}
		}
		if bars != len(sc.rows)+1 || strings.Contains(string(out), "NaN") || strings.Contains(string(out), "%!") {
			t.Errorf("%s: %d bars of %d rows\n%s", sc.name, bars-1, len(sc.rows), out)
		}
	}
}

func TestTicks(t *testing.T) {
	for _, most := range []float64{0, 0.03, 0.7, 1, 5.3, 11.9, 99, 640} {
		if step, end := ticks(most); end < most || step <= 0 || end/step > 8.01 {
			t.Errorf("%v: steps of %v to %v", most, step, end)
		}
	}
}
