package task_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/weirflow/weir/align"
	"github.com/weirflow/weir/task"
)

// Operations: "eod" the end of the data, "p0" partition 0 is processed, "w7" stop with savepoint 7, "s7", "c7", "a7" checkpoint 7
// begins, is complete, is aborted. A ! behind an operation: done from here on.
func TestEnding(t *testing.T) {
	for _, c := range []struct {
		name, ops  string
		partitions int
		without    bool
	}{
		{"drained", "s1! c1! eod p0 s2 p1 c2!", 2, false},
		{"the readers are last", "eod s2 c2 p0 p1! c3!", 2, false},
		{"one that began before the end does not count", "s1! eod c1 s2 c1 c2!", 0, false},
		{"a later one does", "eod s2 c3!", 0, false},
		{"processed twice", "eod s1 c1 p0 p0 p1!", 2, false},
		{"with savepoint", "w5 s5 eod p0 c5!", 1, false},
		{"with savepoint, others don't count", "w5 eod s6 c6 c5! c4!", 0, false},
		{"without last checkpoint", "! eod!", 1, true},
		{"without last checkpoint, with savepoint", "! w5 eod c5!", 1, true},
		{"cancelled, no end of data", "! s1! c1!", 1, false},
		{"an aborted one is waited for no longer than the next", "eod s2 a2 s3 c3!", 0, false},
	} {
		e := task.NewEnding(c.partitions, !c.without)
		for _, op := range strings.Fields(c.ops) {
			op, done := strings.CutSuffix(op, "!")
			if err := end(e, op); err != nil {
				t.Errorf("%s: %s: %v", c.name, op, err)
			}
			if e.Done() != done {
				t.Errorf("%s: %s: done %t", c.name, op, e.Done())
			}
		}
	}
}

func end(e *task.Ending, op string) error {
	var n int64
	if len(op) > 1 && op != "eod" {
		if _, err := fmt.Sscan(op[1:], &n); err != nil {
			return err
		}
	}
	switch {
	case op == "eod":
		e.EndOfData()
	case op == "":
	case op[0] == 'p':
		return e.Processed(int(n))
	case op[0] == 'w':
		return e.StopWith(n)
	case op[0] == 's':
		e.Started(n)
	case op[0] == 'c':
		e.Completed(n)
	case op[0] == 'a':
		return e.Aborted(n)
	}
	return nil
}

func TestEndingErrors(t *testing.T) {
	e := task.NewEnding(1, true)
	if err := e.Processed(1); !errors.Is(err, align.ErrConfig) {
		t.Error(err)
	}
	if err := errors.Join(e.StopWith(5), e.StopWith(5)); err != nil {
		t.Error(err)
	}
	if err := e.StopWith(6); !errors.Is(err, align.ErrState) {
		t.Error(err)
	}
	if err := e.Aborted(4); err != nil {
		t.Error(err)
	}
	if err := e.Aborted(5); !errors.Is(err, task.ErrSavepointAborted) {
		t.Error(err)
	}
	e.Completed(5)
	if err := e.Aborted(5); err != nil {
		t.Error("aborted after it was complete:", err)
	}
}
