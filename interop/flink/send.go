package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/weirflow/weir"
)

// defaultMemory is what a node takes if it is not told.
const defaultMemory = 64 << 20

// open makes a node with defaults, and with as much memory as its outputs and inputs take.
func open(cfg weir.Config, outputs []weir.OutputConfig, inputs []weir.InputConfig) (*weir.Node, error) {
	if n := weir.MemoryNeeded(cfg, outputs, inputs); n > defaultMemory {
		cfg.Memory = n
	}
	return weir.Open(cfg)
}

// sendCell: weir sends, Flink receives.
func sendCell(ctx context.Context, p *peer, e ends, s *script) (sent, got *report, err error) {
	flight := newInFlight()
	oc := weir.OutputConfig{Name: fmt.Sprintf("interop-%d-%d", s.seed, s.channels), Subpartitions: s.channels, State: flight}
	if s.kind.isBlocking() {
		oc.State, oc.Blocking = nil, &weir.Blocking{Codec: s.kind.codec()}
	}
	// The handshake of a JVM that has just started takes long.
	cfg := weir.Config{Listen: "127.0.0.1:0", Flink: e.release, TLS: e.tls, SegmentSize: e.segment, HandshakeTimeout: max(e.handshake, time.Minute)}
	node, err := open(cfg, []weir.OutputConfig{oc}, nil)
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, node.Close()) }()
	out, err := node.NewOutput(oc)
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, out.Close()) }()

	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	acked := make(chan int64, barriers)
	done := make(chan *report, 1)
	id := out.ID()
	host, port := hostPort(node.Addr())
	if err := p.command("receive %s %s %x %d %d %d %s %s", host, port, id[:], s.seed, s.channels, s.rounds, e.folder, s.kind); err != nil {
		return nil, nil, err
	}
	go func() {
		rep, err := p.follow(ctx, "complete", func(id int64) error {
			acked <- id
			if e.completed != nil {
				e.completed(id)
			}
			return nil
		})
		if err != nil && !e.alone {
			cancel(err)
		}
		done <- rep
	}()
	w := &sender{s: s, out: out, flight: flight, rep: newReport(s.channels), acked: acked}
	if err := w.run(ctx); err != nil {
		return nil, nil, cause(ctx, err)
	}
	select {
	case got = <-done:
	case <-ctx.Done():
	}
	if got == nil {
		return nil, nil, cause(ctx, ctx.Err())
	}
	// No AwaitRead for blocking partitions: Flink's report is the proof, and its end of the network may go before it has sent the
	// request to close, which is what a read counts by.
	st := node.Stats()
	w.rep.Wire = int64(st.Loop.WriteBytes)
	if e.release == weir.Flink23 && !s.kind.isBlocking() && st.Packed == 0 {
		return nil, nil, errors.New("no message held several buffers, although small ones were written")
	}
	return w.rep, got, nil
}

// cause adds to an error why the context ended.
func cause(ctx context.Context, err error) error {
	if c := context.Cause(ctx); c != nil && !errors.Is(err, c) {
		return fmt.Errorf("%w: %w", c, err)
	}
	return err
}

// sender writes what the script says.
type sender struct {
	s       *script
	out     *weir.Output
	flight  *inFlight
	rep     *report
	acked   <-chan int64
	lastAck int64
	next    []int
	buf     []byte
}

func (w *sender) run(ctx context.Context) error {
	s := w.s
	w.next = make([]int, s.channels)
	for r := range s.rounds {
		for c := range s.channels {
			if err := w.record(ctx, c); err != nil {
				return err
			}
		}
		b := s.barrierAfter[r]
		if b >= 0 {
			if err := w.await(ctx, int64(b)); err != nil {
				return err
			}
			for range s.burstLength(b) {
				if err := w.record(ctx, s.burstChannel(b)); err != nil {
					return err
				}
			}
		}
		if s.watermarkAfter[r] {
			if err := w.out.Watermark(ctx, int64(r)); err != nil {
				return err
			}
			for c := range w.next {
				w.next[c]++
			}
			w.rep.Watermarks++
		}
		if b >= 0 {
			if err := w.barrier(b); err != nil {
				return err
			}
		}
	}
	if !s.kind.isBlocking() {
		if err := w.await(ctx, barriers); err != nil {
			return err
		}
	}
	if err := w.out.Finish(ctx); err != nil {
		return err
	}
	w.rep.EndOfData = true
	return w.collect()
}

func (w *sender) record(ctx context.Context, c int) error {
	e := w.next[c]
	w.next[c]++
	w.buf = w.s.content(w.buf[:0], c, e)
	w.rep.record(c, w.buf)
	if n := w.s.length(c, e); w.claims(e) && n <= mostClaimed {
		p, err := w.out.ClaimBuffer(ctx, c)
		if err != nil {
			return err
		}
		if len(w.s.serialized(p[:0], c, e)) != n {
			return fmt.Errorf("element %d of channel %d has not the length that the script says", e, c)
		}
		return w.out.CommitBuffer(n)
	}
	if w.s.hasTimestamp(e) {
		return w.out.WriteToAt(ctx, c, int64(e), w.buf)
	}
	return w.out.WriteTo(ctx, c, w.buf)
}

// mostClaimed is the longest record that is written into a buffer of its own.
const mostClaimed = 256

// claims: of 32 records in a row of a channel the first four get a buffer each if they are small, so that messages hold several buffers.
func (w *sender) claims(e int) bool { return !w.s.kind.isBlocking() && e&31 < 4 }

// await waits until Flink has completed a checkpoint: one at a time, as with Flink's coordinator.
func (w *sender) await(ctx context.Context, id int64) error {
	for w.lastAck < id {
		select {
		case w.lastAck = <-w.acked:
		case <-ctx.Done():
			return fmt.Errorf("checkpoint %d is not complete: %w", id, ctx.Err())
		}
	}
	return nil
}

func (w *sender) barrier(b int) error {
	id, now := int64(b+1), time.Now()
	barrier := weir.AlignedBarrier(id, now)
	switch b % 4 {
	case timedLong:
		barrier = weir.TimedBarrier(id, now, longTimeout*time.Millisecond)
	case timedShort:
		barrier = weir.TimedBarrier(id, now, shortTimeout*time.Millisecond)
	case unaligned:
		barrier = weir.UnalignedBarrier(id, now)
	}
	cp := checkpoint{ID: id, Timestamp: barrier.Timestamp, Unaligned: b%4 == unaligned}
	for c, e := range w.next {
		cp.Low = append(cp.Low, w.s.offsets[c][e])
	}
	cp.High = cp.Low
	w.rep.Checkpoints = append(w.rep.Checkpoints, cp)
	if err := w.out.Barrier(barrier); err != nil {
		return err
	}
	return w.out.Flush() // or it would go out with the next record only
}

// collect compares what the output had in flight with the end of what was written before the barrier.
func (w *sender) collect() error {
	for i := range w.rep.Checkpoints {
		cp := &w.rep.Checkpoints[i]
		for c := range w.s.channels {
			state, err := w.flight.take(cp.ID, c)
			if err != nil {
				return err
			}
			n := int64(len(state))
			cp.State = append(cp.State, n)
			cp.Unaligned = cp.Unaligned || n > 0
			if !w.s.matches(c, cp.Low[c]-n, state) {
				return fmt.Errorf("checkpoint %d: the %d bytes in flight of subpartition %d are not what was written", cp.ID, n, c)
			}
		}
	}
	return nil
}
