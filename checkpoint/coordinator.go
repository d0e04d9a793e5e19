package checkpoint

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"slices"
	"sync"
	"time"
)

// CoordinatorConfig configures a Coordinator.
type CoordinatorConfig struct {
	// Members are the names of all members. The pipeline runs while all of them are there. The set belongs to the pipeline: a store
	// that was written with another one is refused.
	Members []string
	// Store keeps the checkpoints. If it is a Locker, Run locks it.
	Store Store
	// Listen is where members come to: "HOST:PORT", port 0 for a free one. Or Listener, which the coordinator closes.
	Listen   string
	Listener net.Listener
	// TLS secures every connection; it is cloned. Whether members need a certificate is its ClientAuth. Nil: no TLS, and whoever reaches
	// the address can take part.
	TLS *tls.Config
	// Interval is the time between two triggers; 0 means 10 s. MinPause is the least time between the end of a checkpoint and the next
	// trigger. Timeout is how long a checkpoint may take; 0 means 10 min. MaxInFlight is how many may be under way; 0 means 1.
	Interval, MinPause, Timeout time.Duration
	MaxInFlight                 int
	// Retain is how many completed checkpoints are kept; 0 means 3.
	Retain int
	// MemberTimeout is after how long without a sign of life, or without a connection, a member is lost; 0 means 10 s. Members
	// are told.
	MemberTimeout time.Duration
	// Alignment and AlignmentTimeout (of Timed) are for the barriers; each Trigger carries them.
	Alignment        Alignment
	AlignmentTimeout time.Duration
	// Logger gets what happens. Nil: nobody does.
	Logger *slog.Logger
}

const (
	defaultInterval      = 10 * time.Second
	defaultTimeout       = 10 * time.Minute
	defaultRetain        = 3
	defaultMemberTimeout = 10 * time.Second
	// retryPause is how long the coordinator waits after its store failed.
	retryPause = time.Second
	// maxMembers bounds the members: a message names each of them.
	maxMembers = 1024
	// handshakeLimit bounds the time until a connection has said what it is for.
	handshakeLimit = 10 * time.Second
)

func (c CoordinatorConfig) withDefaults() CoordinatorConfig {
	if c.Interval == 0 {
		c.Interval = defaultInterval
	}
	if c.Timeout == 0 {
		c.Timeout = defaultTimeout
	}
	if c.MaxInFlight == 0 {
		c.MaxInFlight = 1
	}
	if c.Retain == 0 {
		c.Retain = defaultRetain
	}
	if c.MemberTimeout == 0 {
		c.MemberTimeout = defaultMemberTimeout
	}
	c.Members = slices.Clone(c.Members)
	slices.Sort(c.Members)
	return c
}

func (c *CoordinatorConfig) check() error {
	if len(c.Members) == 0 || len(c.Members) > maxMembers {
		return fmt.Errorf("checkpoint: coordinator with %d members: want 1 to %d", len(c.Members), maxMembers)
	}
	for i, name := range c.Members {
		if err := checkName("member", name); err != nil {
			return err
		}
		if i > 0 && c.Members[i-1] == name {
			return fmt.Errorf("checkpoint: member %s is named twice", name)
		}
	}
	if c.Store == nil {
		return errors.New("checkpoint: coordinator without a store")
	}
	if c.Interval < 0 || c.MinPause < 0 || c.Timeout < 0 || c.MaxInFlight < 0 || c.Retain < 0 || c.MemberTimeout < 0 {
		return errors.New("checkpoint: coordinator with a negative time or number")
	}
	return nil
}

// ErrMembers is in the error for a store that was written by a pipeline with other members.
var ErrMembers = errors.New("the members are not those of the stored pipeline")

