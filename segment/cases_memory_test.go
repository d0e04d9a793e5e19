package segment

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weirflow/weir/internal/buildtag"
)

// fakeSystem is a heap that pretends to be mapped, so that failures can be put in on any platform.
func fakeSystem() *system {
	return &system{
		mapped:       true,
		page:         4096,
		huge:         2 << 20,
		mapAnon:      func(n int, _ bool) ([]byte, error) { return make([]byte, n), nil },
		unmap:        func([]byte) error { return nil },
		advise:       func([]byte) error { return nil },
		populate:     func([]byte) error { return nil },
		resident:     func([]byte) (bool, error) { return true, nil },
		lock:         func([]byte) error { return nil },
		protect:      func([]byte, bool) error { return nil },
		explainMap:   func(error) (error, string) { return ErrNoMemory, "" },
		memlockLimit: func() string { return "a limit" },
		sleep:        func(time.Duration) {},
	}
}

// A mapping that the system refuses to unmap stays owned, is tried again with back-off, and is then gone.
func TestSEG14UnmapFailsAndIsRetried(t *testing.T) {
	sys := fakeSystem()
	var order []int
	slabOf := map[*byte]int{}
	refusals := 0
	sys.mapAnon = func(n int, _ bool) ([]byte, error) {
		m := make([]byte, n)
		slabOf[&m[0]] = len(slabOf)
		return m, nil
	}
	sys.unmap = func(m []byte) error {
		slab := slabOf[&m[0]]
		if slab == 2 && refusals < 2 {
			refusals++
			return syscall.ENOMEM
		}
		order = append(order, slab)
		return nil
	}
	var pauses []time.Duration
	sys.sleep = func(d time.Duration) { pauses = append(pauses, d) }
	p, err := newPool(Config{Segments: 16, SegmentSize: 4096, SlabSegments: 2}.withDefaults(), sys)
	if err != nil {
		t.Fatal(err)
	}
	bs, err := p.Request(hangContext(t), 16)
	if err != nil {
		t.Fatal(err)
	}
	if u := p.Usage(); u.Slabs != 8 || u.Memory.Mapped != 16*4096 {
		t.Fatalf("%+v", u)
	}
	// Segments come home in order, so slab 2 becomes idle with the 6th and is refused. The back-off is 2 returns, then
	// 4: tried with the 8th, refused, and with the 12th, gone.
	for i, b := range bs {
		b.Release()
		u := p.Usage()
		stuck, failures := 0, 0
		switch home := i + 1; {
		case home >= 12:
			failures = 2
		case home >= 8:
			stuck, failures = 1, 2
		case home >= 6:
			stuck, failures = 1, 1
		}
		if u.Memory.Stuck != stuck || int(u.Memory.UnmapFailures) != failures {
			t.Fatalf("with %d home: %+v, want %d pending and %d failures", i+1, u.Memory, stuck, failures)
		}
		if i+1 == 11 {
			// The refused slab is neither forgotten nor counted as freed: 16 segments, slabs 1 and 3 and 4 are unmapped.
			if u.Memory.Mapped != uint64(u.Slabs+1)*2*4096 {
				t.Fatalf("%d slabs and one that waits, %d bytes", u.Slabs, u.Memory.Mapped)
			}
			x, err := p.Request(hangContext(t), 9)
			if err != nil {
				t.Fatal(err)
			}
			for _, b := range x {
				if b.h.slab == 2 {
					t.Fatal("a segment of the region that is being unmapped was handed out")
				}
			}
			p.mem.clock -= 9 // as if these 9 returns were none
			p.ReleaseAll(x)
		}
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	if u := p.Usage(); u.Memory.Stuck != 0 || u.Memory.Mapped != 0 || len(pauses) > 0 {
		t.Fatalf("%+v", u.Memory)
	}
	if len(order) < 8 {
		t.Fatalf("unmapped %v", order)
	}
}

// The back-off of unmapping doubles with each refusal, counted in returns.
func TestUnmapBackOff(t *testing.T) {
	sys := fakeSystem()
	tries := 0
	sys.unmap = func([]byte) error {
		tries++
		return syscall.ENOMEM
	}
	p, err := newPool(Config{Segments: 8, SegmentSize: 16, SlabSegments: 2}.withDefaults(), sys)
	if err != nil {
		t.Fatal(err)
	}
	bs, err := p.Request(hangContext(t), 8)
	if err != nil {
		t.Fatal(err)
	}
	p.ReleaseAll(bs) // some slabs become idle and refuse
	after := tries
	stuck := p.Usage().Memory.Stuck
	if stuck == 0 {
		t.Fatal("no slab was given back")
	}
	for range 1000 {
		b, err := p.Request(hangContext(t), 1)
		if err != nil {
			t.Fatal(err)
		}
		b[0].Release()
	}
	if n := tries - after; n < stuck || n > 12*stuck {
		t.Fatalf("%d tries for %d slabs in 1000 returns", n, stuck)
	}
	pauses := 0
	sys.sleep = func(time.Duration) { pauses++ }
	var mem *MemoryError
	if err := p.Close(); !errors.As(err, &mem) || mem.Op != "unmap" || pauses != closeRetries {
		t.Fatalf("%v after %d pauses", err, pauses)
	}
}

// Segments are cut from few mappings.
func TestSEG14FewMappings(t *testing.T) {
	if !mappedBuild {
		t.Skip("this build takes memory from the heap")
	}
	before := mappings(t)
	p := mustPool(t, Config{Segments: 10_000, SegmentSize: 4096})
	if n := mappings(t) - before; n >= 20 {
		t.Fatalf("10000 segments use %d mappings", n)
	}
	closeAll(t, p)
}

// A request for huge pages that can't be met falls back, or fails with a typed error; it never leaves a page that faults.
func TestSEG16HugePages(t *testing.T) {
	const segments = 64 << 20 / DefaultSize
	try := Config{Segments: segments, HugePages: HugeTry}
	must := Config{Segments: segments, HugePages: HugeMust}
	fill := func(t *testing.T, p *Pool) {
		bs, err := p.Request(hangContext(t), segments)
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range bs {
			m := b.Memory()
			for i := 0; i < len(m); i += 4096 {
				m[i] = 1
			}
		}
		p.ReleaseAll(bs)
		closeAll(t, p)
	}
	t.Run("this machine", func(t *testing.T) {
		p := mustPool(t, try)
		u := p.Usage().Memory
		if u.Huge == 0 && !errors.Is(u.HugeRefused, ErrNoHugePages) && mappedBuild {
			t.Fatalf("neither huge pages nor a reason: %+v", u)
		}
		fill(t, p)
		if p, err := NewPool(must); err == nil {
			if p.Usage().Memory.Huge == 0 {
				t.Fatal("no huge pages and no error")
			}
			fill(t, p)
		} else if !errors.Is(err, ErrNoHugePages) {
			t.Fatal(err)
		}
	})
	failures := map[string]func(*system){
		"mmap refuses":             func(s *system) { s.mapAnon = refuseHuge(s.mapAnon) },
		"populate refuses":         func(s *system) { s.populate = func([]byte) error { return syscall.EFAULT } },
		"pages are not there":      func(s *system) { s.resident = func([]byte) (bool, error) { return false, nil } },
		"residency can't be asked": func(s *system) { s.resident = func([]byte) (bool, error) { return false, errors.ErrUnsupported } },
		"populate unknown, missing": func(s *system) {
			s.populate = unsupported
			s.resident = func([]byte) (bool, error) { return false, nil }
		},
	}
	for name, breakIt := range failures {
		t.Run(name, func(t *testing.T) {
			sys, advised, unmapped := fakeSystem(), 0, 0
			sys.advise = func([]byte) error { advised++; return nil }
			sys.unmap = func([]byte) error { unmapped++; return nil }
			breakIt(sys)
			p, err := newPool(try.withDefaults(), sys)
			if err != nil {
				t.Fatal(err)
			}
			u := p.Usage().Memory
			if u.Huge != 0 || !errors.Is(u.HugeRefused, ErrNoHugePages) || advised != 1 {
				t.Fatalf("%+v, advised %d times", u, advised)
			}
			fill(t, p)
			if _, err := newPool(must.withDefaults(), sys); !errors.Is(err, ErrNoHugePages) {
				t.Fatal(err)
			}
			if want := 3; name != "mmap refuses" && unmapped != want {
				t.Fatalf("unmapped %d times, want %d: both failed mappings and the pool", unmapped, want)
			}
		})
	}
	t.Run("success by injection", func(t *testing.T) {
		for _, populate := range []func([]byte) error{func([]byte) error { return nil }, unsupported} {
			sys := fakeSystem()
			sys.populate = populate
			p, err := newPool(must.withDefaults(), sys)
			if err != nil {
				t.Fatal(err)
			}
			if u := p.Usage().Memory; u.Huge != 64<<20 || u.HugeRefused != nil {
				t.Fatalf("%+v", u)
			}
			fill(t, p)
		}
	})
}

func unsupported([]byte) error { return errors.ErrUnsupported }

func refuseHuge(mapAnon func(int, bool) ([]byte, error)) func(int, bool) ([]byte, error) {
	return func(n int, huge bool) ([]byte, error) {
		if huge {
			return nil, syscall.ENOMEM
		}
		return mapAnon(n, huge)
	}
}

// A spill file that somebody truncates gives an error, not SIGBUS.
func TestSEG18TruncatedFile(t *testing.T) {
	const page = 4096
	name := filepath.Join(t.TempDir(), "spill")
	if err := os.WriteFile(name, make([]byte, 3*page), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	file := NewFile(f)
	p := mustPool(t, Config{Segments: 1, SegmentSize: page})
	l := mustLocal(t, p, LocalConfig{Required: 1})
	dst := mustTake(t, l)
	second := file.Wrap(page, page, DataBuffer)
	if _, err := second.ReadInto(dst); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(name, page); err != nil {
		t.Fatal(err)
	}
	got, err := second.ReadInto(dst)
	var fe *FileError
	if !errors.As(err, &fe) || !errors.Is(err, io.ErrUnexpectedEOF) || !errors.Is(err, ErrFile) || fe.At != page || got != dst {
		t.Fatalf("%v", err)
	}
	if file.Broken() != err {
		t.Fatalf("the file is not marked: %v", file.Broken())
	}
	second.Release()
	l.Put(dst)
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	closeAll(t, p, l)
}

// unsafe is confined to files that say so, and no address is kept in an integer.
func TestSEG20UnsafeIsConfined(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	found := 0
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		src := string(b)
		if strings.Contains(src, "\t\"unsafe\"\n") || strings.Contains(src, "import \"unsafe\"\n") {
			found++
			if !strings.Contains(f, "_unsafe") {
				t.Errorf("%s imports unsafe", f)
			}
			if strings.Contains(src, "unsafe.Add") || strings.Contains(src, "unsafe.Slice(") {
				t.Errorf("%s makes memory out of an address", f)
			}
		}
		if strings.Contains(src, "unsafe.Pointer(uint"+"ptr") || strings.Contains(src, "MmapPtr("+"") && f != "cases_memory_test.go" {
			t.Errorf("%s makes a pointer of an integer", f)
		}
	}
	if found == 0 {
		t.Error("no file imports unsafe: the test looks in the wrong place")
	}
}

// Race builds take memory from the heap unless told otherwise.
func TestSEG22DefaultBacking(t *testing.T) {
	p := mustPool(t, Config{Segments: 4, SegmentSize: 4096})
	u := p.Usage().Memory
	if heap := u.Heap > 0; heap == mappedBuild {
		t.Fatalf("race %v, nounsafe %v, and %+v", buildtag.Race, buildtag.NoUnsafe, u)
	}
	closeAll(t, p)
}

// Locking memory: the success, and the arithmetic, by injection. The refusal is tested for real on Linux.
func TestSEG26LockByInjection(t *testing.T) {
	sys := fakeSystem()
	calls := 0
	sys.lock = func([]byte) error { calls++; return nil }
	p, err := newPool(Config{Segments: 32, Mlock: true}.withDefaults(), sys)
	if err != nil {
		t.Fatal(err)
	}
	if u := p.Usage().Memory; u.Locked != 1<<20 || u.LockRefused != nil {
		t.Fatalf("%+v", u)
	}
	closeAll(t, p)
	if p, err = newPool(Config{Segments: 32}.withDefaults(), sys); err != nil || p.Usage().Memory.Locked != 0 || calls != 1 {
		t.Fatalf("not asked for, but locked: %v, %d calls", err, calls)
	}
	closeAll(t, p)
	sys.lock = func([]byte) error { return syscall.ENOMEM }
	unmapped := 0
	sys.unmap = func([]byte) error { unmapped++; return nil }
	for _, huge := range []HugePages{HugeAdvise, HugeMust} {
		var me *MemoryError
		if _, err = newPool(Config{Segments: 32, Mlock: true, HugePages: huge}.withDefaults(), sys); !errors.As(err, &me) ||
			!errors.Is(err, ErrMemlock) || me.Limit != "a limit" || me.Bytes < 1<<20 {
			t.Fatal(err)
		}
	}
	if unmapped != 2 {
		t.Fatal("what could not be locked was not given back")
	}
}

// The errors of mapping name what was wanted and what stands in the way.
func TestMapErrors(t *testing.T) {
	sys := fakeSystem()
	sys.mapAnon = func(int, bool) ([]byte, error) { return nil, syscall.ENOMEM }
	sys.explainMap = func(error) (error, string) { return ErrMapCount, "vm.max_map_count is 65530, mappings in use 65530" }
	_, err := newPool(Config{Segments: 1024}.withDefaults(), sys)
	for _, want := range []string{"required 32 MB", "allocated 0 MB", "missing 32 MB", "33554432 bytes", "vm.max_map_count is 65530"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v lacks %q", err, want)
		}
	}
	if !errors.Is(err, ErrMapCount) || !errors.Is(err, syscall.ENOMEM) {
		t.Error(err)
	}
	sys = fakeSystem()
	sys.populate = func([]byte) error { return syscall.EFAULT }
	unmapped := false
	sys.unmap = func([]byte) error { unmapped = true; return nil }
	if _, err = newPool(Config{Segments: 4, Prefault: true}.withDefaults(), sys); !errors.Is(err, ErrNoMemory) || !unmapped {
		t.Error(err)
	}
	sys.populate = unsupported
	p, err := newPool(Config{Segments: 4, Prefault: true}.withDefaults(), sys)
	if err != nil {
		t.Fatal(err)
	}
	closeAll(t, p)
}

