package align

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weirflow/weir/credit"
	"github.com/weirflow/weir/internal/modelrun"
	"github.com/weirflow/weir/segment"
	"github.com/weirflow/weir/serde/event"
)

// streamItem is what a sender has to send: a record (its number), a barrier, a cancel marker or the end.
type streamItem struct {
	what byte // r, B, C, E
	n    int64
}

// operator is a word count of sorts: for each channel how many records it saw and a checksum that tells their order.
type operator []struct{ count, sum uint32 }

func (o operator) record(ch int, n int64) {
	c := &o[ch]
	var p [12]byte
	binary.BigEndian.PutUint32(p[:], c.sum)
	binary.BigEndian.PutUint64(p[4:], uint64(n))
	c.count, c.sum = c.count+1, crc32.ChecksumIEEE(p[:])
}

// modeRun is a task in one mode: senders, a real gate, the handler or a store, and an operator that takes snapshots.
type modeRun struct {
	noTask
	mode    *streamMode
	rng     *rand.Rand
	gate    *credit.Gate
	poll    func() (credit.Item, credit.Status, error)
	in      *CheckpointedInput // nil when storing
	lines   [][]streamItem
	stopped []bool
	seqs    []int32
	now     Now
	began   map[int64]int64 // when each checkpoint did, by its id
	timer   int64           // 0: none
	due     int64
	err     error

	op        operator
	got       [][]int64
	snapshots map[int64]operator
	inFlight  map[int64]map[int][]int64
	complete  map[int64]bool
	met       modelrun.Exposure
}

// streamMode is one way to align.
type streamMode struct {
	name      string
	cfg       Config
	kind      string
	stores    bool // by storing
	bounded   bool
	runOn     bool // the senders do not stop at a barrier
	atLeast   bool
	unaligned bool // at least some checkpoints must become so
	needed    []string
}

func streamModes() []*streamMode {
	common := []string{"completed", "aborted", "ended early", "records"}
	return []*streamMode{
		{name: "aligned", kind: "al", needed: append(common, "held at sender")},
		{name: "aligned-senders-run-on", kind: "al", runOn: true, needed: common},
		{name: "unaligned", cfg: Config{Unaligned: UnalignedAlways}, kind: "un", needed: append(common, "unaligned", "persisted")},
		{name: "alternating-unaligned", cfg: Config{Unaligned: UnalignedOn}, kind: "un", needed: append(common, "unaligned", "persisted")},
		{name: "timed", cfg: Config{Unaligned: UnalignedOn}, kind: "to15", needed: append(common, "unaligned", "persisted", "timed out", "stayed aligned")},
		{name: "storing-memory", kind: "al", stores: true, bounded: true, runOn: true, needed: common},
		{name: "storing-file", kind: "al", stores: true, runOn: true, needed: common},
		{name: "at-least-once", cfg: Config{Mode: AtLeastOnce}, kind: "alo", atLeast: true, needed: append(common, "seen twice")},
	}
}

func (r *modeRun) Resume(ch int) error {
	if !r.stopped[ch] {
		if r.mode.runOn {
			return nil
		}
		return fmt.Errorf("sender %d is resumed and was not stopped", ch)
	}
	r.stopped[ch] = false
	return nil
}
func (r *modeRun) AckAll(int)                    {}
func (r *modeRun) ReleaseChannel(int)            {}
func (r *modeRun) AnnounceBufferSize(int, int32) {}

func (r *modeRun) InputData(id int64, ch int, _ int32, b segment.Buffer) {
	if r.inFlight[id] == nil {
		r.inFlight[id] = map[int][]int64{}
	}
	r.inFlight[id][ch] = append(r.inFlight[id][ch], int64(binary.BigEndian.Uint64(b.Bytes())))
	r.met["persisted"]++
}

func (r *modeRun) Trigger(b *event.Barrier, _ Metrics) error {
	if r.snapshots[b.ID] != nil {
		if r.mode.atLeast {
			return nil // the last channel repeats an id; a task refuses it
		}
		return fmt.Errorf("checkpoint %d twice", b.ID)
	}
	r.snapshots[b.ID] = slices.Clone(r.op)
	if b.Options.IsUnaligned() {
		r.met["unaligned"]++
	} else {
		r.met["stayed aligned"]++
	}
	return nil
}

func (r *modeRun) Complete(id int64) { r.complete[id] = true; r.met["completed"]++ }

func (r *modeRun) Abort(id int64, _ *CheckpointError) error {
	delete(r.snapshots, id)
	delete(r.inFlight, id)
	r.met["aborted"]++
	return nil
}

