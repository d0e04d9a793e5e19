package serde

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/weirflow/weir/segment"
)

func readDir(dir string) (int, error) {
	all, err := os.ReadDir(dir)
	return len(all), err
}

// spillModes are the ways in which systems differ.
var spillModes = []DeserializerConfig{
	{},
	{noMap: true},
	{keepName: true},
	{keepName: true, noMap: true},
}

func eachSpillMode(t *testing.T, f func(t *testing.T, cfg DeserializerConfig, dir string)) {
	for _, cfg := range spillModes {
		t.Run(fmt.Sprintf("keepName=%t/noMap=%t", cfg.keepName, cfg.noMap), func(t *testing.T) {
			dir := t.TempDir()
			cfg.SpillDirs = []string{dir}
			f(t, cfg, dir)
			if n, err := readDir(dir); n != 0 || err != nil {
				t.Errorf("%d files left, %v", n, err)
			}
		})
	}
}

// TestSpillThreshold: a spanning record of exactly the threshold stays in
// memory, one more byte makes a file; a record inside one buffer never does.
func TestSpillThreshold(t *testing.T) {
	eachSpillMode(t, func(t *testing.T, cfg DeserializerConfig, dir string) {
		cfg.SpillThreshold = MinSpillThreshold
		files := 0
		cfg.openFile = func(name string) (*os.File, error) {
			files++
			return openExclusive(name)
		}
		d := NewDeserializer(cfg)
		small, at, above := pattern(1, 50), pattern(2, MinSpillThreshold), pattern(3, MinSpillThreshold+1)
		stream := framed(small, at, small)
		sameRecords(t, readAll(t, d, cut(stream, 32<<10)...), [][]byte{small, at, small})
		sameRecords(t, readAll(t, d, framed(above)), [][]byte{above})
		if files != 0 {
			t.Fatalf("%d files", files)
		}
		stream = framed(small, above, small, above, small)
		sameRecords(t, readAll(t, d, cut(stream, 32<<10)...), [][]byte{small, above, small, above, small})
		if files != 2 {
			t.Fatalf("%d files, want 2", files)
		}
	})
}

func TestSpillThresholdFloor(t *testing.T) {
	c := DeserializerConfig{SpillThreshold: 1, FileBuffer: 1}.withDefaults()
	if c.SpillThreshold != MinSpillThreshold || c.FileBuffer != MinFileBuffer {
		t.Errorf("%d %d", c.SpillThreshold, c.FileBuffer)
	}
	c = DeserializerConfig{}.PerVirtualChannel(4)
	if c.SpillThreshold != DefaultSpillThreshold/4 || c.FileBuffer != DefaultFileBuffer/4 {
		t.Errorf("%d %d", c.SpillThreshold, c.FileBuffer)
	}
	c = DeserializerConfig{}.PerVirtualChannel(1000)
	if c.SpillThreshold != MinSpillThreshold || c.FileBuffer != MinFileBuffer {
		t.Errorf("%d %d", c.SpillThreshold, c.FileBuffer)
	}
}

// TestSpillPieces has the example of Flink's unconsumed pieces.
func TestSpillPieces(t *testing.T) {
	eachSpillMode(t, func(t *testing.T, cfg DeserializerConfig, dir string) {
		cfg.SpillThreshold, cfg.FileBuffer = MinSpillThreshold, MinFileBuffer
		d := NewDeserializer(cfg)
		defer d.Close()
		rec := pattern(1, MinSpillThreshold+1)
		stream := framed(rec, []byte("rest"))
		sizes := func(want ...int) {
			t.Helper()
			parts := unconsumed(t, d)
			var got []int
			for _, p := range parts {
				got = append(got, len(p))
			}
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Fatalf("pieces %v, want %v", got, want)
			}
			if len(parts) > 1 && !bytes.HasPrefix(stream, bytes.Join(parts, nil)) {
				t.Fatal("wrong bytes")
			}
		}
		set := func(p []byte) {
			t.Helper()
			if err := d.SetBuffer(segment.Wrap(p, segment.DataBuffer)); err != nil {
				t.Fatal(err)
			}
		}
		set(stream[:1000])
		sizes(1000)
		if _, res, err := d.Next(); res != Partial || err != nil {
			t.Fatal(res, err)
		}
		sizes(4, 996)
		set(stream[1000:])
		sizes(4, MinFileBuffer, MinFileBuffer, 1, 8)
		u, err := d.Unconsumed() // holds the file beyond the record
		if err != nil {
			t.Fatal(err)
		}
		got, res, err := d.Next()
		if res != Intermediate || err != nil || !bytes.Equal(got, rec) {
			t.Fatal(res, err)
		}
		sizes(8)
		if got, res, err := d.Next(); res != Last || err != nil || string(got) != "rest" {
			t.Fatalf("%q %v %v", got, res, err)
		}
		d.Close()
		var all []byte
		for {
			b, ok, err := u.Next()
			if err != nil {
				t.Fatal(err)
			}
			if !ok {
				break
			}
			all = append(all, b.Bytes()...)
			b.Release()
		}
		if !bytes.Equal(all, stream) {
			t.Fatal("wrong bytes after Close")
		}
		u.Close()
	})
}

