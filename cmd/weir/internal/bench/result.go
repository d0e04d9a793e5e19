package bench

import (
	"fmt"
	"io"

	"github.com/weirflow/weir/internal/measure"
)

// Result is a scenario's figures, those of both processes together where they can be added.
type Result struct {
	Scenario string  `json:"scenario"`
	Rate     float64 `json:"rate"` // bytes, records or round trips per second, at the receiver
	Unit     string  `json:"unit"`
	CPUPerGB float64 `json:"cpu_s_per_gb"`
	CPUPerM  float64 `json:"cpu_s_per_million"`
	// CPURecv and CPUSend are the shares of the two in the CPU per unit, GB or million.
	CPURecv  float64 `json:"cpu_s_receiver"`
	CPUSend  float64 `json:"cpu_s_sender"`
	Allocs   float64 `json:"allocs_per_op"` // per frame, record or round trip
	Bytes    float64 `json:"alloc_bytes_per_op"`
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
	// Beside are rows that were measured in turn with this one, whose figures are medians then.
	Beside []Beside `json:"beside,omitempty"`
	// Points are those of a scenario that is measured with several numbers of channels; CostRatio and RateRatio the cost of a frame,
	// and the rate, at the last one over that at 64 channels.
	Points    []Point `json:"points,omitempty"`
	CostRatio float64 `json:"cost_ratio,omitempty"`
	RateRatio float64 `json:"rate_ratio,omitempty"`
	// Kept is the rate of the channels that are read, while one is not, over the rate before; SlowestOfMean that of the
	// slowest of them over their mean. Of scenario fan.
	Kept          float64 `json:"kept,omitempty"`
	SlowestOfMean float64 `json:"slowest_of_mean,omitempty"`
	// WakeConsumer is the median time from a loop's wake-up until a consumer that is a goroutine of its own runs, WakeLoop that from
	// its post until the loop runs it. A round trip has two of each. Of scenario latency with --task-goroutine.
	WakeConsumer float64 `json:"wake_consumer_us,omitempty"`
	WakeLoop     float64 `json:"wake_loop_us,omitempty"`
	// OfFlink is what a record costs weir's end over what it costs Flink's. Of scenarios flink-send and flink-recv.
	OfFlink float64 `json:"cpu_of_flink,omitempty"`
	// Flink is what else there is of Flink's ends.
	Flink *Flink `json:"flink,omitempty"`
	// Barriers is what barriers do to the data behind which they go. Of scenario align.
	Barriers *Barriers `json:"barriers,omitempty"`
}

// Beside is a row beside a scenario. The ratios are those of the scenario to the row, medians over the rounds.
type Beside struct {
	Row       string  `json:"row"`
	Rate      float64 `json:"rate"`
	CPUPerGB  float64 `json:"cpu_s_per_gb"`
	CPUPerM   float64 `json:"cpu_s_per_million"`
	Allocs    float64 `json:"allocs_per_op"`
	RateRatio float64 `json:"rate_ratio"`
	CPURatio  float64 `json:"cpu_ratio"`
}

// Point is what a frame costs with a number of channels.
type Point struct {
	Channels int       `json:"channels"`
	Cost     float64   `json:"cpu_us_per_frame"` // of both processes
	Rate     float64   `json:"rate"`
	Allocs   float64   `json:"allocs_per_op"`
	Credits  float64   `json:"credits_per_grant"`
	PerWrite float64   `json:"bytes_per_write"`
	Barriers *Barriers `json:"barriers,omitempty"`
}

// Barriers is what barriers do and suffer.
type Barriers struct {
	Count float64 `json:"count"`
	// P50 and P99 are those of the time from a barrier's posting to its checkpoint at the receiver.
	P50 float64 `json:"p50_us"`
	P99 float64 `json:"p99_us"`
	// OfBytes is the median of that time over the time that the bytes before the barrier take at the rate without barriers.
	OfBytes float64 `json:"of_bytes_before"`
	// Kept is the rate with barriers over the rate without, in turn.
	Kept float64 `json:"kept"`
}

// cpu is the CPU time per unit that the scenario is about.
func (r *Result) cpu() float64 {
	if r.Unit == "bytes" {
		return r.CPUPerGB
	}
	return r.CPUPerM
}

func combine(s *scenario, opt *Options, recv, send *measure.Result) (res Result, err error) {
	if !s.bare {
		if err := plausible(s, recv); err != nil {
			return res, err
		}
	}
	both := []*measure.Result{recv, send}
	if recv == send {
		both = both[:1]
	}
	res = Result{
		Scenario: s.name, Unit: s.unit, Window: recv.Seconds, Options: opt.describe(),
		Frames: recv.Extra["frames"], Credits: recv.Extra["credits"], Grants: recv.Extra["grants"],
		PerRead: recv.Extra["bytes_per_read"], PerWrite: send.Extra["bytes_per_write"],
		Checksum: fmt.Sprintf("%016x", uint64(recv.Extra["checksum_hi"])<<32|uint64(recv.Extra["checksum_lo"])),
	}
	if s.options != "" {
		res.Options += "; " + s.options
	}
	for _, p := range both {
		items := float64(p.Items)
		res.Allocs += float64(p.Mallocs) / items
		res.Bytes += float64(p.AllocBytes) / items
		res.CPUPerGB += 1e9 * p.CPUSeconds / float64(p.Bytes)
		res.CPUPerM += 1e6 * p.CPUSeconds / items
		res.GCs += p.GCs
		res.GCPause += p.GCPauseUS
		res.Memory += int64(p.Extra["pool_bytes"])
	}
	res.Rate = float64(recv.Items) / recv.Seconds
	res.CPURecv, res.CPUSend = 1e6*recv.CPUSeconds/float64(recv.Items), 1e6*send.CPUSeconds/float64(send.Items)
	if s.unit == "bytes" {
		res.Rate = float64(recv.Bytes) / recv.Seconds
		res.CPURecv, res.CPUSend = 1e9*recv.CPUSeconds/float64(recv.Bytes), 1e9*send.CPUSeconds/float64(send.Bytes)
	}
	if s.more != nil {
		err = s.more(&res, recv, send)
	}
	return res, err
}

