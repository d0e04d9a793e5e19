package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// stillWhole asserts that the newest checkpoint is whole and has the id.
func stillWhole(t *testing.T, s Store, id int64) {
	t.Helper()
	m, refused, err := NewArchive(s).Latest(context.Background(), nil)
	if err != nil || m == nil || m.ID != id || len(refused) > 0 {
		t.Errorf("the checkpoint before: %+v, refused %v, %v", m, refused, err)
	}
}

// TestStoreErrors lets each step of writing a checkpoint fail as a full disk, a read-only folder or a full file table does: the error
// says so and names the path, the checkpoint before is intact, and the next one can be written when the trouble is over.
func TestStoreErrors(t *testing.T) {
	ctx := testContext(t)
	for name, errno := range map[string]error{"disk full": syscall.ENOSPC, "read-only": syscall.EROFS, "file table full": syscall.EMFILE} {
		t.Run(name, func(t *testing.T) {
			points := map[Point]int{}
			for n := 0; ; n++ {
				var calls, failAt atomic.Int64
				failAt.Store(-1)
				s, err := OpenDir(t.TempDir(), DirOptions{Hook: func(p Point, path string) error {
					if !strings.HasPrefix(string(p), "before-") {
						return nil
					}
					if at := failAt.Load(); at < 0 || calls.Add(1) <= at {
						return nil
					}
					points[p]++
					return &fs.PathError{Op: string(p), Path: path, Err: errno}
				}})
				if err != nil {
					t.Fatal(err)
				}
				if err := putCheckpoint(ctx, s, 1, noise(100)); err != nil {
					t.Fatal(err)
				}
				failAt.Store(int64(n))
				err = putCheckpoint(ctx, s, 2, noise(3*partBuffer))
				failAt.Store(-1)
				if err == nil {
					break
				}
				if !errors.Is(err, errno) || !strings.Contains(err.Error(), s.Dir()) || !strings.Contains(err.Error(), "checkpoint 2") {
					t.Errorf("step %d: %v", n, err)
				}
				if m, _, err := NewArchive(s).Latest(ctx, nil); err != nil || m.ID == 2 && n < 10 {
					t.Errorf("step %d: latest %+v, %v", n, m, err)
				}
				if err := putCheckpoint(ctx, s, 3, noise(100)); err != nil {
					t.Fatal(err)
				}
				stillWhole(t, s, 3)
			}
			for _, p := range []Point{BeforeCreate, BeforeWrite, BeforeSync, BeforeRename, BeforeSyncDir, BeforeMkdir} {
				if points[p] == 0 {
					t.Errorf("no failure %s", p)
				}
			}
		})
	}
}

// TestFolderDeleted: the folder goes while the store is in use.
func TestFolderDeleted(t *testing.T) {
	ctx := testContext(t)
	s := dirStore(t)
	b, err := s.Put(ctx, 1, "a/state")
	if err != nil {
		t.Fatal(err)
	}
	defer b.Abort()
	if err := os.RemoveAll(s.Dir()); err != nil {
		t.Fatal(err)
	}
	gone := func(what string, err error) {
		t.Helper()
		if !errors.Is(err, ErrFolderGone) || !strings.Contains(err.Error(), s.Dir()) {
			t.Errorf("%s: %v", what, err)
		}
	}
	_, _ = b.Write(noise(partBuffer))
	gone("commit of a part", b.Commit())
	_, err = s.Put(ctx, 2, "a/state")
	gone("put", err)
	gone("complete", s.Complete(ctx, 2, nil))
	_, err = s.List(ctx)
	gone("list", err)
	gone("state", s.SaveState(ctx, nil))
	_, err = s.Get(ctx, 1, "a/state")
	gone("get", err)
	if _, err := os.Stat(s.Dir()); !os.IsNotExist(err) {
		t.Errorf("the folder was made again: %v", err)
	}
}

