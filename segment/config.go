package segment

import "math"

// DefaultSize is the size of a segment in bytes unless Config says otherwise (taskmanager.memory.segment-size).
const DefaultSize = 32 << 10

// Unlimited is a maximum or quota that never binds.
const Unlimited = math.MaxInt32

// HugePages says which pages a pool asks the system for.
type HugePages uint8

const (
	// HugeAdvise maps ordinary pages and advises the kernel to use transparent huge ones. The default.
	HugeAdvise HugePages = iota
	// HugeNever maps ordinary pages and gives no advice.
	HugeNever
	// HugeTry asks for explicit huge pages and falls back to HugeAdvise if there are not enough. Usage tells what came.
	HugeTry
	// HugeMust asks for explicit huge pages and fails with ErrNoHugePages if there are not enough.
	HugeMust
)

func (h HugePages) String() string {
	return [...]string{"advise", "never", "try", "must"}[h&3]
}

// Backing says where the memory of a pool comes from.
type Backing uint8

const (
	// BackingAuto maps memory outside of the Go heap where that is possible and of use: on Linux, in builds that are
	// neither race nor nounsafe builds. The race detector doesn't see mapped memory, so a clean race run on it proves
	// nothing.
	BackingAuto Backing = iota
	// BackingHeap takes slices of the Go heap.
	BackingHeap
	// BackingMapped maps memory also in race builds. It fails with ErrConfig where there is no mapping.
	BackingMapped
)

// Config describes a Pool. The zero value of each field but Segments is its default.
type Config struct {
	SegmentSize int // bytes, DefaultSize if 0
	Segments    int // the budget: how many segments there are at most

	// SlabSegments is how many segments are mapped at a time. 0 maps all of them when the pool is made. Otherwise the
	// first slab is mapped then, further ones when they are needed, and a slab that has become idle is given back while
	// another slab's worth of segments stays free, so that a load that swings by less than a slab maps and unmaps
	// nothing.
	SlabSegments int

	Backing   Backing
	HugePages HugePages
	Prefault  bool // touch every page when it is mapped, so that lack of memory shows then
	Mlock     bool // keep the pages in memory; fails with *MemoryError if the system refuses
	TryMlock  bool // the same, but a refusal is only reported in Usage

	// OnMisuse is called for every broken rule of a handle, from the goroutine that broke it, with no lock held.
	// Without it they are only counted; a debug build panics.
	OnMisuse func(*MisuseError)
}

func (c Config) withDefaults() Config {
	if c.SegmentSize == 0 {
		c.SegmentSize = DefaultSize
	}
	if c.SlabSegments <= 0 || c.SlabSegments > c.Segments {
		c.SlabSegments = max(c.Segments, 1)
	}
	return c
}

// Validate tells whether the configuration can be met in principle. Errors wrap ErrConfig.
func (c Config) Validate() error {
	switch {
	case c.Segments < 0 || c.Segments > math.MaxInt32:
		return badConfig("Config.Segments is %d, must be 0 to %d", c.Segments, math.MaxInt32)
	case c.SegmentSize < 0 || c.SegmentSize > 1<<30:
		return badConfig("Config.SegmentSize is %d, must be 1 to %d bytes", c.SegmentSize, 1<<30)
	case c.HugePages > HugeMust:
		return badConfig("Config.HugePages is %d", c.HugePages)
	case c.Backing > BackingMapped:
		return badConfig("Config.Backing is %d", c.Backing)
	}
	return nil
}

// Purpose sorts local pools for reports.
type Purpose uint8

// The purposes.
const (
	Other   Purpose = iota
	Receive         // input gates
	Send            // result partitions
	State           // channel state, spilling

	numPurposes
)

func (p Purpose) String() string {
	if p < numPurposes {
		return [...]string{"other", "receive", "send", "state"}[p]
	}
	return "?"
}

// LocalConfig describes a LocalPool.
type LocalConfig struct {
	Name    string // for errors and reports
	Purpose Purpose

	Required int // segments guaranteed, at least 1
	Max      int // most segments without overdraft; Required if 0, Unlimited for no bound

	Subpartitions int // TakeFor accepts 0 to Subpartitions-1
	Quota         int // a subpartition with so many segments makes the pool unavailable; 0: no quota
	Overdraft     int // segments beyond the size that Take may borrow when nothing else is left; also others' by right, see Reserve

	// OnReturn is called by the owner for each segment that comes home while the pool is open, with the tag it had: in
	// Drain and Put, and where else the owner takes returns in (Take, TakeWait, Available). It may take and put.
	OnReturn func(tag uint32)

	// Wake is called by whoever returns a segment or changes the pool from another goroutine, after the change is
	// visible and with no lock held. It is for an owner that does not sleep on Notifier (a loop in epoll_wait). It must
	// be quick and safe from any goroutine.
	Wake func()
}

func (c LocalConfig) withDefaults() LocalConfig {
	if c.Max == 0 {
		c.Max = c.Required
	}
	if c.Quota == 0 {
		c.Quota = Unlimited
	}
	return c
}

func (c LocalConfig) validate() error {
	switch {
	case c.Required <= 0:
		return badConfig("%q: required number of segments (%d) must be larger than 0", c.Name, c.Required)
	case c.Max < c.Required:
		return badConfig("%q: maximum number of segments (%d) must not be smaller than the required number (%d)", c.Name, c.Max, c.Required)
	case c.Max > Unlimited:
		return badConfig("%q: maximum number of segments (%d) must not be larger than Unlimited (%d)", c.Name, c.Max, Unlimited)
	case c.Subpartitions < 0:
		return badConfig("%q: number of subpartitions is %d", c.Name, c.Subpartitions)
	case c.Quota < 0:
		return badConfig("%q: quota of a subpartition is %d", c.Name, c.Quota)
	case c.Overdraft < 0:
		return badConfig("%q: overdraft is %d", c.Name, c.Overdraft)
	}
	return nil
}
