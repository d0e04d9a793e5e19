package align

import (
	"fmt"

	"github.com/weirflow/weir/credit"
	"github.com/weirflow/weir/segment"
	"github.com/weirflow/weir/serde/event"
)

// LimitKey is the key of Flink's configuration that StoringConfig.Limit stands for.
const LimitKey = "task.checkpoint.alignment.max-size"

// StoredGate is the gate of an input that blocks by storing. *credit.Gate is one.
type StoredGate interface {
	Channels() int
	Poll() (credit.Item, credit.Status, error)
	Resume(channel int) error
	AckAll(channel int) error
}

// StoringConfig is what NewStoring needs.
type StoringConfig struct {
	Mode Mode
	// Limit is the number of bytes that may be stored for one checkpoint, -1 for any. A checkpoint that would need more
	// is aborted, so that its data flows again. Flink 1.8: task.checkpoint.alignment.max-size.
	Limit int64
	// Bounded: the senders are held back by credit, so what is stored stays in memory. Otherwise it goes to files.
	Bounded bool
	// PageSize is the size of a segment.
	PageSize int
	// Dirs are the directories of the files, used in turn; none: the system's one.
	Dirs []string
	Gate StoredGate
	// Clock is read when an alignment begins or ends.
	Clock func() Now
}

// Poller hands out the items of a gate, barriers aside. It belongs to the task's goroutine.
type Poller interface {
	// Poll is Gate.Poll without barriers and cancel markers: these steer checkpoints.
	Poll() (credit.Item, credit.Status, error)
	// Register sets the task, once; without one nobody is told about checkpoints. A second time wraps ErrState.
	Register(task Task) error
	// Close gives back what is stored.
	Close() error
}

// NewStoring makes the input that the configuration asks for, in the way of Flink 1.5 to 1.8: with ExactlyOnce a
// Storing, with AtLeastOnce a Counting (which needs no limit, so it isn't checked). Errors wrap ErrConfig.
func NewStoring(cfg StoringConfig) (Poller, error) {
	if cfg.Gate == nil || cfg.Clock == nil {
		return nil, fmt.Errorf("%w: blocking by storing needs a gate and a clock", ErrConfig)
	}
	switch cfg.Mode {
	case ExactlyOnce:
		if cfg.Limit <= 0 && cfg.Limit != -1 {
			return nil, fmt.Errorf("%w: %s must be positive or -1 (infinite), not %d", ErrConfig, LimitKey, cfg.Limit)
		}
		var store Store
		var err error
		if cfg.Bounded {
			store, err = NewMemoryStore(cfg.PageSize)
		} else {
			store, err = NewFileStore(cfg.PageSize, cfg.Dirs...)
		}
		if err != nil {
			return nil, err
		}
		n := cfg.Gate.Channels()
		return &Storing{gate: cfg.Gate, clock: cfg.Clock, store: store, limit: cfg.Limit, total: n, current: -1,
			blocked: newChannelSet(n), task: noTask{}}, nil
	case AtLeastOnce:
		return newCounting(cfg), nil
	}
	return nil, fmt.Errorf("%w: unrecognized checkpointing mode: %v", ErrConfig, cfg.Mode)
}

// Storing is the older way to align (Flink 1.5 to 1.8: BarrierBuffer): the receiver takes what blocked channels bring,
// stores it, and replays it once the checkpoint is triggered or given up. It serves senders that do not stop at a
// barrier; those that do are resumed at once. A limit bounds what is stored. One checkpoint runs at a time.
//
// Everything goes through Poll: it stores items of blocked channels, and reads what was stored before anything new.
// What is replayed is looked at again, so a barrier in it may block its channel once more, and the rest is stored again.
type Storing struct {
	gate  StoredGate
	clock func() Now
	task  Task
	named bool // a task was registered
	limit int64
	total int

	current  int64 // newest checkpoint that began or was cancelled, -1 at first
	barriers int   // of the running alignment; 0: none runs
	closed   int   // channels that ended
	blocked  channelSet

	store   Store
	replay  Sequence   // being read, nil: read from the gate
	queue   []Sequence // to be read after it, the next one first
	queued  int64      // their bytes
	atEnd   bool       // the gate has no more
	started int64      // ns, of the running alignment
	running bool
	nanos   int64 // of the last alignment

	event event.Event
	bytes []byte // of the replayed event at hand
}

// Register sets the task.
func (s *Storing) Register(task Task) error {
	if s.named {
		return fmt.Errorf("%w: a task is registered already", ErrState)
	}
	s.task, s.named = task, true
	return nil
}