// A slab that can't be mapped leaves the pool with what it has; the reason is reported, and the next need tries again.
func TestGrowRefused(t *testing.T) {
	sys := fakeSystem()
	allow := 1
	sys.mapAnon = func(n int, _ bool) ([]byte, error) {
		if allow--; allow < 0 {
			return nil, syscall.ENOMEM
		}
		return make([]byte, n), nil
	}
	p, err := newPool(Config{Segments: 4, SegmentSize: 64, SlabSegments: 2}.withDefaults(), sys)
	if err != nil {
		t.Fatal(err)
	}
	l := mustLocal(t, p, LocalConfig{Required: 4})
	a, b := mustTake(t, l), mustTake(t, l)
	mustNotTake(t, l)
	if u := p.Usage(); !errors.Is(u.Memory.GrowRefused, ErrNoMemory) || u.Slabs != 1 {
		t.Fatalf("%+v", u)
	}
	allow = 1
	l.Put(a)
	a = mustTake(t, l)
	b.Release()
	l.Drain()
	a.Release()
	l.Drain()
	var all []Buffer
	for range 4 {
		if x, ok := l.Take(); ok {
			all = append(all, x)
		}
	}
	if len(all) < 2 {
		t.Fatalf("%d segments", len(all))
	}
	for _, x := range all {
		l.Put(x)
	}
	closeAll(t, p, l)
}