// TestSpillCleared: a file goes at Clear and Close in every state.
func TestSpillCleared(t *testing.T) {
	eachSpillMode(t, func(t *testing.T, cfg DeserializerConfig, dir string) {
		cfg.exact, cfg.SpillThreshold = true, 100
		stream := framed(pattern(1, 500), pattern(2, 10))
		for _, calls := range []int{0, 1, 2, 3, 4} {
			d := NewDeserializer(cfg)
			for i, p := range [][]byte{stream[:300], stream[300:]} {
				if 2*i >= calls+1 {
					break
				}
				if err := d.SetBuffer(segment.Wrap(p, segment.DataBuffer)); err != nil {
					t.Fatal(err)
				}
				if calls > 2*i {
					if _, _, err := d.Next(); err != nil {
						t.Fatal(err)
					}
				}
			}
			if calls%2 == 0 {
				d.Clear()
				if n, _ := readDir(dir); n != 0 {
					t.Fatalf("%d files after Clear, %d calls", n, calls)
				}
			}
			d.Close()
			if n, _ := readDir(dir); n != 0 {
				t.Fatalf("%d files after Close, %d calls", n, calls)
			}
		}
	})
}

// TestSpillFilesAreClosed: no descriptor is left to the collector.
func TestSpillFilesAreClosed(t *testing.T) {
	eachSpillMode(t, func(t *testing.T, cfg DeserializerConfig, _ string) {
		cfg.exact, cfg.SpillThreshold = true, 100
		var files []*os.File
		cfg.openFile = func(name string) (*os.File, error) {
			f, err := openExclusive(name)
			files = append(files, f)
			return f, err
		}
		d := NewDeserializer(cfg)
		if err := d.SetBuffer(segment.Wrap(framed(pattern(1, 500))[:300], segment.DataBuffer)); err != nil {
			t.Fatal(err)
		}
		if _, res, err := d.Next(); err != nil || res != Partial {
			t.Fatalf("%v, %v", res, err)
		}
		d.Close()
		if len(files) != 1 {
			t.Fatalf("%d files", len(files))
		}
		if err := files[0].Close(); !errors.Is(err, os.ErrClosed) {
			t.Errorf("the file was left open (closing it: %v)", err)
		}
	})
}

// TestSpillNames: the files are named as Flink's.
func TestSpillNames(t *testing.T) {
	cfg := DeserializerConfig{exact: true, SpillThreshold: 10, SpillDirs: []string{t.TempDir()}, keepName: true}
	d := NewDeserializer(cfg)
	if err := d.SetBuffer(segment.Wrap(framed(pattern(0, 20))[:15], segment.DataBuffer)); err != nil {
		t.Fatal(err)
	}
	if _, _, err := d.Next(); err != nil {
		t.Fatal(err)
	}
	names, err := filepath.Glob(filepath.Join(cfg.SpillDirs[0], strings.Repeat("[0-9a-f]", 40)+".inputchannel"))
	if err != nil || len(names) != 1 {
		t.Fatalf("%v %v", names, err)
	}
	if st, err := os.Stat(names[0]); err != nil || (runtime.GOOS != "windows" && st.Mode().Perm() != 0o600) {
		t.Fatalf("%v %v", st.Mode(), err)
	}
	d.Close()
	if n, _ := readDir(cfg.SpillDirs[0]); n != 0 {
		t.Fatal("not deleted")
	}
}