// TestFolderMovedAndBack: no checkpoint completes while the folder is away, and data need not stop; with the folder back, the earlier
// checkpoint is there and the next one completes.
func TestFolderMovedAndBack(t *testing.T) {
	ctx := testContext(t)
	s := dirStore(t)
	c, _ := coordinatorOf(t, CoordinatorConfig{Members: []string{"a"}, Store: s, Interval: time.Millisecond})
	e := joinAll(ctx, t, memberOf(t, c, MemberConfig{Name: "a"}))[0]
	first := next(ctx, t, e, TriggerEvent).ID
	ack(ctx, t, e, first, "one")
	next(ctx, t, e, CompletedEvent)
	away := s.Dir() + ".away"
	if err := os.Rename(s.Dir(), away); err != nil {
		t.Fatal(err)
	}
	id := next(ctx, t, e, TriggerEvent).ID
	snap := e.Snapshot(id)
	if err := snap.Put(ctx, "state", []byte("two")); err == nil || !strings.Contains(err.Error(), "the checkpoint folder is gone") {
		t.Errorf("put without the folder: %v", err)
	}
	if err := snap.Ack(); err == nil {
		t.Error("a snapshot without its part was acknowledged")
	}
	if ev := next(ctx, t, e, AbortedEvent); ev.ID != id || !strings.Contains(ev.Cause, "declined by member a") {
		t.Errorf("aborted: %+v", ev)
	}
	if err := os.Rename(away, s.Dir()); err != nil {
		t.Fatal(err)
	}
	stillWhole(t, s, first)
	for {
		id := next(ctx, t, e, TriggerEvent).ID
		snap := e.Snapshot(id)
		if snap.Put(ctx, "state", []byte("three")) != nil || snap.Ack() != nil {
			continue // it was triggered while the folder was away
		}
		if next(ctx, t, e, CompletedEvent).ID == id {
			stillWhole(t, s, id)
			return
		}
	}
}

// TestTwoCoordinators: a folder is one coordinator's at a time.
func TestTwoCoordinators(t *testing.T) {
	ctx := testContext(t)
	s := dirStore(t)
	cfg := CoordinatorConfig{Members: []string{"a"}, Store: s, Interval: time.Hour, Listen: "127.0.0.1:0"}
	first, stop := coordinatorOf(t, cfg)
	joinAll(ctx, t, memberOf(t, first, MemberConfig{Name: "a"}))
	second, err := NewCoordinator(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := second.Run(ctx); !errors.Is(err, ErrLocked) {
		t.Errorf("the second coordinator: %v", err)
	}
	if err := stop(); !errors.Is(err, context.Canceled) {
		t.Errorf("the first coordinator: %v", err)
	}
	cfg.Members = []string{"a", "b"}
	third, err := NewCoordinator(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := third.Run(ctx); !errors.Is(err, ErrMembers) {
		t.Errorf("a coordinator with other members: %v", err)
	}
}

// TestSinkErrors: a sink that cannot write says so at once and at each Prepare, commits nothing of it, and works in the next epoch.
func TestSinkErrors(t *testing.T) {
	ctx := testContext(t)
	dir := t.TempDir()
	var full atomic.Bool
	sink, err := OpenFileSink(FileSinkConfig{Dir: dir, Name: "out", Hook: func(p Point, path string) error {
		if p == BeforeWrite && full.Load() {
			return &fs.PathError{Op: "write", Path: path, Err: syscall.ENOSPC}
		}
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer sink.Close()
	if _, err := sink.Write([]byte("x")); err == nil {
		t.Error("a sink can be written to before Recover")
	}
	tx := NewTransactions(sink)
	if err := tx.Restore(ctx, 1, 0, nil); err != nil {
		t.Fatal(err)
	}
	fmt.Fprintln(sink, "one")
	state, err := tx.Snapshot(ctx, 1)
	if err != nil {
		t.Fatal(err)
	}
	full.Store(true)
	fmt.Fprintln(sink, "two")
	for id := int64(2); id < 4; id++ {
		if _, err := tx.Snapshot(ctx, id); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("prepare on a full disk: %v", err)
		}
	}
	full.Store(false)
	if _, err := fmt.Fprintln(sink, "three"); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("writing on after bytes were lost: %v", err)
	}
	if err := tx.Restore(ctx, 2, 1, state); err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Fprintln(sink, "four"); err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Snapshot(ctx, 5); err != nil {
		t.Fatal(err)
	}
	if err := tx.Completed(ctx, 5); err != nil {
		t.Fatal(err)
	}
	if got := committed(t, dir, "out"); got != "one\nfour\n" {
		t.Errorf("committed %q", got)
	}
}
