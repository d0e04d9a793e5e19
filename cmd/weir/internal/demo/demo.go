package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Options of the demo.
type Options struct {
	// Input is a file or folder of text; empty: the sources of the Go installation.
	Input string
	// Lines in all, Seconds that they take.
	Lines   uint64
	Seconds float64
	// Live redraws a table rather than printing a line each second.
	Live bool
}

const (
	senders      = 2
	receivers    = 3
	barrierEvery = 200 * time.Millisecond
	sleepFor     = 2500 * time.Millisecond
	maxBytes     = 2 << 30 // of all lines together

	// Lines per second of each of the second stage's writers: what its readers take easily.
	minFanRate = 50
	maxFanRate = 12000
	fanBytes   = 4 << 20
)

// Run runs both stages and prints what they prove. The error says what was not proved.
func Run(ctx context.Context, out io.Writer, opt Options) error {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(opt.Seconds*float64(time.Second))+80*time.Second)
	defer cancel()
	files, err := findInput(opt.Input)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "weir-demo-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }() // at worst it stays among the system's temporary files
	d := &demo{opt: opt, out: out, dir: dir, fanRate: maxFanRate}
	for s := range senders {
		var own []string
		for i := s; i < len(files); i += senders {
			own = append(own, files[i])
		}
		if len(own) == 0 {
			own = files
		}
		n, size, err := gather(d.lines(s), own, opt.Lines/senders)
		if errors.Is(err, errNoLine) { // the other half of the files may have some
			n, size, err = gather(d.lines(s), files, opt.Lines/senders)
		}
		if err != nil {
			return err
		}
		d.fanRate = min(d.fanRate, max(minFanRate, fanBytes/max(1, min(fanLine, size/n))))
		// Lines of a megabyte: fewer of them, or it would take hours.
		d.opt.Lines = min(d.opt.Lines, max(1000, maxBytes/max(1, size/n)))
	}
	opt = d.opt
	fmt.Fprintf(out, "weir demo: %d lines from %d files, 2 senders, 3 receivers, a process each\n\n", opt.Lines, len(files))
	return errors.Join(d.keyed(ctx), d.fan(ctx), d.crash(ctx))
}

// demo is one run.
type demo struct {
	opt Options
	out io.Writer
	dir string

	fanRate uint64
}

func (d *demo) lines(s int) string { return filepath.Join(d.dir, "input-"+strconv.Itoa(s)) }
func (d *demo) notes(r int) string { return filepath.Join(d.dir, "output-"+strconv.Itoa(r)) }

// startSenders starts both senders of a stage and waits for their addresses.
func (d *demo) startSenders(ctx context.Context, role string, args ...string) (cs []*child, addrs string, err error) {
	for s := range senders {
		c, err := spawn(ctx, "sender "+strconv.Itoa(s), append([]string{"--role", role, "--who", strconv.Itoa(s), "--input", d.lines(s),
			"--subs", strconv.Itoa(receivers)}, args...)...)
		if err != nil {
			return cs, "", err
		}
		cs = append(cs, c)
	}
	var list []string
	for _, c := range cs {
		for c.status().Addr == "" {
			if err := sleep(ctx, 5*time.Millisecond); err != nil {
				return cs, "", fmt.Errorf("%s did not start: %w", c.name, err)
			}
			select {
			case <-c.done:
				_, err := c.result(ctx)
				return cs, "", errors.Join(fmt.Errorf("%s did not start", c.name), err)
			default:
			}
		}
		list = append(list, c.status().Addr)
	}
	return cs, strings.Join(list, ","), nil
}

func stopAll(cs []*child) {
	for _, c := range cs {
		c.stop()
	}
}

// keyed is the first stage: lines are partitioned by their first word, and every line is accounted for.
func (d *demo) keyed(ctx context.Context) error {
	fmt.Fprintln(d.out, "Stage 1: lines go to receivers by their first word; a barrier every 200 ms; the busiest receiver sleeps for a while.")
	each := d.opt.Lines / senders
	tx, addrs, err := d.startSenders(ctx, "send", "--lines", strconv.FormatUint(each, 10),
		"--rate", strconv.FormatFloat(float64(each)/d.opt.Seconds, 'f', 0, 64))
	defer func() { stopAll(tx) }()
	if err != nil {
		return err
	}
	var rx []*child
	defer func() { stopAll(rx) }()
	for r := range receivers {
		c, err := spawn(ctx, "receiver "+strconv.Itoa(r), "--role", "receive", "--who", strconv.Itoa(r), "--senders", addrs, "--out", d.notes(r))
		if err != nil {
			return err
		}
		rx = append(rx, c)
	}
	stop := d.conduct(tx, rx)
	var sent, got []message
	for _, c := range append(append([]*child(nil), rx...), tx...) {
		m, err := c.result(ctx)
		if err != nil {
			stop()
			return err
		}
		if len(got) < len(rx) {
			got = append(got, m)
		} else {
			sent = append(sent, m)
		}
	}
	stop()
	return d.reportKeyed(sent, got)
}

// conduct sends barriers, puts a receiver to sleep and shows how things stand, until stop is called.
func (d *demo) conduct(tx, rx []*child) (stop func()) {
	v := newView(d.out, d.opt.Live)
	var ticks int64
	slept := false
	wait := time.Duration(d.opt.Seconds * 0.4 * float64(time.Second))
	begin := time.Now()
	return every(barrierEvery, func() {
		ticks++
		for _, c := range tx {
			c.tell("barrier %d", ticks)
		}
		if !slept && time.Since(begin) > wait {
			slept = true
			busiest(rx).tell("sleep %d", sleepFor.Milliseconds())
		}
		if ticks%5 == 0 {
			v.show(time.Since(begin), tx, rx)
		}
	})
}

