package weir

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"iter"
	"sync/atomic"
	"time"

	"github.com/weirflow/weir/align"
	"github.com/weirflow/weir/credit"
	"github.com/weirflow/weir/netio"
	"github.com/weirflow/weir/segment"
	"github.com/weirflow/weir/serde"
	"github.com/weirflow/weir/task"
)

// Mode is what checkpoints guarantee.
type Mode = align.Mode

// The modes.
const (
	ExactlyOnce = align.ExactlyOnce
	AtLeastOnce = align.AtLeastOnce
)

// Unaligned says whether checkpoints may be unaligned: barriers then overtake data, and what they overtook belongs to the
// checkpoint.
type Unaligned = align.Unaligned

// The ways to handle unaligned checkpoints. UnalignedOff takes an unaligned barrier for an error. UnalignedOn takes barriers as
// they come, and aligned ones with a timeout turn unaligned when it has passed.
const (
	UnalignedOff = align.UnalignedOff
	UnalignedOn  = align.UnalignedOn
)

// Local, as a Source's Addr, is the node itself: the input reads one of its own node's outputs, by reference (LocalInputChannel).
const Local = "local"

// Source is a subpartition of an output, or several of them: each becomes a channel of the input.
type Source struct {
	// Addr is "HOST:PORT" of the node that has the output. Local: it is the input's own, and the node need not listen. What is
	// written comes by reference then: nothing is copied or granted, and a buffer belongs to the output's memory until the input has done with it.
	Addr string
	// Name is the output's name; its id is NameID(Name), unless ID is set.
	Name string
	ID   *PartitionID
	// Subpartition is the first subpartition to read, Last the last one; Last 0 means just the first.
	Subpartition int
	Last         int
	// Ranged makes one channel of all of them, rather than one of each: for outputs that send no checkpoints, as blocking ones do.
	Ranged bool
}

// channels is the number of channels that the source makes, each of width subpartitions.
func (s *Source) channels() (n, width int) {
	if n = max(s.Last, s.Subpartition) - s.Subpartition + 1; s.Ranged {
		return 1, n
	}
	return n, 1
}

// InputConfig configures an Input.
type InputConfig struct {
	Sources []Source
	// Mode says how the barriers of checkpoints are treated.
	Mode Mode
	// Unaligned says whether checkpoints may be unaligned, in mode ExactlyOnce.
	Unaligned Unaligned
	// State gets the data that unaligned barriers overtook in this input: for each channel, in order, all that lies between what was
	// handed out before the Checkpoint element and the channel's barrier. Its method runs during Next. Nil: nobody gets it, and
	// an unaligned checkpoint cannot be restored from.
	State credit.InputSink
	// Exclusive is the number of buffers that each channel has for itself: 0 means 32 for a single channel, fewer for many, at
	// least Flink's 2. Floating is how many more the channels share, by the backlog of each; 0 means 8. Negative means none. A single channel of
	// bulk is 1.1 times as fast with 2 and 70, and 64 buffers at its output, as credit then comes in portions of what the sender has ready; a
	// round trip takes 1.3 times as long, as each message is answered by a grant (docs/performance.md).
	Exclusive, Floating int
	// Wait is how long to wait for senders that are not there yet, and for partitions that do not exist yet; 0 means 30 s.
	Wait time.Duration
	// Attempt is the attempt number of the partitions that sources give by name; a task's is Task's.
	Attempt int
	// Task is what the input is part of, if its checkpoints are a task's. The goroutine that calls Next is the task's then.
	Task *Task
	// SpillDirs are where records above 5 MiB that span buffers are kept meanwhile; none means the system's.
	SpillDirs []string
}

const (
	defaultWait     = 30 * time.Second
	defaultFloating = 8
	// linkRoom is how many buffers fit between the loop and an input at least: messages may hold many. What finds no room waits at the loop.
	linkRoom = 128
	// windowTotal is shared out among the channels of an input: 64 buffers keep a socket busy, however many channels there are.
	windowTotal = 64
	maxWindow   = 32
	minWindow   = 2
	// provideLimit bounds how long a new input or output waits for memory that is its by right.
	provideLimit = 5 * time.Second
)

