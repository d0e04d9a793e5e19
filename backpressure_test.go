package weir

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/weirflow/weir/internal/modelrun"
)

// Back-pressure: a source that is never short of records, and a consumer that takes a hundred times as long for each as it needs, over
// a socket. All queues between them are full when a checkpoint begins.
const (
	bpChannels = 4
	bpSize     = 4096
	bpSlow     = 100 // the consumer's speed is 1 % of what it can do
)

// bpResult is what one checkpoint under back-pressure came to.
type bpResult struct {
	took      time.Duration // from the trigger until both tasks had reported
	in, out   int64         // in flight
	snapshots map[string][]byte
	read      int // records that the consumer read before the checkpoint
}

// bpConsumer checks that each channel brings its numbers in order: those of channel c are c, c+bpChannels, …
type bpConsumer struct{ next [bpChannels]uint32 }

func (c *bpConsumer) take(e *Element) error {
	n := binary.BigEndian.Uint32(e.Value)
	if want := c.next[e.Channel]*bpChannels + uint32(e.Channel); n != want {
		return fmt.Errorf("channel %d: record %d, want %d", e.Channel, n, want)
	}
	c.next[e.Channel]++
	return nil
}

func (c *bpConsumer) state() (p []byte) {
	for _, n := range c.next {
		p = binary.BigEndian.AppendUint32(p, n)
	}
	return p
}

func (c *bpConsumer) restore(p []byte) {
	for i := range c.next {
		c.next[i] = binary.BigEndian.Uint32(p[4*i:])
	}
}

// bpRun is one attempt. reports gets what the tasks report.
type bpRun struct {
	source, sink *Task
	out          *Output
	in           *Input
	next         uint32 // the source's
	consumer     bpConsumer
	close        func() error
}

func newBpRun(attempt int, from map[string][]byte, report func(TaskReport)) (r *bpRun, err error) {
	r = &bpRun{}
	a, errA := Open(Config{Listen: "127.0.0.1:0"})
	b, errB := Open(Config{})
	if err := errors.Join(errA, errB); err != nil {
		return nil, err
	}
	r.close = func() error { return errors.Join(b.Close(), a.Close()) }
	defer func() {
		if err != nil {
			err = errors.Join(err, r.close())
		}
	}()
	restore := func(name string) (s *Snapshot, err error) {
		if from != nil {
			s, err = ReadSnapshot(from[name])
		}
		return s, err
	}
	cfg := TaskConfig{Name: "source", Attempt: attempt, Report: report, OnCheckpoint: func(cp *CheckpointInfo) {
		cp.Ack(binary.BigEndian.AppendUint32(nil, r.next))
	}}
	if cfg.Restore, err = restore(cfg.Name); err != nil {
		return nil, err
	}
	if r.source, err = a.NewTask(cfg); err != nil {
		return nil, err
	}
	if s := cfg.Restore; s != nil {
		r.next = binary.BigEndian.Uint32(s.State)
	}
	if r.out, err = a.NewOutput(OutputConfig{Name: "x", Subpartitions: bpChannels, Task: r.source}); err != nil {
		return nil, err
	}
	cfg = TaskConfig{Name: "sink", Attempt: attempt, Report: report}
	if cfg.Restore, err = restore(cfg.Name); err != nil {
		return nil, err
	}
	if r.sink, err = b.NewTask(cfg); err != nil {
		return nil, err
	}
	if s := cfg.Restore; s != nil {
		r.consumer.restore(s.State)
	}
	r.in, err = b.NewInput(InputConfig{Unaligned: UnalignedOn, Task: r.sink, Exclusive: 8,
		Sources: []Source{{Addr: a.Addr().String(), Name: "x", Last: bpChannels - 1}}})
	return r, err
}

// write writes records until there are that many, or ctx ends.
func (r *bpRun) write(ctx context.Context, until uint32) error {
	p := make([]byte, bpSize)
	for r.next < until {
		binary.BigEndian.PutUint32(p, r.next)
		if err := r.out.WriteTo(ctx, int(r.next%bpChannels), p); err != nil {
			return err
		}
		r.next++
	}
	return nil
}

// underBackpressure takes one checkpoint with a barrier.
func underBackpressure(ctx context.Context, barrier func() Barrier) (res bpResult, err error) {
	res.snapshots = map[string][]byte{}
	var mu sync.Mutex
	reported := make(chan error, 4) // by the tasks' checkpoints, and by the tasks
	r, err := newBpRun(1, nil, func(rep TaskReport) {
		if rep.Snapshot == nil {
			reported <- fmt.Errorf("%s declined: %w", rep.Task, rep.Err)
			return
		}
		p, err := rep.Snapshot.AppendTo(nil)
		in, out := rep.Snapshot.InFlight()
		mu.Lock()
		res.snapshots[rep.Task] = p
		res.in, res.out = res.in+in, res.out+out
		mu.Unlock()
		reported <- err
	})
	if err != nil {
		return res, err
	}
	defer func() { err = errors.Join(err, r.close()) }()
	ctx, kill := context.WithCancel(ctx)
	defer kill()
	var tasks sync.WaitGroup
	fast, full := make(chan time.Duration, 1), make(chan struct{})
	run := func(f func() error) {
		tasks.Go(func() {
			if err := f(); err != nil && ctx.Err() == nil {
				reported <- err
			}
		})
	}
	run(func() error { return r.write(ctx, 1<<31) })
	run(func() error { return r.consume(ctx, fast, full) })
	defer tasks.Wait()
	defer kill()
	select {
	case <-fast:
	case err := <-reported:
		return res, err
	case <-ctx.Done():
		return res, ctx.Err()
	}
	for r.out.Stats(OutputStats{}).WaitingFor < 0 || !starved(r.in) {
		select {
		case err := <-reported:
			return res, err
		case <-ctx.Done():
			return res, ctx.Err()
		case <-time.After(time.Millisecond):
		}
	}
	began := time.Now()
	if err := r.source.Trigger(barrier()); err != nil {
		return res, err
	}
	close(full)
	for range 2 {
		select {
		case err := <-reported:
			if err != nil {
				return res, err
			}
		case <-ctx.Done():
			return res, ctx.Err()
		}
	}
	res.took = time.Since(began)
	kill()
	tasks.Wait()
	var at bpConsumer
	s, err := ReadSnapshot(res.snapshots["sink"])
	if err != nil {
		return res, err
	}
	at.restore(s.State)
	for _, n := range at.next {
		res.read += int(n)
	}
	return res, nil
}