// Coordinator brings the members of a pipeline to the same epoch and checkpoint, begins checkpoints, and decides when one is
// completed. It may run in a process of its own or in any other one. If it dies, data goes on flowing, and no checkpoint
// completes until it is started again with the same store. All methods are for any goroutine.
type Coordinator struct {
	cfg     CoordinatorConfig
	ln      net.Listener
	archive *Archive
	core    *core // Run's goroutine's
	conns   map[connID]*serverConn
	posts   chan func()
	jobs    chan action
	ctx     context.Context // ends when Run does
	done    chan struct{}   // closed with it
	wg      sync.WaitGroup
	slots   chan struct{} // one for each connection

	mu     sync.Mutex
	status Status // guarded by mu
	ran    bool   // guarded by mu
	failed error  // Run's
	back   bool   // Run's: the pipeline had finished before
	clock  clock  // Run's
}

// Status is how a pipeline stands.
type Status struct {
	// Phase is loading, gathering, opening, running, returning, fencing, finishing or finished.
	Phase string
	// Epoch is the newest one, Restored the checkpoint that it began with, Completed the newest checkpoint; 0 if there is none.
	Epoch     int32
	Restored  int64
	Completed int64
	// InFlight are the checkpoints under way.
	InFlight []int64
	Counts   Counts
	// Members, by name.
	Members []MemberStatus
}

// MemberStatus is how a member stands.
type MemberStatus struct {
	Name string
	// Standing is absent, connected, joined, running, away or gone.
	Standing string
	// Ended: it has reached the end of its data.
	Ended bool
}

// clock counts the time that the coordinator was awake: what it slept through, stopped or swapped out, is nobody else's silence.
type clock struct {
	last time.Time
	now  time.Duration
	most time.Duration // of one step
}

func (c *clock) read() time.Duration {
	t := time.Now()
	if !c.last.IsZero() {
		c.now += min(max(t.Sub(c.last), 0), c.most)
	}
	c.last = t
	return c.now
}

// NewCoordinator makes a coordinator and listens. Run does the rest.
func NewCoordinator(cfg CoordinatorConfig) (*Coordinator, error) {
	cfg = cfg.withDefaults()
	if err := cfg.check(); err != nil {
		return nil, err
	}
	c := &Coordinator{
		cfg: cfg, archive: NewArchive(cfg.Store), conns: map[connID]*serverConn{}, posts: make(chan func(), 64),
		jobs: make(chan action, 1024), done: make(chan struct{}), ln: cfg.Listener,
		slots: make(chan struct{}, 256+16*len(cfg.Members)),
	}
	c.clock.most = cfg.MemberTimeout / 2
	c.core = newCore(coreConfig{
		members: cfg.Members, interval: cfg.Interval, minPause: cfg.MinPause, timeout: cfg.Timeout, maxInFlight: cfg.MaxInFlight,
		memberTimeout: cfg.MemberTimeout, alignment: cfg.Alignment, alignTimeout: cfg.AlignmentTimeout,
		retry: retryPause,
	})
	if c.ln == nil {
		ln, err := net.Listen("tcp", cfg.Listen)
		if err != nil {
			return nil, fmt.Errorf("checkpoint: coordinator: %w", err)
		}
		c.ln = ln
	}
	if cfg.TLS != nil {
		c.ln = tls.NewListener(c.ln, cfg.TLS.Clone())
	}
	c.publish()
	return c, nil
}

// Addr is where the coordinator listens.
func (c *Coordinator) Addr() net.Addr { return c.ln.Addr() }

// Status returns how the pipeline stands.
func (c *Coordinator) Status() Status {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.status
}

// Close gives up the address of a coordinator that is not run. One that runs ends with its context.
func (c *Coordinator) Close() error { return c.ln.Close() }

