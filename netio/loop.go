package netio

import (
	"context"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirflow/weir/ringbuf"
)

// Sizes and limits. None of them is a promise of the API.
const (
	// DefaultReadSize is the length of the region a loop reads into, and so the most that one OnRead gets. The collector
	// waits for a system call that skips the scheduler; half a megabyte is about 50 µs.
	DefaultReadSize = 512 << 10
	// BatchBytes is how much a connection queues before Full, and about what one write carries: with half as much the rate of bulk is
	// a quarter less, with more nothing is gained. It is a little more than what a writer hands over at once (package credit), 24 full frames of
	// 32 KiB, so that these and what the last write left go in one.
	BatchBytes = 800 << 10
	// MaxVectors is the most pieces in one gathered write (IOV_MAX of Linux).
	MaxVectors = 1024
	// CopyLimit is the longest payload that is copied next to its header rather than sent by reference.
	CopyLimit = 4 << 10

	defaultPoll      = 50 * time.Microsecond
	defaultStandby   = 10 * time.Millisecond
	defaultGrace     = 3 * time.Second
	defaultPosts     = 4096
	defaultFullFrame = 32 << 10

	postsPerTurn   = 256 // posted functions run in one turn
	timersPerTurn  = 256
	acceptsPerTurn = 64
	eventsPerTurn  = 256
)

// LoopConfig sets up a Loop. The zero value is a good one.
type LoopConfig struct {
	// Name appears in errors and logs.
	Name string
	// Poll is how long an idle loop polls before it sleeps in the kernel. 0 means 50 µs, negative means no polling. With
	// GOMAXPROCS 1 there is none. It costs CPU while data flows and saves a thread's wake-up, so set it negative in
	// containers with a CPU quota. While bulk flows it is slept through instead, for no longer than this (Linux 5.11).
	Poll time.Duration
	// Standby is how long the loop may go without a turn before its standby goroutine runs turns itself. 0 means 10 ms.
	// Negative: no standby; then the owner of the loop must run turns (simulations and tests).
	Standby time.Duration
	// Dedicated gives the loop a goroutine of its own. It never gives up the token: RunUntil only waits, and polling goes on for as
	// long as data flows.
	Dedicated bool
	// ReadSize is the most bytes that one system call reads. 0 means DefaultReadSize.
	ReadSize int
	// FullFrame is the length of a full frame in bytes, for the rule of SO_RCVLOWAT. 0 means 32 KiB.
	FullFrame int
	// NoLowat leaves SO_RCVLOWAT at 1.
	NoLowat bool
	// NoPeek takes small messages out of their socket one by one, as they are read. Without it several are, at a time, so that the kernel
	// acknowledges them together (Linux 6.9).
	NoPeek bool
	// Posts is how many posted functions can wait. 0 means 4096.
	Posts int
	// Grace bounds how long Close lets connections write what they have queued. 0 means 3 s.
	Grace time.Duration
	// Socket holds the options of the loop's connections.
	Socket SocketOptions
	// OnError is told of errors that concern no connection: accepting failed, a descriptor could not be registered. It is
	// called within a turn, for a listener at the descriptor limit at most once a second. Nil: Logger gets them.
	OnError func(error)
	// Logger gets what OnError would, if that is nil. Nil: nobody.
	Logger *slog.Logger
}

// SocketOptions are set on every TCP connection of a loop. TCP_NODELAY is always on; socket buffers are left to the kernel.
type SocketOptions struct {
	// KeepAlive is the time without traffic before a probe, and between probes. 0 means 15 s, negative: off.
	KeepAlive time.Duration
	// UserTimeout is TCP_USER_TIMEOUT: how long sent data may stay unacknowledged before the connection is given up.
	// 0 leaves the kernel's default. Linux only.
	UserTimeout time.Duration
	// Congestion names the congestion control ("reno", "cubic", "bbr", …). Empty: the system's. Linux only.
	Congestion string
	// SendBuffer and RecvBuffer fix the kernel's buffers, in bytes. 0: autotuned, which is faster for bulk.
	SendBuffer, RecvBuffer int
}