// busiest is the receiver with most lines: whatever the input's words are, its sleep is felt.
func busiest(rx []*child) *child {
	most := rx[0]
	for _, c := range rx[1:] {
		if c.status().Lines > most.status().Lines {
			most = c
		}
	}
	return most
}

func (d *demo) reportKeyed(sent, got []message) error {
	var files []string
	var counts []uint64
	for r := range got {
		files = append(files, d.notes(r))
	}
	var allocs uint64
	checkpoints := got[0].Checkpoints
	for _, m := range sent {
		counts = append(counts, m.Lines)
		allocs += m.Allocs
	}
	for _, m := range got {
		allocs += m.Allocs
		checkpoints = min(checkpoints, m.Checkpoints)
	}
	p, err := prove(files, counts)
	if err != nil {
		return err
	}
	w := d.out
	fmt.Fprintf(w, "\n  lines in       %d\n  lines out      %d\n", p.in, p.out)
	fmt.Fprintf(w, "  lost %d\n  duplicated %d\n  out of order %d\n", p.lost, p.duplicated, p.outOfOrder)
	fmt.Fprintf(w, "  checkpoints    %d aligned, at every receiver\n", checkpoints)
	printMemory(w, append(append([]message(nil), sent...), got...))
	fmt.Fprintf(w, "  allocations    %.4f a line, all five processes and their reports together\n", float64(allocs)/float64(p.in))
	waited := 0.0
	for s, m := range sent {
		for sub, sec := range m.WaitedS {
			if sec >= 0.005 {
				fmt.Fprintf(w, "  writer %d       waited %.2f s for subpartition %d\n", s, sec, sub)
				waited += sec
			}
		}
	}
	fmt.Fprintln(w, "  A writer that partitions by key waits when one subpartition has its share of buffers, for whoever the next line is.")
	fmt.Fprintln(w)
	switch {
	case !p.ok():
		return fmt.Errorf("stage 1: not every line arrived exactly once and in order (torn notes: %d)", p.torn)
	case checkpoints == 0:
		return errors.New("stage 1: no checkpoint was aligned, so nothing is shown about checkpoints")
	case waited == 0:
		return errors.New("stage 1: the writer never waited, so nothing is shown about back-pressure")
	}
	return nil
}

// printMemory compares what was used with what was allowed.
func printMemory(w io.Writer, ms []message) {
	var most, budget int
	var resident int64
	for _, m := range ms {
		most, budget, resident = max(most, m.Segments), m.Budget, max(resident, m.Resident)
	}
	fmt.Fprintf(w, "  memory         at most %.1f of %.1f MiB of buffers in a process, peak resident size %.1f MiB\n",
		float64(most*segmentSize)/(1<<20), float64(budget*segmentSize)/(1<<20), float64(resident)/(1<<20))
}

// fan is the second stage: on the wire a slow channel holds back no other.
func (d *demo) fan(ctx context.Context) error {
	fmt.Fprintln(d.out, "Stage 2: a writer for each channel, all channels of a sender on one connection; reader 1 sleeps.")
	tx, addrs, err := d.startSenders(ctx, "fan-send", "--rate", strconv.FormatUint(d.fanRate, 10))
	defer func() { stopAll(tx) }()
	if err != nil {
		return err
	}
	rx, err := spawn(ctx, "readers", "--role", "fan", "--senders", addrs, "--subs", strconv.Itoa(receivers))
	if err != nil {
		return err
	}
	defer rx.stop()
	for rx.status().Kind == "" {
		if err := sleep(ctx, 10*time.Millisecond); err != nil {
			return fmt.Errorf("stage 2: %w", err)
		}
		select {
		case <-rx.done:
			_, err := rx.result(ctx)
			return fmt.Errorf("stage 2: %w", err)
		default:
		}
	}
	for _, c := range tx {
		c.tell("enough")
	}
	got, err := rx.result(ctx)
	if err != nil {
		return fmt.Errorf("stage 2: %w", err)
	}
	sent := make([]uint64, receivers)
	waits := make([]float64, receivers)
	all := []message{got}
	for _, c := range tx {
		m, err := c.result(ctx)
		if err != nil {
			return fmt.Errorf("stage 2: %w", err)
		}
		all = append(all, m)
		for i := range sent {
			sent[i] += m.PerOutput[i]
			waits[i] += m.WaitedS[i]
		}
	}
	return d.reportFan(got, sent, waits, all)
}

func (d *demo) reportFan(got message, sent []uint64, waits []float64, all []message) error {
	w := d.out
	worst := 1e9
	fmt.Fprintln(w)
	for i, k := range got.Kept {
		ratio := k.During / k.Before
		what := fmt.Sprintf("kept %.3f of its rate", ratio)
		if i == sleeper {
			what = "slept"
		} else {
			worst = min(worst, ratio)
		}
		fmt.Fprintf(w, "  reader %d       %.0f lines/s before, %.0f while reader %d slept: %s; its writers waited %.2f s\n",
			i, k.Before, k.During, sleeper, what, waits[i])
	}
	var lost uint64
	for i := range sent {
		if sent[i] != got.PerOutput[i] {
			lost += sent[i] - got.PerOutput[i]
		}
	}
	printMemory(w, all)
	fmt.Fprintf(w, "  lost %d, slowest of the others kept %.3f of its rate\n", lost, worst)
	switch {
	case lost != 0:
		return fmt.Errorf("stage 2: %d lines were lost", lost)
	case got.Kept[sleeper].During > 0.5*got.Kept[sleeper].Before:
		return errors.New("stage 2: the sleeping reader went on, so nothing is shown")
	case worst < 0.95:
		return fmt.Errorf("stage 2: a reader kept only %.3f of its rate while another slept, want 0.95", worst)
	}
	return nil
}
