package checkpoint

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"
)

// MemberConfig configures a Member.
type MemberConfig struct {
	// Name is the member's name. Of two processes with the same name the older one is replaced.
	Name string
	// Coordinator is "HOST:PORT".
	Coordinator string
	// Store is where this process puts and gets its parts itself: the same that the coordinator has, by a way of its own. Nil: they go
	// through the coordinator.
	Store Store
	// TLS secures the connections; it is cloned. Nil: no TLS.
	TLS *tls.Config
	// Reconnect is how long the coordinator may be away before that ends the epoch; 0 means 1 min, negative means for ever. Data goes
	// on flowing meanwhile.
	Reconnect time.Duration
	// Timeout is after how long without a sign of life a connection to the coordinator is given up; 0 means 10 s.
	Timeout time.Duration
	// Logger gets what happens. Nil: nobody does.
	Logger *slog.Logger
}

const (
	defaultReconnect = time.Minute
	// maxBackoff bounds the pause between two tries to connect.
	maxBackoff = 500 * time.Millisecond
	// maxEvents is how many events may wait for Next. A member with more of them does not read them, and takes part in nothing.
	maxEvents = 4096
)

// Member is a process's place in a pipeline. All methods are for any goroutine.
type Member struct {
	cfg   MemberConfig
	nonce string
	wg    sync.WaitGroup

	mu      sync.Mutex
	side    *side         // guarded by mu, like all below
	epoch   *Epoch        // that side is in, nil if none
	out     []*message    // to be sent on the connection
	wake    chan struct{} // has one element when out has something
	conn    net.Conn      // nil if there is none
	changed chan struct{} // closed and made anew when something has changed
	told    time.Duration // after how long the coordinator takes a silent member for lost, 0 if not known
	cancel  context.CancelFunc
	alive   bool // the goroutine that keeps the connection is
	joining bool
	closed  bool
	lost    error // why the connection was given up
}

// NewMember makes a member. Join connects it.
func NewMember(cfg MemberConfig) (*Member, error) {
	if err := checkName("member", cfg.Name); err != nil {
		return nil, err
	}
	if cfg.Reconnect == 0 {
		cfg.Reconnect = defaultReconnect
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = defaultMemberTimeout
	}
	if cfg.TLS != nil {
		cfg.TLS = cfg.TLS.Clone()
	}
	nonce := rand.Text()
	return &Member{
		cfg: cfg, nonce: nonce, side: newSide(cfg.Name, nonce), wake: make(chan struct{}, 1), changed: make(chan struct{}),
	}, nil
}

// Name is the member's name.
func (m *Member) Name() string { return m.cfg.Name }

// notify lets everybody that waits look again. With mu.
func (m *Member) notify() {
	close(m.changed)
	m.changed = make(chan struct{})
}

