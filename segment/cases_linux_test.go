package segment

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// child runs this test binary again for the test alone, with the given word in the environment, and returns what it
// printed.
func child(t *testing.T, word string) (string, error) {
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), childWord+"="+word)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

const childWord = "SEGMENT_TEST_CHILD"

// Memory that may not be locked: the pool works without, or refuses with the limit.
func TestSEG26LockRefused(t *testing.T) {
	if os.Getenv(childWord) == "" {
		out, err := child(t, "lock")
		if err != nil || !strings.Contains(out, "locked=false") || !strings.Contains(out, "must: refused") {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	if err := unix.Setrlimit(unix.RLIMIT_MEMLOCK, &unix.Rlimit{Cur: 64 << 10, Max: 64 << 10}); err != nil {
		t.Skip("can't lower RLIMIT_MEMLOCK: ", err)
	}
	if os.Getuid() == 0 { // the limit doesn't bind root
		if err := syscall.Setuid(65534); err != nil {
			t.Skip("can't give up the right to lock memory: ", err)
		}
	}
	cfg := Config{Segments: 32, Backing: BackingMapped, TryMlock: true}
	p := mustPool(t, cfg)
	u := p.Usage().Memory
	var me *MemoryError
	if u.Locked != 0 || !errors.As(u.LockRefused, &me) || !strings.Contains(me.Limit, "65536") {
		t.Fatalf("%+v", u)
	}
	bs, err := p.Request(hangContext(t), 32)
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range bs {
		b.Memory()[0] = 1
	}
	p.ReleaseAll(bs)
	closeAll(t, p)
	fmt.Println("locked=false", u.LockRefused)

	cfg.TryMlock, cfg.Mlock = false, true
	_, err = NewPool(cfg)
	if !errors.Is(err, ErrMemlock) || !strings.Contains(err.Error(), "RLIMIT_MEMLOCK is 65536 bytes") || !strings.Contains(err.Error(), "1048576 bytes") {
		t.Fatal(err)
	}
	fmt.Println("must: refused", err)
}

// A process that may not map more gets an error that names the limit.
func TestMapRefused(t *testing.T) {
	if os.Getenv(childWord) == "" {
		out, err := child(t, "map")
		if err != nil || !strings.Contains(out, "refused:") {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	if err := unix.Setrlimit(unix.RLIMIT_AS, &unix.Rlimit{Cur: 1 << 40, Max: 1 << 40}); err != nil {
		t.Skip("can't lower RLIMIT_AS: ", err)
	}
	_, err := NewPool(Config{Segments: 1 << 11, SegmentSize: 1 << 30, Backing: BackingMapped})
	var me *MemoryError
	if !errors.As(err, &me) || !errors.Is(err, ErrNoMemory) || !strings.Contains(me.Limit, "RLIMIT_AS") {
		t.Fatal(err)
	}
	fmt.Println("refused:", err)
}

// The real system: prefault makes pages present, and what was mapped is unmapped.
func TestMappedPrefault(t *testing.T) {
	p := mustPool(t, Config{Segments: 128, Backing: BackingMapped, Prefault: true, HugePages: HugeNever})
	mem := p.headers[17].mem
	there, err := resident(mem)
	if errors.Is(err, errors.ErrUnsupported) {
		t.Log("residency can't be asked in this build")
	} else if err != nil || !there {
		t.Fatalf("page of a prefaulted pool: present %v, %v", there, err)
	}
	if u := p.Usage().Memory; u.Mapped != 128*DefaultSize || u.Heap != 0 {
		t.Fatalf("%+v", u)
	}
	closeAll(t, p)
	if u := p.Usage().Memory; u.Mapped != 0 {
		t.Fatalf("%+v", u)
	}
	if err := unix.Madvise(mem, unix.MADV_NORMAL); !errors.Is(err, unix.ENOMEM) {
		t.Fatalf("the memory is still mapped: %v", err)
	}
}