// Run coordinates until the pipeline has finished, which is no error, ctx ends, or there is something that only a person can put
// right: ErrNoneWhole, ErrMembers, ErrLocked, or a store that cannot be read at the start. It can be called once.
func (c *Coordinator) Run(ctx context.Context) error {
	c.mu.Lock()
	ran := c.ran
	c.ran = true
	c.mu.Unlock()
	if ran {
		return errors.New("checkpoint: a coordinator runs once")
	}
	ctx, cancel := context.WithCancel(ctx)
	c.ctx = ctx
	defer func() {
		cancel()
		close(c.done)
		_ = c.ln.Close()
		for _, s := range c.conns {
			_ = s.conn.Close()
		}
		c.wg.Wait()
	}()
	if l, ok := c.cfg.Store.(Locker); ok {
		unlock, err := l.Lock()
		if err != nil {
			return err
		}
		defer func() { _ = unlock() }()
	}
	if err := c.load(ctx); err != nil {
		return err
	}
	c.wg.Go(c.accept)
	c.wg.Go(c.work)
	return c.loop()
}

// load reads what a coordinator before this one left.
func (c *Coordinator) load(ctx context.Context) error {
	var rec *record
	data, err := c.cfg.Store.LoadState(ctx)
	switch {
	case err == nil:
		rec = new(record)
		if err := unseal(stateKind, data, rec); err != nil {
			return fmt.Errorf("checkpoint: state: %w", err)
		}
		slices.Sort(rec.Members)
		if !slices.Equal(rec.Members, c.cfg.Members) {
			return fmt.Errorf("checkpoint: %w: %q there, %q here", ErrMembers, rec.Members, c.cfg.Members)
		}
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	good := func(*Metadata) bool { return true }
	if rec != nil {
		good = rec.good
	}
	m, err := c.latest(ctx, good)
	if err != nil {
		return err
	}
	c.core.loaded(c.clock.read(), rec, m)
	c.back = c.core.phase == phaseFinished
	return nil
}

// latest is the newest whole good checkpoint; what is refused is logged.
func (c *Coordinator) latest(ctx context.Context, good func(*Metadata) bool) (*Metadata, error) {
	m, refused, err := c.archive.Latest(ctx, good)
	for _, r := range refused {
		c.log(slog.LevelError, "a checkpoint is refused", "error", r)
	}
	if m != nil {
		for _, name := range c.cfg.Members {
			if m.Member(name) == nil || len(m.Members) != len(c.cfg.Members) {
				return nil, fmt.Errorf("checkpoint: checkpoint %d: %w", m.ID, ErrMembers)
			}
		}
	}
	return m, err
}

func (c *Coordinator) log(level slog.Level, msg string, args ...any) {
	if c.cfg.Logger != nil {
		c.cfg.Logger.Log(context.Background(), level, "checkpoint: "+msg, args...)
	}
}

// loop is the owner of the core.
func (c *Coordinator) loop() error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	var linger <-chan time.Time
	for {
		c.core.tick(c.clock.read(), time.Now())
		c.perform()
		c.publish()
		if c.failed != nil {
			return c.failed
		}
		if c.core.phase == phaseFinished {
			if len(c.conns) == 0 && !c.back {
				return nil
			}
			if linger == nil {
				// The last answers are on their way, or were lost when a coordinator before this one died.
				linger = time.After(2 * c.cfg.MemberTimeout)
			}
		}
		// The clock has to be read often enough that each step of it counts.
		timer.Reset(min(max(c.core.next()-c.clock.now, 0), c.clock.most/2))
		select {
		case <-c.ctx.Done():
			return c.ctx.Err()
		case f := <-c.posts:
			f()
		case <-timer.C:
		case <-linger:
			return nil
		}
	}
}

// post has f run by the owner of the core. False: Run has ended.
func (c *Coordinator) post(f func()) bool {
	select {
	case c.posts <- f:
		return true
	case <-c.done:
		return false
	case <-c.ctx.Done():
		return false
	}
}

// ask has f answered by the owner of the core.
func (c *Coordinator) ask(f func() error) error {
	answer := make(chan error, 1)
	if !c.post(func() { answer <- f() }) {
		return ErrClosed
	}
	select {
	case err := <-answer:
		return err
	case <-c.done:
		return ErrClosed
	case <-c.ctx.Done():
		return ErrClosed
	}
}