// creditAfter is how many items take at least one AddCredit: receivers grant buffers in batches of at most 16, and round trips have one
// record in each.
const creditAfter = 64

// plausible refuses figures of something else than what the scenario is about.
func plausible(s *scenario, recv *measure.Result) error {
	x := recv.Extra
	switch {
	case s.alone != nil:
		if x["frames"]+x["bytes_per_read"]+x["bytes_per_write"] != 0 {
			return fmt.Errorf("%s: %.0f frames went over a connection, so this measures something else", s.name, x["frames"])
		}
	case recv.Items >= creditAfter && (x["grants"] == 0 || x["credits"] == 0):
		return fmt.Errorf("%s: not one AddCredit was sent in the window, so this measures something else", s.name)
	case x["read_early"] > 0 || x["unread_late"] > x["pool_bytes"]:
		return fmt.Errorf("%s: bytes that arrived and bytes that were summed differ by %.0f: not the same bytes", s.name,
			max(x["read_early"], x["unread_late"]))
	}
	return nil
}

// rate and cost are a rate and a CPU time with their units.
func (r *Result) rate(v float64) string {
	switch r.Unit {
	case "bytes":
		return fmt.Sprintf("%.2f GB/s", v/1e9)
	case "records":
		return fmt.Sprintf("%.2f M records/s", v/1e6)
	}
	return fmt.Sprintf("%.0f %s/s", v, r.Unit)
}

func (r *Result) cost(gb, million float64) string {
	if r.Unit == "bytes" {
		return fmt.Sprintf("%.3f CPU-s per GB", gb)
	}
	return fmt.Sprintf("%.4f CPU-s per million", million)
}

// printer remembers its first error.
type printer struct {
	w   io.Writer
	err error
}

func (p *printer) f(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.w, format, args...)
	}
}

func (r *Result) print(out io.Writer) error {
	p := &printer{w: out}
	p.f("%s: %s, %s (receiver %.4f, sender %.4f), %.5f allocations and %.2f bytes each\n", r.Scenario, r.rate(r.Rate), r.cost(r.CPUPerGB, r.CPUPerM),
		r.CPURecv, r.CPUSend, r.Allocs, r.Bytes)
	p.f("  options   %s; pools of %.1f MiB in all\n", r.Options, float64(r.Memory)/(1<<20))
	if r.Frames > 0 {
		p.f("  frames    %.0f received, %.0f bytes a read, %.0f bytes a write\n", r.Frames, r.PerRead, r.PerWrite)
		p.f("  credits   %.0f in %.0f AddCredit messages\n", r.Credits, r.Grants)
	}
	p.f("  checksum  %s\n", r.Checksum)
	p.f("  collector %d cycles, %.0f us of pauses\n", r.GCs, r.GCPause)
	if r.P50 > 0 {
		p.f("  latency   p50 %.2f, p99 %.2f, p99.9 %.2f us\n", r.P50, r.P99, r.P999)
	}
	if r.WakeLoop > 0 {
		p.f("  wake-ups  of the consumer %.2f, of the loop %.2f us; a round trip has two of each: %.2f us of it\n", r.WakeConsumer, r.WakeLoop,
			2*(r.WakeConsumer+r.WakeLoop))
	}
	for _, x := range r.Points {
		p.f("  %6d channels: %.3f CPU-us a frame, %.2f GB/s, %.5f allocations each, %.1f credits a message, %.0f bytes a write\n",
			x.Channels, x.Cost, x.Rate/1e9, x.Allocs, x.Credits, x.PerWrite)
		p.barriers(x.Barriers)
	}
	if r.CostRatio > 0 {
		n := r.Points[len(r.Points)-1].Channels
		p.f("  with %d channels a frame costs %.2f times as much as with 64, the rate is %.2f of that\n", n, r.CostRatio, r.RateRatio)
	}
	if r.Kept > 0 {
		p.f("  while one channel of %d is not read, the others keep %.3f of their rate; the slowest has %.3f of their mean\n",
			fanChannels, r.Kept, r.SlowestOfMean)
	}
	p.flink(r)
	for _, b := range r.Beside {
		p.f("  beside %-12s %s, %s, %.5f allocations each: %.2f of its rate, %.2f of its CPU (medians of ratios)\n",
			b.Row, r.rate(b.Rate), r.cost(b.CPUPerGB, b.CPUPerM), b.Allocs, b.RateRatio, b.CPURatio)
	}
	return p.err
}

func (p *printer) barriers(b *Barriers) {
	if b != nil {
		p.f("         %.0f barriers: delay p50 %.0f, p99 %.0f us, %.2f times that of the bytes before; %.3f of the rate without\n",
			b.Count, b.P50, b.P99, b.OfBytes, b.Kept)
	}
}
