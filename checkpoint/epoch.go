package checkpoint

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"slices"
)

// Epoch is a member's part in an attempt of the pipeline: its number belongs in the partition ids, so that no two attempts meet. All
// methods are for any goroutine.
type Epoch struct {
	m        *Member
	number   int32
	restored *Restored // nil: from the beginning
	finished bool
	ctx      context.Context
	cancel   context.CancelCauseFunc

	events []Event // guarded by m.mu
	over   error   // guarded by m.mu
}

func newEpoch(m *Member, w *message) *Epoch {
	e := &Epoch{m: m, number: w.Epoch, finished: w.Finished}
	e.ctx, e.cancel = context.WithCancelCause(context.Background())
	if r := w.Restored; r != nil {
		e.restored = &Restored{e: e, state: *r}
	}
	return e
}

// Number is the epoch's number, from 1: the attempt number in partition ids.
func (e *Epoch) Number() int32 { return e.number }

// Restored is the checkpoint that the epoch begins with; nil: it begins from the beginning.
func (e *Epoch) Restored() *Restored { return e.restored }

// Finished tells whether the pipeline has reached its end, and this epoch is only there to commit what the last checkpoint contains.
func (e *Epoch) Finished() bool { return e.finished }

// Context ends when the epoch does. Its cause (context.Cause) says why: ErrFenced, ErrReplaced, ErrCoordinatorAway, ErrClosed.
func (e *Epoch) Context() context.Context { return e.ctx }

// Next returns the next event. It waits as long as ctx allows. When the epoch is over its error is the cause, and events that were
// not read are dropped: the next epoch's restored checkpoint says what became of them.
func (e *Epoch) Next(ctx context.Context) (Event, error) {
	e.m.mu.Lock()
	defer e.m.mu.Unlock()
	for {
		if e.over != nil {
			return Event{}, e.over
		}
		if len(e.events) > 0 {
			ev := e.events[0]
			e.events = e.events[1:]
			return ev, nil
		}
		if err := e.m.wait(ctx); err != nil {
			return Event{}, err
		}
	}
}

// Outstanding are the checkpoints that were triggered, and are neither settled nor answered by this member: what a member whose inputs
// have all ended takes a snapshot for.
func (e *Epoch) Outstanding() []Trigger {
	e.m.mu.Lock()
	defer e.m.mu.Unlock()
	if e.over != nil {
		return nil
	}
	var list []Trigger
	for _, id := range e.m.side.ids() {
		if c := e.m.side.open[id]; c.said == nil {
			list = append(list, c.trigger)
		}
	}
	return list
}

// say lets side say something in this epoch. False: there is nothing to say, or the epoch is over.
func (e *Epoch) say(f func(s *side) []*message) bool {
	e.m.mu.Lock()
	defer e.m.mu.Unlock()
	if e.over != nil {
		return false
	}
	msgs := f(e.m.side)
	e.m.queue(msgs)
	return len(msgs) > 0
}

// EndOfData says that this member has reached the end of its data: a snapshot that is begun from now on is its last one. It goes on to
// answer triggers. When all members are there, the coordinator begins the last checkpoint.
func (e *Epoch) EndOfData() {
	e.say(func(s *side) []*message { return s.end(e.number) })
}

// Fail says that this member cannot go on in the epoch, for one because a connection to another member was lost. The coordinator
// fences the epoch, which Context and Next tell.
func (e *Epoch) Fail(cause error) {
	e.say(func(s *side) []*message { return s.fail(e.number, cause.Error()) })
}

// Finish says that everything is committed, after the CompletedEvent that is Last, or in an epoch that is Finished. It waits for
// the coordinator to have written that down; then the process may end.
func (e *Epoch) Finish(ctx context.Context) error {
	e.say(func(s *side) []*message { return s.bye(e.number) })
	e.m.mu.Lock()
	defer e.m.mu.Unlock()
	for {
		if e.m.side.goodbye && e.over == nil {
			return nil
		}
		if e.over != nil {
			return e.over
		}
		if err := e.m.wait(ctx); err != nil {
			return err
		}
	}
}

// store is where this member's parts are.
func (e *Epoch) store() parts {
	if e.m.cfg.Store != nil {
		return e.m.cfg.Store
	}
	return remoteStore{e}
}

// merge is a context that ends with ctx and with the epoch.
func (e *Epoch) merge(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(e.ctx, func() { cancel(context.Cause(e.ctx)) })
	return ctx, func() {
		stop()
		cancel(context.Canceled)
	}
}

// Restored is what a member put into the checkpoint that an epoch begins with.
type Restored struct {
	e     *Epoch
	state restoredState
}

// ID is the checkpoint's id; 0 of a nil Restored.
func (r *Restored) ID() int64 {
	if r == nil {
		return 0
	}
	return r.state.ID
}

// Epoch is the one that the checkpoint was taken in.
func (r *Restored) Epoch() int32 { return r.state.Epoch }

// Final tells whether this member had reached the end of its data.
func (r *Restored) Final() bool { return r.state.State.Final }

// Parts are the names of the parts, in the order in which they were put.
func (r *Restored) Parts() []string {
	var names []string
	for _, p := range r.state.State.Parts {
		names = append(names, p.Name)
	}
	return names
}

// Open reads a part. An error with ErrDamaged or ErrFormat comes before a byte that is wrong is handed out, and one with fs.ErrNotExist
// if there is no such part. Reading ends with ctx, and with the epoch. Close it.
func (r *Restored) Open(ctx context.Context, part string) (io.ReadCloser, error) {
	parts := r.state.State.Parts
	i := slices.IndexFunc(parts, func(p Part) bool { return p.Name == part })
	if i < 0 {
		return nil, fmt.Errorf("checkpoint: checkpoint %d, part %s/%s: %w", r.state.ID, r.e.m.cfg.Name, part, fs.ErrNotExist)
	}
	ctx, cancel := r.e.merge(ctx)
	rc, err := openPart(ctx, r.e.store(), r.state.ID, r.e.m.cfg.Name, parts[i])
	if err != nil {
		cancel()
		return nil, err
	}
	return &cancelReader{rc, cancel}, nil
}

// Get reads a part that has at most limit bytes.
func (r *Restored) Get(ctx context.Context, part string, limit int64) ([]byte, error) {
	rc, err := r.Open(ctx, part)
	if err != nil {
		return nil, err
	}
	defer rc.Close()
	data, err := io.ReadAll(io.LimitReader(rc, limit+1))
	if err == nil && int64(len(data)) > limit {
		err = fmt.Errorf("checkpoint: checkpoint %d, part %s/%s: more than %d bytes", r.state.ID, r.e.m.cfg.Name, part, limit)
	}
	return data, err
}

type cancelReader struct {
	io.ReadCloser
	cancel context.CancelFunc
}

func (r *cancelReader) Close() error {
	defer r.cancel()
	return r.ReadCloser.Close()
}
