package checkpoint

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"testing"
	"time"

	"github.com/weirflow/weir/internal/leaktest"
)

func TestMain(m *testing.M) {
	if f := children[os.Getenv("WEIR_CHECKPOINT_CHILD")]; f != nil {
		os.Exit(f())
	}
	leaktest.Main(m)
}

// children are what a test runs in a process of its own.
var children = map[string]func() int{}

// limit is how long a test may hang.
const limit = 4 * time.Minute

func testContext(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	t.Cleanup(cancel)
	return ctx
}

// newSink opens a sink of files for its first attempt.
func newSink(t testing.TB, dir string) (*FileSink, *Transactions) {
	t.Helper()
	sink, err := OpenFileSink(FileSinkConfig{Dir: dir, Name: "out"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { sink.Close() })
	tx := NewTransactions(sink)
	if err := tx.Restore(testContext(t), 1, 0, nil); err != nil {
		t.Fatal(err)
	}
	return sink, tx
}

type testLog struct{ t testing.TB }

func (l testLog) Write(p []byte) (int, error) {
	if testing.Verbose() {
		os.Stderr.Write(p)
	}
	return len(p), nil
}

func testLogger(t testing.TB) *slog.Logger {
	return slog.New(slog.NewTextHandler(testLog{t}, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// coordinatorOf runs a coordinator until stop is called, which returns what Run returned.
func coordinatorOf(t testing.TB, cfg CoordinatorConfig) (c *Coordinator, stop func() error) {
	t.Helper()
	if cfg.Logger == nil {
		cfg.Logger = testLogger(t)
	}
	if cfg.Listen == "" && cfg.Listener == nil {
		cfg.Listen = "127.0.0.1:0"
	}
	c, err := NewCoordinator(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }()
	var result error
	stopped := false
	stop = func() error {
		if !stopped {
			stopped = true
			cancel()
			result = <-done
		}
		return result
	}
	t.Cleanup(func() { stop() })
	return c, stop
}

func memberOf(t testing.TB, c *Coordinator, cfg MemberConfig) *Member {
	t.Helper()
	if c != nil {
		cfg.Coordinator = c.Addr().String()
	}
	if cfg.Logger == nil {
		cfg.Logger = testLogger(t)
	}
	m, err := NewMember(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m
}

// joinAll lets all members join the same epoch.
func joinAll(ctx context.Context, t testing.TB, members ...*Member) []*Epoch {
	t.Helper()
	epochs, errs := make([]*Epoch, len(members)), make(chan error, len(members))
	for i, m := range members {
		go func() {
			e, err := m.Join(ctx)
			epochs[i] = e
			errs <- err
		}()
	}
	for range members {
		if err := <-errs; err != nil {
			t.Fatal(err)
		}
	}
	for _, e := range epochs {
		if e.Number() != epochs[0].Number() || e.Restored().ID() != epochs[0].Restored().ID() {
			t.Fatalf("members are in epochs %d and %d, from checkpoints %d and %d",
				epochs[0].Number(), e.Number(), epochs[0].Restored().ID(), e.Restored().ID())
		}
	}
	return epochs
}

// next awaits an event of a kind; others are passed over.
func next(ctx context.Context, t testing.TB, e *Epoch, kind EventKind) Event {
	t.Helper()
	for {
		ev, err := e.Next(ctx)
		if err != nil {
			t.Fatalf("waiting for a %v event: %v", kind, err)
		}
		if ev.Kind == kind {
			return ev
		}
	}
}

// untilOver awaits the end of an epoch and returns its cause.
func untilOver(ctx context.Context, t testing.TB, e *Epoch) error {
	t.Helper()
	for {
		if _, err := e.Next(ctx); err != nil {
			if errors.Is(err, ctx.Err()) && ctx.Err() != nil {
				t.Fatal("the epoch does not end")
			}
			return err
		}
	}
}

// ack answers a trigger with one part.
func ack(ctx context.Context, t testing.TB, e *Epoch, id int64, state string) {
	t.Helper()
	s := e.Snapshot(id)
	if err := s.Put(ctx, "state", []byte(state)); err != nil {
		t.Fatal(err)
	}
	if err := s.Ack(); err != nil {
		t.Fatal(err)
	}
}

func dirStore(t testing.TB) *DirStore {
	t.Helper()
	s, err := OpenDir(t.TempDir(), DirOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}