// TestSpillSER02 is SER-02: two deserializers with the same random numbers and
// one directory do not share a file; after 10 names that are taken the error
// names the directory.
func TestSpillSER02(t *testing.T) {
	for _, keep := range []bool{true, false} {
		dir := t.TempDir()
		seeded := func() func() uint64 { return rand.New(rand.NewPCG(1, 2)).Uint64 }
		var mu sync.Mutex
		opened := map[string]int{}
		cfg := DeserializerConfig{exact: true, SpillThreshold: 1 << 10, SpillDirs: []string{dir}, keepName: keep}
		cfg.openFile = func(name string) (*os.File, error) {
			f, err := openExclusive(name)
			if err == nil {
				mu.Lock()
				opened[name]++
				mu.Unlock()
			}
			return f, err
		}
		var ds [2]*Deserializer
		var recs, streams [2][]byte
		for i := range ds {
			cfg.Random = seeded()
			ds[i] = NewDeserializer(cfg)
			recs[i] = pattern(i, 4<<10)
			streams[i] = framed(recs[i])
		}
		// In step on one goroutine: both files are open at the same time.
		got := [2][]byte{}
		for off := 0; off < len(streams[0]); off += 1000 {
			for i, d := range ds {
				end := min(off+1000, len(streams[i]))
				if err := d.SetBuffer(segment.Wrap(streams[i][off:end], segment.DataBuffer)); err != nil {
					t.Fatal(err)
				}
				if keep && off == 0 {
					if _, _, err := d.Next(); err != nil {
						t.Fatal(err)
					}
					if n, _ := readDir(dir); n != i+1 {
						t.Fatalf("%d files for %d deserializers", n, i+1)
					}
					continue
				}
				rec, _, err := d.Next()
				if err != nil {
					t.Fatal(err)
				}
				got[i] = append(got[i], rec...)
				d.Done()
			}
		}
		for i, d := range ds {
			if !bytes.Equal(got[i], recs[i]) {
				t.Fatalf("deserializer %d: wrong bytes", i)
			}
			d.Close()
		}
		if n, _ := readDir(dir); n != 0 {
			t.Fatalf("%d files left", n)
		}
		// Both at the same time.
		var wg sync.WaitGroup
		for i := range 2 {
			cfg.Random = seeded()
			d := NewDeserializer(cfg)
			wg.Go(func() {
				defer d.Close()
				for range 20 {
					if got := readAll(t, d, cut(streams[i], 1000)...); len(got) != 1 || !bytes.Equal(got[0], recs[i]) {
						t.Errorf("deserializer %d: wrong bytes", i)
					}
				}
			})
		}
		wg.Wait()
		// Every name is taken.
		tries := 0
		cfg.openFile = func(name string) (*os.File, error) {
			tries++
			return nil, &os.PathError{Op: "open", Path: name, Err: syscall.EEXIST}
		}
		d := NewDeserializer(cfg)
		if err := d.SetBuffer(segment.Wrap(streams[0][:1000], segment.DataBuffer)); err != nil {
			t.Fatal(err)
		}
		_, _, err := d.Next()
		if !errors.Is(err, ErrSpill) || !strings.Contains(err.Error(), dir) || tries != 10 {
			t.Fatalf("after %d tries: %v", tries, err)
		}
		d.Close()
	}
}

// TestSpillBadDirectory: a directory that fails is dropped while another is left.
func TestSpillBadDirectory(t *testing.T) {
	good, bad := t.TempDir(), filepath.Join(t.TempDir(), "absent")
	for start := range uint64(3) {
		cfg := DeserializerConfig{exact: true, SpillThreshold: 100, SpillDirs: []string{bad, good, bad}, keepName: true}
		n := start
		cfg.Random = func() uint64 { n++; return n - 1 }
		d := NewDeserializer(cfg)
		rec := pattern(1, 300)
		for range 3 {
			sameRecords(t, readAll(t, d, cut(framed(rec), 64)...), [][]byte{rec})
		}
		if fmt.Sprint(cfg.SpillDirs) != fmt.Sprint([]string{bad, good, bad}) {
			t.Fatal("the caller's list was changed")
		}
		d.Close()
	}
	d := NewDeserializer(DeserializerConfig{exact: true, SpillThreshold: 100, SpillDirs: []string{bad, bad, bad}})
	err := d.SetBuffer(segment.Wrap(framed(pattern(1, 300))[:200], segment.DataBuffer))
	if err == nil {
		_, _, err = d.Next()
	}
	if !errors.Is(err, ErrSpill) || !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), bad) {
		t.Fatalf("got %v", err)
	}
	d.Close()
}

