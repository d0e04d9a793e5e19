//go:build unix

package chaos

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/weirflow/weir"
	"github.com/weirflow/weir/checkpoint"
	"github.com/weirflow/weir/pipeline"
)

// The pipeline.
const (
	sources = 2
	middles = 3
	sinks   = 2
	keys    = 11 // of each source

	memberTimeout = time.Second
	interval      = 15 * time.Millisecond
	patience      = 30 * time.Second // for whoever is away
)

// role is what a process is told.
type role struct {
	Kind, Name string
	Index      int
	Dir        string
	Listen     string   // where this one listens
	Coord      string   // where the coordinator is, for this one
	From       []string // where its input is
	Mode       checkpoint.Alignment
	Records    uint32 // of each source
	// DieAt, DieIn and DieAfter: the process kills itself at that point of a file whose path contains DieIn, the DieAfter'th time.
	DieAt, DieIn string
	DieAfter     int64
}

func members() (names []string) {
	for _, k := range []struct {
		kind string
		n    int
	}{{"source", sources}, {"middle", middles}, {"sink", sinks}} {
		for i := range k.n {
			names = append(names, fmt.Sprintf("%s%d", k.kind, i))
		}
	}
	return names
}

// hook kills the process at the point that the role says, as a crash of the machine would in the middle of a write.
func (r *role) hook() checkpoint.Hook {
	var times atomic.Int64
	return func(at checkpoint.Point, path string) error {
		if string(at) == r.DieAt && strings.Contains(path, r.DieIn) && times.Add(1) == r.DieAfter {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
		return nil
	}
}

func (r *role) run(ctx context.Context) error {
	if r.Kind == "coordinator" {
		return r.coordinate(ctx)
	}
	cfg := pipeline.Config{
		Member: checkpoint.MemberConfig{Name: r.Name, Coordinator: r.Coord, Reconnect: patience, Timeout: memberTimeout}, Wait: patience,
		Logger: slog.New(slog.NewTextHandler(os.Stderr, nil)),
	}
	stage := r.source
	switch r.Kind {
	case "middle":
		stage = r.middle
	case "sink":
		sink, err := checkpoint.OpenFileSink(checkpoint.FileSinkConfig{Dir: filepath.Join(r.Dir, "out"), Name: r.Name, Hook: r.hook()})
		if err != nil {
			return err
		}
		cfg.Sink = sink
		stage = func(ctx context.Context, a *pipeline.Attempt) error { return r.sink(ctx, a, sink) }
	}
	return pipeline.Run(ctx, cfg, stage)
}

// coordinate says on standard output what it has completed.
func (r *role) coordinate(ctx context.Context) error {
	store, err := checkpoint.OpenDir(filepath.Join(r.Dir, "checkpoints"), checkpoint.DirOptions{Hook: r.hook()})
	if err != nil {
		return err
	}
	c, err := checkpoint.NewCoordinator(checkpoint.CoordinatorConfig{Members: members(), Store: store, Listen: r.Listen,
		Interval: interval, Timeout: 5 * time.Second, Alignment: r.Mode, AlignmentTimeout: 3 * time.Millisecond, MemberTimeout: memberTimeout,
		Logger: slog.New(slog.NewTextHandler(os.Stderr, nil))})
	if err != nil {
		return err
	}
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for last := int64(-1); ; {
		select {
		case err := <-done:
			return err
		case <-tick.C:
			if s := c.Status(); s.Completed != last {
				last = s.Completed
				fmt.Println("completed", last)
			}
		}
	}
}

// node is this process's place, small, so that there is back-pressure.
func (r *role) node() (*weir.Node, error) {
	return weir.Open(weir.Config{Listen: r.Listen, SegmentSize: 512, Memory: 1 << 20, RequestTimeout: patience})
}

// record is what a source sends, and a middle sends on with the count of its key.
type record struct {
	source, offset, count uint32
}

func (r record) key() uint32 { return r.source*keys + r.offset%keys }

func (r record) encode(p []byte) []byte {
	p = binary.BigEndian.AppendUint32(p, r.source)
	p = binary.BigEndian.AppendUint32(p, r.offset)
	return binary.BigEndian.AppendUint32(p, r.count)
}

const recordSize = 12

func decode(p []byte) (record, error) {
	if len(p) != recordSize {
		return record{}, fmt.Errorf("a record of %d bytes", len(p))
	}
	return record{binary.BigEndian.Uint32(p), binary.BigEndian.Uint32(p[4:]), binary.BigEndian.Uint32(p[8:])}, nil
}

// output opens the output of a task. The padding makes a record as long as it likes to be.
func output(node *weir.Node, t *weir.Task, name string, n int) (*weir.Output, error) {
	return node.NewOutput(weir.OutputConfig{Name: name, Subpartitions: n, Partition: weir.ByKeyGroup, Buffers: n + 4, Task: t})
}

func (r *role) input(node *weir.Node, t *weir.Task, name string) (*weir.Input, error) {
	cfg := weir.InputConfig{Task: t, Unaligned: weir.UnalignedOn, Wait: patience, Exclusive: 2, Floating: 2}
	for _, addr := range r.From {
		cfg.Sources = append(cfg.Sources, weir.Source{Addr: addr, Name: name, Subpartition: r.Index, Last: r.Index})
	}
	return node.NewInput(cfg)
}

// source sends its records, at a pace that leaves time for checkpoints.
func (r *role) source(ctx context.Context, a *pipeline.Attempt) (err error) {
	next := uint32(0)
	if s := a.State(); s != nil {
		next = binary.BigEndian.Uint32(s)
	}
	node, err := r.node()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, node.Close()) }()
	t, err := a.NewTask(node, weir.TaskConfig{}, func() ([]byte, error) { return binary.BigEndian.AppendUint32(nil, next), nil })
	if err != nil {
		return err
	}
	out, err := output(node, t, "records", middles)
	if err != nil {
		return err
	}
	a.Serve()
	var buf, key []byte
	for ; next < r.Records; next++ {
		rec := record{source: uint32(r.Index), offset: next}
		buf, key = rec.encode(buf[:0]), binary.BigEndian.AppendUint32(key[:0], rec.key())
		if err := out.Write(ctx, key, buf); err != nil {
			return err
		}
		if next%32 == 31 {
			if err := out.Flush(); err != nil {
				return err
			}
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(4 * time.Millisecond):
			}
		}
	}
	return a.Finish(ctx)
}

