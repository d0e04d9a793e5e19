package weir

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// BenchmarkCheckpointCost is what checkpoints cost in throughput: records flow at full speed through a socket, and windows with
// barriers alternate with windows without. lost-% is the median of what a window with barriers lacks of its neighbour without.
// -benchtime 40x says how many pairs of windows.
func BenchmarkCheckpointCost(b *testing.B) {
	for _, c := range []struct {
		channels int
		every    time.Duration
	}{{8, 10 * time.Millisecond}, {1000, time.Second}} {
		for _, mode := range []struct {
			name    string
			mode    Mode
			barrier func(id int64) Barrier
		}{
			{"aligned", ExactlyOnce, func(id int64) Barrier { return AlignedBarrier(id, time.Now()) }},
			{"unaligned", ExactlyOnce, func(id int64) Barrier { return UnalignedBarrier(id, time.Now()) }},
			{"at-least-once", AtLeastOnce, func(id int64) Barrier { return AtLeastOnceBarrier(id, time.Now()) }},
		} {
			b.Run(fmt.Sprintf("mode=%s/channels=%d/every=%v", mode.name, c.channels, c.every), func(b *testing.B) {
				benchmarkCheckpointCost(b, mode.mode, c.channels, c.every, mode.barrier)
			})
		}
	}
}

func benchmarkCheckpointCost(b *testing.B, mode Mode, channels int, every time.Duration, barrier func(id int64) Barrier) {
	memory := int64(64<<20) + int64(channels)*8*(32<<10)
	producer, consumer := open(b, Config{Listen: "127.0.0.1:0", Memory: memory}), open(b, Config{Memory: memory})
	var taken atomic.Int64
	count := func(r TaskReport) {
		if r.Snapshot != nil {
			taken.Add(1)
		}
	}
	task := func(n *Node, name string, report func(TaskReport)) *Task {
		t, err := n.NewTask(TaskConfig{Name: name, Report: report})
		if err != nil {
			b.Fatal(err)
		}
		return t
	}
	source, sink := task(producer, "source", nil), task(consumer, "sink", count)
	out := newOutput(b, producer, OutputConfig{Name: "x", Subpartitions: channels, Partition: RoundRobin, Task: source})
	cfg := InputConfig{Mode: mode, Task: sink, Sources: []Source{{Addr: producer.Addr().String(), Name: "x", Last: channels - 1}}}
	if mode == ExactlyOnce {
		cfg.Unaligned = UnalignedOn
	}
	in := newInput(b, consumer, cfg)
	ctx, stop := context.WithCancel(context.Background())
	var tasks sync.WaitGroup
	defer tasks.Wait()
	defer stop()
	tasks.Go(func() {
		record := make([]byte, 100)
		for out.Write(ctx, nil, record) == nil {
		}
	})
	var records atomic.Int64
	tasks.Go(func() {
		for n := int64(1); ; n++ {
			e, err := in.Next(ctx)
			if err != nil {
				return
			}
			if e.Kind == Checkpoint {
				e.Checkpoint.Ack()
			}
			if n%256 == 0 {
				records.Store(n)
			}
		}
	})
	window := max(50*time.Millisecond, every)
	var all int64
	var ratios []float64
	id := int64(0)
	run := func(barriers bool) int64 {
		ticks := time.NewTicker(every)
		defer ticks.Stop()
		end := time.After(window)
		at := records.Load()
		if barriers {
			id++
			_ = source.Trigger(barrier(id))
		}
		for {
			select {
			case <-ticks.C:
				if barriers && every < window {
					id++
					_ = source.Trigger(barrier(id))
				}
			case <-end:
				return records.Load() - at
			}
		}
	}
	run(true) // until everything is connected and warm
	b.ResetTimer()
	for i := range b.N {
		var n [2]int64
		for k := range 2 { // which comes first takes turns, too
			with := (i + k) % 2
			n[with] = run(with == 1)
		}
		all += n[0] + n[1]
		if n[0] > 0 {
			ratios = append(ratios, float64(n[1])/float64(n[0]))
		}
	}
	b.StopTimer()
	if taken.Load() == 0 || len(ratios) == 0 {
		b.Fatalf("%d checkpoints were taken, %d records came", taken.Load(), all)
	}
	slices.Sort(ratios)
	b.ReportMetric(100*(1-ratios[len(ratios)/2]), "lost-%")
	b.ReportMetric(float64(taken.Load()), "checkpoints")
	b.ReportMetric(float64(all)/b.Elapsed().Seconds(), "records/s")
}
