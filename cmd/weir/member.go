package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"log/slog"
	"time"

	"github.com/spf13/pflag"

	"github.com/weirflow/weir"
	"github.com/weirflow/weir/checkpoint"
	"github.com/weirflow/weir/pipeline"
)

// memberFlags make a command a member of a pipeline.
type memberFlags struct {
	coordinator, member string
}

func (f *memberFlags) add(fs *pflag.FlagSet) {
	fs.StringVar(&f.coordinator, "coordinator", "", "HOST:PORT of weir coordinate: this is a member of its pipeline, and survives crashes")
	fs.StringVar(&f.member, "member", "", "with --coordinator: the name of this member")
}

func (f *memberFlags) on() bool { return f.coordinator != "" }

func (f *memberFlags) check() error {
	if (f.coordinator == "") != (f.member == "") {
		return errors.New("--coordinator and --member belong together")
	}
	return nil
}

// config is that of pipeline.Run; wait is for the other members.
func (f *memberFlags) config(wait time.Duration, secure *tls.Config, stderr io.Writer) pipeline.Config {
	return pipeline.Config{
		Member: checkpoint.MemberConfig{Name: f.member, Coordinator: f.coordinator, TLS: secure, Reconnect: wait}, Wait: wait,
		Logger: slog.New(slog.NewTextHandler(stderr, nil)),
	}
}

// counters is the state of a member: what went through it. Sums can be gone on with.
type counters struct {
	// Offset is where in the input the first record begins that was not written.
	Offset   int64            `json:"offset,omitempty"`
	Channels []channelCounter `json:"channels"`
}

type channelCounter struct {
	Records int64  `json:"records"`
	Bytes   int64  `json:"bytes"`
	Sum     uint32 `json:"sum"`
}

// restoreCounters reads what snapshot wrote; nil state: n channels without anything.
func restoreCounters(state []byte, n int) (*counters, error) {
	c := &counters{Channels: make([]channelCounter, n)}
	if state == nil {
		return c, nil
	}
	if err := json.Unmarshal(state, c); err != nil || len(c.Channels) != n {
		return nil, pipeline.Permanent(fmt.Errorf("state of %d channels, want %d: %w", len(c.Channels), n, errors.Join(err, errOtherCommand)))
	}
	return c, nil
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

var errOtherCommand = errors.New("a member is started again with the same command")

func (c *channelCounter) add(rec []byte) {
	c.Records++
	c.Bytes += int64(len(rec))
	c.Sum = crc32.Update(c.Sum, castagnoli, rec)
}

func (c *counters) snapshot() ([]byte, error) { return json.Marshal(c) }

// report adds the counters to a report.
func (c *counters) report(rep *report) {
	rep.Records, rep.Bytes = 0, 0
	for i, ch := range c.Channels {
		rep.Records += ch.Records
		rep.Bytes += ch.Bytes
		rep.Channels[i].Records, rep.Channels[i].Bytes, rep.Channels[i].CRC32C = ch.Records, ch.Bytes, fmt.Sprintf("%08x", ch.Sum)
	}
}

// attemptID is the id of the flags' partition in an attempt.
func (f *exchangeFlags) attemptID(attempt int) (id weir.PartitionID, err error) {
	if _, id, err = f.config(); err == nil {
		id = id.WithAttempt(int32(attempt))
	}
	return id, err
}

// source is where a member reads from, in an attempt.
func (f *recvFlags) source(addr string, id *weir.PartitionID, first, last int) weir.Source {
	return weir.Source{Addr: addr, ID: id, Subpartition: first, Last: last, Ranged: f.ranged}
}

// runMember sends in transactions of the pipeline: from where the last completed checkpoint is.
func (f *sendFlags) runMember(ctx context.Context, path string, r *router, stdout, stderr io.Writer) error {
	if path == "-" {
		return errors.New("--coordinator: want a file, since standard input cannot be read again")
	}
	cfg, id, err := f.config()
	if err != nil {
		return err
	}
	cfg.Listen, cfg.RequestTimeout = f.listen, f.wait
	var total counters
	begin := time.Now()
	err = pipeline.Run(ctx, f.member.config(f.wait, cfg.TLS, stderr), func(ctx context.Context, a *pipeline.Attempt) error {
		c, err := f.attempt(ctx, path, r, cfg, a)
		if err == nil {
			total = *c
		}
		return err
	})
	if err != nil || f.stats != "json" {
		return err
	}
	rep := report{Event: "done", Partition: fmt.Sprintf("%x", id[:]), Seconds: time.Since(begin).Seconds(), Channels: make([]channelReport, 1)}
	if len(total.Channels) == 0 { // the pipeline was at its end before
		total.Channels = make([]channelCounter, 1)
	}
	total.report(&rep)
	return rep.print(stdout)
}

// attempt sends the file from where the attempt begins.
func (f *sendFlags) attempt(ctx context.Context, path string, r *router, cfg weir.Config, a *pipeline.Attempt) (c *counters, err error) {
	if c, err = restoreCounters(a.State(), 1); err != nil {
		return nil, err
	}
	records, file, err := r.open(path, c.Offset)
	if err != nil {
		return nil, pipeline.Permanent(err)
	}
	defer file.Close()
	node, err := weir.Open(cfg)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, node.Close()) }()
	t, err := a.NewTask(node, weir.TaskConfig{}, c.snapshot)
	if err != nil {
		return nil, err
	}
	id, err := f.attemptID(a.Number())
	if err != nil {
		return nil, err
	}
	out, err := node.NewOutput(weir.OutputConfig{Name: f.name, ID: &id, Subpartitions: f.subpartitions, Partition: r.partition, Task: t})
	if err != nil {
		return nil, err
	}
	a.Serve()
	for {
		rec, err := records.Next()
		if err == io.EOF {
			return c, a.Finish(ctx)
		}
		if err != nil {
			return nil, pipeline.Permanent(fmt.Errorf("%s: %w", path, err))
		}
		at, err := r.at(rec)
		if err != nil {
			return nil, pipeline.Permanent(fmt.Errorf("%s: record at byte %d: %w", path, c.Offset, err))
		}
		if err := out.Write(ctx, at, rec); err != nil {
			return nil, err
		}
		// Only now: a barrier that goes out within Write is before the record.
		c.Offset += int64(len(rec))
		c.Channels[0].add(rec)
	}
}

