package segment

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weirflow/weir/internal/buildtag"
)

// hugePage is the size of explicit huge pages on the platforms that weir is for.
const hugePage = 2 << 20

func systemFor(cfg Config) (*system, error) {
	if cfg.Backing == BackingHeap || cfg.Backing == BackingAuto && (buildtag.Race || buildtag.NoUnsafe) {
		return heapSystem(), nil
	}
	return mappedSystem(), nil
}

// mappedSystem maps anonymous memory.
func mappedSystem() *system {
	return &system{
		mapped:  true,
		page:    os.Getpagesize(),
		huge:    hugePage,
		mapAnon: mapAnon,
		unmap:   unix.Munmap,
		advise:  func(mem []byte) error { return unix.Madvise(mem, unix.MADV_HUGEPAGE) },
		populate: func(mem []byte) error {
			err := unix.Madvise(mem, unix.MADV_POPULATE_WRITE)
			if errors.Is(err, unix.EINVAL) {
				return errors.ErrUnsupported // before Linux 5.14
			}
			return err
		},
		resident: resident,
		lock:     unix.Mlock,
		protect: func(mem []byte, usable bool) error {
			if usable {
				return unix.Mprotect(mem, unix.PROT_READ|unix.PROT_WRITE)
			}
			return unix.Mprotect(mem, unix.PROT_NONE)
		},
		explainMap:   explainMap,
		memlockLimit: memlockLimit,
		sleep:        time.Sleep,
	}
}

func mapAnon(n int, huge bool) ([]byte, error) {
	flags := unix.MAP_PRIVATE | unix.MAP_ANON
	if huge {
		flags |= unix.MAP_HUGETLB | unix.MAP_POPULATE
	}
	return unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, flags)
}

// resident tells whether all pages of mem are in memory.
func resident(mem []byte) (bool, error) {
	vec := make([]byte, (len(mem)+os.Getpagesize()-1)/os.Getpagesize())
	if err := mincore(mem, vec); err != nil {
		return false, err
	}
	for _, v := range vec {
		if v&1 == 0 {
			return false, nil
		}
	}
	return true, nil
}

// explainMap finds out why a mapping was refused.
func explainMap(err error) (kind error, limit string) {
	if !errors.Is(err, unix.ENOMEM) {
		return ErrNoMemory, ""
	}
	if have, most := mapCount(); most > 0 && have >= most-1 {
		return ErrMapCount, fmt.Sprintf("vm.max_map_count is %d, mappings in use %d", most, have)
	}
	var r unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_AS, &r) == nil && r.Cur != unix.RLIM_INFINITY {
		return ErrNoMemory, fmt.Sprintf("RLIMIT_AS is %d bytes", r.Cur)
	}
	return ErrNoMemory, ""
}

// mapCount returns how many mappings the process has and may have; 0 if unknown.
func mapCount() (have, most int) {
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return 0, 0
	}
	text, err := os.ReadFile("/proc/sys/vm/max_map_count")
	if err != nil {
		return 0, 0
	}
	if _, err := fmt.Sscan(string(text), &most); err != nil {
		return 0, 0
	}
	return bytes.Count(maps, []byte{'\n'}), most
}

func memlockLimit() string {
	var r unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_MEMLOCK, &r) != nil {
		return ""
	}
	return fmt.Sprintf("RLIMIT_MEMLOCK is %d bytes", r.Cur)
}
