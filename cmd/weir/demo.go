package main

import (
	"errors"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weirflow/weir/cmd/weir/internal/demo"
)

// newDemo returns the command that shows weir at work, and the hidden one that is a process of it.
func newDemo() []*cobra.Command {
	var opt demo.Options
	run := &cobra.Command{
		Use:   "demo",
		Short: "Show the library at work: processes, real text, a sleeping receiver, killed ones, and a proof",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if opt.Lines < 1000 || opt.Seconds < 2 {
				return errors.New("want at least 1000 lines and 2 seconds")
			}
			if f, ok := cmd.OutOrStdout().(*os.File); ok {
				info, err := f.Stat()
				opt.Live = err == nil && info.Mode()&os.ModeCharDevice != 0 && os.Getenv("TERM") != "dumb"
			}
			return demo.Run(cmd.Context(), cmd.OutOrStdout(), opt)
		},
	}
	run.Flags().StringVar(&opt.Input, "input", "", "a text file or a folder of them; by default the sources of the Go installation")
	run.Flags().Uint64Var(&opt.Lines, "lines", 1_050_000, "lines in all; the input is repeated until there are so many")
	run.Flags().Float64Var(&opt.Seconds, "seconds", 13, "time that the lines are spread over")

	var cfg demo.RoleConfig
	var senders string
	role := &cobra.Command{
		Use:    "demo-role",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if senders != "" {
				cfg.Senders = strings.Split(senders, ",")
			}
			return demo.Role(cmd.Context(), cfg, cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
	fs := role.Flags()
	fs.StringVar(&cfg.Role, "role", "", "")
	fs.IntVar(&cfg.Who, "who", 0, "")
	fs.StringVar(&senders, "senders", "", "")
	fs.StringVar(&cfg.Input, "input", "", "")
	fs.Uint64Var(&cfg.Lines, "lines", 0, "")
	fs.Float64Var(&cfg.Rate, "rate", 1, "")
	fs.StringVar(&cfg.Out, "out", "", "")
	fs.IntVar(&cfg.Subs, "subs", 1, "")
	return []*cobra.Command{run, role}
}
