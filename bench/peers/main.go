// Command peers runs weir beside what one would write or take instead, on the same work, in one run.
//
//	go run . -rounds 9 -seconds 0.6 bulk records
//
// Each round runs every row of a scenario once, so that a slow minute of the machine meets them all. A row is a receiver
// and a sender, two processes over loopback; each measures its own window. Only ratios of one round mean anything.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/weirflow/weir/internal/measure"
)

// What is not said. A run with a JVM warms it up for some ten seconds first, so these are fewer and longer.
const (
	defaultRounds, javaRounds = 9, 5
	defaultWindow, javaWindow = 600 * time.Millisecond, 3 * time.Second
)

// settings of a run.
type settings struct {
	bin    string         // the weir command
	rounds int            // 0: the scenario's
	window time.Duration  // 0: the scenario's
	rows   *regexp.Regexp // which rows, nil: all
	plots  string         // folder for plots, "": none
	native string         // the C program, "": there is none
	flink  string         // the folder of the Flink end, "": there is none
}

func main() {
	var s settings
	flag.IntVar(&s.rounds, "rounds", 0, fmt.Sprintf("interleaved rounds; by default %d, of scenarios with a JVM %d", defaultRounds, javaRounds))
	seconds := flag.Float64("seconds", 0, fmt.Sprintf("measured window of each run; by default %v, of scenarios with a JVM %v", defaultWindow.Seconds(), javaWindow.Seconds()))
	flag.StringVar(&s.bin, "weir", "../../bin/weir", "the weir command")
	flag.StringVar(&s.plots, "plots", "", "write a plot of each scenario into this folder")
	flag.StringVar(&s.flink, "flink", "../../interop/flink", "where the Flink end is")
	rows := flag.String("rows", "", "only rows whose names match; empty: all")
	list := flag.Bool("list", false, "list the rows")
	role := flag.String("role", "", "internal: run one side of a row")
	addr := flag.String("addr", "", "internal: where the receiver listens")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: peers [flags] [SCENARIO...]")
		flag.PrintDefaults()
	}
	flag.Parse()
	s.window = time.Duration(*seconds * float64(time.Second))
	err := run(&s, *rows, *list, *role, *addr)
	if err != nil {
		fmt.Fprintln(os.Stderr, "peers:", err)
		os.Exit(1)
	}
}

func run(s *settings, rows string, list bool, role, addr string) (err error) {
	if role != "" {
		return runRole(role, addr, s.window)
	}
	if list {
		for _, sc := range scenarios {
			for _, r := range sc.rows {
				fmt.Printf("%-10s %-16s %s\n", sc.name, r.name, r.what)
			}
		}
		return nil
	}
	if s.rounds < 0 || s.window < 0 {
		return errors.New("nothing to measure")
	}
	if rows != "" {
		if s.rows, err = regexp.Compile(rows); err != nil {
			return err
		}
	}
	remove, err := s.buildNative()
	if err != nil {
		fmt.Fprintln(os.Stderr, "peers: rows in C are left out:", err)
	}
	defer remove()
	for _, tool := range []string{"java", "mvn"} {
		if _, err := exec.LookPath(tool); err != nil {
			fmt.Fprintln(os.Stderr, "peers: rows with Flink, which take Java 17 and Maven, are left out:", err)
			s.flink = ""
		}
	}
	done := 0
	for _, sc := range scenarios {
		if flag.NArg() > 0 && !slices.Contains(flag.Args(), sc.name) {
			continue
		}
		done++
		if err := sc.compare(sc.settings(s)); err != nil {
			return err
		}
	}
	if done == 0 {
		return fmt.Errorf("no scenario named %s", strings.Join(flag.Args(), ", "))
	}
	return nil
}

// settings are those of a run with what was not said filled in.
func (sc *scenario) settings(s *settings) *settings {
	own, java := *s, slices.ContainsFunc(sc.rows, func(r row) bool { return r.java })
	if own.rounds == 0 {
		own.rounds = defaultRounds
		if java {
			own.rounds = javaRounds
		}
	}
	if own.window == 0 {
		own.window = defaultWindow
		if java {
			own.window = javaWindow
		}
	}
	return &own
}