func (c InputConfig) channels() (n int) {
	for _, s := range c.Sources {
		k, _ := s.channels()
		n += k
	}
	return n
}

// locals is how many of the channels are local.
func (c InputConfig) locals() (n int) {
	for _, s := range c.Sources {
		if k, _ := s.channels(); s.Addr == Local {
			n += k
		}
	}
	return n
}

func (c InputConfig) withDefaults() InputConfig {
	remote := c.channels() - c.locals()
	if c.Exclusive == 0 {
		c.Exclusive = min(maxWindow, max(minWindow, windowTotal/max(1, remote)))
	}
	if c.Floating == 0 {
		c.Floating = defaultFloating
	}
	c.Exclusive, c.Floating = max(c.Exclusive, 0), max(c.Floating, 0)
	if c.Exclusive == 0 {
		c.Floating = max(c.Floating, 1) // or nothing could ever come
	}
	if remote == 0 {
		c.Exclusive, c.Floating = 0, 0
	}
	if c.Wait == 0 {
		c.Wait = defaultWait
	}
	return c
}

// segments is what the input holds at most. Local channels need none.
func (c InputConfig) segments() int { return (c.channels()-c.locals())*c.Exclusive + c.Floating }

// Kind is what an Element is.
type Kind uint8

// The kinds.
const (
	// Record: Value, and Timestamp if HasTimestamp.
	Record Kind = iota
	// Watermark: Timestamp. No record with this timestamp or an earlier one follows, on any channel.
	Watermark
	// Idle and Active: the input as a whole has nothing to expect for the while, or has again.
	Idle
	Active
	// Checkpoint: take a snapshot now, before the next element, and acknowledge it.
	Checkpoint
	// CheckpointAborted: the checkpoint will not be, or not be completed.
	CheckpointAborted
	// EndOfData: no record follows; a last checkpoint may.
	EndOfData
	// Other: a latency marker or record attributes, in Stream.
	Other
	// CheckpointComplete: of a checkpoint that was handed out before, InputConfig.State has everything now. Only with UnalignedOn, and
	// without a Task, which reports it.
	CheckpointComplete
	// EndOfRecovery: the senders of all channels have sent what they recovered. Only if they went on from a checkpoint.
	EndOfRecovery
)

// Element is what an input hands out. It is valid until the next call.
type Element struct {
	Kind         Kind
	HasTimestamp bool
	// Channel is the index of the channel that a record came through, in the order of the sources. Input.Source says whose that is.
	Channel int
	// Value is a record's bytes: a view, not to be written to.
	Value     []byte
	Timestamp int64
	// Checkpoint is set for Checkpoint and CheckpointAborted; for CheckpointComplete only with the barrier's ID.
	Checkpoint *CheckpointInfo
	// Drain: for EndOfData, whether all senders drained.
	Drain bool
	// Stream is set for Other.
	Stream *serde.Element
}

// Input reads the channels of a gate: one goroutine calls Next, All or NextBuffer. Next also does the network's work when
// there is nothing to read, so that no other thread has to wake up for a buffer. Stats and Close are for any goroutine.
type Input struct {
	task    *task.Input
	el      Element
	gate    *credit.Gate
	node    *Node
	cfg     InputConfig
	port    *credit.GatePort // the loop's
	chans   []inputChannel
	sources []int        // by channel
	patient *netio.Timer // the loop's: for how long local channels wait for their partitions
	plain   *decompressor
	ready   func() bool
	unstuck func() bool

	recovering *align.Recovering // nil: nothing was in flight
	gated      bool              // the task has outputs, whose room decides whether a record is handed out
	dataEnded  bool              // the end of the data was handed out
	drained    bool              // and all senders drained

	busy    *occupancy  // its own, or its task's
	closed  atomic.Bool // who waits goes
	closing closeOnce
	timer   alignTimer
	aligned atomic.Int64
	aborted atomic.Int64
	acked   atomic.Int64
}

