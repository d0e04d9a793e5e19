package demo

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirflow/weir"
)

// The second stage has a writer for each output, and one process that reads them all: so all channels from a sender share one
// connection, and a reader that sleeps has only its own writer wait.

const (
	fanBefore = 1500 * time.Millisecond // rates are taken over this long
	fanSettle = 500 * time.Millisecond  // until the sleeper's channels are full
	sleeper   = 1                       // the reader that sleeps
	fanLine   = 32 << 10                // longer lines are cut, so that rates can be counted in lines
)

func fanName(i int) string { return "fan-" + strconv.Itoa(i) }

// fanSend is a sender of the second stage.
func (r *runner) fanSend(ctx context.Context) (err error) {
	node, err := weir.Open(weir.Config{Listen: "127.0.0.1:0", Memory: memory, SegmentSize: segmentSize})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, node.Close()) }()
	outs := make([]*weir.Output, r.cfg.Subs)
	for i := range outs {
		if outs[i], err = node.NewOutput(weir.OutputConfig{Name: fanName(i)}); err != nil {
			return err
		}
	}
	r.print(message{Kind: "address", Addr: node.Addr().String(), Waiting: -1})

	var enough atomic.Bool
	go func() {
		for words := range r.commands {
			if words[0] == "enough" {
				enough.Store(true)
			}
		}
		enough.Store(true) // nobody is left to say it
	}()
	counts := make([]uint64, len(outs))
	errs := make([]error, len(outs))
	var wg sync.WaitGroup
	for i, out := range outs {
		wg.Go(func() {
			counts[i], errs[i] = r.fanWrite(ctx, out, &enough)
			errs[i] = errors.Join(errs[i], out.Close())
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	m := message{Kind: "done", Waiting: -1, PerOutput: counts}
	for _, out := range outs {
		st := out.Stats(weir.OutputStats{})
		m.WaitedS = append(m.WaitedS, st.Waited.Seconds())
	}
	r.use(node)
	r.memory(&m, node)
	r.print(m)
	return nil
}

// fanWrite writes lines to one output until it is enough.
func (r *runner) fanWrite(ctx context.Context, out *weir.Output, enough *atomic.Bool) (n uint64, err error) {
	if err := out.AwaitConsumers(ctx); err != nil {
		return 0, err
	}
	in, err := openLines(r.cfg.Input)
	if err != nil {
		return 0, err
	}
	defer in.close()
	p := &pace{begin: time.Now(), rate: r.cfg.Rate}
	var rec []byte
	for !enough.Load() {
		line, err := in.read()
		if err != nil {
			return n, err
		}
		line = line[:min(len(line), fanLine)]
		rec = appendRecord(rec[:0], r.cfg.Who, n, line)
		if err := out.WriteTo(ctx, 0, rec); err != nil {
			return n, err
		}
		n++
		if err := p.wait(ctx); err != nil {
			return n, err
		}
	}
	return n, out.Finish(ctx)
}

// fan reads all outputs of all senders, an input and a goroutine for each.
func (r *runner) fan(ctx context.Context) (err error) {
	node, err := weir.Open(weir.Config{Memory: memory, SegmentSize: segmentSize})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, node.Close()) }()
	readers := make([]fanReader, r.cfg.Subs)
	var wg sync.WaitGroup
	for i := range readers {
		var sources []weir.Source
		for _, addr := range r.cfg.Senders {
			sources = append(sources, weir.Source{Addr: addr, Name: fanName(i)})
		}
		if readers[i].in, err = node.NewInput(weir.InputConfig{Sources: sources}); err != nil {
			return err
		}
		wg.Go(func() { readers[i].err = readers[i].read(ctx) })
	}
	stop := every(statusEvery/10, func() { r.use(node) })
	kept, err := compareRates(ctx, readers)
	if err != nil {
		return err
	}
	r.print(message{Kind: "measured", Waiting: -1})
	wg.Wait()
	stop()
	m := message{Kind: "done", Waiting: -1, Kept: kept}
	for i := range readers {
		err = errors.Join(err, readers[i].err, readers[i].in.Close())
		m.PerOutput = append(m.PerOutput, readers[i].n.Load())
	}
	if err != nil {
		return err
	}
	r.memory(&m, node)
	r.print(m)
	return nil
}

type fanReader struct {
	in     *weir.Input
	n      atomic.Uint64
	sleeps atomic.Bool
	asleep atomic.Bool
	err    error
}

// read counts lines and checks them.
func (f *fanReader) read(ctx context.Context) error {
	var next [256]uint64
	for e, err := range f.in.All(ctx) {
		if err != nil {
			return err
		}
		if e.Kind != weir.Record {
			continue
		}
		source, offset, _, err := parseRecord(e.Value)
		if err != nil {
			return err
		}
		if offset != next[source] {
			return fmt.Errorf("line %d of source %d came after line %d", offset, source, int64(next[source])-1)
		}
		next[source]++
		f.n.Store(f.n.Load() + 1)
		for f.sleeps.Load() {
			f.asleep.Store(true)
			time.Sleep(10 * time.Millisecond) // the show
		}
		f.asleep.Store(false)
	}
	return nil
}

// compareRates measures the readers, puts one to sleep, and measures the others again.
func compareRates(ctx context.Context, readers []fanReader) ([]keptRate, error) {
	for i := range readers {
		for readers[i].n.Load() == 0 {
			if err := sleep(ctx, 10*time.Millisecond); err != nil {
				return nil, err
			}
		}
	}
	if err := sleep(ctx, fanSettle); err != nil {
		return nil, err
	}
	before, err := rates(ctx, readers)
	if err != nil {
		return nil, err
	}
	readers[sleeper].sleeps.Store(true)
	defer readers[sleeper].sleeps.Store(false)
	if err := sleep(ctx, fanSettle); err != nil {
		return nil, err
	}
	during, err := rates(ctx, readers)
	if err != nil {
		return nil, err
	}
	if !readers[sleeper].asleep.Load() {
		return nil, errors.New("the reader that should sleep did not")
	}
	var kept []keptRate
	for i := range readers {
		kept = append(kept, keptRate{Input: i, Before: before[i], During: during[i]})
	}
	return kept, nil
}

// rates counts for a while, in lines per second.
func rates(ctx context.Context, readers []fanReader) ([]float64, error) {
	begin := time.Now()
	counts := make([]uint64, len(readers))
	for i := range readers {
		counts[i] = readers[i].n.Load()
	}
	if err := sleep(ctx, fanBefore); err != nil {
		return nil, err
	}
	d := time.Since(begin).Seconds()
	rs := make([]float64, len(readers))
	for i := range readers {
		rs[i] = float64(readers[i].n.Load()-counts[i]) / d
	}
	return rs, nil
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