// figure is one run of one row. Where two processes are measured, CPU and allocations are those of both.
type figure struct {
	rate           float64 // bytes, records or round trips per second
	cpu            float64 // CPU-seconds per GB, or per million records or round trips
	allocs         float64 // per frame, record or round trip
	p50, p99, p999 float64 // of round trips, us
	kept, slowest  float64 // of channels that are read while one is not
	wakes          float64 // of a round trip, us
	// With Flink at one end: CPU time per buffer there and at weir's end, us.
	flinkBuffer, weirBuffer float64
	jvms                    []jvm
}

// jvm is how steady a Flink process was: its warm-up, the compiler's time of the window, and the second half of the window over the first.
type jvm struct {
	WarmUp   float64 `json:"warm_up_s"`
	Compiled float64 `json:"compiled_of_window"`
	Rate     float64 `json:"rate_halves"`
	CPU      float64 `json:"cpu_halves"`
}

// figureOf makes a figure of what the two sides measured.
func figureOf(unit string, recv, send *measure.Result) figure {
	f := figure{
		rate:   float64(recv.Items) / recv.Seconds,
		cpu:    (recv.CPUSeconds/float64(recv.Items) + send.CPUSeconds/float64(send.Items)) * 1e6,
		allocs: float64(recv.Mallocs)/float64(recv.Items) + float64(send.Mallocs)/float64(send.Items),
		p50:    send.Extra["p50_us"], p99: send.Extra["p99_us"], p999: send.Extra["p999_us"],
		kept: recv.Extra["kept"], slowest: recv.Extra["slowest_of_mean"],
	}
	if unit == bytesUnit {
		f.rate = float64(recv.Bytes) / recv.Seconds
		f.cpu = (recv.CPUSeconds/float64(recv.Bytes) + send.CPUSeconds/float64(send.Bytes)) * 1e9
	}
	return f
}

// weirLine is the last line of weir bench --json.
type weirLine struct {
	Rate          float64 `json:"rate"`
	CPUPerGB      float64 `json:"cpu_s_per_gb"`
	CPUPerM       float64 `json:"cpu_s_per_million"`
	Allocs        float64 `json:"allocs_per_op"`
	P50           float64 `json:"p50_us"`
	P99           float64 `json:"p99_us"`
	P999          float64 `json:"p999_us"`
	Kept          float64 `json:"kept"`
	SlowestOfMean float64 `json:"slowest_of_mean"`
	WakeConsumer  float64 `json:"wake_consumer_us"`
	WakeLoop      float64 `json:"wake_loop_us"`
	Flink         struct {
		WeirBuffer  float64 `json:"weir_cpu_us_per_buffer"`
		FlinkBuffer float64 `json:"flink_cpu_us_per_buffer"`
		JVMs        []jvm   `json:"jvms"`
	} `json:"flink"`
	Beside []struct {
		Row      string  `json:"row"`
		Rate     float64 `json:"rate"`
		CPUPerGB float64 `json:"cpu_s_per_gb"`
		CPUPerM  float64 `json:"cpu_s_per_million"`
		Allocs   float64 `json:"allocs_per_op"`
	} `json:"beside"`
}

// figures are those of a row that is weir, and of the rows that weir bench measured beside it, by their names.
func (l *weirLine) figures(name, unit string) map[string]figure {
	cpu := func(gb, million float64) float64 {
		if unit == bytesUnit {
			return gb
		}
		return million
	}
	all := map[string]figure{name: {
		rate: l.Rate, cpu: cpu(l.CPUPerGB, l.CPUPerM), allocs: l.Allocs, p50: l.P50, p99: l.P99, p999: l.P999,
		kept: l.Kept, slowest: l.SlowestOfMean, wakes: 2 * (l.WakeConsumer + l.WakeLoop),
		weirBuffer: l.Flink.WeirBuffer, flinkBuffer: l.Flink.FlinkBuffer, jvms: l.Flink.JVMs,
	}}
	for _, b := range l.Beside {
		all[b.Row] = figure{rate: b.Rate, cpu: cpu(b.CPUPerGB, b.CPUPerM), allocs: b.Allocs}
	}
	return all
}

func parseWeir(line []byte) (*weirLine, error) {
	l := new(weirLine)
	if err := json.Unmarshal(line, l); err != nil {
		return nil, fmt.Errorf("reading the result of weir bench: %w", err)
	}
	if l.Rate <= 0 {
		return nil, errors.New("weir bench reports no rate")
	}
	return l, nil
}