// NewInput makes an input and starts to connect to its senders. What goes wrong with one of them comes from Next. Its memory is
// Exclusive segments for each channel, and Floating; the error says if that is too much.
func (n *Node) NewInput(cfg InputConfig) (*Input, error) {
	cfg = cfg.withDefaults()
	channels := cfg.channels()
	if channels < 1 {
		return nil, errors.New("weir: input without sources")
	}
	for _, s := range cfg.Sources {
		if s.Subpartition < 0 || s.Last != 0 && s.Last < s.Subpartition || s.Addr == "" {
			return nil, fmt.Errorf("weir: source %q at %q: subpartitions %d to %d", s.Name, s.Addr, s.Subpartition, s.Last)
		}
	}
	in := &Input{node: n, cfg: cfg, busy: new(occupancy)}
	if t := cfg.Task; t != nil {
		in.busy = &t.busy
		if err := t.joinInput(in); err != nil {
			return nil, err
		}
	}
	var widths []int
	for i, s := range cfg.Sources {
		k, width := s.channels()
		for range k {
			in.sources = append(in.sources, i)
			widths = append(widths, width)
		}
	}
	in.gate = credit.NewGate(credit.GateConfig{Channels: channels, Subpartitions: widths, Sink: in.cfg.State, Decompress: in.decompress})
	if cfg.Task != nil {
		cfg.Task.sleeper.Store(in)
	}
	in.timer.init(in)
	if err := in.start(); err != nil {
		if cfg.Task != nil {
			cfg.Task.leaveInput()
		}
		return nil, fmt.Errorf("weir: input of %d channels: %w", channels, err)
	}
	return in, nil
}

// start makes all of an input. An error leaves nothing behind.
func (in *Input) start() error {
	n, cfg := in.node, &in.cfg
	link := in.gate.NewLink(max(cfg.segments(), min(cfg.locals(), mostRoomy)*credit.DefaultLocalWindow, linkRoom), n.loop.Wake)
	for ch := range in.gate.Channels() {
		in.gate.SetUpstream(ch, link)
	}
	in.ready = in.busy.looks(func() bool {
		return in.closed.Load() || in.gate.Fill() > 0 || in.gate.Available() || in.timer.isDue() || cfg.Task.wants()
	})
	in.unstuck = in.busy.looks(in.isUnstuck)
	if err := in.makeTask(); err != nil {
		return err
	}
	if opened, err := n.provide(cfg.segments(), func() error { return in.open(link) }); err != nil {
		if err = n.explain(err); opened {
			err = errors.Join(err, in.Close())
		}
		return err
	}
	if err := n.add(in); err != nil {
		return errors.Join(err, in.Close())
	}
	if in.recovering == nil {
		in.request()
	}
	return nil
}

// makeTask makes what turns the gate's buffers into elements.
func (in *Input) makeTask() (err error) {
	cfg := &in.cfg
	tc := task.InputConfig{
		Mode: cfg.Mode, Unaligned: cfg.Unaligned, Timers: &in.timer, Clock: clock,
		Deserializer: serde.DeserializerConfig{MaxRecord: in.node.cfg.MaxRecord, SpillDirs: cfg.SpillDirs},
	}
	if cfg.Task != nil {
		tc.State = stateOf{cfg.Task}
	}
	if in.recovering, err = in.restore(); err != nil {
		return err
	}
	ins, err := task.NewInputs(tc, task.GateInput{Gate: in.gate, Sink: cfg.State, Recovering: in.recovering})
	if err != nil {
		return err
	}
	in.task = ins[0]
	return nil
}

// began is the origin of the clock that measures alignments, which must not jump with the wall clock.
var began = time.Now()

func clock() align.Now {
	now := time.Now()
	return align.Now{Millis: now.UnixMilli(), Nanos: int64(now.Sub(began))}
}

// provide waits until the receive pool has n segments more, as what other pools hold beyond their guarantee comes back soon, and then calls
// open, which reserves them, in the same turn: else another input could. opened tells whether it came to that.
func (n *Node) provide(segments int, open func() error) (opened bool, err error) {
	limit := time.Now().Add(provideLimit)
	for {
		err := n.do(func() error {
			if err := n.receive.Provide(segments); err != nil {
				return err
			}
			opened = true
			return open()
		})
		var few *segment.TooFewError
		if opened || !errors.As(err, &few) || time.Now().After(limit) || n.pool.Usage().Guaranteed+segments > n.pool.Segments() {
			return opened, err
		}
		time.Sleep(time.Millisecond)
	}
}

