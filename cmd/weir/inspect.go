package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weirflow/weir/cmd/weir/internal/inspect"
	"github.com/weirflow/weir/credit"
)

type inspectFlags struct {
	flink, compress, channel, proxy string
	kinds                           []string
	ports                           []uint
	json, elements, quiet           bool
	segment, maxRecord              int64
}

// newInspect returns the command that shows what went over connections.
func newInspect() *cobra.Command {
	var f inspectFlags
	cmd := &cobra.Command{
		Use:   "inspect [flags] FILE... | --proxy LISTEN=TARGET",
		Short: "Show every frame of connections: from files, from packets, or as a proxy",
		Long: "Show every frame of connections with the credit and the backlog that its channel then has, and who waited for whom.\n\n" +
			"FILE is a capture of packets (pcap or pcapng, for example of tcpdump), or the two streams of one connection:\n" +
			"NAME.c2s.bin and NAME.s2c.bin, with NAME.json if it tells in which pieces they came.\n" +
			"--proxy accepts connections on LISTEN, passes them on to TARGET, and shows what goes by; both are HOST:PORT.",
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.run(cmd.Context(), args, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&f.flink, "flink", "", "release line of Flink's protocol: 2.3 or 1.20; the default is what NAME.json says, else 2.3")
	fs.StringVar(&f.proxy, "proxy", "", "LISTEN=TARGET: stand between two processes")
	fs.BoolVar(&f.json, "json", false, "print JSON, one object a line")
	fs.BoolVar(&f.elements, "elements", false, "show the records, too, as stream elements")
	fs.StringVar(&f.compress, "compress", "", "how compressed buffers are compressed, for --elements: LZ4 or ZSTD")
	fs.StringVar(&f.channel, "channel", "", "show this channel only: how its id begins, or FIRST..LAST, in hexadecimal digits")
	fs.StringSliceVar(&f.kinds, "kind", nil, "show these frames only: names of messages, data types or events; data; event")
	fs.BoolVar(&f.quiet, "quiet", false, "show the summary only, no frames")
	fs.UintSliceVar(&f.ports, "port", nil, "of packets, read only connections with this port at either end")
	fs.Int64Var(&f.segment, "segment-size", 0, "refuse data messages with more bytes; 0: 1 MiB")
	fs.Int64Var(&f.maxRecord, "max-record", 0, "largest record in bytes, for --elements; 0: 64 MiB")
	return cmd
}

// config checks the flags.
func (f *inspectFlags) config() (cfg inspect.Config, err error) {
	for _, n := range []struct {
		flag  string
		value int64
	}{{"segment-size", f.segment}, {"max-record", f.maxRecord}} {
		if n.value < 0 || n.value > math.MaxInt32 {
			return cfg, fmt.Errorf("--%s %d: want a number of bytes", n.flag, n.value)
		}
	}
	cfg = inspect.Config{MaxBuffer: int(f.segment), MaxRecord: int(f.maxRecord), Elements: f.elements}
	switch f.flink {
	case "", "2.3":
	case "1.20":
		cfg.Profile = credit.Flink120
	default:
		return cfg, fmt.Errorf("--flink %q: want 2.3 or 1.20", f.flink)
	}
	if f.compress != "" {
		if cfg.Codec, err = credit.ParseCodec(strings.ToUpper(f.compress)); err != nil {
			return cfg, fmt.Errorf("--compress: %w", err)
		}
	}
	for _, p := range f.ports {
		if p == 0 || p > math.MaxUint16 {
			return cfg, fmt.Errorf("--port %d: want a port", p)
		}
	}
	return cfg, nil
}

// sink is where output goes; flush must be called at the end.
func (f *inspectFlags) sink(w io.Writer, conns bool) (inspect.Sink, error) {
	filter := inspect.Filter{Channel: f.channel, Kinds: f.kinds}
	if err := filter.Check(); err != nil {
		return nil, err
	}
	if f.json {
		return &inspect.JSON{W: w, Filter: filter, Quiet: f.quiet}, nil
	}
	return &inspect.Text{W: w, Filter: filter, Quiet: f.quiet, Conns: conns}, nil
}

func (f *inspectFlags) run(ctx context.Context, paths []string, stdout, stderr io.Writer) (err error) {
	cfg, err := f.config()
	if err != nil {
		return err
	}
	if f.proxy != "" {
		if len(paths) > 0 {
			return errors.New("--proxy needs no file")
		}
		return f.runProxy(ctx, cfg, stdout, stderr)
	}
	if len(paths) == 0 {
		return errors.New("want files, or --proxy LISTEN=TARGET")
	}
	out := bufio.NewWriter(stdout)
	defer func() { err = errors.Join(err, out.Flush()) }()
	var errs []error
	for _, path := range paths {
		if err := f.file(path, len(paths) > 1, cfg, out); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", path, err))
		}
	}
	return errors.Join(errs...)
}

// file shows one file, or the two of a connection. name: say which.
func (f *inspectFlags) file(path string, name bool, cfg inspect.Config, out io.Writer) error {
	capture, err := inspect.IsCapture(path)
	if err != nil {
		return err
	}
	sink, err := f.sink(out, capture)
	if err != nil {
		return err
	}
	if name {
		if err := sink.Note(&inspect.Note{Text: "file " + path}); err != nil {
			return err
		}
	}
	if capture {
		file, err := os.Open(path)
		if err != nil {
			return err
		}
		defer file.Close()
		return inspect.ReadCapture(bufio.NewReaderSize(file, 1<<20), cfg, f.ports, sink)
	}
	files, err := inspect.FindFiles(path)
	if err != nil {
		return err
	}
	if p, ok := files.Profile(); ok && f.flink == "" {
		cfg.Profile = p
	}
	return inspect.ReadFiles(files, cfg, sink)
}

// runProxy ends with the context, which is no error.
func (f *inspectFlags) runProxy(ctx context.Context, cfg inspect.Config, stdout, stderr io.Writer) error {
	listen, target, ok := strings.Cut(f.proxy, "=")
	if !ok || listen == "" || target == "" {
		return fmt.Errorf("--proxy %q: want LISTEN=TARGET", f.proxy)
	}
	sink, err := f.sink(stdout, true)
	if err != nil {
		return err
	}
	p, err := inspect.NewProxy(listen, target, cfg, sink)
	if err != nil {
		return err
	}
	fmt.Fprintf(stderr, "weir: listening on %s, for %s\n", p.Addr(), target)
	return p.Run(ctx)
}
