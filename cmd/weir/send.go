package main

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/weirflow/weir"
	"github.com/weirflow/weir/cmd/weir/internal/framing"
	"github.com/weirflow/weir/credit"
)

// requestTimeout is how long a request waits for a partition: there is one, and it is there before anybody looks.
const requestTimeout = 500 * time.Millisecond

type sendFlags struct {
	exchangeFlags
	listen, partitionBy, key, framing string
	subpartitions                     int
	blocking                          blockingFlags
	member                            memberFlags
}

// router cuts an input into records and says where they go.
type router struct {
	kind      framing.Kind
	limit     int
	partition weir.Partition
	byKey     bool
	key       framing.Key
}

// router is what the flags ask for.
func (f *sendFlags) router() (*router, error) {
	partition, err := f.partition()
	if err != nil {
		return nil, err
	}
	kind, err := framing.Parse(f.framing)
	if err != nil {
		return nil, err
	}
	if f.key != "" && f.partitionBy != "key" {
		return nil, errors.New("--key is for --partition-by key")
	}
	key, err := framing.ParseKey(kind, f.key)
	if err != nil {
		return nil, err
	}
	return &router{kind: kind, limit: int(f.maxRecord), partition: partition, byKey: f.partitionBy == "key", key: key}, nil
}

// open reads a file from an offset, where a record begins.
func (r *router) open(path string, offset int64) (*framing.Scanner, io.Closer, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, nil, err
	}
	if _, err := file.Seek(offset, io.SeekStart); err != nil {
		_ = file.Close()
		return nil, nil, fmt.Errorf("%s: byte %d: %w", path, offset, err)
	}
	return framing.NewScanner(file, r.kind, r.limit), file, nil
}

// at is what decides where a record goes: the whole record, or its key.
func (r *router) at(rec []byte) ([]byte, error) {
	if !r.byKey {
		return rec, nil
	}
	return r.key.Of(rec)
}

// blockingFlags are those of a blocking partition.
type blockingFlags struct {
	on            bool
	dir, compress string
	reads         int
}

func (f *blockingFlags) add(fs *pflag.FlagSet) {
	fs.BoolVar(&f.on, "blocking", false, "write everything to a file first, then serve that")
	fs.StringVar(&f.dir, "blocking-dir", "", "where that file is made; empty: the system's directory for temporary files")
	fs.StringVar(&f.compress, "compress", "none", "compress the buffers of the file: none, lz4 or zstd")
	fs.IntVar(&f.reads, "reads", 1, "with --blocking: end once every subpartition was read so often")
}

// config is the output's; nil without --blocking.
func (f *blockingFlags) config() (*weir.Blocking, error) {
	codec, err := credit.ParseCodec(strings.ToUpper(f.compress))
	switch {
	case err != nil:
		return nil, fmt.Errorf("--compress %q: want none, lz4 or zstd", f.compress)
	case !f.on && (f.dir != "" || codec != weir.NoCompression || f.reads != 1):
		return nil, errors.New("--blocking-dir, --compress and --reads are for --blocking: what is sent at once is never compressed")
	case f.reads < 1:
		return nil, fmt.Errorf("--reads %d: want at least 1", f.reads)
	case !f.on:
		return nil, nil
	}
	return &weir.Blocking{Dir: f.dir, Codec: codec}, nil
}

