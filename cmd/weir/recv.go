package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirflow/weir"
)

type recvFlags struct {
	exchangeFlags
	subpartition, out   string
	rate                float64
	exclusive, floating int
	ranged, retract     bool
	member              memberFlags
}

// newRecv returns the command that reads partitions into a file.
func newRecv() *cobra.Command {
	var f recvFlags
	cmd := &cobra.Command{
		Use:   "recv [flags] HOST:PORT...",
		Short: "Read the records of senders into a file",
		Long: "Read the records of senders into a file, one after the other: one channel for each sender and subpartition, all through one\n" +
			"gate. With one channel the file is what was sent, byte for byte; across channels the order is free.",
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, addrs []string) error {
			return f.run(cmd.Context(), addrs, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	fs := cmd.Flags()
	f.add(fs)
	fs.StringVar(&f.subpartition, "subpartition", "0", "which subpartitions to read, a number or FIRST-LAST")
	fs.BoolVar(&f.ranged, "ranged", false, "one channel for all subpartitions of a sender; only for what sends no checkpoints, such as send --blocking")
	fs.StringVar(&f.out, "out", "", "the file to write; - is standard output. With --coordinator: a folder, its files MEMBER-*.part in order are the output")
	fs.Float64Var(&f.rate, "rate", 0, "most records per second; 0: as fast as they come")
	fs.IntVar(&f.exclusive, "exclusive", 0, "buffers of each channel; 0: the default, -1: none")
	fs.IntVar(&f.floating, "floating", 0, "buffers that channels share; 0: the default")
	fs.BoolVar(&f.retract, "retract", false, "with --coordinator: should the pipeline have to go back to a checkpoint before one that was committed, rename the\n"+
		"parts since then to end in .retracted, as their records come again; without it that is an error")
	f.member.add(fs)
	return cmd
}

func (f *recvFlags) run(ctx context.Context, addrs []string, stdout, stderr io.Writer) (err error) {
	cfg, id, err := f.config()
	if err != nil {
		return err
	}
	first, last, err := parseRange(f.subpartition)
	if err != nil {
		return err
	}
	if f.rate < 0 {
		return fmt.Errorf("--rate %g: want a number of records per second", f.rate)
	}
	if f.out == "" {
		return errors.New("want --out FILE")
	}
	if f.out == "-" && f.stats != "" {
		return errors.New("--out - leaves no room for --stats on standard output")
	}
	var channels []channelReport
	sources := make([]weir.Source, 0, len(addrs))
	for _, addr := range addrs {
		sources = append(sources, f.source(addr, &id, first, last))
		for sub := first; sub <= last; sub++ {
			if f.ranged && sub > first {
				break
			}
			channels = append(channels, channelReport{Addr: addr, Subpartition: sub})
		}
	}
	rep := report{Event: "done", Partition: fmt.Sprintf("%x", id[:]), Channels: channels}
	if err := f.member.check(); err != nil {
		return err
	}
	if f.retract && !f.member.on() {
		return errors.New("--retract goes with --coordinator")
	}
	if f.member.on() {
		if f.out == "-" || f.ranged {
			return errors.New("--coordinator: want --out FOLDER, and no --ranged")
		}
		return f.runMember(ctx, addrs, first, last, rep, cfg, stdout, stderr)
	}
	dst := stdout
	if f.out != "-" {
		file, err := os.Create(f.out)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, file.Close()) }()
		dst = file
	}
	w := bufio.NewWriterSize(dst, 1<<20)

	node, err := weir.Open(cfg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, node.Close()) }()
	in, err := node.NewInput(weir.InputConfig{Sources: sources, Wait: f.wait, Exclusive: f.exclusive, Floating: f.floating})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, in.Close()) }()

	begin := time.Now()
	if err := f.copy(ctx, in, w, &rep); err != nil {
		// What came before the error is kept: it is whole records.
		return errors.Join(err, w.Flush())
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("%s: %w", f.out, err)
	}
	rep.Seconds = time.Since(begin).Seconds()
	if f.stats == "json" {
		return rep.print(stdout)
	}
	return nil
}

// copy writes all records, no faster than the rate allows.
func (f *recvFlags) copy(ctx context.Context, in *weir.Input, w io.Writer, rep *report) error {
	sums := make([]uint32, len(rep.Channels))
	pace := newPacer(f.rate)
	for e, err := range in.All(ctx) {
		switch {
		case err != nil:
			return err
		case e.Kind == weir.Checkpoint:
			rep.Checkpoints++
			e.Checkpoint.Ack()
			continue
		case e.Kind != weir.Record:
			continue
		}
		if _, err := w.Write(e.Value); err != nil {
			return fmt.Errorf("%s: %w", f.out, err)
		}
		ch := &rep.Channels[e.Channel]
		ch.Records++
		ch.Bytes += int64(len(e.Value))
		rep.Records++
		rep.Bytes += int64(len(e.Value))
		sums[e.Channel] = crc32.Update(sums[e.Channel], castagnoli, e.Value)
		if err := pace.wait(ctx); err != nil {
			return err
		}
	}
	for i := range rep.Channels {
		rep.Channels[i].CRC32C = fmt.Sprintf("%08x", sums[i])
	}
	return nil
}

// pacer holds a loop to a rate. It looks at the clock every few items only.
type pacer struct {
	begin time.Time
	rate  float64
	every int
	n     int
}

func newPacer(rate float64) *pacer {
	return &pacer{begin: time.Now(), rate: rate, every: max(1, int(rate/500))}
}

// wait counts an item and sleeps if it came too early.
func (p *pacer) wait(ctx context.Context) error {
	if p.rate <= 0 {
		return nil
	}
	if p.n++; p.n%p.every != 0 {
		return nil
	}
	d := time.Duration(float64(p.n)/p.rate*1e9) - time.Since(p.begin)
	if d <= 0 {
		return nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
