package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/weirflow/weir"
)

// receiveCell: Flink sends, weir receives.
func receiveCell(ctx context.Context, p *peer, e ends, s *script) (sent, got *report, err error) {
	if err := p.command("send %d %d %d %s %s", s.seed, s.channels, s.rounds, e.folder, s.kind); err != nil {
		return nil, nil, err
	}
	addr, id, err := p.ready(ctx)
	if err != nil {
		return nil, nil, err
	}
	flight := newInFlight()
	ic := weir.InputConfig{
		Sources:   []weir.Source{{Addr: addr, ID: &id, Last: s.channels - 1}},
		Unaligned: weir.UnalignedOn, State: flight, Wait: 3 * e.handshake,
	}
	if s.kind.isBlocking() {
		ic.State, ic.Unaligned = nil, weir.UnalignedOff
	}
	cfg := weir.Config{Flink: e.release, TLS: e.tls, SegmentSize: e.segment, HandshakeTimeout: e.handshake}
	node, err := open(cfg, nil, []weir.InputConfig{ic})
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, node.Close()) }()
	in, err := node.NewInput(ic)
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	r := &receiver{s: s, p: p, completed: e.completed, in: in, flight: flight, rep: newReport(s.channels), next: make([]int, s.channels), lastMark: -1}
	if err := r.run(ctx); err != nil {
		return nil, nil, errors.Join(err, p.failure())
	}
	r.rep.Wire = int64(node.Stats().Loop.ReadBytes)
	if err := in.Close(); err != nil {
		return nil, nil, err
	}
	if s.kind.isBlocking() { // it does not end with its consumers
		if err := p.command("ack 1"); err != nil {
			return nil, nil, err
		}
	}
	sent, err = p.follow(ctx, "", nil)
	return sent, r.rep, err
}

// receiver reads and compares what comes.
type receiver struct {
	s  *script
	p  *peer
	in *weir.Input
	// completed is called for each checkpoint; may be nil.
	completed func(int64)
	flight    *inFlight
	rep       *report
	next      []int // by channel: the element behind the last record
	pending   *checkpoint
	lastMark  int64
	buf       []byte
}

func (r *receiver) run(ctx context.Context) error {
	for e, err := range r.in.All(ctx) {
		if err == nil {
			err = r.element(e)
		}
		if err != nil {
			return err
		}
	}
	for c, e := range r.next {
		for ; e < len(r.s.elements[c]); e++ {
			if r.s.isRecord(c, e) {
				return fmt.Errorf("channel %d ended before record %d", c, e)
			}
		}
	}
	if r.pending != nil {
		return fmt.Errorf("checkpoint %d is not complete at the end", r.pending.ID)
	}
	return nil
}

func (r *receiver) element(e *weir.Element) error {
	switch e.Kind {
	case weir.Record:
		return r.record(e)
	case weir.Watermark:
		return r.watermark(e.Timestamp)
	case weir.Checkpoint:
		return r.begin(e.Checkpoint)
	case weir.CheckpointComplete:
		return r.complete(e.Checkpoint.Barrier.ID)
	case weir.CheckpointAborted:
		return fmt.Errorf("checkpoint %d was aborted: %w", e.Checkpoint.Barrier.ID, e.Checkpoint.Cause)
	case weir.EndOfData:
		r.rep.EndOfData = e.Drain
		return nil
	}
	return fmt.Errorf("an element of kind %d", e.Kind)
}

func (r *receiver) record(el *weir.Element) error {
	c := el.Channel
	e := r.behindMarks(c)
	if e == len(r.s.elements[c]) || r.rep.EndOfData {
		return fmt.Errorf("channel %d has a record after its end", c)
	}
	r.buf = r.s.content(r.buf[:0], c, e)
	if !bytes.Equal(el.Value, r.buf) {
		return fmt.Errorf("channel %d, record %d of %d bytes is not what was sent", c, e, len(el.Value))
	}
	if el.HasTimestamp != r.s.hasTimestamp(e) || el.HasTimestamp && el.Timestamp != int64(e) {
		return fmt.Errorf("channel %d, record %d has timestamp %d (%v)", c, e, el.Timestamp, el.HasTimestamp)
	}
	r.next[c] = e + 1
	r.rep.record(c, el.Value)
	time.Sleep(time.Duration(r.s.pauses[c][e]) * time.Millisecond)
	return nil
}

// behindMarks is the next element of a channel that is no watermark. Those of a single channel do not show here.
func (r *receiver) behindMarks(c int) int {
	e := r.next[c]
	for e < len(r.s.elements[c]) && !r.s.isRecord(c, e) {
		e++
	}
	return e
}

// watermark checks that all records before the watermark were handed out, on all channels.
func (r *receiver) watermark(t int64) error {
	if t <= r.lastMark {
		return fmt.Errorf("watermark %d after %d", t, r.lastMark)
	}
	for c := range r.s.channels {
		e := r.next[c]
		if e < len(r.s.elements[c]) && r.s.elements[c][e] == -1-int(t) {
			continue // the watermark is right behind the last record
		}
		for e--; e >= 0 && r.s.isRecord(c, e); e-- {
		}
		if e < 0 || -1-r.s.elements[c][e] < int(t) {
			return fmt.Errorf("watermark %d came before all records of channel %d before it", t, c)
		}
	}
	r.lastMark = t
	r.rep.Watermarks++
	return nil
}

func (r *receiver) begin(info *weir.CheckpointInfo) error {
	if r.pending != nil {
		return fmt.Errorf("checkpoint %d begins before %d is complete", info.Barrier.ID, r.pending.ID)
	}
	cp := &checkpoint{ID: info.Barrier.ID, Timestamp: info.Barrier.Timestamp, Unaligned: info.Barrier.Options.IsUnaligned()}
	for c, e := range r.next {
		cp.Low = append(cp.Low, r.s.offsets[c][e])
		cp.High = append(cp.High, r.s.offsets[c][r.behindMarks(c)])
	}
	r.pending = cp
	info.Ack()
	return nil
}

// complete compares what was in flight with what comes behind the records that were handed out.
func (r *receiver) complete(id int64) error {
	cp := r.pending
	if cp == nil || cp.ID != id {
		return fmt.Errorf("checkpoint %d is complete and has not begun", id)
	}
	r.pending = nil
	for c := range r.s.channels {
		state, err := r.flight.take(id, c)
		if err != nil {
			return err
		}
		cp.State = append(cp.State, int64(len(state)))
		low, high := r.s.matches(c, cp.Low[c], state), r.s.matches(c, cp.High[c], state)
		switch {
		case !low && !high:
			return fmt.Errorf("checkpoint %d: the %d bytes in flight of channel %d are not what was sent", id, len(state), c)
		case !low:
			cp.Low[c] = cp.High[c]
		case !high:
			cp.High[c] = cp.Low[c]
		}
	}
	r.rep.Checkpoints = append(r.rep.Checkpoints, *cp)
	if r.completed != nil {
		r.completed(id)
	}
	return r.p.command("ack %d", id)
}