// TestSpillDiskFull: a full disk is an error that says so, at the record's
// first piece and at later ones, and leaves nothing behind.
func TestSpillDiskFull(t *testing.T) {
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip("needs /dev/full, which only Linux has")
	}
	dir := t.TempDir()
	cfg := DeserializerConfig{exact: true, SpillThreshold: 100, SpillDirs: []string{dir}, Channel: "0"}
	cfg.openFile = func(string) (*os.File, error) { return os.OpenFile("/dev/full", os.O_RDWR, 0) }
	stream := framed([]byte("ok"), pattern(1, 300))
	for _, first := range []int{6 + 4, 50} { // the length alone, and with some bytes
		d := NewDeserializer(cfg)
		b, w := watch(stream[:first])
		if err := d.SetBuffer(b); err != nil {
			t.Fatal(err)
		}
		if rec, _, err := d.Next(); err != nil || string(rec) != "ok" {
			t.Fatal(err)
		}
		_, _, err := d.Next()
		if first == 10 {
			if err != nil {
				t.Fatal(err)
			}
			w.end(t)
			b, w = watch(stream[first:])
			err = d.SetBuffer(b)
		}
		var re *RecordError
		if !errors.Is(err, ErrSpill) || !errors.Is(err, syscall.ENOSPC) || !errors.As(err, &re) || re.Record != 1 {
			t.Fatalf("got %v", err)
		}
		if _, _, again := d.Next(); again != err {
			t.Fatalf("the error went away: %v", again)
		}
		d.Clear()
		w.end(t)
		sameRecords(t, readAll(t, d, framed([]byte("on"))), [][]byte{[]byte("on")})
		d.Close()
	}
	if n, _ := readDir(dir); n != 0 {
		t.Fatal("a file is left")
	}
}

// TestUnconsumedElsewhere: another goroutine stores a snapshot while the
// deserializer goes on with the same file.
func TestUnconsumedElsewhere(t *testing.T) {
	eachSpillMode(t, func(t *testing.T, cfg DeserializerConfig, dir string) {
		cfg.exact, cfg.SpillThreshold, cfg.FileBuffer = true, 100, 50
		stream := framed(pattern(1, 5000), pattern(2, 3))
		d := NewDeserializer(cfg)
		var wg sync.WaitGroup
		for off := 0; off < len(stream); off += 200 {
			end := min(off+200, len(stream))
			must(t, d.SetBuffer(segment.Wrap(stream[off:end], segment.DataBuffer)))
			u, err := d.Unconsumed()
			must(t, err)
			wg.Go(func() {
				defer u.Close()
				var got []byte
				for {
					b, ok, err := u.Next()
					if err != nil {
						t.Error(err)
					}
					if !ok {
						break
					}
					got = append(got, b.Bytes()...)
					b.Release()
				}
				if !bytes.Equal(got, stream[:end]) {
					t.Errorf("%d bytes, want %d", len(got), end)
				}
			})
			for {
				_, res, err := d.Next()
				must(t, err)
				if res.Consumed() {
					break
				}
			}
			d.Done()
		}
		d.Close()
		wg.Wait()
	})
}