func (cfg LoopConfig) withDefaults() LoopConfig {
	def := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
		*d = max(*d, 0)
	}
	def(&cfg.Poll, defaultPoll)
	def(&cfg.Standby, defaultStandby)
	def(&cfg.Grace, defaultGrace)
	for _, v := range []struct {
		p *int
		d int
	}{{&cfg.ReadSize, DefaultReadSize}, {&cfg.FullFrame, defaultFullFrame}, {&cfg.Posts, defaultPosts}} {
		if *v.p <= 0 {
			*v.p = v.d
		}
	}
	return cfg
}

// Source is polled at the start of every turn, and once more before a loop sleeps: the rings of writers and gates. Poll does
// a bounded piece of work and reports whether there was any. Whoever feeds a source makes the item visible first and calls
// Loop.Wake (or Kick) after.
type Source interface {
	Poll() (worked bool)
}

// Loop owns a group of connections. Who holds its token runs its turns and is, for that time, the owner of everything in it:
// handlers, connections, timers. Methods say whether they are for any goroutine or for the holder of the token.
type Loop struct {
	cfg  LoopConfig
	base time.Time // what the loop's clock counts from; monotonic

	// Shared between goroutines.
	state   atomic.Uint32 // token and sleepers; see token.go
	kicked  atomic.Uint32 // somebody failed to get the token for a turn that is wanted
	follows atomic.Uint64 // how often one began to
	drives  atomic.Uint64 // how often a consumer took the turns
	parked  atomic.Uint32 // the standby sleeps until the token is free
	turns   atomic.Uint64 // turns so far: a sign of life for the standby
	closing atomic.Bool
	oneP    bool // GOMAXPROCS was 1 when the loop was made

	sources   atomic.Pointer[[]Source]
	sourcesMu sync.Mutex // serializes writers of sources

	posts *ringbuf.MPSC[func()]
	inbox inbox

	followers roster       // callers of RunUntil that follow somebody else's turns
	resters   roster       // those that sleep without a driver; see rest.go
	open      atomic.Int32 // connections, len(conns)

	// Method values, made once.
	wakeFn      func()      // l.Wake, for Notifier hooks
	contendedFn func() bool // l.contended

	poke    chan struct{}
	quit    chan struct{}
	own     sync.WaitGroup  // standby or dedicated goroutine
	workers sync.WaitGroup  // goroutines of portable connections and of dials
	dials   atomic.Int32    // of DialFunc, whose result was not delivered
	ctx     context.Context // done when the loop closes
	cancel  context.CancelFunc
	cancels cancels

	// The token holder's.
	now        time.Duration // loop clock of this turn, if nowOK
	nowOK      bool
	timers     timerHeap
	conns      []*Conn // enlist puts one there
	listeners  []*listener
	dirty      []*Conn // want OnFlush or a write at the end of the turn
	flushing   []*Conn // the turn's snapshot of dirty
	gone       []*Conn // closed, OnClose still to come
	reporting  []*Conn
	raised     []*Conn       // connections with SO_RCVLOWAT raised
	raisedIdle time.Duration // since when a raised loop has had nothing to do; 0: it had
	sleepUntil time.Duration // when the sleeping consumer wakes by itself
	watchUntil time.Duration // when the sleeping standby wakes by itself
	unasked    int           // turns without a look at sockets since the kernel was asked what there is
	noWay      int           // turns after which giveWay is tried again
	chunks     chunkPool
	stats      Stats
	hooks      *hooks // tests only
	check      ownerCheck

	sys loopSys // the system's half: epoll or channels
}

// Stats counts what a loop did since it was made.
type Stats struct {
	Turns      uint64 // turns run, by anybody
	Reads      uint64 // system calls that brought data
	ReadBytes  uint64
	Writes     uint64 // system calls that took data
	WriteBytes uint64
	FileBytes  uint64 // part of WriteBytes: sent from files
	Sleeps     uint64 // blocking waits, naps among them
	Naps       uint64 // sleeps for no longer than polling would have lasted, while SO_RCVLOWAT is raised
	Wakeups    uint64 // wake-ups through the loop's own descriptor
	Lowats     uint64 // changes of SO_RCVLOWAT for bulk
	Peeks      uint64 // part of Reads: those that looked at small messages, which are taken out of the socket later
	Accepted   uint64
	// TLS handshakes of listeners: those that are through, those that failed, and connections still at it.
	Handshakes, HandshakesFailed uint64
	HalfOpen                     int
	Conns                        int // open connections
}