// consume measures what the consumer can do, waits until the queues are full, and goes on at a small part of that speed.
func (r *bpRun) consume(ctx context.Context, fast chan time.Duration, full chan struct{}) error {
	const parts, sample, shortest = 8, 500, time.Millisecond // no shorter sleep is to be had
	step := func(n int) error {
		for n > 0 {
			e, err := r.in.Next(ctx)
			if err != nil {
				return err
			}
			switch e.Kind {
			case Record:
				if err := r.consumer.take(e); err != nil {
					return err
				}
				n--
			case Checkpoint:
				e.Checkpoint.Ack(r.consumer.state())
			}
		}
		return nil
	}
	if err := step(1); err != nil { // when it is connected
		return err
	}
	best := time.Duration(1<<63 - 1)
	for range parts { // one in which the machine did something else says nothing about the consumer
		began := time.Now()
		if err := step(sample); err != nil {
			return err
		}
		best = min(best, time.Since(began))
	}
	pause := max(best/sample*(bpSlow-1), 1)
	batch := 1 + int(shortest/pause)
	pause *= time.Duration(batch)
	fast <- pause
	select {
	case <-full:
	case <-ctx.Done():
	}
	for {
		if err := step(batch); err != nil {
			return err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// finishFrom restores both tasks and lets them go on to the end.
func (res *bpResult) finishFrom(ctx context.Context, records uint32) error {
	r, err := newBpRun(2, res.snapshots, nil)
	if err != nil {
		return err
	}
	done := make(chan error, 1)
	go func() { done <- errors.Join(r.write(ctx, max(records, r.next)), r.out.Finish(ctx)) }()
	for {
		e, err := r.in.Next(ctx)
		if err == io.EOF {
			break
		}
		if err == nil && e.Kind == Record {
			err = r.consumer.take(e)
		}
		if err != nil {
			return errors.Join(err, r.close(), <-done)
		}
	}
	if err := errors.Join(<-done, r.close()); err != nil {
		return err
	}
	var read uint32
	for _, n := range r.consumer.next {
		read += n
	}
	if read != r.next {
		return fmt.Errorf("read %d records of %d", read, r.next)
	}
	return nil
}

func bpBarriers() (aligned, unaligned func() Barrier) {
	return func() Barrier { return AlignedBarrier(1, time.Now()) }, func() Barrier { return UnalignedBarrier(1, time.Now()) }
}

// A checkpoint under back-pressure: unaligned, it takes what is in flight with it instead of waiting for it, and what is restored from it
// is exactly what was sent. The report says how long both kinds took.
func TestBackpressureReport(t *testing.T) {
	barriers := [2]func() Barrier{}
	barriers[0], barriers[1] = bpBarriers()
	var took [2]time.Duration
	for i, name := range []string{"aligned", "unaligned"} {
		modelrun.Rounds(t, func(int) bool {
			res, err := underBackpressure(limited(t), barriers[i])
			if err != nil {
				t.Fatal(name, err)
			}
			took[i] = res.took
			t.Logf("%s: %v; in flight %d bytes at the input, %d at the output; %d records read before", name, res.took, res.in, res.out, res.read)
			unaligned := i == 1
			if !unaligned && res.in+res.out > 0 {
				t.Errorf("%s: %d and %d bytes were in flight", name, res.in, res.out)
			}
			if err := res.finishFrom(limited(t), uint32(res.read)+20_000); err != nil {
				t.Errorf("%s, restored: %v", name, err)
			}
			return !unaligned || res.in > 0 && res.out > 0 // a source that slept meanwhile found the queues empty
		})
	}
	t.Logf("unaligned takes %.2f %% of the aligned time", 100*float64(took[1])/float64(took[0]))
}

// BenchmarkBackpressure compares the times of an unaligned and an aligned checkpoint with a consumer at 1 % of its speed and full queues.
func BenchmarkBackpressure(b *testing.B) {
	aligned, unaligned := bpBarriers()
	var sum [2]time.Duration
	var in, out int64
	for range b.N {
		for i, barrier := range []func() Barrier{aligned, unaligned} {
			res, err := underBackpressure(context.Background(), barrier)
			if err != nil {
				b.Fatal(err)
			}
			sum[i] += res.took
			in, out = in+res.in, out+res.out
		}
	}
	b.ReportMetric(float64(sum[0].Microseconds())/float64(b.N), "aligned-µs")
	b.ReportMetric(float64(sum[1].Microseconds())/float64(b.N), "unaligned-µs")
	b.ReportMetric(100*float64(sum[1])/float64(sum[0]), "%-of-aligned")
	b.ReportMetric(float64(in)/float64(b.N), "B-in-flight-in")
	b.ReportMetric(float64(out)/float64(b.N), "B-in-flight-out")
}