// TestSpillReadFails: a file that cannot be read back is an error, not a crash.
func TestSpillReadFails(t *testing.T) {
	cfg := DeserializerConfig{exact: true, SpillThreshold: 100, SpillDirs: []string{t.TempDir()}, noMap: true}
	cfg.openFile = func(name string) (*os.File, error) {
		return os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600) // cannot be read
	}
	stream := framed(pattern(1, 300))
	d := NewDeserializer(cfg)
	defer d.Close()
	if err := d.SetBuffer(segment.Wrap(stream[:200], segment.DataBuffer)); err != nil {
		t.Fatal(err)
	}
	if _, _, err := d.Next(); err != nil {
		t.Fatal(err)
	}
	u, err := d.Unconsumed()
	if err != nil {
		t.Fatal(err)
	}
	if b, ok, err := u.Next(); !ok || err != nil || b.Len() != 4 {
		t.Fatal(ok, err)
	}
	if _, _, err := u.Next(); !errors.Is(err, ErrSpill) {
		t.Fatalf("got %v", err)
	}
	u.Close()
	if p, err := d.AppendUnconsumed([]byte("x")); !errors.Is(err, ErrSpill) || !bytes.HasPrefix(p, []byte("x")) {
		t.Fatalf("got %v", err)
	}
	b, w := watch(stream[200:])
	if err := d.SetBuffer(b); err != nil {
		t.Fatal(err)
	}
	if _, _, err := d.Next(); !errors.Is(err, ErrSpill) {
		t.Fatalf("got %v", err)
	}
	d.Clear()
	w.end(t)
}

// TestHostileLengthCostsNothing: a length alone takes no memory and no disk;
// what is kept follows the bytes that arrived.
func TestHostileLengthCostsNothing(t *testing.T) {
	d := NewDeserializer(DeserializerConfig{SpillDirs: []string{t.TempDir()}})
	defer d.Close()
	for _, n := range []uint32{DefaultSpillThreshold, MaxRecordLength} {
		if err := d.SetBuffer(segment.Wrap(append(binary.BigEndian.AppendUint32(nil, n), "some bytes"...), segment.DataBuffer)); err != nil {
			t.Fatal(err)
		}
		if _, res, err := d.Next(); res != Partial || err != nil {
			t.Fatal(res, err)
		}
		if c := cap(d.span.body); c > keptScratch {
			t.Fatalf("%d bytes kept for a length of %d", c, n)
		}
		if d.span.file != nil {
			if st, err := d.span.file.f.Stat(); err != nil || st.Size() != 10 {
				t.Fatalf("file of %d bytes, %v", st.Size(), err)
			}
		}
		d.Clear()
	}
}

// TestLargeRecordGivesBack: pooled memory, a mapping and a file are kept until
// the record is no longer valid, and no longer.
func TestLargeRecordGivesBack(t *testing.T) {
	eachSpillMode(t, func(t *testing.T, cfg DeserializerConfig, dir string) {
		cfg.exact, cfg.SpillThreshold = true, 100<<10
		for _, n := range []int{keptScratch + 1, cfg.SpillThreshold + 1} {
			for name, next := range map[string]func(d *Deserializer){
				"Next": func(d *Deserializer) {
					if rec, res, err := d.Next(); err != nil || res != Last || string(rec) != "rest" {
						t.Fatalf("%q %v %v", rec, res, err)
					}
				},
				"Done":  func(d *Deserializer) { d.Done() },
				"Clear": func(d *Deserializer) { d.Clear() },
			} {
				d := NewDeserializer(cfg)
				stream := framed(pattern(1, n), []byte("rest"))
				must(t, d.SetBuffer(segment.Wrap(stream[:50], segment.DataBuffer)))
				if _, _, err := d.Next(); err != nil {
					t.Fatal(err)
				}
				must(t, d.SetBuffer(segment.Wrap(stream[50:], segment.DataBuffer)))
				rec, res, err := d.Next()
				if err != nil || res != Intermediate || !bytes.Equal(rec, pattern(1, n)) {
					t.Fatalf("%v %v", res, err)
				}
				if d.span.pooled == nil && d.span.file == nil {
					t.Fatalf("%d bytes: nothing is kept for the record", n)
				}
				if _, ok := d.Whole(); ok {
					t.Fatal("the short path is open while the record is valid")
				}
				next(d)
				if d.span.pooled != nil || d.span.file != nil || d.span.mapped.mapped != nil || d.span.mapped.read != nil || d.span.delivered {
					t.Fatalf("%d bytes: still kept after %s", n, name)
				}
				d.Close()
			}
		}
	})
}
