package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync"
)

// Snapshot is a member's state for one checkpoint while it is written: parts, then Ack or Decline. All methods are for any
// goroutine; each part belongs to one.
type Snapshot struct {
	e     *Epoch
	id    int64
	final bool

	mu    sync.Mutex
	parts []Part   // guarded by mu, like all below
	open  []string // parts that are being written
	err   error    // of the first part that failed
	said  bool
}

// Snapshot begins this member's part in checkpoint id. It is this member's last one if EndOfData was called before.
// Its TriggerEvent need not have come: where barriers come with the data, they may be faster than the coordinator.
func (e *Epoch) Snapshot(id int64) *Snapshot {
	e.m.mu.Lock()
	defer e.m.mu.Unlock()
	return &Snapshot{e: e, id: id, final: e.over == nil && e.m.side.ended}
}

// ID is the checkpoint's id.
func (s *Snapshot) ID() int64 { return s.id }

func (s *Snapshot) error(part string, err error) error {
	return fmt.Errorf("checkpoint: member %s, checkpoint %d, part %s: %w", s.e.m.cfg.Name, s.id, part, err)
}

// Create begins a part: a name of letters, digits, '.', '_' and '-', which no other part of this snapshot has. ctx bounds the
// writing, too. The part counts once its Close has returned nil.
func (s *Snapshot) Create(ctx context.Context, part string) (*PartWriter, error) {
	if err := checkName("part", part); err != nil {
		return nil, err
	}
	s.mu.Lock()
	taken := slices.Contains(s.open, part) || slices.ContainsFunc(s.parts, func(p Part) bool { return p.Name == part })
	if !taken {
		s.open = append(s.open, part)
	}
	s.mu.Unlock()
	if taken {
		return nil, s.error(part, fs.ErrExist)
	}
	ctx, cancel := s.e.merge(ctx)
	b, err := s.e.store().Put(ctx, s.id, s.e.m.cfg.Name+"/"+part)
	if err == nil {
		w := &PartWriter{s: s, name: part, blob: b, enc: newEncoder(b), cancel: cancel}
		if err = w.enc.begin(); err == nil {
			return w, nil
		}
		b.Abort()
	}
	cancel()
	s.closed(part, nil, err)
	return nil, s.error(part, err)
}

// closed notes that a part is written, or failed.
func (s *Snapshot) closed(name string, p *Part, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open = slices.DeleteFunc(s.open, func(n string) bool { return n == name })
	if err != nil && s.err == nil {
		s.err = s.error(name, err)
	}
	if p != nil {
		s.parts = append(s.parts, *p)
	}
}

// Put writes a part in one piece.
func (s *Snapshot) Put(ctx context.Context, part string, data []byte) error {
	w, err := s.Create(ctx, part)
	if err != nil {
		return err
	}
	if _, err := w.Write(data); err != nil {
		w.Abort()
		return err
	}
	return w.Close()
}

// Ack says that the snapshot is whole. If one of its parts failed it declines the checkpoint instead and returns that error; while
// one is being written it does neither. ErrSettled: the checkpoint is over already, which takes nothing from the one that follows.
func (s *Snapshot) Ack() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.open) > 0 {
		return s.error(s.open[0], errors.New("it is not closed"))
	}
	if s.err != nil {
		s.say(&message{Kind: msgDecline, ID: s.id, Cause: s.err.Error()})
		return s.err
	}
	if !s.say(&message{Kind: msgAck, ID: s.id, Parts: s.parts, Final: s.final}) {
		return fmt.Errorf("checkpoint: checkpoint %d: %w", s.id, ErrSettled)
	}
	return nil
}

// Decline says that this member cannot take part in the checkpoint, which is aborted then. Data goes on flowing.
func (s *Snapshot) Decline(cause error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.say(&message{Kind: msgDecline, ID: s.id, Cause: cause.Error()})
}

// say answers the checkpoint, once. With mu.
func (s *Snapshot) say(m *message) bool {
	if s.said {
		return false
	}
	s.said = true
	return s.e.say(func(side *side) []*message { return side.say(s.e.number, m) })
}

// PartWriter writes a part. One goroutine.
type PartWriter struct {
	s      *Snapshot
	name   string
	blob   Blob
	enc    *encoder
	cancel context.CancelFunc
	done   bool
}

// Write adds bytes to the part.
func (w *PartWriter) Write(p []byte) (int, error) {
	if w.done {
		return 0, w.s.error(w.name, fs.ErrClosed)
	}
	n, err := w.enc.Write(p)
	if err != nil {
		w.end(err)
		return n, w.s.error(w.name, err)
	}
	return n, nil
}

// Close ends the part: nil says that it is durable.
func (w *PartWriter) Close() error {
	if w.done {
		return w.s.error(w.name, fs.ErrClosed)
	}
	err := w.enc.end()
	if err == nil {
		err = w.blob.Commit()
	}
	w.end(err)
	if err != nil {
		return w.s.error(w.name, err)
	}
	return nil
}

// Abort gives the part up; the snapshot cannot be acknowledged then.
func (w *PartWriter) Abort() {
	if !w.done {
		w.end(errors.New("given up"))
	}
}

func (w *PartWriter) end(err error) {
	w.done = true
	if err != nil {
		w.blob.Abort()
		w.s.closed(w.name, nil, err)
	} else {
		w.s.closed(w.name, &Part{Name: w.name, Size: w.enc.size, Sum: w.enc.sum}, nil)
	}
	w.cancel()
}