// runMember receives in transactions of the pipeline: a folder of parts, each of which appears when its checkpoint is completed.
func (f *recvFlags) runMember(ctx context.Context, addrs []string, first, last int, rep report, cfg weir.Config, stdout, stderr io.Writer) (err error) {
	sink, err := checkpoint.OpenFileSink(checkpoint.FileSinkConfig{Dir: f.out, Name: f.member.member, Retract: f.retract})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, sink.Close()) }()
	pc := f.member.config(f.wait, cfg.TLS, stderr)
	pc.Sink = sink
	begin := time.Now()
	total := &counters{Channels: make([]channelCounter, len(rep.Channels))}
	err = pipeline.Run(ctx, pc, func(ctx context.Context, a *pipeline.Attempt) (err error) {
		c, err := restoreCounters(a.State(), len(rep.Channels))
		if err != nil {
			return err
		}
		node, err := weir.Open(cfg)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, node.Close()) }()
		t, err := a.NewTask(node, weir.TaskConfig{}, c.snapshot)
		if err != nil {
			return err
		}
		in, err := f.input(node, t, a, addrs, first, last)
		if err != nil {
			return err
		}
		a.Serve()
		if err := f.sink(ctx, a, in, sink, c); err != nil {
			return err
		}
		total = c
		return nil
	})
	if err != nil || f.stats != "json" {
		return err
	}
	rep.Seconds = time.Since(begin).Seconds()
	total.report(&rep)
	return rep.print(stdout)
}

// input opens the input of an attempt.
func (f *recvFlags) input(node *weir.Node, t *weir.Task, a *pipeline.Attempt, addrs []string, first, last int) (*weir.Input, error) {
	id, err := f.attemptID(a.Number())
	if err != nil {
		return nil, err
	}
	cfg := weir.InputConfig{Wait: f.wait, Exclusive: f.exclusive, Floating: f.floating, Unaligned: weir.UnalignedOn, Task: t}
	for _, addr := range addrs {
		cfg.Sources = append(cfg.Sources, f.source(addr, &id, first, last))
	}
	return node.NewInput(cfg)
}

// sink writes all records to the sink.
func (f *recvFlags) sink(ctx context.Context, a *pipeline.Attempt, in *weir.Input, w io.Writer, c *counters) error {
	pace := newPacer(f.rate)
	for e, err := range a.All(ctx, in) {
		if err != nil {
			return err
		}
		if e.Kind != weir.Record {
			continue
		}
		if _, err := w.Write(e.Value); err != nil {
			return err
		}
		c.Channels[e.Channel].add(e.Value)
		if err := pace.wait(ctx); err != nil {
			return err
		}
	}
	return a.Finish(ctx)
}
