package sim

import (
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/weirflow/weir/align"
	"github.com/weirflow/weir/credit"
	"github.com/weirflow/weir/serde/event"
)

// ckptMode is how the checkpoints of a run are aligned.
type ckptMode uint8

const (
	modeNone ckptMode = iota
	modeAligned
	modeAtLeastOnce
	modeUnaligned
	modeTimed // aligned, and unaligned once the timeout has passed
	numModes
)

var modeNames = [...]string{"none", "aligned", "at-least-once", "unaligned", "timed"}

func (m ckptMode) String() string { return modeNames[m] }

// alignment is how a task with this mode is configured.
func (m ckptMode) alignment() (align.Mode, align.Unaligned) {
	switch m {
	case modeAtLeastOnce:
		return align.AtLeastOnce, align.UnalignedOff
	case modeUnaligned, modeTimed:
		return align.ExactlyOnce, align.UnalignedOn
	}
	return align.ExactlyOnce, align.UnalignedOff
}

// options are those of a barrier. timeout is in ms.
func (m ckptMode) options(timeout int64) event.Options {
	o := event.Options{Alignment: event.Aligned, Timeout: event.NoTimeout}
	switch m {
	case modeAtLeastOnce:
		o.Alignment = event.AtLeastOnce
	case modeUnaligned:
		o.Alignment = event.Unaligned
	case modeTimed:
		o.Timeout = timeout
	}
	return o
}

// plan is everything about a run that the seed decides before it begins. Times are in µs of the virtual clock.
type plan struct {
	nodes   int
	stages  []int // tasks of each stage
	mode    ckptMode
	profile credit.Profile
	local   bool // tasks on the same node are joined by local channels

	segment, exclusive, floating int
	quota, overdraft, extra      int // of the writers' pools
	records, maxRecord           int // for each source; bytes of a value
	broadcast                    int // percent of records
	batch                        int // records that a task takes or writes at a time

	pipe     int // bytes that a connection holds in each direction
	stage    int // bytes of a batch of a connection
	read     int // most bytes that one read takes
	feed     int // most bytes that the decoder is given at once
	latency  int64
	jitter   int64
	partial  bool // writes take a part of what they could
	batched  bool // grants are told in portions
	packs    bool // small buffers share a message
	reuse    bool
	releaser bool // tasks give buffers back in batches

	flushEach  bool
	flushEvery int64 // 0: never by time

	interval   int64 // between checkpoints
	alignLimit int64 // of timed checkpoints, ms
	ckptLimit  int64 // after that a checkpoint is given up
	declines   int   // percent of barriers that a source replaces by a cancel marker

	stalls, loopStalls, cuts, resets int
	kills                            int  // attempts in which a channel is killed
	ckptKills                        int  // percent of checkpoints that are killed
	slow                             bool // one task takes its time
	leavers                          int  // sinks that go before the end; only without checkpoints
	resize                           bool // receivers ask for other sizes of buffers
	late                             bool // partitions are registered late
}

// pick returns one of the values.
func pick[T any](r *rand.Rand, v ...T) T { return v[r.IntN(len(v))] }

func chance(r *rand.Rand, percent int) bool { return r.IntN(100) < percent }

// newPlan draws a run. The kinds of checkpoints take turns, so that a few seeds have all of them.
func newPlan(seed uint64, r *rand.Rand) plan {
	p := plan{
		nodes: 1 + r.IntN(4),
		mode:  ckptMode(seed % uint64(numModes)),
		local: chance(r, 50),

		segment:   pick(r, 32, 48, 64, 100, 256),
		exclusive: pick(r, 0, 1, 1, 2, 2, 3),
		floating:  r.IntN(5),
		quota:     pick(r, 2, 3, 10),
		overdraft: r.IntN(4),
		extra:     r.IntN(5),
		records:   pick(r, 20, 60, 150),
		broadcast: pick(r, 0, 0, 10, 50),
		batch:     pick(r, 1, 3, 10, 40),

		pipe:     pick(r, 1, 40, 200, 1000, 4000),
		stage:    pick(r, 1, 60, 300, 2000),
		read:     pick(r, 16, 100, 1000, 100000),
		feed:     pick(r, 1, 7, 50, 100000),
		latency:  pick[int64](r, 10, 300, 3000),
		jitter:   pick[int64](r, 1, 100, 5000),
		partial:  chance(r, 50),
		batched:  chance(r, 50),
		reuse:    chance(r, 50),
		releaser: chance(r, 50),

		interval:   pick[int64](r, 2_000, 20_000, 100_000),
		alignLimit: pick[int64](r, 1, 5, 50),
		ckptLimit:  pick[int64](r, 300_000, 5_000_000),
		declines:   pick(r, 0, 0, 10),

		resize: chance(r, 20),
		late:   chance(r, 30),
	}
	if chance(r, 30) {
		p.profile = credit.Flink120
	} else {
		p.packs = chance(r, 70)
	}
	if p.pipe == 1 { // every byte by itself takes long
		p.records, p.latency, p.jitter = 10, 10, 1
	}
	p.stages = []int{1 + r.IntN(3), 1 + r.IntN(3)}
	if chance(r, 40) {
		p.stages = append(p.stages, 1+r.IntN(2))
	}
	p.maxRecord = pick(r, 4, 30, p.segment, 3*p.segment)
	if p.exclusive == 0 {
		p.floating = max(p.floating, 1)
	}
	switch r.IntN(3) {
	case 0:
		p.flushEach = true
	case 1:
		p.flushEvery = pick[int64](r, 5_000, 20_000, 100_000)
	}
	if chance(r, 40) {
		p.stalls = 1 + r.IntN(2)
	}
	if chance(r, 20) {
		p.loopStalls = 1
	}
	if chance(r, 30) {
		p.cuts = 1 + r.IntN(2)
	}
	if chance(r, 30) {
		p.resets = 1 + r.IntN(2)
	}
	if p.mode == modeNone && chance(r, 40) {
		p.leavers = 1
	}
	if chance(r, 50) {
		p.kills = 1 + r.IntN(2)
	}
	p.ckptKills = pick(r, 0, 30, 60)
	p.slow = chance(r, 20)
	return p
}

// String is the first line of a trace.
func (p *plan) String() string {
	s := fmt.Sprintf("%+v", *p)
	return strings.ReplaceAll(s, "mode:", "checkpoints:")
}
