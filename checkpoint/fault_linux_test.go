package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func init() {
	children["nofile"] = noFileChild
}

// tmpfs mounts a file system of a size; the test is skipped where that is not permitted.
func tmpfs(t *testing.T, options string) string {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("none", dir, "tmpfs", 0, options); err != nil {
		t.Skipf("no permission to mount a small file system (%v): TestStoreErrors injects the same error", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(dir, 0) })
	return dir
}

// TestDiskFull writes checkpoints to a real disk until it is full.
func TestDiskFull(t *testing.T) {
	ctx := testContext(t)
	s, err := OpenDir(tmpfs(t, "size=1m"), DirOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := putCheckpoint(ctx, s, 1, noise(300<<10)); err != nil {
		t.Fatal(err)
	}
	for id := int64(2); id <= 3; id++ { // the second try: the first one left nothing behind
		err = putCheckpoint(ctx, s, id, noise(2<<20))
		if !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), fmt.Sprintf("checkpoint %d, part a/state", id)) {
			t.Errorf("a checkpoint of 2 MiB on a disk of 1 MiB: %v", err)
		}
		stillWhole(t, s, 1)
	}
	if err := putCheckpoint(ctx, s, 4, noise(300<<10)); err != nil {
		t.Errorf("a checkpoint that has room: %v", err)
	}
	stillWhole(t, s, 4)
}

// TestReadOnlyFolder writes to a folder that became read-only.
func TestReadOnlyFolder(t *testing.T) {
	ctx := testContext(t)
	dir := t.TempDir()
	if os.Getuid() == 0 { // to whom modes say nothing
		dir = tmpfs(t, "size=1m")
	}
	s, err := OpenDir(dir, DirOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := putCheckpoint(ctx, s, 1, noise(100)); err != nil {
		t.Fatal(err)
	}
	want := syscall.EACCES
	if os.Getuid() == 0 {
		want = syscall.EROFS
		if err := syscall.Mount("none", dir, "tmpfs", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""); err != nil {
			t.Fatal(err)
		}
	} else {
		if err := os.Chmod(dir, 0o555); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.Chmod(dir, 0o777) })
	}
	if err := putCheckpoint(ctx, s, 2, noise(100)); !errors.Is(err, want) || !strings.Contains(err.Error(), dir) {
		t.Errorf("a checkpoint in a read-only folder: %v", err)
	}
	if err := s.SaveState(ctx, []byte("x")); !errors.Is(err, want) {
		t.Errorf("state in a read-only folder: %v", err)
	}
	stillWhole(t, s, 1)
}

// noFileChild fills its file table and tries to write a checkpoint.
func noFileChild() int {
	ctx := context.Background()
	s, err := OpenDir(os.Getenv("WEIR_CHECKPOINT_DIR"), DirOptions{})
	if err == nil {
		err = putCheckpoint(ctx, s, 1, noise(100))
	}
	if err != nil {
		fmt.Println("before:", err)
		return 1
	}
	lim := syscall.Rlimit{Cur: 32, Max: 32}
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &lim); err != nil {
		fmt.Println(err)
		return 1
	}
	var held []*os.File
	for {
		f, err := os.Open(os.DevNull)
		if err != nil {
			break
		}
		held = append(held, f)
	}
	err = putCheckpoint(ctx, s, 2, noise(100))
	if !errors.Is(err, syscall.EMFILE) || !strings.Contains(err.Error(), "checkpoint 2") {
		fmt.Println("with a full file table:", err)
		return 1
	}
	_, _, err = NewArchive(s).Latest(ctx, nil)
	if !errors.Is(err, syscall.EMFILE) { // that is no reason to begin anew, or from an older one
		fmt.Println("looking for the newest one with a full file table:", err)
		return 1
	}
	for _, f := range held {
		_ = f.Close()
	}
	if m, _, err := NewArchive(s).Latest(ctx, nil); err != nil || m.ID != 1 {
		fmt.Println("after it:", m, err)
		return 1
	}
	if err := putCheckpoint(ctx, s, 3, noise(100)); err != nil {
		fmt.Println("after it:", err)
		return 1
	}
	fmt.Println("full with", len(held), "files")
	return 0
}

// TestFileTableFull runs out of file descriptors in a process of its own.
func TestFileTableFull(t *testing.T) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "WEIR_CHECKPOINT_CHILD=nofile", "WEIR_CHECKPOINT_DIR="+t.TempDir())
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "full with") {
		t.Errorf("%v: %s", err, out)
	}
}

// TestSinkDiskFull fills the disk under a sink: what is committed stays, and what was being written is not committed.
func TestSinkDiskFull(t *testing.T) {
	ctx := testContext(t)
	dir := tmpfs(t, "size=1m")
	sink, tx := newSink(t, dir)
	io.WriteString(sink, "one\n")
	state, err := tx.Snapshot(ctx, 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := tx.Completed(ctx, 1); err != nil {
		t.Fatal(err)
	}
	sink.Write(noise(2 << 20))
	if _, err := tx.Snapshot(ctx, 2); !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), filepath.Join(dir, "out-")) {
		t.Errorf("prepare on a full disk: %v", err)
	}
	if err := tx.Restore(ctx, 2, 1, state); err != nil {
		t.Fatal(err)
	}
	if got := committed(t, dir, "out"); got != "one\n" {
		t.Errorf("committed %q", got)
	}
	io.WriteString(sink, "two\n")
	if _, err := tx.Snapshot(ctx, 3); err != nil {
		t.Errorf("prepare with room again: %v", err)
	}
}
