package segment

import (
	"errors"
	"fmt"
	"time"
)

// Sentinels of *MemoryError.
var (
	// ErrNoMemory: the system has no memory, or no room in the address space, for the pool.
	ErrNoMemory = errors.New("segment: no memory")
	// ErrNoHugePages: the system has not enough explicit huge pages (vm.nr_hugepages).
	ErrNoHugePages = errors.New("segment: not enough huge pages")
	// ErrMapCount: the process has as many mappings as it may (vm.max_map_count).
	ErrMapCount = errors.New("segment: too many mappings")
	// ErrMemlock: the process may not lock so much memory (RLIMIT_MEMLOCK).
	ErrMemlock = errors.New("segment: memory lock refused")
)

// MemoryError reports that the system refused memory.
type MemoryError struct {
	Op    string // "map", "populate", "lock"
	Bytes uint64 // wanted by this step
	Limit string // the limit that stands in the way, with its value; empty if none is known
	Kind  error  // the sentinel
	Err   error  // the system's
}

func (e *MemoryError) Error() string {
	s := fmt.Sprintf("%v: cannot %s %d bytes", e.Kind, e.Op, e.Bytes)
	if e.Limit != "" {
		s += " (" + e.Limit + ")"
	}
	return s + ": " + e.Err.Error()
}

// Unwrap returns the sentinel and the system's error.
func (e *MemoryError) Unwrap() []error { return []error{e.Kind, e.Err} }

// MemoryUsage tells what the system gave.
type MemoryUsage struct {
	Mapped        uint64 // bytes outside of the Go heap
	Heap          uint64 // bytes of the Go heap
	Huge          uint64 // bytes in explicit huge pages, part of Mapped
	Locked        uint64 // bytes locked
	LockRefused   error  // why TryMlock did not lock; nil if it did or was not asked to
	HugeRefused   error  // why HugeTry fell back; nil if it did not
	Stuck         int    // slabs given up that the system would not unmap yet
	UnmapFailures uint64 // attempts to unmap that failed
	GrowRefused   error  // why the last slab that was needed could not be mapped; nil once one could
}

// system is what the operating system does for an arena. Tests put failures in.
type system struct {
	mapped       bool // outside of the Go heap
	page, huge   int  // sizes of pages in bytes; huge is 0 if there are none
	mapAnon      func(n int, huge bool) ([]byte, error)
	unmap        func([]byte) error
	advise       func([]byte) error         // use transparent huge pages
	populate     func([]byte) error         // make all pages present
	resident     func([]byte) (bool, error) // are they
	lock         func([]byte) error
	protect      func(mem []byte, usable bool) error
	explainMap   func(err error) (kind error, limit string)
	memlockLimit func() string
	sleep        func(time.Duration)
}

// heapSystem takes memory from the Go heap.
func heapSystem() *system {
	return &system{
		page:    1,
		mapAnon: func(n int, _ bool) ([]byte, error) { return make([]byte, n), nil },
		unmap:   func([]byte) error { return nil },
		sleep:   time.Sleep,
	}
}

// obtain gets n bytes as cfg wants them. Nothing is kept on an error.
func (s *system) obtain(u *MemoryUsage, cfg Config, n int) ([]byte, error) {
	if cfg.HugePages >= HugeTry {
		mem, err := s.obtainHuge(n)
		if err == nil {
			if err = s.lockIf(u, cfg, mem); err != nil {
				return nil, errors.Join(err, s.unmap(mem))
			}
			u.Mapped += uint64(len(mem))
			u.Huge += uint64(len(mem))
			return mem, nil
		}
		if cfg.HugePages == HugeMust {
			return nil, err
		}
		u.HugeRefused = err
	}
	mem, err := s.mapAnon(roundTo(n, s.page), false)
	if err != nil {
		kind, limit := s.explainMap(err)
		return nil, &MemoryError{Op: "map", Bytes: uint64(n), Limit: limit, Kind: kind, Err: err}
	}
	if cfg.HugePages != HugeNever && s.advise != nil && s.huge > 0 && len(mem) >= s.huge {
		_ = s.advise(mem) // advice: without it there are small pages
	}
	if cfg.Prefault {
		if err := s.prefault(mem); err != nil {
			return nil, errors.Join(&MemoryError{Op: "populate", Bytes: uint64(n), Kind: ErrNoMemory, Err: err}, s.unmap(mem))
		}
	}
	if err := s.lockIf(u, cfg, mem); err != nil {
		return nil, errors.Join(err, s.unmap(mem))
	}
	if s.mapped {
		u.Mapped += uint64(len(mem))
	} else {
		u.Heap += uint64(len(mem))
	}
	return mem, nil
}

var errNotResident = errors.New("pages are not there after they were mapped")

// obtainHuge maps explicit huge pages and makes sure that each of them is there: touching one that the system promised but
// doesn't have would end the process with SIGBUS.
func (s *system) obtainHuge(n int) ([]byte, error) {
	refuse := func(op string, err error) error {
		return &MemoryError{Op: op, Bytes: uint64(n), Limit: "vm.nr_hugepages, hugetlb cgroup", Kind: ErrNoHugePages, Err: err}
	}
	if s.huge == 0 {
		return nil, refuse("map", errors.ErrUnsupported)
	}
	mem, err := s.mapAnon(roundTo(n, s.huge), true)
	if err != nil {
		return nil, refuse("map", err)
	}
	err = s.populate(mem)
	if err == nil || errors.Is(err, errors.ErrUnsupported) {
		var there bool
		if there, err = s.resident(mem); err == nil && !there {
			err = errNotResident
		}
	}
	if err != nil {
		return nil, errors.Join(refuse("populate", err), s.unmap(mem))
	}
	return mem, nil
}

// prefault makes ordinary pages present.
func (s *system) prefault(mem []byte) error {
	if s.populate != nil {
		if err := s.populate(mem); !errors.Is(err, errors.ErrUnsupported) {
			return err
		}
	}
	for i := 0; i < len(mem); i += 4096 {
		mem[i] = 0
	}
	return nil
}

func (s *system) lockIf(u *MemoryUsage, cfg Config, mem []byte) error {
	if !cfg.Mlock && !cfg.TryMlock {
		return nil
	}
	err := errors.ErrUnsupported
	limit := ""
	if s.lock != nil {
		if err = s.lock(mem); err == nil {
			u.Locked += uint64(len(mem))
			return nil
		}
		limit = s.memlockLimit()
	}
	err = &MemoryError{Op: "lock", Bytes: uint64(len(mem)), Limit: limit, Kind: ErrMemlock, Err: err}
	if cfg.Mlock {
		return err
	}
	u.LockRefused = err
	return nil
}

// release gives mem back.
func (s *system) release(u *MemoryUsage, mem []byte) error {
	if err := s.unmap(mem); err != nil {
		return err
	}
	n := uint64(len(mem))
	if s.mapped {
		u.Mapped -= n
		u.Locked -= min(u.Locked, n)
		u.Huge -= min(u.Huge, n)
	} else {
		u.Heap -= n
	}
	return nil
}

func roundTo(n, unit int) int { return (n + unit - 1) / unit * unit }
