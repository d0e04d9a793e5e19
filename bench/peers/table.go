package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/weirflow/weir/internal/measure"
)

// compare runs a scenario and prints its tables.
func (sc *scenario) compare(s *settings) error {
	figures, err := sc.measureAll(s)
	if err != nil {
		return err
	}
	fmt.Printf("### %s: %s\n\n%d interleaved rounds of %v. Medians, in brackets quartiles.\n\n", sc.name, sc.title, s.rounds, s.window)
	sc.printRows(figures)
	sc.printRatios(figures)
	sc.printEnds(figures)
	if s.plots == "" {
		return nil
	}
	if err := os.MkdirAll(s.plots, 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(s.plots, sc.name+".svg"), sc.plot(figures), 0o644)
}

// value is what the scenario is about: a rate, or the median round trip.
func (sc *scenario) value(f *figure) float64 {
	switch sc.unit {
	case bytesUnit:
		return f.rate / 1e9
	case recordsUnit:
		return f.rate / 1e6
	}
	return f.p50
}

// spread is the median of something of all rounds, with quartiles.
func spread(all []figure, f func(*figure) float64) (low, mid, high float64) {
	var values []float64
	for i := range all {
		values = append(values, f(&all[i]))
	}
	return measure.Spread(values)
}

func brackets(format string, low, mid, high float64) string {
	return fmt.Sprintf(format+" ["+format+", "+format+"]", mid, low, high)
}

func (sc *scenario) printRows(figures map[string][]figure) {
	switch {
	case sc.unit == tripsUnit:
		fmt.Println("| row | p50, us | p99, us | p99.9, us | CPU-s per million | allocs per trip | what |\n|---|---|---|---|---|---|---|")
	case sc.name == "fan":
		fmt.Printf("| row | %s while one is stalled | kept of its rate before | slowest of the mean | CPU-s per GB | allocs per frame | what |\n|---|---|---|---|---|---|---|\n", sc.unit)
	case sc.unit == recordsUnit:
		fmt.Printf("| row | %s | CPU-s per million | allocs per record | what |\n|---|---|---|---|---|\n", sc.unit)
	default:
		fmt.Printf("| row | %s | CPU-s per GB | allocs per frame | what |\n|---|---|---|---|---|\n", sc.unit)
	}
	for _, r := range sc.rows {
		all := figures[r.name]
		if len(all) == 0 {
			continue
		}
		mid := func(f func(*figure) float64) float64 {
			_, m, _ := spread(all, f)
			return m
		}
		low, m, high := spread(all, sc.value)
		cells := []string{r.name, brackets("%.2f", low, m, high)}
		switch {
		case sc.unit == tripsUnit:
			cells = append(cells, fmt.Sprintf("%.1f", mid(func(f *figure) float64 { return f.p99 })), fmt.Sprintf("%.1f", mid(func(f *figure) float64 { return f.p999 })))
		case sc.name == "fan":
			kept, slowest := "", ""
			if mid(func(f *figure) float64 { return f.kept }) > 0 {
				kept = fmt.Sprintf("%.2f", mid(func(f *figure) float64 { return f.kept }))
				slowest = fmt.Sprintf("%.3f", mid(func(f *figure) float64 { return f.slowest }))
			}
			cells = append(cells, kept, slowest)
		}
		low, m, high = spread(all, func(f *figure) float64 { return f.cpu })
		cpu := "%.3f"
		if sc.unit == tripsUnit {
			cpu = "%.1f"
		}
		allocs := fmt.Sprintf("%.4f", mid(func(f *figure) float64 { return f.allocs }))
		if r.native {
			allocs = ""
		}
		fmt.Printf("| %s | %s | %s | %s |\n", strings.Join(cells, " | "), brackets(cpu, low, m, high), allocs, r.what)
	}
	fmt.Println()
}

