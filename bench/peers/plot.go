package main

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"math"
	"strings"
)

// A plot has a bar for each row, as long as its median, with a line from quartile to quartile; weir's are darker.
const (
	plotLeft   = 150 // of the bars
	plotWidth  = 520 // of the longest bar
	plotRight  = 110 // for the figure
	plotTop    = 44
	plotStep   = 22
	plotBar    = 14
	plotBottom = 30
)

func (sc *scenario) plot(figures map[string][]figure) []byte {
	type bar struct {
		name           string
		low, mid, high float64
	}
	var bars []bar
	most := 0.0
	for _, r := range sc.rows {
		if all := figures[r.name]; len(all) > 0 {
			b := bar{name: r.name}
			b.low, b.mid, b.high = spread(all, sc.value)
			bars = append(bars, b)
			most = max(most, b.high)
		}
	}
	step, scale := ticks(most)
	height := plotTop + plotStep*len(bars) + plotBottom
	x := func(v float64) float64 { return plotLeft + v/scale*plotWidth }
	unit, better := sc.unit, "more is better"
	if sc.unit == tripsUnit {
		unit, better = "us, median round trip", "less is better"
	}

	out := new(bytes.Buffer)
	width := plotLeft + plotWidth + plotRight
	fmt.Fprintf(out, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %[1]d %[2]d" font-family="sans-serif" font-size="12">`+"\n", width, height)
	fmt.Fprintf(out, `<rect width="%d" height="%d" fill="#ffffff"/>`+"\n", width, height)
	fmt.Fprintf(out, `<text x="8" y="18" font-size="14" font-weight="bold">%s</text>`+"\n", escape(sc.name+": "+sc.title))
	fmt.Fprintf(out, `<text x="8" y="34" fill="#555555">%s; %s; lines from quartile to quartile</text>`+"\n", escape(unit), better)
	bottom := plotTop + plotStep*len(bars)
	for v := 0.0; v <= scale*1.0001; v += step {
		fmt.Fprintf(out, `<line x1="%.1f" y1="%d" x2="%[1]f" y2="%d" stroke="#dddddd"/>`+"\n", x(v), plotTop, bottom)
		fmt.Fprintf(out, `<text x="%.1f" y="%d" text-anchor="middle" fill="#555555">%s</text>`+"\n", x(v), bottom+16, number(v))
	}
	for i, b := range bars {
		y := plotTop + plotStep*i + (plotStep-plotBar)/2
		fill := "#9db8d2"
		if strings.HasPrefix(b.name, "weir") {
			fill = "#1f4e79"
		}
		fmt.Fprintf(out, `<text x="%d" y="%d" text-anchor="end">%s</text>`+"\n", plotLeft-6, y+11, escape(b.name))
		fmt.Fprintf(out, `<rect x="%d" y="%d" width="%.1f" height="%d" fill="%s"/>`+"\n", plotLeft, y, x(b.mid)-plotLeft, plotBar, fill)
		fmt.Fprintf(out, `<line x1="%.1f" y1="%d" x2="%.1f" y2="%[2]d" stroke="#d1731c" stroke-width="2"/>`+"\n", x(b.low), y+plotBar/2, x(b.high))
		fmt.Fprintf(out, `<text x="%.1f" y="%d">%.2f</text>`+"\n", x(max(b.high, b.mid))+6, y+11, b.mid)
	}
	out.WriteString("</svg>\n")
	return out.Bytes()
}

// ticks are a round step and the end of an axis that holds most.
func ticks(most float64) (step, end float64) {
	if most <= 0 {
		return 1, 1
	}
	step = math.Pow(10, math.Floor(math.Log10(most)))
	for _, f := range []float64{0.1, 0.2, 0.5, 1, 2} {
		if most/(step*f) <= 8 {
			step *= f
			break
		}
	}
	return step, step * math.Ceil(most/step)
}

func number(v float64) string {
	return strings.TrimSuffix(strings.TrimRight(fmt.Sprintf("%.2f", v), "0"), ".")
}

func escape(s string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(s)) // a Builder takes everything
	return b.String()
}
