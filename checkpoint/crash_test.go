package checkpoint

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"testing"

	"github.com/weirflow/weir/internal/vfs"
)

var errCrash = errors.New("crash")

// crashAfter is a hook that fails from its nth call on, as if the process were gone.
func crashAfter(n int) (hook Hook, crashed func() bool) {
	calls := 0
	return func(Point, string) error {
		if calls++; calls > n {
			return errCrash
		}
		return nil
	}, func() bool { return calls > n }
}

// eachCrash runs a scenario on a fresh file system again and again, and lets it crash after each step it takes, with each kind of
// loss. check looks at what is left. It returns the number of crashes.
func eachCrash(t *testing.T, run func(m *vfs.Mem, hook Hook) error, check func(m *vfs.Mem, at string)) (crashes int) {
	t.Helper()
	for step := 0; ; step++ {
		end := false
		for _, loss := range []vfs.Loss{vfs.LoseNothing, vfs.LoseAll, vfs.LoseSome, vfs.LoseSome} {
			m := vfs.NewMem()
			hook, crashed := crashAfter(step)
			err := run(m, hook)
			if !crashed() && err != nil {
				t.Fatalf("without a crash: %v", err)
			}
			m.Crash(loss, rand.New(rand.NewPCG(uint64(step), uint64(crashes))))
			check(m, fmt.Sprintf("crash after step %d, loss %d", step, loss))
			end = !crashed()
			if !end {
				crashes++
			}
		}
		if end {
			return crashes
		}
	}
}

func memStore(t *testing.T, m *vfs.Mem, hook Hook) *DirStore {
	s, err := OpenDir("/ck", DirOptions{fs: m, Hook: hook})
	if err != nil {
		return nil
	}
	return s
}

// TestStoreCrashes: wherever a store crashes, what was completed is whole, the newest one that was said to be completed or a newer
// one is found, and the next checkpoint can be written.
func TestStoreCrashes(t *testing.T) {
	ctx := testContext(t)
	var completed int64 // the newest one that Complete returned nil for
	crashes := eachCrash(t, func(m *vfs.Mem, hook Hook) error {
		completed = 0
		if err := m.Mkdir("/ck"); err != nil {
			return err
		}
		if err := m.SyncDir("/"); err != nil {
			return err
		}
		s := memStore(t, m, hook)
		if s == nil {
			return errCrash
		}
		for id := int64(1); id <= 4; id++ {
			if err := putCheckpoint(ctx, s, id, noise(int(id)*1000)); err != nil {
				return err
			}
			completed = id
			if err := s.SaveState(ctx, fmt.Appendf(nil, "state %d", id)); err != nil {
				return err
			}
			if err := NewArchive(s).Prune(ctx, 2, func(old int64) bool { return old < id }); err != nil {
				return err
			}
		}
		return nil
	}, func(m *vfs.Mem, at string) {
		s := memStore(t, m, nil)
		meta, refused, err := NewArchive(s).Latest(ctx, nil)
		if err != nil || len(refused) > 0 {
			t.Fatalf("%s: %v, refused %v", at, err, refused)
		}
		var id int64
		if meta != nil {
			id = meta.ID
			r, err := openPart(ctx, s, id, "a", meta.Members[0].Parts[0])
			if err != nil {
				t.Fatalf("%s: %v", at, err)
			}
			if got, err := io.ReadAll(r); err != nil || !bytes.Equal(got, noise(int(id)*1000)) {
				t.Fatalf("%s: checkpoint %d has %d bytes, %v", at, id, len(got), err)
			}
		}
		if id < completed {
			t.Fatalf("%s: checkpoint %d is found, and %d was completed", at, id, completed)
		}
		state, err := s.LoadState(ctx)
		if errors.Is(err, fs.ErrNotExist) && completed <= 1 {
			err = nil
		}
		if err != nil || completed > 1 && string(state) < fmt.Sprintf("state %d", completed-1) {
			t.Fatalf("%s: state %q, %v, after checkpoint %d", at, state, err, completed)
		}
		if err := putCheckpoint(ctx, s, 10, []byte("x")); err != nil {
			t.Fatalf("%s: the next checkpoint: %v", at, err)
		}
		if err := NewArchive(s).Prune(ctx, 1, func(int64) bool { return true }); err != nil {
			t.Fatalf("%s: %v", at, err)
		}
		if list, err := s.List(ctx); err != nil || fmt.Sprint(list) != "[{10 true}]" {
			t.Fatalf("%s: after cleaning up: %v, %v", at, list, err)
		}
	})
	if crashes < 400 {
		t.Errorf("only %d crashes", crashes)
	}
	t.Logf("%d crashes", crashes)
}

