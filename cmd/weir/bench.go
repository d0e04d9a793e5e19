package main

import (
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirflow/weir/cmd/weir/internal/bench"
)

// newBench returns the command that measures, and the hidden one that is one side of it.
func newBench() []*cobra.Command {
	var seconds float64
	var json bool
	var profile string
	var points []int
	run := &cobra.Command{
		Use:   "bench SCENARIO",
		Short: "Measure the library, as two processes over loopback",
		Long:  "Measure the library, as two processes over loopback. Scenarios:\n\n" + strings.Join(bench.Names(), "\n"),
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return bench.Run(cmd.Context(), cmd.OutOrStdout(), args[0],
				bench.Options{Window: toDuration(seconds), JSON: json, Profile: profile, Points: points})
		},
	}
	run.Flags().Float64Var(&seconds, "seconds", 3, "measured time, after a warm-up")
	run.Flags().StringVar(&profile, "profile", "", "write CPU profiles of both processes into this folder")
	run.Flags().IntSliceVar(&points, "channels", nil, "numbers of channels that scenario channels measures; by default 10, 64, 100, 1000 and 10000")
	run.Flags().BoolVar(&json, "json", false, "end with one line of JSON")

	var scenario, side, addr string
	var channels int
	role := &cobra.Command{
		Use:    "bench-role",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return bench.Role(cmd.Context(), cmd.OutOrStdout(), scenario, side, addr,
				bench.Options{Window: toDuration(seconds), Profile: profile, Channels: channels})
		},
	}
	role.Flags().StringVar(&scenario, "scenario", "", "")
	role.Flags().StringVar(&side, "side", "", "")
	role.Flags().StringVar(&profile, "profile", "", "")
	role.Flags().StringVar(&addr, "addr", "", "")
	role.Flags().IntVar(&channels, "channels", 0, "")
	role.Flags().Float64Var(&seconds, "seconds", 3, "")
	return []*cobra.Command{run, role}
}

func toDuration(seconds float64) time.Duration { return time.Duration(seconds * float64(time.Second)) }
