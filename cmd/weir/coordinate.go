package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirflow/weir/checkpoint"
)

type coordinateFlags struct {
	listen, dir, mode                     string
	members                               []string
	interval, minPause, timeout           time.Duration
	memberTimeout, alignmentTimeout, poll time.Duration
	retain, inFlight                      int
	verbose                               bool
	tls                                   tlsFlags
}

// newCoordinate returns the command that a pipeline's checkpoints belong to.
func newCoordinate() *cobra.Command {
	f := coordinateFlags{poll: 20 * time.Millisecond}
	cmd := &cobra.Command{
		Use:   "coordinate [flags]",
		Short: "Coordinate the checkpoints of a pipeline, so that it survives crashes",
		Long: "Coordinate the checkpoints of a pipeline: weir send, weir relay and weir recv with --coordinator and --member, or programs that use\n" +
			"package pipeline. It begins when all members are there, and ends when all data is through and committed. When a member is lost,\n" +
			"the others wait for it and go back to the last completed checkpoint. Start a killed member, or a killed coordinator, again with the\n" +
			"same command.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.run(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&f.listen, "listen", "127.0.0.1:0", "where members come to, HOST:PORT")
	fs.StringVar(&f.dir, "checkpoint-dir", "", "the folder that checkpoints are kept in")
	fs.StringSliceVar(&f.members, "members", nil, "the names of all members, separated by commas")
	fs.DurationVar(&f.interval, "interval", 10*time.Second, "time between two checkpoints")
	fs.DurationVar(&f.minPause, "min-pause", 0, "least time between the end of a checkpoint and the next one")
	fs.DurationVar(&f.timeout, "timeout", 10*time.Minute, "how long a checkpoint may take")
	fs.IntVar(&f.inFlight, "in-flight", 1, "how many checkpoints may be under way at a time")
	fs.IntVar(&f.retain, "retain", 3, "how many completed checkpoints are kept")
	fs.DurationVar(&f.memberTimeout, "member-timeout", 10*time.Second, "a member that is silent for so long is lost")
	fs.StringVar(&f.mode, "mode", "aligned", "aligned, unaligned, or timed: aligned for as long as --alignment-timeout")
	fs.DurationVar(&f.alignmentTimeout, "alignment-timeout", 100*time.Millisecond, "for --mode timed")
	fs.BoolVar(&f.verbose, "verbose", false, "log what happens to standard error")
	f.tls.add(fs)
	return cmd
}

func (f *coordinateFlags) alignment() (checkpoint.Alignment, error) {
	switch f.mode {
	case "aligned":
		return checkpoint.Aligned, nil
	case "unaligned":
		return checkpoint.Unaligned, nil
	case "timed":
		return checkpoint.Timed, nil
	}
	return 0, fmt.Errorf("--mode %q: want aligned, unaligned or timed", f.mode)
}

func (f *coordinateFlags) run(ctx context.Context, stdout, stderr io.Writer) error {
	alignment, err := f.alignment()
	if err != nil {
		return err
	}
	if f.dir == "" || len(f.members) == 0 {
		return errors.New("want --checkpoint-dir DIR and --members NAME,NAME")
	}
	secure, err := f.tls.config()
	if err != nil {
		return err
	}
	store, err := checkpoint.OpenDir(f.dir, checkpoint.DirOptions{})
	if err != nil {
		return err
	}
	level := slog.LevelWarn
	if f.verbose {
		level = slog.LevelDebug
	}
	c, err := checkpoint.NewCoordinator(checkpoint.CoordinatorConfig{
		Members: f.members, Store: store, Listen: f.listen, TLS: mutual(secure),
		Interval: f.interval, MinPause: f.minPause, Timeout: f.timeout, MaxInFlight: f.inFlight, Retain: f.retain,
		MemberTimeout: f.memberTimeout, Alignment: alignment, AlignmentTimeout: f.alignmentTimeout,
		Logger: slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: level})),
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(stderr, "weir: coordinator listening on %s, members %s\n", c.Addr(), strings.Join(f.members, ", "))
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }()
	tick := time.NewTicker(f.poll)
	defer tick.Stop()
	var last checkpoint.Status
	for {
		select {
		case err := <-done:
			last = show(stdout, last, c.Status())
			if err == nil {
				fmt.Fprintf(stdout, "finished: epoch %d, checkpoint %d\n", last.Epoch, last.Completed)
			}
			return err
		case <-tick.C:
			last = show(stdout, last, c.Status())
		}
	}
}

// show prints what has changed.
func show(out io.Writer, before, now checkpoint.Status) checkpoint.Status {
	if now.Epoch != before.Epoch {
		fmt.Fprintf(out, "epoch %d: from checkpoint %d\n", now.Epoch, now.Restored)
	}
	if now.Completed != before.Completed {
		fmt.Fprintf(out, "checkpoint %d: completed in epoch %d\n", now.Completed, now.Epoch)
	}
	return now
}

// mutual makes the end that accepts connections ask for certificates, and trust whom the other end would trust.
func mutual(cfg *tls.Config) *tls.Config {
	if cfg == nil {
		return nil
	}
	cfg = cfg.Clone()
	if cfg.ClientCAs == nil {
		cfg.ClientCAs = cfg.RootCAs
	}
	if cfg.ClientAuth == tls.NoClientCert {
		cfg.ClientAuth = tls.RequireAndVerifyClientCert
	}
	return cfg
}