// open makes the loop's half. On the loop.
func (in *Input) open(link *credit.GateLink) (err error) {
	n, cfg := in.node, &in.cfg
	in.port, err = credit.NewGatePort(credit.GatePortConfig{Link: link, Pool: n.receive, Floating: cfg.Floating})
	if err != nil {
		return err
	}
	for _, s := range cfg.Sources {
		id := NameAttempt(s.Name, cfg.Attempt)
		if s.ID != nil {
			id = *s.ID
		}
		k, width := s.channels()
		for i := range k {
			first := int32(s.Subpartition + i)
			if err := in.openChannel(s.Addr, id, credit.SubpartitionRange{First: first, Last: first + int32(width) - 1}); err != nil {
				return err
			}
		}
	}
	n.loop.AddSource(in.port)
	return nil
}

// Source is the index of the source, in InputConfig.Sources, that a channel belongs to: which side of a join a record is of.
func (in *Input) Source(channel int) int { return in.sources[channel] }

// Next returns the next element, valid until the following call. It waits as long as ctx allows. io.EOF: every channel has
// ended. Any other error ends the input: it names the sender's address, the partition and the channel.
func (in *Input) Next(ctx context.Context) (*Element, error) {
	if in.gated && !in.room() {
		return in.next(ctx)
	}
	// task.Input.WholeRecord and element, without the calls: this is most of what a record costs.
	if d := in.task.Fast(); d != nil && !in.gate.HasPriority() {
		if p := d.Ahead(); len(p) > recordHead {
			head := binary.BigEndian.Uint64(p)
			n := int(head >> 32) // length of the record
			// Then its tag and the length of its value, which ends where the record does.
			if uint64(uint32(head))<<8|uint64(p[8]) == 1<<32|uint64(n-5) && n < len(p)-4 && n <= in.node.cfg.MaxRecord {
				in.task.Took(n + 4)
				e := &in.el
				e.Kind, e.HasTimestamp, e.Channel = Record, false, in.task.Channel()
				e.Value = p[recordHead : n+4 : n+4]
				return e, nil
			}
		}
	}
	return in.next(ctx)
}

// ErrRecord is in the error for a record that is no array of bytes.
var ErrRecord = errors.New("a record is not an array of bytes")

func (in *Input) badRecord(v []byte) error {
	err := fmt.Errorf("%w: its value has %d bytes", ErrRecord, len(v))
	return fmt.Errorf("weir: input: %w", in.gate.ChannelError(in.task.Channel(), err))
}

func (in *Input) next(ctx context.Context) (*Element, error) {
	in.busy.begin()
	defer in.busy.end()
	for {
		if in.closed.Load() {
			return nil, fmt.Errorf("weir: input is %w", ErrClosed)
		}
		err := in.turn(ctx)
		var st task.Status
		if err == nil {
			st, err = in.task.Next()
		}
		if err != nil {
			return nil, fmt.Errorf("weir: input: %w", err)
		}
		switch st {
		case task.Nothing:
			if err := in.await(ctx, in.ready); err != nil {
				return nil, fmt.Errorf("weir: input: %w", err)
			}
		case task.Element:
			if e, err := in.element(); e != nil || err != nil {
				return e, err
			}
		default:
			if e, err := in.control(ctx, st); e != nil || err != nil {
				return e, err
			}
		}
	}
}

// await waits until ready, or until the input is closed: the caller looks.
func (in *Input) await(ctx context.Context, ready func() bool) error {
	return in.busy.wait(ctx, in.node, ready, in.gate.Notifier())
}

// element turns a stream element into ours.
func (in *Input) element() (*Element, error) {
	s, e := in.task.Element(), &in.el
	*e = Element{Channel: in.task.Channel(), Timestamp: s.Timestamp}
	switch s.Kind {
	case serde.Record:
		v := s.Value
		if len(v) < 4 || int(binary.BigEndian.Uint32(v)) != len(v)-4 {
			return nil, in.badRecord(v)
		}
		e.Kind, e.HasTimestamp, e.Value = Record, s.HasTimestamp, v[4:]
	case serde.Watermark:
		e.Kind = Watermark
	case serde.WatermarkStatus:
		if e.Kind = Active; s.Idle {
			e.Kind = Idle
		}
	default:
		e.Kind, e.Stream = Other, s
	}
	return e, nil
}