// queue sends messages, if there is a connection; if not, side says them again when there is one. With mu.
func (m *Member) queue(msgs []*message) {
	if m.conn == nil || len(msgs) == 0 {
		return
	}
	m.out = append(m.out, msgs...)
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// terminal is why this member can join nothing any more. With mu.
func (m *Member) terminal() error {
	switch {
	case m.closed:
		return fmt.Errorf("checkpoint: member %s is %w", m.cfg.Name, ErrClosed)
	case m.side.state == sideReplaced:
		return fmt.Errorf("checkpoint: member %s: %w", m.cfg.Name, ErrReplaced)
	case m.side.state == sideRefused:
		return fmt.Errorf("checkpoint: member %s: %w: %s", m.cfg.Name, ErrRefused, m.side.refused)
	case !m.alive && m.lost != nil:
		return m.lost
	}
	return nil
}

// Join ends the epoch that this process is in, if it is, and waits for the next one: that takes all members. It fails for good
// with ErrReplaced and ErrRefused, and with ErrCoordinatorAway when there is no coordinator for as long as Reconnect says.
func (m *Member) Join(ctx context.Context) (*Epoch, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.joining {
		return nil, fmt.Errorf("checkpoint: member %s joins already", m.cfg.Name)
	}
	m.lost = nil
	if err := m.terminal(); err != nil {
		return nil, err
	}
	m.endEpoch(fmt.Errorf("checkpoint: member %s joins the next epoch: %w", m.cfg.Name, ErrFenced))
	m.queue(m.side.join())
	m.start()
	m.joining = true
	defer func() { m.joining = false }()
	for {
		if err := m.terminal(); err != nil {
			return nil, err
		}
		if m.epoch != nil {
			return m.epoch, nil
		}
		if m.side.state == sideIdle {
			m.queue(m.side.join()) // an epoch began, and was fenced before this goroutine came to see it
		}
		if err := m.wait(ctx); err != nil {
			// The coordinator must not begin an epoch with a process that does not wait for it.
			m.side.state = sideIdle
			if m.conn != nil {
				_ = m.conn.Close()
			}
			return nil, err
		}
	}
}

// wait waits for a change. With mu, which it gives up meanwhile.
func (m *Member) wait(ctx context.Context) error {
	changed := m.changed
	m.mu.Unlock()
	defer m.mu.Lock()
	select {
	case <-changed:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// start starts the goroutine that keeps the connection, unless it is there. With mu.
func (m *Member) start() {
	if m.alive {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	m.alive, m.cancel = true, cancel
	m.wg.Go(func() {
		defer cancel()
		err := m.keep(ctx)
		m.mu.Lock()
		defer m.mu.Unlock()
		m.alive, m.lost = false, err
		if terr := m.terminal(); terr != nil {
			err = terr
		}
		m.endEpoch(err)
		m.notify()
	})
}

// endEpoch ends the epoch that the process is in. With mu.
func (m *Member) endEpoch(cause error) {
	if m.epoch != nil {
		m.epoch.over = cause
		m.epoch.cancel(cause)
		m.epoch = nil
	}
}

// Close ends the epoch and the connection. The coordinator takes it for the loss of the member, unless Epoch.Finish was called.
func (m *Member) Close() error {
	m.mu.Lock()
	m.closed = true
	m.endEpoch(m.terminal())
	if m.cancel != nil {
		m.cancel()
	}
	m.notify()
	m.mu.Unlock()
	m.wg.Wait()
	return nil
}

// keep connects, again and again, and returns why it gave up.
func (m *Member) keep(ctx context.Context) error {
	since := time.Now()
	pause := 5 * time.Millisecond
	for {
		conn, err := m.dial(ctx)
		if err == nil {
			var heard bool
			heard, err = m.talk(ctx, conn)
			if heard {
				since, pause = time.Now(), 5*time.Millisecond
			}
		}
		m.mu.Lock()
		terr := m.terminal()
		m.mu.Unlock()
		if terr != nil {
			return terr
		}
		if m.cfg.Reconnect >= 0 && time.Since(since) > m.cfg.Reconnect {
			return fmt.Errorf("checkpoint: member %s: %w: %s for %v: %w", m.cfg.Name, ErrCoordinatorAway, m.cfg.Coordinator, m.cfg.Reconnect, err)
		}
		m.log(slog.LevelInfo, "no connection to the coordinator", "error", err)
		select {
		case <-ctx.Done():
			return ErrClosed
		case <-time.After(pause):
		}
		pause = min(2*pause, maxBackoff)
	}
}

func (m *Member) log(level slog.Level, msg string, args ...any) {
	if m.cfg.Logger != nil {
		m.cfg.Logger.Log(context.Background(), level, "checkpoint: "+msg, append(args, "member", m.cfg.Name)...)
	}
}

// dial connects to the coordinator.
func (m *Member) dial(ctx context.Context) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, m.cfg.Timeout)
	defer cancel()
	var d net.Dialer
	if m.cfg.TLS != nil {
		return (&tls.Dialer{NetDialer: &d, Config: m.cfg.TLS}).DialContext(ctx, "tcp", m.cfg.Coordinator)
	}
	return d.DialContext(ctx, "tcp", m.cfg.Coordinator)
}

// talk speaks with the coordinator until the connection ends. heard: it answered.
func (m *Member) talk(ctx context.Context, conn net.Conn) (heard bool, err error) {
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	m.mu.Lock()
	m.conn, m.out = conn, nil
	m.queue(m.side.connected())
	m.mu.Unlock()
	ended, written := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(written)
		m.write(conn, ended)
	}()
	fr := newFrameReader(&patient{conn: conn, limit: m.cfg.Timeout})
	for {
		var msg *message
		if msg, err = fr.read(); err != nil {
			break
		}
		heard = true
		if !m.receive(msg) {
			err = errors.New("the coordinator ended it")
			break
		}
	}
	m.mu.Lock()
	m.conn, m.out = nil, nil
	m.mu.Unlock()
	close(ended)
	_ = conn.Close()
	<-written
	return heard, err
}

// write writes what is queued, and a sign of life when there is nothing. A goroutine of its own.
func (m *Member) write(conn net.Conn, ended <-chan struct{}) {
	next := time.NewTimer(0)
	defer next.Stop()
	for {
		var msgs []*message
		limit := m.cfg.Timeout
		select {
		case <-ended:
			return
		case <-next.C:
			msgs = []*message{{Kind: msgPing}}
		case <-m.wake:
		}
		m.mu.Lock()
		msgs = append(m.out, msgs...) // hello comes before the first ping
		m.out = nil
		if m.told > 0 {
			limit = min(limit, m.told)
		}
		m.mu.Unlock()
		for _, msg := range msgs {
			if writeMessage(conn, msg, m.cfg.Timeout) != nil {
				_ = conn.Close()
				return
			}
		}
		next.Reset(limit / 4)
	}
}

// receive takes a message. False: the connection is of no use any more.
func (m *Member) receive(msg *message) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.take(msg)
}

// take takes a message. With mu.
func (m *Member) take(msg *message) bool {
	if msg.Kind == msgPong {
		m.told = msg.MemberTimeout
		return true
	}
	m.queue(m.side.receive(msg))
	if w := m.side.welcome; w != nil && m.epoch == nil && m.side.state == sideRunning {
		m.epoch = newEpoch(m, w)
		m.side.welcome = nil
		m.log(slog.LevelInfo, "epoch begins", "epoch", w.Epoch, "checkpoint", m.epoch.restored.ID())
	}
	if e := m.epoch; e != nil {
		e.events = append(e.events, m.side.events...)
		m.side.events = nil
		if len(e.events) > maxEvents {
			m.queue(m.side.fail(e.number, fmt.Sprintf("%d events were not read", len(e.events))))
			e.events = nil
		}
	}
	switch m.side.state {
	case sideIdle:
		m.endEpoch(&FencedError{Epoch: m.side.epoch, Cause: m.side.over})
	case sideReplaced, sideRefused:
		m.endEpoch(m.terminal())
		m.notify()
		return false
	}
	m.notify()
	return true
}