// printEnds prints what is to be known of Flink's ends: what a buffer costs there and at weir's end, and whether the JVMs were warm.
func (sc *scenario) printEnds(figures map[string][]figure) {
	title := "| row | weir's end: CPU-us per buffer | Flink's end | ratio |\n|---|---|---|---|\n"
	for _, r := range sc.rows {
		all := figures[r.name]
		if len(all) == 0 || all[0].weirBuffer == 0 || all[0].flinkBuffer == 0 {
			continue
		}
		cells := []string{r.name}
		for _, c := range []struct {
			format string
			f      func(*figure) float64
		}{
			{"%.2f", func(f *figure) float64 { return f.weirBuffer }},
			{"%.2f", func(f *figure) float64 { return f.flinkBuffer }},
			{"%.3f", func(f *figure) float64 { return f.weirBuffer / f.flinkBuffer }},
		} {
			low, mid, high := spread(all, c.f)
			cells = append(cells, brackets(c.format, low, mid, high))
		}
		fmt.Printf("%s| %s |\n", title, strings.Join(cells, " | "))
		title = ""
	}
	if title == "" {
		fmt.Println()
	}
	title = "| JVMs of row | warm after, s | compiler, of the window | second half over first: rate | CPU per unit |\n|---|---|---|---|---|\n"
	for _, r := range sc.rows {
		var jvms []jvm
		for _, f := range figures[r.name] {
			jvms = append(jvms, f.jvms...)
		}
		if len(jvms) == 0 {
			continue
		}
		of := func(format string, f func(*jvm) float64) string {
			var values []float64
			for i := range jvms {
				values = append(values, f(&jvms[i]))
			}
			low, mid, high := measure.Spread(values)
			return brackets(format, low, mid, high)
		}
		fmt.Printf("%s| %s | %s | %s | %s | %s |\n", title, r.name, of("%.1f", func(j *jvm) float64 { return j.WarmUp }),
			of("%.3f", func(j *jvm) float64 { return j.Compiled }), of("%.3f", func(j *jvm) float64 { return j.Rate }),
			of("%.3f", func(j *jvm) float64 { return j.CPU }))
		title = ""
	}
	if title == "" {
		fmt.Println()
	}
}

// printRatios prints what is to be compared: medians of the ratios within each round.
func (sc *scenario) printRatios(figures map[string][]figure) {
	what := "rate"
	if sc.unit == tripsUnit {
		what = "p50"
	}
	fmt.Printf("| row | against | ratio of %s | ratio of CPU per unit |", what)
	if sc.unit == tripsUnit {
		fmt.Print(" ratio of p99 |")
	}
	fmt.Println("\n|---|---|---|---|" + map[bool]string{true: "---|"}[sc.unit == tripsUnit])
	for _, v := range sc.against {
		own, base := figures[v.row], figures[v.base]
		if len(own) == 0 || len(base) == 0 {
			continue
		}
		ratio := func(f func(*figure) float64) string {
			var ratios []float64
			for i := range own {
				ratios = append(ratios, f(&own[i])/f(&base[i]))
			}
			low, mid, high := measure.Spread(ratios)
			return brackets("%.2f", low, mid, high)
		}
		fmt.Printf("| %s | %s | %s | %s |", v.row, v.base, ratio(sc.value), ratio(func(f *figure) float64 { return f.cpu }))
		if sc.unit == tripsUnit {
			fmt.Printf(" %s |", ratio(func(f *figure) float64 { return f.p99 }))
		}
		fmt.Println()
	}
	fmt.Println()
	for _, v := range sc.sums {
		own, base := figures[v.row], figures[v.base]
		if len(own) == 0 || len(base) == 0 {
			continue
		}
		var ratios []float64
		for i := range own {
			ratios = append(ratios, own[i].p50/(base[i].p50+own[i].wakes))
		}
		_, wakes, _ := spread(own, func(f *figure) float64 { return f.wakes })
		low, mid, high := measure.Spread(ratios)
		fmt.Printf("%s: its wake-ups take %.2f us; p50 is %s of the sum of those and the p50 of %s.\n\n", v.row, wakes,
			brackets("%.2f", low, mid, high), v.base)
	}
}