// All yields what Next returns, until the end of the input, which is no error, or the first error.
func (in *Input) All(ctx context.Context) iter.Seq2[*Element, error] {
	return func(yield func(*Element, error) bool) {
		for {
			e, err := in.Next(ctx)
			if err == io.EOF {
				return
			}
			if !yield(e, err) || err != nil {
				return
			}
		}
	}
}

// NextBuffer returns the next whole buffer of an input whose senders frame their bytes themselves (Output.ClaimBuffer), and
// the channel it came through. The bytes are valid until the following call. io.EOF as from Next. Checkpoints and the end of data
// come as elements with kind, and no bytes.
func (in *Input) NextBuffer(ctx context.Context) ([]byte, *Element, error) {
	in.busy.begin()
	defer in.busy.end()
	for {
		if in.closed.Load() {
			return nil, nil, fmt.Errorf("weir: input is %w", ErrClosed)
		}
		err := in.turn(ctx)
		var b segment.Buffer
		var st task.Status
		if err == nil {
			b, st, err = in.task.NextBuffer()
		}
		if err != nil {
			return nil, nil, fmt.Errorf("weir: input: %w", err)
		}
		switch st {
		case task.Nothing:
			if err := in.await(ctx, in.ready); err != nil {
				return nil, nil, fmt.Errorf("weir: input: %w", err)
			}
		case task.Element:
			in.el.Kind, in.el.Channel = Record, in.task.Channel()
			return b.Bytes(), &in.el, nil
		default:
			if e, err := in.control(ctx, st); e != nil || err != nil {
				return nil, e, err
			}
		}
	}
}

// Channels is the number of channels.
func (in *Input) Channels() int { return in.gate.Channels() }

// Close gives everything back and lets the senders know. Buffers and records got from the input are invalid from now on. Any
// goroutine, once no other one is at work in Next; it ends a Next that waits.
func (in *Input) Close() error { return in.closing.do(in.close) }

func (in *Input) close() error {
	in.end()
	if err := in.busy.vacate(); err != nil {
		return fmt.Errorf("weir: input: %w", err)
	}
	defer in.node.remove(in) // not before: who closes the node waits for this
	if in.task != nil {
		in.task.Close()
	}
	in.gate.Close()
	in.plain.close()
	if in.recovering != nil {
		in.recovering.Close()
	}
	return in.node.do(func() error {
		in.timer.stop()
		if in.patient != nil {
			in.patient.Stop()
		}
		if in.port == nil {
			return nil
		}
		in.port.Poll()
		in.port.Close()
		in.port.Poll()
		in.node.loop.RemoveSource(in.port)
		in.node.receive.Trim()
		return nil
	})
}

// end is part of closer.
func (in *Input) end() {
	in.closed.Store(true)
	in.gate.Notifier().Wake()
}

// InputStats is what an input did so far.
type InputStats struct {
	// Aligned checkpoints, aborted ones, and those acknowledged.
	Aligned, Aborted, Acked int64
	// Channels, in order.
	Channels []ChannelStats
}

// ChannelStats is a channel's state at the moment.
type ChannelStats struct {
	// Credit is what the sender may still send, Unread what arrived and was not given back, both in buffers. A local channel has no credit,
	// and what it has handed out is not Unread.
	Credit, Unread int
	// Err ended the channel.
	Err error
}

// Stats returns what the input did so far, reusing the channels of dst. Any goroutine.
func (in *Input) Stats(dst InputStats) InputStats {
	dst.Aligned, dst.Aborted, dst.Acked = in.aligned.Load(), in.aborted.Load(), in.acked.Load()
	dst.Channels = dst.Channels[:0]
	_ = in.node.do(func() error {
		for _, ch := range in.chans {
			dst.Channels = append(dst.Channels, ch.stats())
		}
		return nil
	})
	return dst
}
