package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/weirflow/weir/internal/measure"
)

// figure is one run of one row.
type figure struct {
	rate   float64 // in the row's unit
	cpu    float64 // CPU-seconds of both processes, per GB or per million records
	allocs float64 // of both processes, per frame or record
}

func compareScenario(bin, scenario string, rounds int, window time.Duration) error {
	figures := map[string][]figure{}
	for range rounds {
		for _, r := range rows {
			if r.scenario != scenario {
				continue
			}
			run := r.runPeers
			if r.weir != nil {
				run = func(w time.Duration) (figure, error) { return r.runWeir(bin, w) }
			}
			f, err := run(window)
			if err != nil {
				return fmt.Errorf("%s/%s: %w", r.scenario, r.name, err)
			}
			figures[r.name] = append(figures[r.name], f)
		}
	}
	fmt.Printf("%s, %d interleaved rounds of %v\n\n", scenario, rounds, window)
	fmt.Println("| row | rate: median [quartiles] | against | ratio of rates: median [quartiles] | ratio of CPU per unit | allocs per unit |")
	fmt.Println("|---|---|---|---|---|---|")
	for _, r := range rows {
		if r.scenario == scenario {
			printRow(r, figures[r.name], figures[r.base])
		}
	}
	fmt.Println()
	return nil
}

func printRow(r row, own, base []figure) {
	var rates, allocs, ratios, cpus []float64
	for i, f := range own {
		rates, allocs = append(rates, f.rate), append(allocs, f.allocs)
		if base != nil {
			ratios, cpus = append(ratios, f.rate/base[i].rate), append(cpus, f.cpu/base[i].cpu)
		}
	}
	lo, mid, hi := measure.Spread(rates)
	_, alloc, _ := measure.Spread(allocs)
	against, ratio, cpu := "", "", ""
	if base != nil {
		against = r.base
		l, m, h := measure.Spread(ratios)
		ratio = fmt.Sprintf("%.2f [%.2f, %.2f]", m, l, h)
		l, m, h = measure.Spread(cpus)
		cpu = fmt.Sprintf("%.2f [%.2f, %.2f]", m, l, h)
	}
	fmt.Printf("| %s | %.2f %s [%.2f, %.2f] | %s | %s | %s | %.4f |\n", r.name, mid, r.unit, lo, hi, against, ratio, cpu, alloc)
}

// runWeir runs a scenario of the weir command and reads its last line.
func (r row) runWeir(bin string, window time.Duration) (figure, error) {
	args := append([]string{"bench", "--json", "--seconds", strconv.FormatFloat(window.Seconds(), 'f', -1, 64)}, r.weir...)
	ctx, cancel := context.WithTimeout(context.Background(), window+60*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, bin, args...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return figure{}, err
	}
	lines := bytes.Split(bytes.TrimSpace(out), []byte("\n"))
	var j struct {
		Rate       float64 `json:"rate"`
		CPUPerGB   float64 `json:"cpu_s_per_gb"`
		CPUPerM    float64 `json:"cpu_s_per_million"`
		AllocsPerO float64 `json:"allocs_per_op"`
	}
	if err := json.Unmarshal(lines[len(lines)-1], &j); err != nil {
		return figure{}, fmt.Errorf("reading the result of weir bench: %w", err)
	}
	if j.Rate <= 0 {
		return figure{}, errors.New("weir bench reports no rate")
	}
	f := figure{rate: j.Rate / 1e9, cpu: j.CPUPerGB, allocs: j.AllocsPerO}
	if r.unit == "M/s" {
		f.rate, f.cpu = j.Rate/1e6, j.CPUPerM
	}
	return f, nil
}

// runPeers runs both roles of a row of this module.
func (r row) runPeers(window time.Duration) (figure, error) {
	ctx, cancel := context.WithTimeout(context.Background(), window+30*time.Second)
	defer cancel()
	recv, err := r.start(ctx, "receive", "", window)
	if err != nil {
		return figure{}, err
	}
	defer recv.stop()
	addr, err := recv.address()
	if err != nil {
		return figure{}, err
	}
	send, err := r.start(ctx, "send", addr, window)
	if err != nil {
		return figure{}, err
	}
	defer send.stop()
	a, err := recv.result()
	if err != nil {
		return figure{}, err
	}
	b, err := send.result()
	if err != nil {
		return figure{}, err
	}
	return r.figure(a, b), nil
}

func (r row) figure(recv, send measure.Result) figure {
	perByteR, perByteS := 1/float64(recv.Bytes), 1/float64(send.Bytes)
	f := figure{
		rate:   float64(recv.Bytes) / recv.Seconds / 1e9,
		cpu:    (recv.CPUSeconds*perByteR + send.CPUSeconds*perByteS) * 1e9,
		allocs: float64(recv.Mallocs)/float64(recv.Items) + float64(send.Mallocs)/float64(send.Items),
	}
	if r.unit == "M/s" {
		f.rate = float64(recv.Items) / recv.Seconds / 1e6
		f.cpu = (recv.CPUSeconds/float64(recv.Items) + send.CPUSeconds/float64(send.Items)) * 1e6
	}
	return f
}

type process struct {
	cmd *exec.Cmd
	out *bufio.Scanner
}

func (r row) start(ctx context.Context, side, addr string, window time.Duration) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, self, "-role", r.scenario+"/"+r.name+"/"+side, "-addr", addr,
		"-seconds", strconv.FormatFloat(window.Seconds(), 'f', -1, 64))
	cmd.Stderr = os.Stderr
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	return &process{cmd: cmd, out: bufio.NewScanner(pipe)}, cmd.Start()
}

func (p *process) address() (string, error) {
	for p.out.Scan() {
		if addr, ok := strings.CutPrefix(p.out.Text(), "ADDR "); ok {
			return addr, nil
		}
	}
	return "", errors.New("the receiver ended before it listened")
}

func (p *process) result() (measure.Result, error) {
	for p.out.Scan() {
		if r, ok := measure.Find(p.out.Text()); ok {
			if r.Items == 0 || r.Bytes == 0 {
				return r, fmt.Errorf("%s did nothing in its window", r.Role)
			}
			return r, nil
		}
	}
	return measure.Result{}, errors.New("a process ended without a result")
}

// stop ends the process; both sides run until they are stopped, so that neither starves the other's window.
func (p *process) stop() {
	_ = p.cmd.Process.Kill() // it may have ended already
	_ = p.cmd.Wait()
}