// middle counts the records of each key.
func (r *role) middle(ctx context.Context, a *pipeline.Attempt) (err error) {
	counts := map[uint32]uint32{}
	if s := a.State(); s != nil {
		if err := json.Unmarshal(s, &counts); err != nil {
			return pipeline.Permanent(err)
		}
	}
	node, err := r.node()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, node.Close()) }()
	t, err := a.NewTask(node, weir.TaskConfig{}, func() ([]byte, error) { return json.Marshal(counts) })
	if err != nil {
		return err
	}
	out, err := output(node, t, "counted", sinks)
	if err != nil {
		return err
	}
	in, err := r.input(node, t, "records")
	if err != nil {
		return err
	}
	a.Serve()
	var buf, key []byte
	for e, err := range a.All(ctx, in) {
		if err != nil {
			return err
		}
		if e.Kind != weir.Record {
			continue
		}
		rec, err := decode(e.Value)
		if err != nil {
			return pipeline.Permanent(err)
		}
		counts[rec.key()]++
		rec.count = counts[rec.key()]
		buf, key = rec.encode(buf[:0]), binary.BigEndian.AppendUint32(key[:0], rec.key())
		if err := out.Write(ctx, key, buf); err != nil {
			return err
		}
	}
	return a.Finish(ctx)
}

// sink writes records in transactions; what it has seen at all, it writes beside, at once.
func (r *role) sink(ctx context.Context, a *pipeline.Attempt, w *checkpoint.FileSink) (err error) {
	seen, err := os.OpenFile(filepath.Join(r.Dir, "seen-"+r.Name), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, seen.Close()) }()
	node, err := r.node()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, node.Close()) }()
	t, err := a.NewTask(node, weir.TaskConfig{}, nil)
	if err != nil {
		return err
	}
	in, err := r.input(node, t, "counted")
	if err != nil {
		return err
	}
	a.Serve()
	for e, err := range a.All(ctx, in) {
		if err != nil {
			return err
		}
		if e.Kind != weir.Record {
			continue
		}
		if _, err := seen.Write(e.Value[:1]); err != nil {
			return err
		}
		if _, err := w.Write(e.Value); err != nil {
			return err
		}
	}
	return a.Finish(ctx)
}