// sinkRun is a run of a transactional file sink: three checkpoints of which the second is aborted, with what an engine would know.
type sinkRun struct {
	completed int64 // the newest checkpoint that exists
	state     map[int64][]byte
}

func (r *sinkRun) run(ctx context.Context, sink *FileSink) error {
	r.completed, r.state = 0, map[int64][]byte{}
	tx := NewTransactions(sink)
	if err := tx.Restore(ctx, 1, 0, nil); err != nil {
		return err
	}
	for id := int64(1); id <= 3; id++ {
		if _, err := fmt.Fprintf(sink, "records of %d\n", id); err != nil {
			return err
		}
		state, err := tx.Snapshot(ctx, id)
		if err != nil {
			return err
		}
		r.state[id] = state
		if id == 2 {
			continue // it is aborted: what was prepared for it comes with the next one
		}
		r.completed = id
		if err := tx.Completed(ctx, id); err != nil {
			return err
		}
		if err := tx.Completed(ctx, id); err != nil { // told twice
			return err
		}
	}
	_, err := fmt.Fprintf(sink, "not in a checkpoint\n")
	return err
}

// TestSinkCrashes: wherever a sink crashes, after the next epoch has begun exactly the records of the completed checkpoints are
// committed.
func TestSinkCrashes(t *testing.T) {
	ctx := testContext(t)
	var r sinkRun
	open := func(m *vfs.Mem, hook Hook) *FileSink {
		s, err := OpenFileSink(FileSinkConfig{Dir: "/out", Name: "sink", Hook: hook, fs: m})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	recommitted, rolledBack := 0, 0
	crashes := eachCrash(t, func(m *vfs.Mem, hook Hook) error {
		if err := m.Mkdir("/out"); err != nil {
			return err
		}
		if err := m.SyncDir("/"); err != nil {
			return err
		}
		r.completed = 0
		return r.run(ctx, open(m, hook))
	}, func(m *vfs.Mem, at string) {
		before, _ := m.ReadDir("/out")
		for round := range 2 { // the second time, it crashed after Recover
			sink := open(m, nil)
			tx := NewTransactions(sink)
			if err := tx.Restore(ctx, int32(2+round), r.completed, r.state[r.completed]); err != nil {
				t.Fatalf("%s: recover at %d: %v", at, r.completed, err)
			}
			m.Crash(vfs.LoseAll, nil)
		}
		want := ""
		for id := int64(1); id <= r.completed; id++ {
			want += fmt.Sprintf("records of %d\n", id)
		}
		got := ""
		list, err := m.ReadDir("/out")
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range list {
			b, err := vfs.ReadFile(m, "/out/"+e.Name, 1000)
			if err != nil {
				t.Fatal(err)
			}
			got += string(b)
		}
		if got != want {
			t.Fatalf("%s: committed %q, want %q (files %v)", at, got, want, list)
		}
		for _, e := range before {
			if bytes.HasSuffix([]byte(e.Name), []byte(pendingSuffix)) {
				if r.completed == 3 {
					recommitted++
				} else {
					rolledBack++
				}
			}
		}
	})
	if crashes < 100 || recommitted == 0 || rolledBack == 0 {
		t.Errorf("%d crashes, %d with something to commit again, %d with something to roll back", crashes, recommitted, rolledBack)
	}
	t.Logf("%d crashes, %d with something to commit again, %d with something to roll back", crashes, recommitted, rolledBack)
}