// newSend returns the command that serves a file as a partition.
func newSend() *cobra.Command {
	var f sendFlags
	cmd := &cobra.Command{
		Use:   "send [flags] FILE|-",
		Short: "Serve the records of a file, or of standard input, to receivers",
		Long: "Serve the records of a file, or of standard input, as a partition. Each subpartition is read by one receiver: weir recv, or\n" +
			"a Flink job. The records are stream elements whose values are arrays of bytes. It ends when all receivers have everything.\n\n" +
			"--blocking: everything is written to a file, which any number of receivers may then read, also several the same subpartition;\n" +
			"a Flink job reads it as a blocking partition, with the codec of --compress.\n" +
			"--partition-by: round-robin; hash (of the record) and key (of the field --key) put a record where Flink would put that\n" +
			"string as a key; broadcast; global (all to subpartition 0).\n" +
			"--key: number of a word (lines) or column (csv), name of a member (ndjson), range of bytes LO:HI (length, raw).",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.run(cmd.Context(), args[0], cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	fs := cmd.Flags()
	f.add(fs)
	fs.StringVar(&f.listen, "listen", "127.0.0.1:0", "where to listen, HOST:PORT")
	fs.IntVar(&f.subpartitions, "subpartitions", 1, "number of subpartitions")
	fs.StringVar(&f.partitionBy, "partition-by", "round-robin", "round-robin, hash, key, broadcast or global")
	fs.StringVar(&f.key, "key", "", "the field that --partition-by key looks at")
	fs.StringVar(&f.framing, "framing", "lines", "what a record is: lines, ndjson, csv, length or raw")
	f.blocking.add(fs)
	f.member.add(fs)
	return cmd
}

func (f *sendFlags) partition() (weir.Partition, error) {
	switch f.partitionBy {
	case "round-robin":
		return weir.RoundRobin, nil
	case "hash", "key":
		return weir.ByKeyGroup, nil
	case "broadcast":
		return weir.Broadcast, nil
	case "global":
		return weir.Global, nil
	}
	return 0, fmt.Errorf("--partition-by %q: want round-robin, hash, key, broadcast or global", f.partitionBy)
}

// awaitConsumers waits until every subpartition has had a receiver.
func (f *sendFlags) awaitConsumers(ctx context.Context, out *weir.Output) error {
	ctx, cancel := context.WithTimeout(ctx, f.wait)
	defer cancel()
	return out.AwaitConsumers(ctx)
}

func (f *sendFlags) run(ctx context.Context, path string, stdin io.Reader, stdout, stderr io.Writer) (err error) {
	cfg, id, err := f.config()
	if err != nil {
		return err
	}
	r, err := f.router()
	if err != nil {
		return err
	}
	blocking, err := f.blocking.config()
	if err != nil {
		return err
	}
	if f.subpartitions < 1 {
		return fmt.Errorf("--subpartitions %d: want at least 1", f.subpartitions)
	}
	if err := f.member.check(); err != nil {
		return err
	}
	if f.member.on() {
		if blocking != nil {
			return errors.New("--blocking has no checkpoints: it is not for --coordinator")
		}
		return f.runMember(ctx, path, r, stdout, stderr)
	}
	in := stdin
	if path != "-" {
		file, err := os.Open(path)
		if err != nil {
			return err
		}
		defer file.Close()
		in = file
	}
	cfg.Listen = f.listen
	cfg.Logger = slog.New(slog.NewTextHandler(stderr, nil)) // receivers that are refused
	cfg.RequestTimeout = requestTimeout
	node, err := weir.Open(cfg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, node.Close()) }()
	out, err := node.NewOutput(weir.OutputConfig{Name: f.name, ID: &id, Subpartitions: f.subpartitions, Partition: r.partition, Blocking: blocking})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	fmt.Fprintf(stderr, "weir: listening on %s, partition %x, %d subpartitions\n", node.Addr(), id[:], f.subpartitions)

	if blocking == nil { // else they may come when they like
		if err := f.awaitConsumers(ctx, out); err != nil {
			return err
		}
	}
	begin := time.Now()
	rep := report{Event: "done", Partition: fmt.Sprintf("%x", id[:])}
	sum := crc32.New(castagnoli)
	records := framing.NewScanner(in, r.kind, r.limit)
	for {
		rec, err := records.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		at, err := r.at(rec)
		if err != nil {
			return fmt.Errorf("%s: record at byte %d: %w", path, records.Offset()-int64(len(rec)), err)
		}
		if err := out.Write(ctx, at, rec); err != nil {
			return err
		}
		rep.Records++
		rep.Bytes += int64(len(rec))
		_, _ = sum.Write(rec) // a hash never fails
	}
	if err := out.Finish(ctx); err != nil {
		return err
	}
	if blocking != nil {
		if err := f.awaitConsumers(ctx, out); err != nil {
			return err
		}
		if err := out.AwaitRead(ctx, f.blocking.reads); err != nil {
			return err
		}
	}
	rep.Seconds = time.Since(begin).Seconds()
	rep.Channels = []channelReport{{Records: rep.Records, Bytes: rep.Bytes, CRC32C: fmt.Sprintf("%08x", sum.Sum32())}}
	for _, d := range out.Stats(weir.OutputStats{}).WaitedFor {
		rep.Waited = append(rep.Waited, d.Seconds())
	}
	if f.stats == "json" {
		return rep.print(stdout)
	}
	return nil
}
