package credit

import "math"

// DebloatConfig configures automatic buffer sizes (taskmanager.network.memory.buffer-debloat.*): the buffers of an input
// are made so large that what waits in it takes Target to be consumed. Zero fields mean Flink's defaults.
type DebloatConfig struct {
	// Target is the time in which what is buffered should be consumed, in ms. Default 1000.
	Target int64
	// Samples is the window of the moving average. Default 20.
	Samples int
	// Threshold is the smallest change that is announced, in percent of the size announced last. Default 25.
	Threshold int
	// Min and Max bound the size, in bytes (min-segment-size, segment-size). Defaults 256 and 32768.
	Min, Max int32
	// Start is the size to begin with (starting-segment-size). Default 1024; Flink 1.20 begins with Max.
	Start int32
}

func (c DebloatConfig) withDefaults() DebloatConfig {
	if c.Target == 0 {
		c.Target = 1000
	}
	if c.Samples == 0 {
		c.Samples = 20
	}
	if c.Threshold == 0 {
		c.Threshold = 25
	}
	if c.Min == 0 {
		c.Min = 256
	}
	if c.Max == 0 {
		c.Max = 32 << 10
	}
	if c.Start == 0 {
		c.Start = 1 << 10
	}
	return c
}

// Debloater computes the buffer size of one gate (BufferDebloater, BufferSizeEMA). A pure state machine: it is told rates
// and counts, and reads no clock. Gate.Debloat feeds one.
type Debloater struct {
	cfg  DebloatConfig
	last float64 // moving average
	size int32   // announced last
}

// NewDebloater makes a debloater.
func NewDebloater(cfg DebloatConfig) *Debloater {
	cfg = cfg.withDefaults()
	return &Debloater{cfg: cfg, last: float64(cfg.Start), size: cfg.Start}
}

// Size is the size announced last.
func (d *Debloater) Size() int32 { return d.size }

// Recalculate takes a sample: the throughput in bytes per second and the number of buffers in use. announce: the senders
// have to be told the new size.
func (d *Debloater) Recalculate(throughput int64, inUse int) (size int32, announce bool) {
	desired := float64(throughput) * float64(d.cfg.Target) / 1000
	instant := min(desired/float64(max(inUse, 1)), 2*d.last)
	alpha := 2 / float64(d.cfg.Samples+1)
	d.last += alpha * (instant - d.last)
	d.last = min(max(d.last, float64(d.cfg.Min)), float64(d.cfg.Max))
	return d.propose(int32(math.Round(d.last)))
}

// propose announces a size unless it changes too little.
func (d *Debloater) propose(size int32) (int32, bool) {
	if size == d.size {
		return d.size, false
	}
	change := max(size-d.size, d.size-size)
	least := int32(int64(d.size) * int64(d.cfg.Threshold) / 100)
	if size > d.cfg.Min && size < d.cfg.Max && change < least {
		return d.size, false
	}
	d.size = size
	return size, true
}

// Throughput measures bytes per second of the time in which a gate was not idle (ThroughputCalculator). Times are in ms
// from any origin, and are told.
type Throughput struct {
	bytes   int64
	active  int64 // ms measured in this period
	since   int64 // when the present measurement began
	running bool
	rate    int64
}

// Pause ends the measurement: the gate has nothing.
func (t *Throughput) Pause(now int64) {
	if t.running {
		t.active += now - t.since
		t.running = false
	}
}

// Resume starts it again, if it does not run.
func (t *Throughput) Resume(now int64) {
	if !t.running {
		t.since, t.running = now, true
	}
}

// Add counts bytes that were handed out, and starts the measurement.
func (t *Throughput) Add(bytes, now int64) {
	t.Resume(now)
	t.bytes += bytes
}

// Calculate ends a period and returns its rate; the one before, if no time was measured.
func (t *Throughput) Calculate(now int64) int64 {
	if t.running {
		t.active += now - t.since
		t.since = now
	}
	if t.active > 0 {
		t.rate = int64(float64(t.bytes) * 1000 / float64(t.active))
	}
	t.bytes, t.active = 0, 0
	return t.rate
}

// BuffersInUse is what a debloater counts: the items that wait in the gate's channels, and what its channels' senders still
// have beyond the exclusive buffers, as the loops last told.
func (g *Gate) BuffersInUse() int {
	n := 0
	for i := range g.chans {
		n += g.chans[i].q.Len()
	}
	for _, l := range g.links {
		n += int(l.wanted.Load())
	}
	return max(n, 1)
}

// Debloat takes a sample of the throughput that was measured and announces a new buffer size to the senders if need be.
// To be called every period (200 ms in Flink); does nothing on a gate that has finished or was closed.
// (SingleInputGate#triggerDebloating)
func (g *Gate) Debloat(d *Debloater, throughput int64) (announced bool) {
	if g.Finished() || g.closed {
		return false
	}
	size, announce := d.Recalculate(throughput, g.BuffersInUse())
	if announce {
		g.AnnounceBufferSize(size)
	}
	return announce
}
