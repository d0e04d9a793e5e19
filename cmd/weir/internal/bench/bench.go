package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/weirflow/weir"
	"github.com/weirflow/weir/internal/measure"
)

// scenario is one kind of work.
type scenario struct {
	name, does string
	unit       string // of the rate
	send       func(ctx context.Context, r *role) error
	receive    func(ctx context.Context, r *role) error
	// config is the node's, if it is not the default one. It says why in options.
	config  func(side string, channels int) weir.Config
	options string
	// points are numbers of channels, each of which is measured by itself; none: the scenario has its number.
	points []int
}

var scenarios = []scenario{
	{name: "bulk", does: "frames of 32 KiB over one channel; the sender stamps them, the receiver sums every word",
		unit: "bytes", send: sendBulk, receive: receiveBulk},
	{name: "records", does: "records of 100 bytes over 8 channels, written and read one by one",
		unit: "records", send: sendRecords, receive: receiveRecords},
	{name: "channels", does: "frames of 4 KiB, in turn over 10 to 10 000 channels on one connection: what a frame costs",
		unit: "bytes", send: sendChannels, receive: receiveChannels,
		config: channelsConfig, options: "segments of 4 KiB, memory by MemoryNeeded", points: []int{10, 64, 100, 1000, 10_000}},
	{name: "fan", does: "frames of 32 KiB over 64 channels on one connection, a writer and a reader for each: one reader stops",
		unit: "bytes", send: sendFan, receive: receiveFan,
		config: fanConfig, options: "16 buffers an output, memory by MemoryNeeded"},
}

// Names lists the scenarios with what they do.
func Names() (lines []string) {
	for _, s := range scenarios {
		lines = append(lines, fmt.Sprintf("  %-10s %s", s.name, s.does))
	}
	return lines
}

func find(name string) (scenario, error) {
	var names []string
	for _, s := range scenarios {
		if s.name == name {
			return s, nil
		}
		names = append(names, s.name)
	}
	return scenario{}, fmt.Errorf("no scenario %q: there are %s", name, strings.Join(names, ", "))
}

// Options of a run.
type Options struct {
	Window time.Duration // measured time of each process
	JSON   bool          // end with one line of JSON
	// Profile is the folder for a CPU profile of each process, of its window; empty: none.
	Profile string
	// Points are the numbers of channels that are measured, in place of a scenario's own. Only for a scenario that has such.
	Points []int
	// Channels is the number of channels, for a role of a scenario that is measured with several.
	Channels int
}

// Result is a scenario's figures, those of both processes together where they can be added.
type Result struct {
	Scenario string  `json:"scenario"`
	Rate     float64 `json:"rate"` // bytes or records per second, at the receiver
	Unit     string  `json:"unit"`
	CPUPerGB float64 `json:"cpu_s_per_gb"`
	CPUPerM  float64 `json:"cpu_s_per_million"`
	Allocs   float64 `json:"allocs_per_op"` // per frame or record
	P50      float64 `json:"p50_us"`
	P99      float64 `json:"p99_us"`
	P999     float64 `json:"p999_us"`
	GCs      int64   `json:"gc_cycles"`
	GCPause  float64 `json:"gc_pause_us"`
	Frames   float64 `json:"frames"`
	Credits  float64 `json:"credits"`
	Grants   float64 `json:"grants"`
	PerRead  float64 `json:"bytes_per_read"`
	PerWrite float64 `json:"bytes_per_write"`
	Checksum string  `json:"checksum"`
	Memory   int64   `json:"pool_bytes"`
	Window   float64 `json:"seconds"`
	Options  string  `json:"options"`
	// Points are those of scenario channels, CostRatio the cost of a frame at the last one over that at 64 channels.
	Points    []Point `json:"points,omitempty"`
	CostRatio float64 `json:"cost_ratio,omitempty"`
	// Kept is the rate of the channels that are read, while one is not, over the rate before; SlowestOfMean that of the
	// slowest of them over their mean. Of scenario fan.
	Kept          float64 `json:"kept,omitempty"`
	SlowestOfMean float64 `json:"slowest_of_mean,omitempty"`
}

// Point is what a frame costs with a number of channels.
type Point struct {
	Channels int     `json:"channels"`
	Cost     float64 `json:"cpu_us_per_frame"` // of both processes
	Rate     float64 `json:"rate"`
	Allocs   float64 `json:"allocs_per_op"`
	Credits  float64 `json:"credits_per_grant"`
	PerWrite float64 `json:"bytes_per_write"`
}

// Run runs a scenario as two processes, two for each of its points, and prints what came of it.
func Run(ctx context.Context, out io.Writer, name string, opt Options) error {
	s, err := find(name)
	if err != nil {
		return err
	}
	if len(opt.Points) > 0 {
		if len(s.points) == 0 {
			return fmt.Errorf("scenario %s has its own number of channels", name)
		}
		s.points = opt.Points
	}
	for _, n := range s.points {
		if n < 1 {
			return fmt.Errorf("%d channels", n)
		}
	}
	var res Result
	var points []Point
	for _, n := range append([]int{0}, s.points...)[min(1, len(s.points)):] {
		if res, err = pair(ctx, s, n, opt); err != nil {
			return err
		}
		if n > 0 {
			points = append(points, Point{Channels: n, Cost: res.CPUPerM, Rate: res.Rate, Allocs: res.Allocs,
				Credits: res.Credits / res.Grants, PerWrite: res.PerWrite})
		}
	}
	res.Points = points
	for _, p := range points {
		if p.Channels == 64 {
			res.CostRatio = points[len(points)-1].Cost / p.Cost
		}
	}
	if opt.JSON {
		return json.NewEncoder(out).Encode(res)
	}
	return print(out, res)
}