func (r *modeRun) Set(id, delay int64) { r.timer, r.due = id, r.now.Millis+delay }
func (r *modeRun) Cancel(int64)        { r.timer = 0 }

// send lets the next item of a channel arrive.
func (r *modeRun) send(ch int) {
	it := r.lines[ch][0]
	r.lines[ch] = r.lines[ch][1:]
	var b segment.Buffer
	switch it.what {
	case 'r':
		b = segment.Wrap(binary.BigEndian.AppendUint64(nil, uint64(it.n)), segment.DataBuffer)
	case 'B':
		k := r.mode.kind
		if k == "to15" && r.rng.IntN(8) == 0 {
			k = "un" // its time was over at the sender
		}
		e := barrierItem(ch, it.n, kind(k)).Event
		if _, ok := r.began[it.n]; !ok {
			r.began[it.n] = r.now.Millis
		}
		e.Barrier.Timestamp = r.began[it.n]
		b = serialized(e)
		r.stopped[ch] = b.Type().BlocksUpstream() && !r.mode.runOn
	case 'C':
		b = serialized(&event.Event{Kind: event.CancelCheckpoint, CheckpointID: it.n})
	case 'E':
		b = serialized(&event.Event{Kind: event.EndOfPartition})
	}
	r.gate.Deliver(credit.Arrival{Channel: int32(ch), Seq: r.seqs[ch], Buf: b})
	r.seqs[ch]++
}

// newModeRun puts a task together.
func newModeRun(t *testing.T, m *streamMode, seed uint64, dir string, lines [][]streamItem, met modelrun.Exposure) *modeRun {
	n := len(lines)
	r := &modeRun{mode: m, rng: rand.New(rand.NewPCG(seed, 99)), lines: slices.Clone(lines), stopped: make([]bool, n), seqs: make([]int32, n),
		began: map[int64]int64{}, op: make(operator, n), got: make([][]int64, n), snapshots: map[int64]operator{}, inFlight: map[int64]map[int][]int64{},
		complete: map[int64]bool{}, met: met}
	r.gate = credit.NewGate(credit.GateConfig{Channels: n, Upstream: r, Sink: r, Guard: credit.GuardHold})
	clock := func() Now { return r.now }
	if m.stores {
		in, err := NewStoring(StoringConfig{Limit: -1, Bounded: m.bounded, PageSize: 64, Dirs: []string{dir}, Gate: r.gate, Clock: clock})
		check(t, err, in.Register(r))
		t.Cleanup(func() { check(t, in.Close()) })
		r.poll = in.Poll
		return r
	}
	cfg := m.cfg
	cfg.Inputs, cfg.Counts, cfg.Task, cfg.Timers = []Input{r.gate}, []int{n}, r, r
	h, err := New(cfg)
	check(t, err)
	r.in = NewCheckpointedInput(r.gate, h, 0, clock, nil)
	r.poll = r.in.Poll
	return r
}

// run lets items arrive and the task read, in an order that the seed says, until all has ended.
func (r *modeRun) run() (steps int, err error) {
	slow := 1 + r.rng.IntN(8) // how often the task reads, against the senders
	for {
		steps++
		ch := r.rng.IntN(len(r.lines))
		switch {
		case r.mode.kind == "to15" && r.rng.IntN(9) == 0:
			r.now.Millis += 4
			r.now.Nanos += 4e6
			if r.timer != 0 && r.due <= r.now.Millis {
				id, before := r.timer, len(r.snapshots)
				r.timer = 0
				if err := r.in.Timeout(id); err != nil {
					return steps, err
				}
				if len(r.snapshots) > before {
					r.met["timed out"]++
				}
			}
		case r.rng.IntN(10) > slow && len(r.lines[ch]) > 0:
			if r.stopped[ch] {
				r.met["held at sender"]++
				continue
			}
			r.send(ch)
		default:
			end, err := r.read()
			if end || err != nil {
				return steps, err
			}
			if steps > 1_000_000 {
				return steps, fmt.Errorf("no end: %v are left, stopped %v", r.lines, r.stopped)
			}
		}
	}
}

// read takes one item; end: nothing is left, nor will come.
func (r *modeRun) read() (end bool, err error) {
	if r.in != nil {
		if _, err := r.in.ProcessPriority(); err != nil {
			return false, err
		}
	}
	it, st, err := r.poll()
	if err != nil || st == credit.End {
		return true, err
	}
	if st == credit.None {
		left, sent := 0, false
		for ch := range r.lines {
			left += len(r.lines[ch])
			if r.mode.atLeast && r.gate.Queued(ch) > 0 {
				return true, fmt.Errorf("nothing is handed out, and %d items wait in channel %d", r.gate.Queued(ch), ch)
			}
			if len(r.lines[ch]) > 0 && !r.stopped[ch] {
				r.send(ch)
				sent = true
				break
			}
		}
		if left > 0 && !sent {
			return true, fmt.Errorf("all senders have stopped for ever, %d items are left", left)
		}
		return false, nil
	}
	if it.Event == nil {
		n := int64(binary.BigEndian.Uint64(it.Buf.Bytes()))
		it.Buf.Release()
		r.op.record(it.Channel, n)
		r.got[it.Channel] = append(r.got[it.Channel], n)
		r.met["records"]++
	}
	return false, nil
}

