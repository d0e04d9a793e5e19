package align

import (
	"errors"
	"os"
	"runtime"
	"testing"

	"github.com/weirflow/weir/segment"
)

// twoSubtasks is a file that subtasks 0 and 1 share, and their results.
func twoSubtasks(t *testing.T, store StateStore) (f *stateFile, r0, r1 *StateResult) {
	t.Helper()
	f, err := newStateFile(store, 1, map[int32]bool{0: true, 1: true})
	check(t, err)
	r0, r1 = newStateResult(), newStateResult()
	check(t, f.start(0, r0), f.start(1, r1))
	return f, r0, r1
}

func known(r *StateResult) bool {
	select {
	case <-r.Done():
		return true
	default:
		return false
	}
}

// TestStateIsDoneAsAWhole: no result is known before each subtask has finished both its sides.
func TestStateIsDoneAsAWhole(t *testing.T) {
	f, r0, r1 := twoSubtasks(t, &DirStore{Dir: t.TempDir()})
	for _, side := range []struct {
		subtask int32
		output  bool
	}{{0, false}, {1, true}, {0, true}, {1, false}} {
		if known(r0) || known(r1) {
			t.Fatalf("known before subtask %d has finished (output: %v)", side.subtask, side.output)
		}
		check(t, f.complete(side.subtask, side.output))
	}
	if !known(r0) || !known(r1) {
		t.Error("unknown although all have finished")
	}
}

// TestFailureIsOfOneSubtask: the one that failed gets the cause, the other one hears that they shared a file.
func TestFailureIsOfOneSubtask(t *testing.T) {
	why := errors.New("why")
	f, r0, r1 := twoSubtasks(t, &DirStore{Dir: t.TempDir()})
	f.fail(0, why)
	if _, _, err := r0.Get(); err != why {
		t.Errorf("the one that failed: %v", err)
	}
	if _, _, err := r1.Get(); !errors.Is(err, &CheckpointError{Reason: ReasonSharedStream}) {
		t.Errorf("the other one: %v", err)
	}
}

// TestFailedStateLeavesNoFile: what was written of a checkpoint that was given up is removed.
func TestFailedStateLeavesNoFile(t *testing.T) {
	dir := t.TempDir()
	files := func() int {
		t.Helper()
		entries, err := os.ReadDir(dir)
		check(t, err)
		return len(entries)
	}
	f, _, _ := twoSubtasks(t, &DirStore{Dir: dir})
	check(t, f.chunk(0, StateChannel{}, false, make([]byte, 2*stateWriteBuffer)))
	if n := files(); n != 1 {
		t.Fatalf("%d files while it is written", n)
	}
	f.fail(0, errors.New("why"))
	if n := files(); n != 0 {
		t.Errorf("%d files are left", n)
	}
}

// TestWrittenBuffersGoHome: buffers of a pool that were written, and those of a checkpoint that is over.
func TestWrittenBuffersGoHome(t *testing.T) {
	pool, err := segment.NewPool(segment.Config{Segments: 4, SegmentSize: 64})
	check(t, err)
	local, err := pool.NewLocal(segment.LocalConfig{Required: 4})
	check(t, err)
	take := func() segment.Buffer {
		b, ok := local.Take()
		if !ok {
			t.Fatal("no segment")
		}
		return b.Resized(10)
	}
	e, end := runExecutor(t, StateExecutorConfig{Store: &DirStore{Dir: t.TempDir()}})
	w := mustWriter(t, e, 0)
	check(t, w.Start(1, unalignedOptions), w.AddInput(1, StateChannel{}, take(), take()), w.AddOutput(1, StateChannel{}, take()),
		w.FinishInput(1), w.FinishOutput(1), w.AddInput(1, StateChannel{}, take()))
	r, err := w.Result(1)
	check(t, err)
	if r.Bytes() == 0 {
		t.Error("nothing was written")
	}
	w.Close()
	_ = end()
	local.Close()
	if err := pool.Close(); err != nil {
		t.Error(err)
	}
}

// TestClaimedOffsetsCostNothing: a handle that claims many offsets costs no memory before they are here.
func TestClaimedOffsetsCostNothing(t *testing.T) {
	h := StateHandle{Offsets: []int64{4}, Size: 9}
	p, err := AppendStateHandle(nil, 5, false, &h)
	check(t, err)
	p[13] = 0x10 // the count is at 12
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, _, _, err = DecodeStateHandle(p, 5)
	runtime.ReadMemStats(&after)
	if used := after.TotalAlloc - before.TotalAlloc; !errors.Is(err, ErrStateFile) || used > 64<<10 {
		t.Errorf("%d bytes for a handle of %d, %v", used, len(p), err)
	}
}