// pair measures both sides of a scenario.
func pair(ctx context.Context, s scenario, channels int, opt Options) (Result, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*opt.Window+30*time.Second)
	defer cancel()
	send, err := start(ctx, s.name, "send", "", channels, opt)
	if err != nil {
		return Result{}, err
	}
	defer send.stop()
	addr, err := send.address()
	if err != nil {
		return Result{}, err
	}
	recv, err := start(ctx, s.name, "receive", addr, channels, opt)
	if err != nil {
		return Result{}, err
	}
	defer recv.stop()
	r, err := recv.result()
	if err != nil {
		return Result{}, err
	}
	t, err := send.result()
	if err != nil {
		return Result{}, err
	}
	return combine(s, r, t)
}

func combine(s scenario, recv, send measure.Result) (Result, error) {
	switch {
	case recv.Items == 0 || send.Items == 0:
		return Result{}, fmt.Errorf("%s: nothing moved in the window: received %d, sent %d", s.name, recv.Items, send.Items)
	case recv.Extra["grants"] == 0 || recv.Extra["credits"] == 0:
		return Result{}, fmt.Errorf("%s: not one AddCredit was sent in the window, so this measures something else", s.name)
	case recv.Extra["read_early"] > 0 || recv.Extra["unread_late"] > recv.Extra["pool_bytes"]:
		return Result{}, fmt.Errorf("%s: bytes that arrived and bytes that were summed differ by %.0f: not the same bytes", s.name,
			max(recv.Extra["read_early"], recv.Extra["unread_late"]))
	}
	res := Result{
		Scenario: s.name, Unit: s.unit, Window: recv.Seconds,
		Allocs: float64(recv.Mallocs)/float64(recv.Items) + float64(send.Mallocs)/float64(send.Items),
		GCs:    recv.GCs + send.GCs, GCPause: recv.GCPauseUS + send.GCPauseUS,
		Frames: recv.Extra["frames"], Credits: recv.Extra["credits"], Grants: recv.Extra["grants"],
		PerRead: recv.Extra["bytes_per_read"], PerWrite: send.Extra["bytes_per_write"],
		Checksum: fmt.Sprintf("%016x", uint64(recv.Extra["checksum_hi"])<<32|uint64(recv.Extra["checksum_lo"])),
		Memory:   int64(recv.Extra["pool_bytes"] + send.Extra["pool_bytes"]),
		Options:  "defaults",
		Kept:     recv.Extra["kept"], SlowestOfMean: recv.Extra["slowest_of_mean"],
	}
	if s.options != "" {
		res.Options = s.options
	}
	res.CPUPerGB = 1e9 * (recv.CPUSeconds/float64(recv.Bytes) + send.CPUSeconds/float64(send.Bytes))
	res.CPUPerM = 1e6 * (recv.CPUSeconds/float64(recv.Items) + send.CPUSeconds/float64(send.Items))
	res.Rate = float64(recv.Items) / recv.Seconds
	if s.unit == "bytes" {
		res.Rate = float64(recv.Bytes) / recv.Seconds
	}
	return res, nil
}

func print(out io.Writer, r Result) error {
	rate := fmt.Sprintf("%.2f GB/s", r.Rate/1e9)
	cpu := fmt.Sprintf("%.3f CPU-s per GB", r.CPUPerGB)
	if r.Unit == "records" {
		rate = fmt.Sprintf("%.2f M records/s", r.Rate/1e6)
		cpu = fmt.Sprintf("%.4f CPU-s per million records", r.CPUPerM)
	}
	_, err := fmt.Fprintf(out, `%s: %s, %s, %.5f allocations each
  options   %s, pools of %.1f MiB in all
  frames    %.0f received, %.0f bytes a read, %.0f bytes a write
  credits   %.0f in %.0f AddCredit messages
  checksum  %s
  collector %d cycles, %.0f us of pauses
`, r.Scenario, rate, cpu, r.Allocs, r.Options, float64(r.Memory)/(1<<20), r.Frames, r.PerRead, r.PerWrite, r.Credits, r.Grants, r.Checksum, r.GCs, r.GCPause)
	for _, p := range r.Points {
		_, err = fmt.Fprintf(out, "  %6d channels: %.3f CPU-us a frame, %.2f GB/s, %.5f allocations each, %.1f credits a message, %.0f bytes a write\n",
			p.Channels, p.Cost, p.Rate/1e9, p.Allocs, p.Credits, p.PerWrite)
	}
	if r.CostRatio > 0 {
		_, err = fmt.Fprintf(out, "  a frame costs %.2f times as much with %d channels as with 64\n", r.CostRatio, r.Points[len(r.Points)-1].Channels)
	}
	if r.Kept > 0 {
		_, err = fmt.Fprintf(out, "  while one channel of %d is not read, the others keep %.3f of their rate; the slowest has %.3f of their mean\n",
			fanChannels, r.Kept, r.SlowestOfMean)
	}
	return err
}

type process struct {
	cmd *exec.Cmd
	out *bufio.Scanner
}

func start(ctx context.Context, scenario, side, addr string, channels int, opt Options) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, self, "bench-role", "--scenario", scenario, "--side", side, "--addr", addr, "--channels", strconv.Itoa(channels),
		"--seconds", strconv.FormatFloat(opt.Window.Seconds(), 'f', -1, 64), "--profile", opt.Profile)
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
	return "", errors.New("the sender ended before it listened")
}

func (p *process) result() (measure.Result, error) {
	for p.out.Scan() {
		if r, ok := measure.Find(p.out.Text()); ok {
			return r, nil
		}
	}
	return measure.Result{}, errors.New("a process ended without a result")
}

func (p *process) stop() {
	_ = p.cmd.Process.Kill() // it may have ended already
	_ = p.cmd.Wait()
}
