package vfs

import (
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/weirflow/weir/internal/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// TestFileSystemsAgree runs the same steps on the real file system and on that in memory.
func TestFileSystemsAgree(t *testing.T) {
	for name, c := range map[string]struct {
		fs   FS
		root string
	}{"os": {OS{}, t.TempDir()}, "mem": {NewMem(), "/"}, "hooked": {Hooked(OS{}, func(Point, string) error { return nil }), t.TempDir()}} {
		t.Run(name, func(t *testing.T) {
			at := func(s string) string { return filepath.Join(c.root, s) }
			if _, err := c.fs.Open(at("none")); !os.IsNotExist(err) {
				t.Errorf("opening a file that is not there: %v", err)
			}
			if err := c.fs.Mkdir(at("a/b")); !os.IsNotExist(err) {
				t.Errorf("a directory without one above it: %v", err)
			}
			for _, dir := range []string{"a", "a/b", "a/b"} {
				if err := c.fs.Mkdir(at(dir)); err != nil {
					t.Fatal(err)
				}
			}
			if err := WriteFile(c.fs, at("a/b/x"), []byte("one")); err != nil {
				t.Fatal(err)
			}
			if err := WriteFile(c.fs, at("a/b/x"), []byte("two")); err != nil {
				t.Fatal(err)
			}
			if got, err := ReadFile(c.fs, at("a/b/x"), 3); string(got) != "two" || err != nil {
				t.Errorf("read %q, %v", got, err)
			}
			if _, err := ReadFile(c.fs, at("a/b/x"), 2); !errors.Is(err, ErrTooLong) {
				t.Errorf("a file longer than the limit: %v", err)
			}
			if err := c.fs.Mkdir(at("a/b/x")); !os.IsExist(err) {
				t.Errorf("a directory with the name of a file: %v", err)
			}
			list, err := c.fs.ReadDir(at("a/b"))
			if err != nil || len(list) != 1 || list[0] != (Entry{Name: "x", Size: 3}) {
				t.Errorf("list: %v, %v", list, err)
			}
			if err := c.fs.Remove(at("a/b")); err == nil {
				t.Error("a directory that is not empty was removed")
			}
			if err := RemoveTree(c.fs, at("a")); err != nil {
				t.Fatal(err)
			}
			if err := RemoveTree(c.fs, at("a")); err != nil {
				t.Errorf("removing what is not there: %v", err)
			}
			if err := c.fs.SyncDir(at("a")); !os.IsNotExist(err) {
				t.Errorf("syncing a directory that is not there: %v", err)
			}
		})
	}
}

// TestCrashTakesWhatWasNotSynced shows the model itself: without Sync and SyncDir nothing survives.
func TestCrashTakesWhatWasNotSynced(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	write := func(m *Mem, name string, sync, syncDir bool) {
		f, err := m.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		f.Write([]byte("bytes"))
		if sync {
			f.Sync()
		}
		if syncDir {
			m.SyncDir("/")
		}
	}
	for _, c := range []struct {
		sync, syncDir bool
		loss          Loss
		want          string
		there         bool
	}{
		{true, true, LoseAll, "bytes", true},
		{false, true, LoseAll, "", true},
		{true, false, LoseAll, "", false},
		{false, false, LoseNothing, "bytes", true},
	} {
		m := NewMem()
		write(m, "f", c.sync, c.syncDir)
		m.Crash(c.loss, rnd)
		got, err := ReadFile(m, "f", 10)
		if string(got) != c.want || (err == nil) != c.there {
			t.Errorf("%+v: %q, %v", c, got, err)
		}
	}
	lengths := map[int]bool{}
	for range 100 {
		m := NewMem()
		write(m, "f", false, true)
		m.Crash(LoseSome, rnd)
		got, _ := ReadFile(m, "f", 10)
		lengths[len(got)] = true
	}
	if len(lengths) < 4 {
		t.Errorf("torn files have only the lengths %v", lengths)
	}
	m := NewMem()
	f, _ := m.Create("open")
	m.Crash(LoseNothing, rnd)
	if _, err := f.Write([]byte("x")); err == nil {
		t.Error("a file that was open in the crash can be written")
	}
}

// TestWriteFileSurvivesCrashes lets WriteFile crash after each step: the old content is there or the new one.
func TestWriteFileSurvivesCrashes(t *testing.T) {
	errCrash := errors.New("crash")
	crashes := 0
	for step := 0; ; step++ {
		rnd := rand.New(rand.NewPCG(7, uint64(step)))
		m := NewMem()
		if err := WriteFile(m, "f", []byte("old")); err != nil {
			t.Fatal(err)
		}
		n := 0
		err := WriteFile(Hooked(m, func(Point, string) error {
			if n++; n > step {
				return errCrash
			}
			return nil
		}), "f", []byte("fresh"))
		m.Crash(LoseSome, rnd)
		got, rerr := ReadFile(m, "f", 10)
		if rerr != nil || string(got) != "old" && string(got) != "fresh" || err == nil && string(got) != "fresh" {
			t.Fatalf("crash at step %d (%v): %q, %v", step, err, got, rerr)
		}
		if err == nil {
			break
		}
		crashes++
	}
	if crashes < 8 {
		t.Errorf("only %d crash points", crashes)
	}
}

func TestLock(t *testing.T) {
	name := filepath.Join(t.TempDir(), "lock")
	unlock, err := Lock(name)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Lock(name); !errors.Is(err, ErrLocked) {
		t.Errorf("the second lock: %v", err)
	}
	if err := unlock(); err != nil {
		t.Fatal(err)
	}
	again, err := Lock(name)
	if err != nil {
		t.Fatal(err)
	}
	again()
}
