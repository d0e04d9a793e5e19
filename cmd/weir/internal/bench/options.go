package bench

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weirflow/weir"
)

// Options of a run. They go to each of its processes.
type Options struct {
	Window time.Duration // measured time of each process
	WarmUp time.Duration // between the first work and the window
	// MostWarmUp is how long a JVM may go on warming up until its compiler has little to do; 0: it does not.
	MostWarmUp time.Duration
	JSON       bool // end with one line of JSON
	// Rounds is how often the rows of a scenario that has several are measured, interleaved.
	Rounds int
	// Profile is the folder for a CPU profile of each process, of its window; empty: none.
	Profile string
	// Pin is on which CPUs the processes run: "" as the system likes, "same" both on one, "split" each on one of its own.
	Pin string

	// What follows is only for scenarios that take it.

	// Channels is the number of channels; Points are the numbers that are measured one by one, in place of a scenario's own.
	Channels int
	Points   []int
	// Credit is how many buffers a channel may have under way, as Flink shares it out: 2 for itself, the rest floating. 0: the default.
	Credit int
	// Buffers is how many segments the output holds; 0: the default.
	Buffers int
	// Frame is how many bytes of each buffer are used, as if it was flushed early; 0: all.
	Frame int
	// NoPacking: buffers of few bytes do not share messages.
	NoPacking bool
	// Record is the size of a record; 0: the scenario's.
	Record int
	// Batch is how many records are written in one call; 0: the scenario's, 1: each by itself.
	Batch int
	// Congestion is the congestion control of weir's connections; empty: the system's.
	Congestion string
	// Park: idle loops sleep at once, instead of polling for a while.
	Park bool
	// Task: consumers are goroutines apart from the loop, which has one of its own.
	Task bool
	// Tasks is the number of goroutines at each end that the channels which are read are shared out to; 0: one.
	Tasks int
	// TLS: connections are secured.
	TLS       bool
	Cert, Key string // PEM, of both ends
	// FlinkDir is where the Flink end is built, Flink its version.
	FlinkDir, Flink string
}

// given names the flags that ask for something that not every scenario has.
func (o *Options) given() (flags []string) {
	for _, f := range []struct {
		name string
		is   bool
	}{
		{"channels", len(o.Points) > 0}, {"window", o.Credit != 0}, {"buffers", o.Buffers != 0}, {"frame", o.Frame != 0}, {"no-packing", o.NoPacking}, {"record", o.Record != 0},
		{"batch", o.Batch != 0}, {"congestion", o.Congestion != ""}, {"park", o.Park}, {"task-goroutine", o.Task}, {"tasks", o.Tasks != 0}, {"tls", o.TLS},
	} {
		if f.is {
			flags = append(flags, f.name)
		}
	}
	return flags
}

// check says what a scenario has no use for, or cannot do.
func (o *Options) check(s *scenario) error {
	for _, f := range o.given() {
		if !slices.Contains(strings.Fields(s.takes), f) {
			return fmt.Errorf("scenario %s does not take --%s", s.name, f)
		}
	}
	switch {
	case o.Window <= 0 || o.WarmUp < 0 || o.Rounds < 1:
		return fmt.Errorf("%v measured after %v, %d rounds: nothing to measure", o.Window, o.WarmUp, o.Rounds)
	case o.Buffers < 0:
		return fmt.Errorf("%d buffers", o.Buffers)
	case o.Credit < 0 || o.Frame < 0 || o.Frame > frameSize || o.Frame%64 != 0:
		return fmt.Errorf("a window of %d buffers, frames of %d bytes: want a multiple of 64 up to %d", o.Credit, o.Frame, frameSize)
	case o.Batch < 0:
		return fmt.Errorf("%d records in a call: want 1 or more", o.Batch)
	case o.Record < 0 || o.Record > 0 && o.Record < 8:
		return fmt.Errorf("records of %d bytes: want 8 or more", o.Record)
	case o.Tasks < 0 || o.Tasks > fanChannels-1:
		return fmt.Errorf("%d tasks: want 1 to %d", o.Tasks, fanChannels-1)
	case o.Pin != "" && o.Pin != "same" && o.Pin != "split":
		return fmt.Errorf("--pin %s: want same or split", o.Pin)
	case s.points == nil && len(o.Points) > 1:
		return fmt.Errorf("scenario %s is measured with one number of channels", s.name)
	}
	for _, n := range o.Points {
		if n < 1 {
			return fmt.Errorf("%d channels", n)
		}
	}
	return nil
}

// describe says what is not as it comes.
func (o *Options) describe() string {
	var parts []string
	for _, x := range []struct {
		is   bool
		text string
	}{
		{o.Channels > 0, fmt.Sprintf("%d channels", o.Channels)},
		{o.Credit > 0, fmt.Sprintf("a window of %d buffers", o.Credit)},
		{o.Buffers > 0, fmt.Sprintf("%d buffers at the sender", o.Buffers)},
		{o.Frame > 0, fmt.Sprintf("%d bytes a buffer", o.Frame)},
		{o.NoPacking, "each in a message of its own"},
		{o.Record > 0, fmt.Sprintf("records of %d bytes", o.Record)},
		{o.Batch > 0, fmt.Sprintf("%d records a call", o.Batch)},
		{o.Congestion != "", o.Congestion + " for congestion control"},
		{o.Park, "no polling"},
		{o.Task, "loops with goroutines of their own where there are consumers"},
		{o.Tasks > 0, fmt.Sprintf("%d tasks", o.Tasks)},
		{o.TLS, "TLS 1.3"},
		{o.Pin != "", "pinned, " + o.Pin},
	} {
		if x.is {
			parts = append(parts, x.text)
		}
	}
	if parts == nil {
		return "defaults"
	}
	return strings.Join(parts, ", ")
}

// node is the configuration that these options make of the default one.
func (o *Options) node() (cfg weir.Config) {
	cfg.Socket.Congestion, cfg.NoPacking = o.Congestion, o.NoPacking
	if o.Park {
		cfg.Poll = -1
	}
	return cfg
}

// flinkExclusive is how many buffers a channel of Flink's has for itself.
const flinkExclusive = 2

// input is a source with the window that these options ask for.
func (o *Options) input(s weir.Source) weir.InputConfig {
	cfg := weir.InputConfig{Sources: []weir.Source{s}}
	if o.Credit > 0 {
		cfg.Exclusive = min(o.Credit, flinkExclusive)
		cfg.Floating = o.Credit - cfg.Exclusive
		if cfg.Floating == 0 {
			cfg.Floating = -1
		}
	}
	return cfg
}