// Slabs come and go with hysteresis: a load that swings by less than a slab maps nothing anew.
func TestSlabsComeAndGo(t *testing.T) {
	sys := fakeSystem()
	maps, unmaps := 0, 0
	mapAnon := sys.mapAnon
	sys.mapAnon = func(n int, h bool) ([]byte, error) { maps++; return mapAnon(n, h) }
	sys.unmap = func([]byte) error { unmaps++; return nil }
	p, err := newPool(Config{Segments: 40, SegmentSize: 64, SlabSegments: 10}.withDefaults(), sys)
	if err != nil {
		t.Fatal(err)
	}
	if maps != 1 {
		t.Fatalf("%d slabs mapped at the start", maps)
	}
	var held []Buffer
	take := func(n int) {
		bs, err := p.Request(hangContext(t), n)
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, bs...)
	}
	give := func(n int) {
		p.ReleaseAll(held[len(held)-n:])
		held = held[:len(held)-n]
	}
	take(25)
	if maps != 3 || unmaps != 0 {
		t.Fatalf("25 segments: %d mapped, %d unmapped", maps, unmaps)
	}
	for range 100 { // swings between 16 and 25: 9 segments
		give(9)
		take(9)
	}
	if maps != 3 || unmaps != 0 {
		t.Fatalf("a swing of 9 segments: %d mapped, %d unmapped", maps, unmaps)
	}
	give(25)
	if s := p.Usage().Slabs; s != 1 || unmaps != 2 {
		t.Fatalf("idle: %d slabs stay, %d unmapped", s, unmaps)
	}
	take(40)
	if s := p.Usage().Slabs; s != 4 {
		t.Fatalf("full: %d slabs", s)
	}
	if u := p.Usage(); u.Free != 0 || u.Memory.Mapped != 4*4096 {
		t.Fatalf("%+v", u)
	}
	give(40)
	p.Trim(0)
	if u := p.Usage(); u.Slabs != 0 || u.Memory.Mapped != 0 || u.Free != 40 {
		t.Fatalf("trimmed: %+v", u)
	}
	take(1)
	give(1)
	closeAll(t, p)
	if maps != unmaps {
		t.Fatalf("%d mapped, %d unmapped", maps, unmaps)
	}
}

// A buffer that comes home after Close gives its slab back then.
func TestLateReturnUnmaps(t *testing.T) {
	p := mustPool(t, Config{Segments: 4, SegmentSize: 4096})
	l := mustLocal(t, p, LocalConfig{Name: "late", Required: 2, Purpose: Send})
	b := mustTake(t, l)
	l.Close()
	var leak *LeakError
	if err := p.Close(); !errors.As(err, &leak) || !errors.Is(err, ErrLeak) || len(leak.Leaks) != 1 || leak.Leaks[0].Pool != "late" ||
		!strings.Contains(err.Error(), `segment`) {
		t.Fatalf("%v", err)
	}
	b.Memory()[0] = 1 // still there
	b.Release()
	if u := p.Usage().Memory; u.Mapped+u.Heap != 0 {
		t.Fatalf("%+v", u)
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
}