// randomStreams makes the streams of all senders: the same barriers on each, in order, now and then a cancel marker in
// the place of one (it goes on with the next), and some that end early.
func randomStreams(rng *rand.Rand, met modelrun.Exposure) [][]streamItem {
	n := 1 + rng.IntN(5)
	checkpoints := rng.IntN(6)
	cancelled := make([]bool, checkpoints+1)
	for id := range cancelled {
		cancelled[id] = rng.IntN(6) == 0
	}
	lines := make([][]streamItem, n)
	number := int64(0)
	for ch := range lines {
		endsAt := checkpoints
		if rng.IntN(6) == 0 {
			endsAt = rng.IntN(checkpoints + 1)
			met["ended early"]++
		}
		for id := 0; ; id++ {
			for range rng.IntN(5) {
				number++
				lines[ch] = append(lines[ch], streamItem{'r', number})
			}
			if id == endsAt {
				break
			}
			what := byte('B')
			if cancelled[id] && rng.IntN(2) == 0 {
				what = 'C'
			}
			lines[ch] = append(lines[ch], streamItem{what, int64(id + 1)})
		}
		lines[ch] = append(lines[ch], streamItem{'E', 0})
	}
	return lines
}

// prefix is the operator's state after a replay of what a channel sent before a barrier, all of it if it sent none.
func prefix(lines [][]streamItem, id int64) (operator, [][]int64) {
	op, records := make(operator, len(lines)), make([][]int64, len(lines))
	for ch, line := range lines {
		for _, it := range line {
			if it.what == 'B' && it.n == id {
				break
			}
			if it.what == 'r' {
				op.record(ch, it.n)
				records[ch] = append(records[ch], it.n)
			}
		}
	}
	return op, records
}

// TestModelOfModes gives the same streams to a task in each mode. In each, every record comes once, in its channel's order;
// in the exactly-once ones each completed snapshot, with what was stored in flight, is the state after a replay of just
// what was sent before its barriers; at least once, it is no less, and nothing that has arrived is ever held back. make
// model STEPS=1000000 goes on for longer.
func TestModelOfModes(t *testing.T) {
	for _, m := range streamModes() {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			want, steps := modelrun.Steps(t, 20000), 0
			met := modelrun.Exposure{}
			dir := t.TempDir()
			for seed := modelrun.Seed(t); steps < want; seed++ {
				// The streams are the same in every mode: they depend on the seed alone.
				lines := randomStreams(rand.New(rand.NewPCG(seed, 3)), met)
				r := newModeRun(t, m, seed, dir, lines, met)
				n, err := r.run()
				steps += n
				met["streams"]++
				if err == nil {
					err = r.judge(lines)
				}
				if err != nil {
					t.Fatalf("seed %d, streams %v: %v", seed, lines, err)
				}
			}
			met.Report(t, m.name, steps, m.needed...)
		})
	}
}

// judge compares what the task did with what was sent.
func (r *modeRun) judge(lines [][]streamItem) error {
	_, all := prefix(lines, -1)
	for ch := range lines {
		if !slices.Equal(r.got[ch], all[ch]) {
			return fmt.Errorf("channel %d: sent %v, got %v", ch, all[ch], r.got[ch])
		}
	}
	for id, snapshot := range r.snapshots {
		if !r.complete[id] {
			continue
		}
		want, _ := prefix(lines, id)
		restored := slices.Clone(snapshot)
		for ch, records := range r.inFlight[id] {
			for _, n := range records {
				restored.record(ch, n)
			}
		}
		for ch := range lines {
			switch {
			case r.mode.atLeast && restored[ch].count < want[ch].count:
				return fmt.Errorf("checkpoint %d: %d of %d records of channel %d are in the snapshot", id, restored[ch].count, want[ch].count, ch)
			case r.mode.atLeast && restored[ch].count > want[ch].count:
				r.met["seen twice"]++
			case !r.mode.atLeast && restored[ch] != want[ch]:
				return fmt.Errorf("checkpoint %d, channel %d: restored %v, replayed %v", id, ch, restored[ch], want[ch])
			}
		}
	}
	return nil
}
