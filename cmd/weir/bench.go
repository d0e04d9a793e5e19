package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirflow/weir/cmd/weir/internal/bench"
)

// newBench returns the command that measures, and the hidden one that is one side of it.
func newBench() []*cobra.Command {
	var opt bench.Options
	var seconds, warmUp float64
	var frame, record byteSize
	run := &cobra.Command{
		Use:   "bench SCENARIO",
		Short: "Measure the library, as two processes over loopback",
		Long:  "Measure the library, as two processes over loopback. Scenarios:\n\n" + strings.Join(bench.Names(), "\n"),
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			opt.Window, opt.WarmUp = toDuration(seconds), toDuration(warmUp)
			opt.Frame, opt.Record = int(frame), int(record)
			return bench.Run(cmd.Context(), cmd.OutOrStdout(), args[0], opt)
		},
	}
	f := run.Flags()
	f.Float64Var(&seconds, "seconds", 3, "measured time, after a warm-up")
	f.Float64Var(&warmUp, "warm-up", 0, "seconds between the first work and what is measured; by default 0.3, with a JVM 5 and until its compiler is done")
	f.BoolVar(&opt.JSON, "json", false, "end with one line of JSON")
	f.IntVar(&opt.Rounds, "rounds", 3, "where rows are measured beside the scenario: how often, in turn")
	f.StringVar(&opt.Profile, "profile", "", "write CPU profiles of both processes into this folder")
	f.StringVar(&opt.Pin, "pin", "", "run both processes on the same CPU, or split them (Linux)")
	f.IntSliceVar(&opt.Points, "channels", nil, "numbers of channels to measure with, in place of the scenario's own")
	f.IntVar(&opt.Credit, "window", 0, "buffers that a channel may have under way, in place of the default: 10 is Flink's")
	f.IntVar(&opt.Buffers, "buffers", 0, "segments that the sender's output holds, in place of the default")
	f.Var(&frame, "frame", "use only so many bytes of each buffer, as if it was flushed early")
	f.BoolVar(&opt.NoPacking, "no-packing", false, "each buffer goes in a message of its own, as Flink sends them")
	f.Var(&record, "record", "size of a record, in place of the scenario's own")
	f.IntVar(&opt.Batch, "batch", 0, "records that are written in one call, in place of the scenario's 64")
	f.StringVar(&opt.Congestion, "congestion", "", "congestion control of the connections, in place of the system's (Linux): reno, cubic, bbr")
	f.BoolVar(&opt.Park, "park", false, "an idle loop sleeps at once, instead of polling for a while")
	f.BoolVar(&opt.Task, "task-goroutine", false, "consumers are goroutines apart from the loop, which has one of its own")
	f.IntVar(&opt.Tasks, "tasks", 0, "goroutines at each end that share out the channels which are read, in place of one (63: one for each)")
	f.StringVar(&opt.FlinkDir, "flink-dir", "interop/flink", "where the repository has the Flink end")
	f.StringVar(&opt.Flink, "flink-version", bench.DefaultFlink, "the release of Flink")
	f.BoolVar(&opt.TLS, "tls", false, "over TLS 1.3, beside the same without and beside crypto/tls on a net.Conn")

	role := &cobra.Command{
		Use:    "bench-role",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE:   func(cmd *cobra.Command, _ []string) error { return bench.Role(cmd.Context(), cmd.OutOrStdout()) },
	}
	return []*cobra.Command{run, role}
}

func toDuration(seconds float64) time.Duration { return time.Duration(seconds * float64(time.Second)) }

// byteSize is a number of bytes, as a flag: 100, 1KiB, 8MiB.
type byteSize int

func (s *byteSize) Set(text string) error {
	number, shift := text, 0
	for i, unit := range []string{"KiB", "MiB"} {
		if n, ok := strings.CutSuffix(text, unit); ok {
			number, shift = n, 10*(i+1)
		}
	}
	n, err := strconv.Atoi(number)
	if err != nil || n < 1 || n > 1<<30>>shift {
		return fmt.Errorf("%q is no size: want a number of bytes, KiB or MiB, up to 1 GiB", text)
	}
	*s = byteSize(n << shift)
	return nil
}

func (s *byteSize) String() string { return strconv.Itoa(int(*s)) }
func (s *byteSize) Type() string   { return "size" }
