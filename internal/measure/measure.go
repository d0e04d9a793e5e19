package measure

import (
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// WarmUp passes between the first work and the start of the window.
const WarmUp = 300 * time.Millisecond

// Result is what one process did in its window.
type Result struct {
	Role       string             `json:"role"`
	Seconds    float64            `json:"seconds"`
	Bytes      int64              `json:"bytes"`
	Items      int64              `json:"items"`
	CPUSeconds float64            `json:"cpu_s"`
	Mallocs    int64              `json:"mallocs"`
	AllocBytes int64              `json:"alloc_bytes"`
	GCs        int64              `json:"gcs"`
	GCPauseUS  float64            `json:"gc_pause_us"`
	Extra      map[string]float64 `json:"extra,omitempty"`
}

// Meter counts the work of a process. Add is for one goroutine, everything else for any. Other goroutines have a Branch each.
type Meter struct {
	_            [64]byte
	bytes, items atomic.Int64
	_            [48]byte
	root         *Meter // of a branch; itself otherwise
	started      bool

	// The root's.
	begun    chan struct{}
	once     sync.Once
	mu       sync.Mutex
	branches []*Meter // guarded by mu
}

// NewMeter returns a meter that waits for its first Add.
func NewMeter() *Meter {
	m := &Meter{begun: make(chan struct{})}
	m.root = m
	return m
}

// Branch returns a meter for one more goroutine. What it counts is m's, too.
func (m *Meter) Branch() *Meter {
	b := &Meter{root: m.root}
	m.root.mu.Lock()
	defer m.root.mu.Unlock()
	m.root.branches = append(m.root.branches, b)
	return b
}

// Add counts work that is done. It belongs to the goroutine that does the work.
func (m *Meter) Add(bytes, items int64) {
	if !m.started {
		m.started = true
		m.root.once.Do(func() { close(m.root.begun) })
	}
	m.bytes.Store(m.bytes.Load() + bytes)
	m.items.Store(m.items.Load() + items)
}

// Begun is closed at the first Add, also of a branch. For the root.
func (m *Meter) Begun() <-chan struct{} { return m.begun }

// Count is what was counted so far, with the branches.
func (m *Meter) Count() (bytes, items int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	bytes, items = m.bytes.Load(), m.items.Load()
	for _, b := range m.branches {
		bytes += b.bytes.Load()
		items += b.items.Load()
	}
	return bytes, items
}

// Window waits for the first work and the warm-up, then measures for d.
func (m *Meter) Window(role string, d time.Duration) Result {
	<-m.begun
	time.Sleep(WarmUp)
	return m.WindowNow(role, d)
}

// WindowNow measures for d from now on.
func (m *Meter) WindowNow(role string, d time.Duration) Result {
	a := m.snap()
	time.Sleep(d)
	b := m.snap()
	return Result{
		Role: role, Seconds: b.at.Sub(a.at).Seconds(), Bytes: b.bytes - a.bytes, Items: b.items - a.items,
		CPUSeconds: b.cpu - a.cpu, Mallocs: int64(b.mem.Mallocs - a.mem.Mallocs), AllocBytes: int64(b.mem.TotalAlloc - a.mem.TotalAlloc),
		GCs: int64(b.mem.NumGC - a.mem.NumGC), GCPauseUS: float64(b.mem.PauseTotalNs-a.mem.PauseTotalNs) / 1e3,
	}
}

type snapshot struct {
	at           time.Time
	bytes, items int64
	cpu          float64
	mem          runtime.MemStats
}

func (m *Meter) snap() *snapshot {
	s := &snapshot{cpu: CPUSeconds(), at: time.Now()}
	s.bytes, s.items = m.Count()
	runtime.ReadMemStats(&s.mem)
	return s
}

const resultMark = "RESULT "

// Print writes r as the line that Find reads.
func (r Result) Print(w io.Writer) error {
	line, err := json.Marshal(r)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "%s%s\n", resultMark, line)
	return err
}

// Find reads a printed result from a line of a process's output; ok is false for any other line.
func Find(line string) (r Result, ok bool) {
	rest, ok := strings.CutPrefix(line, resultMark)
	return r, ok && json.Unmarshal([]byte(rest), &r) == nil
}

// Quantile returns the p-quantile of sorted values, 0 for none.
func Quantile[T int64 | float64](sorted []T, p float64) T {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(len(sorted)-1, int(p*float64(len(sorted))))]
}

// Spread is the median of values and their quartiles.
func Spread(values []float64) (lower, median, upper float64) {
	v := slices.Clone(values)
	slices.Sort(v)
	return Quantile(v, 0.25), Quantile(v, 0.5), Quantile(v, 0.75)
}
