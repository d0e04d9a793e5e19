package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"time"

	"github.com/weirflow/weir/internal/measure"
)

// limit is how long a row may take besides its window, javaLimit what one with a JVM may take more, for its warm-up.
const (
	limit     = 60 * time.Second
	javaLimit = 40 * time.Second
)

// chosen are the rows that are run.
func (sc *scenario) chosen(s *settings) (rows []row) {
	for _, r := range sc.rows {
		if r.native && s.native == "" || r.java && s.flink == "" || s.rows != nil && !s.rows.MatchString(r.name) && !r.beside {
			continue
		}
		rows = append(rows, r)
	}
	return rows
}

// measureAll runs all rows in each round.
func (sc *scenario) measureAll(s *settings) (map[string][]figure, error) {
	figures := map[string][]figure{}
	for round := range s.rounds {
		for _, r := range sc.chosen(s) {
			if r.beside {
				continue
			}
			got, err := r.measure(s, sc)
			if err != nil { // a process that the machine forgot for a while is no reason to lose the other rounds
				fmt.Fprintf(os.Stderr, "%s/%s is measured again: %v\n", sc.name, r.name, err)
				got, err = r.measure(s, sc)
			}
			if err != nil {
				return nil, fmt.Errorf("%s/%s: %w", sc.name, r.name, err)
			}
			for name, f := range got {
				figures[name] = append(figures[name], f)
			}
		}
		fmt.Fprintf(os.Stderr, "%s: round %d of %d\n", sc.name, round+1, s.rounds)
	}
	return figures, nil
}

// measure runs a row once.
func (w *row) measure(s *settings, sc *scenario) (map[string]figure, error) {
	most := s.window + limit
	if w.java {
		most += javaLimit
	}
	ctx, cancel := context.WithTimeout(context.Background(), most)
	defer cancel()
	if w.weir != nil {
		return w.runWeir(ctx, s, sc)
	}
	seconds := strconv.FormatFloat(s.window.Seconds(), 'f', -1, 64)
	recv, err := w.start(ctx, s, sc, "receive", seconds, "")
	if err != nil {
		return nil, err
	}
	defer recv.Stop()
	addr, err := recv.Address()
	if err != nil {
		return nil, err
	}
	send, err := w.start(ctx, s, sc, "send", seconds, addr)
	if err != nil {
		return nil, err
	}
	defer send.Stop()
	a, err := recv.Result()
	if err != nil {
		return nil, err
	}
	b, err := send.Result()
	if err != nil {
		return nil, err
	}
	return map[string]figure{w.name: figureOf(sc.unit, &a, &b)}, nil
}

// start starts one side.
func (w *row) start(ctx context.Context, s *settings, sc *scenario, side, seconds, addr string) (p *measure.Process, err error) {
	run := func() error {
		if w.native {
			p, err = measure.Start(ctx, s.native, side, seconds, addr)
		} else {
			p, err = measure.StartSelf(ctx, "-role", side+"/"+sc.name+"/"+w.name, "-addr", addr, "-seconds", seconds)
		}
		return err
	}
	cpu := 0
	if side == "send" && w.pin == "split" {
		cpu = 1
	}
	if w.pin == "" {
		err = run()
	} else {
		err = measure.OnCPU(cpu, run)
	}
	return p, err
}

// runWeir runs a scenario of the weir command and reads its last line.
func (w *row) runWeir(ctx context.Context, s *settings, sc *scenario) (map[string]figure, error) {
	args := append([]string{"bench", "--flink-dir", s.flink, "--json", "--seconds", strconv.FormatFloat(s.window.Seconds(), 'f', -1, 64)}, w.weir...)
	cmd := exec.CommandContext(ctx, s.bin, args...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, err
	}
	lines := bytes.Split(bytes.TrimSpace(out), []byte("\n"))
	l, err := parseWeir(lines[len(lines)-1])
	if err != nil {
		return nil, err
	}
	return l.figures(w.name, sc.unit), nil
}