// AlignmentNanos is the age of the running alignment, or the length of the last one, in ns.
func (s *Storing) AlignmentNanos() int64 {
	if s.running {
		return s.clock().Nanos - s.started
	}
	return s.nanos
}

// Latest is the newest checkpoint that began or was cancelled, or -1.
func (s *Storing) Latest() int64 { return s.current }

// Poll hands out the next item that may be processed: from what is replayed, then from the gate. None: the gate has
// nothing now. End: nothing is left, stored or not. An error ends the task. (getNextNonBlocked)
func (s *Storing) Poll() (credit.Item, credit.Status, error) {
	for {
		it, st, err := s.next()
		if err != nil {
			return credit.Item{}, credit.None, err
		}
		if st == credit.None {
			return credit.Item{}, credit.None, nil
		}
		if st == credit.End {
			if s.atEnd {
				return credit.Item{}, credit.End, nil
			}
			s.atEnd = true
			if err := s.release(); err != nil {
				return credit.Item{}, credit.None, err
			}
			continue
		}
		if it.Channel < 0 || it.Channel >= s.total {
			return credit.Item{}, credit.None, fmt.Errorf("%w: %d of %d", ErrUnknownChannel, it.Channel, s.total)
		}
		if it.Event != nil && it.Event.Kind == event.Announcement {
			continue // nothing turns unaligned here
		}
		if s.blocked.has(it.Channel) {
			err = s.keep(&it)
		} else if it.Event == nil {
			return it, credit.Ready, nil
		} else {
			var out bool
			if out, err = s.handle(&it); out && err == nil {
				return it, credit.Ready, nil
			}
		}
		if err != nil {
			return credit.Item{}, credit.None, err
		}
	}
}

// next takes the next item from the replay, else from the gate.
func (s *Storing) next() (credit.Item, credit.Status, error) {
	for s.replay != nil {
		ch, b, ok, err := s.replay.Next()
		if err != nil {
			return credit.Item{}, credit.None, err
		}
		if ok {
			it, err := s.restored(ch, b)
			return it, credit.Ready, err
		}
		if err := s.completeReplay(); err != nil {
			return credit.Item{}, credit.None, err
		}
	}
	it, st, err := s.gate.Poll()
	if st == credit.Ready && err == nil && it.Event != nil {
		// To the sender the item has been dealt with, whether it is stored or not.
		if it.Type.BlocksUpstream() {
			err = s.gate.Resume(it.Channel)
		} else if it.Event.Kind == event.EndOfData {
			err = s.gate.AckAll(it.Channel)
		}
	}
	return it, st, err
}

// restored makes an item of what was stored.
func (s *Storing) restored(ch int, b segment.Buffer) (credit.Item, error) {
	it := credit.Item{Channel: ch, Subpartition: -1, Type: b.Type(), More: true}
	if b.Type().IsBuffer() {
		it.Buf = b
		return it, nil
	}
	s.bytes = append(s.bytes[:0], b.Bytes()...)
	b.Release()
	if err := event.Decode(s.bytes, &s.event); err != nil {
		return it, fmt.Errorf("align: stored event of channel %d: %w", ch, err)
	}
	it.Event, it.Type = &s.event, event.DataTypeOf(&s.event, false)
	return it, nil
}

// completeReplay goes on to the next sequence.
func (s *Storing) completeReplay() error {
	old := s.replay
	s.replay = nil
	if len(s.queue) > 0 {
		s.replay = s.queue[0]
		s.queue = append(s.queue[:0], s.queue[1:]...)
		s.queued -= s.replay.Size()
	}
	if err := old.Close(); err != nil {
		return err
	}
	if s.replay != nil {
		return s.replay.Open()
	}
	return nil
}

// keep stores an item of a blocked channel, and gives the checkpoint up if that is too much.
func (s *Storing) keep(it *credit.Item) error {
	b := it.Buf
	if it.Event != nil {
		b = segment.Wrap(event.Append(nil, it.Event), it.Type)
	}
	if err := s.store.Add(it.Channel, b); err != nil {
		return err
	}
	if s.limit > 0 && s.queued+s.store.Bytes() > s.limit {
		id := s.current
		if err := s.release(); err != nil {
			return err
		}
		return s.abort(id, &CheckpointError{Reason: ReasonAlignmentLimit, Limit: s.limit})
	}
	return nil
}

