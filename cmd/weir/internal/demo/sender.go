package demo

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/weirflow/weir"
)

// send is a sender of the first stage: one writer that partitions lines by their first word. The writer waits when one
// subpartition has its share of buffers, as it must: the next line may be for it.
func (r *runner) send(ctx context.Context) (err error) {
	node, err := weir.Open(weir.Config{Listen: "127.0.0.1:0", Memory: memory, SegmentSize: segmentSize})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, node.Close()) }()
	out, err := node.NewOutput(weir.OutputConfig{Name: "demo", Subpartitions: r.cfg.Subs, Partition: weir.ByKeyGroup})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	r.print(message{Kind: "address", Addr: node.Addr().String(), Waiting: -1})
	if err := out.AwaitConsumers(ctx); err != nil {
		return err
	}

	var sent atomic.Uint64
	var ended atomic.Bool
	go func() { // barriers come from outside, whatever the writer does
		for words := range r.commands {
			if words[0] == "barrier" && !ended.Load() {
				_ = out.Barrier(weir.AlignedBarrier(commandNumber(words), time.Now())) // refused once the output is closed
			}
		}
	}()
	var st weir.OutputStats
	status := func(kind string) message {
		r.use(node)
		st = out.Stats(st)
		m := message{Kind: kind, Lines: sent.Load(), Waiting: st.WaitingFor}
		for _, s := range st.Subpartitions {
			m.Channels = append(m.Channels, channel{Queued: s.Queued, Backlog: s.Backlog, Blocked: s.Blocked})
		}
		return m
	}
	stop := every(statusEvery, func() { r.print(status("status")) })

	in, err := openLines(r.cfg.Input)
	if err != nil {
		return err
	}
	defer in.close()
	p := &pace{begin: time.Now(), rate: r.cfg.Rate}
	allocs := countAllocations()
	var rec []byte
	for n := range r.cfg.Lines {
		line, err := in.read()
		if err != nil {
			return err
		}
		rec = appendRecord(rec[:0], r.cfg.Who, n, line)
		if err := out.Write(ctx, firstWord(line), rec); err != nil {
			return err
		}
		sent.Store(n + 1)
		if err := p.wait(ctx); err != nil {
			return err
		}
	}
	count := allocs.sofar()
	ended.Store(true)
	if err := out.Finish(ctx); err != nil {
		return err
	}
	stop()
	m := status("done")
	m.Allocs, m.Waits = count, st.Waits
	for _, d := range st.WaitedFor {
		m.WaitedS = append(m.WaitedS, d.Seconds())
	}
	r.memory(&m, node)
	r.print(m)
	return nil
}
