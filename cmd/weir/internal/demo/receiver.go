package demo

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/weirflow/weir"
)

// receive is a receiver of the first stage: it reads its subpartition of each sender, writes down what it got, and sleeps in
// the middle of its work when it is told to.
func (r *runner) receive(ctx context.Context) (err error) {
	file, notes, err := createNotes(r.cfg.Out)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	node, err := weir.Open(weir.Config{Memory: memory, SegmentSize: segmentSize})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, node.Close()) }()
	var sources []weir.Source
	for _, addr := range r.cfg.Senders {
		sources = append(sources, weir.Source{Addr: addr, Name: "demo", Subpartition: r.cfg.Who})
	}
	in, err := node.NewInput(weir.InputConfig{Sources: sources})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, in.Close()) }()

	var got atomic.Uint64
	var sleepFor atomic.Int64
	var asleep atomic.Bool
	go func() {
		for words := range r.commands {
			if words[0] == "sleep" {
				sleepFor.Store(commandNumber(words))
			}
		}
	}()
	perChannel := make([]atomic.Uint64, len(sources))
	var st weir.InputStats
	status := func(kind string) message {
		r.use(node)
		st = in.Stats(st)
		m := message{Kind: kind, Lines: got.Load(), Waiting: -1, Sleeping: asleep.Load(), Checkpoints: st.Aligned}
		for i, c := range st.Channels {
			m.Channels = append(m.Channels, channel{Credit: c.Credit, Unread: c.Unread, Lines: perChannel[i].Load()})
		}
		return m
	}
	stop := every(statusEvery, func() { r.print(status("status")) })

	allocs := countAllocations()
	var note []byte
	for e, err := range in.All(ctx) {
		switch {
		case err != nil:
			return err
		case e.Kind == weir.Checkpoint:
			e.Checkpoint.Ack()
			continue
		case e.Kind != weir.Record:
			continue
		}
		source, offset, line, err := parseRecord(e.Value)
		if err != nil {
			return err
		}
		note = appendNote(note[:0], source, offset, firstWord(line))
		if _, err := notes.Write(note); err != nil {
			return err
		}
		got.Store(got.Load() + 1)
		c := &perChannel[e.Channel]
		c.Store(c.Load() + 1)
		if ms := sleepFor.Load(); ms > 0 {
			sleepFor.Store(0)
			asleep.Store(true)
			time.Sleep(time.Duration(ms) * time.Millisecond) // the show: user code that does not come back for a while
			asleep.Store(false)
		}
	}
	count := allocs.sofar()
	stop()
	if err := notes.Flush(); err != nil {
		return err
	}
	m := status("done")
	m.Allocs = count
	r.memory(&m, node)
	r.print(m)
	return nil
}
