package pipeline_test

import (
	"context"
	"encoding/binary"
	"slices"
	"testing"
	"time"

	"github.com/weirflow/weir"
	"github.com/weirflow/weir/checkpoint"
	"github.com/weirflow/weir/pipeline"
)

// BenchmarkCheckpointEachSecond compares a pipeline at full speed, a source and a counting sink in one process, with a checkpoint each
// second and with none: pairs of runs, interleaved, one pair for each iteration. kept is the median of the pairs' ratios.
// go test -run '^$' -bench CheckpointEachSecond -benchtime 5x ./pipeline
func BenchmarkCheckpointEachSecond(b *testing.B) {
	var kept []float64
	checkpoints := int64(0)
	for range b.N {
		without, _ := fullSpeed(b, time.Hour)
		with, n := fullSpeed(b, time.Second)
		kept = append(kept, with/without)
		checkpoints += n
	}
	slices.Sort(kept)
	b.ReportMetric(kept[len(kept)/2], "kept")
	b.ReportMetric(kept[0], "kept-min")
	b.ReportMetric(kept[len(kept)-1], "kept-max")
	b.ReportMetric(float64(checkpoints)/float64(b.N), "checkpoints/op")
	if checkpoints < 2*int64(b.N) {
		b.Errorf("%d checkpoints in %d runs: that shows nothing", checkpoints, b.N)
	}
}

const fullSpeedFor = 3500 * time.Millisecond

// fullSpeed runs the pipeline for a while and returns its records per second, and how many checkpoints were completed before the last one.
func fullSpeed(b *testing.B, interval time.Duration) (rate float64, completed int64) {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), limit)
	defer cancel()
	store, err := checkpoint.OpenDir(b.TempDir(), checkpoint.DirOptions{})
	if err != nil {
		b.Fatal(err)
	}
	c, err := checkpoint.NewCoordinator(checkpoint.CoordinatorConfig{Members: []string{"source", "sink"}, Store: store, Listen: "127.0.0.1:0", Interval: interval})
	if err != nil {
		b.Fatal(err)
	}
	done := make(chan error, 3)
	go func() { done <- c.Run(ctx) }()
	member := func(name string, f func(context.Context, *pipeline.Attempt) error) {
		done <- pipeline.Run(ctx, pipeline.Config{Member: checkpoint.MemberConfig{Name: name, Coordinator: c.Addr().String()},
			Completed: func(int, int64) {
				if name == "sink" {
					completed++
				}
			}}, f)
	}
	addr := make(chan string, 1)
	go member("source", func(ctx context.Context, a *pipeline.Attempt) error {
		node, err := weir.Open(weir.Config{Listen: "127.0.0.1:0"})
		if err != nil {
			return err
		}
		defer node.Close()
		sent := uint64(0)
		t, err := a.NewTask(node, weir.TaskConfig{}, func() ([]byte, error) { return binary.BigEndian.AppendUint64(nil, sent), nil })
		if err != nil {
			return err
		}
		out, err := node.NewOutput(weir.OutputConfig{Name: "records", Subpartitions: 1, Task: t})
		if err != nil {
			return err
		}
		a.Serve()
		addr <- node.Addr().String()
		record := make([]byte, 100)
		for end := time.Now().Add(fullSpeedFor); sent%1024 != 0 || time.Now().Before(end); sent++ {
			if err := out.Write(ctx, nil, record); err != nil {
				return err
			}
		}
		return a.Finish(ctx)
	})
	go member("sink", func(ctx context.Context, a *pipeline.Attempt) error {
		node, err := weir.Open(weir.Config{})
		if err != nil {
			return err
		}
		defer node.Close()
		got := uint64(0)
		t, err := a.NewTask(node, weir.TaskConfig{}, func() ([]byte, error) { return binary.BigEndian.AppendUint64(nil, got), nil })
		if err != nil {
			return err
		}
		in, err := node.NewInput(weir.InputConfig{Sources: []weir.Source{{Addr: <-addr, Name: "records"}}, Task: t})
		if err != nil {
			return err
		}
		a.Serve()
		begin := time.Now()
		for e, err := range a.All(ctx, in) {
			if err != nil {
				return err
			}
			switch e.Kind {
			case weir.Record:
				got++
			case weir.EndOfData:
				rate = float64(got) / time.Since(begin).Seconds()
			}
		}
		return a.Finish(ctx)
	})
	for range 3 {
		if err := <-done; err != nil {
			b.Fatal(err)
		}
	}
	return rate, completed - 1
}