// NewLoop makes a loop and starts its standby (or dedicated) goroutine. Close ends it.
func NewLoop(cfg LoopConfig) (*Loop, error) {
	cfg = cfg.withDefaults()
	l := &Loop{
		cfg:   cfg,
		base:  time.Now(),
		oneP:  runtime.GOMAXPROCS(0) == 1,
		posts: ringbuf.NewMPSC[func()](cfg.Posts),
		poke:  make(chan struct{}, 1),
		quit:  make(chan struct{}),
	}
	l.wakeFn, l.contendedFn = l.Wake, l.contended
	l.ctx, l.cancel = context.WithCancel(context.Background())
	l.sources.Store(new([]Source))
	if err := l.sysOpen(); err != nil {
		l.cancel()
		return nil, err
	}
	switch {
	case cfg.Dedicated:
		l.state.Store(held)
		l.own.Add(1)
		go l.dedicated()
	case cfg.Standby > 0:
		l.own.Add(1)
		go l.standby()
	}
	return l, nil
}

// Config returns the loop's configuration with defaults filled in. Any goroutine.
func (l *Loop) Config() LoopConfig { return l.cfg }

// Closed tells whether Close was called. Any goroutine.
func (l *Loop) Closed() bool { return l.posts == nil || l.closing.Load() }

// Now returns the time of this turn: the clock is read at most once a turn (and again after a sleep). Holder of the token.
func (l *Loop) Now() time.Time { return l.base.Add(l.clock()) }

// clock is Now as time since the loop was made.
func (l *Loop) clock() time.Duration {
	if !l.nowOK {
		l.now = time.Since(l.base)
		l.nowOK = true
	}
	return l.now
}

// Stats returns the counters. Holder of the token.
func (l *Loop) Stats() Stats {
	s := l.stats
	s.Turns = l.turns.Load()
	s.Conns = len(l.conns)
	for _, a := range l.listeners {
		if a.tls != nil {
			s.HalfOpen += len(a.tls.slots)
		}
	}
	return s
}

// AddSource adds s to what every turn polls. Any goroutine; s is polled from the next turn on.
func (l *Loop) AddSource(s Source) {
	l.sourcesMu.Lock()
	defer l.sourcesMu.Unlock()
	old := *l.sources.Load()
	list := make([]Source, len(old), len(old)+1)
	copy(list, old)
	list = append(list, s)
	l.sources.Store(&list)
	l.nudge()
}

// RemoveSource takes s out again. Called by the holder of the token, s is not polled afterwards; called by another goroutine,
// a turn that runs right now may still poll it.
func (l *Loop) RemoveSource(s Source) {
	l.sourcesMu.Lock()
	defer l.sourcesMu.Unlock()
	old := *l.sources.Load()
	list := make([]Source, 0, len(old))
	for _, o := range old {
		if o != s {
			list = append(list, o)
		}
	}
	l.sources.Store(&list)
}

// Post has f run in one of the loop's next turns, in the order posted by this goroutine, and sees to it that there is one soon,
// by the standby if nobody else runs any. It reports false, and f will not run, if the loop is closed or as many functions
// as LoopConfig.Posts wait already. Any goroutine, also within a turn.
func (l *Loop) Post(f func()) bool {
	if l.posts == nil || !l.posts.Push(f) {
		return false
	}
	l.nudge()
	return true
}

// report hands an error that concerns no connection to whoever wants it.
func (l *Loop) report(err error) {
	switch {
	case l.cfg.OnError != nil:
		l.cfg.OnError(err)
	case l.cfg.Logger != nil:
		l.cfg.Logger.LogAttrs(context.Background(), slog.LevelWarn, "netio", slog.String("loop", l.cfg.Name), slog.Any("error", err))
	}
}