// perform does what the core wants.
func (c *Coordinator) perform() {
	for _, a := range c.core.take() {
		switch a.kind {
		case doSend:
			if s := c.conns[a.conn]; s != nil {
				s.send(a.msg)
			}
		case doClose:
			if s := c.conns[a.conn]; s != nil {
				s.send(nil)
			}
		case doNote:
			c.log(slog.LevelInfo, a.text)
		case doFail:
			c.failed = a.err
		case doDiscard, doPrune:
			if len(c.jobs) < cap(c.jobs)/2 { // otherwise a later prune removes it
				c.jobs <- a
			}
		default:
			c.jobs <- a // the core has at most one of each kind under way
		}
	}
}

func (c *Coordinator) publish() {
	k := c.core
	st := Status{
		Phase: k.phase.String(), Epoch: k.record.Epoch, Restored: k.record.Restored, Completed: k.completed, Counts: k.counts,
	}
	for _, p := range k.inFlight {
		st.InFlight = append(st.InFlight, p.trigger.ID)
	}
	for _, m := range k.members {
		st.Members = append(st.Members, MemberStatus{Name: m.name, Standing: m.standing.String(), Ended: m.ended})
	}
	c.mu.Lock()
	c.status = st
	c.mu.Unlock()
}

// work does what takes the store, one thing after the other. A goroutine of its own.
func (c *Coordinator) work() {
	for {
		select {
		case <-c.ctx.Done():
			return
		case a := <-c.jobs:
			c.job(a)
		}
	}
}

func (c *Coordinator) job(a action) {
	switch a.kind {
	case doBegin:
		m, refused, err := c.begin(&a)
		c.post(func() { c.core.began(c.clock.read(), a.next, m, refused, err) })
	case doComplete:
		err := c.archive.Complete(c.ctx, a.meta)
		c.post(func() { c.core.stored(c.clock.read(), a.meta.ID, err) })
	case doSave:
		err := c.save(&a.record)
		c.post(func() { c.core.saved(c.clock.read(), a.record, err) })
	case doDiscard:
		if err := c.cfg.Store.Delete(c.ctx, a.id); err != nil {
			c.log(slog.LevelWarn, "what an aborted checkpoint left cannot be removed", "error", err)
		}
	case doPrune:
		err := c.archive.Prune(c.ctx, c.cfg.Retain, func(id int64) bool { return id < a.id && !slices.Contains(a.keep, id) })
		if err != nil {
			c.log(slog.LevelWarn, "old checkpoints cannot be removed", "error", err)
		}
	}
}

// begin chooses the checkpoint of the next epoch and writes the epoch down. What is newer than the checkpoint is void from then on,
// and removed.
func (c *Coordinator) begin(a *action) (m *Metadata, refused int, err error) {
	m, bad, err := c.archive.Latest(c.ctx, a.record.good)
	for _, r := range bad {
		c.log(slog.LevelError, "a checkpoint is refused", "error", r)
	}
	if err != nil {
		return nil, len(bad), err
	}
	if m != nil {
		a.next.Restored = m.ID
	}
	if err := c.save(&a.next); err != nil {
		return nil, len(bad), err
	}
	list, err := c.cfg.Store.List(c.ctx)
	if err == nil {
		for _, e := range list {
			if e.ID > a.next.Restored {
				err = errors.Join(err, c.cfg.Store.Delete(c.ctx, e.ID))
			}
		}
	}
	if err != nil {
		c.log(slog.LevelWarn, "what an epoch before left cannot be removed", "error", err)
	}
	return m, len(bad), nil
}

func (c *Coordinator) save(rec *record) error {
	data, err := seal(stateKind, rec)
	if err != nil {
		return err
	}
	return c.cfg.Store.SaveState(c.ctx, data)
}
