package align

import (
	"fmt"
	"math"

	"github.com/weirflow/weir/serde/event"
)

// Metrics are the numbers that go with a checkpoint (Flink: CheckpointMetricsBuilder). How many bytes were persisted, the
// StateResult says once it is known (StateResult.Bytes).
type Metrics struct {
	// Known: AlignmentNanos and AlignmentBytes have their values. If not, barriers are still missing, and Task.Measured
	// follows.
	Known bool
	// AlignmentNanos is the time from the first channel whose barrier came (or that ended) to the last one.
	AlignmentNanos int64
	// AlignmentBytes are the bytes of the data buffers that were handed out meanwhile. A buffer counts when it is handed
	// out, not when its records are processed.
	AlignmentBytes int64
	// StartDelayNanos is the time from the barrier's timestamp to the first such channel, at least 0.
	StartDelayNanos int64
}

// measure keeps the metrics of the running and the last alignment. In Flink the numbers of an alignment are two futures
// that a trigger may hand out before they complete; here `owed` says that a trigger did so.
type measure struct {
	task Task

	id       int64 // of the alignment that was started last, -1 at first
	aligning bool
	started  int64 // ns
	bytes    int64
	delay    int64 // ns

	known     bool // the two cells have values
	lastNanos int64
	lastBytes int64

	owed   bool // a trigger went out without values
	owedID int64
}

func (m *measure) init(task Task) { m.task, m.id = task, -1 }

// begin is markAlignmentStart.
func (m *measure) begin(id, timestamp int64, now Now) {
	m.reset()
	m.delay = delayNanos(timestamp, now.Millis)
	m.aligning, m.started, m.id = true, now.Nanos, id
}

// end is markAlignmentEnd.
func (m *measure) end(now Now) error {
	d := now.Nanos - m.started
	if !m.aligning || d < 0 {
		return fmt.Errorf("%w: the alignment of checkpoint %d took less than no time; is the clock monotonic?", ErrState, m.id)
	}
	m.finish(d)
	return nil
}

func (m *measure) beginAndEnd(id, timestamp int64, now Now) {
	m.begin(id, timestamp, now)
	m.finish(0)
}

// reset is resetAlignment: who still waits for the numbers of an abandoned alignment gets duration 0 and the bytes so far.
func (m *measure) reset() {
	m.finish(0)
	m.known, m.lastNanos, m.lastBytes = false, 0, 0
}

func (m *measure) finish(nanos int64) {
	if !m.known {
		m.known, m.lastNanos, m.lastBytes = true, nanos, m.bytes
		if m.owed {
			m.owed = false
			m.task.Measured(m.owedID, Metrics{Known: true, AlignmentNanos: nanos, AlignmentBytes: m.bytes, StartDelayNanos: m.delay})
		}
	}
	m.aligning, m.bytes = false, 0
}

// AddBytes counts bytes of data while an alignment runs.
func (m *measure) AddBytes(n int) {
	if m.aligning {
		m.bytes += int64(n)
	}
}

// trigger is notifyCheckpoint.
func (m *measure) trigger(b *event.Barrier) error {
	metrics := Metrics{Known: true}
	if b.ID == m.id {
		metrics = Metrics{Known: m.known, StartDelayNanos: m.delay}
		if m.known {
			metrics.AlignmentNanos, metrics.AlignmentBytes = m.lastNanos, m.lastBytes
		} else {
			m.owed, m.owedID = true, b.ID
		}
	}
	return m.task.Trigger(b, metrics)
}

// AlignmentNanos is the age of the running alignment, or the length of the last one.
func (m *measure) AlignmentNanos(now Now) int64 {
	if m.aligning {
		return now.Nanos - m.started
	}
	return m.lastNanos
}

// StartDelayNanos is that of the alignment that was started last.
func (m *measure) StartDelayNanos() int64 { return m.delay }

// delayNanos is the time since timestamp in ns, neither negative nor past the range.
func delayNanos(timestamp, millis int64) int64 {
	d := millis - timestamp
	switch {
	case timestamp > millis:
		return 0
	case d < 0 || d > math.MaxInt64/1_000_000: // d < 0: the difference left the range
		return math.MaxInt64
	}
	return d * 1_000_000
}