// handle deals with an event of a channel that is not blocked, and reports whether it is handed out.
func (s *Storing) handle(it *credit.Item) (out bool, err error) {
	switch e := it.Event; e.Kind {
	case event.CheckpointBarrier:
		if e.Barrier.Options.IsUnaligned() {
			return false, fmt.Errorf("%w: unaligned barrier on channel %d, where blocked channels are stored", ErrState, it.Channel)
		}
		if !s.atEnd {
			err = s.barrier(it.Channel, &e.Barrier)
		}
		return false, err
	case event.CancelCheckpoint:
		return false, s.cancel(e.CheckpointID)
	case event.EndOfPartition:
		s.closed++
		if s.barriers > 0 {
			id := s.current
			if err = s.abort(id, &CheckpointError{Reason: ReasonEndOfStream}); err == nil {
				err = s.release()
			}
		}
		return true, err
	}
	return true, nil
}

// barrier is processBarrier.
func (s *Storing) barrier(ch int, b *event.Barrier) error {
	switch {
	case s.total == 1:
		if b.ID > s.current {
			s.current = b.ID
			return s.trigger(b)
		}
		return nil
	case s.barriers > 0 && b.ID == s.current:
		if err := s.count(ch); err != nil {
			return err
		}
	case b.ID <= s.current:
		return nil // old, or cancelled
	default:
		if s.barriers > 0 {
			if err := s.abort(s.current, &CheckpointError{Reason: ReasonSubsumed, Newer: b.ID}); err != nil {
				return err
			}
			if err := s.release(); err != nil {
				return err
			}
		}
		s.current = b.ID
		s.running, s.started = true, s.clock().Nanos
		if err := s.count(ch); err != nil {
			return err
		}
	}
	if s.barriers+s.closed < s.total {
		return nil
	}
	// What was stored stands ready to be replayed first, and still the checkpoint is triggered before any of it.
	if err := s.release(); err != nil {
		return err
	}
	return s.trigger(b)
}

// count is onBarrier: the channel is blocked from here on.
func (s *Storing) count(ch int) error {
	if !s.blocked.add(ch) {
		return fmt.Errorf("%w: stream corrupt: repeated barrier of checkpoint %d on channel %d", ErrState, s.current, ch)
	}
	s.barriers++
	return nil
}

// cancel is processCancellationBarrier.
func (s *Storing) cancel(id int64) error {
	switch {
	case s.total > 1 && s.barriers > 0 && id == s.current:
		if err := s.release(); err != nil {
			return err
		}
	case id <= s.current:
		return nil
	default:
		if s.barriers > 0 {
			// Flink gives the newer id twice here and never the older one.
			old := s.current
			if err := s.release(); err != nil {
				return err
			}
			if err := s.abort(old, &CheckpointError{Reason: ReasonSubsumed, Newer: id}); err != nil {
				return err
			}
		}
		s.current, s.nanos = id, 0
	}
	return s.abort(id, &CheckpointError{Reason: ReasonCancelled})
}

// release is releaseBlocks: what was stored comes before what is being replayed, since it came out of it or behind it.
func (s *Storing) release() error {
	s.blocked.clear()
	s.barriers = 0
	if s.running {
		s.running, s.nanos = false, s.clock().Nanos-s.started
	}
	seq, err := s.store.RollOver(s.replay == nil)
	if err != nil || seq == nil {
		return err
	}
	if err := seq.Open(); err != nil {
		return errorsJoin(err, seq.Close())
	}
	if s.replay != nil {
		s.queue = append(s.queue, nil)
		copy(s.queue[1:], s.queue)
		s.queue[0] = s.replay
		s.queued += s.replay.Size()
	}
	s.replay = seq
	return nil
}

func (s *Storing) trigger(b *event.Barrier) error {
	m := Metrics{Known: true, AlignmentNanos: s.nanos, StartDelayNanos: delayNanos(b.Timestamp, s.clock().Millis)}
	if s.replay != nil {
		m.AlignmentBytes = s.replay.Size()
	}
	if err := s.task.Trigger(b, m); err != nil {
		return fmt.Errorf("align: checkpoint %d: %w", b.ID, err)
	}
	s.task.Complete(b.ID)
	return nil
}

func (s *Storing) abort(id int64, cause *CheckpointError) error {
	if err := s.task.Abort(id, cause); err != nil {
		return fmt.Errorf("align: abort of checkpoint %d: %w", id, err)
	}
	return nil
}

// Close gives back what is stored and not replayed.
func (s *Storing) Close() error {
	err := s.store.Close()
	if s.replay != nil {
		err = errorsJoin(err, s.replay.Close())
		s.replay = nil
	}
	for _, q := range s.queue {
		err = errorsJoin(err, q.Close())
	}
	s.queue, s.queued = nil, 0
	return err
}
