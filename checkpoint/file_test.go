package checkpoint

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// committed is all that a sink has committed.
func committed(t testing.TB, dir, name string) string {
	t.Helper()
	r, err := ReadCommitted(dir, name)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	b, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestSourceReplays: from each snapshot on, a source that goes back to it reads what it read before.
func TestSourceReplays(t *testing.T) {
	var text strings.Builder
	for i := range 500 {
		fmt.Fprintf(&text, "%d %s\n", i, strings.Repeat("x", i*i%3000))
	}
	fmt.Fprintf(&text, "%s\n\nno line feed", strings.Repeat("long", 40<<10))
	path := filepath.Join(t.TempDir(), "lines")
	if err := os.WriteFile(path, []byte(text.String()), 0o666); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(text.String(), "\n")
	s, err := OpenFileSource(path, FileSourceConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var states [][]byte
	for i := 0; ; i++ {
		st, err := s.Snapshot()
		if err != nil {
			t.Fatal(err)
		}
		states = append(states, st)
		line, err := s.Next()
		if err == io.EOF {
			if i != len(lines) || s.Offset() != int64(text.Len()) {
				t.Fatalf("the end after %d lines at %d, want %d at %d", i, s.Offset(), len(lines), text.Len())
			}
			break
		}
		if err != nil || string(line) != lines[i] {
			t.Fatalf("line %d: %.40q, %v", i, line, err)
		}
		if again, err := s.Snapshot(); err != nil || !bytes.Equal(again, st) {
			t.Fatalf("snapshot while line %d is not done: %s, %v, want %s", i, again, err, st)
		}
		s.Done()
	}
	for i, st := range states {
		if err := s.Restore(st); err != nil {
			t.Fatal(err)
		}
		again, err := s.Snapshot()
		if err != nil || !bytes.Equal(again, st) {
			t.Fatalf("snapshot %d after its restore: %s, %v, want %s", i, again, err, st)
		}
		line, err := s.Next()
		if i == len(lines) {
			if err != io.EOF {
				t.Errorf("at the end: %q, %v", line, err)
			}
		} else if err != nil || string(line) != lines[i] {
			t.Fatalf("line %d again: %.40q, %v", i, line, err)
		}
	}
	if err := s.Restore(nil); err != nil || s.Offset() != 0 {
		t.Errorf("to the beginning: %d, %v", s.Offset(), err)
	}
}

// TestSourceOfAnotherFile: what is not the file that a snapshot was taken of is refused, and so is a line that is too long.
func TestSourceOfAnotherFile(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) *FileSource {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		s, err := OpenFileSource(path, FileSourceConfig{MaxLine: 100})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		return s
	}
	s := write("one", "first\nsecond\n")
	s.Next()
	s.Next()
	s.Done()
	st, err := s.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, text string
		want       error
	}{
		{"shorter", "first\n", ErrOtherFile},
		{"changed", "first\nsEcond\n", ErrOtherFile},
		{"longer", "first\nsecond\nthird\n", nil},
	} {
		if err := write(c.name, c.text).Restore(st); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	if err := s.Restore([]byte("weir-file-source 0 00000000 0\n")); !errors.Is(err, ErrFormat) {
		t.Errorf("a snapshot of version 0: %v", err)
	}
	for n, want := range map[int]error{100: nil, 101: ErrLongLine, 200 << 10: ErrLongLine} {
		s := write("long", strings.Repeat("x", n)+"\n")
		if _, err := s.Next(); !errors.Is(err, want) {
			t.Errorf("a line of %d bytes: %v", n, err)
		}
	}
}

// TestAbortTakesNothing: what was prepared for an aborted checkpoint is committed with the next one, in order, and what was not in a
// checkpoint is taken back.
func TestAbortTakesNothing(t *testing.T) {
	ctx := testContext(t)
	dir := t.TempDir()
	sink, tx := newSink(t, dir)
	var state []byte
	for id := int64(1); id <= 4; id++ {
		if id != 2 { // nothing is written for the second one
			fmt.Fprintln(sink, id)
		}
		var err error
		if state, err = tx.Snapshot(ctx, id); err != nil {
			t.Fatal(err)
		}
	}
	if n := tx.Prepared(); n != 3 {
		t.Errorf("%d are prepared, want 3", n)
	}
	if err := tx.Completed(ctx, 3); err != nil {
		t.Fatal(err)
	}
	if got := committed(t, dir, "out"); got != "1\n3\n" {
		t.Errorf("after checkpoint 3: %q", got)
	}
	fmt.Fprintln(sink, "lost")
	// Checkpoint 4 was completed, but this process did not hear of it.
	again, err := OpenFileSink(FileSinkConfig{Dir: dir, Name: "out"})
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if err := NewTransactions(again).Restore(ctx, 2, 4, state); err != nil {
		t.Fatal(err)
	}
	if got := committed(t, dir, "out"); got != "1\n3\n4\n" {
		t.Errorf("after the restart: %q", got)
	}
	// The old process is fenced, and does not know: it can commit nothing.
	fmt.Fprintln(sink, "from the old process")
	if _, err := tx.Snapshot(ctx, 5); err == nil {
		t.Error("a fenced process has prepared a file that was taken back")
	}
	if err := tx.Completed(ctx, 4); err != nil { // what both may say
		t.Errorf("committing what is committed: %v", err)
	}
	if got := committed(t, dir, "out"); got != "1\n3\n4\n" {
		t.Errorf("after the old process: %q", got)
	}
}

// TestCommittedBeyond: going back before what is committed is refused, or takes it back if that is wanted.
func TestCommittedBeyond(t *testing.T) {
	ctx := testContext(t)
	dir := t.TempDir()
	open := func(retract bool) (*FileSink, *Transactions) {
		sink, err := OpenFileSink(FileSinkConfig{Dir: dir, Name: "out", Retract: retract})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { sink.Close() })
		return sink, NewTransactions(sink)
	}
	sink, tx := open(false)
	if err := tx.Restore(ctx, 1, 0, nil); err != nil {
		t.Fatal(err)
	}
	var states [][]byte
	for id := int64(1); id <= 2; id++ {
		fmt.Fprintln(sink, id)
		st, err := tx.Snapshot(ctx, id)
		if err != nil {
			t.Fatal(err)
		}
		states = append(states, st)
		if err := tx.Completed(ctx, id); err != nil {
			t.Fatal(err)
		}
	}
	_, tx = open(false)
	if err := tx.Restore(ctx, 2, 1, states[0]); !errors.Is(err, ErrCommittedBeyond) {
		t.Errorf("back to checkpoint 1: %v", err)
	}
	if got := committed(t, dir, "out"); got != "1\n2\n" {
		t.Errorf("refused, and committed is %q", got)
	}
	sink, tx = open(true)
	if err := tx.Restore(ctx, 3, 1, states[0]); err != nil {
		t.Fatal(err)
	}
	fmt.Fprintln(sink, 2)
	if _, err := tx.Snapshot(ctx, 3); err != nil {
		t.Fatal(err)
	}
	if err := tx.Completed(ctx, 3); err != nil {
		t.Fatal(err)
	}
	if got := committed(t, dir, "out"); got != "1\n2\n" {
		t.Errorf("after going back: %q", got)
	}
	if got := committed(t, dir, "ou"); got != "" {
		t.Errorf("of another sink: %q", got)
	}
	lost, err := seal(transactionsKind, []transaction{{9, []byte(`{"id":9,"size":1}`)}})
	if err != nil {
		t.Fatal(err)
	}
	if err := tx.Restore(ctx, 4, 9, lost); !errors.Is(err, ErrTransactionLost) {
		t.Errorf("a prepared file that is gone: %v", err)
	}
}
